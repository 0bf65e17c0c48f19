"""Train: choose a task and a size, watch the attention form, go back through time, keep the model."""

import gradio as gr

from hf_attn.tasks import TASKS, build_task

from ...core.events import Event, NewestEvent, RunEvent
from ...core.fields import FieldError, error_lines, refuse_form, task_choices
from ...jobs.job import PAUSED, STARTING, WAITING
from ...jobs.training_job import TrainingJob
from ...session.page import EACH_NOW, LAST_NOW, NOW, JobView, Page, ShownHead
from ...session.run_files import wire_download
from ...session.session import Session
from ...snippets.views import comparison_snippet
from ...ui import boards, notices
from . import form, replay
from .messages import (
    show_all,
    show_controls,
    show_untrained_model,
    status_message,
    table_value,
)

TITLE = "Train"
ASSETS = (
    "train.css",
    "task_cards.js",
    "train_story.js",
    "train_state.js",
    "train_panels.js",
    "train_board.js",
    "runs_table.js",
    "compare_board.js",
)

CARDS = {  # tasks that are offered first, and what their cards call them
    "Copy": "Copy",
    "Addition": "Add",
    "Parser, nested": "Parse",
    "Sorting": "Sort",
    "Dates": "Dates",
    "Sentences of a toy English": "Sentences",
}
PACES = ("fast", "slow enough to watch")


class TaskEvent(Event):
    """A card was chosen."""

    task: str  # its label in the list of all tasks


class RenameEvent(RunEvent):
    """Another name for a run."""

    name: str


class CompareEvent(NewestEvent):
    """Which runs lie over the curves: their ids."""

    runs: list[str]


def start_run(session: Session, values: dict) -> TrainingJob:
    task, recipe, seed = form.read_form(values, session.table)
    return session.add(task, recipe, seed, form.read_probe(task, values))


def begin(session: Session, sentence: str = "") -> dict:
    """A run is to be followed: what the page shows at once, with the settings folded."""
    note = notices.note(f"{sentence} {STARTING}".strip(), later=WAITING)
    cleared = {"fold": gr.update(open=False), **error_lines(form.ERRORS)}
    return {**show_controls(session), **cleared, "note": note, "runs": table_value(session)}


def refuse(error: FieldError, values: dict) -> dict:
    """Nothing starts: an error under each wrong field, which is in sight, the first under Train too."""
    refused = refuse_form(form.LABELS, form.ERRORS, *form.find_errors(error, values))
    return refused if error.field in (*form.RAIL, "table") else {**refused, "fold": gr.update(open=True)}


def press_train(session: Session, values: dict) -> dict:
    """Start a run; while one is under way, pause or resume it."""
    if session.run is not None and session.run.is_busy:
        return press_pause(session)
    try:
        return begin(session, start_run(session, values).made_room)
    except FieldError as error:
        return refuse(error, values)


def press_pause(session: Session) -> dict:
    """Pause, or resume: a stopped run is followed again."""
    run = session.run
    if run is not None and run.is_live:
        run.wants_pause = not run.wants_pause
    elif run is not None and run.can_go_on:
        run.prepare_again()
        return begin(session)
    return {}


def press_again(session: Session, *, other_seed: bool = False) -> dict:
    """Train a copy of the current run from step 0, with the same seed or another."""
    run = session.run
    if run is None or run.is_busy:
        return {}
    again = session.add_again(run, other_seed=other_seed)
    start = f"seed {again.seed}" if other_seed else "the same start"
    return begin(session, f"{again.made_room} {run.name} again, from {start}.".strip())


def press_reseed(session: Session) -> dict:
    """As `press_again`, from the next seed; the field shows it."""
    changes = press_again(session, other_seed=True)
    return changes | ({} if session.run is None else {"seed": str(session.run.seed)})


def press_step(session: Session) -> dict:
    """Take exactly one step, of a run that is paused or was stopped."""
    run = session.run
    if run is not None and run.is_live:
        run.wanted_steps += int(run.wants_pause)
    if run is None or run.is_live or not run.can_go_on:
        return {}
    run.status, run.goal, run.wants_pause, run.wanted_steps = PAUSED, None, True, 1
    return begin(session, run.made_room)


def leave_run(session: Session) -> dict:
    """Show what the settings make in place of the last run, which stays in the table; not while one works."""
    if session.run is None or session.run.is_busy:
        return {}
    session.shown = session.current = None
    return show_all(session)


def pick_task(session: Session, values: dict) -> dict:
    """Another task: its fields; its table is forgotten."""
    session.table = None
    return {**leave_run(session), **form.choose_task(values["task"])}


def pick_card(session: Session, event: TaskEvent) -> dict:
    return {"task": event.task, **pick_task(session, vars(event))} if event.task in task_choices() else {}


def pick_model(session: Session, values: dict) -> dict:
    return {**leave_run(session), **form.choose_model(values)}


def show_cards(values: dict) -> str:
    """The cards' board: each task's worked example, and what its answer is known to need as a small map."""
    cards = []
    for label, title in CARDS.items():
        task = build_task(task_choices()[label][0])
        worked = task.worked_example
        known = task.alignment(worked.source, worked.target) or []  # or its package is missing
        width = max(map(len, known), default=0)  # of a text each row is longer by what was written before
        known = [[*row, *[0] * (width - len(row))] for row in known]
        cards.append(
            {"task": label, "title": title, "example": f"{worked.source} → {worked.target}", "map": known}
        )
    return boards.to_json({"cards": cards, "chosen": values["task"]})


def mark_card(_: Session, values: dict) -> dict:
    return {"cards": show_cards(values)}


def take_upload(session: Session, values: dict) -> dict:
    """The columns of an uploaded table, or of none."""
    name = task_choices()[values["task"]][0]
    if TASKS[name].file_label:
        session.take(values["table"], TASKS[name].column_options)
    return form.show_columns(name, session.table)


def describe(session: Session, values: dict) -> dict:
    """What the settings make: lines, and the untrained model where the board shows no run."""
    if not form.is_complete(values):
        return {}
    run = session.run
    try:
        task, recipe, seed = form.read_form(values, session.table)
        probe = form.read_probe(task, values)
        with form.blame("task"):
            lines = form.describe_run(task, recipe)
            lines |= show_untrained_model(session, task, recipe, seed, probe)
    except FieldError as error:
        lines = form.describe_error(error, values, session.table)
        if error.field == "table" and session.shown is None:
            lines["board"] = None  # what stood there is of another task
    else:
        if run is not None:
            lines["note"] = notices.note(status_message(run))
    if run is not None and run.is_busy:
        del lines["note"]
    return lines


def refill_heads(_: Session, values: dict) -> dict:
    return {"num_attention_heads": gr.update(choices=list(form.offer_heads(values["hidden_size"])))}


def refill(session: Session, values: dict) -> dict:
    """The recipe's settings for another size, where they differ; what is typed meanwhile stays."""
    left = leave_run(session)
    filled = {name: change["value"] for name, change in form.fill(values).items() if "value" in change}
    return left | {name: gr.update(value=value) for name, value in filled.items() if value != values[name]}


def set_pace(session: Session, values: dict) -> dict:
    """Set the steps a second, also of the run under way, and show the slider where it counts."""
    is_watched = values["pace"] == PACES[1]
    session.pace = float(values["rate"]) if is_watched else None
    if session.run is not None:
        session.run.pace = session.pace
    return {"rate": gr.update(visible=is_watched)}


def open_run(session: Session, event: RunEvent) -> dict:
    session.show(event.run)
    return show_all(session)


def delete_run(session: Session, event: RunEvent) -> dict:
    session.forget(event.run)
    return show_all(session)


def rename_run(session: Session, event: RenameEvent) -> dict:
    """Rename a run; a refused name is explained under its field."""
    refused = {}
    try:
        session.rename(event.run, event.name)
    except ValueError as error:
        refused = {"refused": {"run": event.run, "name": event.name, "why": str(error)}}
    return {"runs": table_value(session, **refused)}


def compare_runs(session: Session, event: CompareEvent) -> dict:
    """The whole of the overlaid runs, and the Python lines of these and the shown one."""
    if not session.is_newest(event):
        return {}
    runs = [session.runs[run] for run in event.runs if run in session.runs]
    compared = [*([session.runs[session.shown]] if session.shown in session.runs else []), *runs]
    messages = [{"name": run.name, **run.to_message(whole=True)} for run in runs]
    return {"compared": boards.to_json({"runs": messages, "python": comparison_snippet(compared)})}


def wire_form(page: Page, layout: form.Form, cards: gr.HTML, shown: dict) -> None:
    """Connect the settings: task, model and size fill in the others, and every change is checked."""
    fields, every = layout.fields, {**layout.fields, **layout.shown, **shown}
    # Of a change: to Gradio what is pasted with the mouse is no input. One event: the last answer stands.
    edited = [field.change for field in fields.values()]
    # Without preprocess: while choices change the page may send an old one, and describe says what it knows.
    page.connect(edited, describe, fields, every, **LAST_NOW, preprocess=False)
    # always_last: Gradio drops a choice that is made while the one before it is still being answered
    page.connect(fields["task"].input, pick_task, layout.named("task"), every, **LAST_NOW)
    page.connect(cards.pick_task, pick_card, None, every, **EACH_NOW)
    chosen = {"cards": cards}
    page.connect(fields["task"].change, mark_card, layout.named("task"), chosen, **NOW)
    read = layout.named(*form.RECIPE)
    page.connect(fields["model"].input, pick_model, read, every, **LAST_NOW)
    known = layout.named(*form.RECIPE, *form.FILLED)
    page.connect([fields["size"].input, fields["preset"].input], refill, known, every, **LAST_NOW)
    known = layout.named(*form.RECIPE, "optimizer")
    rate = layout.named("learning_rate")
    chosen = fields["optimizer"].input
    page.connect(chosen, lambda _, values: form.choose_optimizer(values), known, rate, **LAST_NOW)
    table = layout.shown["table"]
    read = {"table": table, **layout.named("task")}
    uploaded = page.connect([table.upload, table.clear], take_upload, read, fields, **LAST_NOW)
    # the columns may be called as those of the last
    page.connect(uploaded.then, describe, fields, every, **NOW)
    page.connect(fields["hidden_size"].change, refill_heads, layout.named("hidden_size"), fields, **LAST_NOW)


def build_drive() -> dict[str, gr.Button]:
    """Lay out the buttons that act on a run: {name: button}."""
    look = {"size": "md", "min_width": 0}
    with gr.Row(elem_classes="hf-drive"):
        pause = gr.Button("Pause", visible=False, elem_id="pause", **look)
        stop = gr.Button("Stop", variant="stop", visible=False, elem_id="stop", **look)
        step = gr.Button("Step", visible=False, elem_id="step", **look)
        reseed = gr.Button("Other seed", visible=False, elem_id="reseed", **look)
        again = gr.Button("Same seed", visible=False, elem_id="again", **look)
    return {"pause": pause, "stop": stop, "step": step, "again": again, "reseed": reseed}


def wire_drive(page: Page, runs: JobView, buttons: dict, fields: dict, shown: dict) -> None:
    """Connect the buttons of a run: one that may start it is followed by its steps."""
    presses = {"train": press_train, "pause": press_pause, "step": press_step}
    presses |= {"again": press_again, "reseed": press_reseed}
    for name, press in presses.items():
        read = fields if name == "train" else None
        mode = "multiple" if name == "step" else "once"
        pressed = page.connect(buttons[name].click, press, read, shown, **NOW, trigger_mode=mode)
        page.run_ended.append(page.follow(pressed.then, runs))
    page.connect(buttons["stop"].click, runs.stop, None, shown, **NOW)


def wire_table(page: Page, runs: gr.HTML, shown: dict, compared: gr.HTML) -> None:
    listed = page.tab.select  # Duel adds some
    page.connect(listed, lambda session: {"runs": table_value(session)}, None, shown, **NOW)
    page.connect(runs.open_run, open_run, None, shown, **EACH_NOW)
    page.connect(runs.delete_run, delete_run, None, shown, **EACH_NOW)
    page.connect(runs.rename_run, rename_run, None, shown, **EACH_NOW)
    page.connect(runs.compare_runs, compare_runs, None, {"compared": compared}, **EACH_NOW)


def train_board(elem_id: str) -> gr.HTML:
    """Build the picture of a run, which takes a `TrainValue`: the sentence, answers, map, curves, film.

    `with train_board("train-board"): runs = runs_table("runs")` puts the runs under them.
    """
    template = '<div class="hf-train hf-board"></div>@children'
    events = ("download_run", "share_run", "explore_run")
    return boards.build_board("train_board", "hf-train", elem_id, *events, template=template)


def runs_table(elem_id: str) -> gr.HTML:
    """Build the table of runs, which takes a `RunsValue`."""
    events = ("open_run", "download_run", "share_run", "rename_run", "delete_run", "compare_runs")
    return boards.build_board("runs_table", "hf-runs", elem_id, *events)


def find_needed_head(session: Session, _: dict) -> ShownHead:
    """What *Open in Explore* shows: the head or layer that the run's answers need most."""
    run = session.runs.get(session.shown)
    if run is None or run.needed is None:
        text = run.probe.source if run is not None and run.probe is not None else ""
        return {"weights": session.shown or "", "text": text, "place": "", "head": None}
    head = run.needed["head"]
    place = f"{run.map['kind']} {run.needed['layer'] - 1}"
    return {
        "weights": run.id,
        "text": run.probe.source,
        "place": place,
        "head": head - 1 if head else None,
    }


def build_rail() -> tuple[form.Form, gr.HTML, dict]:
    """Lay out task, model, Train with what it says, and the other settings in a fold."""
    layout = form.Form()
    with gr.Column(elem_classes=["hf-side", "hf-rail-side"], min_width=0):
        cards = boards.build_board("task_cards", "hf-cards", "task-cards", "pick_task")
        layout.build(form.RAIL)
        train = gr.Button("Train", variant="primary", elem_classes="train", elem_id="train")
        with gr.Column(elem_classes="hf-status", min_width=0):
            note = gr.HTML("", elem_id="note")
            buttons = {"train": train, **build_drive()}
        settings = gr.Accordion(
            "More models, size, seed", open=False, elem_id="train-settings", elem_classes="hf-fold"
        )
        with settings as fold:
            layout.build([name for name in form.FIELDS if name not in form.RAIL])
            layout.shown["hint"] = gr.HTML("")
            pace = gr.Radio(list(PACES), value=PACES[0], label="Speed", elem_classes="seg")
            rate = gr.Slider(1, 60, 10, step=1, label="Steps a second", visible=False)
    return layout, cards, {**buttons, "note": note, "fold": fold, "pace": pace, "rate": rate}


def build(page: Page) -> None:
    with gr.Row(elem_classes="hf-work"):
        layout, cards, rail = build_rail()
        with gr.Column(min_width=0, elem_classes="hf-result"):
            with train_board("train-board") as board:
                runs = runs_table("runs")
            compared = boards.build_board("compare_board", "hf-compare", "compared")
            origin = gr.HTML(notices.origin("none yet", "none", page.device))
    zipped = gr.DownloadButton(visible="hidden", elem_id="zip")
    paced = {name: rail.pop(name) for name in ("pace", "rate")}
    fold, note = rail.pop("fold"), rail["note"]
    buttons = {name: one for name, one in rail.items() if name != "note"}
    opening = describe(Session(), {name: field.value for name, field in layout.fields.items()})
    cards.value, board.value = show_cards({"task": layout.fields["task"].value}), opening["board"]
    note.value, layout.shown["hint"].value = opening["note"], opening["hint"]
    shown = {**rail, "board": board, "origin": origin, "runs": runs}
    view = replay.link_tab(page, layout, shown, describe)
    wire_drive(
        page, view, buttons, layout.fields, {**shown, **layout.shown, "fold": fold, **layout.named("seed")}
    )
    wire_form(page, layout, cards, shown)
    wire_table(page, runs, shown, compared)
    for listed in (runs, board):
        wire_download(page, listed, zipped, note)
    page.ways_to_explore.append((board.explore_run, layout.named("task"), find_needed_head))
    page.connect([one.change for one in paced.values()], set_pace, paced, paced, **NOW)
    page.runs, page.note = (runs, board), note
