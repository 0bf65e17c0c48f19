"""Commands that learn: the list of tasks, and `train`."""

import contextlib
import math
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hf_attn.architectures.families import model_names, model_titles
from hf_attn.architectures.optimizers import OPTIMIZERS
from hf_attn.cli.output import (
    SEED,
    TASK,
    THREADS,
    AsJson,
    AttentionFile,
    Failure,
    measure_beside,
    print_baseline,
    print_json,
    print_table,
    tell,
    tell_score,
    wrong_use,
)
from hf_attn.utils.optional_packages import require_package

if TYPE_CHECKING:
    from accelerate import Accelerator

    from hf_attn.checkpoints.run_folder import Run
    from hf_attn.evaluation.baselines import Baseline
    from hf_attn.evaluation.metrics import Evaluation
    from hf_attn.training.loop import Report

TRACK_DIR = "runs"  # of tensorboard's logs
SAME_SECONDS = 1.0  # within which two signals are one
TRACKED = ("loss", "learning_rate", "tokens_per_second", "validation_exact_match")


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


def train(
    task: Annotated[str | None, TASK] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar=f"<{'|'.join(model_names())}>",
            help=f"Model to train (default: suits the task). {model_titles()}.",
        ),
    ] = None,
    attention: AttentionFile = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps (default: the recipe's).")] = None,
    until: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Stop once this share of validation examples is right, 0 to 1."),
    ] = None,
    seed: Annotated[int | None, SEED] = None,
    device: Annotated[
        str | None, typer.Option(help="Device: auto, cpu, cuda or mps (default: auto).")
    ] = None,
    threads: Annotated[int | None, THREADS] = None,
    config: Annotated[
        Path | None, typer.Option(help="JSON file of settings, with the keys of --set.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Setting of the task, the recipe or the model; may be repeated. "
            f"The recipe's optimizer is one of {', '.join(OPTIMIZERS)}.",
        ),
    ] = None,
    output_dir: Annotated[Path | None, typer.Option(help="Output folder of the checkpoint.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Resume the run in this folder.")] = None,
    track: Annotated[
        Literal["trackio", "tensorboard"] | None, typer.Option(help="Also log to this tracker.")
    ] = None,
    save_every: Annotated[
        float, typer.Option(min=0, help="Seconds between two saves of the training state.")
    ] = 30.0,
    as_json: AsJson = False,
) -> None:
    """Train a model on a task.

    With --output-dir the run ends as a checkpoint folder.

    Ctrl-C stops after the step under way; with --output-dir the run's state is kept and --resume goes on.
    --model decoder is a Transformer that reads and writes one sequence; models named by a score function
    (none, additive, …) are LSTMs with that attention; lstm, gru and rnn are for tasks that name a class.
    --set digits=2 is an option of the task, batch_size=32 of the recipe, hidden_size=128 of the model;
    preset=document takes the sizes that the text behind the task prints. A wrong key lists them all. One
    thread is fastest for tiny models: two beside another busy process slow each step many times.
    """
    from hf_attn.architectures.attention_file import load_attention_file
    from hf_attn.architectures.settings import apply_settings, merge_settings, name_task
    from hf_attn.checkpoints import run_folder

    with wrong_use():
        chosen = merge_settings(settings or (), config)
        own = None if attention is None else load_attention_file(attention).name
        learned = None if task is None else name_task(task)
        if steps is not None:
            chosen["steps"] = steps
        if resume is not None:
            run = run_folder.load_run(resume, learned)
            run_folder.refuse_changes(
                run, resume, None if learned is None else learned.name, model, chosen, seed, own
            )
            if output_dir is not None and output_dir.resolve() != resume.resolve():
                raise ValueError(f"--output-dir {output_dir} is not the run's; --resume {resume} ends there.")
        elif learned is None:
            raise ValueError("Missing argument 'TASK'; `hf-attn tasks` lists what there is.")
        else:
            if own is not None and chosen.setdefault("attention_type", own) != own:
                raise ValueError(f"--attention {attention} defines {own!r}: leave --set attention_type out.")
            run = run_folder.Run(*apply_settings(learned, chosen, model))
            if output_dir is not None:
                run_folder.check_output(output_dir)
                if run_folder.is_finished(output_dir):
                    tell(f"{output_dir} holds a checkpoint, which is replaced; Ctrl-C now keeps it.")
        choices = {"until": until, "seed": seed, "device": device, "threads": threads}
        given: dict = {name: value for name, value in choices.items() if value is not None}
        run = replace(run, **given)
        if track is not None:
            require_package(track, f"--track {track}")
    files = [task] if task and task.endswith(".py") else []
    again = shlex.join([*files, *(["--attention", str(attention)] if attention else [])])
    _train(run, resume or output_dir, save_every, track, as_json, again)


def _train(
    run: "Run", directory: Path | None, save_every: float, track: str | None, as_json: bool, again: str
) -> None:
    """Train a run and print how it ends; `again` names the files of one's own that a resumed run needs."""
    import torch

    from hf_attn.architectures import registry
    from hf_attn.checkpoints import run_folder
    from hf_attn.evaluation.metrics import evaluate
    from hf_attn.tasks import TASKS
    from hf_attn.tasks.own_task import find_disagreement
    from hf_attn.training import loop
    from hf_attn.training.device import build_accelerator, describe_device
    from hf_attn.utils.freed_memory import keep_freed_memory

    keep_freed_memory()
    torch.set_num_threads(run.threads)
    torch.manual_seed(run.seed)  # what dropout draws from
    with wrong_use():
        accelerator = build_accelerator(run.device)
        share = loop.share_of_batch(run.recipe, accelerator)
        run.task.held_out(1)  # data that are not here are refused
        fault = find_disagreement(run.task) if type(run.task) not in TASKS.values() else ""
        registry.check_recipe(run.task, run.recipe, accelerator.device, share)
        model = registry.build_model(run.task, run.recipe, run.seed)
    speaks = accelerator.is_main_process
    for told in (run.task.describe_data(), fault):
        if speaks and told:
            tell(told)
    with (
        _open_tracker(accelerator, track, run) as log,
        stop_on_signal() as stop,
        _show_progress(run.recipe.steps, speaks, as_json) as show,
        contextlib.closing(
            run_folder.train_run(run, model, accelerator, directory, save_every, stop)
        ) as reports,
    ):
        for report in reports:
            row = run_folder.report_row(report)
            show(row)
            log(row)
            if report.is_wanted:  # by all processes at once, whichever was told to stop
                break
    go_on = (
        f"go on with `{shlex.join(['hf-attn', 'train', '--resume', str(directory)])} {again}".rstrip() + "`"
    )
    if report.is_wanted and not run.is_over(report):
        kept = go_on if directory else "nothing is kept"
        raise Failure(f"Stopped after step {report.step} of {report.steps}; {kept}.")
    if not speaks:
        return
    beside = measure_beside(run.task)
    if directory:
        try:
            evaluation = run_folder.finish_run(run, model, accelerator, directory, beside)
        except ValueError as error:  # other files in the folder, a method of an own task
            raise Failure(f"{error} What was learned is kept: then {go_on}.") from error
    else:
        evaluation = evaluate(model, run.task)
    _print_result(run, report, evaluation, beside, describe_device(accelerator), directory, as_json)


@contextlib.contextmanager
def stop_on_signal() -> Iterator[threading.Event]:
    """Give an event that Ctrl-C or a termination sets; a later one interrupts at once.

    One within a second is the same: a launcher passes on to its processes what they got themselves.
    """
    stop = threading.Event()
    told_at = math.inf

    def set_event(signum: int, frame: object) -> None:  # noqa: ARG001
        nonlocal told_at
        if time.monotonic() - told_at > SAME_SECONDS:
            raise KeyboardInterrupt
        told_at = min(told_at, time.monotonic())
        stop.set()

    before = {number: signal.signal(number, set_event) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _open_tracker(
    accelerator: "Accelerator", tracker: str | None, run: "Run"
) -> Iterator[Callable[[dict], None]]:
    """Give a function that logs a report's row to trackio or tensorboard, or nowhere where none is named."""
    from accelerate.tracking import filter_trackers

    if tracker is None:
        yield lambda row: None  # noqa: ARG005
        return
    with contextlib.redirect_stdout(sys.stderr):  # trackio greets on standard output
        accelerator.project_configuration.logging_dir = TRACK_DIR
        accelerator.log_with = filter_trackers([tracker], TRACK_DIR)
        settings = {"seed": run.seed, "steps": run.recipe.steps, "batch_size": run.recipe.batch_size}
        accelerator.init_trackers(f"hf_attn-{run.task.name}", config=settings)

    def log(row: dict) -> None:
        with contextlib.redirect_stdout(sys.stderr):
            accelerator.log({name: row[name] for name in TRACKED if row[name] is not None}, step=row["step"])

    try:
        yield log
    finally:
        with contextlib.redirect_stdout(sys.stderr):
            accelerator.end_training()


def _print_result(
    run: "Run",
    report: "Report",
    evaluation: "Evaluation",
    beside: "Baseline | None",
    device: str,
    directory: Path | None,
    as_json: bool,
) -> None:
    from hf_attn.evaluation import baselines
    from hf_attn.evaluation.metrics import describe_interval

    overall = evaluation.overall
    if as_json:
        if beside is not None:
            print_baseline(run.task, beside)
        print_json(
            "result",
            task=run.task.name,
            model=run.recipe.architecture,
            steps=report.step,
            seconds=round(report.seconds, 3),
            device=device,
            validation_exact_match=report.validation_exact_match,
            validation_examples=report.validation_examples,
            held_out_exact_match=overall.exact_match,
            held_out_examples=overall.examples,
            **describe_interval(overall),
            output_dir=str(directory) if directory else None,
        )
        return
    is_missed = run.until is not None and report.validation_exact_match < run.until
    print(
        f"{report.step} steps in {report.seconds:.1f} s on {device}. "
        f"Validation: {report.validation_exact_match:.1%} right of {report.validation_examples:,} "
        f"{run.task.units or 'examples'}"
        f"{f', not the {run.until:.1%} of --until: give it more --steps' if is_missed else ''}. "
        f"Held out: {tell_score(overall)}."
    )
    if beside is not None:
        print(f"Beside it, {baselines.NAME}: {tell_score(beside.score)}.")
    print(f"Saved in {directory}." if directory else "Not saved; --output-dir keeps what is learned.")


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
    heading = "  step     loss  validation   tokens/s"

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
        share = row["validation_exact_match"]
        validation, speed = "–" if share is None else f"{share:.1%}", f"{row['tokens_per_second']:,.0f}"
        print(f"{row['step']:>6}  {loss:>7}  {validation:>10}  {speed:>9}", flush=True)

    with bar:
        line = bar.add_task("training", total=steps, loss="–")
        yield show
