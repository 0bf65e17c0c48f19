"""Positions: every position encoding as numbers, and trained models beyond their length.

Its boards take a `PositionsValue` and a `GrowthValue` of `ui/board_values.d.ts`.
"""

import dataclasses
import re
from typing import Any

import gradio as gr

from hf_attn.analysis.position_encodings import (
    Picture,
    PositionSettings,
    is_learned,
    measure_order_sensitivity,
    view_position_encoding,
)
from hf_attn.models.positions import POSITION_TYPES

from ...core.fields import (
    LARGEST_SEED,
    FieldError,
    blame,
    count_chosen,
    error_lines,
    position_choices,
    read_number,
)
from ...core.limits import refuse_longer
from ...jobs.job import FAILED, FINISHED, RUNNING, STARTING, STOPPED, TIME_UP, WAITING
from ...session.page import LAST_NOW, NOW, Page, with_value
from ...session.session import Session
from ...snippets.views import length_test_snippet, positions_snippet
from ...ui import boards, formatting, notices
from . import length_test
from .length_test import LENGTH_TESTS, LengthTestJob

TITLE = "Positions"
ASSETS = ("positions.css", "signed_map.js", "positions_board.js")
BEGIN: list[notices.Part] = [
    "Choose a position encoding to see what it adds, and whether it tells the order."
]
FIRST = "sinusoidal"
SENTENCE = "the cat sat on the mat"
LONGEST_SENTENCE = 200  # characters
# field: its type, lowest, highest, and its first value
NUMBERS = {
    "length": (int, 2, 64, 50),
    "width": (int, 4, 128, 32),
    "trained": (int, 2, 64, 50),
    "heads": (int, 1, 8, 2),
    "theta": (float, 2, 1e7, 10_000),
    "clip": (int, 1, 64, 8),
    "seed": (int, 0, LARGEST_SEED, 0),
}
LABELS = {
    "type": "Position encoding",
    "length": "Positions",
    "width": "Dimensions",
    "trained": "Trained for",
    "heads": "Heads",
    "theta": "Base theta",
    "clip": "Clip distance",
    "seed": "Seed",
    "sentence": "Your sentence",
}
ALWAYS = ("length", "width")  # fields that every encoding has
# what an encoding says that it depends on → the field that sets it
FIELD_OF = {
    "max_position_embeddings": "trained",
    "num_attention_heads": "heads",
    "rope_theta": "theta",
    "relative_clip_distance": "clip",
    "seed": "seed",
}
VIEW_ERRORS = (*NUMBERS, "sentence")
MOST = 4  # series that can be told apart
ROUNDING = 1e-4  # an L2 below it is rounding; another order gives 0.1 and more
# names in the package's errors, and what they are called here: with a number before them, and alone
PLAIN = {
    "num_attention_heads": ("heads", "number of heads"),
    "hidden_size": ("dimensions", "number of dimensions"),
    "max_position_embeddings": ("positions that it was trained for", "positions trained for"),
}
RUN_ERRORS = ("types", "run_seed")
RUN_LABELS = {"task": "Task", "types": "Position encodings", "run_seed": "Seed"}
COMPARED = ("sinusoidal", "learned", "relative")


def fields_of(position_type: str) -> tuple[str, ...]:
    """The fields of numbers that change an encoding."""
    return (*ALWAYS, *(FIELD_OF[name] for name in POSITION_TYPES[position_type].settings if name in FIELD_OF))


def read_field(field: str, text: object) -> float:
    kind, low, high, first = NUMBERS[field]
    return read_number(field, text, low, high, whole=kind is int, example=first)


def read_sentence(text: str | None) -> list[str]:
    """The words of the sentence; FieldError where it is too long."""
    with blame("sentence"):
        refuse_longer("sentence", text, LONGEST_SENTENCE)
    return (text or "").split()


def read_view(values: dict) -> tuple[dict[str, Any], list[FieldError]]:
    """Numbers and words of the fields that the type has, and every one that holds what cannot be used."""
    given, wrong = {"trained": NUMBERS["trained"][2]}, []
    for field in (*fields_of(values["type"]), "sentence"):
        try:
            read = read_sentence(values[field]) if field == "sentence" else read_field(field, values[field])
            given[field] = read
        except FieldError as error:
            wrong.append(error)
    return given, wrong


def tell_order(value: dict) -> list[notices.Part]:
    """The screen's sentence: whether shuffled words change the output, without and with this encoding."""
    order = value["order"]
    without = "does not change" if order["without"] < ROUNDING else "changes"
    told = f"Without position encodings, reordering the words {without} the output"
    if value["type"] == "none":
        return [f"{told}: ", ("b", f"L2 {formatting.power(order['without'])}"), "."]
    told = f"{told}. With “{value['title']}” it "
    if order["with_positions"] < ROUNDING:
        return [told, "does not change it either."]
    share = ("b", formatting.percent(order["with_positions"] / order["norm"], 0))
    return [told, "changes it, by ", share, " of its length."]


def show_view(_: Session, values: dict) -> dict:
    """Everything of one encoding; wrong input leaves the board as it is."""
    given, wrong = read_view(values)
    if wrong:
        return error_lines(VIEW_ERRORS, *wrong)
    words, settings = given.pop("sentence"), PositionSettings(**given)
    try:
        value = describe_view(values["type"], settings, words)
    except FieldError as error:
        return error_lines(VIEW_ERRORS, error)
    weights = "untrained" if value["untrained"] else "none: a formula"
    heads = f"{settings.heads} head{'' if settings.heads == 1 else 's'}"
    origin = notices.origin(f"Transformer encoder, 1 layer, {heads}", weights, "CPU, float32")
    told = notices.headline(tell_order(value))
    return {"board": boards.to_json(value), "told": told, "origin": origin, **error_lines(VIEW_ERRORS)}


def describe_view(position_type: str, settings: PositionSettings, words: list[str]) -> dict:
    """An encoding as the board shows it; FieldError for a size that it cannot work with, or no sentence."""
    encoding = POSITION_TYPES[position_type]
    with blame("length" if settings.length > settings.trained else "width", plain_words):
        pictures = view_position_encoding(position_type, settings)
    with blame("sentence"):
        order = measure_order_sensitivity(position_type, settings, words)
    return {
        **{name: getattr(encoding, name) for name in ("title", "equation", "paper")},
        "sentence": str(encoding.__doc__).partition("\n")[0],
        "type": position_type,
        "untrained": is_learned(position_type, settings),
        "python": positions_snippet(position_type, settings, words),
        "pictures": [describe_picture(picture) for picture in pictures],
        "order": {"words": words, "rounding": ROUNDING, **dataclasses.asdict(order)},
    }


def plain_words(sentence: str) -> str:
    """An error of the package with the names that stand on the page."""
    for name, (counted, alone) in PLAIN.items():
        sentence = re.sub(rf"{name}=(\d+)", rf"\1 {counted}", sentence).replace(name, alone)
    return sentence


def describe_picture(picture: Picture) -> dict:
    """A picture as the board draws it: five digits of each number."""
    tables = {name: getattr(picture, name).tolist() for name in ("values", "similarity", "waves")}
    return {
        "name": picture.name,
        "kind": picture.kind,
        "rows": list(picture.rows),
        "points": list(picture.points),
        **{name: [[float(f"{n:.5g}") for n in row] for row in table] for name, table in tables.items()},
    }


def choose_type(_: Session, values: dict) -> dict:
    """Another encoding: which of the number fields are seen."""
    known = fields_of(values["type"])
    return {field: gr.update(visible=field in known) for field in NUMBERS}


def status_message(job: LengthTestJob) -> str:
    return {
        None: "Each encoding's model learns for some seconds, one after the other, from the same examples.",
        RUNNING: "Stop takes effect at once and keeps what was measured.",
        STOPPED: f"Stopped at {formatting.percent(job.done, 0)}{TIME_UP if job.is_late else ''}; "
        "what was measured stays.",
        FAILED: "Failed; the line above the curves says why.",
        FINISHED: "Done. Another seed says how much is chance.",
    }[job.status]


def show_test(session: Session) -> dict:
    job = session.state(LengthTestJob)
    is_running, value = job.status == RUNNING, job.to_message()
    if value is not None:
        how = (job.test, job.types, job.seed, length_test.ROUNDS, length_test.EXAMPLES)
        value["python"] = length_test_snippet(*how)
    return {
        "curves": boards.to_json(value),
        "start": f"Learning, {formatting.percent(job.done, 0)}" if is_running else "Train and test",
        "stop": gr.update(interactive=is_running),
        "note": notices.note(status_message(job)),
    }


def read_run(values: dict) -> tuple:
    """Length test, position encodings and seed of the fields; FieldError where one cannot be used."""
    types = tuple(dict.fromkeys(values["types"] or ()))
    if not 1 <= len(types) <= MOST:
        raise FieldError("types", f"{count_chosen(types)}: choose one to four position encodings.")
    with blame("run_seed"):
        seed = read_field("seed", values["run_seed"])
    return LENGTH_TESTS[values["task"]], types, int(seed)


def check_run(_: Session, values: dict) -> dict:
    try:
        read_run(values)
    except FieldError as error:
        return error_lines(RUN_ERRORS, error)
    return error_lines(RUN_ERRORS)


def start_test(session: Session, values: dict) -> LengthTestJob:
    """Let a test with these settings take the place of the last; FieldError where one is wrong."""
    job = session.state(LengthTestJob)
    job.configure(values, *read_run(values), session.device)
    return job


def press_start(session: Session, values: dict) -> dict:
    """A new test from the fields; nothing while one is under way."""
    if session.state(LengthTestJob).is_busy:
        return {}
    try:
        start_test(session, values)
    except FieldError as error:
        return error_lines(RUN_ERRORS, error)
    return show_test(session) | error_lines(RUN_ERRORS) | {"note": notices.note(STARTING, later=WAITING)}


def restore_fields(session: Session, values: dict) -> dict:
    """Updates of the fields for a link's values, with the picture of the encoding."""
    seen = choose_type(session, values)
    return {name: with_value(value, seen.get(name)) for name, value in values.items()} | show_view(
        session, values
    )


def build_fields() -> tuple[dict, dict]:
    """Lay the fields of one encoding out: (fields, lines for what is wrong)."""
    fields, lines = {}, {}
    look = {field: {"label": label, "elem_id": f"positions-{field}"} for field, label in LABELS.items()}
    fields["type"] = gr.Dropdown(position_choices(), value=FIRST, **look["type"])
    seen = fields_of(FIRST)
    with gr.Row(elem_classes="hf-fields"):
        for field, (_, _, _, first) in NUMBERS.items():
            fields[field] = gr.Textbox(
                str(first), max_lines=1, min_width=0, visible=field in seen, **look[field]
            )
        for field in reversed(NUMBERS):  # a line next to the fields marks the last of them
            lines[f"{field}_error"] = notices.build_error_line(f"positions-error-{field}")
    fields["sentence"] = gr.Textbox(SENTENCE, max_lines=1, **look["sentence"])
    lines["sentence_error"] = notices.build_error_line("positions-error-sentence")
    return fields, lines


def build_run() -> tuple[dict, dict, gr.Button, gr.Button, gr.HTML]:
    """Lay the fields of a run out: (fields, lines for what is wrong, start, stop, note)."""
    look = {field: {"label": label, "elem_id": f"positions-{field}"} for field, label in RUN_LABELS.items()}
    start = gr.Button("Train and test", variant="primary", elem_classes="hf-start", elem_id="positions-start")
    stop = gr.Button("Stop", variant="stop", size="md", interactive=False, elem_id="positions-stop")
    note = gr.HTML(notices.note(status_message(LengthTestJob())), elem_id="positions-note")
    fields, lines = {}, {}
    fields["task"] = gr.Radio(list(LENGTH_TESTS), value="Copy", elem_classes="seg", **look["task"])
    fields["types"] = gr.Dropdown(position_choices(), value=list(COMPARED), multiselect=True, **look["types"])
    lines["types_error"] = notices.build_error_line("positions-error-types")
    fields["run_seed"] = gr.Textbox("0", max_lines=1, **look["run_seed"])
    lines["run_seed_error"] = notices.build_error_line("positions-error-run_seed")
    return fields, lines, start, stop, note


def build(page: Page) -> None:
    nothing = notices.origin("none yet", "none", page.device)
    told, origin = notices.build_lead(BEGIN, nothing, "positions-origin")
    with gr.Row(elem_classes="hf-work"):
        with gr.Column(elem_classes=["hf-panel", "hf-side"], min_width=0):
            fields, lines = build_fields()
        with gr.Column(min_width=0, elem_classes="hf-result"):
            board = boards.build_board("positions_board", "hf-positions", "positions-board")
    with gr.Row(elem_classes="hf-work"):
        with gr.Column(elem_classes=["hf-panel", "hf-side"], min_width=0):
            chosen, wrong, start, stop, note = build_run()
        with gr.Column(min_width=0, elem_classes="hf-result"):
            curves = boards.build_board("growth_board", "hf-growth", "growth-board")
    view = {"board": board, "told": told, "origin": origin, **lines}
    page.connect(fields["type"].change, choose_type, {"type": fields["type"]}, fields, **NOW)
    # One event: the answer to the tab's opening, where it comes late, takes back nothing that came after it.
    asked_by = [page.tab.select, *(field.change for field in fields.values())]
    page.connect(asked_by, show_view, fields, view, **LAST_NOW)
    edited = [field.change for field in chosen.values()]
    page.connect(edited, check_run, chosen, wrong, **LAST_NOW)
    shown = {"curves": curves, "start": start, "stop": stop, "note": note}
    page.link_fields({**fields, **chosen}, restore=restore_fields, shows=view)
    job = page.link_job(
        "growth",
        kind=LengthTestJob,
        show=show_test,
        shows=shown,
        fields=chosen,
        start=lambda session, spec, _: start_test(session, spec.form),
    )
    page.drive(job, start.click, press_start, chosen, stop.click, wrong)
