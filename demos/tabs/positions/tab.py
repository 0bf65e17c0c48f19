"""Positions: every position encoding as numbers, and trained models beyond their length.

Its boards take a `PositionsValue` and a `GrowthValue` of `ui.board_values`.
"""

import contextlib
import dataclasses
import functools
import re
from collections.abc import Iterator

import gradio as gr
import torch

from hf_attn.analysis.position_encodings import (
    Picture,
    PositionSettings,
    is_learned,
    measure_order_sensitivity,
    view_position_encoding,
)
from hf_attn.models.positions import POSITION_TYPES

from ...core.fields import FieldError, count_chosen, error_lines
from ...jobs.job import STARTING, TIME_UP, WAITING
from ...jobs.training_job import FAILED, FINISHED, RUNNING, STOPPED
from ...session.page import LAST, NOW, Page, state_of, with_value
from ...session.session import Session
from ...snippets.views import length_test_snippet, positions_snippet
from ...ui import boards, formatting, notices
from . import length_test
from .form import (
    FIELDS,
    FIRST,
    LABELS,
    NUMBERS,
    SENTENCE,
    VIEW_ERRORS,
    fields_of,
    list_encodings,
    read_field,
    read_view,
)
from .length_test import GROWTHS, LengthTestJob

TITLE = "Positions"
ASSETS = ("positions.css", "positions_panels.js", "positions_board.js")
LOOK_FOR = (
    "“Does it notice?”: words moved about give the same output without position encoding, and another "
    "with one."
)

MOST = 4  # series that can be told apart
ROUNDING = 1e-4  # an L2 below it is rounding; another order gives 0.1 and more
# names in the package's errors, and what they are called here: with a number before them, and alone
PLAIN = {
    "num_attention_heads": ("heads", "number of heads"),
    "hidden_size": ("dimensions", "number of dimensions"),
    "max_position_embeddings": ("positions that it was trained for", "positions trained for"),
}
RUN_FIELDS = ("task", "types", "run_seed")
RUN_ERRORS = ("types", "run_seed")
RUN_LABELS = {"task": "Task", "types": "Position encodings", "run_seed": "Seed"}
COMPARED = ("sinusoidal", "learned", "relative")
SCREEN = ("board", "start", "stop", "note")


def show_view(*form) -> list:
    """Everything of one encoding: [board, origin, *lines of the fields]; wrong input leaves the board."""
    given, wrong = read_view(*form)
    if wrong:
        return [gr.skip(), gr.skip(), *error_lines(VIEW_ERRORS, *wrong)]
    words, settings = given.pop("sentence"), PositionSettings(**given)
    try:
        value = tell_view(form[FIELDS.index("type")], settings, words)
    except FieldError as error:
        return [gr.skip(), gr.skip(), *error_lines(VIEW_ERRORS, error)]
    weights = "untrained" if value["untrained"] else "none: a formula"
    heads = f"{settings.heads} head{'' if settings.heads == 1 else 's'}"
    origin = notices.origin(f"Transformer encoder, 1 layer, {heads}", weights, "CPU, float32")
    return [boards.to_json(value), origin, *error_lines(VIEW_ERRORS)]


def tell_view(position_type: str, settings: PositionSettings, words: list[str]) -> dict:
    """An encoding as the board shows it.

    Raises:
        FieldError: a size that the encoding cannot work with, or no sentence.
    """
    encoding = POSITION_TYPES[position_type]
    try:
        pictures = view_position_encoding(position_type, settings)
    except ValueError as error:
        field = "length" if settings.length > settings.trained else "width"
        raise FieldError(field, plain_words(str(error))) from error
    try:
        order = measure_order_sensitivity(position_type, settings, words)
    except ValueError as error:
        raise FieldError("sentence", str(error)) from error
    return {
        **{name: getattr(encoding, name) for name in ("title", "equation", "paper")},
        "sentence": str(encoding.__doc__).partition("\n")[0],
        "type": position_type,
        "untrained": is_learned(position_type, settings),
        "python": positions_snippet(position_type, settings, words),
        "pictures": [tell_picture(picture) for picture in pictures],
        "order": {"words": words, "rounding": ROUNDING, **dataclasses.asdict(order)},
    }


def plain_words(sentence: str) -> str:
    """An error of the package with the names that stand on the page."""
    for name, (counted, alone) in PLAIN.items():
        sentence = re.sub(rf"{name}=(\d+)", rf"\1 {counted}", sentence).replace(name, alone)
    return sentence


def tell_picture(picture: Picture) -> dict:
    """A picture as the board draws it: five digits of each number."""

    def rounded(table: torch.Tensor) -> list[list[float]]:
        return [[float(f"{number:.5g}") for number in row] for row in table.tolist()]

    return {
        "name": picture.name,
        "kind": picture.kind,
        "rows": list(picture.rows),
        "points": list(picture.points),
        **{name: rounded(getattr(picture, name)) for name in ("values", "similarity", "waves")},
    }


def choose_type(position_type: str) -> list[dict]:
    """Another encoding: which of the number fields are seen, in the order of NUMBERS."""
    known = fields_of(position_type)
    return [gr.update(visible=field in known) for field in NUMBERS]


screen = functools.partial(boards.by_name, SCREEN)


def tell(growing: LengthTestJob) -> str:
    """One sentence on what happens or happened."""
    return {
        None: "Each encoding's model learns for some seconds, one after the other, from the same examples.",
        RUNNING: "Stop takes effect at once and keeps what was measured.",
        STOPPED: f"Stopped at {formatting.percent(growing.done, 0)}{TIME_UP if growing.is_late else ''}; "
        "what was measured stays.",
        FAILED: "Failed; the line above the curves says why.",
        FINISHED: "Done. Another seed says how much is chance.",
    }[growing.status]


def show_growth(growing: LengthTestJob) -> list:
    """Everything, as the run stands."""
    is_running, told = growing.status == RUNNING, growing.to_message()
    return screen(
        board=boards.to_json(told and {**told, "python": say_growth(growing)}),
        start=f"Learning, {formatting.percent(growing.done, 0)}" if is_running else "Train beyond",
        stop=gr.update(interactive=is_running),
        note=notices.note(tell(growing)),
    )


def say_growth(growing: LengthTestJob) -> str:
    """The lines of Python that give the same figures."""
    return length_test_snippet(
        growing.growth, growing.types, growing.seed, length_test.ROUNDS, length_test.EXAMPLES
    )


def read_run(task: str, types: list[str], seed: object) -> tuple:
    """Length test, position encodings and seed of the fields.

    Raises:
        FieldError: a field holds what cannot be used.
    """
    types = tuple(dict.fromkeys(types or ()))
    if not 1 <= len(types) <= MOST:
        raise FieldError("types", f"{count_chosen(types)}: choose one to four position encodings.")
    try:
        number = read_field("seed", seed)
    except FieldError as error:
        raise FieldError("run_seed", str(error)) from error
    return GROWTHS[task], types, int(number)


def check_run(*form) -> list[str]:
    """What is wrong with the settings of a run, under each field."""
    try:
        read_run(*form)
    except FieldError as error:
        return error_lines(RUN_ERRORS, error)
    return error_lines(RUN_ERRORS)


def press_start(session: Session, growing: LengthTestJob, order: int, *form) -> list:
    """A new run from the fields, to be followed; nothing while one is under way."""
    if growing.status == RUNNING:
        return [order, *error_lines(RUN_ERRORS), *screen()]
    try:
        growing.configure(*read_run(*form), session.device)
        growing.form = dict(zip(RUN_FIELDS, form, strict=True))
    except FieldError as error:
        return [order, *error_lines(RUN_ERRORS, error), *screen()]
    changes = dict(zip(SCREEN, show_growth(growing), strict=True))
    return [
        order + 1,
        *error_lines(RUN_ERRORS),
        *screen(**changes | {"note": notices.note(STARTING, later=WAITING)}),
    ]


def learn_again(form: dict, taken: list[int], session: Session, growing: LengthTestJob, order: int) -> list:
    """A link's run, to be followed until it stands where the sender's did: as `press_start`."""
    fields = [form[name] for name in RUN_FIELDS]
    read_run(*fields)  # refuses in words
    answer = press_start(session, growing, order, *fields)
    growing.until = taken
    return answer


def press_stop(growing: LengthTestJob) -> list:
    """Ask the run to stop; one that still waits for a place is stopped here."""
    if growing.stop is not None:
        growing.stop.set()
    if growing.status == RUNNING and not growing.is_live:
        growing.status = STOPPED
        return show_growth(growing)
    return screen()


def follow(session: Session, growing: LengthTestJob) -> Iterator[list]:
    """Let them learn, and keep the page up to date: the one handler that takes long."""
    if growing.is_live or growing.status != RUNNING:
        yield screen()
        return
    yield screen(note=notices.note(STARTING))  # no longer waiting
    with contextlib.closing(length_test.drive(growing)) as moments:
        for _ in moments:
            if session.is_over:
                return
            yield show_growth(growing)
    yield show_growth(growing)


def build_fields() -> tuple[dict, dict]:
    """Lay the fields of one encoding out: (fields, lines for what is wrong)."""
    fields, lines = {}, {}
    look = {field: {"label": label, "elem_id": f"positions-{field}"} for field, label in LABELS.items()}
    fields["type"] = gr.Dropdown(list_encodings(), value=FIRST, **look["type"])
    seen = fields_of(FIRST)
    with gr.Row(elem_classes="hf-fields"):
        for field, (_, _, _, first) in NUMBERS.items():
            fields[field] = gr.Textbox(
                str(first), max_lines=1, min_width=0, visible=field in seen, **look[field]
            )
        for field in reversed(NUMBERS):  # a line next to the fields marks the last of them
            lines[field] = build_line(field)
    fields["sentence"] = gr.Textbox(SENTENCE, max_lines=1, **look["sentence"])
    lines["sentence"] = build_line("sentence")
    return fields, lines


def build_line(field: str) -> gr.HTML:
    """The line under a field."""
    return gr.HTML(elem_classes="hf-field-error", elem_id=f"positions-error-{field}")


def build_run() -> tuple[dict, dict, gr.Button, gr.Button, gr.HTML]:
    """Lay the fields of a run out: (fields, lines for what is wrong, start, stop, note)."""
    look = {field: {"label": label, "elem_id": f"positions-{field}"} for field, label in RUN_LABELS.items()}
    start = gr.Button("Train beyond", variant="primary", elem_classes="hf-start", elem_id="positions-start")
    stop = gr.Button("Stop", variant="stop", size="md", interactive=False, elem_id="positions-stop")
    note = gr.HTML(notices.note(tell(LengthTestJob())), elem_id="positions-note")
    fields, lines = {}, {}
    fields["task"] = gr.Radio(list(GROWTHS), value="Copy", elem_classes="seg", **look["task"])
    fields["types"] = gr.Dropdown(list_encodings(), value=list(COMPARED), multiselect=True, **look["types"])
    lines["types"] = build_line("types")
    fields["run_seed"] = gr.Textbox("0", max_lines=1, **look["run_seed"])
    lines["run_seed"] = build_line("run_seed")
    return fields, lines, start, stop, note


def build(page: Page) -> None:
    """Lay the tab out and connect it."""
    with gr.Row(elem_classes="hf-lead"):
        gr.HTML(notices.look_for(LOOK_FOR))
        origin = gr.HTML(notices.origin("none yet", "none", page.device), elem_id="positions-origin")
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
    order = gr.Number(0, visible="hidden")  # counts the runs to follow; its change starts the long handler
    growing = state_of(LengthTestJob(), LengthTestJob.close)

    form = [fields[field] for field in FIELDS]
    answer = [board, origin, *(lines[field] for field in VIEW_ERRORS)]
    numbers = [fields[field] for field in NUMBERS]
    fields["type"].change(choose_type, fields["type"], numbers, **NOW)
    # One event: the answer to the tab's opening, where it comes late, takes back nothing that came after it.
    asked_by = [page.tab.select, *(field.change for field in form)]
    gr.on(asked_by, show_view, form, answer, **LAST, queue=False)

    shown = [curves, start, stop, note]
    run = [chosen[field] for field in RUN_FIELDS]
    told = [order, *(wrong[field] for field in RUN_ERRORS), *shown]
    edited = [chosen[field].change for field in RUN_FIELDS]
    gr.on(edited, check_run, run, [wrong[field] for field in RUN_ERRORS], **LAST, queue=False)
    start.click(press_start, [page.session, growing, order, *run], told, **NOW)

    def open_link(values):
        seen = dict(zip(numbers, choose_type(values["type"]), strict=True))
        changes = {part: with_value(values[name], seen.get(part)) for name, part in kept.items()}
        return changes | dict(zip(answer, show_view(*(values[name] for name in FIELDS)), strict=True))

    kept = {**fields, **chosen}
    page.link_fields(kept, restore=open_link, outputs=tuple(answer))

    def open_again(*link):
        return dict(zip(told, learn_again(*link), strict=True))

    begins = {"inputs": (page.session, growing, order), "outputs": tuple(told)}
    page.link_job("growth", chosen, growing, open_again, **begins)
    stop.click(press_stop, growing, shown, **NOW)
    order.change(follow, [page.session, growing], shown, **page.in_turn)
