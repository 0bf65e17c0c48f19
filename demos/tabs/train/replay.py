"""A run in a link: the settings from which it is trained, and the same run once more from them."""

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import gradio as gr

from hf_attn.architectures.families import architectures_of
from hf_attn.tasks import TASKS
from hf_attn.training.loop import Report

from ...core.fields import FieldError, task_choices
from ...jobs.loop import has_zero_gpu
from ...jobs.probe import Probe
from ...jobs.training_job import KEPT_FRAMES, TrainingJob
from ...session.page import Page, with_value
from ...session.session import Session
from ...ui.formatting import thin
from . import form
from .form import FIELDS, FILLED, PRESETS
from .form_layout import Form
from .messages import look_for, show_all

BOARD, TABLE = "train-board", "runs"
LONGEST_FILM = 2 * KEPT_FRAMES + 2  # frames that a link names, one at the shown step among them
SHORT_FILM = 60  # frames of a run that is laid over the shown one
MOST_BESIDE = 3  # runs laid over it, as demos/tabs/train/runs_table.js lays them


@dataclass(frozen=True)
class RunSpec:
    """A run of a link's.

    Attributes:
        fields: of the Train tab.
        steps: how far the sender's had come.
        film: the steps of its frames; None where the link does not say.
        name: as the sender called it; may be empty.
    """

    fields: dict[str, object]
    steps: int
    film: frozenset[int] | None = None
    name: str = ""


def form_of(run: TrainingJob) -> dict[str, object]:
    """The Train tab's fields that make this run; ValueError where none do, as for an uploaded table."""
    for label, (name, option, *_) in task_choices().items():
        if name != run.task.name or run.task.column_options:
            continue
        size = getattr(run.task, option) if option else None
        for preset in form.presets_of(name, run.recipe.architecture):
            fields = fields_of(run, label, size, preset)
            try:
                if form.read_form(*fields.values()) == (run.task, run.recipe, run.seed):
                    return fields
            except FieldError:
                continue
    if run.task.column_options or getattr(run.task, "path", None):
        raise ValueError(f"{run.name} learned an uploaded table, which a link cannot carry.")
    raise ValueError(f"The fields of Train cannot describe {run.name}, so a link cannot carry it.")


def fields_of(run: TrainingJob, label: str, size: object, preset: str) -> dict[str, object]:
    """The fields that make a run, if it has this size and preset."""
    recipe, known = run.recipe, form.fields_of(run.task.name, run.recipe.architecture)
    filled = form.fill_form(label, recipe.architecture, size, preset)
    values: dict[str, object] = {name: change.get("value") for name, change in filled.items()}
    values |= {name: recipe.model[own] for name, own in known.items() if own in recipe.model}
    values |= {"task": label, "model": recipe.architecture, "size": size, "preset": preset}
    values |= {"learning_rate": repr(recipe.learning_rate), "steps": str(recipe.steps), "seed": str(run.seed)}
    values["optimizer"] = recipe.optimizer
    values["probe"] = run.own_probe.source if run.own_probe is not None else ""
    return {name: values.get(name) for name in FIELDS}


def find_equal_run(session: Session, again: RunSpec, but: Collection[str] = ()) -> TrainingJob | None:
    """Find a run of this session that equals the linked one (settings, step, frames), ignoring these ids."""
    made = form.read_form(*again.fields.values())
    probe = form.read_probe(made[0], *again.fields.values())
    like = (run for run in session.runs.values() if (run.task, run.recipe, run.seed) == made)
    like = (run for run in like if source_of(run.own_probe) == source_of(probe))
    whole = (run for run in like if run.step == again.steps and not run.is_live and run.id not in but)
    return next((run for run in whole if not again.film or again.film <= steps_of(run)), None)


def source_of(probe: Probe | None) -> str | None:
    return None if probe is None else probe.source


def steps_of(run: TrainingJob) -> set[int]:
    return {frame["step"] for _, frame in run.frames}


def add_linked_run(session: Session, again: RunSpec, keep: Collection[str] = ()) -> tuple[TrainingJob, str]:
    """(a run with a link's settings, film and name, to end where the sender's stood; what was deleted).

    `keep` are ids of runs that are not deleted. ValueError where the settings are wrong or have fewer steps.
    """
    task, recipe, seed = form.read_form(*again.fields.values())
    if not 1 <= again.steps <= recipe.steps:
        raise ValueError(f"This link asks for {again.steps} steps; its settings allow 1 to {recipe.steps}.")
    run, removed = session.add(task, recipe, seed, form.read_probe(task, *again.fields.values()), keep=keep)
    with contextlib.suppress(ValueError):  # another run here has the name, or the link gives none
        session.rename(run.id, again.name)
    run.film = None if has_zero_gpu() else again.film  # which takes a slice of steps at once
    run.last_step = again.steps
    run.begin()
    run.loop = stop_after(run.loop, again.steps)
    return run, removed


def stop_after(loop: Iterator[Sequence[Report]], steps: int) -> Iterator[Sequence[Report]]:
    """A run's loop, up to this step."""
    for reports in loop:
        yield reports
        if reports and reports[-1].step >= steps:
            return


def describe_run(run: TrainingJob, *, film: bool = False) -> dict:
    """A run as a link carries it, with its frames' steps if `film`; ValueError if no fields make it."""
    description = {"form": form_of(run), "steps": run.step, "name": run.name}
    return description | ({"film": thin(sorted(steps_of(run)), SHORT_FILM)} if film else {})


def check_film(film: object, steps: int) -> frozenset[int] | None:
    """The frames' steps that a link names; None where it names none."""
    if not isinstance(film, list) or not 0 < len(film) <= LONGEST_FILM:
        return None
    return frozenset(step for step in film if type(step) is int and 0 <= step <= steps) or None


def linked_runs(state: dict) -> list[RunSpec]:
    """A link's runs, overlaid ones first, the shown one last; ValueError where they are not described."""
    if "run" not in state:
        return []
    beside = state.get("beside", [])
    if len(beside) > MOST_BESIDE or not all(isinstance(run, dict) for run in beside):
        raise ValueError(f"This link does not say which runs, up to {MOST_BESIDE}, lie over the sender's.")
    shown = state["run"] | {"film": state.get("boards", {}).get(BOARD, {}).get("film")}
    return [check_run(run) for run in (*beside, shown)]


def check_run(run: dict) -> RunSpec:
    """The run that a link describes; ValueError where a field is missing or of another type."""
    fields, steps, name = run.get("form"), run.get("steps"), run.get("name", "")
    fields = form.OLDER | fields if isinstance(fields, dict) else {}
    is_form = fields.keys() == set(FIELDS)
    if not is_form or not isinstance(steps, int) or isinstance(steps, bool) or not isinstance(name, str):
        raise ValueError("This link does not say how the sender's run is trained.")
    if not all(value is None or isinstance(value, str | int | float) for value in fields.values()):
        raise ValueError("This link sets a field of Train to what no field holds.")
    restore_form(fields)  # task, model, size and preset are of those that there are
    return RunSpec({name: fields[name] for name in FIELDS}, steps, check_film(run.get("film"), steps), name)


def link_form(page: Page, fields: Form, order: gr.Number, shown: dict, reseed: gr.Button) -> None:
    """Let links carry the fields of the Train tab, whose outputs are `shown` by their name in SCREEN."""

    def restore(values: dict, session: Session) -> dict:
        session.table = None
        stands = dict(zip(shown.values(), show_all(session), strict=True)) if session.runs else {}
        updates = restore_form(values)
        changes = {part: updates[name] for name, part in linked.items()}
        messages = form.describe_form(*(values.get(name) for name in FIELDS))
        name = task_choices()[values["task"]][0]
        file = form.show_file(name)
        lines = dict(zip([fields.hint, *fields.lines], messages, strict=False))
        look = {shown["look_for"]: look_for(form.build_task(name))}
        return stands | changes | lines | {fields.table: file} | look

    def stays(session: Session) -> str:
        return "The uploaded table stays here: a link carries the settings." if session.table else ""

    columns = ("column_1", "column_2")  # of a table, which no link carries
    linked = {name: part for name, part in fields.fields.items() if name not in columns}
    page.order = order
    page.link_fields(
        linked,
        varying=("model", "size", "preset", *FILLED),
        restore=restore,
        inputs=(page.session,),
        outputs=(fields.hint, *fields.lines, fields.table, *shown.values()),
        buttons=(fields.table, reseed),
        stays=stays,
    )


def restore_form(values: dict) -> dict[str, dict]:
    """Updates of Train's fields, choices included; ValueError for an unknown task, model or size."""
    offered = task_choices()
    if values["task"] not in offered:
        raise ValueError(f"{values['task']!r} is no task here.")
    name, _, _, sizes, _ = offered[values["task"]]
    allowed = {
        "model": list(architectures_of(TASKS[name].kind)),
        "size": [*sizes, None] if not sizes else list(sizes),
    }
    for field, known in allowed.items():
        if values[field] not in known:
            raise ValueError(f"{form.LABELS[field]}: {values[field]!r} is not one of {known}.")
    presets = form.presets_of(name, values["model"])
    if values["preset"] not in presets or values["preset"] not in PRESETS:
        raise ValueError(f"{form.LABELS['preset']}: {values['preset']!r} is not one of {presets}.")
    _, *changes = form.choose_task(values["task"])
    updates = dict(zip((*form.CHOSEN[1:], *FILLED), changes, strict=True))
    chosen = form.choose_model(values["task"], values["model"], values["size"], values["preset"])
    updates |= dict(zip(("preset", *FILLED), chosen, strict=True))
    updates["probe"] = form.clear_probe(values["task"])
    return {name: with_value(value, updates.get(name)) for name, value in values.items()}
