"""A run in words: its row in the table of runs, its settings and its results."""

import dataclasses

from hf_attn.architectures.registry import find_architecture

from ...jobs.training_job import LONGEST_PROBE, TrainingJob
from ...ui.formatting import clock, count, name_architecture, percent, shorten, size_in_words, thin
from .form import LABELS

CURVE_POINTS = 100  # of each curve in the table: a sparkline, or a line under another run's
UNCOMPARED = ("model", "architecture", "report_every", "evaluate_every")  # of a recipe


def row_of(run: TrainingJob) -> dict:
    held_out = [[p["step"], p["held_out"]] for _, p in run.points if p["held_out"] is not None]
    loss = [[p["step"], p["loss"]] for _, p in run.points if p["loss"] == p["loss"]]
    has_model = run.model is not None
    return {
        "id": run.id,
        "name": run.name,
        "model": name_architecture(run.model.config) if has_model else "",
        "details": name_model(run) if has_model else "waiting",
        "held_out": run.held_out,
        "curve": thin(held_out, CURVE_POINTS),
        "loss": thin(loss, CURVE_POINTS),
        "settings": settings_of(run),
        "results": results_of(run),
    }


def name_model(run: TrainingJob) -> str:
    """A model in the table: 928 k, 1 240 steps, seed 0, 0:31."""
    steps = f"{count(run.step)} step{'' if run.step == 1 else 's'}"
    return f"{size_in_words(run.model)}, {steps}, seed {run.seed}, {clock(run.seconds)}"


def settings_of(run: TrainingJob) -> list[list[str]]:
    """[name, value] of every setting of a run, in words."""
    task, recipe = run.task, run.recipe
    sizes = {size.option: size.label for size in task.sizes}
    settings = {"Task": task.title}
    settings |= {
        sizes.get(name, plain(name)): value for name, value in task.options.items() if name != "path"
    }
    settings["Model"] = find_architecture(task, recipe.architecture).title
    settings |= {LABELS.get(name, plain(name)): value for name, value in recipe.model.items()}
    training = {field.name for field in dataclasses.fields(recipe)} - set(UNCOMPARED)
    settings |= {LABELS.get(name, plain(name)): getattr(recipe, name) for name in sorted(training)}
    settings["Seed"] = run.seed
    if run.probe is not None:
        settings["Watched example"] = shorten(run.probe.source, LONGEST_PROBE)
    return [[name, in_words(value)] for name, value in settings.items()]


def results_of(run: TrainingJob) -> list[list[str]]:
    """[name, value] of the results so far, in words."""
    points = [point for _, point in run.points]
    results = {"Parameters": size_in_words(run.model) if run.model is not None else "–"}
    results["Steps taken"] = count(run.step)
    results["Seconds"] = f"{run.seconds:.1f}"
    results["Tokens a second"] = count(round(points[-1]["tokens_per_second"])) if points else "–"
    results["Loss"] = f"{points[-1]['loss']:.4f}" if run.step else "–"
    results["Held-out"] = "–" if run.held_out is None else percent(run.held_out)
    if run.evaluation is not None:
        sure = run.evaluation.overall.interval
        results["Held-out"] += f" ({percent(sure.low)} to {percent(sure.high)})"
    return [[name, value] for name, value in results.items()]


def plain(name: str) -> str:
    return name.replace("_", " ").capitalize()


def in_words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(in_words, value))
    if isinstance(value, int):
        return count(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
