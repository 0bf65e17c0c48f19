"""Save, load and list checkpoint folders: the files that the Hub wants, and nothing else."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from hf_attn.architectures.families import FAMILIES, Family, is_ours, register_auto_classes
from hf_attn.architectures.memory import check_loaded
from hf_attn.checkpoints.model_card import build_card
from hf_attn.checkpoints.training_record import describe_model, describe_task, find_versions, write_record
from hf_attn.checkpoints.validate import (
    CHECKPOINT,
    CONFIG,
    NEEDED_FILES,
    TRAINING,
    WEIGHTS,
    check_files,
    check_generation,
    check_weights,
    class_of,
    load_config,
    load_tokenizer,
    read_json,
    read_training,
)
from hf_attn.evaluation.metrics import check_finite, refuse_too_long
from hf_attn.models.own_attention import try_own_attention
from hf_attn.tasks import TASKS, Task, build_task, find_task
from hf_attn.tasks.base import CLASSES
from hf_attn.tasks.tokenizers.from_vocabulary import build_tokenizer
from hf_attn.utils.atomic_write import FolderKind, atomic_directory
from hf_attn.utils.model_lock import building_model
from hf_attn.utils.text import quote, replace_surrogates, shorten
from hf_attn.viz.example_map import find_worked_map

_ROOT = Path(__file__).parents[2]
# the bundled checkpoints: beside the package in a clone and in a Space, within the app where it is installed
BUNDLED = next(
    (path for path in (_ROOT / "model_cards", _ROOT / "hf_attn_app" / "model_cards") if path.is_dir()),
    _ROOT / "model_cards",
)


@dataclass(frozen=True)
class Checkpoint:
    """A trained model with what belongs to it.

    Attributes:
        model: ready to read and write (evaluation mode).
        tokenizer: with the task's vocabulary; of another's model that has none, None.
        task: what it learned, with its options; None where training.json does not say.
        training: the content of training.json; empty where it is missing.
        path: the folder.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    task: Task | None
    training: dict
    path: Path

    @property
    def revision(self) -> str:
        """The commit of a checkpoint from the Hub, 40 hex digits; empty for a folder."""
        is_snapshot = self.path.parent.name == "snapshots"  # as huggingface_hub keeps them
        return self.path.name if is_snapshot and re.fullmatch("[0-9a-f]{40}", self.path.name) else ""

    def task_named(self, name: str | type[Task] | None = None, **options) -> Task:
        """Build the task that the model learned, or another one with the same symbols.

        Args:
            name: a name in TASKS, or a class (default: the task that the model learned).
            **options: of the task, in place of the saved ones.

        Raises:
            ValueError: training.json names no task, there is no such task, or it has other symbols.
        """
        learned = self.training.get("task") or {}
        learned_name = learned.get("name")
        if name is not None:
            chosen = find_task(name) if isinstance(name, str) else name
        elif self.task is not None:
            chosen = type(self.task)
        else:
            own = f"learned {quote(learned_name)}, a task of somebody's own: name its file, --task FILE.py"
            why = own if learned_name else f"does not say what it learned; it has no {TRAINING}"
            raise ValueError(f"{self.path} {why}.")
        if chosen.name == learned_name:
            task = build_task(chosen, **{**learned.get("options", {}), **options})
            asked = bool(options.get("dataset"))
            task = task.restore(self.tokenizer, _classes_of(self.model.config), may_fetch=asked)
        else:
            task = build_task(chosen, **options)
        if task.vocabulary != self.tokenizer.get_vocab():
            raise ValueError(
                f"task={task.name!r}: its symbols are not those that {self.path} was trained on."
            )
        refuse_too_long(task, self.model)
        return task


def save_checkpoint(
    directory: str | Path,
    model: PreTrainedModel,
    task: Task,
    training: Mapping,
    *,
    replaces: FolderKind = CHECKPOINT,
) -> Path:
    """Write a checkpoint folder, whole or not at all.

    It holds config.json (with `auto_map`), model.safetensors, generation_config.json where the model writes,
    tokenizer.json and tokenizer_config.json, training.json, README.md (the card), map.png where there is a
    worked example with attention, and the files of `hf_attn/models/` that the model's code needs.

    Args:
        directory: the folder; an earlier checkpoint in it is replaced. Its name is the model's on the card.
        model: one of `hf_attn.models`.
        task: gives the tokenizer and the worked example.
        training: from `build_training_record`; the card leaves out what is missing.
        replaces: what the folder may be beforehand.

    Returns:
        The folder.

    Raises:
        ValueError: the model is of another type, the folder holds anything else, or its name is none.
        OSError: the disk is full or cannot be written; the folder is as it was.
    """
    directory = Path(directory)
    model_type = getattr(getattr(model, "config", None), "model_type", None)
    if not is_ours(model_type):
        raise ValueError(f"model_type={model_type!r} cannot be saved; hf_attn saves {', '.join(FAMILIES)}.")
    register_auto_classes()  # so that save_pretrained copies the code
    worked_map = find_worked_map(model, task)
    record = {
        "task": describe_task(task),
        "versions": find_versions(),
        **training,
        **describe_model(model, task),
        "map": None if worked_map is None else worked_map.describe(),
    }
    with atomic_directory(directory, replaces) as partial:
        card = build_card(directory.resolve().name, task, record)
        model.config.auto_map = FAMILIES[model_type].auto_map
        model.save_pretrained(partial)
        build_tokenizer(task).save_pretrained(partial)
        for name, text in ((TRAINING, write_record(record)), ("README.md", card)):
            (partial / name).write_text(replace_surrogates(text), encoding="utf-8")
        if worked_map is not None:
            worked_map.draw(partial)
        for file in partial.iterdir():
            file.chmod(0o644)  # safetensors makes its file the owner's alone
    return directory


def load_checkpoint(directory: str | Path) -> Checkpoint:
    """Load a checkpoint folder; every file is checked before the model is built.

    Raises:
        FileNotFoundError: the folder or one of its files is missing.
        ValueError: a file cannot be read, or does not fit the others; or weights are no numbers.
    """
    directory = Path(directory)
    check_files(directory)
    config = load_config(directory)
    model_class = class_of(config)
    check_weights(directory / WEIGHTS, config, model_class)
    check_generation(directory, config)
    training = read_training(directory)
    tokenizer = load_tokenizer(directory, config)
    task = _restore_task(training, directory, FAMILIES[config.model_type])
    if task is not None:
        task = task.restore(tokenizer, _classes_of(config))
    if task is not None and len(task.vocabulary) != config.vocab_size:
        raise ValueError(
            f"{directory / TRAINING} names task {task.name!r} with {len(task.vocabulary)} tokens, "
            f"but {CONFIG} has vocab_size={config.vocab_size}. They are of different models; save it again."
        )
    check_loaded(model_class, config)
    with building_model():
        model = model_class.from_pretrained(directory, config=config).eval()
    check_finite(model, str(directory / WEIGHTS))
    try_own_attention(model)
    return Checkpoint(model, tokenizer, task, training, directory)


def list_checkpoints(folder: str | Path) -> list[Path]:
    """List the checkpoints of known model types in a folder, by name; none where the folder is missing."""
    found = []
    for path in sorted(Path(folder).iterdir()) if Path(folder).is_dir() else []:
        if path.name.startswith(".") or not all((path / name).is_file() for name in NEEDED_FILES):
            continue
        try:
            known = is_ours(read_json(path / CONFIG).get("model_type"))
        except (ValueError, OSError):
            known = False
        if known:
            found.append(path)
    return found


def _classes_of(config: PreTrainedConfig) -> tuple[str, ...]:
    return tuple(str(name) for _, name in sorted((config.id2label or {}).items()))


def _restore_task(training: Mapping, directory: Path, family: Family) -> Task | None:
    described = training.get("task")
    if described is None or described["name"] not in TASKS:
        return None
    try:
        options = described["options"]
        if Path(path := str(options.get("path") or "")).name != path:
            raise ValueError(f"path={quote(path)} names a file elsewhere on this machine")
        task = build_task(described["name"], **options)
        if task.kind == CLASSES and CLASSES not in family.kinds:
            raise ValueError(f"{family.title}s name no classes, as {task.name!r} wants")
        return task
    except (TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{directory / TRAINING} names no task that can be built: {shorten(error)}"
        ) from error
