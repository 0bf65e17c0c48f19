"""Train: choose a task and a size, watch the attention form, go back through time, keep the model."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import gradio as gr
import torch

from demos import driving, shared
from demos.form import (
    CHOSEN,
    FIELDS,
    FILLED,
    LABELS,
    FieldError,
    Form,
    build_form,
    choose_model,
    choose_task,
    describe_form,
    field_errors,
    fill_form,
    offers,
    read_form,
    show_columns,
)
from demos.page import Page
from demos.tables import COLUMNS
from demos.visits import FAILED, FINISHED, PAUSED, RUNNING, STOPPED, Run, Visit
from hf_attn.baselines import NAME
from hf_attn.hub import build_training_record, save_checkpoint
from hf_attn.runs import describe_device
from hf_attn.tasks.base import CLASSES, TEXT

TITLE = "Train"
LOOK_FOR = (
    "the step at which the loss leaves its plateau: "
    "there the weight moves onto the rings, the symbols each answer needs."
)

PACES = ("full speed", "watch")
STARTING = "Starting…"
WAITING = "Waiting for a free place: others are training here. This run starts by itself."
RIGHT = {  # kind of task → what was measured
    CLASSES: " {share} of {examples} held-out examples get the right class",
    TEXT: " {share} of {examples} held-out next tokens are guessed, perplexity {perplexity:.2f}",
}
SCREEN = ("board", "train", "pause", "stop", "step", "note", "origin", "runs")


# ---------------------------------------------------------------- what the page shows


def screen(**changes) -> list:
    """Outputs in the order of SCREEN; what is not named stays."""
    return [changes.get(name, gr.skip()) for name in SCREEN]


def show_controls(visit: Visit) -> dict:
    """Button, neighbours, sentence and origin, as the visitor's current run has them."""
    run = visit.run
    status = run.status if run else None
    busy = status in (RUNNING, PAUSED)  # under way, or waiting for a free place
    share = shared.percent(run.step / run.recipe.steps, 0) if run else ""
    resumes = bool(run and (run.can_go_on or (run.is_live and status == PAUSED)))
    return {
        "train": {RUNNING: f"Training, {share}", PAUSED: f"Paused at {share}"}.get(status, "Train"),
        "pause": gr.update(
            value="Resume" if resumes else "Pause", interactive=resumes or (busy and run.is_live)
        ),
        "stop": gr.update(interactive=busy),
        "step": gr.update(interactive=not busy or (status == PAUSED and run.is_live)),
        "note": shared.note(tell(run)),
        "origin": shared.origin_of(run.model, run.weights) if run and run.model else gr.skip(),
    }


def tell(run: Run | None) -> str:
    """One sentence on what happens or happened."""
    if run is None:
        return "Train draws the attention of a held-out example as it forms; copying takes a few seconds."
    if run.is_live and run.model is None:
        return "Reading the examples; the first step follows."
    where = f"step {shared.count(run.step)} of {shared.count(run.recipe.steps)}"
    said = {
        RUNNING: "Stop takes effect at once and keeps what was learned.",
        PAUSED: f"Paused at {where}. Resume goes on; Step takes one.",
        STOPPED: f"Stopped at {where}. The weights are kept; nothing is lost.",
        FAILED: f"Failed at {where}; the line above the curves says why. Other runs are untouched.",
        FINISHED: f"Done, {where}.",
    }[run.status]
    if run.evaluation is not None:
        score = run.evaluation.overall
        low, high = (shared.percent(edge) for edge in (score.interval.low, score.interval.high))
        share, examples = shared.percent(score.exact_match), shared.count(score.examples)
        said += RIGHT.get(run.task.kind, " {share} of {examples} held-out examples are right").format(
            share=share, examples=examples, **score.measures
        )
        said += f" ({low} to {high}).{tell_beside(run)}"
    return said


def tell_beside(run: Run) -> str:
    """What stands beside a classifier, in a sentence."""
    if run.task.kind != CLASSES or (run.is_compared and run.baseline is None):
        return ""
    if run.baseline is None:
        return f" Beside it, {NAME}, is learning the same texts."
    score = run.baseline.score
    low, high = (shared.percent(edge) for edge in (score.interval.low, score.interval.high))
    return f" Beside it, {NAME}: {shared.percent(score.exact_match)} ({low} to {high})."


def show_all(visit: Visit) -> list:
    """Everything, for the run on the board."""
    run = visit.runs.get(visit.shown)
    board = run.to_message(whole=True) if run else None
    runs = shared.to_json(visit.to_table())
    return screen(board=shared.to_json(board), runs=runs, **show_controls(visit))


def follow(visit: Visit) -> Iterator[list]:
    """Train the visitor's current run, and keep the page up to date: the one handler that takes long."""
    run = visit.run
    if run is None or run.is_live or run.status not in (RUNNING, PAUSED):
        yield screen()
        return
    run.evaluation = None
    told, measured = {}, None
    with contextlib.closing(driving.drive(run)) as moments:
        for _ in moments:
            controls = show_controls(visit)
            news = {name: value for name, value in controls.items() if told.get(name) != value}
            told = controls
            if visit.shown == run.id and run.model is not None:
                news["board"] = shared.to_json(run.to_message())
            if measured != run.predicted_at:  # the table is drawn anew only where it says something new
                measured = run.predicted_at
                news["runs"] = shared.to_json(visit.to_table())
            yield screen(**news)
    if run.id not in visit.runs or visit.is_over:
        return
    yield show_all(visit)
    if run.status in (FINISHED, STOPPED) and run.step:
        driving.measure(run)
        yield show_all(visit)
        if run.task.kind == CLASSES:
            run.baseline = visit.measure_beside(run.task)
            run.is_compared = True
            yield show_all(visit)


# ---------------------------------------------------------------- buttons


def start_run(visit: Visit, form) -> str:
    """A new run from the settings, to be followed; the sentence that goes with it."""
    _, gone = visit.add(*read_form(*form, table=visit.table))
    return gone


def begin(visit: Visit, order: int, said: str = "") -> list:
    """Outputs of a button that makes `follow` go on: a new order, and settings folded on a phone."""
    changes = show_controls(visit)
    changes["note"] = shared.note(f"{said} {STARTING}".strip(), later=f"{said} {WAITING}".strip())
    changes["runs"] = shared.to_json(visit.to_table())
    return [order + 1, gr.update(open=False), *field_errors(), *screen(**changes)]


def stay(visit: Visit, order: int, error: FieldError | None = None) -> list:
    """Outputs of a button that changes nothing by itself: a run under way is shown by its own handler."""
    is_followed = visit.run is not None and visit.run.is_live
    changes = {} if error or is_followed else show_controls(visit)
    if error:  # the field itself may be out of sight
        changes["note"] = shared.refusal(f"{LABELS[error.field]}: {error}")
    return [order, gr.skip(), *field_errors(error), *screen(**changes)]


def press_train(visit: Visit, order: int, *form) -> list:
    """Start a run; while one is under way, pause it or let it go on."""
    run = visit.run
    if run is not None and (run.is_live or run.status in (RUNNING, PAUSED)):
        return press_pause(visit, order)
    try:
        said = start_run(visit, form)
    except FieldError as error:
        return stay(visit, order, error)
    return begin(visit, order, said)


def press_pause(visit: Visit, order: int) -> list:
    """Pause, or go on: with the handler that waits, or with a new one where the run was stopped."""
    run = visit.run
    if run is None:
        return stay(visit, order)
    if run.is_live:
        run.wants_pause = not run.wants_pause
        return stay(visit, order)
    if not run.can_go_on:
        return stay(visit, order)
    run.status = RUNNING
    return begin(visit, order)


def press_stop(visit: Visit, order: int) -> list:
    """Ask the run to stop after the step under way; one that still waits for a place is stopped here."""
    run = visit.run
    if run is not None and run.is_live:
        run.wants_stop = True
    elif run is not None and run.status in (RUNNING, PAUSED):
        run.status = STOPPED
    return stay(visit, order)


def press_step(visit: Visit, order: int, *form) -> list:
    """Take exactly one step: of the paused or stopped run, else of a new one."""
    run = visit.run
    if run is not None and run.is_live:
        run.wanted_steps += int(run.wants_pause)
        return stay(visit, order)
    said = ""
    if run is None or not run.can_go_on:
        try:
            said = start_run(visit, form)
        except FieldError as error:
            return stay(visit, order, error)
    visit.run.status, visit.run.wants_pause, visit.run.wanted_steps = PAUSED, True, 1
    return begin(visit, order, said)


def pick_task(visit: Visit, label: str) -> list:
    """Another task; a table is chosen for one task."""
    visit.table = None
    return choose_task(label)


def take_upload(visit: Visit, uploaded: str | None, label: str) -> list[dict]:
    """A table of the visitor's own, or none any more: [column, column]."""
    name = offers()[label][0]
    visit.take(uploaded, COLUMNS[name])
    return show_columns(name, visit.table)


def describe(visit: Visit, *form) -> list:
    """The line under the settings, and what is wrong with them."""
    return describe_form(*form, table=visit.table)


def refill(label: str, model: str, size: object, preset: str) -> list[dict]:
    """Another size: the recipe's settings for it."""
    return [gr.update(**change) for change in fill_form(label, model, size, preset).values()]


def set_pace(visit: Visit, kind: str, rate: float) -> dict:
    """Steps a second, also for the run under way; and whether the slider is shown."""
    visit.pace = float(rate) if kind == "watch" else None
    if visit.run is not None:
        visit.run.pace = visit.pace
    return gr.update(visible=kind == "watch")


# ---------------------------------------------------------------- table of runs


def open_run(visit: Visit, event: gr.EventData) -> list:
    """Show a run again; it is what the buttons are about unless another is under way."""
    if event.run in visit.runs:
        visit.shown = event.run
        if visit.run is None or not visit.run.is_live:
            visit.current = event.run
    return show_all(visit)


def delete_run(visit: Visit, event: gr.EventData) -> list:
    """Forget a run."""
    visit.forget(event.run)
    return show_all(visit)


def pack_run(visit: Visit, event: gr.EventData) -> tuple[str | None, str]:
    """Save a run as a checkpoint folder and zip it: (path, sentence)."""
    run = visit.runs.get(event.run)
    if run is None or run.model is None:
        return None, shared.note("This run has no weights yet.")
    if run.evaluation is None:
        driving.measure(run)
    evaluation = run.evaluation
    folder = visit.new_folder(f"attn-{run.name.replace(' ', '-')}")
    reports = [{**point, "held_out_exact_match": point["held_out"]} for _, point in run.points]
    reports = [{k: None if v != v else v for k, v in report.items()} for report in reports]
    with run.looking() as model:
        record = build_training_record(
            run.task,
            run.recipe,
            evaluation,
            seed=run.seed,
            reports=reports,
            device=describe_device(run.accelerator),
            threads=torch.get_num_threads(),
            baseline=run.baseline,
        )
        if path := record["task"]["options"].get("path"):
            record["task"]["options"]["path"] = Path(path).name  # where it lies here is nobody's business
        save_checkpoint(folder, model, run.task, record)
    if run.is_live:
        run.evaluation = None  # of weights that change
    path = shutil.make_archive(str(folder), "zip", folder.parent, folder.name)
    return path, shared.note(f"{Path(path).name} holds a checkpoint that transformers loads.")


# ---------------------------------------------------------------- wiring


def wire_form(form: Form, visit: gr.State, light: dict) -> None:
    """Keep the settings in step: task, model and size fill in the others, and every change is checked."""
    task, model, size, preset = (form.fields[name] for name in ("task", "model", "size", "preset"))
    table, filled, columns = form.table, form.named(*FILLED), form.named("column_1", "column_2")
    read, described = [visit, *form.values], [form.hint, *form.lines]
    edited = [form.fields[name].input for name in FIELDS if name not in ("task", "model", "size", "preset")]
    gr.on(edited, describe, read, described, **light, trigger_mode="always_last")
    picked = [
        task.input(pick_task, [visit, task], [table, *form.named(*CHOSEN[1:]), *filled], **light),
        model.input(choose_model, [task, model, size, preset], [preset, *filled], **light),
        size.input(refill, [task, model, size, preset], filled, **light),
        preset.input(refill, [task, model, size, preset], filled, **light),
        gr.on(
            [table.upload, table.clear],
            take_upload,
            [visit, table, task],
            columns,
            **light,
            trigger_mode="always_last",
        ),
    ]
    for event in picked:
        event.then(describe, read, described, **light)


def build(page: Page) -> None:
    """Lay the tab out and connect it."""
    with gr.Row(elem_classes="hf-lead"):
        gr.HTML(shared.look_for(LOOK_FOR))
        origin = gr.HTML(shared.origin("none yet", "none", page.device))
    with gr.Row(elem_classes="hf-work"):
        with gr.Column(elem_classes=["hf-panel", "hf-side"], min_width=0):
            train = gr.Button("Train", variant="primary", elem_classes="train", elem_id="train")
            with gr.Row(elem_classes="hf-drive"):
                pause = gr.Button("Pause", size="md", interactive=False, elem_id="pause", min_width=0)
                stop = gr.Button(
                    "Stop", variant="stop", size="md", interactive=False, elem_id="stop", min_width=0
                )
                step = gr.Button("Step", size="md", elem_id="step", min_width=0)
            said = gr.HTML(shared.note(tell(None)), elem_id="note")
            with gr.Accordion("Settings", elem_classes="hf-settings") as fold:
                form = build_form()
                pace = gr.Radio(list(PACES), value=PACES[0], label="Pace", elem_classes="seg")
                rate = gr.Slider(1, 60, 10, step=1, label="Steps a second", visible=False)
        with (
            gr.Column(min_width=0, elem_classes="hf-result"),
            shared.train_board("train-board") as board,
        ):
            runs = shared.runs_table("runs")
    zipped = gr.DownloadButton(visible="hidden", elem_id="zip")
    order = gr.Number(0, visible="hidden")  # counts the runs to follow; its change starts the long handler
    visit = page.visit
    shown = [board, train, pause, stop, step, said, origin, runs]
    answer = [order, fold, *form.lines, *shown]
    light = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}

    train.click(press_train, [visit, order, *form.values], answer, **light)
    pause.click(press_pause, [visit, order], answer, **light)
    stop.click(press_stop, [visit, order], answer, **light)
    step.click(press_step, [visit, order, *form.values], answer, **light, trigger_mode="multiple")
    long = {"show_progress": "hidden", "api_visibility": "private"}
    train_in_turn = {"concurrency_id": "train", "concurrency_limit": page.places}
    page.run_ended.append(order.change(follow, visit, shown, **long, **train_in_turn))
    wire_form(form, visit, light)
    gr.on([pace.change, rate.change], set_pace, [visit, pace, rate], rate, **light)
    many = {**light, "trigger_mode": "multiple"}
    page.tab.select(lambda visit: shared.to_json(visit.to_table()), visit, runs, **light)  # Duel adds some
    runs.open_run(open_run, visit, shown, **many)
    runs.delete_run(delete_run, visit, shown, **many)
    save = "() => setTimeout(() => document.querySelector('#zip')?.click(), 150)"  # once the link is there
    runs.download_run(pack_run, visit, [zipped, said], **long).success(None, js=save)
