"""Checkpoints that a visitor may open: bundled ones, the one given at the start, and the visit's own runs."""

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from demos.shared import count, label_tokens
from demos.visits import Visit
from hf_attn.decoding import is_decoder_only
from hf_attn.hub import Checkpoint, list_checkpoints, load_checkpoint
from hf_attn.tasks import Task
from hf_attn.tasks.base import CLASSES, SEQUENCE, TEXT
from hf_attn.tokenization import build_tokenizer

MOST_TEXT = 80  # tokens that a language model goes on for
BUNDLED = Path(__file__).parent.parent / "model_cards"
NONE_YET = (
    "No checkpoint yet: train one in the Train tab (copying takes a few seconds), and it is listed here."
)


@dataclass(frozen=True)
class Opened:
    """A model with what is needed to read for it and to judge it.

    Attributes:
        task: None where the checkpoint does not say what it learned.
        weights: what the weights are, in words.
        is_untrained: no step was taken yet.
    """

    name: str
    model: nn.Module
    tokenizer: object
    task: Task | None
    weights: str
    is_untrained: bool = False

    def encode(self, text: str) -> list[int]:
        """Ids of what a person wrote; ValueError says what is wrong."""
        if self.task is not None:
            return self.task.encode(text)
        ids = self.tokenizer(text)["input_ids"]
        most = getattr(self.model.config, "max_position_embeddings", self.tokenizer.model_max_length)
        if not text.strip() or len(ids) > most:
            raise ValueError(f"The input has {count(len(ids))} tokens; this model reads 1 to {count(most)}.")
        return ids

    @property
    def kind(self) -> str:
        """What it learned: to write, to name a class, or to go on writing."""
        if self.task is not None:
            return self.task.kind
        return SEQUENCE if self.model.can_generate() else CLASSES

    def most_written(self, source_length: int) -> int:
        """How many tokens it writes at most, the end token included."""
        positions = getattr(self.model.config, "max_position_embeddings", None)
        if positions is None:  # a recurrent model has no positions
            return self.model.generation_config.max_new_tokens
        if self.kind == TEXT:
            return min(MOST_TEXT, positions - source_length + 1)
        return positions - source_length + 1 if is_decoder_only(self.model) else positions

    def labels(self, ids) -> list[str]:
        """Names of tokens, as the boards show them."""
        return label_tokens(self.tokenizer.convert_ids_to_tokens([int(index) for index in ids]))

    def class_names(self) -> list[str]:
        """Names of a classifier's classes, in the order of its outputs."""
        names = self.model.config.id2label
        return [names[index] for index in range(len(names))]


@dataclass(frozen=True)
class Shelf:
    """Folders that every visitor may open, each with its label."""

    folders: tuple[tuple[str, Path], ...] = ()

    def choices(self, visit: Visit) -> list[tuple[str, str]]:
        """(label, value) of all there is: this visit's runs first, the newest on top."""
        runs = [
            (f"{run.name} (this visit)", run.id)
            for run in reversed(visit.runs.values())
            if run.model is not None
        ]
        return runs + [(label, str(path)) for label, path in self.folders]

    def kind(self, visit: Visit, chosen: str | None) -> str:
        """What a checkpoint learned, without waiting for a run that is under way."""
        if (run := visit.runs.get(chosen)) is not None:
            return run.task.kind
        found = chosen in {str(path) for _, path in self.folders} and load_once(chosen)
        return Opened("", found.model, found.tokenizer, found.task, "").kind if found else SEQUENCE

    @contextlib.contextmanager
    def open(self, visit: Visit, chosen: str | None) -> Iterator[Opened]:
        """Hold a checkpoint while it is looked at; a run under way waits meanwhile.

        Raises:
            ValueError: there is none of that name (any more).
        """
        run = visit.runs.get(chosen)
        if run is not None and run.model is not None:
            with run.looking() as model:
                yield Opened(run.name, model, build_tokenizer(run.task), run.task, run.weights, run.step == 0)
            return
        label = next((label for label, path in self.folders if str(path) == chosen), None)
        if label is None:
            raise ValueError(NONE_YET if not self.choices(visit) else "Choose a checkpoint first.")
        found = load_once(chosen)
        steps = found.training.get("steps")
        weights = f"{label}, step {count(steps)}" if steps else label
        yield Opened(Path(chosen).name, found.model, found.tokenizer, found.task, weights)


@functools.lru_cache(maxsize=16)
def load_once(folder: str) -> Checkpoint:
    """A checkpoint that nobody changes, read once for all visitors."""
    return load_checkpoint(folder)


def build_shelf(given: str | Path | None = None) -> Shelf:
    """The bundled checkpoints and the given one.

    Raises:
        FileNotFoundError, ValueError: the given folder cannot be loaded.
    """
    folders = [(f"{path.name} (bundled)", path) for path in list_checkpoints(BUNDLED)]
    if given is not None:
        path = Path(given)
        load_once(str(path))
        folders.insert(0, (path.name, path))
    return Shelf(tuple(folders))


def refresh(
    shelf: Shelf, visit: Visit, chosen: str | None, seen: str | None
) -> tuple[list, str | None, str | None]:
    """Choices now, which of them is chosen, and the newest run that was seen: a new one is chosen at once."""
    choices = shelf.choices(visit)
    values = [value for _, value in choices]
    newest = next((value for value in values if value in visit.runs), None)
    if newest != seen and newest is not None:
        return choices, newest, newest
    return choices, chosen if chosen in values else (values[0] if values else None), newest
