"""The command `duel`: several models on the same task under the same budget."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from hf_attn.cli.output import (
    SEED,
    TASK,
    THREADS,
    AsJson,
    Failure,
    interval_title,
    measure_beside,
    print_baseline,
    print_json,
    print_table,
    score_cells,
    score_row,
    tell,
    wrong_use,
)
from hf_attn.cli.train import stop_on_signal

if TYPE_CHECKING:
    from hf_attn.evaluation.baselines import Baseline
    from hf_attn.evaluation.metrics import Evaluation
    from hf_attn.tasks import Recipe, Task
    from hf_attn.training.duel import Budget, Turn

STEPS = 300  # each takes where neither --steps nor --seconds is given


def duel(
    task: Annotated[str, TASK],
    models: Annotated[
        str | None,
        typer.Option(help="Models to compare, separated by commas (default: the task's usual ones)."),
    ] = None,
    parameters: Annotated[
        int, typer.Option(min=1, help="Approximate number of parameters of each model.")
    ] = 150_000,
    steps: Annotated[
        int | None, typer.Option(min=1, help=f"Training steps of each model (default: {STEPS}).")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="Training seconds of each model, instead of steps.")
    ] = None,
    seed: Annotated[int, SEED] = 0,
    device: Annotated[str, typer.Option(help="Device to train on: auto, cpu, cuda or mps.")] = "auto",
    threads: Annotated[int, THREADS] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Setting of the task, the recipe or all models; may be repeated.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train models of equal size side by side on one task.

    All models see the same examples for the same number of steps or seconds. Their widths are chosen so that
    each has about --parameters weights. They train in turns and are measured at the end on the same held-out
    examples, also by length.
    """
    import torch

    from hf_attn.architectures import registry
    from hf_attn.architectures.settings import merge_settings, name_task
    from hf_attn.training import duel
    from hf_attn.training.device import build_accelerator
    from hf_attn.utils.freed_memory import keep_freed_memory

    with wrong_use():
        if steps is None and seconds is None:
            steps = STEPS
        budget = duel.Budget(steps, seconds)
        learned, contestants = _choose(name_task(task), models, parameters, merge_settings(settings or ()))
        learned.held_out(1)  # data that are not here are refused
        accelerator = build_accelerator(device)
        for recipe in contestants.values():
            registry.check_recipe(learned, recipe, accelerator.device)
    keep_freed_memory()
    torch.set_num_threads(threads)
    torch.manual_seed(seed)  # what dropout draws from
    measured = _follow(learned, contestants, budget, seed, device, as_json)
    counts = {name: duel.count_parameters(learned, recipe) for name, recipe in contestants.items()}
    beside = measure_beside(learned)
    if as_json:
        if beside is not None:
            print_baseline(learned, beside)
        for turn, evaluation in measured:
            _print_result(learned, turn, evaluation, counts[turn.name])
        return
    options = "".join(f", {name}={value}" for name, value in learned.options.items())
    title = f"{task}{options}, seed {seed} alone: intervals are over examples, not over seeds"
    _print_scores(title, learned, measured, counts, beside)


def _choose(
    task: "type[Task]", models: str | None, parameters: int, settings: dict
) -> "tuple[Task, dict[str, Recipe]]":
    from hf_attn.architectures.settings import apply_settings
    from hf_attn.training.duel import find_usual, match_size

    chosen_here = {"hidden_size": "--parameters", "steps": "--steps or --seconds"}
    chosen_here |= dict.fromkeys(("report_every", "evaluate_every"), "--steps or --seconds")
    for name, option in chosen_here.items():
        if name in settings:
            raise ValueError(f"--set {name}: in a duel it follows from {option}; leave it out.")
    names = [name.strip() for name in models.split(",")] if models is not None else find_usual(task)
    if len(set(names)) < max(2, len(names)):
        raise ValueError(f"--models {','.join(names)}: name two models or more, each once.")
    chosen = {name: apply_settings(task, settings, name) for name in names}
    learned = next(iter(chosen.values()))[0]
    return learned, {name: match_size(learned, recipe, parameters) for name, (_, recipe) in chosen.items()}


def _follow(
    task: "Task", contestants: "dict[str, Recipe]", budget: "Budget", seed: int, device: str, as_json: bool
) -> "list[tuple[Turn, Evaluation]]":
    """Train the models and report their progress; return each one's final evaluation."""
    from hf_attn.checkpoints import run_folder
    from hf_attn.training.duel import duel as take_turns

    measured = []
    with stop_on_signal() as stop, _show_progress(list(contestants), budget, not as_json) as show:
        turns = take_turns(task, contestants, budget, seed=seed, device=device, report_every_step=stop)
        for turn in turns:
            if turn.evaluation is not None:
                measured.append((turn, turn.evaluation))
            elif as_json:
                print_json("report", model=turn.name, **run_folder.report_row(turn.report))
            show(turn)
            if stop.is_set():
                raise Failure("Stopped; nothing is kept.")
    return measured


@contextlib.contextmanager
def _show_progress(names: list[str], budget: "Budget", is_shown: bool) -> "Iterator[Callable[[Turn], None]]":
    """Show progress: bars where standard error is a terminal, else a line for each tenth of the budget."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[validation]} validation"),
    )
    bars = Progress(*columns, console=console, transient=True, disable=not (is_shown and console.is_terminal))
    lines = {name: bars.add_task(name, total=1.0, validation="–") for name in names}
    printed = dict.fromkeys(names, -1)  # tenths of the budget

    def show(turn: "Turn") -> None:
        report = turn.report
        share = max(budget.spent(report.step, report.seconds), report.step / report.steps)
        validation = f"{report.validation_exact_match:.1%}"
        bars.update(lines[turn.name], completed=share, validation=validation)
        if is_shown and not console.is_terminal and int(10 * share) > printed[turn.name]:
            printed[turn.name] = int(10 * share)
            tell(f"{turn.name}: {share:.0%} of the budget, {validation} on validation examples")

    with bars:
        yield show


def _print_result(task: "Task", turn: "Turn", evaluation: "Evaluation", parameters: int) -> None:
    sizes = {
        str(size): {"examples": score.examples, "held_out_exact_match": score.exact_match}
        for size, score in evaluation.by_size.items()
    }
    print_json(
        "result",
        task=task.name,
        model=turn.name,
        parameters=parameters,
        steps=turn.report.step,
        seconds=round(turn.report.seconds, 3),
        **score_row(evaluation.overall),
        **{f"by_{task.size_name}": sizes},
    )


def _print_scores(
    title: str,
    task: "Task",
    measured: "list[tuple[Turn, Evaluation]]",
    counts: dict[str, int],
    beside: "Baseline | None",
) -> None:
    """Print two tables with a line for each model: its size and score, and its score by length."""
    from hf_attn.evaluation.baselines import NAME
    from hf_attn.training.duel import pool_sizes
    from hf_attn.utils.markdown import write_percent

    scored = [
        (turn.name, counts[turn.name], f"{turn.report.step:,}", turn.report.seconds, evaluation.overall)
        for turn, evaluation in measured
    ]
    if beside is not None:
        scored.append((NAME, beside.parameters, "–", beside.seconds, beside.score))
    rows = [
        (name, f"{parameters:,}", steps, f"{seconds:.1f}", *score_cells(score))
        for name, parameters, steps, seconds, score in scored
    ]
    heading = interval_title(scored[0][-1])
    print_table("model", "parameters", "steps", "seconds", "held out", heading, rows=rows, title=title)
    pooled = {turn.name: pool_sizes(evaluation.by_size) for turn, evaluation in measured}
    groups = next(iter(pooled.values()))  # the same for all: they wrote the same examples
    sizes = [str(low) if low == high else f"{low}–{high}" for low, high in groups]
    shares = [
        (name, *(write_percent(score.exact_match) for score in scores.values()))
        for name, scores in pooled.items()
    ]
    print_table("model", *sizes, rows=shares, title=f"held out by {task.size_name}")
