"""Duel: two to four models of one size on one task under one budget, side by side."""

import contextlib
import functools
from collections.abc import Iterator

import gradio as gr

from hf_attn.architectures.families import architectures_of
from hf_attn.architectures.registry import check_recipe
from hf_attn.tasks import TASKS, Recipe, Task, build_task
from hf_attn.training.duel import USUAL, Budget, count_parameters, match_parameters

from ...core.events import RunEvent
from ...core.fields import (
    LARGEST_SEED,
    FieldError,
    count_chosen,
    error_lines,
    read_number,
    refusal_line,
    share_task,
    task_choices,
)
from ...core.limits import limits_here
from ...jobs.job import STARTING, TIME_UP, WAITING
from ...jobs.training_job import FAILED, FINISHED, RUNNING, STOPPED
from ...session.page import NOW, Page, state_of, with_value
from ...session.run_files import wire_download
from ...session.session import Session
from ...snippets.views import duel_snippet
from ...ui import boards, formatting, notices
from .job import DuelJob, drive_duel, measure_duel

TITLE = "Duel"
ASSETS = ("duel.css", "duel_panels.js", "duel_board.js")
LOOK_FOR = (
    "the length at which the model without attention fails: one vector holds no more, "
    "while a map still finds each symbol."
)

FIRST = "Reversal"
MOST = 4  # series that can be told apart
SIZES = {"50 k": 50_000, "150 k": 150_000, "400 k": 400_000}
BUDGETS = ("steps", "seconds")
MOST_SECONDS = 600.0
FIELDS = ("task", "size", "models", "parameters", "budget", "steps", "seconds", "seed")
ERRORS = ("task", "models", "steps", "seconds", "seed")  # fields that can be wrong
SCREEN = ("board", "start", "stop", "note", "origin")


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


def choose_task(label: str) -> list[dict]:
    """[size, models] for another task."""
    name, _, title, sizes, first = offered()[label]
    size = gr.update(label=title, choices=list(sizes), value=first, visible=len(sizes) > 1)
    return [size, gr.update(choices=titles_of(label), value=list(USUAL[TASKS[name].kind]))]


def restore_fields(values: dict) -> dict[str, dict]:
    """Updates of the fields, choices included, for these values; ValueError for an unknown one."""
    sizes, known = offered()[values["task"]][3], [name for _, name in titles_of(values["task"])]
    if sizes and values["size"] not in sizes:
        raise ValueError(
            f"{values['size']!r} is not a size of {values['task']}: choose {', '.join(map(str, sizes))}."
        )
    if unknown := sorted(set(values["models"]) - set(known)):
        raise ValueError(f"{unknown[0]!r} cannot learn {values['task']}: choose {', '.join(known)}.")
    changes = dict(zip(("size", "models"), choose_task(values["task"]), strict=True))
    changes |= dict(zip(BUDGETS, choose_budget(values["budget"]), strict=True))
    return {name: with_value(values[name], changes.get(name)) for name in FIELDS}


def choose_budget(kind: str) -> list[dict]:
    """[steps, seconds]: one is shown."""
    return [gr.update(visible=kind == BUDGETS[0]), gr.update(visible=kind == BUDGETS[1])]


def read_form(*form) -> tuple[Task, dict[str, Recipe], Budget, int]:
    """Task, contestants, budget and seed of the values of FIELDS; FieldError where one is wrong."""
    values = dict(zip(FIELDS, form, strict=True))
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
    try:
        task = share_task(build_task(name, **({option: values["size"]} if option else {})))
        return task, match_models(task, models, SIZES[values["parameters"]]), budget, seed
    except (ValueError, ImportError) as error:
        raise FieldError("task", str(error)) from error


@functools.lru_cache(maxsize=64)
def match_models(task: Task, models: tuple[str, ...], parameters: int) -> dict[str, Recipe]:
    """Recipes of equal size; cached, as every change of the form asks for them."""
    contestants = match_parameters(task, models, parameters)
    for recipe in contestants.values():
        check_recipe(task, recipe, most=limits_here().training_bytes)
    return contestants


def describe(*form) -> list[str]:
    """[the line under the settings, an error under each field]."""
    try:
        task, contestants, _, _ = read_form(*form)
    except FieldError as error:
        return [
            notices.note("Nothing can start until the marked settings are corrected."),
            *error_lines(ERRORS, error),
        ]
    widths = [str(recipe.model["hidden_size"]) for recipe in contestants.values()]
    counts = [formatting.in_thousands(count_parameters(task, recipe)) for recipe in contestants.values()]
    return [
        notices.note(f"{join_words(counts)} parameters, with hidden sizes {join_words(widths)}."),
        *error_lines(ERRORS),
    ]


def check_form(duel: DuelJob, *form) -> list:
    """As `describe`, and the error again under the Start button."""
    lines = describe(*form)
    if duel.status == RUNNING:
        return [*lines, gr.skip()]
    try:
        read_form(*form)
    except FieldError as error:
        return [*lines, refusal_line(error, LABELS)]
    return [*lines, notices.note(status_message(duel))]


def join_words(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


screen = functools.partial(boards.by_name, SCREEN)


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
        sentence += " Keep one to try it and to look inside." if duel.is_measured else " Measuring by length…"
    return sentence


def show_duel(session: Session, duel: DuelJob) -> list:
    """Outputs in the order of SCREEN."""
    runs, is_running = duel.runs, duel.status == RUNNING
    if not runs:
        return screen(
            start="Start", stop=gr.update(interactive=False), note=notices.note(status_message(duel))
        )
    counts = duel.parameters.values()
    sizes = dict.fromkeys(formatting.in_thousands(count) for count in (min(counts), max(counts)))
    steps = sorted({run.step for run in runs})
    weights = f"step {formatting.count(steps[0])}" + f" to {formatting.count(steps[-1])}" * (len(steps) > 1)
    device = next((run.accelerator.device.type for run in runs if run.model is not None), None)
    origin = notices.origin(
        f"{len(runs)} models of {' to '.join(sizes)}",
        weights if steps[-1] else "untrained",
        f"{formatting.DEVICES.get(device, device)}, float32",
    )
    return screen(
        board=boards.to_json(
            {**duel.to_message(set(session.runs)), "python": duel_snippet(runs, duel.budget)}
        ),
        start=f"Learning, {formatting.percent(duel.done, 0)}" if is_running else "Start",
        stop=gr.update(interactive=is_running),
        note=notices.note(status_message(duel)),
        origin=origin if device else gr.skip(),
    )


def follow(session: Session, duel: DuelJob) -> Iterator[list]:
    """Run the duel and keep the page up to date: the only handler that takes long."""
    if duel.is_live or duel.status != RUNNING or not duel.runs:
        yield screen()
        return
    yield screen(note=notices.note(STARTING))  # no longer waiting
    with contextlib.closing(drive_duel(duel)) as moments:
        for _ in moments:
            if session.is_over:
                return
            yield show_duel(session, duel)
    yield show_duel(session, duel)
    for _ in measure_duel(duel):
        yield show_duel(session, duel)
    if duel.runs and duel.is_measured:
        duel.baseline = session.measure_beside(duel.runs[0].task)
        yield show_duel(session, duel)


def press_start(session: Session, duel: DuelJob, order: int, *form) -> list:
    """Start a duel with these settings; nothing while one is running."""
    if duel.status == RUNNING:
        return [order, gr.skip(), *error_lines(ERRORS), *screen()]
    try:
        duel.configure(*read_form(*form), device=session.device)
        duel.form = dict(zip(FIELDS, form, strict=True))
    except FieldError as error:
        return [order, gr.skip(), *error_lines(ERRORS, error), *screen(note=refusal_line(error, LABELS))]
    changes = dict(zip(SCREEN, show_duel(session, duel), strict=True)) | {
        "note": notices.note(STARTING, later=WAITING)
    }
    return [order + 1, gr.update(open=False), *error_lines(ERRORS), *screen(**changes)]


def replay_duel(form: dict, taken: list[int], session: Session, duel: DuelJob, order: int) -> list:
    """Start a link's duel, to end where the sender's stood: as `press_start`; ValueError if it cannot."""
    restore_fields(form)
    _, contestants, _, _ = read_form(*(form[name] for name in FIELDS))
    if len(taken) != len(contestants):
        raise ValueError(f"This link says how far {len(taken)} models of {len(contestants)} came.")
    answer = press_start(session, duel, order, *(form[name] for name in FIELDS))
    duel.until = taken
    return answer


def press_stop(session: Session, duel: DuelJob) -> list:
    """Stop the duel after its current step; one that still waits for a place is stopped here."""
    if duel.stop is not None:
        duel.stop.set()
    if duel.status == RUNNING and not duel.is_live:
        duel.status = STOPPED
        return show_duel(session, duel)
    return screen()


def keep_run(session: Session, duel: DuelJob, event: RunEvent) -> list:
    """Put a contestant among the session's runs, where Train, Try and Explore find it."""
    run = duel.find(event.run)
    if run is None or run.model is None or run.is_live:
        return screen()
    most = limits_here().runs
    if len(session.runs) >= most and run.id not in session.runs:
        return screen(note=notices.note(f"At most {most} runs are kept: delete one in Train first."))
    session.runs[run.id] = run
    shown = dict(zip(SCREEN, show_duel(session, duel), strict=True))
    return screen(**shown | {"note": notices.note(f"{run.name} is kept: find it in Train, Try and Explore.")})


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


def build_form() -> tuple[dict, dict, gr.HTML]:
    """Lay the settings out: (fields, error lines, the last line)."""
    name, _, title, sizes, size = offered()[FIRST]
    look = {field: {"label": label, "elem_id": f"duel-{field}"} for field, label in LABELS.items()}
    fields, lines = {}, {}

    def line(field: str) -> None:
        lines[field] = notices.build_error_line(f"duel-error-{field}")

    fields["task"] = gr.Dropdown(list(offered()), value=FIRST, **look["task"])
    line("task")
    fields["size"] = gr.Dropdown(list(sizes), value=size, **look["size"] | {"label": title})
    usual = list(USUAL[TASKS[name].kind])
    fields["models"] = gr.CheckboxGroup(titles_of(FIRST), value=usual, **look["models"])
    line("models")
    fields["parameters"] = gr.Radio(list(SIZES), value="150 k", elem_classes="seg", **look["parameters"])
    fields["budget"] = gr.Radio(list(BUDGETS), value=BUDGETS[0], elem_classes="seg", **look["budget"])
    with gr.Row(elem_classes="hf-two"):
        for field, value in (("steps", "300"), ("seconds", "20"), ("seed", "0")):
            fields[field] = gr.Textbox(
                value, max_lines=1, min_width=0, visible=field != "seconds", **look[field]
            )
    for field in ("steps", "seconds", "seed"):
        line(field)
    hint = gr.HTML(describe(*(fields[field].value for field in FIELDS))[0])
    return fields, lines, hint


def duel_board(elem_id: str) -> gr.HTML:
    """Build the picture of a duel, which takes a `DuelValue`: curves, standings, maps side by side."""
    events = ("keep_run", "download_run")
    return boards.build_board("duel_board", "hf-duel", elem_id, *events)


def build(page: Page) -> None:
    nothing = notices.origin("none yet", "none", page.device)
    _, origin = notices.build_lead(LOOK_FOR, nothing, "duel-origin")
    with gr.Row(elem_classes="hf-work"):
        with gr.Column(elem_classes=["hf-panel", "hf-side"], min_width=0):
            start = gr.Button("Start", variant="primary", elem_classes="hf-start", elem_id="duel-start")
            stop = gr.Button("Stop", variant="stop", size="md", interactive=False, elem_id="duel-stop")
            note = gr.HTML(notices.note(status_message(DuelJob())), elem_id="duel-note")
            with gr.Accordion("Settings", elem_classes="hf-settings") as fold:
                fields, lines, hint = build_form()
        with gr.Column(min_width=0, elem_classes="hf-result"):
            board = duel_board("duel-board")
    zipped = gr.DownloadButton(visible="hidden", elem_id="duel-zip")
    order = gr.Number(0, visible="hidden")  # counts the duels to follow; its change starts the long handler
    duel = state_of(DuelJob(), DuelJob.close)
    session, form = page.session, [fields[field] for field in FIELDS]
    shown = [board, start, stop, note, origin]

    answer = [order, fold, *(lines[field] for field in ERRORS), *shown]
    start.click(press_start, [session, duel, order, *form], answer, **NOW)
    stop.click(press_stop, [session, duel], shown, **NOW)
    order.change(follow, [session, duel], shown, **page.in_turn)

    described = [hint, *(lines[field] for field in ERRORS)]
    checked = {"fn": check_form, "inputs": [duel, *form], "outputs": [*described, note]}
    picked = fields["task"].input(choose_task, fields["task"], [fields["size"], fields["models"]], **NOW)
    picked.then(**checked, **NOW)
    fields["budget"].input(choose_budget, fields["budget"], [fields["steps"], fields["seconds"]], **NOW)
    edited = [fields[field].change for field in FIELDS if field != "task"]
    gr.on(edited, **checked, **NOW, trigger_mode="always_last")

    def open_link(values):
        changes = {fields[name]: update for name, update in restore_fields(values).items()}
        return changes | dict(zip(described, describe(*(values[name] for name in FIELDS)), strict=True))

    def open_again(*link):
        begun = dict(zip(answer, replay_duel(*link), strict=True))
        return begun | {fold: gr.skip()}  # folded before it is seen, it could not be opened on a wide screen

    page.link_fields(fields, varying=("size", "models"), restore=open_link, outputs=tuple(described))
    begins = {"inputs": (session, duel, order), "outputs": tuple(answer)}
    page.link_job("duel", fields, duel, open_again, varying=("size", "models"), count=None, **begins)
    many = {**NOW, "trigger_mode": "multiple"}
    page.run_ended.append(board.keep_run(keep_run, [session, duel], shown, **many))
    wire_download(board, session, zipped, note)
