"""What every task is: examples that are drawn, split, written, checked, and known to align.

A subclass says how an example is drawn and how a person writes it; splitting, sampling and encoding are here.
"""

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch

from hf_attn.tasks.sequences import (
    END,
    IGNORED,
    PAD,
    SPECIAL_TOKENS,
    Batch,
    Ragged,
    constant,
    hash_rows,
    join_batches,
)

TRAINING, VALIDATION, HELD_OUT = "training", "validation", "held-out"
SPLITS = (TRAINING, VALIDATION, HELD_OUT)
LONGEST_TEXT = 1000  # characters of an input: far more than any task reads, far less than a parser chokes on


@dataclass(frozen=True)
class Verdict:
    """Whether an answer is right, and where not.

    Attributes:
        correct: every symbol is right and none is missing.
        wrong: one flag a symbol written, True where it is not what is expected there.
        expected: the right symbols.
    """

    correct: bool
    wrong: tuple[bool, ...]
    expected: tuple[str, ...]


@dataclass(frozen=True)
class WorkedExample:
    """One example with its story, for the app, the card and the command line."""

    source: str
    target: str
    story: str


@dataclass(frozen=True)
class Recipe:
    """A model and training settings that are known to work.

    Attributes:
        model: fields of the model's configuration (hidden_size, encoder_layers, …).
        steps: optimizer steps; the learning rate falls to 0 at the last.
        batch_size: examples a step, over all processes together.
        learning_rate: the highest.
        betas: AdamW's.
        weight_decay: AdamW's, on matrices only.
        warmup_steps: steps over which the learning rate rises from 0.
        decay_fraction: part of the run, at its end, over which the learning rate falls to 0 (a trapezoid);
            0 keeps it constant.
        max_grad_norm: gradients are scaled down to this norm; 0 leaves them.
        report_every: steps between two reports.
        evaluate_every: steps between two measurements on held-out examples.
    """

    model: Mapping[str, object] = field(default_factory=dict)
    steps: int = 100
    batch_size: int = 64
    learning_rate: float = 3e-3
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.01
    warmup_steps: int = 20
    decay_fraction: float = 0.5
    max_grad_norm: float = 1.0
    report_every: int = 10
    evaluate_every: int = 10

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "report_every", "evaluate_every"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name}={value!r} must be a whole number of at least 1.")
        if not 0 < self.learning_rate < math.inf:
            raise ValueError(f"learning_rate={self.learning_rate} must be above 0; 0.003 is a good start.")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas={self.betas} must be two numbers of at least 0 and below 1.")
        for name in ("weight_decay", "max_grad_norm"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 0 and finite.")
        if self.warmup_steps < 0 or not 0 <= self.decay_fraction <= 1:
            raise ValueError(
                f"warmup_steps={self.warmup_steps} must be at least 0 and "
                f"decay_fraction={self.decay_fraction} between 0 and 1."
            )


class Task(ABC):
    """Something to learn: see DESIGN's contract in each method.

    Subclasses are frozen dataclasses, so that a task with its options is a value: comparable, hashable,
    printable.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    notation: ClassVar[str]  # how a person writes a source, in words
    metric: ClassVar[str]  # what an exact match means here, in words
    size_name: ClassVar[str] = "length"  # what `size_of` counts
    is_spaced: ClassVar[bool] = True  # a target's symbols have spaces between
    signs: ClassVar[str] = ""  # symbols of a source that have none around

    @property
    def number_width(self) -> int:
        """Digits that every number is filled up to with zeros; 0 where numbers stay as they are."""
        return 0

    # What a subclass says

    @property
    @abstractmethod
    def symbols(self) -> tuple[str, ...]:
        """Every symbol of source and target, without the special tokens."""

    @property
    @abstractmethod
    def max_source_tokens(self) -> int:
        """Longest source, `</s>` included."""

    @property
    @abstractmethod
    def max_target_tokens(self) -> int:
        """Longest target, `</s>` included."""

    @property
    @abstractmethod
    def recipes(self) -> Mapping[str, Recipe]:
        """Recipes by name: "product" (small and fast) and "document" (the documents' exact sizes)."""

    @property
    @abstractmethod
    def worked_example(self) -> WorkedExample:
        """One example with its story."""

    @abstractmethod
    def draw(self, generator: torch.Generator, n: int) -> tuple[Ragged, Ragged, torch.Tensor]:
        """Draw n examples of any split, on the generator's device.

        Returns:
            (sources, targets, keys [n, K]): without `</s>`; keys decide the split, and are equal for examples
            that give each other away.
        """

    @abstractmethod
    def split_source(self, text: str) -> list[str]:
        """Read what a person wrote into symbols; ValueError names what is wrong and what is allowed."""

    @abstractmethod
    def answer(self, source: str) -> str:
        """The right answer, computed independently of `draw`."""

    @abstractmethod
    def alignment(self, source: str, target: str) -> list[list[int]]:
        """Which source symbol each target symbol needs: [T][S], `</s>` included on both sides.

        1 where it needs it directly, 2 where indirectly (a carry), 0 elsewhere.
        """

    @abstractmethod
    def size_of(self, source: str) -> int:
        """What accuracy is told by: symbols, digits or depth."""

    def split_target(self, text: str) -> list[str]:
        """Read a target's text into symbols."""
        return text.split()

    def join_target(self, symbols: Sequence[str]) -> str:
        """Write a target's symbols as a person would."""
        return " ".join(symbols)

    def measure(self, source: str, prediction: str) -> dict[str, float]:
        """Figures beyond the exact match: here the share of symbols that are right."""
        verdict = self.verify(source, prediction)
        longest = max(len(verdict.wrong), len(verdict.expected), 1)
        return {"token_accuracy": (len(verdict.wrong) - sum(verdict.wrong)) / longest}

    # What all tasks share

    @property
    def recipe(self) -> Recipe:
        """The recipe that is used unless another is asked for."""
        return self.recipes["product"]

    @functools.cached_property
    def vocabulary(self) -> dict[str, int]:
        """Token → id, the special tokens first."""
        return {token: index for index, token in enumerate((*SPECIAL_TOKENS, *self.symbols))}

    @functools.cached_property
    def tokens(self) -> tuple[str, ...]:
        """Token of each id."""
        return tuple(self.vocabulary)

    @property
    def max_position_embeddings(self) -> int:
        """Positions a model needs for this task."""
        return max(self.max_source_tokens, self.max_target_tokens)

    def ids(self, *symbols: str) -> list[int]:
        """Ids of symbols."""
        return [self.vocabulary[symbol] for symbol in symbols]

    def encode(self, text: str) -> list[int]:
        """A person's notation → source ids, `</s>` last.

        Raises:
            ValueError: the text is empty, too long, or holds something the task does not know.
        """
        if len(text) > LONGEST_TEXT:
            raise ValueError(f"The input has {len(text)} characters; {LONGEST_TEXT} at most are read.")
        if not text.strip():
            raise ValueError(
                f"The input is empty; write {self.notation}, for example {self.worked_example.source!r}."
            )
        return [*self.ids(*self.split_source(text)), END]

    def decode(self, ids: Sequence[int]) -> str:
        """Target ids → text, up to the first `</s>`."""
        return self.join_target(self.decode_symbols(ids))

    def decode_symbols(self, ids: Sequence[int]) -> list[str]:
        """Ids → symbols, up to the first `</s>`; a special token written by mistake stays visible."""
        symbols = []
        for index in ids:
            if index == END:
                break
            symbols.append(self.tokens[index])
        return symbols

    def source_tokens(self, text: str) -> list[str]:
        """The tokens a model reads for this source, `</s>` included."""
        return [self.tokens[index] for index in self.encode(text)]

    def read_source(self, ids: Sequence[int]) -> str:
        """Source ids → the text a person would have written."""
        return self.join_source(self.decode_symbols(ids))

    def join_source(self, symbols: Sequence[str]) -> str:
        """Write a source's symbols as a person would."""
        return "".join(symbols)

    def verify(self, source: str, prediction: str) -> Verdict:
        """Judge an answer against the one computed independently."""
        expected = tuple(self.split_target(self.answer(source)))
        written = self.split_target(prediction)
        wrong = tuple(
            place >= len(expected) or symbol != expected[place] for place, symbol in enumerate(written)
        )
        return Verdict(len(written) == len(expected) and not any(wrong), wrong, expected)

    def sample(self, generator: torch.Generator, n: int) -> Batch:
        """Draw n training examples, never a held-out or validating one, on the generator's device."""
        return self._draw_split(generator, n, TRAINING)

    def held_out(self, n: int, seed: int = 0) -> Batch:
        """Draw n examples that training never sees, the same everywhere; fewer where there are fewer."""
        return fixed_set(self, HELD_OUT, n, seed)

    def validation(self, n: int, seed: int = 0) -> Batch:
        """N examples apart from training and held-out, for choosing recipes."""
        return fixed_set(self, VALIDATION, n, seed)

    def split_of(self, keys: torch.Tensor) -> torch.Tensor:
        """[B] index into SPLITS for keys [B, K]."""
        bucket = hash_rows(keys)  # bucket 0 is held out, bucket 1 validates, the other eight train
        return torch.where(bucket == 0, SPLITS.index(HELD_OUT), (bucket == 1).long())

    def batch(self, sources: Ragged, targets: Ragged) -> Batch:
        """Close sequences with `</s>` and pad them."""
        end = constant(END, sources.lengths)
        sources, targets = sources + end, targets + end
        input_ids = sources.padded(PAD)
        is_padded = bool((sources.lengths != sources.lengths[0]).any())
        mask = (input_ids != PAD).long() if is_padded else None
        return Batch(input_ids, targets.padded(IGNORED), mask)

    def batch_of(self, texts: Sequence[str], targets: Sequence[str] | None = None) -> Batch:
        """Examples that a person wrote; targets are computed where they are not given."""
        rows = [torch.tensor(self.encode(text)[:-1]) for text in texts]
        answers = [self.answer(text) for text in texts] if targets is None else targets
        written = [torch.tensor(self.ids(*self.split_target(answer)), dtype=torch.long) for answer in answers]
        return self.batch(Ragged.of(rows), Ragged.of(written))

    def _draw_split(self, generator: torch.Generator, n: int, split: str) -> Batch:
        share = {TRAINING: 0.8, VALIDATION: 0.1, HELD_OUT: 0.1}[split]
        kept: list[tuple[Ragged, Ragged]] = []
        missing, rounds = n, 0
        while missing > 0:
            rounds += 1
            if rounds > 100 and missing == n:
                raise ValueError(f"{self} has no {split} examples: allow more or longer ones.")
            sources, targets, keys = self.draw(generator, int(missing / share * 1.1) + 16)
            rows = (self.split_of(keys) == SPLITS.index(split)).nonzero().squeeze(1)[:missing]
            kept.append((sources.rows(rows), targets.rows(rows)))
            missing -= len(rows)
        if len(kept) == 1:
            return self.batch(*kept[0])
        return self.batch(Ragged.stack([s for s, _ in kept]), Ragged.stack([t for _, t in kept]))


@functools.lru_cache(maxsize=64)
def fixed_set(task: Task, split: str, n: int, seed: int) -> Batch:
    """N different examples of a split, drawn once; fewer where ten rounds in a row bring nothing new."""
    generator = torch.Generator().manual_seed(1_000_003 * (seed + 1) + SPLITS.index(split))
    seen: set[bytes] = set()
    kept: list[Batch] = []
    barren = 0
    while len(seen) < n and barren < 10:
        batch = task._draw_split(generator, max(64, min(n, 1024)), split)
        rows = []
        for row, ids in enumerate(batch.input_ids):
            key = ids[ids != PAD].numpy().tobytes()
            if key not in seen and len(seen) < n:
                seen.add(key)
                rows.append(row)
        barren = 0 if rows else barren + 1
        if rows:
            kept.append(batch[torch.tensor(rows)])
    return join_batches(kept)
