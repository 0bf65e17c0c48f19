"""What to learn: one file a task. A new task is a file here and a line in TASKS."""

import dataclasses

from hf_attn.tasks.addition import Addition
from hf_attn.tasks.base import Recipe, Task, Verdict
from hf_attn.tasks.copying import Copying
from hf_attn.tasks.parsing import Parsing
from hf_attn.tasks.sequences import Batch

TASKS: dict[str, type[Task]] = {
    "copy": Copying,
    "addition": Addition,
    "parser": Parsing,
}


def build_task(name: str, **options) -> Task:
    """The task of that name with its options.

    Raises:
        ValueError: no such task or option, or a value it refuses.
    """
    if name not in TASKS:
        raise ValueError(f"There is no task {name!r}; choose one of {', '.join(TASKS)}.")
    known = [field.name for field in dataclasses.fields(TASKS[name])]  # type: ignore[arg-type]
    for option in options:
        if option not in known:
            raise ValueError(f"Task {name!r} has no option {option!r}; it has {', '.join(known)}.")
    return TASKS[name](**options)


__all__ = ["TASKS", "Batch", "Recipe", "Task", "Verdict", "build_task"]
