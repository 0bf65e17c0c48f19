"""Put numbers in order: each one written must be compared with all that are left."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from hf_attn.models.config_checks import bounded
from hf_attn.tasks.base import HardInputs, SpacedTask, WorkedExample, point_at, spaced
from hf_attn.tasks.batch import PAD, SPECIAL_TOKENS, Batch, Ragged
from hf_attn.tasks.options import SizeChoice
from hf_attn.tasks.recipes import RECURRENT, RECURRENT_DOCUMENT, SMALL_TRANSFORMER, Recipe
from hf_attn.tasks.splits import HELD_OUT

LONGEST = 1_000  # numbers: as many as copying has symbols


@dataclass(frozen=True)
class Sorting(SpacedTask):
    """Write numbers in ascending order: "9 4 17 4" → "4 4 9 17".

    Args:
        length: most numbers, 1 to LONGEST; “Learn AI Series (#51)” sorts 8.
        smallest: the smallest number, at least 0.
        largest: the largest, at most 99.
        shortest: fewest numbers, all counts up to `length` being equally likely; 0 where there are always
            `length`.
    """

    length: int = bounded(8, 1, LONGEST)
    smallest: int = bounded(2, 0, 98)
    largest: int = bounded(19, 1, 99)
    shortest: int = bounded(0, 0, LONGEST)

    name = "sort"
    title = "Sorting"
    purpose = "write numbers in ascending order"
    notation = "whole numbers separated by spaces"
    metric = "every number right"
    longest_text = 3 * LONGEST
    size_unit = "numbers"
    sizes = (SizeChoice("length", "Numbers", (4, 8, 12, 16), 8),)

    recipes: ClassVar[Mapping[str, Recipe]] = {
        "product": Recipe({**SMALL_TRANSFORMER, "encoder_layers": 1}, steps=400, learning_rate=5e-3)
    }
    recurrent_recipe = replace(RECURRENT, steps=400)
    # that of “Learn AI Series (#51)”, without attention: 40 epochs of 3,200 examples
    documents: ClassVar[Mapping[str, Recipe]] = {
        "none": replace(RECURRENT_DOCUMENT, steps=2000, evaluate_every=50)
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.smallest >= self.largest:
            raise ValueError(
                f"smallest={self.smallest} and largest={self.largest}: choose 0 ≤ smallest < largest ≤ 99."
            )
        if self.shortest > self.length:
            raise ValueError(
                f"shortest={self.shortest} and length={self.length}: "
                f"choose 0 ≤ shortest ≤ length ≤ {LONGEST}."
            )

    @property
    def longest_size(self) -> int:  # type: ignore[override]
        """As many numbers as may be; none beyond where only one count is learned."""
        return LONGEST if self.shortest else 0

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(str(number) for number in range(self.smallest, self.largest + 1))

    @property
    def max_source_tokens(self) -> int:
        return self.length + 1

    max_target_tokens = max_source_tokens

    @property
    def allowed(self) -> str:
        count = "" if self.shortest else f"{self.length} "
        return f"{count}whole numbers from {self.smallest} to {self.largest} separated by spaces"

    @property
    def worked_example(self) -> WorkedExample:
        """Numbers with one twice, as far as the options allow."""
        own = (9, 4, 17, 12, 4, 19, 2, 8)
        span = self.largest - self.smallest + 1
        length = min(max(len(own), self.shortest or self.length), self.length)
        numbers = [self.smallest + (own[place % len(own)] - 2) % span for place in range(length)]
        source = " ".join(map(str, numbers))
        return WorkedExample(
            source,
            self.answer(source),
            "Each number written reads the smallest that is left, wherever it stands: the map has one dark "
            "square in every row and no diagonal. Of two equal numbers either would do.",
        )

    def draw(self, generator: torch.Generator, n: int) -> tuple[Ragged, Ragged, torch.Tensor]:
        """Draw numbers uniformly; in order they are the key: no order of held-out ones is trained on."""
        first = len(SPECIAL_TOKENS)  # ids are in the numbers' order
        shape, device = (n, self.length), generator.device
        end = first + len(self.symbols)
        ids = torch.randint(first, end, shape, generator=generator, device=device)
        lengths = torch.full((n,), self.length, device=device)
        if self.shortest:
            lengths = torch.randint(self.shortest, self.length + 1, (n,), generator=generator, device=device)
        is_behind = torch.arange(self.length, device=device) >= lengths[:, None]
        ordered = ids.masked_fill(is_behind, end).sort(dim=1).values.masked_fill(is_behind, PAD)
        return Ragged(ids.masked_fill(is_behind, PAD), lengths), Ragged(ordered, lengths), ordered

    def key_of(self, source: str) -> list[int]:
        """The numbers in order."""
        return sorted(super().key_of(source))

    def check_source(self, symbols: Sequence[str]) -> None:
        if not (self.shortest or self.length) <= len(symbols) <= self.length:
            counts = f"{self.shortest} to {self.length}" if self.shortest else self.length
            self.refuse(f"The input has {len(symbols)} numbers; this model sorts {counts}")

    def answer(self, source: str) -> str:
        """The numbers in order, by Python's `sorted`."""
        return " ".join(map(str, sorted(map(int, self.split_source(source)))))

    def alignment(self, source: str, target: str) -> list[list[int]]:
        """Each number needs its own place in the source, equal ones in turn; `</s>` needs `</s>`."""
        numbers = [int(symbol) for symbol in self.split_source(source)]
        order = sorted(range(len(numbers)), key=numbers.__getitem__)  # Python's sort keeps equals in order
        return point_at(order, len(target.split()), len(numbers))

    def beyond(self, size: int, n: int, seed: int = 0) -> Mapping[str, Batch]:
        """Draw n held-out inputs of so many numbers."""
        if not self.longest_size:
            return super().beyond(size, n, seed)
        return {HELD_OUT: replace(self, length=size, shortest=size).held_out(n, seed)}

    def hard_inputs(self, randomness: random.Random) -> HardInputs:
        """Equal numbers, and orders that chance hardly ever draws."""
        numbers = [int(symbol) for symbol in self.symbols]

        def drawn(among: list[int]) -> list[int]:
            return randomness.choices(among, k=self.length)

        def all_but_one() -> list[int]:
            row = [randomness.choice(numbers)] * self.length
            row[randomness.randrange(self.length)] = randomness.choice(numbers)
            return row

        makers = {
            "one number again and again": lambda: drawn([randomness.choice(numbers)]),
            "all equal but one": all_but_one,
            "two different numbers": lambda: drawn(randomness.sample(numbers, 2)),
            "no number twice": lambda: randomness.sample(numbers, self.length),
            "in order already": lambda: sorted(drawn(numbers)),
            "in descending order": lambda: sorted(drawn(numbers), reverse=True),
            "the four smallest numbers": lambda: drawn(numbers[:4]),
            "the four largest numbers": lambda: drawn(numbers[-4:]),
        }
        return {name: spaced(make) for name, make in makers.items()}
