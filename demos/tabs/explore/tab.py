"""Explore: every head of a checkpoint, for an input of your own, and what the answer is without it."""

import gradio as gr

from hf_attn.tasks.base import CLASSES

from ...core.events import Event, Kind, Place
from ...core.limits import limits_here
from ...session.catalog import LoadedModel, ModelCatalog
from ...session.maps import (
    ComputedMaps,
    TargetError,
    board_value,
    compute_maps,
    compute_window,
    fetch_cell,
    fetch_head,
)
from ...session.model_input import ModelInput, build_model_input, wire_answer, wire_model_input
from ...session.page import LAST, LIGHT, NOW, Page, clear_on_edit, state_of
from ...session.session import Session
from ...snippets.heads import cell_snippet
from ...snippets.views import maps_snippet
from ...ui import boards, notices
from .ablation_panel import add_snippets, build_part
from .head_scores import ExploreState, prepare

TITLE = "Explore"
ASSETS = ("ablation.css", "ablation_panels.js", "ablation_board.js")
LOOK_FOR = (
    "a head whose rings hold weight: it reads what each symbol needs; take it away, and see what is left."
)
LOOK_FOR_CLASS = (
    "a column that many rows read: a word, or the end, in which the encoder gathers what it needs."
)
WAITING = ("() => hfAttn.lens.wait(true)", "() => hfAttn.lens.wait(false)")


class PickEvent(Event):
    """Another head or cell; a head of None is the layer's mean, and a cell may be none."""

    kind: Kind
    layer: Place
    head: Place | None = None
    query: Place | None = None
    key: Place | None = None


class HeadEvent(Event):
    """A head of the input that is shown (`turn`), to be sent; None for the mean of its layer."""

    turn: int
    kind: Kind
    layer: Place
    head: Place | None = None


class CellEvent(Event):
    """A cell of the input that is shown (`turn`), to be unfolded."""

    turn: int
    kind: Kind
    layer: Place
    head: Place
    query: Place
    key: Place


class WindowEvent(Event):
    """Where the window on a long input begins."""

    row: Place
    column: Place


def compute_board(
    catalog: ModelCatalog,
    session: Session,
    chosen: str | None,
    text: str,
    target: str,
    kept: dict | None,
    checks: ExploreState | None = None,
) -> list:
    """[board, error, target's error, origin] of an input; a wrong or outdated one changes nothing but errors.

    An empty target is written by the model. `kept` is what the visitor picked last (kind, layer, head, cell);
    `checks` is told what is shown, so that questions are about it.
    """
    checks, text, target = checks or ExploreState(), (text or "").strip(), (target or "").strip()
    request = checks.request = object()
    if chosen is None:
        checks.clear()
        return [None, "", "", notices.NOTHING]
    try:
        with catalog.open(session, chosen) as opened:
            computed = compute_maps(opened, text, target)
            value = board_value(opened, text, computed, kept)
            value["python"] = first_snippet(session, chosen, opened, computed, value)
            new = prepare(opened, chosen, text, computed, is_own=not target)
            add_snippets(session, opened, new)
            if checks.request is not request:  # asked again meanwhile: the panels speak about that
                return [gr.skip()] * 4
            checks.begin(new)
            value["turn"] = checks.turn
            return [boards.to_json(value), "", "", opened.origin]
    except TargetError as error:
        return [gr.skip(), "", notices.field_error(str(error)), gr.skip()]
    except ValueError as error:
        return [gr.skip(), notices.field_error(str(error)), "", gr.skip()]


def first_snippet(
    session: Session, chosen: str, opened: LoadedModel, computed: ComputedMaps, value: dict
) -> str:
    """The Python lines for the head that is shown first; the lens puts others in their place."""
    layer, head = (value.get(name) or 0 for name in ("layer", "head"))
    return maps_snippet(session, chosen, opened, computed, layer, head, value.get("kind"))


def move_window(
    catalog: ModelCatalog, session: Session, checks: ExploreState, kept: dict | None, row: int, column: int
):
    """Show another window of a long input."""
    if checks.chosen is None or not checks.long:
        return gr.skip()
    try:
        with catalog.open(session, checks.chosen) as opened:
            computed = compute_window(opened, checks.read, checks.written, (row, column))
            value = board_value(opened, checks.text, computed, kept)
            value["python"] = first_snippet(session, checks.chosen, opened, computed, value)
    except ValueError:  # the checkpoint is gone by now
        return gr.skip()
    checks.long = computed.long
    return boards.to_json({**value, "turn": checks.turn})


def send_head(checks: ExploreState, turn: int, kind: str, layer: int, head: int | None):
    """The map of a head of a long input; skipped where another input is shown by now."""
    return gr.skip() if turn != checks.turn else boards.to_json(fetch_head(checks, kind, layer, head))


def unfold_cell(catalog: ModelCatalog, session: Session, checks: ExploreState, turn: int, *cell):
    """The numbers behind a cell (kind, layer, head, query, key)."""
    if turn != checks.turn or checks.chosen is None:
        return gr.skip()
    try:
        with catalog.open(session, checks.chosen) as opened:
            value = fetch_cell(opened, checks, *cell)
            context = (session, checks.chosen, opened, checks.read, checks.written)
            value["cell"]["python"] = cell_snippet(*context, cell)
            return boards.to_json(value)
    except ValueError:  # the checkpoint is gone by now
        return gr.skip()


def open_model(catalog: ModelCatalog, session: Session, name: str) -> list:
    """Open a folder or a Hub id, and choose it: [checkpoint, error]."""
    try:
        chosen = catalog.take(session, (name or "").strip())
    except (ValueError, OSError) as error:
        return [gr.skip(), notices.field_error(str(error))]
    return [gr.update(choices=catalog.choices(session), value=chosen), ""]


def choose_fields(catalog: ModelCatalog, session: Session, chosen: str | None) -> list:
    """[target, look-for] for another checkpoint; a classifier has no target."""
    kind = catalog.kind(session, chosen)
    look_for = notices.look_for(LOOK_FOR_CLASS if kind == CLASSES else LOOK_FOR)
    return [gr.update(value="", visible=kind != CLASSES), look_for]


def keep_pick(event: PickEvent) -> dict:
    return {name: getattr(event, name) for name in ("kind", "layer", "head", "query", "key")}


def build_target(question: ModelInput) -> tuple[gr.Textbox, gr.HTML, gr.Button]:
    """Lay out the target: (target, its error, button)."""
    with question.row:
        typed = {"elem_id": "explore-target", "elem_classes": "hf-mono-input", "min_width": 0}
        hint = "what the model writes itself"
        target = gr.Textbox("", label="Target", max_lines=1, placeholder=hint, **typed)
        error = notices.build_error_line("explore-target-error")
        show = gr.Button("Show", variant="primary", elem_id="explore-show", min_width=0)
    return target, error, show


def build_other() -> tuple[gr.Textbox, gr.Button, gr.HTML]:
    """Lay out the field for a folder or a Hub id: (name, button, error)."""
    with gr.Row(elem_classes="hf-other"):
        typed = {"elem_id": "explore-other", "elem_classes": "hf-mono-input", "min_width": 0}
        name = gr.Textbox(
            "",
            label="Or a folder or a Hub id" if limits_here().takes_paths else "Or a Hub id",
            max_lines=1,
            placeholder="google-bert/bert-base-uncased",
            **typed,
        )
        press = gr.Button("Open", elem_id="explore-open", min_width=0)
        error = notices.build_error_line("explore-other-error")
    return name, press, error


def explore_board(elem_id: str) -> gr.HTML:
    """Build the lens: all heads at a glance, one map large, one token's view, entropy, sink and known answer.

    It takes a `LensValue`; its events stand at the top of hf_attn/viz/web/lens/explore_board.js.
    """
    events = ("pick", "fetch", "look_inside", "move_window")
    return boards.build_board("explore_board", "hf-explore", elem_id, *events)


def build(page: Page) -> None:
    question, origin = build_model_input(LOOK_FOR, "explore")
    target, target_error, press = build_target(question)
    other, open_press, other_error = build_other()
    board = explore_board("explore-board")
    picked, checks = gr.State(None), state_of(ExploreState(), ExploreState.clear)
    checked = build_part(page, checks)
    catalog = page.catalog

    def answer(*asked):
        return [*compute_board(catalog, *asked), asked[-1].to_value()]

    def turn(*chosen):
        return choose_fields(catalog, *chosen)

    def fetch(checks, event: HeadEvent):
        return send_head(checks, event.turn, event.kind, event.layer, event.head)

    def inside(session, checks, event: CellEvent):
        cell = (event.kind, event.layer, event.head, event.query, event.key)
        return unfold_cell(catalog, session, checks, event.turn, *cell)

    def move(session, checks, picked, event: WindowEvent):
        return move_window(catalog, session, checks, picked, event.row, event.column)

    def take(session, name):
        return open_model(catalog, session, name)

    asked = [page.session, question.chosen, question.text, target, picked, checks]
    answered = [board, question.error, target_error, origin, checked]
    changed = (turn, [page.session, question.chosen], [target, question.look_for])
    own = {"target": target}
    events = wire_model_input(page, question, answer, asked, answered, changed, own, WAITING)
    clear_on_edit(target, target_error)
    for asked_by in (press.click, target.submit):
        wire_answer(asked_by, events.always, WAITING)
    chosen = [question.chosen, other_error]
    opened = gr.on([open_press.click, other.submit], take, [page.session, other], chosen, **LAST)
    wire_answer(opened.success, events.if_new, WAITING)
    board.pick(keep_pick, None, picked, **NOW, trigger_mode="multiple")
    board.fetch(fetch, checks, board, **NOW, trigger_mode="multiple")
    board.look_inside(inside, [page.session, checks], board, **LIGHT, trigger_mode="multiple")
    board.move_window(move, [page.session, checks, picked], board, **LAST)
