"""Experiments on attention, as a command."""

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hf_attn.cli.output import (
    SEED,
    THREADS,
    AsJson,
    AttentionFile,
    Failure,
    WrongUse,
    print_json,
    print_table,
    wrong_use,
)

if TYPE_CHECKING:
    from hf_attn.experiments import Experiment, Row

ROWS, FIGURE, RESULT = "rows.jsonl", "figure", "result.json"  # in --output-dir


def experiment(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of the experiment (default: list them).")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Measure at the size that the text gives; takes longer.")
    ] = False,
    seed: Annotated[int, SEED] = 0,
    seeds: Annotated[
        int, typer.Option(min=1, max=1000, help="Number of seeds, counting up from --seed.")
    ] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Setting of the experiment, as test=20,50; may be repeated. A wrong key lists all.",
        ),
    ] = None,
    attention: AttentionFile = None,
    threads: Annotated[int | None, THREADS] = None,
    output_dir: Annotated[
        Path | None, typer.Option(help=f"Folder for {ROWS}, the figure and the verdicts.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run an experiment on attention.

    Each row is printed as soon as it is measured. With --output-dir it is also saved there, so that Ctrl-C
    keeps the rows measured so far.
    """
    import torch

    from hf_attn.architectures.settings import merge_settings
    from hf_attn.experiments import EXPERIMENTS, find_experiment
    from hf_attn.experiments.base import resize

    if name is None:
        _list(EXPERIMENTS, as_json)
        return
    with wrong_use():
        chosen = find_experiment(name)
        sizes = resize(chosen.full if full else chosen.sizes, merge_settings(settings or ()))
        if attention is not None:
            sizes = _add_attention(name, sizes, attention)
    if output_dir is not None:
        _prepare(output_dir)
    torch.set_num_threads(threads or 1)
    started = time.perf_counter()
    rows: list[Row] = []
    try:
        with _show_progress(name, seeds * chosen.count(sizes), output_dir, as_json) as show:
            for row_seed in range(seed, seed + seeds):
                for row in chosen.run(sizes, row_seed):
                    rows.append(row)
                    show(row)
    except KeyboardInterrupt:
        place = f"; they are in {output_dir / ROWS}" if output_dir and rows else ""
        raise Failure(f"Stopped after {len(rows)} rows{place}.") from None
    _conclude(name, chosen, rows, time.perf_counter() - started, output_dir, as_json)


def _add_attention(name: str, sizes: Any, file: Path) -> Any:
    """Sizes with attention of one's own beside ours."""
    from dataclasses import replace

    from hf_attn.architectures.attention_file import load_attention_file

    if not hasattr(sizes, "attention"):
        raise ValueError(f"--attention {file}: {name} compares no attention; `positions` does.")
    return replace(sizes, attention=(*sizes.attention, load_attention_file(file).name))


def _list(experiments: "dict[str, Experiment]", as_json: bool) -> None:
    if as_json:
        for name, chosen in experiments.items():
            print_json("experiment", name=name, title=chosen.title, question=chosen.question)
        return
    rows = [(name, chosen.title, chosen.question) for name, chosen in experiments.items()]
    print_table("experiment", "title", "question", rows=rows)


def _prepare(output_dir: Path) -> None:
    if output_dir.exists() and not output_dir.is_dir():
        raise WrongUse(f"--output-dir {output_dir} is a file; name a folder.")
    if (output_dir / ROWS).exists():
        raise WrongUse(f"--output-dir {output_dir} holds the rows of another run: name another folder.")
    output_dir.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def _show_progress(
    name: str, total: int, output_dir: Path | None, as_json: bool
) -> "Iterator[Callable[[Row], None]]":
    """Save and print each row; a bar counts them where standard error is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    is_hidden, redirects = not console.is_terminal, sys.stdout.isatty()
    bar = Progress(*columns, console=console, transient=True, disable=is_hidden, redirect_stdout=redirects)

    def show(row: "Row") -> None:
        if file is not None:
            print(json.dumps(row, allow_nan=False), file=file, flush=True)
        if as_json:
            print_json("row", experiment=name, **row)
        else:
            print("  ".join(f"{key} {write_figure(value)}" for key, value in row.items()), flush=True)
        bar.advance(line)

    with (
        open(output_dir / ROWS, "w", encoding="utf-8") if output_dir else contextlib.nullcontext() as file,
        bar,
    ):
        line = bar.add_task(f"measuring {name}", total=total)
        yield show


def _conclude(
    name: str, chosen: "Experiment", rows: "list[Row]", seconds: float, output_dir: Path | None, as_json: bool
) -> None:
    from dataclasses import asdict

    from hf_attn.experiments import over_seeds
    from hf_attn.viz.draw_chart import FORMATS, draw_chart

    findings = chosen.judge(rows)
    result: dict[str, Any] = {
        "experiment": name,
        "rows": len(rows),
        "seconds": round(seconds, 1),
        "verdicts": [asdict(finding) for finding in findings],
    }
    if output_dir is not None:
        for suffix in FORMATS:
            (output_dir / FIGURE).with_suffix(suffix).write_bytes(draw_chart(chosen.draw(rows), suffix))
        (output_dir / RESULT).write_text(json.dumps(result, indent=2), encoding="utf-8")
    if as_json:
        print_json("result", **result, output_dir=str(output_dir) if output_dir else None)
        return
    _print_rows(over_seeds(rows, chosen.settings), chosen)
    for finding in findings:
        print(f"{'Yes' if finding.holds else 'No'}: {finding.claim} ({finding.measured})")
    print(f"{len(rows)} rows in {seconds:.0f} s.")
    if output_dir is not None:
        print(f"Saved in {output_dir}.")


def _print_rows(rows: "list[Row]", chosen: "Experiment") -> None:
    """Print a table of what differs between the rows, and one line of what does not."""
    names = list(dict.fromkeys(name for row in rows for name in row if name != "seed"))
    written = {name: [write_figure(row.get(name)) for row in rows] for name in names}
    differ = [name for name in names if name in chosen.settings or len(set(written[name])) > 1]
    cells = list(zip(*(written[name] for name in differ), strict=True))
    print_table(*(name.replace("_", " ") for name in differ), rows=cells, title=chosen.question)
    if alike := [f"{name.replace('_', ' ')} {written[name][0]}" for name in names if name not in differ]:
        print(f"In all rows: {', '.join(alike)}.")


def write_figure(value: object) -> str:
    """A figure as people read it: three digits behind the point, or four in all where it is small.

    >>> write_figure(0.25), write_figure(1234567), write_figure(1.5e-9), write_figure(None)
    ('0.250', '1,234,567', '1.500e-09', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3e}" if 0 < abs(value) < 1e-3 else f"{value:.3f}"
    return str(value)
