"""What every task is: examples that are drawn, split, written, checked, and known to align.

A subclass says how an example is drawn and how a person writes it; splitting, sampling and encoding are here,
and what tasks share that name a class (`ClassTask`) or read symbols with spaces between (`SpacedTask`).
"""

import dataclasses
import functools
import itertools
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import torch

from hf_attn.tasks.batch import END, IGNORED, PAD, SPECIAL_TOKENS, Batch, Ragged, constant, join_batches
from hf_attn.tasks.options import SizeChoice, check_count, check_options, options_of
from hf_attn.tasks.recipes import RECURRENT, Recipe
from hf_attn.tasks.splits import HASH_BUCKETS, HELD_OUT, SPLITS, TRAINING, VALIDATION, split_by_keys
from hf_attn.utils.text import quote

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SEQUENCE, CLASSES, TEXT = "sequence", "classes", "text"  # kinds of tasks: what is learned
LONGEST_TEXT = 1000  # characters of an input: far more than any task reads, far less than a parser chokes on
# what is hard about inputs → what makes one: a source, or (source, answer)
HardInputs = Mapping[str, Callable[[], str | tuple[str, str]]]
DRAWN_AT_ONCE = 65_536  # examples, so that a million cost no more memory on the way than they are kept in


@dataclass(frozen=True)
class Verdict:
    """Whether an answer is right, and where not.

    Attributes:
        correct: every symbol is right and none is missing; None where the right answer is not known.
        wrong: one flag a symbol written, True where it is not what is expected there.
        expected: the right symbols.
    """

    correct: bool | None
    wrong: tuple[bool, ...]
    expected: tuple[str, ...]


@dataclass(frozen=True)
class WorkedExample:
    """One example with its story, for the app, the card and the command line."""

    source: str
    target: str
    story: str


def judge(written: Sequence[str], expected: Sequence[str]) -> Verdict:
    """Compare what was written with the right symbols, place by place."""
    wrong = tuple(place >= len(expected) or symbol != expected[place] for place, symbol in enumerate(written))
    return Verdict(len(written) == len(expected) and not any(wrong), wrong, tuple(expected))


def point_at(places: Sequence[int], written: int, end: int) -> list[list[int]]:
    """The alignment of symbols that need one place each.

    Args:
        places: of the source, one for each symbol of the right answer.
        written: symbols of the target; those beyond the right answer need nothing.
        end: the place of the source's `</s>`, which the target's needs.
    """
    needed = [*places[:written], *[-1] * (written - len(places)), end]
    return [[int(column == place) for column in range(end + 1)] for place in needed]


def restack(model: Mapping[str, object], architecture: str) -> dict[str, object]:
    """The sizes of one Transformer for the other: one stack as high as the two, or a decoder half as high."""
    sizes: dict[str, Any] = dict(model)
    if architecture == "decoder":
        heights = [sizes.pop(f"{stack}_layers", 2) for stack in ("encoder", "decoder")]
        return {**sizes, "num_hidden_layers": sum(heights)}
    height = sizes.pop("num_hidden_layers", 2)
    return {**sizes, "encoder_layers": height, "decoder_layers": max(1, height // 2)}


class Task(ABC):
    """Something to learn; each method says what it promises.

    Subclasses are frozen dataclasses, so that a task with its options is a value: comparable, hashable,
    printable.

    `kind` says what is learned, and with it how a batch is read and an answer is judged:
        sequence  to write a target for a source; `labels` [B, T] are the target's ids;
        classes   to name a source's class; `labels` [B] are indices into `classes`;
        text      to go on writing; a source is `<s>`, its target a passage. What counts is the share of next
                  tokens guessed, each from the true ones before it.
    """

    kind: ClassVar[str] = SEQUENCE
    name: ClassVar[str]
    title: ClassVar[str]
    purpose: ClassVar[str] = "answer as its examples do"  # behind "This model should"
    notation: ClassVar[str]  # how a person writes a source, in words
    metric: ClassVar[str]  # what an exact match means here, in words
    size_name: ClassVar[str] = "length"  # what `size_of` counts
    is_computable: ClassVar[bool] = True  # ordinary code does it exactly
    # for a call of a method of one's own file: more where it reads much
    seconds_allowed: ClassVar[float] = 60.0
    gap: ClassVar[str] = ""  # between a beginning and what is written behind it
    units: ClassVar[str] = ""  # what is judged, in the plural, where it is not the kind's own
    groups_name: ClassVar[str] = ""  # what `groups_of` tells apart, in the plural
    is_spaced: ClassVar[bool] = True  # a target's symbols have spaces between
    is_reversed: ClassVar[bool] = False  # a target's last symbol is written first
    longest_size: ClassVar[int] = 0  # the largest size beyond those that are learned; 0 where there is none
    run_symbols: ClassVar[tuple[str, ...]] = ()  # that form numbers; empty where all symbols form one run
    signs: ClassVar[str] = ""  # symbols of a source that have none around
    longest_text: ClassVar[int] = LONGEST_TEXT
    sizes: ClassVar[tuple[SizeChoice, ...]] = ()  # what a form offers
    column_options: ClassVar[tuple[str, ...]] = ()  # that name columns of the table that it must be given
    file_label: ClassVar[str] = (
        ""  # what a form calls the file of the user's own that it reads; empty for none
    )

    def __post_init__(self) -> None:
        """Refuse options that are not of their kind or outside their bounds, by a ValueError."""
        check_options(self)

    @property
    def number_width(self) -> int:
        """Digits that every number is filled up to with zeros; 0 where numbers stay as they are."""
        return 0

    @property
    def tokenizer(self) -> "PreTrainedTokenizerFast | None":
        """The task's own tokenizer, trained on its text; None where symbols and notation say it all."""
        return None

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; none unless classes are learned."""
        return ()

    @property
    def options(self) -> dict[str, object]:
        """The task's options, as `build_task` takes them."""
        return {name: getattr(self, name) for name in options_of(self)}

    @property
    def provenance(self) -> str:
        """Where the examples come from and how they are split, for the card."""
        return (
            f"Examples are drawn while training and never stored. Each falls into one of {HASH_BUCKETS} "
            f"buckets by a hash of the example itself: training draws from {HASH_BUCKETS - 2} of them, one "
            "(10 %) is held out for the results below, and one (10 %) is kept apart for choosing settings. "
            "The split is the same on every machine."
        )

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
    def longest_answer(self) -> int:
        """Most tokens of an answer, `</s>` included, also to an input of `longest_size`."""
        beyond = self.longest_size - self.largest_size if self.longest_size else 0
        return self.max_target_tokens + beyond

    @property
    def largest_size(self) -> int:
        """The largest size that is learned, which its form offers as an option; not every task has one."""
        return getattr(self, str(self.sizes[0].option))

    @property
    def size_unit(self) -> str:
        """What sizes are counted in, for people: "digits", or "symbols"."""
        return self.size_name if self.size_name == "digits" else "symbols"

    @property
    @abstractmethod
    def recipes(self) -> Mapping[str, Recipe]:
        """Recipes by name, of the architecture that suits the task.

        "product" is small and fast; "document" has a document's exact sizes, where there are any.
        """

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
    def answer(self, source: str) -> str | None:
        """The right answer, computed independently of `draw`; None where nobody knows it."""

    @abstractmethod
    def alignment(self, source: str, target: str) -> list[list[int]] | None:
        """Which source symbol each target symbol needs: [T][S], `</s>` included on both sides.

        1 where it needs it directly, 2 where indirectly (a carry), 0 elsewhere; None where that is not known.
        """

    @abstractmethod
    def size_of(self, source: str) -> int:
        """What accuracy is told by: symbols, digits or depth."""

    def split_target(self, text: str) -> list[str]:
        """Read a target's text into symbols."""
        return text.split() if self.is_spaced else list(text)

    def join_target(self, symbols: Sequence[str]) -> str:
        """Write a target's symbols as a person would."""
        return (" " if self.is_spaced else "").join(symbols)

    def measure(self, source: str, prediction: str, reference: str | None = None) -> dict[str, float]:
        """Figures beyond the exact match: here the share of symbols that are right."""
        verdict = self.verify(source, prediction, reference)
        longest = max(len(verdict.wrong), len(verdict.expected), 1)
        return {"token_accuracy": (len(verdict.wrong) - sum(verdict.wrong)) / longest}

    def count_tokens(self, labels: torch.Tensor) -> torch.Tensor:
        """Of text: which tokens of labels [B, T] are judged, bool [B, T]; all that are learned."""
        return labels != IGNORED

    def judge_tokens(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Of text: whether each judged token is guessed, bool [N], row by row; logits [B, T, V]."""
        return (logits.argmax(-1) == labels)[self.count_tokens(labels)]

    def decided(self, text: str) -> dict[int, tuple[str, frozenset[str]]]:  # noqa: ARG002
        """Of text: the words that earlier ones decide, by place from 0, as (kind, what they may be).

        One place behind the last word is the next one's. Empty where the task knows of none.
        """
        return {}

    def followups(self, text: str) -> dict[str, str]:  # noqa: ARG002
        """Of text: what a person may try next, as a few words → the new text."""
        return {}

    def chosen_first(self, source: str, target: str) -> list[bool | None] | None:  # noqa: ARG002
        """Of text, for each target token: whether it repeats the earlier of two words; None without a choice.

        None for all where the task knows of no such choice.
        """
        return None

    def sizes_of_tokens(self, labels: torch.Tensor) -> list | None:  # noqa: ARG002
        """Of text: what accuracy is told by, of each judged token; None where by nothing."""
        return None

    def groups_of(self, batch: Batch) -> list[Hashable] | None:  # noqa: ARG002
        """The group that each example was drawn with; None where each was drawn by itself."""
        return None

    def fingerprint(self) -> str:
        """What the rows that were read are known by; empty where none are read."""
        return ""

    def describe_data(self) -> str:
        """What was read of the user's own file, in a sentence; empty where there is none."""
        return ""

    def beginnings(self) -> list[str]:
        """Of text: how held-out passages begin, for a person to try."""
        return []

    def hard_inputs(self, randomness: random.Random) -> HardInputs:  # noqa: ARG002
        """Inputs on which models stumble, by what is hard about them; here none.

        Each is made from what a person may write, not from what training draws: a source, with its right
        answer where `answer` cannot compute it. What the options do not allow may be refused or left out.
        """
        return {}

    def beyond(self, size: int, n: int, seed: int = 0) -> Mapping[str, Batch]:  # noqa: ARG002
        """Draw n inputs of each kind of a size that may be larger than any learned; kind → examples.

        ValueError where the task has none.
        """
        raise ValueError(f"Task {self.name!r} has no inputs longer than those it learns: measure its own.")

    @property
    def recurrent_recipe(self) -> Recipe:
        """Where recurrent models begin."""
        return RECURRENT

    @property
    def documents(self) -> Mapping[str, Recipe]:
        """The sizes of the task's text by architecture, where that is not the architecture of `recipes`."""
        return {}

    # What all tasks share

    @property
    def recipe(self) -> Recipe:
        """The recipe that is used unless another is asked for."""
        return self.recipes["product"]

    def recipes_of(self, architecture: str) -> Mapping[str, Recipe]:
        """Recipes by name for one architecture."""
        if architecture == self.recipe.architecture:
            return self.recipes
        if architecture in ("transformer", "decoder"):
            restacked = restack(self.recipe.model, architecture)
            recipes = {"product": dataclasses.replace(self.recipe, model=restacked)}
        else:
            recipes = {"product": self.recurrent_recipe}
        if architecture in self.documents:
            recipes["document"] = self.documents[architecture]
        return {
            name: dataclasses.replace(recipe, architecture=architecture) for name, recipe in recipes.items()
        }

    def restore(
        self,
        tokenizer: "PreTrainedTokenizerFast",  # noqa: ARG002
        classes: Sequence[str],  # noqa: ARG002
        *,
        may_fetch: bool = False,  # noqa: ARG002
    ) -> "Task":
        """The task as a checkpoint knows it: what was learned from data is the checkpoint's.

        The data set that its options name is fetched only if somebody here asked for it (`may_fetch`).
        """
        return self

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

    @property
    def longest_read(self) -> int:
        """Most tokens that the tokenizer takes a model to read."""
        return self.max_position_embeddings

    def ids(self, *symbols: str) -> list[int]:
        """Ids of symbols."""
        return [self.vocabulary[symbol] for symbol in symbols]

    def encode(self, text: str) -> list[int]:
        """A person's notation → source ids, `</s>` last.

        Raises:
            ValueError: the text is empty, too long, or holds something the task does not know.
        """
        if len(text) > self.longest_text:
            raise ValueError(f"The input has {len(text)} characters; {self.longest_text} at most are read.")
        if not text.strip():
            raise ValueError(
                f"The input is empty; write {self.notation}, for example {self.worked_example.source!r}."
            )
        return [*self.ids(*self.split_source(text)), END]

    def stand_ins(self, text: str) -> dict[str, str]:  # noqa: ARG002
        """Symbols of this text that stand for words of it that the task does not know, with these words."""
        return {}

    def name_words(self, written: str, stand_ins: Mapping[str, str]) -> str:
        """What was written, with a person's words in place of the symbols that stand for them."""
        for symbol, word in stand_ins.items():
            written = written.replace(symbol, word)
        return written

    def suits(self, text: str) -> bool:  # noqa: ARG002
        """Whether a text that can be read is one that a person would give to this task."""
        return True

    def decode(self, ids: Sequence[int]) -> str:
        """Target ids → text, up to the first `</s>`."""
        return self.join_target(self.decode_symbols(ids))

    def decode_symbols(self, ids: Sequence[int]) -> list[str]:
        """Ids → symbols, up to the first `</s>`; a special token written by mistake stays visible."""
        return [self.tokens[index] for index in itertools.takewhile(lambda index: index != END, ids)]

    def refuse_foreign(self, text: str, known: Container[str], wanted: str) -> None:
        """Refuse a character that is neither known nor a space; ValueError says what is wanted instead."""
        for place, character in enumerate(text, 1):
            if not character.isspace() and character not in known:
                raise ValueError(
                    f"{character!r} (character {place}) is not allowed: write {wanted}, "
                    f"for example {self.worked_example.source!r}."
                )

    def source_tokens(self, text: str) -> list[str]:
        """The tokens a model reads for this source, `</s>` included."""
        return [self.tokens[index] for index in self.encode(text)]

    def read_source(self, ids: Sequence[int]) -> str:
        """Source ids → the text a person would have written."""
        return self.join_source(self.decode_symbols(ids))

    def join_source(self, symbols: Sequence[str]) -> str:
        """Write a source's symbols as a person would."""
        return "".join(symbols)

    def verify(self, source: str, prediction: str, reference: str | None = None) -> Verdict:
        """Judge an answer against the one computed independently.

        Args:
            source: as a person writes it.
            prediction: the answer to judge.
            reference: what the data say, for tasks that cannot compute an answer.
        """
        answer = self.answer(source)
        right = reference if answer is None else answer
        if right is None:
            return Verdict(None, (), ())
        return judge(self.split_target(prediction), self.split_target(right))

    def sample(self, generator: torch.Generator, n: int) -> Batch:
        """Draw n training examples, never a held-out or validating one, on the generator's device."""
        check_count(n)
        return self._draw_split(generator, n, TRAINING)

    def held_out(self, n: int, seed: int = 0) -> Batch:
        """Draw n examples that training never sees, the same everywhere; fewer where there are fewer."""
        return self._fixed_examples(HELD_OUT, n, seed)

    def validation(self, n: int, seed: int = 0) -> Batch:
        """Draw n examples apart from both: they stop runs, draw curves and choose recipes."""
        return self._fixed_examples(VALIDATION, n, seed)

    def measured_examples(self, split: str, n: int, seed: int = 0) -> Batch:
        """Draw n examples of a split that is measured on; ValueError for another.

        Training examples say nothing about what was learned.
        """
        if split not in (HELD_OUT, VALIDATION):
            raise ValueError(
                f"split={quote(split)} cannot be measured on; choose {HELD_OUT!r} or {VALIDATION!r}."
            )
        return self.held_out(n, seed) if split == HELD_OUT else self.validation(n, seed)

    def _fixed_examples(self, split: str, n: int, seed: int) -> Batch:
        check_count(n)
        return fixed_set(self, split, n, seed)

    def split_of(self, keys: torch.Tensor) -> torch.Tensor:
        """[B] index into SPLITS for keys [B, K]."""
        return split_by_keys(keys)

    def key_of(self, source: str) -> list[int]:
        """What `draw` splits this source by: its ids, where a subclass does not say otherwise."""
        return self.encode(source)[:-1]

    def find_split(self, source: str) -> str | None:
        """The split that a source falls into; None where no split has it.

        Raises:
            ValueError: the source cannot be read.
        """
        self.encode(source)
        return SPLITS[int(self.split_of(torch.tensor([self.key_of(source)])))]

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
        answers = [self.answer(text) or "" for text in texts] if targets is None else targets
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
            drawn = min(int(missing / share * 1.1) + 16, DRAWN_AT_ONCE)
            sources, targets, keys = self.draw(generator, drawn)
            rows = (self.split_of(keys) == SPLITS.index(split)).nonzero().squeeze(1)[:missing]
            kept.append((sources.rows(rows), targets.rows(rows)))
            missing -= len(rows)
        if len(kept) == 1:
            return self.batch(*kept[0])
        return self.batch(Ragged.stack([s for s, _ in kept]), Ragged.stack([t for _, t in kept]))


@functools.lru_cache(maxsize=64)
def fixed_set(task: Task, split: str, n: int, seed: int) -> Batch:
    """N different examples of a split, drawn once; fewer where ten rounds in a row bring nothing new."""
    generator = torch.Generator().manual_seed((1_000_003 * (seed + 1) + SPLITS.index(split)) % 2**63)
    seen: set[bytes] = set()
    kept: list[Batch] = []
    barren = 0
    while len(seen) < n and barren < 10:
        batch = task._draw_split(generator, max(64, min(n, 1024)), split)
        rows = []
        for row, ids in enumerate(batch.labels if task.kind == TEXT else batch.input_ids):
            key = ids[(ids != PAD) & (ids != IGNORED)].numpy().tobytes()
            if key not in seen and len(seen) < n:
                seen.add(key)
                rows.append(row)
        barren = 0 if rows else barren + 1
        if rows:
            kept.append(batch[torch.tensor(rows)])
    return join_batches(kept)


class ClassTask(Task):
    """A task that names a source's class."""

    kind = CLASSES
    max_target_tokens = 1

    def split_target(self, text: str) -> list[str]:
        return [text]

    def decode(self, ids: Sequence[int]) -> str:
        """[index] → the class's name."""
        return self.classes[ids[0]]

    def measure(self, source: str, prediction: str, reference: str | None = None) -> dict[str, float]:  # noqa: ARG002
        return {}

    def batch(self, sources: Ragged, targets: Ragged) -> Batch:
        """Close and pad the sources; labels [B] are classes."""
        closed = super().batch(sources, targets)
        return Batch(closed.input_ids, targets.ids[:, 0], closed.attention_mask)


def spaced(make: Callable[[], Sequence]) -> Callable[[], str]:
    """Make a source of symbols with spaces between."""
    return lambda: " ".join(map(str, make()))


class SpacedTask(Task):
    """A task that reads symbols with spaces between, and refuses those it does not know."""

    @property
    def source_symbols(self) -> tuple[str, ...]:
        """The symbols that a source may hold."""
        return self.symbols

    @property
    @abstractmethod
    def allowed(self) -> str:
        """What a source is made of, in words, with its limits."""

    @abstractmethod
    def check_source(self, symbols: Sequence[str]) -> None:
        """ValueError where known symbols make no source of this task."""

    def split_source(self, text: str) -> list[str]:
        """Read symbols with spaces between."""
        symbols = text.split()
        if not symbols:
            self.refuse("The input is empty")
        known = frozenset(self.source_symbols)
        for place, symbol in enumerate(symbols, 1):
            if symbol not in known:
                self.refuse(f"{quote(symbol)} (number {place}) is not a symbol of {self.name}")
        self.check_source(symbols)
        return symbols

    def refuse(self, fault: str) -> NoReturn:
        """Say what is wrong with a source, what is allowed, and give an example."""
        raise ValueError(f"{fault}: write {self.allowed}, for example {self.worked_example.source!r}.")

    def join_source(self, symbols: Sequence[str]) -> str:
        return " ".join(symbols)

    def size_of(self, source: str) -> int:
        return len(source.split())
