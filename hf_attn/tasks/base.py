"""What every task is: examples that are drawn, split, written, checked, and known to align.

A subclass says how an example is drawn and how a person writes it; splitting, sampling and encoding are here.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch

SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")
PAD, START, END, UNKNOWN = range(len(SPECIAL_TOKENS))
IGNORED = -100  # a label that is not learned

TRAINING, VALIDATION, HELD_OUT = "training", "validation", "held-out"
SPLITS = (TRAINING, VALIDATION, HELD_OUT)
HASH_BUCKETS = 10  # bucket 0 is held out, bucket 1 validates, the other eight train


@dataclass(frozen=True)
class Batch:
    """Examples as tensors.

    Attributes:
        input_ids: [B, S] source ids, each ending in `</s>`, padded on the right.
        labels: [B, T] target ids, each ending in `</s>`, padded with −100.
        attention_mask: [B, S], 1 = token; None where no source is padded, so that kernels need no mask.
    """

    input_ids: torch.Tensor
    labels: torch.Tensor
    attention_mask: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.input_ids)

    def inputs(self) -> dict[str, torch.Tensor]:
        """What `model(**…)` takes to learn from."""
        given = {"input_ids": self.input_ids, "labels": self.labels, "attention_mask": self.attention_mask}
        return {name: tensor for name, tensor in given.items() if tensor is not None}

    def __getitem__(self, rows) -> "Batch":
        mask = None if self.attention_mask is None else self.attention_mask[rows]
        return Batch(self.input_ids[rows], self.labels[rows], mask)

    def to(self, device) -> "Batch":
        """The same batch on another device."""
        mask = None if self.attention_mask is None else self.attention_mask.to(device)
        return Batch(self.input_ids.to(device), self.labels.to(device), mask)


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
        measured: what this recipe was once measured to give: seconds, held_out_exact_match, on what.
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
    measured: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "report_every"):
            if not isinstance(value := getattr(self, name), int) or value < 1:
                raise ValueError(f"{name}={value!r} must be a whole number of at least 1.")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate={self.learning_rate} must be above 0; 0.003 is a good start.")
        if self.warmup_steps < 0 or not 0 <= self.decay_fraction <= 1:
            raise ValueError(
                f"warmup_steps={self.warmup_steps} must be at least 0 and "
                f"decay_fraction={self.decay_fraction} between 0 and 1."
            )


@dataclass(frozen=True)
class Ragged:
    """Sequences of unequal length: ids [B, L] with anything behind `lengths` [B] being 0."""

    ids: torch.Tensor
    lengths: torch.Tensor

    def __add__(self, other: "Ragged") -> "Ragged":
        """Write `other` behind this, row by row."""
        width = self.ids.shape[1] + other.ids.shape[1]
        ids = self.ids.new_zeros(len(self.ids), width)
        ids[:, : self.ids.shape[1]] = self.ids
        places = self.lengths.unsqueeze(1) + torch.arange(other.ids.shape[1], device=ids.device)
        return Ragged(ids.scatter_(1, places, other.ids), self.lengths + other.lengths)

    def where(self, keep: torch.Tensor) -> "Ragged":
        """Empty the rows in which `keep` [B] is False."""
        return Ragged(self.ids * keep.unsqueeze(1), self.lengths * keep)

    def padded(self, value: int) -> torch.Tensor:
        """[B, longest], with `value` behind each sequence."""
        longest = int(self.lengths.max())
        behind = torch.arange(longest, device=self.ids.device) >= self.lengths.unsqueeze(1)
        return self.ids[:, :longest].masked_fill(behind, value)


def constant(token: int, like: torch.Tensor) -> Ragged:
    """The same one token in each of `like`'s rows [B]."""
    return Ragged(torch.full_like(like, token).unsqueeze(1), torch.ones_like(like))


def hash_rows(ids: torch.Tensor) -> torch.Tensor:
    """A number from 0 to HASH_BUCKETS − 1 a row, the same on every machine.

    Args:
        ids: [B, L] non-negative integers; zeros behind an example do not count.

    Returns:
        [B], an FNV-like hash of the row, its bits stirred so that similar rows part.
    """
    state = torch.full_like(ids[:, 0], 2166136261)
    for column in ids.unbind(1):
        stirred = ((state ^ column) * 16777619 + 97) & 0x7FFFFFFF
        state = torch.where(column == PAD, state, stirred ^ (stirred >> 13))
    return ((state * 2654435761) >> 8) % HASH_BUCKETS


class Task(ABC):
    """Something to learn: see DESIGN's contract in each method.

    Subclasses are frozen dataclasses, so that a task with its options is a value: comparable, hashable, printable.
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
            (sources, targets, keys [n, K]): without `</s>`; keys decide the split, equal for examples that give
            each other away.
        """

    @abstractmethod
    def split_source(self, text: str) -> list[str]:
        """Read what a person wrote into symbols; ValueError names what is wrong and what is allowed."""

    @abstractmethod
    def answer(self, source: str) -> str:
        """The right answer, computed independently of `draw`."""

    @abstractmethod
    def alignment(self, source: str, target: str) -> list[list[int]]:
        """[T][S], `</s>` included on both sides: 1 where a target symbol needs a source symbol, 2 where indirectly."""

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
        if not text.strip():
            raise ValueError(f"The input is empty; write {self.notation}, for example {self.worked_example.source!r}.")
        return [*self.ids(*self.split_source(text)), END]

    def decode(self, ids: Sequence[int]) -> str:
        """Target ids → text, up to the first `</s>`; the start token and padding are left out."""
        return self.join_target(self.decode_symbols(ids))

    def decode_symbols(self, ids: Sequence[int]) -> list[str]:
        """Target ids → symbols, up to the first `</s>`."""
        symbols = []
        for index in ids:
            if index == END:
                break
            if index not in (PAD, START, IGNORED):
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
        wrong = tuple(place >= len(expected) or symbol != expected[place] for place, symbol in enumerate(written))
        return Verdict(len(written) == len(expected) and not any(wrong), wrong, expected)

    def sample(self, generator: torch.Generator, n: int) -> Batch:
        """Draw n training examples, never a held-out or validating one, on the generator's device."""
        return self._draw_split(generator, n, TRAINING)

    def held_out(self, n: int, seed: int = 0) -> Batch:
        """n examples that training never sees, the same on every machine; fewer where there are not so many."""
        return fixed_set(self, HELD_OUT, n, seed)

    def validation(self, n: int, seed: int = 0) -> Batch:
        """n examples apart from training and held-out, for choosing recipes."""
        return fixed_set(self, VALIDATION, n, seed)

    def split_of(self, keys: torch.Tensor) -> torch.Tensor:
        """[B] index into SPLITS for keys [B, K]."""
        bucket = hash_rows(keys)
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
        return self.batch(_ragged(rows), _ragged(written))

    def _draw_split(self, generator: torch.Generator, n: int, split: str) -> Batch:
        share = {TRAINING: 0.8, VALIDATION: 0.1, HELD_OUT: 0.1}[split]
        kept: list[tuple[Ragged, Ragged]] = []
        missing = n
        while missing > 0:
            sources, targets, keys = self.draw(generator, int(missing / share * 1.1) + 16)
            rows = (self.split_of(keys) == SPLITS.index(split)).nonzero().squeeze(1)[:missing]
            kept.append((_rows(sources, rows), _rows(targets, rows)))
            missing -= len(rows)
        if len(kept) == 1:
            return self.batch(*kept[0])
        return self.batch(_stack([s for s, _ in kept]), _stack([t for _, t in kept]))


def _rows(sequences: Ragged, rows: torch.Tensor) -> Ragged:
    return Ragged(sequences.ids[rows], sequences.lengths[rows])


def _stack(parts: Sequence[Ragged]) -> Ragged:
    width = max(part.ids.shape[1] for part in parts)
    ids = [torch.nn.functional.pad(part.ids, (0, width - part.ids.shape[1])) for part in parts]
    return Ragged(torch.cat(ids), torch.cat([part.lengths for part in parts]))


def _ragged(rows: Sequence[torch.Tensor]) -> Ragged:
    lengths = torch.tensor([len(row) for row in rows])
    return Ragged(torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True), lengths)


@functools.lru_cache(maxsize=64)
def fixed_set(task: Task, split: str, n: int, seed: int) -> Batch:
    """n different examples of a split, drawn once; fewer where ten rounds in a row bring nothing new."""
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
    return _merge(kept)


def _merge(batches: Sequence[Batch]) -> Batch:
    def widen(tensors: list[torch.Tensor], value: int) -> torch.Tensor:
        width = max(tensor.shape[1] for tensor in tensors)
        pads = [torch.nn.functional.pad(tensor, (0, width - tensor.shape[1]), value=value) for tensor in tensors]
        return torch.cat(pads)

    input_ids = widen([batch.input_ids for batch in batches], PAD)
    mask = (input_ids != PAD).long()
    return Batch(input_ids, widen([batch.labels for batch in batches], IGNORED), None if mask.all() else mask)
