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
from ...core.limits import limits_here
from ...jobs.job import LATE, STARTING, WAITING
from ...jobs.training_job import FAILED, FINISHED, RUNNING, STOPPED
from ...session.page import LIGHT, Page, state_of, with_value
from ...session.run_files import wire_download
from ...session.session import Session
from ...snippets import views as python_lines
from ...ui import boards, formatting, notices
from ..train.form import (
    FieldError,
    count_chosen,
    errors_of,
    offers,
    parse_number,
    read_number,
    refuse,
    refuse_text,
    share_task,
)
from . import job as duels
from .job import DuelJob

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
SECONDS = "a number from 1 to {:.0f}; 20 works."
FIELDS = ("task", "size", "models", "parameters", "budget", "steps", "seconds", "seed")
ERRORS = ("task", "models", "steps", "seconds", "seed")  # fields that can be wrong
SCREEN = ("board", "start", "stop", "note", "origin")


def offered() -> dict[str, tuple]:
    """The tasks that two models can learn: label → (name, option, its name, sizes, the first)."""
    return {
        label: row
        for label, row in offers().items()
        if TASKS[row[0]].kind in USUAL and not TASKS[row[0]].file_label
    }


def titles_of(label: str) -> list[tuple[str, str]]:
    """(title, name) of each model that learns a task, the recurrent ones first: they are older."""
    known = architectures_of(TASKS[offered()[label][0]].kind)
    ordered = sorted(known, key=lambda name: not known[name].family.is_recurrent)
    return [(known[name].title, name) for name in ordered]


def choose_task(label: str) -> list[dict]:
    """Another task: [size, models]."""
    name, _, title, sizes, first = offered()[label]
    size = gr.update(label=title, choices=list(sizes), value=first, visible=len(sizes) > 1)
    return [size, gr.update(choices=titles_of(label), value=list(USUAL[TASKS[name].kind]))]


def restore(values: dict) -> dict[str, dict]:
    """The updates of the fields that show these values, choices and all.

    Raises:
        ValueError: no such size or model.
    """
    sizes, known = offered()[values["task"]][3], [name for _, name in titles_of(values["task"])]
    if sizes and values["size"] not in sizes:
        raise ValueError(
            f"{values['size']!r} is no size of {values['task']}: {', '.join(map(str, sizes))} are."
        )
    if unknown := sorted(set(values["models"]) - set(known)):
        raise ValueError(f"{unknown[0]!r} does not learn {values['task']}: {', '.join(known)} do.")
    changes = dict(zip(("size", "models"), choose_task(values["task"]), strict=True))
    changes |= dict(zip(BUDGETS, choose_budget(values["budget"]), strict=True))
    return {name: with_value(values[name], changes.get(name)) for name in FIELDS}


def choose_budget(kind: str) -> list[dict]:
    """Steps or seconds: [steps, seconds]."""
    return [gr.update(visible=kind == BUDGETS[0]), gr.update(visible=kind == BUDGETS[1])]


def read_form(*form) -> tuple[Task, dict[str, Recipe], Budget, int]:
    """Task, contestants, budget and seed of the settings.

    Args:
        *form: values in the order of FIELDS.

    Raises:
        FieldError: a field holds what cannot be used.
    """
    values = dict(zip(FIELDS, form, strict=True))
    models = tuple(name for _, name in titles_of(values["task"]) if name in values["models"])
    if not 2 <= len(models) <= MOST:
        raise FieldError("models", f"{count_chosen(models)}: choose two to four models.")
    if values["budget"] == BUDGETS[0]:
        budget = Budget(steps=read_number("steps", values["steps"]))
    else:
        budget = Budget(seconds=read_seconds(values["seconds"]))
    seed = read_number("seed", values["seed"])
    name, option, *_ = offered()[values["task"]]
    try:
        task = share_task(build_task(name, **({option: values["size"]} if option else {})))
        return task, match_models(task, models, SIZES[values["parameters"]]), budget, seed
    except (ValueError, ImportError) as error:
        raise FieldError("task", str(error)) from error


@functools.lru_cache(maxsize=64)
def match_models(task: Task, models: tuple[str, ...], parameters: int) -> dict[str, Recipe]:
    """Recipes of equal size: asked for at each change of the form."""
    contestants = match_parameters(task, models, parameters)
    for recipe in contestants.values():
        check_recipe(task, recipe, most=limits_here().training_bytes)
    return contestants


def read_seconds(text: object) -> float:
    """A number within its limits, or a FieldError that says what would work."""
    most = min(MOST_SECONDS, limits_here().run_seconds)
    if 1 <= (seconds := parse_number(text, float)) <= most:
        return seconds
    raise FieldError("seconds", refuse_text(text, SECONDS.format(most)))


def describe(*form) -> list[str]:
    """The line under the settings, and what is wrong with them under each field."""
    try:
        task, contestants, _, _ = read_form(*form)
    except FieldError as error:
        return [
            notices.note("Nothing starts until the settings are in their range."),
            *errors_of(ERRORS, error),
        ]
    widths = [str(recipe.model["hidden_size"]) for recipe in contestants.values()]
    counts = [formatting.in_thousands(count_parameters(task, recipe)) for recipe in contestants.values()]
    return [
        notices.note(f"{join_words(counts)} parameters, by hidden sizes {join_words(widths)}."),
        *errors_of(ERRORS),
    ]


def check(duel: DuelJob, *form) -> list:
    """What `describe` says; and under the Start button that a setting will not do, as long as that is so."""
    told = describe(*form)
    if duel.status == RUNNING:
        return [*told, gr.skip()]
    try:
        read_form(*form)
    except FieldError as error:
        return [*told, refuse(error, LABELS)]
    return [*told, notices.note(tell(duel))]


def join_words(words: list[str]) -> str:
    """1, 2 and 3."""
    return f"{', '.join(words[:-1])} and {words[-1]}"


screen = functools.partial(boards.by_name, SCREEN)


def tell(duel: DuelJob) -> str:
    """One sentence on what happens or happened."""
    if not duel.runs:
        return "Each model sees the same examples in the same order; they learn in turns."
    seconds = duel.seconds_left
    left = "" if seconds is None else f"About {formatting.clock(seconds)} left. "
    said = {
        RUNNING: f"{left}Stop takes effect at once and keeps what was learned.",
        STOPPED: f"Stopped at {formatting.percent(duel.done, 0)} of the budget"
        f"{LATE if duel.is_late else ''}; nothing is lost.",
        FAILED: "Failed; the line above the curves says why.",
        FINISHED: "Done.",
    }[duel.status]
    if duel.status in (STOPPED, FINISHED):
        said += " Keep one to try it and to look inside." if duel.is_measured else " Measuring by length…"
    return said


def show(session: Session, duel: DuelJob) -> list:
    """Everything, as the duel stands."""
    runs, is_running = duel.runs, duel.status == RUNNING
    if not runs:
        return screen(start="Start", stop=gr.update(interactive=False), note=notices.note(tell(duel)))
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
            {**duel.to_message(set(session.runs)), "python": python_lines.explain_duel(runs, duel.budget)}
        ),
        start=f"Learning, {formatting.percent(duel.done, 0)}" if is_running else "Start",
        stop=gr.update(interactive=is_running),
        note=notices.note(tell(duel)),
        origin=origin if device else gr.skip(),
    )


def follow(session: Session, duel: DuelJob) -> Iterator[list]:
    """Let them learn, and keep the page up to date: the one handler that takes long."""
    if duel.is_live or duel.status != RUNNING or not duel.runs:
        yield screen()
        return
    yield screen(note=notices.note(STARTING))  # no longer waiting
    with contextlib.closing(duels.drive(duel)) as moments:
        for _ in moments:
            if session.is_over:
                return
            yield show(session, duel)
    yield show(session, duel)
    for _ in duels.measure(duel):
        yield show(session, duel)
    if duel.runs and duel.is_measured:
        duel.baseline = session.measure_beside(duel.runs[0].task)
        yield show(session, duel)


def press_start(session: Session, duel: DuelJob, order: int, *form) -> list:
    """A new duel from the settings, to be followed; nothing while one is under way."""
    if duel.status == RUNNING:
        return [order, gr.skip(), *errors_of(ERRORS), *screen()]
    try:
        duel.arrange(*read_form(*form), device=session.device)
        duel.form = dict(zip(FIELDS, form, strict=True))
    except FieldError as error:
        return [order, gr.skip(), *errors_of(ERRORS, error), *screen(note=refuse(error, LABELS))]
    changes = dict(zip(SCREEN, show(session, duel), strict=True)) | {
        "note": notices.note(STARTING, later=WAITING)
    }
    return [order + 1, gr.update(open=False), *errors_of(ERRORS), *screen(**changes)]


def learn_again(form: dict, taken: list[int], session: Session, duel: DuelJob, order: int) -> list:
    """A link's duel, to be followed until each model stands where the sender's did: as `press_start`.

    Raises:
        ValueError: the settings make none, or one of other models.
    """
    restore(form)
    _, contestants, _, _ = read_form(*(form[name] for name in FIELDS))
    if len(taken) != len(contestants):
        raise ValueError(f"This link says how far {len(taken)} models of {len(contestants)} came.")
    answer = press_start(session, duel, order, *(form[name] for name in FIELDS))
    duel.until = taken
    return answer


def press_stop(session: Session, duel: DuelJob) -> list:
    """Ask the duel to stop after the step under way; one that still waits for a place is stopped here."""
    if duel.stop is not None:
        duel.stop.set()
    if duel.status == RUNNING and not duel.is_live:
        duel.status = STOPPED
        return show(session, duel)
    return screen()


def keep_run(session: Session, duel: DuelJob, event: RunEvent) -> list:
    """Put a contestant among the runs of this session: Train, Try and Explore then have it."""
    run = duel.find(event.run)
    if run is None or run.model is None or run.is_live:
        return screen()
    most = limits_here().runs
    if len(session.runs) >= most and run.id not in session.runs:
        return screen(note=notices.note(f"{most} runs are kept: delete one in Train first."))
    session.runs[run.id] = run
    shown = dict(zip(SCREEN, show(session, duel), strict=True))
    return screen(**shown | {"note": notices.note(f"{run.name} is kept: Try and Explore have it.")})


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
    """Lay the settings out: (fields, lines for what is wrong, the last line)."""
    name, _, title, sizes, size = offered()[FIRST]
    look = {field: {"label": label, "elem_id": f"duel-{field}"} for field, label in LABELS.items()}
    fields, lines = {}, {}

    def line(field: str) -> None:
        lines[field] = gr.HTML(elem_classes="hf-field-error", elem_id=f"duel-error-{field}")

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
    """Build the picture of a duel: curves, accuracy by size, standings, and the maps side by side.

    Value: `to_json` of None or a dict with everything, each time.

        duel            which one; a new number starts afresh
        status          "running" | "stopped" | "finished" | "error";  message: what failed
        done            0 to 1;  measured: whether the figures by size are all there
        task, metric, size_name, probe, answer;  baseline {name, parameters, seconds, held_out, interval} or
                        None;  budget {steps, seconds}, one of them None
        contestants     two to four of {id, name, model, parameters, status, message, step, steps, seconds,
                        spent, held_out, examples, interval [low, high], loss, kept,
                        points [{step, seconds, held_out, loss}],
                        sizes [{from, to, examples, held_out, low, high}],
                        map {maps: encode_maps([heads, rows, cols]), heads, rows, cols, truth, layer, step,
                        source: how many of the columns} or None,
                        written {written, wrong, right, answer}}

    Events `keep_run` and `download_run` with `event.run` (the id). The page's button `duel-start` shows its
    progress.
    """
    events = ("keep_run", "download_run")
    return boards.build_board("duel_board", "hf-duel", elem_id, *events)


def build(page: Page) -> None:
    """Lay the tab out and connect it."""
    with gr.Row(elem_classes="hf-lead"):
        gr.HTML(notices.look_for(LOOK_FOR))
        origin = gr.HTML(notices.origin("none yet", "none", page.device), elem_id="duel-origin")
    with gr.Row(elem_classes="hf-work"):
        with gr.Column(elem_classes=["hf-panel", "hf-side"], min_width=0):
            start = gr.Button("Start", variant="primary", elem_classes="hf-start", elem_id="duel-start")
            stop = gr.Button("Stop", variant="stop", size="md", interactive=False, elem_id="duel-stop")
            said = gr.HTML(notices.note(tell(DuelJob())), elem_id="duel-note")
            with gr.Accordion("Settings", elem_classes="hf-settings") as fold:
                fields, lines, hint = build_form()
        with gr.Column(min_width=0, elem_classes="hf-result"):
            board = duel_board("duel-board")
    zipped = gr.DownloadButton(visible="hidden", elem_id="duel-zip")
    order = gr.Number(0, visible="hidden")  # counts the duels to follow; its change starts the long handler
    duel = state_of(DuelJob(), DuelJob.close)
    session, form = page.session, [fields[field] for field in FIELDS]
    shown = [board, start, stop, said, origin]
    light = {**LIGHT, "queue": False}
    in_turn = {"concurrency_id": "train", "concurrency_limit": page.places}

    answer = [order, fold, *(lines[field] for field in ERRORS), *shown]
    start.click(press_start, [session, duel, order, *form], answer, **light)
    stop.click(press_stop, [session, duel], shown, **light)
    order.change(follow, [session, duel], shown, **LIGHT, **in_turn)

    described = [hint, *(lines[field] for field in ERRORS)]
    checked = {"fn": check, "inputs": [duel, *form], "outputs": [*described, said]}
    picked = fields["task"].input(choose_task, fields["task"], [fields["size"], fields["models"]], **light)
    picked.then(**checked, **light)
    fields["budget"].input(choose_budget, fields["budget"], [fields["steps"], fields["seconds"]], **light)
    edited = [fields[field].change for field in FIELDS if field != "task"]
    gr.on(edited, **checked, **light, trigger_mode="always_last")

    def open_link(values):
        changes = {fields[name]: update for name, update in restore(values).items()}
        return changes | dict(zip(described, describe(*(values[name] for name in FIELDS)), strict=True))

    def open_again(*link):
        begun = dict(zip(answer, learn_again(*link), strict=True))
        return begun | {fold: gr.skip()}  # folded before it is seen, it could not be opened on a wide screen

    page.link_fields(fields, varying=("size", "models"), restore=open_link, outputs=tuple(described))
    begins = {"inputs": (session, duel, order), "outputs": tuple(answer)}
    page.link_job("duel", fields, duel, open_again, varying=("size", "models"), count=None, **begins)
    many = {**light, "trigger_mode": "multiple"}
    page.run_ended.append(board.keep_run(keep_run, [session, duel], shown, **many))
    wire_download(board, session, zipped, said)
