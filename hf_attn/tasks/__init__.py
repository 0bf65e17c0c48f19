"""What to learn: one file a task. A new task is a file here and a line in TASKS."""

import dataclasses
from pathlib import Path

from hf_attn.tasks.base import Task, Verdict, options_of
from hf_attn.tasks.batch import Batch
from hf_attn.tasks.own_task import check_returned
from hf_attn.tasks.recipes import Recipe
from hf_attn.tasks.synthetic.addition import Addition
from hf_attn.tasks.synthetic.arithmetic import Arithmetic
from hf_attn.tasks.synthetic.brackets import Brackets
from hf_attn.tasks.synthetic.copying import Copying
from hf_attn.tasks.synthetic.modular_addition import ModularAddition
from hf_attn.tasks.synthetic.parity import Parity
from hf_attn.tasks.synthetic.parsing import Parsing
from hf_attn.tasks.synthetic.recall import Recall
from hf_attn.tasks.synthetic.reversing import Reversing
from hf_attn.tasks.synthetic.sorting import Sorting
from hf_attn.tasks.text.dates import Dates
from hf_attn.tasks.text.language import Language
from hf_attn.tasks.text.phrases import Phrases
from hf_attn.tasks.text.pronunciation import Pronunciation
from hf_attn.tasks.text.sentences import Sentences
from hf_attn.tasks.text.topics import Topics
from hf_attn.tasks.user.table_classes import OwnClasses
from hf_attn.tasks.user.table_pairs import Pairs
from hf_attn.utils.python_file import explain_methods, load_class
from hf_attn.utils.text import quote

TASKS: dict[str, type[Task]] = {
    "copy": Copying,
    "reverse": Reversing,
    "sort": Sorting,
    "addition": Addition,
    "arithmetic": Arithmetic,
    "parser": Parsing,
    "dates": Dates,
    "recall": Recall,
    "brackets": Brackets,
    "parity": Parity,
    "modular": ModularAddition,
    "topics": Topics,
    "phrases": Phrases,
    "csv": OwnClasses,
    "pairs": Pairs,
    "text": Language,
    "sentences": Sentences,
    "pronunciation": Pronunciation,
}


def find_task(name: str) -> type[Task]:
    """The task of that name; ValueError where there is none."""
    if name not in TASKS:
        raise ValueError(f"There is no task {quote(name)}; choose one of {', '.join(TASKS)}.")
    return TASKS[name]


def build_task(name: str | type[Task], **options) -> Task:
    """The task of that name (or class) with its options.

    Raises:
        ValueError: no such task or option, or a value it refuses.
    """
    task = find_task(name) if isinstance(name, str) else name
    known = options_of(task)
    for option in options:
        if option not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ValueError(f"Task {task.name!r} has no option {quote(option)}; {has}.")
    return task(**options)


def load_task_file(path: str | Path) -> type[Task]:
    """The one task that a Python file of one's own defines. The file is run: load only what you trust.

    What goes wrong in its methods later is an OwnCodeError that names the line.

    Raises:
        ValueError: the file is not there, cannot be run, or does not define exactly one task that is whole.
    """
    path = Path(path)
    task = load_class(path, Task, "task")  # type: ignore[type-abstract]
    _check_whole(task, path)
    explain_methods(task, path)
    check_returned(task, path)
    return task


def _check_whole(task: type[Task], path: Path) -> None:
    """Refuse a task that lacks something; ValueError says what."""
    unsaid = [name for name in ("name", "title", "notation", "metric") if not getattr(task, name, "")]
    if missing := [*sorted(task.__abstractmethods__), *unsaid]:
        raise ValueError(f"{task.__name__} in {path} lacks {', '.join(missing)}.")
    if not dataclasses.is_dataclass(task) or task.__hash__ is None:
        raise ValueError(
            f"{task.__name__} in {path} must be a value: write @dataclass(frozen=True) above it."
        )
    if task.name in TASKS:
        raise ValueError(f"{task.__name__} in {path}: name={task.name!r} is taken; choose another name.")


__all__ = ["TASKS", "Batch", "Recipe", "Task", "Verdict", "build_task", "find_task", "load_task_file"]
