"""Copy a sequence of symbols: the simplest thing that needs attention to find its place."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from hf_attn.models.config_checks import bounded
from hf_attn.tasks.base import HardInputs, SpacedTask, WorkedExample, spaced
from hf_attn.tasks.batch import SPECIAL_TOKENS, Batch, Ragged
from hf_attn.tasks.options import SizeChoice
from hf_attn.tasks.recipes import SMALL_TRANSFORMER, Recipe
from hf_attn.tasks.splits import HELD_OUT

LONGEST = 1_000  # symbols: a hundred times what models of 10 are tried on
# the size of “The Birth of Transformers”, which is small already
COPIER: Mapping[str, object] = {
    **SMALL_TRANSFORMER,
    "intermediate_size": 128,
    "num_attention_heads": 2,
    "embedding_initializer_range": 1.0,
    "position_initializer_range": 1.0,
}

# Of two heads in one layer, a single one is often needed; with two layers the others do the same.
ONE_LAYER_COPIER: Mapping[str, object] = {**COPIER, "encoder_layers": 1, "decoder_layers": 1}


@dataclass(frozen=True)
class SymbolSequences(SpacedTask):
    """What copying and reversing share: sequences of symbols, read from their places.

    Args:
        max_length: longest sequence, 1 to LONGEST symbols.
        min_length: shortest; equal to max_length for sequences of one length.
        num_symbols: how many symbols there are, written 1 … num_symbols.
    """

    max_length: int = bounded(20, 1, LONGEST)
    min_length: int = bounded(1, 1, LONGEST)
    num_symbols: int = bounded(19, 2, 10_000)

    notation = "whole numbers separated by spaces"
    metric = "every symbol right"
    longest_size = LONGEST
    longest_text = 6 * LONGEST
    sizes = (SizeChoice("max_length", "Longest", (5, 10, 20, 40), 20),)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_length > self.max_length:
            raise ValueError(
                f"min_length={self.min_length} and max_length={self.max_length}: "
                f"choose 1 ≤ min_length ≤ max_length ≤ {LONGEST}."
            )

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(str(number) for number in range(1, self.num_symbols + 1))

    @property
    def max_source_tokens(self) -> int:
        return self.max_length + 1

    max_target_tokens = max_source_tokens

    @property
    def allowed(self) -> str:
        return f"whole numbers from 1 to {self.num_symbols} separated by spaces"

    @property
    def example(self) -> str:
        """The sequence of “The Birth of Transformers”, as far as the options allow."""
        own = (7, 15, 2, 3, 12)
        length = min(max(len(own), self.min_length), self.max_length)
        return " ".join(str((own[place % len(own)] - 1) % self.num_symbols + 1) for place in range(length))

    def draw_sequences(self, generator: torch.Generator, n: int) -> Ragged:
        """Draw symbols uniformly.

        A length is the larger of two uniform draws, so that far positions are met often enough to be learned.
        """
        device = generator.device
        two = torch.randint(self.min_length, self.max_length + 1, (2, n), generator=generator, device=device)
        lengths = two.max(dim=0).values
        first = len(SPECIAL_TOKENS)
        shape = (n, self.max_length)
        ids = torch.randint(first, first + self.num_symbols, shape, generator=generator, device=device)
        ids *= torch.arange(self.max_length, device=device) < lengths.unsqueeze(1)
        return Ragged(ids, lengths)

    def check_source(self, symbols: Sequence[str]) -> None:
        if not self.min_length <= len(symbols) <= self.max_length:
            raise ValueError(
                f"The input has {len(symbols)} symbols; this model reads {self.min_length} to "
                f"{self.max_length}."
            )

    def beyond(self, size: int, n: int, seed: int = 0) -> Mapping[str, Batch]:
        """Draw n held-out sequences of so many symbols."""
        return {HELD_OUT: replace(self, min_length=size, max_length=size).held_out(n, seed)}

    def hard_inputs(self, randomness: random.Random) -> HardInputs:
        """What repeats leaves a model little by which to know its place."""
        choose = randomness.choice

        def length() -> int:
            return randomness.randint(self.min_length, self.max_length)

        def one_among_equals() -> list[str]:
            row = [choose(self.symbols)] * length()
            row[randomness.randrange(len(row))] = choose(self.symbols)
            return row

        def in_turn() -> list[str]:
            return [choose(self.symbols), choose(self.symbols)] * length()

        def twice_over() -> list[str]:
            return randomness.choices(self.symbols, k=max(1, length() // 2)) * 2

        def mirrored() -> list[str]:
            half = randomness.choices(self.symbols, k=max(1, length() // 2))
            return [*half, *reversed(half)]

        def counting() -> list[str]:
            first = randomness.randrange(len(self.symbols))
            return [self.symbols[(first + step) % len(self.symbols)] for step in range(length())]

        makers = {
            "one symbol again and again": lambda: [choose(self.symbols)] * length(),
            "two symbols in turn": lambda: in_turn()[: length()],
            "one symbol among equal ones": one_among_equals,
            "a passage twice over": twice_over,
            "the same from both ends": mirrored,
            "counting up": counting,
            "two symbols, at the greatest length": lambda: randomness.choices(
                randomness.sample(self.symbols, 2), k=self.max_length
            ),
        }
        return {name: spaced(make) for name, make in makers.items()}


@dataclass(frozen=True)
class Copying(SymbolSequences):
    """Write the source again: "7 15 2 3" → "7 15 2 3".

    Its options are those of `SymbolSequences`.
    """

    name = "copy"
    title = "Copy"
    purpose = "copy what it reads"
    sizes = (SizeChoice("max_length", "Longest", (5, 10, 20, 40), 10),)  # which "quick" was found for
    recipes: ClassVar[Mapping[str, Recipe]] = {
        "product": Recipe(COPIER, steps=120, batch_size=64, learning_rate=5e-3, warmup_steps=20),
        "document": Recipe(COPIER, steps=100, batch_size=40, learning_rate=5e-3, warmup_steps=20),
        "quick": Recipe(ONE_LAYER_COPIER, steps=60, batch_size=64, learning_rate=5e-3, warmup_steps=20),
    }

    @property
    def worked_example(self) -> WorkedExample:
        return WorkedExample(
            self.example,
            self.example,
            "Each symbol written reads the one at its own place: in the map that is the diagonal.",
        )

    def draw(self, generator: torch.Generator, n: int) -> tuple[Ragged, Ragged, torch.Tensor]:
        """Draw sequences; the symbols are the key of the split."""
        sequences = self.draw_sequences(generator, n)
        return sequences, sequences, sequences.ids

    def answer(self, source: str) -> str:
        return " ".join(self.split_source(source))

    def alignment(self, source: str, target: str) -> list[list[int]]:
        """The diagonal; `</s>` needs `</s>`."""
        size = len(self.encode(source))
        return [[int(row == column) for column in range(size)] for row in range(len(target.split()) + 1)]
