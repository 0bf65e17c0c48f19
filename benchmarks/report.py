"""What the benchmarks share: arguments, a summary of repeats, the table, and the lines kept in results/."""

import argparse
import datetime
import json
import math
import os
import platform
import statistics
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import torch
from rich.console import Console
from rich.table import Table

from hf_attn.utils.hardware import name_processor

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = ("torch", "transformers", "accelerate", "hf-attn")
Arm = TypeVar("Arm")
TABLE_WIDTH = 118  # where standard output is no terminal


def build_arguments(description: str, tasks: Sequence[str]) -> argparse.ArgumentParser:
    """The arguments that the benchmarks of models take; app_speed has its own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--tasks", nargs="+", choices=tasks, default=list(tasks), help="default: all")
    parser.add_argument("--threads", type=int, default=1, help="of torch (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="does the script run? Figures mean nothing")
    parser.add_argument(
        "--output", type=Path, default=RESULTS, help="folder of the lines (default: %(default)s)"
    )
    return parser


def take_turns(arms: Sequence[Arm], repeats: int) -> Iterator[Sequence[Arm]]:
    """The arms in the order of each repeat, which turns round every time: a slower minute falls on all."""
    for repeat in range(repeats):
        yield arms[:: 1 if repeat % 2 else -1]


def summary(values: Sequence[float]) -> dict:
    """Median, quartiles and extremes of repeats, and the repeats themselves.

    >>> summary([3.0, 1.0, 2.0])["median"]
    2.0
    """
    quartiles = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return {
        "median": statistics.median(values),
        "quartiles": [quartiles[0], quartiles[2]],
        "range": [min(values), max(values)],
        "values": list(values),
    }


def fit_slope(figures: Mapping[int, float]) -> float:
    """The slope of log figure over log size, by least squares.

    >>> round(fit_slope({4096: 1.0, 8192: 4.0, 16384: 16.0}), 6)
    2.0
    """
    points = [(math.log(size), math.log(max(figure, 1e-9))) for size, figure in sorted(figures.items())]
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def environment() -> dict:
    """When, where and with what: what a figure means nothing without."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "hardware": {
            "cpu": name_processor(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "instructions": torch.backends.cpu.get_cpu_capability(),
            "load_average": round(os.getloadavg()[0], 2),  # of others, where it was taken before the run
        },
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "commit": _commit(),
    }


def record(path: Path, rows: Sequence[Mapping], around: Mapping) -> None:
    """Append a JSON line a row, each with the environment of its run.

    Args:
        path: the .jsonl file; its folder is made.
        rows: what was measured.
        around: what `environment` gave at the start, and anything else that holds for all rows.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as lines:
        for row in rows:
            lines.write(json.dumps({**row, **around}) + "\n")


def show(title: str, columns: Sequence[str], cells: Sequence[Sequence[str]], around: Mapping) -> None:
    """Print a table, figures to the right, with the machine underneath."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=TABLE_WIDTH)
    table = Table(title=title, title_justify="left", caption_justify="left", caption=_caption(around))
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index > 1 else "left")
    for row in cells:
        table.add_row(*row)
    console.print(table)


def _caption(around: Mapping) -> str:
    hardware, versions = around["hardware"], around["versions"]
    return (
        f"{hardware['cpu']} ({hardware['instructions']}), cores: {hardware['cores']}, "
        f"threads: {hardware['threads']}, load at the start: {hardware['load_average']}; "
        f"torch {versions['torch']}, transformers {versions['transformers']}; {around['date']}"
    )


def _commit() -> str | None:
    """The checked-out commit, `+` behind it where files differ from it; None outside git."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--abbrev=12"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return described.stdout.strip() or None
