"""What the methods of a task of one's own return: read, or refused in a sentence that names the method."""

import functools
import operator
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hf_attn.tasks.base import SEQUENCE, TEXT, ClassTask, Task
from hf_attn.tasks.batch import IGNORED, PAD, Ragged
from hf_attn.utils.python_file import OwnCodeError, wrap_method
from hf_attn.utils.text import quote

COMPARED = 20  # validation examples


class _Told(Exception):
    """What is wrong with something that is of the right kind."""


def _read_answer(given: object, *_: object) -> str | None:
    if given is not None and not isinstance(given, str):
        raise TypeError
    return given


def _read_size(given: Any, *_: object) -> int:
    return operator.index(given)  # also a number of numpy or torch


def _read_alignment(given: Any, *asked: Any) -> list[list[int]] | None:
    if given is None:
        return None
    rows = [[operator.index(mark) for mark in row] for row in given]
    if isinstance(given, dict) or any(mark not in (0, 1, 2) for row in rows for mark in row):
        raise ValueError
    shape = (len(rows), *{len(row) for row in rows})
    if len(shape) > 2:
        raise ValueError
    task, source, target = asked if len(asked) == 3 else (None, "", "")  # else a static method
    if isinstance(task, Task) and task.kind == SEQUENCE:
        wanted = (len(task.split_target(target)) + 1, len(task.encode(source)))
        if shape != wanted:
            told = f"{wanted[0]} rows of {wanted[1]} for {quote(source)} and {quote(target)}, </s> counted"
            raise _Told(f"{told}, not {quote(given)}")
    return rows


def _read_symbols(given: Any, *_: object) -> list[str]:
    if not isinstance(given, list | tuple) or not all(isinstance(symbol, str) for symbol in given):
        raise TypeError
    return list(given)


def _read_drawn(given: Any, *asked: Any) -> tuple:
    sources, targets, keys = given
    task, _, n = asked if len(asked) == 3 else (None, None, len(sources.ids))
    known = len(task.vocabulary) if isinstance(task, Task) else sys.maxsize
    for what, drawn, most in (
        ("sources", sources, known),
        ("targets", targets, len(task.classes) if isinstance(task, ClassTask) else known),
    ):
        if not isinstance(drawn, Ragged) or drawn.ids.dim() != 2:
            raise TypeError
        if not len(drawn.ids) == len(drawn.lengths) == n:
            raise _Told(f"{n} rows, as asked, but there are {len(drawn.ids)} {what}")
        width = drawn.ids.shape[1]
        for part, numbers, last in (("lengths", drawn.lengths, width), ("ids", drawn.ids, most - 1)):
            low, high = int(numbers.min()), int(numbers.max())
            if low < 0 or high > last:
                raise _Told(f"{part} from 0 to {last:,}, but those of the {what} are {low:,} to {high:,}")
    if keys.dim() != 2 or len(keys) != n:
        raise _Told(f"keys [{n}, K], but theirs are {list(keys.shape)}")
    return sources, targets, keys


def find_disagreement(task: Task) -> str:
    """Where what a task draws is not right by its own answer, in a sentence; empty where none was found."""
    if task.kind == TEXT:
        return ""
    batch = task.validation(COMPARED)
    for ids, labels in zip(batch.input_ids, batch.labels, strict=True):
        source = task.read_source([index for index in ids.tolist() if index != PAD])
        target = task.decode([index for index in labels.reshape(-1).tolist() if index != IGNORED])
        if task.verify(source, target, target).correct is False:
            drawn = f"draw's target of {quote(source)} is {quote(target)}, and answer says"
            return f"{drawn} {quote(task.answer(source))}: what is learned is not what is judged."
    return ""


# method → (how what it returns is read, what it must be)
RETURNED: dict[str, tuple[Callable, str]] = {
    "answer": (_read_answer, "a text or None"),
    "size_of": (_read_size, "a whole number"),
    "alignment": (_read_alignment, "None, or a list of equally long lists of 0, 1 and 2"),
    "split_source": (_read_symbols, "a list of symbols"),
    "draw": (_read_drawn, "sources and targets, each Ragged(ids [n, width], lengths [n]), and keys [n, K]"),
}


def check_returned(task: type[Task], path: Path) -> None:
    """Let methods that the file defines refuse what is nothing of the kind that they are to return."""
    # of a text, sizes may be named and rows grow
    names = RETURNED if task.kind != TEXT else {"answer"}
    for owner in task.__mro__:
        for name in set(names) & set(vars(owner)) if owner.__module__ == task.__module__ else ():
            wrap_method(owner, name, functools.partial(_checked, name, f"{path}: {name} must return "))


def _checked(name: str, rule: str, method: Callable) -> Callable:
    read, kind = RETURNED[name]

    @functools.wraps(method)
    def checked(*arguments, **named):
        given = method(*arguments, **named)
        try:
            return read(given, *arguments, **named)
        except _Told as error:
            raise OwnCodeError(f"{rule}{error}.") from error
        except (TypeError, ValueError, AttributeError, RuntimeError) as error:
            shown = f"a {type(given).__name__}" if name == "draw" else quote(given)
            raise OwnCodeError(f"{rule}{kind}, not {shown}.") from error

    return checked
