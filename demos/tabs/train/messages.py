"""What the Train tab says: buttons, sentences and boards, as the visitor's runs have them."""

import dataclasses

import gradio as gr

from hf_attn.architectures.registry import find_architecture
from hf_attn.evaluation.baselines import NAME
from hf_attn.evaluation.metrics import Score
from hf_attn.tasks import Recipe, Task
from hf_attn.tasks.base import CLASSES, TEXT
from hf_attn.utils.optional_packages import describe_missing

from ...jobs.job import FAILED, FINISHED, PAUSED, RUNNING, STOPPED, TIME_UP, UNDER_WAY
from ...jobs.probe import Probe
from ...jobs.training_job import LONGEST_PROBE, TrainingJob, show_untrained
from ...session.session import Session
from ...snippets.views import run_snippet
from ...ui import boards, formatting, notices
from .form import LABELS

RIGHT = {  # kind of task → what was measured
    CLASSES: " {share} of {examples} held-out examples get the right class",
    TEXT: " {share} of {examples} held-out {units} are guessed, perplexity {perplexity:.2f}",
}
CURVE_POINTS = 100  # of each curve in the table: a sparkline, or a line under another run's
UNCOMPARED = ("model", "architecture", "report_every", "evaluate_every")  # of a recipe


@dataclasses.dataclass(eq=False)
class Untrained:
    """What the board shows while it shows no run, as JSON; empty where the settings make none."""

    value: str = ""


def show_untrained_model(
    session: Session, task: Task, recipe: Recipe, seed: int, probe: Probe | None
) -> dict:
    """The untrained model of the settings, where the board shows no run."""
    source = probe.source if probe is not None else ""
    value = boards.to_json(show_untrained(task, recipe, seed, source))
    session.state(Untrained).value = value
    return {"board": value} if session.shown is None else {}


def show_controls(session: Session) -> dict:
    """Button, neighbours, sentences and origin, for the visitor's current run."""
    run = session.run
    status = run.status if run else None
    busy = status in UNDER_WAY  # under way, or waiting for a free place
    share = formatting.percent(run.step / run.recipe.steps, 0) if run else ""
    resumes = bool(run and (run.can_go_on or (run.is_live and status == PAUSED)))
    is_over = run is not None and not busy
    words = {RUNNING: f"Training, {share}", PAUSED: f"Paused at {share}", None: "Train"}
    return {
        "train": gr.update(
            value=words.get(status, "Train again"), variant="secondary" if is_over else "primary"
        ),
        "pause": gr.update(
            value="Resume" if resumes else "Pause",
            visible=resumes or busy,
            interactive=resumes or (busy and run.is_live),
        ),
        "stop": gr.update(visible=busy),
        "step": gr.update(visible=resumes),
        "again": gr.update(visible=is_over),
        "reseed": gr.update(visible=is_over),
        "note": notices.note(status_message(run)) if run else gr.skip(),
        "origin": notices.origin_of(run.model, run.weights) if run and run.model else gr.skip(),
    }


def status_message(run: TrainingJob) -> str:
    if run.is_live and run.model is None:
        return "Reading the examples; the first step follows."
    where = f"step {formatting.count(run.step)} of {formatting.count(run.recipe.steps)}"
    late = TIME_UP if run.is_late else ""
    sentence = {
        RUNNING: f"{where[0].upper()}{where[1:]}. Stop keeps what was learned.",
        PAUSED: f"Paused at {where}. Resume goes on; Step takes one.",
        STOPPED: f"Stopped at {where}{late}. The weights are kept; nothing is lost.",
        FAILED: f"Failed at {where}; the line above the curves says why. Other runs are untouched.",
        FINISHED: f"Done, {where}.",
    }[run.status]
    if run.evaluation is not None:
        score = run.evaluation.overall
        share, examples = formatting.percent(score.exact_match), formatting.count(score.examples)
        right = RIGHT.get(run.task.kind, " {share} of {examples} held-out examples are right")
        units = run.task.units or "next tokens"
        sentence += right.format(share=share, examples=examples, units=units, **score.measures)
        sentence += f" {interval_in_words(score)}.{baseline_message(run)}"
    return sentence


def interval_in_words(score: Score) -> str:
    over = f" over {score.over}" if score.over else ""
    return f"({formatting.percent(score.interval.low)} to {formatting.percent(score.interval.high)}{over})"


def baseline_message(run: TrainingJob) -> str:
    if run.task.kind != CLASSES:
        return ""
    if run.is_compared and run.baseline is None:
        return f" {describe_missing('sklearn', f'The baseline, {NAME},')}".rstrip()
    if run.baseline is None:
        return f" The baseline, {NAME}, is learning the same texts."
    score = run.baseline.score
    return f" The baseline, {NAME}: {formatting.percent(score.exact_match)} {interval_in_words(score)}."


def show_all(session: Session) -> dict:
    """The whole tab, as the run on the board stands."""
    run = session.runs.get(session.shown)
    board = boards.to_json(run_value(run, whole=True)) if run else session.state(Untrained).value or None
    return {"board": board, "runs": table_value(session), **show_controls(session)}


def show_news(session: Session) -> dict:
    """What is new of the current run; the table of runs only where it has new figures."""
    run = session.run
    if run is None or not run.is_live:
        return show_all(session)
    news = show_controls(session)
    if session.shown == run.id and run.model is not None:
        news["board"] = boards.to_json(run_value(run))
    if run.listed_at != run.predicted_at:
        run.listed_at, news["runs"] = run.predicted_at, table_value(session)
    return news


def run_value(run: TrainingJob, *, whole: bool = False) -> dict:
    """The train board's value, with the Python lines that give the same run."""
    return {**run.to_message(whole=whole), "python": run_snippet(run)}


def table_value(session: Session, **more) -> str:
    """The value of the table of runs, newest first."""
    rows = [row_of(run) for run in reversed(session.runs.values())]
    return boards.to_json({"runs": rows, "current": session.shown, **more})


def row_of(run: TrainingJob) -> dict:
    curve = [[p["step"], p["validation"]] for _, p in run.points if p["validation"] is not None]
    loss = [[p["step"], p["loss"]] for _, p in run.points if p["loss"] == p["loss"]]
    has_model = run.model is not None
    return {
        "id": run.id,
        "name": run.name,
        "model": formatting.name_architecture(run.model.config) if has_model else "",
        "details": name_model(run) if has_model else "waiting",
        "validation": run.validation,
        "held_out": boards.describe_held_out(run.evaluation),
        "curve": formatting.thin(curve, CURVE_POINTS),
        "loss": formatting.thin(loss, CURVE_POINTS),
        "settings": settings_of(run),
        "results": results_of(run),
    }


def name_model(run: TrainingJob) -> str:
    """A model in the table: 928 k, 1 240 steps, seed 0, 0:31."""
    steps = f"{formatting.count(run.step)} step{'' if run.step == 1 else 's'}"
    return f"{formatting.size_in_words(run.model)}, {steps}, seed {run.seed}, {formatting.clock(run.seconds)}"


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
        settings["Watched example"] = formatting.shorten(run.probe.source, LONGEST_PROBE)
    return [[name, in_words(value)] for name, value in settings.items()]


def results_of(run: TrainingJob) -> list[list[str]]:
    """[name, value] of the results so far, in words."""
    points = [point for _, point in run.points]
    results = {"Parameters": formatting.size_in_words(run.model) if run.model is not None else "–"}
    results["Steps taken"] = formatting.count(run.step)
    results["Seconds"] = f"{run.seconds:.1f}"
    results["Tokens a second"] = formatting.count(round(points[-1]["tokens_per_second"])) if points else "–"
    results["Loss"] = f"{points[-1]['loss']:.4f}" if run.step else "–"
    results["Validation"] = "–"
    if run.validation is not None:
        measured = max(point["step"] for point in points if point["validation"] is not None)
        older = "" if measured == run.step else f" at step {formatting.count(measured)}"
        results["Validation"] = f"{formatting.percent(run.validation)}{older}"
    results["Held-out"] = "–"
    if run.evaluation is not None:
        score = run.evaluation.overall
        results["Held-out"] = f"{formatting.percent(score.exact_match)} {interval_in_words(score)}"
    return [[name, value] for name, value in results.items()]


def plain(name: str) -> str:
    return name.replace("_", " ").capitalize()


def in_words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(in_words, value))
    if isinstance(value, int):
        return formatting.count(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
