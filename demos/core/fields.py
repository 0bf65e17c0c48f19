"""Fields that several tabs have: the choice of a task, typed numbers, and the errors under them."""

import contextlib
import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from hf_attn.models.positions import POSITION_TYPES
from hf_attn.tasks import TASKS, Task
from hf_attn.tasks.options import SizeChoice

from ..ui import formatting, notices

LARGEST_SEED = 2**31 - 1
GROUPED = re.compile(r"[+-]?\d{1,3}(?:\s\d{3})+(?:\.\d*)?")  # 1 234 567.8
LONGEST_QUOTE = 20  # characters of what was typed, in the sentence that refuses it
CANNOT_START = notices.note("Nothing can start until the marked settings are corrected.")
NO_SIZE = SizeChoice(None, "Longest", (), None)


class FieldError(ValueError):
    """A visitor typed something that the `field` of this name cannot take."""

    def __init__(self, field: str, sentence: str):
        super().__init__(sentence)
        self.field = field


@contextlib.contextmanager
def blame(field: str, words: Callable[[str], str] = str) -> Iterator[None]:
    """Turn what is refused meanwhile into an error of this field, with its sentence in these `words`."""
    try:
        yield
    except ValueError as error:
        raise FieldError(field, words(str(error))) from error


def task_choices() -> dict[str, tuple]:
    """Every task by its label, in the order of TASKS: (name, option of its size, label, values, first)."""
    choices = {}
    for name, task in TASKS.items():
        for size in task.sizes or (NO_SIZE,):
            choices[size.title or task.title] = (name, size.option, size.label, size.values, size.default)
    return choices


def position_choices() -> list[tuple[str, str]]:
    """(title, name) of every position encoding."""
    return [(positions.title, name) for name, positions in POSITION_TYPES.items()]


@functools.lru_cache(maxsize=16)
def share_task(task: Task) -> Task:
    """The first task that equals this one: what it has read from disk is read once for all visitors."""
    return task


def read_number(
    field: str, text: object, low: float, high: float, *, whole: bool = False, example: float
) -> float:
    """Read a number that a visitor typed, in the digits of any script; an int where it is to be `whole`.

    Spaces between groups of three digits, as the app itself writes them, are left out.

    Raises:
        FieldError: it is no number from `low` to `high`; the sentence says what is, with the `example`.
    """
    typed = "" if text is None else str(text).strip()
    try:
        number = float("".join(typed.split()) if GROUPED.fullmatch(typed) else typed)
    except ValueError:
        number = math.nan
    if low <= number <= high and not (whole and number % 1):
        return int(number) if whole else number
    kind = "a whole number" if whole else "a number"
    allowed = f"{kind} from {in_digits(low)} to {in_digits(high)}"
    if not typed:
        raise FieldError(field, f"This field is empty. Enter {allowed}, for example {in_digits(example)}.")
    quoted = formatting.shorten(typed, LONGEST_QUOTE)
    wrong = (
        "is not a number"
        if math.isnan(number)
        else f"is not {kind}"
        if low <= number <= high
        else "is out of range"
    )
    raise FieldError(field, f"“{quoted}” {wrong}. Enter {allowed}, for example {in_digits(example)}.")


def in_digits(number: float) -> str:
    """A limit as a person writes it: 20 000; 0.00001."""
    return formatting.count(int(number)) if number == int(number) else f"{number:.5f}".rstrip("0")


def count_chosen(chosen: Sequence) -> str:
    """The beginning of a sentence: "Only one is chosen"."""
    return {0: "None is chosen", 1: "Only one is chosen"}.get(len(chosen), f"{len(chosen)} are chosen")


def error_lines(fields: Iterable[str], *errors: FieldError) -> dict[str, str]:
    """{name of the line under each field: what is wrong there}; empty where nothing is."""
    sentences = {error.field: notices.field_error(str(error)) for error in errors}
    return {f"{field}_error": sentences.get(field, "") for field in fields}


def refuse_form(labels: Mapping[str, str], fields: Iterable[str], *errors: FieldError) -> dict[str, str]:
    """As `error_lines`, and the first under the button that starts: the field may be out of sight."""
    first = errors[0]
    is_named = first.field == "size"  # whose sentence begins with the task's own label
    line = notices.refusal(str(first) if is_named else f"{labels[first.field]}: {first}")
    return {**error_lines(fields, *errors), "note": line}
