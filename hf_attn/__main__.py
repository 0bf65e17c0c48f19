"""The command line: `hf-attn`, or `python -m hf_attn`. The only place in the package that prints.

Results go to standard output, as a table or with --json as JSON Lines; progress and errors to standard
error. Exit codes: 0 done, 1 failed or interrupted, 2 wrong use. What takes seconds to import is imported
in the commands, so that help answers at once.
"""

import contextlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from typer.exceptions import TyperException

if TYPE_CHECKING:
    from hf_attn.evaluation import Score
    from hf_attn.hub import Checkpoint
    from hf_attn.runs import Run

app = typer.Typer(
    help="Understand attention by building it and watching it learn.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
SEED = typer.Option(min=0, max=2**63 - 1, help="Of whatever is drawn; 0 without.")
THREADS = typer.Option(min=1, max=os.cpu_count(), help="Of the processor; 1 without.")
INTERRUPTED = 130  # what typer makes of Ctrl-C
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON Lines, one object a line.")]
Folder = Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="A checkpoint's folder.")]


class WrongUse(Exception):
    """The person who typed can put it right."""


class Failure(Exception):
    """It did not work out, and not because of what was typed."""


@contextlib.contextmanager
def wrong_use() -> Iterator[None]:
    """Whatever is refused in here was typed wrong."""
    from huggingface_hub.errors import StrictDataclassError

    try:
        yield
    except (ValueError, FileNotFoundError, StrictDataclassError) as error:
        raise WrongUse(str(error)) from error


def print_json(event: str, **row: Any) -> None:
    """One line of JSON."""
    print(json.dumps({"event": event, **row}, ensure_ascii=False, allow_nan=False), flush=True)


def print_table(*columns: str, rows: list[tuple], title: str | None = None) -> None:
    """A table for people."""
    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    Console().print(table)


@app.command("tasks")
def list_tasks(as_json: AsJson = False) -> None:
    """List the tasks, with a worked example each."""
    from hf_attn.tasks import TASKS, build_task

    examples = {name: build_task(name).worked_example for name in TASKS}
    if as_json:
        for name, example in examples.items():
            print_json("task", name=name, source=example.source, target=example.target, story=example.story)
        return
    rows = [(name, example.source, example.target, example.story) for name, example in examples.items()]
    print_table("task", "source", "target", "what to look for", rows=rows)


@app.command()
def train(
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="One of `hf-attn tasks`.")] = None,
    model: Annotated[Literal["transformer"], typer.Option(help="What learns.")] = "transformer",  # noqa: ARG001
    steps: Annotated[int | None, typer.Option(min=1, help="The recipe's own without.")] = None,
    until: Annotated[float | None, typer.Option(min=0, max=1, help="Stop at this exact match.")] = None,
    seed: Annotated[int | None, SEED] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or mps; auto without.")] = None,
    threads: Annotated[int | None, THREADS] = None,
    config: Annotated[Path | None, typer.Option(help="A JSON file of settings, as --set takes them.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Of task, recipe or model.")
    ] = None,
    output_dir: Annotated[Path | None, typer.Option(help="Where the checkpoint goes.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")] = None,
    track: Annotated[Literal["trackio", "tensorboard"] | None, typer.Option(help="Log there too.")] = None,
    save_every: Annotated[float, typer.Option(min=0, help="Seconds between saves of the state.")] = 30.0,
    as_json: AsJson = False,
) -> None:
    """Train a model on a task; with --output-dir it ends as a checkpoint folder.

    Ctrl-C stops after the step under way; with --output-dir the run's state is kept and --resume goes on.
    --set digits=2 is an option of the task, batch_size=32 of the recipe, hidden_size=128 of the model;
    preset=document takes the document's sizes. A wrong key lists all there are. One thread is fastest for
    tiny models: two beside another busy process slow each step many times.
    """
    from hf_attn import runs
    from hf_attn.settings import apply_settings, merge_settings

    with wrong_use():
        chosen = merge_settings(settings or (), config)
        if steps is not None:
            chosen["steps"] = steps
        if resume is not None:
            run = runs.load_run(resume)
            runs.check_same(run, resume, task, chosen, seed)
            if output_dir is not None and output_dir.resolve() != resume.resolve():
                raise ValueError(f"--output-dir {output_dir} is not the run's; --resume {resume} ends there.")
        elif task is None:
            raise ValueError("Missing argument 'TASK'; `hf-attn tasks` lists what there is.")
        else:
            run = runs.Run(*apply_settings(task, chosen))
            if output_dir is not None:
                runs.check_output(output_dir)
        choices = {"until": until, "seed": seed, "device": device, "threads": threads}
        given: dict = {name: value for name, value in choices.items() if value is not None}
        run = replace(run, **given)
    if track is not None and importlib.util.find_spec(track) is None:
        raise Failure(f"--track {track} needs a package that is not installed: pip install 'hf-attn[track]'")
    _train(run, resume or output_dir, save_every, track, as_json)


def _train(run: "Run", directory: Path | None, save_every: float, track: str | None, as_json: bool) -> None:
    """Run the loop, measure, save, and say what came of it."""
    import torch
    from transformers.utils.logging import disable_progress_bar

    from hf_attn import runs, training
    from hf_attn.evaluation import evaluate

    disable_progress_bar()
    torch.set_num_threads(run.threads)
    torch.manual_seed(run.seed)  # what dropout draws from
    with wrong_use():
        accelerator = training.build_accelerator(run.device)
        model = training.build_model(run.task, run.recipe, run.seed)
    speaks = accelerator.is_main_process
    with (
        runs.track(accelerator, track, run) as log,
        runs.stop_when_asked() as stop,
        _show_progress(run.recipe.steps, speaks, as_json) as show,
        contextlib.closing(runs.follow(run, model, accelerator, directory, save_every, stop)) as reports,
    ):
        for report in reports:
            row = runs.report_row(report)
            show(row)
            log(row)
            if stop.is_set():
                break
    if stop.is_set() and not run.is_over(report):
        kept = f"go on with `hf-attn train --resume {directory}`" if directory else "nothing is kept"
        raise Failure(f"Stopped after step {report.step} of {report.steps}; {kept}.")
    if not speaks:
        return
    evaluation = runs.finish(run, model, accelerator, directory) if directory else evaluate(model, run.task)
    if as_json:
        print_json(
            "result",
            task=run.task.name,
            model="transformer",
            steps=report.step,
            seconds=round(report.seconds, 3),
            held_out_exact_match=evaluation.overall.exact_match,
            output_dir=str(directory) if directory else None,
        )
        return
    print(f"{report.step} steps in {report.seconds:.1f} s. Held out: {_in_words(evaluation.overall)}.")
    if directory:
        print(f"Saved in {directory}.")


@contextlib.contextmanager
def _show_progress(steps: int, speaks: bool, as_json: bool) -> Iterator[Callable[[dict], None]]:
    """Gives what shows a report: a line on standard output, and a bar where standard error is a terminal."""
    console = Console(stderr=True)
    loss_column = TextColumn("loss {task.fields[loss]}")
    columns = (BarColumn(), MofNCompleteColumn(), loss_column, TimeRemainingColumn())
    bar = Progress(
        *columns,
        console=console,
        transient=True,
        disable=not (speaks and console.is_terminal),
        redirect_stdout=sys.stdout.isatty(),
    )
    heading = "  step     loss  held out   tokens/s"

    def show(row: dict) -> None:
        nonlocal heading
        loss = "–" if row["loss"] is None else f"{row['loss']:.4f}"
        bar.update(line, completed=row["step"], loss=loss)
        if not speaks:
            return
        if as_json:
            print_json("report", **row)
            return
        if heading:
            print(heading)
            heading = ""
        held_out, speed = f"{row['held_out_exact_match']:.1%}", f"{row['tokens_per_second']:,.0f}"
        print(f"{row['step']:>6}  {loss:>7}  {held_out:>8}  {speed:>9}", flush=True)

    with bar:
        line = bar.add_task("training", total=steps, loss="–")
        yield show


@app.command("eval")
def evaluate_checkpoint(
    checkpoint: Folder,
    task: Annotated[
        str | None, typer.Option(help="Another task of the same vocabulary; the model's own without.")
    ] = None,
    split: Annotated[Literal["held-out", "validation"], typer.Option(help="Which examples.")] = "held-out",
    by: Annotated[
        Literal["length", "digits", "depth"] | None, typer.Option(help="Also tell sizes apart.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure a checkpoint on examples that training never saw, writing freely."""
    from hf_attn.evaluation import evaluate

    with wrong_use():
        loaded = _load(checkpoint)
        chosen = loaded.task_named(task)
        if by is not None and by != chosen.size_name:
            raise ValueError(f"--by {by}: examples of {chosen.name} are told apart by {chosen.size_name}.")
    evaluation = evaluate(loaded.model, chosen, split)
    overall, sizes = evaluation.overall, evaluation.by_size if by else {}
    if as_json:
        found = {str(size): _score_row(score) for size, score in sizes.items()}
        more = {f"by_{by}": found} if by else {}
        print_json(
            "result", checkpoint=str(checkpoint), task=chosen.name, split=split, **_score_row(overall), **more
        )
        return
    scores = {"all": overall, **{f"{by} {size}": score for size, score in sizes.items()}}
    rows = [
        (
            name,
            score.examples,
            f"{score.exact_match:.2%}",
            f"{score.interval.low:.2%} – {score.interval.high:.2%}",
            *(f"{value:.2%}" for value in score.measures.values()),
        )
        for name, score in scores.items()
    ]
    measures = [name.replace("_", " ") for name in overall.measures]
    title = f"{checkpoint}: {chosen.name}, {split}"
    print_table("examples", "n", "exact match", "95 % interval", *measures, rows=rows, title=title)


@app.command()
def generate(
    checkpoint: Folder,
    texts: Annotated[list[str], typer.Argument(metavar="TEXT…", help="Sources, as the task writes them.")],
    strategy: Annotated[Literal["greedy", "beam", "top-k", "nucleus"], typer.Option()] = "greedy",
    num_beams: Annotated[int, typer.Option(min=1, help="Of beam search.")] = 4,
    temperature: Annotated[float, typer.Option(min=0, help="Of top-k and nucleus.")] = 1.0,
    seed: Annotated[int, SEED] = 0,
    as_json: AsJson = False,
) -> None:
    """Let a checkpoint write, and judge what it wrote."""
    import torch

    from hf_attn.decoding import check_settings, write

    with wrong_use():
        loaded = _load(checkpoint)
        task = loaded.task_named()
        sources = [task.encode(text) for text in texts]
        check_settings(strategy, num_beams, temperature, 5, 0.9)
    rows = []
    for text, source in zip(texts, sources, strict=True):
        written = write(
            loaded.model,
            torch.tensor([source]),
            strategy,
            num_beams=num_beams,
            temperature=temperature,
            seed=seed,
            max_new_tokens=task.max_target_tokens,
        )
        prediction, tokens = task.decode(written.ids), task.decode_symbols(written.ids)
        correct = task.verify(text, prediction).correct
        if as_json:
            figures = {"correct": correct, "tokens": tokens, "score": written.score}
            print_json("generation", source=text, prediction=prediction, **figures)
        rows.append((text, prediction, "right" if correct else "wrong", f"{written.score:.3f}"))
    if not as_json:
        print_table("source", "prediction", "", "log p", rows=rows)


@app.command()
def attention(
    checkpoint: Folder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A source, as the task writes it.")],
    layer: Annotated[int, typer.Option(min=0, help="Which layer; 0 is the first.")],
    head: Annotated[int, typer.Option(min=0, help="Which head; 0 is the first.")],
    output: Annotated[Path, typer.Option(help="map.png, .svg, .html, .npz (every layer and head) or .csv")],
    kind: Annotated[Literal["encoder", "decoder", "cross"], typer.Option(help="Which attention.")] = "cross",
) -> None:
    """Draw who reads whom while a checkpoint writes its answer to TEXT."""
    import torch

    from hf_attn.figures import check_suffix, choose_head, draw_map, save_maps
    from hf_attn.inspection import attention_maps

    with wrong_use():
        check_suffix(output)
        if not output.parent.is_dir():
            raise ValueError(f"--output {output}: there is no folder {output.parent}.")
        loaded = _load(checkpoint)
        task = loaded.task_named()
        source = torch.tensor([task.encode(text)])
        maps = attention_maps(loaded.model, source, tokenizer=loaded.tokenizer)
        weights, query_tokens, key_tokens = choose_head(maps, kind, layer, head)
    if output.suffix == ".npz":
        save_maps(maps, output)
    else:
        answer = task.decode(maps.target_ids)
        alignment = task.alignment(text, answer) if kind == "cross" else None
        title = f"{checkpoint.resolve().name}: {kind} attention, layer {layer}, head {head}"
        draw_map(weights, query_tokens, key_tokens, output, alignment=alignment, title=title)
    print(f"Saved {output}.")


def _load(checkpoint: Path) -> "Checkpoint":
    from transformers.utils.logging import disable_progress_bar

    from hf_attn.hub import load_checkpoint

    disable_progress_bar()
    return load_checkpoint(checkpoint)


def _score_row(score: "Score") -> dict:
    return {
        "examples": score.examples,
        "held_out_exact_match": score.exact_match,
        "interval": [score.interval.low, score.interval.high],
        **score.measures,
    }


def _in_words(score: "Score") -> str:
    low, high = score.interval.low, score.interval.high
    interval = f"95 % interval {low:.2%} to {high:.2%}"
    return f"{score.exact_match:.2%} of {score.examples} right as a whole ({interval})"


def _leave(message: str, code: int) -> NoReturn:
    """Say in one line what went wrong, and go."""
    print(f"hf-attn: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)


def main() -> None:
    """Run the command line; errors that are no bugs become one line, a bug shows its traceback."""
    try:
        code = app(prog_name="hf-attn", standalone_mode=False)
        sys.exit(code) if code != INTERRUPTED else _leave("interrupted.", 1)
    except TyperException as error:
        _leave(f"{error.format_message()} (--help tells more)", 2)
    except WrongUse as error:
        _leave(str(error), 2)
    except Failure as error:
        _leave(str(error), 1)
    except BrokenPipeError:  # whoever read the output has gone
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        sys.exit(1)
    except (OSError, ArithmeticError) as error:  # a full disk, a run that diverged
        _leave(str(error), 1)
    except RuntimeError as error:
        if "memory" not in str(error):
            raise
        _leave(f"out of memory; a smaller model or batch_size needs less. {error}", 1)


if __name__ == "__main__":
    main()
