"""Train: choose a task and a size, watch the attention form, go back through time, keep the model."""

import contextlib
import functools
from collections.abc import Callable, Iterator

import gradio as gr

from hf_attn.tasks import TASKS, build_task
from hf_attn.tasks.base import CLASSES

from ...jobs import job as driving
from ...jobs.job import STARTING, WAITING
from ...jobs.training_job import FINISHED, PAUSED, RUNNING, STOPPED
from ...session import reload
from ...session.page import LIGHT, Page
from ...session.run_files import wire_download
from ...session.session import Session
from ...ui import boards, notices
from . import replay
from .board import compare_board, runs_table, train_board
from .form import (
    CHOSEN,
    ERRORS,
    FIELDS,
    FILLED,
    FieldError,
    all_wrong,
    choose_model,
    choose_optimizer,
    choose_task,
    clear_probe,
    describe_form,
    errors_of,
    fill_form,
    offer_heads,
    offers,
    read_form,
    read_probe,
    refuse,
    show_columns,
)
from .form_layout import Form, build_form
from .messages import (
    SCREEN,
    look_for,
    screen,
    show_all,
    show_controls,
    show_table,
    tell,
    tell_board,
)
from .runs_table import compare_runs, delete_run, open_run, rename_run

TITLE = "Train"
ASSETS = (
    "train.css",
    "train_state.js",
    "train_panels.js",
    "train_board.js",
    "runs_table.js",
    "compare_board.js",
)

PACES = ("full speed", "watch")


def follow(session: Session) -> Iterator[list]:
    """Train the visitor's current run, and keep the page up to date: the one handler that takes long."""
    run = session.run
    if run is None or run.is_live or run.status not in (RUNNING, PAUSED):
        yield screen()
        return
    told, measured = {}, None
    with contextlib.closing(driving.drive(run)) as moments:
        for _ in moments:
            controls = show_controls(session)
            news = {name: value for name, value in controls.items() if told.get(name) != value}
            told = controls
            if session.shown == run.id and run.model is not None:
                news["board"] = boards.to_json(tell_board(run))
            if measured != run.predicted_at:  # the table is drawn anew only where it says something new
                measured = run.predicted_at
                news["runs"] = show_table(session)
            yield screen(**news)
    if run.id not in session.runs or session.is_over:
        return
    yield show_all(session)
    if run.status in (FINISHED, STOPPED) and run.step:
        driving.measure(run)
        yield show_all(session)
        if run.task.kind == CLASSES:
            run.baseline = session.measure_beside(run.task)
            run.is_compared = True
            yield show_all(session)


def start_run(session: Session, form) -> str:
    """A new run from the settings, to be followed; the sentence that goes with it."""
    task, recipe, seed = read_form(*form, table=session.table)
    _, gone = session.add(task, recipe, seed, read_probe(task, *form))
    return gone


def begin(session: Session, order: int, said: str = "", is_full: Callable[[], bool] = bool) -> list:
    """Outputs of a button that makes `follow` go on: a new order, and settings folded on a phone."""
    changes = show_controls(session)
    changes["note"] = notices.note(f"{said} {WAITING if is_full() else STARTING}".strip())
    changes["runs"] = show_table(session)
    return [order + 1, gr.update(open=False), *errors_of(ERRORS), *screen(**changes)]


def stay(session: Session, order: int, *wrong: FieldError) -> list:
    """Outputs of a button that changes nothing by itself: a run under way is shown by its own handler.

    Args:
        session: whose.
        order: counts the runs that were followed.
        *wrong: what is wrong with the settings, the first of which is told under the button.
    """
    is_followed = session.run is not None and session.run.is_live
    changes = {} if wrong or is_followed else show_controls(session)
    if wrong:
        changes["note"] = refuse(wrong[0])
    return [order, gr.skip(), *errors_of(ERRORS, *wrong), *screen(**changes)]


def press_train(session: Session, order: int, *form, is_full: Callable[[], bool] = bool) -> list:
    """Start a run; while one is under way, pause it or let it go on.

    Args:
        session: whose.
        order: counts the runs that were followed.
        *form: the settings, in the order of FIELDS.
        is_full: asked whether others have all places; the run then waits.
    """
    run = session.run
    if run is not None and (run.is_live or run.status in (RUNNING, PAUSED)):
        return press_pause(session, order, is_full=is_full)
    try:
        said = start_run(session, form)
    except FieldError as error:
        return stay(session, order, *all_wrong(error, *form))
    return begin(session, order, said, is_full)


def press_pause(session: Session, order: int, *, is_full: Callable[[], bool] = bool) -> list:
    """Pause, or go on: with the handler that waits, or with a new one where the run was stopped."""
    run = session.run
    if run is None:
        return stay(session, order)
    if run.is_live:
        run.wants_pause = not run.wants_pause
        return stay(session, order)
    if not run.can_go_on:
        return stay(session, order)
    run.status = RUNNING
    return begin(session, order, is_full=is_full)


def press_again(
    session: Session, order: int, *, other_seed: bool = False, is_full: Callable[[], bool] = bool
) -> list:
    """Train the current run's like from step 0: from the same weights, or from those of another seed."""
    run = session.run
    if run is None or run.is_live or run.status in (RUNNING, PAUSED):
        return stay(session, order)
    again, gone = session.add_again(run, other_seed=other_seed)
    start = f"seed {again.seed}" if other_seed else "the same start"
    return begin(session, order, f"{gone} {run.name} again, from {start}.".strip(), is_full)


def tell_seed(session: Session, shown: str) -> str:
    """The seed of the current run, for its field."""
    return shown if session.run is None else str(session.run.seed)


def press_stop(session: Session, order: int) -> list:
    """Ask the run to stop after the step under way; one that still waits for a place is stopped here."""
    run = session.run
    if run is not None and run.is_live:
        run.wants_stop = True
    elif run is not None and run.status in (RUNNING, PAUSED):
        run.status = STOPPED
    return stay(session, order)


def press_step(session: Session, order: int, *form, is_full: Callable[[], bool] = bool) -> list:
    """Take exactly one step: of the paused or stopped run, else of a new one."""
    run = session.run
    if run is not None and run.is_live:
        run.wanted_steps += int(run.wants_pause)
        return stay(session, order)
    said = ""
    if run is None or not run.can_go_on:
        try:
            said = start_run(session, form)
        except FieldError as error:
            return stay(session, order, *all_wrong(error, *form))
    session.run.status, session.run.wants_pause, session.run.wanted_steps = PAUSED, True, 1
    return begin(session, order, said, is_full)


def pick_task(session: Session, label: str) -> list:
    """Another task, a table is chosen for one: [as choose_task…, example to watch, look for]."""
    session.table = None
    return [*choose_task(label), clear_probe(label), look_for(build_task(offers()[label][0]))]


def take_upload(session: Session, uploaded: str | None, label: str) -> list[dict]:
    """A table of the visitor's own, or none any more: [column, column]."""
    name = offers()[label][0]
    if TASKS[name].file_label:
        session.take(uploaded, TASKS[name].column_options)
    return show_columns(name, session.table)


def describe(session: Session, *form) -> list:
    """The line under the settings, what is wrong under each field, and that again under the Train button."""
    *told, refused = describe_form(*form, table=session.table)
    is_under_way = session.run is not None and (
        session.run.is_live or session.run.status in (RUNNING, PAUSED)
    )
    return [*told, gr.skip() if is_under_way else refused or notices.note(tell(session.run))]


def refill_heads(hidden_size: object) -> dict:
    """Another hidden size: the numbers of heads that divide it."""
    return gr.update(choices=list(offer_heads(hidden_size)))


def refill(label: str, model: str, size: object, preset: str, *standing) -> list[dict]:
    """Another size: the recipe's settings for it, where others stand; what is typed meanwhile stays."""
    try:
        filled = fill_form(label, model, size, preset).values()
    except FieldError:  # of the task before: the fields are on their way
        return [gr.skip()] * len(standing)
    return [
        gr.update(value=change["value"]) if change.get("value", stands) != stands else gr.skip()
        for change, stands in zip(filled, standing, strict=True)
    ]


def set_pace(session: Session, kind: str, rate: float) -> dict:
    """Steps a second, also for the run under way; and whether the slider is shown."""
    session.pace = float(rate) if kind == "watch" else None
    if session.run is not None:
        session.run.pace = session.pace
    return gr.update(visible=kind == "watch")


def wire_form(form: Form, session: gr.State, said: gr.HTML, computed: gr.HTML, light: dict) -> None:
    """Keep the settings in step: task, model and size fill in the others, and every change is checked."""
    task, model, size, preset = (form.fields[name] for name in ("task", "model", "size", "preset"))
    table, filled, columns = form.table, form.named(*FILLED), form.named("column_1", "column_2")
    read, described = [session, *form.values], [form.hint, *form.lines, said]
    chosen = [table, *form.named(*CHOSEN[1:]), *filled]
    # Of a change: to Gradio what is pasted with the mouse is no input. One event: the last answer stands.
    edited = [form.fields[name].change for name in FIELDS]
    # Without preprocess: while choices change the page may send an old one, and describe says what it knows.
    gr.on(edited, describe, read, described, **light, trigger_mode="always_last", preprocess=False)
    # always_last: Gradio drops a choice that is made while the one before it is still being answered
    last = {**light, "trigger_mode": "always_last"}
    task.input(pick_task, [session, task], [*chosen, form.fields["probe"], computed], **last)
    model.input(choose_model, [task, model, size, preset], [preset, *filled], **last)
    size.input(refill, [task, model, size, preset, *filled], filled, **last)
    preset.input(refill, [task, model, size, preset, *filled], filled, **last)
    optimizer, rate = form.named("optimizer", "learning_rate")
    optimizer.input(choose_optimizer, [task, model, size, preset, optimizer], rate, **last)
    uploaded = gr.on([table.upload, table.clear], take_upload, [session, table, task], columns, **last)
    uploaded.then(describe, read, described, **light)  # whose columns may be called as those of the last
    hidden, heads = form.named("hidden_size", "num_attention_heads")
    gr.on([hidden.change], refill_heads, hidden, heads, **light, trigger_mode="always_last")


def build_drive() -> dict[str, gr.Button]:
    """Lay the buttons of a run out: name in SCREEN → button."""
    look = {"size": "md", "min_width": 0}
    train = gr.Button("Train", variant="primary", elem_classes="train", elem_id="train")
    with gr.Row(elem_classes="hf-drive"):
        pause = gr.Button("Pause", interactive=False, elem_id="pause", **look)
        stop = gr.Button("Stop", variant="stop", interactive=False, elem_id="stop", **look)
        step = gr.Button("Step", elem_id="step", **look)
    with gr.Row(elem_classes="hf-drive hf-again"):
        again = gr.Button("Again, same start", interactive=False, elem_id="again", **look)
        reseed = gr.Button("Other seed", interactive=False, elem_id="reseed", **look)
    return {"train": train, "pause": pause, "stop": stop, "step": step, "again": again, "reseed": reseed}


def is_full(blocks: gr.Blocks) -> bool:
    """Whether others have every place to train, so that the next run waits."""
    turns = blocks._queue.event_queue_per_concurrency_id.get("train")  # there from the first run on
    return turns is not None and turns.current_concurrency >= turns.concurrency_limit


def wire_drive(page: Page, drive: dict, form: Form, order: gr.Number, answer: list, light: dict) -> None:
    """Connect the buttons of a run; what each does is followed when it makes `order` change."""
    session, waits = page.session, functools.partial(is_full, page.blocks)
    pressed = {
        "train": functools.partial(press_train, is_full=waits),
        "pause": functools.partial(press_pause, is_full=waits),
        "stop": press_stop,
        "step": functools.partial(press_step, is_full=waits),
        "again": functools.partial(press_again, is_full=waits),
        "reseed": functools.partial(press_again, is_full=waits, other_seed=True),
    }
    for name, press in pressed.items():
        read = [session, order, *(form.values if name in ("train", "step") else ())]
        mode = "multiple" if name == "step" else "once"
        pressed_once = drive[name].click(press, read, answer, **light, trigger_mode=mode)
        if name == "reseed":
            pressed_once.then(tell_seed, [session, *form.named("seed")], form.named("seed"), **light)


def wire_table(page: Page, runs: gr.HTML, compared: gr.HTML, shown: list, zipped, said, light: dict) -> None:
    """Connect the table of runs and the comparison under it."""
    session, many = page.session, {**light, "trigger_mode": "multiple"}
    page.tab.select(lambda session: show_table(session), session, runs, **light)  # Duel adds some
    runs.open_run(open_run, session, shown, **many)
    runs.delete_run(delete_run, session, shown, **many)
    runs.rename_run(rename_run, session, runs, **many)
    runs.compare_runs(compare_runs, session, compared, **{**light, "trigger_mode": "always_last"})
    wire_download(runs, session, zipped, said)


def build(page: Page) -> None:
    """Lay the tab out and connect it."""
    with gr.Row(elem_classes="hf-lead"):
        computed = gr.HTML(look_for(build_task(next(iter(offers().values()))[0])))
        origin = gr.HTML(notices.origin("none yet", "none", page.device))
    with gr.Row(elem_classes="hf-work"):
        with gr.Column(elem_classes=["hf-panel", "hf-side"], min_width=0):
            drive = build_drive()
            said = gr.HTML(notices.note(tell(None)), elem_id="note")
            with gr.Accordion("Settings", elem_classes="hf-settings") as fold:
                form = build_form()
                pace = gr.Radio(list(PACES), value=PACES[0], label="Pace", elem_classes="seg")
                rate = gr.Slider(1, 60, 10, step=1, label="Steps a second", visible=False)
        with gr.Column(min_width=0, elem_classes="hf-result"):
            with train_board(replay.BOARD) as board:
                runs = runs_table("runs")
            compared = compare_board("compared")
    zipped = gr.DownloadButton(visible="hidden", elem_id="zip")
    order = gr.Number(0, visible="hidden")  # counts the runs to follow; its change starts the long handler
    session = page.session
    screen_of = {**drive, "board": board, "note": said, "origin": origin, "runs": runs, "look_for": computed}
    screen_of = {name: screen_of[name] for name in SCREEN}
    shown = list(screen_of.values())
    light = {**LIGHT, "queue": False}
    wire_drive(page, drive, form, order, [order, fold, *form.lines, *shown], light)
    train_in_turn = {"concurrency_id": "train", "concurrency_limit": page.places}
    page.run_ended.append(order.change(follow, session, shown, **LIGHT, **train_in_turn))
    wire_form(form, session, said, computed, light)
    wire_table(page, runs, compared, shown, zipped, said, light)
    gr.on([pace.change, rate.change], set_pace, [session, pace, rate], rate, **light)
    page.runs, page.said = runs, said
    page.arrived = reload.wire(
        page, shown, lambda session: show_all(session) if session.runs else screen(), light
    )
    replay.keep_form(page, form, order, screen_of, drive["reseed"])
