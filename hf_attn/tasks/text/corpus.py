"""Tasks whose examples are read, not made: a corpus of rows, its split, and its own tokenizer.

A subclass says how rows are read (`read_rows`). What is drawn, held out, tokenized and kept in a checkpoint
is here.
"""

import functools
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import torch
from tokenizers import Tokenizer

from hf_attn.tasks.base import TEXT, Task, check_count
from hf_attn.tasks.batch import END, IGNORED, PAD, SPECIAL_TOKENS, Batch, Ragged
from hf_attn.tasks.splits import SPLITS, TRAINING, fold_text, split_by_group, stable_hash
from hf_attn.tasks.tokenizers.trained import train_tokenizer, wrap_text_tokenizer
from hf_attn.utils.text import replace_surrogates

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

MOST_POSITIONS = 512  # tokens of the longest text that a model is built for
ENCODED_AT_ONCE = 1000  # texts


class Row(NamedTuple):
    """An example as it was read."""

    source: str  # what is read
    target: str  # what is to be written, or the class's name
    group: str  # rows of one group stand in one split, because they give each other away


@dataclass(frozen=True)
class Knowledge:
    """What a checkpoint knows of its task without the data."""

    tokenizer: str  # tokenizer.json
    max_length: int  # tokens that the model reads, `</s>` included
    classes: tuple[str, ...]  # names of the classes, in the order of the model's outputs
    may_fetch: bool = False  # whether somebody here named its data set: a checkpoint's own is not fetched


@dataclass(frozen=True)
class Sequences:
    """Many sequences of ids of unequal length, end to end, so that long ones cost short ones no memory."""

    ids: torch.Tensor  # all of them
    starts: torch.Tensor  # [N], where each begins
    lengths: torch.Tensor  # [N]

    @staticmethod
    def of(rows: Sequence[Sequence[int]]) -> "Sequences":
        """Sequences given as lists."""
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
        ids = torch.tensor([index for row in rows for index in row], dtype=torch.long)
        return Sequences(ids, lengths.cumsum(0) - lengths, lengths)

    def rows(self, rows: torch.Tensor) -> Ragged:
        """Some of them, [n] → ids [n, longest], 0 behind each."""
        lengths = self.lengths[rows]
        places = torch.arange(max(1, int(lengths.max())))
        is_token = places < lengths.unsqueeze(1)
        where = (self.starts[rows].unsqueeze(1) + places).clamp(max=max(0, len(self.ids) - 1))
        ids = self.ids[where] if len(self.ids) else torch.zeros_like(where)
        return Ragged(ids * is_token, lengths)


@dataclass(frozen=True)
class Encoded:
    """A corpus as ids."""

    sources: Sequences  # of each row, without `</s>`
    targets: Sequences
    splits: torch.Tensor  # [N] index into SPLITS
    numbers: tuple[int, ...]  # of the rows, in `CorpusTask.rows`
    repeated: int  # rows left out because they read like a training row, or like another of their split


@dataclass(frozen=True)
class CorpusTask(Task):
    """A task on text that is read from somewhere, with a tokenizer trained on its training rows.

    A subclass gives `read_rows`, and may choose another `split_rows`, `tokenizer_kind` or `vocab_size`.
    Reading waits until something is asked for that needs it. A task that a checkpoint `restore`d has the
    checkpoint's tokenizer, and reads only where examples are asked for.

    Args:
        known: what a checkpoint knows; no option.
    """

    known: Knowledge | None = field(default=None, repr=False, kw_only=True, metadata={"is_option": False})

    is_computable = False
    tokenizer_kind: ClassVar[str] = "bpe"
    tokenizer_size: ClassVar[int] = 2000
    is_lowercase: ClassVar[bool] = False
    size_name = "tokens"
    origin: ClassVar[str] = "a file of the user's own"  # where the rows come from, in words
    grouped_by: ClassVar[str] = "equal texts"  # what a group is, in words
    groups_name: ClassVar[str] = "texts"

    # What a subclass says

    @abstractmethod
    def read_rows(self) -> Iterable[Row]:
        """Every row there is; ValueError in words where they cannot be read."""

    def split_rows(self, rows: Sequence[Row]) -> list[str]:
        """The split of each row."""
        return split_by_group(row.group for row in rows)

    def encode_targets(self, rows: Sequence[Row]) -> list[list[int]]:
        """Each row's target as ids, without `</s>`."""
        return encode_all(self.tokenizer.backend_tokenizer, [row.target for row in rows])

    def tokenizer_texts(self, rows: Sequence[Row]) -> list[str]:
        """What the tokenizer learns from, of training rows: sources and targets."""
        return [text for row in rows for text in (row.source, row.target)]

    # What all of them share

    @property
    def provenance(self) -> str:
        return (
            f"Examples are read from {self.origin}. About a tenth is held out for the results below, and a "
            f"tenth is kept apart for choosing settings; {self.grouped_by} stand in one split. The tokenizer "
            "is learned from the training part alone."
        )

    @functools.cached_property
    def rows(self) -> tuple[Row, ...]:
        """The rows, none twice."""
        return tuple(dict.fromkeys(self.read_rows()))

    def fingerprint(self) -> str:
        """What the rows are known by, in whatever order they stand."""
        return f"{sum(stable_hash(f'{row.source}⇥{row.target}') for row in self.rows) % 2**64:016x}"

    @functools.cached_property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.split_rows(self.rows))

    @functools.cached_property
    def tokenizer(self) -> "PreTrainedTokenizerFast":
        """The checkpoint's, or one trained on the training rows."""
        if self.known is not None:
            return wrap_text_tokenizer(Tokenizer.from_str(self.known.tokenizer), self.known.max_length)
        training = [row for row, split in zip(self.rows, self.splits, strict=True) if split == TRAINING]
        tokenizer = train_tokenizer(
            self.tokenizer_texts(training),
            self.tokenizer_kind,
            self.tokenizer_size,
            lowercase=self.is_lowercase,
        )
        tokenizer.model_max_length = self.longest_row(tokenizer.backend_tokenizer)
        return tokenizer

    def longest_row(self, tokenizer: Tokenizer) -> int:
        """Tokens of the longest source or target, `</s>` included; MOST_POSITIONS at most."""
        texts = [text for row in self.rows for text in (row.source, row.target)]
        return min(MOST_POSITIONS, 1 + max(map(len, encode_all(tokenizer, texts))))

    @functools.cached_property
    def encoded(self) -> Encoded:
        """The rows as ids; a held-out one that reads like another row is left out."""
        most = self.max_position_embeddings - 1
        texts = [row.source for row in self.rows]
        sources = [ids[:most] for ids in encode_all(self.tokenizer.backend_tokenizer, texts)]
        targets = self.encode_targets(self.rows)
        seen: dict[tuple[int, ...], int] = {}
        kept: list[int] = []
        by_split = sorted(range(len(self.rows)), key=lambda row: SPLITS.index(self.splits[row]))
        for row in by_split:  # training comes first: what it has, the others may not
            key = tuple(sources[row] or targets[row])
            if seen.setdefault(key, row) == row or self.splits[row] == TRAINING:
                kept.append(row)
        kept.sort()
        return Encoded(
            Sequences.of([sources[row] for row in kept]),
            Sequences.of([targets[row][:most] for row in kept]),
            torch.tensor([SPLITS.index(self.splits[row]) for row in kept]),
            tuple(kept),
            len(self.rows) - len(kept),
        )

    def find_split(self, source: str) -> str | None:
        """The split of a source in the data; None of any other, ValueError where the data are not here."""
        return self._split_of_source.get(fold_text(source))

    @functools.cached_property
    def _split_of_source(self) -> dict[str, str]:
        rows = zip(self.rows, self.splits, strict=True)
        return {fold_text(row.source): split for row, split in rows if row.source}

    def groups_of(self, batch: Batch) -> list[Hashable] | None:
        """The group of each row, known by its ids; what is not in the data is a group of its own."""
        keys = map(_content, batch.labels.tolist() if self.kind == TEXT else batch.input_ids.tolist())
        return [self._group_of_ids.get(key, key) for key in keys]

    @functools.cached_property
    def _group_of_ids(self) -> dict[tuple[int, ...], str]:
        encoded = self.encoded
        sequences = encoded.targets if self.kind == TEXT else encoded.sources
        rows = zip(sequences.ids.split(sequences.lengths.tolist()), encoded.numbers, strict=True)
        return {_content(ids.tolist()): self.rows[number].group for ids, number in rows}

    def restore(
        self, tokenizer: "PreTrainedTokenizerFast", classes: Sequence[str], *, may_fetch: bool = False
    ) -> "CorpusTask":
        """The task with a checkpoint's tokenizer and classes; only examples need the data."""
        text = tokenizer.backend_tokenizer.to_str()
        return replace(self, known=Knowledge(text, tokenizer.model_max_length, tuple(classes), may_fetch))

    @functools.cached_property
    def vocabulary(self) -> dict[str, int]:
        return dict(sorted(self.tokenizer.get_vocab().items(), key=lambda entry: entry[1]))

    @property
    def symbols(self) -> tuple[str, ...]:
        return self.tokens[len(SPECIAL_TOKENS) :]

    @property
    def max_source_tokens(self) -> int:
        return self.tokenizer.model_max_length

    max_target_tokens = max_source_tokens

    def tokens_of(self, text: str) -> list[str]:
        """A text's tokens, however many."""
        text = replace_surrogates(text)
        return self.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).tokens

    def split_source(self, text: str) -> list[str]:
        tokens = self.tokens_of(text)
        if len(tokens) >= self.max_source_tokens:
            raise ValueError(
                f"The input has {len(tokens)} tokens; this model reads {self.max_source_tokens - 1}: "
                "shorten it."
            )
        return tokens

    def join_source(self, symbols: Sequence[str]) -> str:
        return self.tokenizer.convert_tokens_to_string(list(symbols))

    split_target, join_target = tokens_of, join_source

    @functools.cached_property
    def _target_of(self) -> dict[str, str]:
        return {row.source: row.target for row in self.rows}

    def answer(self, source: str) -> str | None:  # noqa: ARG002
        """Nobody knows but the data."""
        return None

    def look_up(self, source: str) -> str | None:
        """The target of a source that is in the data; None of any other, or where the data are not here."""
        try:
            return self._target_of.get(source)
        except ValueError:
            return None

    def alignment(self, source: str, target: str) -> list[list[int]] | None:  # noqa: ARG002
        return None

    def size_of(self, source: str) -> int:
        """The source's tokens, up to the next power of two."""
        return 1 << max(0, len(self.tokens_of(source)) - 1).bit_length()

    def draw(self, generator: torch.Generator, n: int) -> tuple[Ragged, Ragged, torch.Tensor]:
        """Any rows at random; a row's number is its key."""
        rows = torch.randint(len(self.encoded.splits), (n,), generator=generator, device=generator.device)
        rows = rows.cpu()
        return self.encoded.sources.rows(rows), self.encoded.targets.rows(rows), rows.unsqueeze(1)

    def split_of(self, keys: torch.Tensor) -> torch.Tensor:
        return self.encoded.splits[keys[:, 0].cpu()].to(keys.device)

    def rows_of(self, split: str) -> torch.Tensor:
        """Numbers of a split's rows; ValueError where it has none."""
        rows = (self.encoded.splits == SPLITS.index(split)).nonzero().squeeze(1)
        if not len(rows):
            raise ValueError(f"{self} has no {split} examples: {len(self.rows)} rows are too few.")
        return rows

    def texts_of(self, split: str) -> list[Row]:
        """A split's rows as they were read."""
        return [self.rows[self.encoded.numbers[place]] for place in self.rows_of(split).tolist()]

    def _fixed_examples(self, split: str, n: int, seed: int) -> Batch:
        """N of a split's rows in an order fixed by the seed; all where there are fewer."""
        check_count(n)
        rows = self.rows_of(split)
        generator = torch.Generator().manual_seed(seed)
        return self._batch_of_rows(rows[torch.randperm(len(rows), generator=generator)[:n]])

    def _draw_split(self, generator: torch.Generator, n: int, split: str) -> Batch:
        rows = self.rows_of(split)
        picks = torch.randint(len(rows), (n,), generator=generator, device=generator.device)
        return self._batch_of_rows(rows[picks.cpu()]).to(generator.device)

    def _batch_of_rows(self, rows: torch.Tensor) -> Batch:
        return self.batch(self.encoded.sources.rows(rows), self.encoded.targets.rows(rows))


def _content(ids: Iterable[int]) -> tuple[int, ...]:
    """A sequence of ids without what closes and pads it."""
    return tuple(index for index in ids if index not in (PAD, END, IGNORED))


def leave_out_contradictions(rows: Iterable[Row]) -> list[Row]:
    """The rows without sources that have several targets, however they are written (`fold_text`)."""
    folded = [(row, fold_text(row.source)) for row in rows]
    targets_of = defaultdict(set)
    for row, source in folded:
        targets_of[source].add(row.target)
    return [row for row, source in folded if len(targets_of[source]) == 1]


def encode_all(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Ids of many texts, without `</s>`; some at a time: an encoding takes far more room than its ids."""
    ids: list[list[int]] = []
    for start in range(0, len(texts), ENCODED_AT_ONCE):
        part = list(texts[start : start + ENCODED_AT_ONCE])
        ids += [encoding.ids for encoding in tokenizer.encode_batch(part, add_special_tokens=False)]
    return ids
