"""Shared by all commands: printing results, progress and errors.

Results go to standard output, as a table or with --json as JSON Lines; progress and errors to standard error.
"""

import contextlib
import dataclasses
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Column, Table

from hf_attn.utils.optional_packages import MissingPackageError

if TYPE_CHECKING:
    from hf_attn.analysis.ablation import Outcome
    from hf_attn.checkpoints.save_load import Checkpoint
    from hf_attn.evaluation.baselines import Baseline
    from hf_attn.evaluation.metrics import Score
    from hf_attn.tasks import Task

AttentionFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE.py", help="Attention of your own: the Python file that defines it."),
]
SEED = typer.Option(min=0, max=2**63 - 1, help="Random seed (default: 0).", show_default=False)
THREADS = typer.Option(
    min=1, max=os.cpu_count(), help="Number of CPU threads (default: 1).", show_default=False
)
TASK = typer.Argument(metavar="TASK", help="Task name (see `hf-attn tasks`), or the Python file of your own.")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON Lines, one object a line.")]
Folder = Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="Checkpoint folder.")]
TaskSettings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Task option to change; may be repeated."),
]
SOURCE_TEXT = typer.Argument(
    metavar="TEXT", help="Source text, as the task writes it (default: held-out examples)."
)


class WrongUse(Exception):
    """The command was typed wrong; the message says how to type it."""


class Failure(Exception):
    """The command failed for another reason than how it was typed."""


@contextlib.contextmanager
def wrong_use() -> Iterator[None]:
    """Turn errors raised inside the `with` into WrongUse, or into Failure where a package is missing."""
    from huggingface_hub.errors import StrictDataclassError

    try:
        yield
    except MissingPackageError as error:
        raise Failure(str(error)) from error
    except (ValueError, FileNotFoundError, StrictDataclassError) as error:
        raise WrongUse(str(error)) from error


def measure_beside(task: "Task") -> "Baseline | None":
    """Measure what stands beside a classifier; None where nothing does; tells of a missing package."""
    from hf_attn.evaluation import baselines
    from hf_attn.tasks.base import CLASSES

    if task.kind == CLASSES:
        tell(f"Training the baseline ({baselines.NAME}) on the same texts …")
    try:
        return baselines.measure_beside(task)
    except MissingPackageError as error:
        tell(str(error))
        return None


def silence_transformers() -> None:
    """Keep transformers' bars off the screen: ours are enough."""
    importlib.import_module("transformers.utils.logging").disable_progress_bar()


def print_json(event: str, **row: Any) -> None:
    print(json.dumps({"event": event, **row}, ensure_ascii=False, allow_nan=False), flush=True)


def print_table(*columns: str, rows: list[tuple], title: str | None = None) -> None:
    folded = [
        Column(name, overflow="fold") for name in columns
    ]  # nothing is cut: a sum may have 1,000 digits
    table = Table(*folded, title=title, title_justify="left")
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    Console().print(table)


def tell(line: str) -> None:
    """Print a line of progress to standard error."""
    print(line, file=sys.stderr, flush=True)


def working(line: str) -> contextlib.AbstractContextManager:
    """Show a spinner with a line while the `with` lasts, where standard error is a terminal."""
    spinner = Spinner("dots", text=line)  # as Console.status, which would also take what others print
    return Live(
        spinner, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
    )


def follow(events: Iterator, as_json: bool) -> Any:
    """Print a transfer's progress and return its result, the last event."""
    from hf_attn.hub.client import Progress

    event = None
    for event in events:
        if isinstance(event, Progress) and as_json:
            print_json("progress", **dataclasses.asdict(event))
        elif isinstance(event, Progress):
            tell(f"{event.stage:>12}  {event.message}")
    return event


def open_with_attention(
    open_model: "Callable[[Any], Checkpoint]", place: object, attention: Path | None
) -> "Checkpoint":
    """Open a model, whose attention may be one's own, from that file."""
    if attention is None:
        return open_model(place)
    from hf_attn.architectures.attention_file import check_own_attention, load_attention_file

    own = load_attention_file(attention)
    loaded = open_model(place)
    check_own_attention(loaded.model, own, str(place))
    return loaded


def open_checkpoint(
    checkpoint: Path,
    task: str | None,
    settings: Sequence[str] | None = None,
    attention: Path | None = None,
) -> "tuple[Checkpoint, Task]":
    """Load a checkpoint, with the task that it learned or another one, whose options may be set."""
    from hf_attn.architectures.settings import merge_settings, name_task
    from hf_attn.checkpoints.save_load import load_checkpoint

    loaded = open_with_attention(load_checkpoint, checkpoint, attention)
    return loaded, loaded.task_named(task and name_task(task), **merge_settings(settings or ()))


def check_data(loaded: "Checkpoint", task: "Task") -> None:
    """Refuse a task whose examples are not here, and say how to name its file; tell of a file with others."""
    try:
        task.held_out(1)
    except ValueError as error:
        if not task.options.get("path"):
            raise
        raise ValueError(f"{error} The model learned from that file: name it, --set path=FILE.") from error
    learned = (loaded.training.get("task") or {}).get("rows", "")
    if learned and learned != task.fingerprint():
        tell("The model learned from other rows than these: what is held out here may have been trained on.")


def print_baseline(task: "Task", baseline: "Baseline") -> None:
    print_json(
        "baseline",
        task=task.name,
        features=baseline.features,
        parameters=baseline.parameters,
        seconds=round(baseline.seconds, 3),
        **score_row(baseline.score),
    )


def score_row(score: "Score | Outcome", split: str = "held-out") -> dict:
    """A share of right answers in a split with its interval, as JSON Lines have it."""
    from hf_attn.evaluation.metrics import describe_interval

    share = {f"{split.replace('-', '_')}_exact_match": score.exact_match}
    return {"examples": score.examples, **share, **describe_interval(score)}


def interval_title(score: "Score | Outcome") -> str:
    """The heading of a column of intervals."""
    return f"95 % interval over {score.over}" if score.over else "95 % interval"


def score_cells(score: "Score | Outcome") -> tuple[str, str]:
    """A share of right answers and its interval, as a table has them."""
    from hf_attn.utils.markdown import write_interval, write_percent

    return write_percent(score.exact_match), write_interval((score.interval.low, score.interval.high))


def tell_score(score: "Score") -> str:
    from hf_attn.utils.markdown import write_share

    return write_share(
        score.examples, score.exact_match, (score.interval.low, score.interval.high), score.over
    )
