"""Train: choose a task and a size, watch the attention form, go back through time, keep the model."""

import contextlib
import functools
from collections.abc import Callable, Iterator

import gradio as gr

from hf_attn.tasks import TASKS, build_task
from hf_attn.tasks.base import CLASSES

from ...core.fields import FieldError, error_lines, refusal_line, task_choices
from ...jobs.job import STARTING, WAITING, drive, measure_run
from ...jobs.training_job import FINISHED, PAUSED, RUNNING, STOPPED
from ...session import reload
from ...session.page import NOW, Page
from ...session.run_files import wire_download
from ...session.session import Session
from ...ui import boards, notices
from . import form, replay
from .board import compare_board, runs_table, train_board
from .form_layout import Form, build_form
from .messages import (
    SCREEN,
    look_for,
    read_story,
    run_value,
    screen,
    show_all,
    show_controls,
    status_message,
    table_value,
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
    """Train the visitor's current run and keep the page up to date: the only handler that takes long."""
    run = session.run
    if run is None or run.is_live or run.status not in (RUNNING, PAUSED):
        yield screen()
        return
    shown, measured = {}, None
    with contextlib.closing(drive(run)) as moments:
        for _ in moments:
            controls = show_controls(session)
            news = {name: value for name, value in controls.items() if shown.get(name) != value}
            shown = controls
            if session.shown == run.id and run.model is not None:
                news["board"] = boards.to_json(run_value(run))
            if measured != run.predicted_at:  # the table is drawn anew only where it says something new
                measured = run.predicted_at
                news["runs"] = table_value(session)
            yield screen(**news)
    if run.id not in session.runs or session.is_over:
        return
    yield show_all(session)
    if run.status in (FINISHED, STOPPED) and run.step:
        measure_run(run)
        yield show_all(session)
        if run.task.kind == CLASSES:
            run.baseline = session.measure_beside(run.task)
            run.is_compared = True
            yield show_all(session)


def start_run(session: Session, values) -> str:
    """Add a run with these settings; returns a sentence about it, or nothing."""
    task, recipe, seed = form.read_form(*values, table=session.table)
    _, removed = session.add(task, recipe, seed, form.read_probe(task, *values))
    return removed


def begin(session: Session, order: int, sentence: str = "", is_full: Callable[[], bool] = bool) -> list:
    """Outputs of a button that starts `follow`: a new order, and settings folded on a phone."""
    changes = show_controls(session)
    changes["note"] = notices.note(f"{sentence} {WAITING if is_full() else STARTING}".strip())
    changes["runs"] = table_value(session)
    return [order + 1, gr.update(open=False), *error_lines(form.ERRORS), *screen(**changes)]


def stay(session: Session, order: int, *wrong: FieldError) -> list:
    """Outputs of a button that starts nothing; the first error is shown under the Train button."""
    is_followed = session.run is not None and session.run.is_live
    changes = {} if wrong or is_followed else show_controls(session)
    if wrong:
        changes["note"] = refusal_line(wrong[0], form.LABELS)
    return [order, gr.skip(), *error_lines(form.ERRORS, *wrong), *screen(**changes)]


def press_train(session: Session, order: int, *values, is_full: Callable[[], bool] = bool) -> list:
    """Start a run; while one is under way, pause or resume it. `is_full` says whether the run will wait."""
    run = session.run
    if run is not None and (run.is_live or run.status in (RUNNING, PAUSED)):
        return press_pause(session, order, is_full=is_full)
    try:
        sentence = start_run(session, values)
    except FieldError as error:
        return stay(session, order, *form.find_errors(error, *values))
    return begin(session, order, sentence, is_full)


def press_pause(session: Session, order: int, *, is_full: Callable[[], bool] = bool) -> list:
    """Pause, or resume: a stopped run is followed again."""
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
    """Train a copy of the current run from step 0, with the same seed or another."""
    run = session.run
    if run is None or run.is_live or run.status in (RUNNING, PAUSED):
        return stay(session, order)
    again, removed = session.add_again(run, other_seed=other_seed)
    start = f"seed {again.seed}" if other_seed else "the same start"
    return begin(session, order, f"{removed} {run.name} again, from {start}.".strip(), is_full)


def seed_of_run(session: Session, shown: str) -> str:
    return shown if session.run is None else str(session.run.seed)


def press_stop(session: Session, order: int) -> list:
    """Stop the run after its current step; one that still waits for a place is stopped here."""
    run = session.run
    if run is not None and run.is_live:
        run.wants_stop = True
    elif run is not None and run.status in (RUNNING, PAUSED):
        run.status = STOPPED
    return stay(session, order)


def press_step(session: Session, order: int, *values, is_full: Callable[[], bool] = bool) -> list:
    """Take exactly one step, of the paused or stopped run or else of a new one."""
    run = session.run
    if run is not None and run.is_live:
        run.wanted_steps += int(run.wants_pause)
        return stay(session, order)
    sentence = ""
    if run is None or not run.can_go_on:
        try:
            sentence = start_run(session, values)
        except FieldError as error:
            return stay(session, order, *form.find_errors(error, *values))
    session.run.status, session.run.wants_pause, session.run.wanted_steps = PAUSED, True, 1
    return begin(session, order, sentence, is_full)


def pick_task(session: Session, label: str) -> list:
    """[as form.choose_task…, example to watch, look-for] for another task; its table is forgotten."""
    session.table = None
    return [*form.choose_task(label), form.clear_probe(label), look_for(build_task(task_choices()[label][0]))]


def take_upload(session: Session, uploaded: str | None, label: str) -> list[dict]:
    """[column, column] of an uploaded table, or of none."""
    name = task_choices()[label][0]
    if TASKS[name].file_label:
        session.take(uploaded, TASKS[name].column_options)
    return form.show_columns(name, session.table)


def describe(session: Session, *values) -> list:
    """As `describe_form`; its last line says what the run does where no setting is wrong."""
    *lines, refused = form.describe_form(*values, table=session.table)
    is_under_way = session.run is not None and (
        session.run.is_live or session.run.status in (RUNNING, PAUSED)
    )
    return [*lines, gr.skip() if is_under_way else refused or notices.note(status_message(session.run))]


def refill_heads(hidden_size: object) -> dict:
    return gr.update(choices=list(form.offer_heads(hidden_size)))


def refill(label: str, model: str, size: object, preset: str, *standing) -> list[dict]:
    """The recipe's settings for another size, where they differ; what is typed meanwhile stays."""
    try:
        filled = form.fill_form(label, model, size, preset).values()
    except FieldError:  # of the task before: the fields are on their way
        return [gr.skip()] * len(standing)
    return [
        gr.update(value=change["value"]) if change.get("value", stands) != stands else gr.skip()
        for change, stands in zip(filled, standing, strict=True)
    ]


def set_pace(session: Session, kind: str, rate: float) -> dict:
    """Set the steps a second, also of the run under way, and show the slider where it counts."""
    session.pace = float(rate) if kind == "watch" else None
    if session.run is not None:
        session.run.pace = session.pace
    return gr.update(visible=kind == "watch")


def wire_form(layout: Form, session: gr.State, note: gr.HTML, story: gr.HTML) -> None:
    """Connect the settings: task, model and size fill in the others, and every change is checked."""
    task, model, size, preset = (layout.fields[name] for name in ("task", "model", "size", "preset"))
    table, filled, columns = layout.table, layout.named(*form.FILLED), layout.named("column_1", "column_2")
    read, described = [session, *layout.values], [layout.hint, *layout.lines, note]
    chosen = [table, *layout.named(*form.CHOSEN[1:]), *filled]
    # Of a change: to Gradio what is pasted with the mouse is no input. One event: the last answer stands.
    edited = [layout.fields[name].change for name in form.FIELDS]
    # Without preprocess: while choices change the page may send an old one, and describe says what it knows.
    gr.on(edited, describe, read, described, **NOW, trigger_mode="always_last", preprocess=False)
    # always_last: Gradio drops a choice that is made while the one before it is still being answered
    last = {**NOW, "trigger_mode": "always_last"}
    task.input(pick_task, [session, task], [*chosen, layout.fields["probe"], story], **last)
    model.input(form.choose_model, [task, model, size, preset], [preset, *filled], **last)
    size.input(refill, [task, model, size, preset, *filled], filled, **last)
    preset.input(refill, [task, model, size, preset, *filled], filled, **last)
    optimizer, rate = layout.named("optimizer", "learning_rate")
    optimizer.input(form.choose_optimizer, [task, model, size, preset, optimizer], rate, **last)
    uploaded = gr.on([table.upload, table.clear], take_upload, [session, table, task], columns, **last)
    uploaded.then(describe, read, described, **NOW)  # whose columns may be called as those of the last
    hidden, heads = layout.named("hidden_size", "num_attention_heads")
    gr.on([hidden.change], refill_heads, hidden, heads, **NOW, trigger_mode="always_last")


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


def wire_drive(page: Page, buttons: dict, layout: Form, order: gr.Number, answer: list) -> None:
    """Connect the buttons of a run; `follow` starts when they change `order`."""
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
        read = [session, order, *(layout.values if name in ("train", "step") else ())]
        mode = "multiple" if name == "step" else "once"
        pressed_once = buttons[name].click(press, read, answer, **NOW, trigger_mode=mode)
        if name == "reseed":
            pressed_once.then(seed_of_run, [session, *layout.named("seed")], layout.named("seed"), **NOW)


def wire_table(page: Page, runs: gr.HTML, compared: gr.HTML, shown: list, zipped, note) -> None:
    session, many = page.session, {**NOW, "trigger_mode": "multiple"}
    page.tab.select(lambda session: table_value(session), session, runs, **NOW)  # Duel adds some
    runs.open_run(open_run, session, shown, **many)
    runs.delete_run(delete_run, session, shown, **many)
    runs.rename_run(rename_run, session, runs, **many)
    runs.compare_runs(compare_runs, session, compared, **{**NOW, "trigger_mode": "always_last"})
    wire_download(runs, session, zipped, note)


def build(page: Page) -> None:
    first = build_task(next(iter(task_choices().values()))[0])
    story, origin = notices.build_lead(read_story(first), notices.origin("none yet", "none", page.device))
    with gr.Row(elem_classes="hf-work"):
        with gr.Column(elem_classes=["hf-panel", "hf-side"], min_width=0):
            buttons = build_drive()
            note = gr.HTML(notices.note(status_message(None)), elem_id="note")
            with gr.Accordion("Settings", elem_classes="hf-settings") as fold:
                layout = build_form()
                pace = gr.Radio(list(PACES), value=PACES[0], label="Pace", elem_classes="seg")
                rate = gr.Slider(1, 60, 10, step=1, label="Steps a second", visible=False)
        with gr.Column(min_width=0, elem_classes="hf-result"):
            with train_board(replay.BOARD) as board:
                runs = runs_table("runs")
            compared = compare_board("compared")
    zipped = gr.DownloadButton(visible="hidden", elem_id="zip")
    order = gr.Number(0, visible="hidden")  # counts the runs to follow; its change starts the long handler
    session = page.session
    screen_of = {**buttons, "board": board, "note": note, "origin": origin, "runs": runs, "look_for": story}
    screen_of = {name: screen_of[name] for name in SCREEN}
    shown = list(screen_of.values())
    wire_drive(page, buttons, layout, order, [order, fold, *layout.lines, *shown])
    page.run_ended.append(order.change(follow, session, shown, **page.in_turn))
    wire_form(layout, session, note, story)
    wire_table(page, runs, compared, shown, zipped, note)
    gr.on([pace.change, rate.change], set_pace, [session, pace, rate], rate, **NOW)
    page.runs, page.note = runs, note
    page.arrived = reload.wire(page, shown, lambda session: show_all(session) if session.runs else screen())
    replay.link_form(page, layout, order, screen_of, buttons["reseed"])
