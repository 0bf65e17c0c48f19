"""Checks that every configuration makes, each with a message that says what is allowed."""

from dataclasses import MISSING, field, fields
from typing import Any

SEEDS = (-(2**63), 2**64 - 1)  # what torch's generators take
MOST_LABELS = 25_000  # ImageNet-21k has 21,841; a configuration that names them is copied often
LONGEST_SHOWN = 60  # characters of a value in an error


def bounded(default: Any, low: float, high: float) -> Any:
    """A dataclass's field with the lowest and the highest value that it takes, for `check_bounds`.

    None is a value only where it is the default. Where both ends are whole, only whole numbers are taken.
    """
    return field(default=default, metadata={"bounds": (low, high)})


def check_bounds(owner) -> None:
    """Raise ValueError for a number of a dataclass outside the bounds which stand beside its field."""
    for one in fields(owner):
        value = getattr(owner, one.name)
        if "bounds" in one.metadata and not (value is None and one.default is None):
            low, high = one.metadata["bounds"]
            check_number(one.name, value, low, high, one.default)


def check_number(name: str, value: object, low: float, high: float, example: object = None) -> None:
    """Refuse what is not a number from low to high, or not a whole number where both are whole.

    ValueError says what is allowed, and gives an example that works: low where None is given.
    """
    is_whole = isinstance(low, int) and isinstance(high, int)
    kinds = int if is_whole else (int, float)
    if isinstance(value, kinds) and not isinstance(value, bool) and low <= value <= high:
        return
    works = low if example is None or example is MISSING else example
    ends = f"{low:,} to {high:,}" if is_whole else f"{low:g} to {high:g}"
    raise ValueError(
        f"{name}={show_value(value)} must be a {'whole ' * is_whole}number from {ends}, for example "
        f"{name}={works}."
    )


def check_inherited(arguments: dict) -> None:
    """Refuse what transformers would choke on: classes that it names until the memory is full, odd types."""
    import torch  # the rest is for --help too, which does not wait for torch

    for name in ("dtype", "torch_dtype"):
        dtype = arguments.get(name)
        found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
        if dtype is not None and not isinstance(found, torch.dtype):
            raise ValueError(f"{name}={show_value(dtype)} is no type of torch's; write {name}='float32'.")
    labels = arguments.get("id2label")
    if not isinstance(labels, dict | None):
        raise ValueError(f"id2label={show_value(labels)} must name the classes: {{0: 'no', 1: 'yes'}}.")
    if arguments.get("num_labels") is not None:
        check_number("num_labels", arguments["num_labels"], 0, MOST_LABELS, example=2)
    for number in labels or ():
        if not str(number).isdecimal():
            raise ValueError(f"id2label has {show_value(number)}: number the classes from 0.")


def show_value(value: object) -> str:
    """Return a value as an error quotes it: never longer than a line, whatever its type."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"<a whole number of about {int(value.bit_length() * 0.30103) + 1} digits>"
    if isinstance(value, tuple) and len(value) < 5:
        return f"({', '.join(map(show_value, value))})"
    if not isinstance(value, (str, int, float, type(None))):
        return f"<{type(value).__name__}>"
    shown = repr(value)
    return shown if len(shown) <= LONGEST_SHOWN else f"{shown[:LONGEST_SHOWN]}…"


def check_choice(name: str, value: str, allowed) -> None:
    """Refuse a value that is not among the allowed ones, and list those."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}={show_value(value)} is not known; choose one of {', '.join(allowed)}.")
