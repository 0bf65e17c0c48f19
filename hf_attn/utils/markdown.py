"""Pages in Markdown: templates, table cells and numbers."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import jinja2

NUMBERS = ("perplexity", "bits_per_token")  # measures that are no shares
LONGEST_CELL = 120  # characters of an example; a docstring is longer


def render_template(path: Path, **values: object) -> str:
    """Fill in a Jinja template; a name without a value is an error."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    return environment.from_string(path.read_text(encoding="utf-8")).render(values)


def write_line(*cells: object) -> str:
    """A line of a table.

    >>> write_line("all", 1000)
    '| all | 1000 |'
    """
    return f"| {' | '.join(map(str, cells))} |"


def write_rule(words: int, figures: int) -> str:
    """The line under a table's heading: columns of words are aligned left, columns of numbers right.

    >>> write_rule(1, 2)
    '|---|---:|---:|'
    """
    return "|" + "---|" * words + "---:|" * figures


def write_cell(value: object) -> str:
    r"""A value as a table cell.

    >>> write_cell("a|b"), write_cell([1, 2]), write_cell("")
    ('a\\|b', '1, 2', '(nothing)')
    """
    if value is None or value == "":
        return "(nothing)"
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    text = " ".join(text.split())
    if len(text) > LONGEST_CELL:
        text = text[: LONGEST_CELL - 1] + "…"
    return re.sub(r"([|\\`*_<>])", r"\\\1", text)


def write_percent(share: float) -> str:
    """A share in percent; never 100 % for less than all, nor 0 % for more than none.

    >>> write_percent(0.999999), write_percent(1), write_percent(0.5), write_percent(0.000001)
    ('99.99 %', '100 %', '50 %', '0.01 %')
    """
    hundredths = int(share * 10000 + 0.5)
    if hundredths == 10000 and share < 1:
        hundredths = 9999
    if hundredths == 0 and share > 0:
        hundredths = 1
    return f"{hundredths / 100:.2f} %".replace(".00 %", " %")


def write_interval(interval: Sequence[float]) -> str:
    """Both ends of an interval in percent.

    >>> write_interval([0.25, 1])
    '25 % – 100 %'
    """
    return " – ".join(map(write_percent, interval))


def write_measure(name: str, value: float | None) -> str:
    """A measure of a task; a dash where there is none."""
    if value is None:
        return "–"
    return f"{value:.3f}" if name in NUMBERS else write_percent(value)


def write_score(score: Mapping) -> tuple[str, str, str]:
    """Number of examples, share of right answers and its interval: three cells."""
    return f"{score['examples']:,}", write_percent(score["exact_match"]), write_interval(score["interval"])


def write_share(examples: int, share: float, interval: Sequence[float], over: str = "") -> str:
    """A share with its interval, for a sentence.

    >>> write_share(1000, 0.5, [0.25, 1], "89 modules")
    '50 % right of 1,000 (95 % interval 25 % to 100 % over 89 modules)'
    """
    return f"{write_percent(share)} right of {examples:,} ({interval_in_words(interval, over)})"


def interval_in_words(interval: Sequence[float], over: str = "") -> str:
    """A 95 % interval, and what it was resampled over where that is not examples.

    >>> interval_in_words([0.25, 1])
    '95 % interval 25 % to 100 %'
    """
    low, high = map(write_percent, interval)
    return f"95 % interval {low} to {high}" + (f" over {over}" if over else "")


def in_words(name: str) -> str:
    """A name in Python with spaces for underscores."""
    return name.replace("_", " ")
