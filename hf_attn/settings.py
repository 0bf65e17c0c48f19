"""Settings as a person gives them (`digits=2`, `batch_size=32`), sorted into task, recipe and model."""

import dataclasses
import inspect
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from huggingface_hub.dataclasses import type_validator

from hf_attn.models.configuration_attn import AttnConfig
from hf_attn.models.configuration_attn_seq2seq import AttnSeq2SeqConfig
from hf_attn.tasks import TASKS, Recipe, Task, build_task

PRESET = "preset"
# the vocabulary is the task's, and so are the special tokens
_GIVEN_BY_TASK = {"vocab_size", "is_encoder_decoder", "use_cache"}


def parse_setting(text: str) -> tuple[str, object]:
    """Read "key=value"; the value is JSON where it can be, else text.

    >>> parse_setting("batch_size=32"), parse_setting("position_type=rotary")
    (('batch_size', 32), ('position_type', 'rotary'))

    Raises:
        ValueError: there is no key or no "=".
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"{text!r} is no setting; write key=value, for example batch_size=32.")
    try:
        return key.strip(), json.loads(value)
    except json.JSONDecodeError:
        return key.strip(), value.strip()


def read_settings(path: str | Path) -> dict[str, object]:
    """Settings from a JSON file: one object, the same keys.

    Raises:
        ValueError: the file is not there, or is no JSON object.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"The settings in {str(path)!r} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise ValueError(f"{str(path)!r} is not valid JSON: {error}.") from error
    if not isinstance(content, dict):
        raise ValueError(f'{str(path)!r} must hold one JSON object, for example {{"batch_size": 32}}.')
    return content


def setting_types(task_name: str) -> dict[str, dict[str, object]]:
    """Every setting there is, with its type: {"task": …, "recipe": …, "model": …}.

    Raises:
        ValueError: no such task.
    """
    if task_name not in TASKS:
        raise ValueError(f"There is no task {task_name!r}; choose one of {', '.join(TASKS)}.")
    task = {field.name: field.type for field in dataclasses.fields(TASKS[task_name])}  # type: ignore[arg-type]
    recipe = {field.name: field.type for field in dataclasses.fields(Recipe)}
    del recipe["model"]
    fields = {**inspect.get_annotations(AttnConfig), **inspect.get_annotations(AttnSeq2SeqConfig)}
    return {
        "task": task,
        "recipe": recipe,
        "model": {
            name: type_
            for name, type_ in fields.items()
            if name not in _GIVEN_BY_TASK and not name.endswith("token_id")
        },
    }


def apply_settings(task_name: str, settings: Mapping[str, object]) -> tuple[Task, Recipe]:
    """The task with its options, and its recipe with what was changed.

    Args:
        task_name: a name in TASKS.
        settings: by name; "preset" chooses the recipe that the others change.

    Raises:
        ValueError: an unknown task, setting or preset, or a value that is refused.
    """
    types = setting_types(task_name)
    sorted_out: dict[str, dict[str, object]] = {place: {} for place in types}
    for name, value in settings.items():
        if name == PRESET:
            continue
        place = next((place for place, known in types.items() if name in known), None)
        if place is None:
            raise ValueError(_unknown(name, task_name, types))
        sorted_out[place][name] = _convert(name, value, types[place][name])
    task = build_task(task_name, **sorted_out["task"])
    preset = settings.get(PRESET, "product")
    if preset not in task.recipes:
        raise ValueError(f"{PRESET}={preset!r} is not known; choose one of {', '.join(task.recipes)}.")
    recipe = task.recipes[str(preset)]
    model = {**recipe.model, **sorted_out["model"]}
    changes: dict = {**sorted_out["recipe"], "model": model}
    return task, dataclasses.replace(recipe, **changes)


def merge_settings(pairs: Iterable[str], path: str | Path | None = None) -> dict[str, object]:
    """Settings of a file, and over them those of "key=value" pairs."""
    return {**(read_settings(path) if path is not None else {}), **dict(map(parse_setting, pairs))}


def _convert(name: str, value: object, wanted) -> object:
    """The value as its type wants it: a list for a tuple and a whole number for a fraction will do."""
    if isinstance(value, list):
        value = tuple(value)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    try:
        if isinstance(value, bool) and wanted is not bool:
            raise TypeError("true and false are no numbers")
        type_validator(name, value, wanted)
    except TypeError as error:
        kind = getattr(wanted, "__name__", str(wanted)) if isinstance(wanted, type) else str(wanted)
        shown = json.dumps(value)
        raise ValueError(f"{name}={shown} must be of type {kind}.") from error
    return value


def _unknown(name: str, task_name: str, types: Mapping[str, Mapping]) -> str:
    return (
        f"There is no setting {name!r}. Task {task_name} has {', '.join(types['task'])}; "
        f"the recipe has {', '.join(types['recipe'])}; the model has {', '.join(types['model'])}; "
        f"and {PRESET}=product or {PRESET}=document."
    )
