"""Checkpoints that a visitor may open: the bundled ones, the one given at the start, and the own runs."""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from hf_attn.analysis.predictions import MASKED, NEXT, WRITTEN, find_prediction
from hf_attn.checkpoints.save_load import BUNDLED, Checkpoint, list_checkpoints, load_checkpoint
from hf_attn.checkpoints.validate import CONFIG, read_json
from hf_attn.evaluation.reach import widen_task
from hf_attn.generation.decoders import is_decoder_only
from hf_attn.generation.generate import most_tokens
from hf_attn.hub.external_models import open_model
from hf_attn.interpret.attention_maps import refuse_without_attention
from hf_attn.interpret.model_inputs import read_ids
from hf_attn.interpret.token_labels import is_byte_level, name_tokens
from hf_attn.tasks import Task
from hf_attn.tasks.base import CLASSES, SEQUENCE, TEXT
from hf_attn.tasks.tokenizers.from_vocabulary import build_tokenizer

from ..core.limits import limits_here
from ..jobs.training_job import TrainingJob
from ..jobs.turns import TURNS
from ..ui.formatting import count, label_tokens
from ..ui.notices import origin_of
from .session import Session

ENGLISH = "attn-sentences"  # the bundled model that reads English
SENTINEL = "<extra_id_0>"  # of T5's tokenizer: what was left out, and is to be written
MOST_TEXT = 80  # tokens that a language model goes on for
MOST_OTHER = 64  # … and a model that names no task
UNLIMITED = 10**9  # what a tokenizer that knows no limit says is far above
KEPT_OTHERS = 4  # folders and Hub ids that a visitor opened
NONE_YET = (
    "No checkpoint yet: train one in the Train tab (copying takes a few seconds), and it is listed here."
)


@dataclass(frozen=True)
class LoadedModel:
    """A model with what is needed to read for it and to judge it."""

    chosen: str  # in the catalog: a run's id, a folder or a Hub id
    model: nn.Module
    tokenizer: object
    task: Task | None  # None where the checkpoint does not say what it learned
    weights: str  # what the weights are, in words
    run: TrainingJob | None = None  # where it is one of the session's
    revision: str = ""  # commit of one from the Hub
    # symbols of the input that was encoded last → the visitor's words that they stand for
    words: dict[str, str] = field(default_factory=dict)

    def encode(self, text: str) -> list[int]:
        """Ids of an input; ValueError says why it cannot be read."""
        limits_here().refuse_more("characters", len(text))
        if self.task is not None:
            ids = self.reader.encode(text)
            self.words.clear()
            self.words.update(self.task.stand_ins(text))
            return ids
        if self.tokenizer is None:
            ids = read_ids(text, self.model.get_input_embeddings().num_embeddings)
        else:
            ids = self.tokenizer(text)["input_ids"]
        most = self.most_read
        if not text.strip() or (most is not None and len(ids) > most):
            allowed = f"1 to {count(most)}" if most is not None else "1 and more"
            raise ValueError(f"The input has {count(len(ids))} tokens; this model reads {allowed}.")
        return ids

    @property
    def reader(self) -> Task | None:
        """The task as inputs are read and answers judged: of a model that can reach, also long ones."""
        return self.task and widen_task(self.task, self.model.config)

    def encode_target(self, text: str) -> list[int]:
        """Ids of a target for a model without a task."""
        if self.tokenizer is None:
            return read_ids(text, self.model.get_input_embeddings().num_embeddings)
        if not is_decoder_only(self.model):
            return self.tokenizer(text_target=text)["input_ids"]
        before = " " if is_byte_level(self.tokenizer) else ""  # whose words bring the space before them
        return self.tokenizer(before + text, add_special_tokens=False)["input_ids"]

    def read_text(self, ids: list[int]) -> str:
        if self.tokenizer is None:
            return " ".join(map(str, ids))
        if self.task is None:
            return self.tokenizer.decode(ids, skip_special_tokens=True)
        return self.task.name_words(self.task.decode(ids), self.words)

    @property
    def most_read(self) -> int | None:
        """How many tokens a model without a task reads; None where only memory limits it."""
        limits = (
            getattr(self.model.config, "max_position_embeddings", None),
            getattr(self.tokenizer, "model_max_length", None),
        )
        known = [limit for limit in limits if limit is not None and limit < UNLIMITED]
        return min(known, default=None)

    @property
    def has_answer(self) -> bool:
        """Whether it generates or classifies, so that an answer can be asked for."""
        return self.model.can_generate() or type(self.model).__name__.endswith("ForSequenceClassification")

    @property
    def predicts(self) -> str:
        """What it expects at each place, as `find_prediction` names it; "" where it has a task to do."""
        is_language_model = self.task is None or self.task.kind == TEXT
        return find_prediction(self.model) if is_language_model else ""

    @property
    def takes_target(self) -> bool:
        """Whether what is written may be given: of a language model it is part of the text."""
        return self.model.can_generate() and self.predicts != NEXT

    @property
    def example(self) -> str:
        """What a model that names no task is shown with: a sentence for its kind."""
        mask = getattr(self.tokenizer, "mask_token", None)
        if self.tokenizer is None:
            return "1 2 3 4 5"
        if self.predicts == MASKED and mask:
            return f"The cat sat on the {mask}."
        if self.predicts == WRITTEN and SENTINEL in self.tokenizer.get_vocab():
            return f"The cat sat on the {SENTINEL}."
        return "The cat sat on the mat because it was" if self.predicts == NEXT else "The cat sat on the mat."

    def join(self, text: str, target: str) -> tuple[str, str]:
        """(text, target) with the target behind the text where it is not apart from it."""
        return (f"{text} {target}", "") if target and self.predicts == NEXT else (text, target)

    def as_target(self, written: Sequence[int]) -> Sequence[int] | None:
        """What is written, as `attention_maps` takes it: nothing for a model that only reads."""
        return written if written or is_decoder_only(self.model) else None

    @property
    def kind(self) -> str:
        """The kind of its task: sequence, classes or text."""
        if self.task is not None:
            return self.task.kind
        return SEQUENCE if self.model.can_generate() else CLASSES

    def most_written(self, source_length: int) -> int:
        """How many tokens it writes at most, the end token included."""
        positions = getattr(self.model.config, "max_position_embeddings", None)
        if positions is None:  # a recurrent model has no positions, and one like T5 only distances
            return self.model.generation_config.max_new_tokens or MOST_OTHER
        if self.kind == TEXT:
            return min(MOST_TEXT, positions - source_length + 1)
        return most_tokens(self.model, source_length)

    def most_own(self, source_length: int) -> int:
        """How many tokens it writes where no target is given: a model without a task may never end."""
        most = self.most_written(source_length)
        return most if self.task is not None else min(MOST_OTHER, most)

    def labels(self, ids: Sequence[int]) -> list[str]:
        if self.task is None:
            return list(name_tokens(ids, self.tokenizer))
        return self.label(self.tokenizer.convert_ids_to_tokens(ids))

    def label(self, symbols: Sequence[str]) -> list[str]:
        """Name symbols for people, those that stand for a visitor's word by that word."""
        return label_tokens([self.words.get(symbol, symbol) for symbol in symbols])

    def name_likeliest(self, log_probabilities: torch.Tensor, most: int) -> list[list]:
        """[token, p] of the likeliest in a distribution over the vocabulary, [V]."""
        found = log_probabilities.topk(min(most, len(log_probabilities)))
        names = self.labels(found.indices.tolist())
        return [[name, p] for name, p in zip(names, found.values.exp().tolist(), strict=True)]

    @property
    def origin(self) -> str:
        if self.task is not None:
            return origin_of(self.model, self.weights)
        config = self.model.config.get_text_config()
        sizes = f"{config.num_hidden_layers} layers, {config.num_attention_heads} heads"
        return origin_of(self.model, self.weights, f"{type(self.model).__name__}, {sizes}")

    def class_names(self) -> list[str]:
        names = self.model.config.id2label
        return [names[index] for index in range(len(names))]


@dataclass(frozen=True)
class ModelCatalog:
    """Folders that every visitor may open; a session adds its runs, and what it pulled or opened."""

    folders: tuple[tuple[str, Path], ...] = ()  # (label, folder)

    def __deepcopy__(self, memo: dict) -> "ModelCatalog":
        return self  # gr.State copies each session; all of them have one catalog

    def choices(self, session: Session) -> list[tuple[str, str]]:
        """(label, value) of every checkpoint: this session's runs first, the newest on top."""
        runs = [
            (f"{run.name} (this session)", run.id)
            for run in reversed(session.runs.values())
            if run.model is not None
        ]
        pulled = [(f"{name} (pulled)", name) for name in reversed(session.pulled)]
        opened = [(name, name) for name in reversed(session.opened) if name not in session.pulled]
        return runs + pulled + opened + [(label, str(path)) for label, path in self.folders]

    def take(self, session: Session, name: str) -> str:
        """Open a folder or Hub id and return its choice; ValueError or OSError where it cannot be opened."""
        if not name:
            raise ValueError("Write a folder, or a Hub id such as google-bert/bert-base-uncased.")
        if name in (value for _, value in self.choices(session)):
            return name
        limits_here().refuse_path(name)
        found = open_once(name)
        if found.model.main_input_name != "input_ids":
            raise ValueError(
                f"{name} reads {found.model.main_input_name}, not text: choose a model that reads text."
            )
        refuse_without_attention(found.model)
        before = [row for row in session.opened.items() if row[0] != name]
        session.opened = dict([*before, (name, found.model.config.model_type)][-KEPT_OTHERS:])
        return name

    def find(self, session: Session, chosen: str | None) -> tuple[str, Checkpoint] | None:
        """(label, checkpoint) of a choice that is no run of the session."""
        if chosen in session.pulled:
            return chosen, open_once(str(session.pulled[chosen]))
        if chosen in session.opened:
            return chosen, open_once(chosen)
        label = next((label for label, path in self.folders if str(path) == chosen), None)
        return None if label is None else (label, load_once(chosen))

    def model_type(self, session: Session, chosen: str) -> str:
        """The model type of a choice, read without its weights."""
        if (run := session.runs.get(chosen)) is not None:
            return run.model.config.model_type
        if chosen not in session.pulled and chosen in session.opened:
            return session.opened[chosen]
        return read_model_type(str(session.pulled.get(chosen, chosen)))

    def glance(self, session: Session, chosen: str | None) -> LoadedModel | None:
        """A checkpoint, not held: a run under way is not waited for. None where it is not there."""
        if (run := session.runs.get(chosen)) is not None and run.model is not None:
            return LoadedModel(run.id, run.model, build_tokenizer(run.task), run.task, "")
        found = self.find(session, chosen)
        return LoadedModel("", found[1].model, found[1].tokenizer, found[1].task, "") if found else None

    def find_reader(self, chosen: str | None, text: str) -> str | None:
        """A bundled model of English for a text that another model cannot read; None where there is none."""
        for _, path in self.folders:
            if path.name == ENGLISH and str(path) != chosen and load_once(str(path)).task.suits(text):
                return str(path)
        return None

    @contextlib.contextmanager
    def open(self, session: Session, chosen: str | None) -> Iterator[LoadedModel]:
        """Hold a checkpoint while it is read, so that its run waits; ValueError where it is not there.

        What is counted in the background waits, too.
        """
        with TURNS.question(), self._open(session, chosen) as opened:
            yield opened

    @contextlib.contextmanager
    def _open(self, session: Session, chosen: str | None) -> Iterator[LoadedModel]:
        run = session.runs.get(chosen)
        if run is not None and run.model is not None:
            with run.looking() as model:
                yield LoadedModel(chosen, model, build_tokenizer(run.task), run.task, run.weights, run)
            return
        known = self.find(session, chosen)
        if known is None:
            raise ValueError(NONE_YET if not self.choices(session) else "Choose a checkpoint first.")
        label, found = known
        steps = found.training.get("steps")
        weights = f"{label}, step {count(steps)}" if steps else label
        if found.revision:
            weights = f"{label.partition('@')[0]} at revision {found.revision[:7]}"
        yield LoadedModel(chosen, found.model, found.tokenizer, found.task, weights, revision=found.revision)


@functools.lru_cache(maxsize=64)
def read_model_type(folder: str) -> str:
    return read_json(Path(folder) / CONFIG)["model_type"]


@functools.lru_cache(maxsize=16)
def load_once(folder: str) -> Checkpoint:
    """A bundled checkpoint, read once for all visitors."""
    return load_checkpoint(folder)


@functools.lru_cache(maxsize=2)
def open_once(name: str) -> Checkpoint:
    """A folder or Hub id that a visitor named; the last two are held in memory."""
    # where everybody may come, what only the server's own account may read stays closed
    here = limits_here()
    repo, _, revision = (name, "", "") if Path(name).is_dir() else name.partition("@")
    return open_model(repo, token=here.own_token, revision=revision or None, max_bytes=here.download_bytes)


def build_catalog(given: str | Path | None = None) -> ModelCatalog:
    """The bundled checkpoints and the given one; OSError or ValueError where that cannot be loaded."""
    folders = [(f"{path.name} (bundled)", path) for path in list_checkpoints(BUNDLED)]
    if given is not None:
        path = Path(given)
        load_once(str(path))
        folders.insert(0, (path.name, path))
    return ModelCatalog(tuple(folders))
