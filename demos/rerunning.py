"""A run in a link: the settings from which it is trained, and the same run once more from them."""

from collections.abc import Iterator, Sequence

import gradio as gr

from demos import form, telling
from demos.fields import Form
from demos.form import FIELDS, FILLED, PRESETS, FieldError
from demos.page import Page, with_value
from demos.slicing import has_zero_gpu
from demos.visits import KEPT_FRAMES, Run, Visit
from hf_attn.architectures import ARCHITECTURES
from hf_attn.tasks import TASKS
from hf_attn.training import Report

BOARD = "train-board"
LONGEST_FILM = 2 * KEPT_FRAMES + 2  # frames that a link names, one at the shown step among them


def form_of(run: Run) -> dict[str, object]:
    """The Train tab's fields that make this run.

    Raises:
        ValueError: there are none: it learned an uploaded table, or is not of the Train tab.
    """
    for label, (name, option, *_) in form.offers().items():
        if name != run.task.name or form.COLUMNS.get(name):
            continue
        size = getattr(run.task, option) if option else None
        for preset in form.presets_of(name, run.recipe.architecture):
            fields = fields_of(run, label, size, preset)
            try:
                if form.read_form(*fields.values()) == (run.task, run.recipe, run.seed):
                    return fields
            except FieldError:
                continue
    if form.COLUMNS.get(run.task.name) or getattr(run.task, "path", None):
        raise ValueError(f"{run.name} learned an uploaded table, which a link cannot carry.")
    raise ValueError(f"The settings of Train do not make {run.name}, so a link cannot carry it.")


def fields_of(run: Run, label: str, size: object, preset: str) -> dict[str, object]:
    """The fields of a run, if it has this size and preset."""
    recipe, known = run.recipe, form.fields_of(run.task.name, run.recipe.architecture)
    filled = form.fill_form(label, recipe.architecture, size, preset)
    values: dict[str, object] = {name: change.get("value") for name, change in filled.items()}
    values |= {name: recipe.model[own] for name, own in known.items() if own in recipe.model}
    values |= {"task": label, "model": recipe.architecture, "size": size, "preset": preset}
    values |= {"learning_rate": repr(recipe.learning_rate), "steps": str(recipe.steps), "seed": str(run.seed)}
    values["probe"] = run.own_probe.source if run.own_probe is not None else ""
    return {name: values.get(name) for name in FIELDS}


def find_again(visit: Visit, fields: dict, steps: int, film: frozenset[int] | None) -> Run | None:
    """The visit's own run that these settings make, if it stands where the link's does and has its film."""
    task, recipe, seed = form.read_form(*fields.values())
    there = (run for run in visit.runs.values() if (run.task, run.recipe, run.seed) == (task, recipe, seed))
    whole = (run for run in there if run.step == steps and not run.is_live)
    return next((run for run in whole if not film or film <= steps_of(run)), None)


def steps_of(run: Run) -> set[int]:
    """The steps of a run's film."""
    return {frame["step"] for _, frame in run.frames}


def add_again(visit: Visit, fields: dict, steps: int, film: frozenset[int] | None = None) -> Run:
    """A new run from a link's settings, which ends where the sender's stood, with the same film.

    Raises:
        ValueError: the settings cannot be used, or there are fewer steps.
    """
    task, recipe, seed = form.read_form(*fields.values())
    if not 1 <= steps <= recipe.steps:
        raise ValueError(f"This link trains {steps} steps, of which its settings have 1 to {recipe.steps}.")
    run, _ = visit.add(task, recipe, seed, form.read_probe(task, *fields.values()))
    run.film = None if has_zero_gpu() else film  # which takes a slice of steps at once
    run.begin()
    run.loop = up_to(run.loop, steps)
    return run


def up_to(loop: Iterator[Sequence[Report]], steps: int) -> Iterator[Sequence[Report]]:
    """A run's loop until that step."""
    for reports in loop:
        yield reports
        if reports and reports[-1].step >= steps:
            return


def film_of(boards: dict) -> frozenset[int] | None:
    """The steps of the film that the sender's board had; None where the link does not say."""
    film = boards.get(BOARD, {}).get("film")
    if not isinstance(film, list) or not 0 < len(film) <= LONGEST_FILM:
        return None
    return frozenset(step for step in film if isinstance(step, int))


def check_run(run: dict) -> tuple[dict, int]:
    """Fields and steps of a link's run.

    Raises:
        ValueError: it has others, or a field holds what no field does.
    """
    fields, steps = run.get("form"), run.get("steps")
    is_form = isinstance(fields, dict) and fields.keys() == set(FIELDS)
    if not is_form or not isinstance(steps, int) or isinstance(steps, bool):
        raise ValueError("This link does not say how the sender's run is trained.")
    if not all(value is None or isinstance(value, str | int | float) for value in fields.values()):
        raise ValueError("This link sets a field of Train to what no field holds.")
    restore_form(fields)  # task, model, size and preset are of those that there are
    return {name: fields[name] for name in FIELDS}, steps


def keep_form(page: Page, fields: Form, order: gr.Number, looked: gr.HTML, reseed: gr.Button) -> None:
    """Let links carry the Train tab's settings, and a run that is trained from them again."""

    def restore(values: dict, visit: Visit) -> dict:
        visit.table = None
        updates = restore_form(values)
        changes = {part: updates[name] for name, part in kept.items()}
        said = form.describe_form(*(values.get(name) for name in FIELDS))
        name = form.offers()[values["task"]][0]
        file = gr.update(visible=name in form.COLUMNS, value=None, label=form.FILES.get(name, ""))
        shown = dict(zip([fields.hint, *fields.lines], said, strict=False))
        task = form.build_task(name)
        return changes | shown | {fields.table: file, looked: telling.look_for(task)}

    def stays(visit: Visit) -> str:
        return "The uploaded table stays here: a link carries the settings." if visit.table else ""

    columns = ("column_1", "column_2")  # of a table, which no link carries
    kept = {name: part for name, part in fields.fields.items() if name not in columns}
    page.order = order
    page.keep(
        kept,
        varying=("model", "size", "preset", *FILLED),
        restore=restore,
        inputs=(page.visit,),
        outputs=(fields.hint, *fields.lines, fields.table, looked),
        buttons=(fields.table, reseed),
        stays=stays,
    )


def restore_form(values: dict) -> dict[str, dict]:
    """The updates of the Train tab's fields that show these values, choices and all.

    Raises:
        ValueError: no such task, model or size.
    """
    offered = form.offers()
    if values["task"] not in offered:
        raise ValueError(f"{values['task']!r} is no task here.")
    name, _, _, sizes, _ = offered[values["task"]]
    allowed = {
        "model": list(ARCHITECTURES[TASKS[name].kind]),
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
