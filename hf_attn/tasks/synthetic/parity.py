"""Say whether the number of ones is odd: every bit counts, and one overlooked turns the answer round.

A recurrent model carries one bit along and learns this at once. Attention averages, and has to tell 5 tenths
from 6 tenths (Hahn 2020, arXiv:1906.06755): it learns short sequences only, and in many more steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from hf_attn.models.config_checks import bounded
from hf_attn.tasks.base import SpacedTask, WorkedExample
from hf_attn.tasks.batch import Ragged
from hf_attn.tasks.options import SizeChoice
from hf_attn.tasks.recipes import SMALL_TRANSFORMER, Recipe

BITS = ("0", "1")
ANSWERS = ("even", "odd")


@dataclass(frozen=True)
class Parity(SpacedTask):
    """Say whether the number of ones is even or odd: "1 0 1 1" → "odd".

    Args:
        length: most bits, 2 to 40; shorter sequences are drawn too, and are learned first.
    """

    length: int = bounded(10, 2, 40)

    name = "parity"
    title = "Parity"
    purpose = "say whether the number of ones is even or odd"
    notation = "zeros and ones separated by spaces"
    metric = "even or odd, rightly"
    sizes = (SizeChoice("length", "Longest", (8, 10, 12, 16), 10),)
    symbols = (*BITS, *ANSWERS)
    source_symbols = BITS
    max_target_tokens = 2  # the answer and `</s>`
    recipes: ClassVar[Mapping[str, Recipe]] = {
        "product": Recipe(
            {
                **SMALL_TRANSFORMER,
                "encoder_layers": 1,
                "decoder_layers": 1,
                "norm_position": "post",
                "zero_init_residual": False,
            },
            steps=2500,
            learning_rate=1e-3,
            evaluate_every=50,
        )
    }

    @property
    def max_source_tokens(self) -> int:
        return self.length + 1

    @property
    def allowed(self) -> str:
        return f"1 to {self.length} zeros and ones separated by spaces"

    @property
    def worked_example(self) -> WorkedExample:
        source = " ".join("1011010011"[: self.length])
        return WorkedExample(
            source,
            self.answer(source),
            "Only the ones count, and all of them do: a head that reads the ones evenly knows their share, "
            "and with the length their number.",
        )

    def draw(self, generator: torch.Generator, n: int) -> tuple[Ragged, Ragged, torch.Tensor]:
        """Draw bits uniformly, the length being the larger of two uniform draws; the bits are the key."""
        device = generator.device
        two = torch.randint(1, self.length + 1, (2, n), generator=generator, device=device)
        lengths = two.max(dim=0).values
        bits = torch.randint(0, 2, (n, self.length), generator=generator, device=device)
        is_inside = torch.arange(self.length, device=device) < lengths.unsqueeze(1)
        ids = (bits + self.vocabulary["0"]) * is_inside
        answers = (bits * is_inside).sum(dim=1, keepdim=True) % 2 + self.vocabulary["even"]
        return Ragged(ids, lengths), Ragged(answers, torch.ones_like(lengths)), ids

    def check_source(self, symbols: Sequence[str]) -> None:
        if len(symbols) > self.length:
            self.refuse(f"The input has {len(symbols)} bits; this model reads {self.length} at most")

    def answer(self, source: str) -> str:
        return ANSWERS[self.split_source(source).count("1") % 2]

    def alignment(self, source: str, target: str) -> list[list[int]]:
        """The answer needs every 1; `</s>` needs `</s>`."""
        symbols = self.split_source(source)
        ones = [*[int(symbol == "1") for symbol in symbols], 0]
        end = [*[0] * len(symbols), 1]
        return [*[ones] * len(target.split()), end]
