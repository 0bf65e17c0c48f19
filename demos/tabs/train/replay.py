"""A run in a link: the settings from which it is trained, and the same run once more from them."""

import contextlib
from collections.abc import Callable

from hf_attn.architectures.families import architectures_of
from hf_attn.tasks import TASKS

from ...core.fields import FieldError, task_choices
from ...jobs.training_job import TrainingJob
from ...session.page import JobSpec, LinkedJob, Page, with_value
from ...session.session import Session
from . import form
from .form import FIELDS, FILLED, PRESETS, Form
from .messages import show_all, show_news


def form_of(run: TrainingJob) -> dict[str, object]:
    """The Train tab's fields that make this run; ValueError where none do, as for an uploaded table."""
    for label, (name, option, *_) in task_choices().items():
        if name != run.task.name or run.task.column_options:
            continue
        size = getattr(run.task, option) if option else None
        for preset in form.presets_of(name, run.recipe.architecture):
            fields = fields_of(run, label, size, preset)
            try:
                if form.read_form(fields) == (run.task, run.recipe, run.seed):
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


def find_equal_run(session: Session, spec: JobSpec, others: list[TrainingJob]) -> TrainingJob | None:
    """Find a run of this session that equals the linked one (settings and step), none of the others."""
    made = form.read_form(spec.form)
    probe = form.read_probe(made[0], spec.form)
    like = (run for run in session.runs.values() if (run.task, run.recipe, run.seed) == made)
    like = (run for run in like if getattr(run.own_probe, "source", None) == getattr(probe, "source", None))
    return next(
        (run for run in like if run.progress == spec.progress and not run.is_live and run not in others), None
    )


def start_linked_run(session: Session, spec: JobSpec, others: list[TrainingJob]) -> TrainingJob:
    """Show a link's run, which stands here or is new; ValueError for wrong settings, or fewer steps."""
    if (run := find_equal_run(session, spec, others)) is not None:
        session.show(run.id)
        return run
    task, recipe, seed = form.read_form(spec.form)
    if len(spec.progress) != 1 or not 1 <= spec.progress[0] <= recipe.steps:
        asked = ", ".join(map(str, spec.progress))
        raise ValueError(f"This link asks for {asked} steps; its settings allow 1 to {recipe.steps}.")
    kept = [run.id for run in others]
    run = session.add(task, recipe, seed, form.read_probe(task, spec.form), keep=kept)
    with contextlib.suppress(ValueError):  # another run here has the name, or the link gives none
        session.rename(run.id, spec.name)
    return run


def describe_run(run: TrainingJob) -> dict:
    """A run as a link carries it; ValueError where no fields make it, or it has learned nothing yet."""
    if not run.step:
        raise ValueError(f"{run.name} has learned nothing yet: let it train, then copy the link.")
    return {**run.describe(), "form": form_of(run), "name": run.name}


def check_run(fields: dict) -> dict:
    """The fields of a link's run, complete; ValueError where one is missing or of another type."""
    if fields.keys() != set(FIELDS):
        raise ValueError("This link does not say how the sender's run is trained.")
    if not all(value is None or isinstance(value, str | int | float) for value in fields.values()):
        raise ValueError("This link sets a field of Train to what no field holds.")
    restore_form(fields)  # task, model, size and preset are of those that there are
    return {name: fields[name] for name in FIELDS}


def link_tab(page: Page, layout: Form, shown: dict, describe: Callable[[Session, dict], dict]) -> LinkedJob:
    """Let links carry the fields of the Train tab, whose outputs are `shown`, and train its runs again.

    `describe` says what settings make.
    """

    def restore(session: Session, values: dict) -> dict:
        session.table = None
        name = task_choices()[values["task"]][0]
        updates = {field: update for field, update in restore_form(values).items() if field in linked}
        lines = describe(session, {field: values.get(field) for field in FIELDS})
        stands = show_all(session) if session.runs else {}
        return lines | stands | updates | {"table": form.show_file(name)}

    def stays(session: Session) -> str:
        return "The uploaded table stays here: a link carries the settings." if session.table else ""

    columns = ("column_1", "column_2")  # of a table, which no link carries
    linked = {name: part for name, part in layout.fields.items() if name not in columns}
    page.link_fields(
        linked,
        varying=("model", "size", "preset", *FILLED),
        restore=restore,
        shows={**layout.shown, **shown},
        buttons=(layout.shown["table"], shown["reseed"]),
        stays=stays,
    )
    return page.link_job(
        "train",
        kind=TrainingJob,
        show=show_news,
        shows=shown,
        fields=layout.fields,
        start=start_linked_run,
        describe=describe_run,
        check=check_run,
        comes_first=True,
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
    updates = form.choose_task(values["task"]) | form.choose_model(values)
    return {name: with_value(value, updates.get(name)) for name, value in values.items()}
