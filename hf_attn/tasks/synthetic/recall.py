"""Look a key up among pairs: what an induction head does (Olsson et al. 2022, arXiv:2209.11895)."""

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from hf_attn.models.config_checks import bounded
from hf_attn.tasks.base import SpacedTask, WorkedExample
from hf_attn.tasks.batch import Ragged
from hf_attn.tasks.options import SizeChoice
from hf_attn.tasks.recipes import Recipe
from hf_attn.utils.text import quote

VALUES = tuple(string.digits)


@dataclass(frozen=True)
class Recall(SpacedTask):
    """Say which value followed a key: "a 3 b 7 c 1 b" → "7" (Ba et al. 2016, arXiv:1610.06258, §4.1).

    Args:
        max_pairs: most pairs of a key and a value, 2 to 26; fewer are drawn too.
        num_keys: how many keys there are, written a, b, c, …; no less than max_pairs, 26 at most.
    """

    max_pairs: int = bounded(4, 2, 26)
    num_keys: int = bounded(8, 2, 26)

    name = "recall"
    title = "Associative recall"
    purpose = "recall which value followed a key"
    notation = "keys (letters), each with its value (a digit) behind it, and one of the keys again"
    metric = "the right value"
    size_name = "pairs"
    sizes = (SizeChoice("max_pairs", "Pairs", (2, 4, 6, 8), 4),)
    max_target_tokens = 2  # the value and `</s>`

    # Two layers without an encoder: the least in which an induction head can form. It does not with pre-norm
    # or a learning rate of 3e-3: the answer stays one of the values, any of them.
    recipes: ClassVar[Mapping[str, Recipe]] = {
        "product": Recipe(
            {
                "hidden_size": 64,
                "intermediate_size": 128,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "norm_position": "post",
                "zero_init_residual": False,
            },
            architecture="decoder",
            steps=800,
            batch_size=128,
            learning_rate=1e-3,
            evaluate_every=20,
        )
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_pairs > self.num_keys:
            raise ValueError(
                f"max_pairs={self.max_pairs} and num_keys={self.num_keys}: "
                "choose 2 ≤ max_pairs ≤ num_keys ≤ 26."
            )

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(string.ascii_lowercase[: self.num_keys])

    @property
    def symbols(self) -> tuple[str, ...]:
        return (*self.keys, *VALUES)

    @property
    def max_source_tokens(self) -> int:
        """The pairs, the key asked for, and `</s>`."""
        return 2 * self.max_pairs + 2

    @property
    def allowed(self) -> str:
        return (
            f"1 to {self.max_pairs} different letters from a to {self.keys[-1]}, each with a digit behind "
            "it, and one of them again, separated by spaces"
        )

    @property
    def worked_example(self) -> WorkedExample:
        source = "a 3 b 7 b" if self.max_pairs == 2 else "a 3 b 7 c 1 b"
        return WorkedExample(
            source,
            self.answer(source),
            "A head of the first layer tells each value which key stood before it; a head of the second, an "
            "induction head, finds the value whose key is asked for. It can only form after the first.",
        )

    def draw(self, generator: torch.Generator, n: int) -> tuple[Ragged, Ragged, torch.Tensor]:
        """Draw different keys with their values, and one of the keys.

        The pairs in order, and the key that is asked, decide the split: no order of held-out ones is trained
        on. The number of pairs is uniform: what the head must find stands out most where there are few.
        """
        device, most = generator.device, self.max_pairs
        pairs = torch.randint(1, most + 1, (n,), generator=generator, device=device)
        keys = torch.rand((n, self.num_keys), generator=generator, device=device).argsort(dim=1)[:, :most]
        values = torch.randint(0, len(VALUES), (n, most), generator=generator, device=device)
        share = torch.rand((n, 1), generator=generator, device=device)
        asked = (share * pairs.unsqueeze(1)).long()  # [n, 1], which pair
        keys, values = keys + self.vocabulary["a"], values + self.vocabulary["0"]
        ids = torch.stack((keys, values), dim=2).flatten(1)  # [n, 2 · most]
        ids *= torch.arange(2 * most, device=device) < 2 * pairs.unsqueeze(1)
        ones = torch.ones_like(pairs)
        sources = Ragged(ids, 2 * pairs) + Ragged(keys.gather(1, asked), ones)
        is_drawn = torch.arange(most, device=device) < pairs.unsqueeze(1)
        ordered = ((keys * len(self.tokens) + values) * is_drawn).sort(dim=1).values
        return sources, Ragged(values.gather(1, asked), ones), torch.cat((ordered, keys.gather(1, asked)), 1)

    def key_of(self, source: str) -> list[int]:
        """The pairs in order, and the key that is asked."""
        *ids, asked = super().key_of(source)
        pairs = zip(ids[::2], ids[1::2], strict=True)
        return [*sorted(key * len(self.tokens) + value for key, value in pairs), asked]

    def check_source(self, symbols: Sequence[str]) -> None:
        """Keys and values in turn, no key twice, and the last one of the keys."""
        keys, asked = symbols[:-1:2], symbols[-1]
        for place, symbol in enumerate(symbols):
            if (symbol in VALUES) != bool(place % 2):
                wanted = "a digit" if place % 2 else "a letter"
                self.refuse(f"{quote(symbol)} (number {place + 1}) stands where {wanted} should")
        if len(symbols) % 2 == 0 or not keys:
            self.refuse(f"{quote(' '.join(symbols))} asks for no key")
        if len(keys) > self.max_pairs:
            self.refuse(f"The input has {len(keys)} pairs; this model reads {self.max_pairs} at most")
        if twice := [key for key in keys if keys.count(key) > 1]:
            self.refuse(f"{quote(twice[0])} has more than one value")
        if asked not in keys:
            self.refuse(f"{quote(asked)} is asked for and has no value")

    def answer(self, source: str) -> str:
        """The value, by a Python dict."""
        *pairs, asked = self.split_source(source)
        return dict(zip(pairs[::2], pairs[1::2], strict=True))[asked]

    def alignment(self, source: str, target: str) -> list[list[int]]:
        """The value needs its place (1), the key before it and the key asked for (2); `</s>` nothing."""
        symbols = self.split_source(source)
        place = symbols.index(symbols[-1])
        row = [0] * (len(symbols) + 1)
        row[place], row[place + 1], row[-2] = 2, 1, 2
        return [*[row] * len(target.split()), [0] * len(row)]

    def size_of(self, source: str) -> int:
        return len(source.split()) // 2
