"""Add on a clock: learned by heart first, understood much later (Power et al. 2022, arXiv:2201.02177)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from hf_attn.models.config_checks import bounded
from hf_attn.tasks.base import SpacedTask, WorkedExample
from hf_attn.tasks.batch import SPECIAL_TOKENS, Ragged, constant
from hf_attn.tasks.options import SizeChoice
from hf_attn.tasks.recipes import SMALL_TRANSFORMER, Recipe
from hf_attn.tasks.splits import HELD_OUT, SPLITS, TRAINING, VALIDATION, hash_rows
from hf_attn.utils.text import quote

PER_MILLE = 1000


@dataclass(frozen=True)
class ModularAddition(SpacedTask):
    """Add two numbers and keep the remainder: "45 + 29" → "21", with 53 as modulus.

    There are modulus² sums in all. A model knows those that it trains on by heart long before it finds the
    rule that gives the others: grokking. The smaller the share that it trains on, the later it does.

    Args:
        modulus: p, 2 to 200; the numbers are 0 … p − 1.
        train_share: share of all pairs that is trained on, 0.001 to 0.999; half of the others validate,
            half are held out.
    """

    modulus: int = bounded(53, 2, 200)
    train_share: float = bounded(0.8, 0.001, 0.999)

    name = "modular"
    title = "Modular addition"
    purpose = "add two numbers and keep the remainder"
    notation = "two whole numbers with a + between and spaces around it"
    metric = "the right remainder"
    size_name = "wraps"
    sizes = (SizeChoice("modulus", "Modulus", (53, 97, 113), 53),)
    max_source_tokens = 4  # two numbers, `+` and `</s>`
    max_target_tokens = 2  # the remainder and `</s>`
    recipes: ClassVar[Mapping[str, Recipe]] = {
        "product": Recipe(
            {
                **SMALL_TRANSFORMER,
                "hidden_size": 128,
                "intermediate_size": 512,
                "encoder_layers": 1,
                "decoder_layers": 1,
            },
            steps=1500,
            batch_size=256,
            learning_rate=3e-3,
            betas=(0.9, 0.98),
            weight_decay=1.0,  # what is known by heart costs more weight than the rule
            decay_fraction=0.0,
            evaluate_every=50,
        )
    }

    @property
    def provenance(self) -> str:
        """How the sums are split, for the card."""
        return (
            "Each pair of numbers is in one split, whichever comes first, by a hash: "
            f"{self.train_share:.0%} of the pairs are trained on, half of the others are held out for the "
            "results below, and half are kept apart for choosing settings. The split is the same on every "
            "machine."
        )

    @property
    def symbols(self) -> tuple[str, ...]:
        return (*map(str, range(self.modulus)), "+")

    @property
    def allowed(self) -> str:
        return f"two whole numbers from 0 to {self.modulus - 1} with a + between and spaces around it"

    @property
    def worked_example(self) -> WorkedExample:
        """A sum that goes once round the clock."""
        source = f"{45 % self.modulus} + {29 % self.modulus}"
        return WorkedExample(
            source,
            self.answer(source),
            "Both numbers are read alike, as a + b = b + a. Watch the two curves: the training loss is low "
            "while validation sums are still guessed; much later those are right too.",
        )

    def draw(self, generator: torch.Generator, n: int) -> tuple[Ragged, Ragged, torch.Tensor]:
        """Draw two numbers; the sorted pair is the key, so that a + b and b + a are in the same split."""
        pairs = torch.randint(0, self.modulus, (n, 2), generator=generator, device=generator.device)
        remainder = pairs.sum(dim=1, keepdim=True) % self.modulus
        one = torch.ones_like(pairs[:, 0])
        first, second, target = (
            Ragged(number + len(SPECIAL_TOKENS), one) for number in (*pairs.split(1, dim=1), remainder)
        )
        return first + constant(self.vocabulary["+"], one) + second, target, pairs.sort(dim=1).values + 1

    def key_of(self, source: str) -> list[int]:
        """The sorted numbers."""
        return [1 + int(number) for number in sorted(self.split_source(source)[::2], key=int)]

    def split_of(self, keys: torch.Tensor) -> torch.Tensor:
        """[B] index into SPLITS for keys [B, 2]: the training share first, the others in halves."""
        rank = torch.zeros_like(keys[:, 0])  # from 0 to 999, a digit a hash
        for salt in (1, 2, 3):
            rank = rank * 10 + hash_rows(torch.cat((keys, torch.full_like(keys[:, :1], salt)), dim=1))
        other = torch.where(rank % 2 == 0, SPLITS.index(VALIDATION), SPLITS.index(HELD_OUT))
        return torch.where(rank < self.train_share * PER_MILLE, SPLITS.index(TRAINING), other)

    def check_source(self, symbols: Sequence[str]) -> None:
        if [symbol == "+" for symbol in symbols] != [False, True, False]:
            self.refuse(f"{quote(' '.join(symbols))} is not a sum of two numbers")

    def answer(self, source: str) -> str:
        first, _, second = self.split_source(source)
        return str((int(first) + int(second)) % self.modulus)

    def alignment(self, source: str, target: str) -> list[list[int]]:
        """The remainder needs both numbers; `</s>` needs `</s>`."""
        self.split_source(source)
        return [*[[1, 0, 1, 0]] * len(target.split()), [0, 0, 0, 1]]

    def size_of(self, source: str) -> int:
        """How often the sum goes round the clock: 0 or 1."""
        first, _, second = self.split_source(source)
        return (int(first) + int(second)) // self.modulus
