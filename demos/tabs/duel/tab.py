"""Duel: two to four models of one size on one task under one budget, side by side."""

import functools

import gradio as gr

from hf_attn.architectures.families import architectures_of
from hf_attn.architectures.registry import check_recipe
from hf_attn.tasks import TASKS, Recipe, Task, build_task
from hf_attn.training.duel import USUAL, Budget, count_parameters, match_parameters

from ...core.events import RunEvent
from ...core.fields import (
    CANNOT_START,
    LARGEST_SEED,
    FieldError,
    blame,
    count_chosen,
    error_lines,
    read_number,
    refuse_form,
    share_task,
    task_choices,
)
from ...core.limits import limits_here
from ...jobs.job import FAILED, FINISHED, RUNNING, STARTING, STOPPED, TIME_UP, WAITING
from ...session.page import EACH_NOW, LAST_NOW, NOW, JobSpec, Page, with_value
from ...session.run_files import wire_download
from ...session.session import Session
from ...snippets.views import duel_snippet
from ...ui import boards, formatting, notices
from .job import DuelJob

TITLE = "Duel"
ASSETS = ("duel.css", "duel_panels.js", "duel_board.js")
BEGIN: list[notices.Part] = [
    "Two to four models of one size learn the same task from the same examples. Press Start."
]

FIRST = "Reversal"
MOST = 4  # series that can be told apart
SIZES = {"50 k": 50_000, "150 k": 150_000, "400 k": 400_000}
BUDGETS = ("steps", "seconds")
MOST_SECONDS = 600.0
FIELDS = ("task", "size", "models", "parameters", "budget", "steps", "seconds", "seed")
ERRORS = ("task", "models", "steps", "seconds", "seed")  # fields that can be wrong


def offered() -> dict[str, tuple]:
    """The tasks that at least two models learn, as in `task_choices`."""
    return {
        label: row
        for label, row in task_choices().items()
        if TASKS[row[0]].kind in USUAL and not TASKS[row[0]].file_label
    }


def titles_of(label: str) -> list[tuple[str, str]]:
    """(title, name) of each model that learns a task, the recurrent (older) ones first."""
    known = architectures_of(TASKS[offered()[label][0]].kind)
    ordered = sorted(known, key=lambda name: not known[name].family.is_recurrent)
    return [(known[name].title, name) for name in ordered]


def choose_task(_: Session, values: dict) -> dict:
    name, _, title, sizes, first = offered()[values["task"]]
    return {
        "size": gr.update(label=title, choices=list(sizes), value=first, visible=len(sizes) > 1),
        "models": gr.update(choices=titles_of(values["task"]), value=list(USUAL[TASKS[name].kind])),
    }


def restore_fields(session: Session, values: dict) -> dict[str, dict]:
    """Updates of the fields, choices included, for these values; ValueError for an unknown one."""
    sizes, known = offered()[values["task"]][3], [name for _, name in titles_of(values["task"])]
    if sizes and values["size"] not in sizes:
        raise ValueError(
            f"{values['size']!r} is not a size of {values['task']}: choose {', '.join(map(str, sizes))}."
        )
    if unknown := sorted(set(values["models"]) - set(known)):
        raise ValueError(f"{unknown[0]!r} cannot learn {values['task']}: choose {', '.join(known)}.")
    changes = choose_task(session, values) | choose_budget(session, values)
    fields = {name: with_value(values[name], changes.get(name)) for name in FIELDS}
    return fields | describe(values)


def choose_budget(_: Session, values: dict) -> dict:
    """The field of the chosen kind is shown."""
    return {kind: gr.update(visible=kind == values["budget"]) for kind in BUDGETS}


def read_form(values: dict) -> tuple[Task, dict[str, Recipe], Budget, int]:
    """Task, contestants, budget and seed of the fields; FieldError where one is wrong."""
    models = tuple(name for _, name in titles_of(values["task"]) if name in values["models"])
    if not 2 <= len(models) <= MOST:
        raise FieldError("models", f"{count_chosen(models)}: choose two to four models.")
    if values["budget"] == BUDGETS[0]:
        steps = read_number("steps", values["steps"], 1, limits_here().steps, whole=True, example=300)
        budget = Budget(steps=steps)
    else:
        most = min(MOST_SECONDS, limits_here().run_seconds)
        budget = Budget(seconds=read_number("seconds", values["seconds"], 1, most, example=20))
    seed = read_number("seed", values["seed"], 0, LARGEST_SEED, whole=True, example=0)
    name, option, *_ = offered()[values["task"]]
    with blame("task"):
        task = share_task(build_task(name, **({option: values["size"]} if option else {})))
        return task, match_models(task, models, SIZES[values["parameters"]]), budget, seed


@functools.lru_cache(maxsize=64)
def match_models(task: Task, models: tuple[str, ...], parameters: int) -> dict[str, Recipe]:
    """Recipes of equal size; cached, as every change of the form asks for them."""
    contestants = match_parameters(task, models, parameters)
    for recipe in contestants.values():
        check_recipe(task, recipe, most=limits_here().training_bytes)
    return contestants


def describe(values: dict) -> dict[str, str]:
    """The line under the settings, and an error under each field; the first one for the Start button too."""
    try:
        task, contestants, _, _ = read_form(values)
    except FieldError as error:
        return {"hint": CANNOT_START, **refuse_form(LABELS, ERRORS, error)}
    widths = [str(recipe.model["hidden_size"]) for recipe in contestants.values()]
    counts = [formatting.in_thousands(count_parameters(task, recipe)) for recipe in contestants.values()]
    hint = notices.note(f"{join_words(counts)} parameters, with hidden sizes {join_words(widths)}.")
    return {"hint": hint, **error_lines(ERRORS)}


def check_form(session: Session, values: dict) -> dict[str, str]:
    """As `describe`; the line under the button says what the duel does where nothing is wrong."""
    lines, duel = describe(values), session.state(DuelJob)
    if duel.is_busy:
        return {name: line for name, line in lines.items() if name != "note"}
    return {"note": notices.note(status_message(duel)), **lines}


def join_words(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


def status_message(duel: DuelJob) -> str:
    if not duel.runs:
        return "Each model sees the same examples in the same order; they learn in turns."
    seconds = duel.seconds_left
    left = "" if seconds is None else f"About {formatting.clock(seconds)} left. "
    sentence = {
        RUNNING: f"{left}Stop takes effect at once and keeps what was learned.",
        STOPPED: f"Stopped at {formatting.percent(duel.done, 0)} of the budget"
        f"{TIME_UP if duel.is_late else ''}; nothing is lost.",
        FAILED: "Failed; the line above the curves says why.",
        FINISHED: "Done.",
    }[duel.status]
    if duel.status in (STOPPED, FINISHED):
        waits = duel.is_concluding and not duel.is_measured
        sentence += " Measuring by length…" if waits else " Keep one to try it and to look inside."
    return sentence


def tell_duel(value: dict) -> list[notices.Part]:
    """The screen's sentence: the best and the worst model at the largest size, or so far."""
    models, sizes = value["contestants"], value["contestants"][0]["sizes"]
    if value["measured"] and sizes and all(len(model["sizes"]) == len(sizes) for model in models):
        low, high = sizes[-1]["from"], sizes[-1]["to"]
        where = f"At {value['size_name']} {low}" + f" to {high}" * (low != high)
        shares = [(model["sizes"][-1]["held_out"], model["name"]) for model in models]
    else:
        where = f"After {formatting.percent(value['done'], 0)} of the budget"
        shares = [(model["validation"], model["name"]) for model in models]
    if any(share is None for share, _ in shares):
        return ["The models have begun; their first answers are not measured yet."]
    (best, first), (worst, last) = max(shares), min(shares)
    if best == worst:
        return [f"{where} all models have ", ("b", formatting.percent(best, 0)), " right."]
    return [
        f"{where} {first} has ",
        ("b", formatting.percent(best, 0)),
        f" right, {last} ",
        ("b", formatting.percent(worst, 0)),
        ".",
    ]


def show_duel(session: Session) -> dict:
    """The whole tab, as the duel stands."""
    duel = session.state(DuelJob)
    runs, is_running = duel.runs, duel.status == RUNNING
    if not runs:
        stopped = gr.update(interactive=False)
        return {"start": "Start", "stop": stopped, "note": notices.note(status_message(duel))}
    counts = duel.parameters.values()
    sizes = dict.fromkeys(formatting.in_thousands(count) for count in (min(counts), max(counts)))
    steps = sorted({run.step for run in runs})
    weights = f"step {formatting.count(steps[0])}" + f" to {formatting.count(steps[-1])}" * (len(steps) > 1)
    device = next((run.device_type for run in runs if run.model is not None), None)
    origin = notices.origin(
        f"{len(runs)} models of {' to '.join(sizes)}",
        weights if steps[-1] else "untrained",
        f"{formatting.DEVICES.get(device, device)}, float32",
    )
    value = {**duel.to_message(set(session.runs)), "python": duel_snippet(runs, duel.budget)}
    return {
        "board": boards.to_json(value),
        "told": notices.headline(tell_duel(value)),
        "start": f"Learning, {formatting.percent(duel.done, 0)}" if is_running else "Start",
        "stop": gr.update(interactive=is_running),
        "note": notices.note(status_message(duel)),
        "origin": origin if device else gr.skip(),
    }


def start_duel(session: Session, values: dict) -> DuelJob:
    """Let a duel with these settings take the place of the last; FieldError where one is wrong."""
    duel = session.state(DuelJob)
    duel.configure(values, *read_form(values), device=session.device)
    duel.measure_baseline = session.measure_beside
    return duel


def press_start(session: Session, values: dict) -> dict:
    """Start a duel with these settings; nothing while one is running."""
    if session.state(DuelJob).is_busy:
        return {}
    try:
        start_duel(session, values)
    except FieldError as error:
        return refuse_form(LABELS, ERRORS, error)
    cleared = {"fold": gr.update(open=False), **error_lines(ERRORS)}
    return show_duel(session) | cleared | {"note": notices.note(STARTING, later=WAITING)}


def start_linked_duel(session: Session, spec: JobSpec, _: list) -> DuelJob:
    """A link's duel; ValueError where its settings or its steps are wrong."""
    restore_fields(session, spec.form)
    _, contestants, _, _ = read_form(spec.form)
    if len(spec.progress) != len(contestants):
        raise ValueError(f"This link says how far {len(spec.progress)} models of {len(contestants)} came.")
    return start_duel(session, spec.form)


def keep_run(session: Session, event: RunEvent) -> dict:
    """Put a contestant among the session's runs, where Train, Try and Explore find it."""
    run = session.state(DuelJob).find(event.run)
    if run is None or run.model is None or run.is_live:
        return {}
    most = limits_here().runs
    if len(session.runs) >= most and run.id not in session.runs:
        return {"note": notices.note(f"At most {most} runs are kept: delete one in Train first.")}
    session.runs[run.id], run.is_closed = run, False
    note = notices.note(f"{run.name} is kept: find it in Train, Try and Explore.")
    return show_duel(session) | {"note": note}


LABELS = {
    "task": "Task",
    "size": "Longest",
    "models": "Models",
    "parameters": "Parameters each",
    "budget": "Equal budget in",
    "steps": "Steps each",
    "seconds": "Seconds each",
    "seed": "Seed",
}


def build_form() -> tuple[dict, dict]:
    """Lay the settings out: fields, and the lines for what is wrong and under all of them, by name."""
    name, _, title, sizes, size = offered()[FIRST]
    look = {field: {"label": label, "elem_id": f"duel-{field}"} for field, label in LABELS.items()}
    fields, lines = {}, {}
    fields["task"] = gr.Dropdown(list(offered()), value=FIRST, **look["task"])
    lines["task_error"] = notices.build_error_line("duel-error-task")
    fields["size"] = gr.Dropdown(list(sizes), value=size, **look["size"] | {"label": title})
    usual = list(USUAL[TASKS[name].kind])
    fields["models"] = gr.CheckboxGroup(titles_of(FIRST), value=usual, **look["models"])
    lines["models_error"] = notices.build_error_line("duel-error-models")
    fields["parameters"] = gr.Radio(list(SIZES), value="50 k", elem_classes="seg", **look["parameters"])
    fields["budget"] = gr.Radio(list(BUDGETS), value=BUDGETS[0], elem_classes="seg", **look["budget"])
    with gr.Row(elem_classes="hf-two"):
        for field, value in (("steps", "300"), ("seconds", "20"), ("seed", "0")):
            fields[field] = gr.Textbox(
                value, max_lines=1, min_width=0, visible=field != "seconds", **look[field]
            )
    for field in ("steps", "seconds", "seed"):
        lines[f"{field}_error"] = notices.build_error_line(f"duel-error-{field}")
    lines["hint"] = gr.HTML(describe({name: field.value for name, field in fields.items()})["hint"])
    return {name: fields[name] for name in FIELDS}, lines


def build(page: Page) -> None:
    nothing = notices.origin("none yet", "none", page.device)
    told, origin = notices.build_lead(BEGIN, nothing, "duel-origin")
    with gr.Row(elem_classes="hf-work"):
        with gr.Column(elem_classes=["hf-panel", "hf-side"], min_width=0):
            start = gr.Button("Start", variant="primary", elem_classes="hf-start", elem_id="duel-start")
            stop = gr.Button("Stop", variant="stop", size="md", interactive=False, elem_id="duel-stop")
            note = gr.HTML(notices.note(status_message(DuelJob())), elem_id="duel-note")
            with gr.Accordion("Settings", elem_classes="hf-settings") as fold:
                fields, lines = build_form()
        with gr.Column(min_width=0, elem_classes="hf-result"):
            board = boards.build_board("duel_board", "hf-duel", "duel-board", "keep_run", "download_run")
    zipped = gr.DownloadButton(visible="hidden", elem_id="duel-zip")
    shown = {"board": board, "start": start, "stop": stop, "note": note, "origin": origin, "told": told}
    page.link_fields(
        fields, varying=("size", "models"), restore=restore_fields, shows={**lines, "note": note}
    )
    view = page.link_job(
        "duel",
        kind=DuelJob,
        show=show_duel,
        shows=shown,
        fields=fields,
        varying=("size", "models"),
        start=start_linked_duel,
    )
    page.drive(view, start.click, press_start, fields, stop.click, {**lines, "fold": fold})
    picked = page.connect(fields["task"].input, choose_task, fields, fields, **NOW)
    checked = {"handler": check_form, "reads": fields, "shows": {**lines, "note": note}}
    page.connect(picked.then, **checked, **NOW)
    page.connect(fields["budget"].input, choose_budget, fields, fields, **NOW)
    edited = [fields[field].change for field in FIELDS if field != "task"]
    page.connect(edited, **checked, **LAST_NOW)
    page.run_ended.append(page.connect(board.keep_run, keep_run, None, shown, **EACH_NOW))
    wire_download(page, board, zipped, note)
