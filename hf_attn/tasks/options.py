"""What a task may be given: its options within their bounds, and how many examples are asked for at once."""

import dataclasses
from dataclasses import dataclass

from hf_attn.models.config_checks import check_bounds, check_number, show_value

LONGEST_OPTION = 4096  # characters of an option that is text: Linux reads no longer path
MOST_EXAMPLES = 1_000_000  # drawn for one purpose: a share of them is sure to a tenth of a percent


@dataclass(frozen=True)
class SizeChoice:
    """What a form offers for the option that sets a task's size."""

    option: str | None  # its name; None where there is nothing to choose
    label: str  # what a form calls it
    values: tuple  # among which it is chosen
    default: object  # the one that is shown first
    title: str = ""  # the task's in these sizes, where it is offered in several; its own where empty


def options_of(task) -> tuple[str, ...]:
    """Names of a task's (or a task class's) options; a field that is none says so in its metadata."""
    return tuple(field.name for field in dataclasses.fields(task) if field.metadata.get("is_option", True))


def check_options(task) -> None:
    """Refuse options outside their bounds (`bounded`), and text or a switch that is none or is too long.

    A field takes text where its default is text, true or false where that is one of them.

    Raises:
        ValueError: one is refused.
    """
    check_bounds(task)
    for field in dataclasses.fields(task):
        value = getattr(task, field.name)
        if isinstance(field.default, bool) and not isinstance(value, bool):
            raise ValueError(f"{field.name}={show_value(value)} must be true or false.")
        if not isinstance(field.default, str):
            continue
        if not isinstance(value, str):
            raise ValueError(
                f"{field.name}={show_value(value)} must be text, for example {field.name}={field.default!r}."
            )
        if len(value) > LONGEST_OPTION:
            raise ValueError(
                f"{field.name}={show_value(value)} has {len(value):,} characters; {LONGEST_OPTION:,} at most "
                "are read: shorten it."
            )


def check_count(n: int, name: str = "n") -> None:
    """Refuse a number of examples below 1 or that nobody would wait for, by a ValueError with its name."""
    check_number(name, n, 1, MOST_EXAMPLES, example=1000)
