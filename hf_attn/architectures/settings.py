"""Settings as a person gives them (`digits=2`, `batch_size=32`), sorted into task, recipe and model."""

import contextlib
import dataclasses
import difflib
import inspect
import json
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path

from huggingface_hub.dataclasses import type_validator
from transformers import PreTrainedConfig

from hf_attn.architectures.optimizers import switch_optimizer
from hf_attn.architectures.registry import find_architecture
from hf_attn.models.config_checks import show_value
from hf_attn.tasks import Recipe, Task, build_task, find_task, load_task_file
from hf_attn.tasks.base import options_of
from hf_attn.utils.folder_files import read_bounded
from hf_attn.utils.text import quote, shorten

PRESET = "preset"
LARGEST_FILE = 5 * 2**20  # bytes of settings
# the vocabulary is the task's, and so are the special tokens
_GIVEN_BY_TASK = {"vocab_size", "is_encoder_decoder", "use_cache", "run_token_ids"}


def parse_setting(text: str) -> tuple[str, object]:
    """Read "key=value", else raise ValueError; the value is JSON where it can be, else text.

    >>> parse_setting("batch_size=32"), parse_setting("position_type=rotary")
    (('batch_size', 32), ('position_type', 'rotary'))
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"{quote(text)} is no setting; write key=value, for example batch_size=32.")
    try:
        return key.strip(), json.loads(value)
    except (ValueError, RecursionError):  # a number of too many digits is no JSONDecodeError
        return key.strip(), value.strip()


def read_settings(path: str | Path) -> dict[str, object]:
    """Settings from a JSON file of one object with the same keys; ValueError where it cannot be read."""
    try:
        raw = read_bounded(path, LARGEST_FILE, "settings are a few lines")
    except OSError as error:
        raise ValueError(
            f"The settings in {quote(str(path), 300)} cannot be read: {error.strerror}."
        ) from error
    try:
        content = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{quote(str(path), 300)} is not valid JSON: {error}.") from error
    if not isinstance(content, dict):
        raise ValueError(
            f'{quote(str(path), 300)} must hold one JSON object, for example {{"batch_size": 32}}.'
        )
    return content


def name_task(name: str) -> type[Task]:
    """The task of that name, or of a Python file of one's own ("path/to/my_task.py"); else ValueError."""
    return load_task_file(name) if name.endswith(".py") else find_task(name)


def setting_types(task: type[Task], architecture: str) -> dict[str, dict[str, object]]:
    """Every setting there is, with its type: {"task": …, "recipe": …, "model": …}.

    ValueError where the architecture does not learn such a task.
    """
    recipe = {field.name: field.type for field in dataclasses.fields(Recipe)}
    del recipe["model"], recipe["architecture"]
    found = find_architecture(task, architecture)
    fields: dict[str, object] = {}
    for cls in reversed(found.family.config.__mro__):
        if issubclass(cls, PreTrainedConfig) and cls is not PreTrainedConfig:
            fields |= inspect.get_annotations(cls)
    given = _GIVEN_BY_TASK | set(found.fields)
    hints = typing.get_type_hints(task)
    return {
        "task": {name: hints[name] for name in options_of(task)},
        "recipe": recipe,
        "model": {
            name: type_
            for name, type_ in fields.items()
            if name not in given
            and not name.endswith("token_id")
            and typing.get_origin(type_) is not typing.ClassVar
        },
    }


def apply_settings(
    task: str | type[Task], settings: Mapping[str, object], architecture: str | None = None
) -> tuple[Task, Recipe]:
    """The task (a name in TASKS, or its class) with its options, and its recipe with what was changed.

    The setting "preset" chooses the recipe that the others change. Without an architecture, the one that
    suits the task learns.

    Raises:
        ValueError: an unknown task, architecture, setting or preset, or a value that is refused.
    """
    task_class = find_task(task) if isinstance(task, str) else task
    options = {name: value for name, value in settings.items() if name in options_of(task_class)}
    hints = typing.get_type_hints(task_class)
    built = build_task(task_class, **{k: _convert(k, value, hints[k]) for k, value in options.items()})
    architecture = architecture or built.recipe.architecture
    types = setting_types(task_class, architecture)
    changed: dict[str, dict[str, object]] = {"recipe": {}, "model": {}}
    for name, value in settings.items():
        if name == PRESET or name in options:
            continue
        place = next((place for place in changed if name in types[place]), None)
        if place is None:
            raise ValueError(_unknown(name, task_class.name, types))
        changed[place][name] = _convert(name, value, types[place][name])
    recipes = built.recipes_of(architecture)
    preset = settings.get(PRESET, "product")
    if not isinstance(preset, str) or preset not in recipes:
        raise ValueError(
            f"{PRESET}={quote(preset)} is not known for {task_class.name} with model {architecture}; "
            f"choose one of {', '.join(recipes)}."
        )
    recipe = recipes[preset]
    if "optimizer" in changed["recipe"]:
        recipe = switch_optimizer(recipe, str(changed["recipe"]["optimizer"]))
    model = {**recipe.model, **changed["model"]}
    changes: dict = {**changed["recipe"], "model": model}
    return built, dataclasses.replace(recipe, **changes)


def merge_settings(pairs: Iterable[str], path: str | Path | None = None) -> dict[str, object]:
    """Settings of a file, and over them those of "key=value" pairs."""
    return {**(read_settings(path) if path is not None else {}), **dict(map(parse_setting, pairs))}


def _convert(name: str, value: object, wanted) -> object:
    """The value as its type wants it: a list for a tuple and a whole number for a fraction will do."""
    if isinstance(value, list):
        value = tuple(value)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            return float(value)
        return value  # too large for a float, and so for its bounds
    if wanted is str and type(value) is int:  # a column that has a number for a name
        return str(value)
    try:
        if isinstance(value, bool) and wanted is not bool:
            raise TypeError("true and false are no numbers")
        type_validator(name, value, wanted)
    except (TypeError, ValueError) as error:  # ValueError: a number of more digits than Python writes
        kind = getattr(wanted, "__name__", str(wanted)) if isinstance(wanted, type) else str(wanted)
        try:
            shown = shorten(json.dumps(value), 60)
        except ValueError:  # a whole number of more digits than Python writes
            shown = show_value(value)
        raise ValueError(f"{name}={shown} must be of type {kind}.") from error
    return value


def _unknown(name: str, task_name: str, types: Mapping[str, Mapping]) -> str:
    if name == "attention_type":
        return "attention_type, or --attention FILE.py, is a Transformer's: choose such a model."
    every = [known for place in types.values() for known in place] + [PRESET]
    if close := difflib.get_close_matches(name, every, n=1):
        return f"There is no setting {quote(name)}: did you mean {close[0]!r}?"
    return (
        f"There is no setting {quote(name)}. Task {task_name} has {', '.join(types['task']) or 'none'}; "
        f"the recipe has {', '.join(types['recipe'])}; the model has {', '.join(types['model'])}; "
        f"and {PRESET}=product or {PRESET}=document."
    )
