"""Explore: every head of a checkpoint, for an input of your own, and what the answer is without it."""

from collections.abc import Callable, Iterator

import gradio as gr

from hf_attn.analysis.predictions import MASKED, NEXT, WRITTEN
from hf_attn.generation.generate import generate_answer

from ...core.events import Event, Kind, Place
from ...core.limits import limits_here
from ...session.catalog import LoadedModel
from ...session.maps import (
    ComputedMaps,
    TargetError,
    board_value,
    cell_value,
    compute_maps,
    compute_window,
    pack,
)
from ...session.model_input import InputEvents, as_ids, build_model_input
from ...session.page import EACH_NOW, LAST, LIGHT, Page, ShownHead, clear_on_edit
from ...session.session import Session
from ...snippets.views import cell_snippet, maps_snippet
from ...ui import boards, notices
from .ablation_panel import AblationQuestion, ask_model, build_part
from .head_scores import ExploreState, prepare

TITLE = "Explore"
ASSETS = (
    "ablation.css",
    "predictions.css",
    "ablation_panels.js",
    "predictions.js",
    "layers.js",
    "ablation_board.js",
)
LOOK_FOR = (
    "a head whose rings hold weight: it reads what each symbol needs; take it away, and see what is left."
)
LOOK_FOR_CLASS = (
    "a column that many rows read: a word, or the end, in which the encoder gathers what it needs."
)
LOOK_FOR_TEXT = "what is expected behind each word, and the earlier word without which it is another."
LOOK_FOR_MASKED = "what is expected in place of each word, and the word without which it is another."
HINT = "what the model writes itself"
WRITTEN_ON = 20  # tokens
TO_CHECKS = "(...given) => (document.querySelector('#checks-board').scrollIntoView(), given)"
WAITING = ("() => hfAttn.lens.wait(true)", "() => hfAttn.lens.wait(false)")


class PickEvent(Event):
    """Another head or cell; a head of None is the layer's mean, and a cell may be none."""

    kind: Kind
    layer: Place
    head: Place | None = None
    query: Place | None = None
    key: Place | None = None


class HeadEvent(Event):
    """A head of the input that is shown (`id`), to be sent; None for the mean of its layer."""

    id: int
    kind: Kind
    layer: Place
    head: Place | None = None


class CellEvent(Event):
    """A cell of the input that is shown (`id`), to be unfolded."""

    id: int
    kind: Kind
    layer: Place
    head: Place
    query: Place
    key: Place


class WindowEvent(Event):
    """Where the window on a long input begins."""

    row: Place
    column: Place


def show_input(session: Session, values: dict[str, object]) -> dict:
    """Updates for an input; a wrong one changes nothing but errors, and an outdated one nothing.

    An empty target is written by the model.
    """
    state, chosen = session.state(ExploreState), values["checkpoint"]
    text, target = (values["text"] or "").strip(), (values["target"] or "").strip()
    if chosen is None:
        state.begin(ExploreState())
        return {"board": None, "checks": None, "error": "", "target_error": "", "origin": notices.NOTHING}
    try:
        with session.catalog.open(session, chosen) as opened:
            text, target = opened.join(text, target)
            computed = compute_maps(opened, text, target)
            value = lens_value(opened, text, computed, state.picked)
            new = prepare(opened, text, computed, is_own=not target)
            if not state.is_newest(values):  # asked again meanwhile: the panels speak about that
                return {}
            state.begin(new)
            lines = {"error": "", "target_error": "", "origin": opened.origin}
            return {"board": boards.to_json(value | {"id": state.id}), "checks": state.to_value(), **lines}
    except TargetError as error:
        return {"error": "", "target_error": notices.field_error(str(error))}
    except ValueError as error:
        return {"error": notices.field_error(str(error)), "target_error": ""}


def lens_value(opened: LoadedModel, text: str, computed: ComputedMaps, picked: dict | None) -> dict:
    """The board's value, with the Python lines for the head that is shown first; the lens replaces them."""
    value = board_value(opened, text, computed, picked)
    layer, head = (value.get(name) or 0 for name in ("layer", "head"))
    return value | {"python": maps_snippet(opened, computed, layer, head, value.get("kind"))}


def move_window(session: Session, event: WindowEvent) -> dict:
    state = session.state(ExploreState)
    if state.chosen is None or not state.long:
        return {}
    try:
        with session.catalog.open(session, state.chosen) as opened:
            computed = compute_window(opened, state.read, state.written, (event.row, event.column))
            value = lens_value(opened, state.text, computed, state.picked)
    except ValueError:  # the checkpoint is gone by now
        return {}
    state.long = computed.long
    return {"board": boards.to_json(value | {"id": state.id})}


def send_head(session: Session, event: HeadEvent) -> dict:
    """The map of a head of a long input; nothing where another input is shown by now, or no such head."""
    state = session.state(ExploreState)
    if event.id != state.id or event.kind not in state.long:
        return {}
    long, name = state.long[event.kind], "mean" if event.head is None else event.head
    layers, heads = long.window.shape[:2]
    if event.layer >= layers or (event.head or 0) >= heads:
        return {}
    at, weights = f"{event.layer}.{name}", long.head(event.layer, event.head)
    found = {"kind": event.kind, "at": at, "map": pack(weights)}
    return {"board": boards.to_json({"id": state.id, "add": found})}


def unfold_cell(session: Session, event: CellEvent) -> dict:
    """The numbers behind a cell; nothing where another input is shown by now."""
    state = session.state(ExploreState)
    if event.id != state.id or state.chosen is None:
        return {}
    cell = {name: getattr(event, name) for name in ("kind", "layer", "head", "query", "key")}
    try:
        with session.catalog.open(session, state.chosen) as opened:
            try:
                head = state.head_of(opened, event.kind, event.layer, event.head)
                found = cell_value(head, event.query, event.key)
            except ValueError as error:
                found = {"why": str(error)}
            found["python"] = cell_snippet(opened, state.read, state.written, tuple(cell.values()))
    except ValueError:  # the checkpoint is gone by now
        return {}
    return {"board": boards.to_json({"id": state.id, "cell": cell | found})}


def open_model(session: Session, values: dict[str, object]) -> dict:
    try:
        chosen = session.catalog.take(session, (values["other"] or "").strip())
    except (ValueError, OSError) as error:
        return {"other_error": notices.field_error(str(error))}
    return {
        "checkpoint": gr.update(choices=session.catalog.choices(session), value=chosen),
        "other_error": "",
    }


def write_on(session: Session, values: dict[str, object]) -> dict:
    """Let a language model write: behind the text, or as the target; what cannot be read is told by Show."""
    text, chosen = (values["text"] or "").strip(), values["checkpoint"]
    try:
        with session.catalog.open(session, chosen) as opened:
            read = opened.encode(text)
            most = min(WRITTEN_ON, opened.most_own(len(read)))
            ids = list(generate_answer(opened.model, as_ids(opened, read), max_new_tokens=most).ids)
            written = opened.read_text(ids)
            gap = opened.task.gap if opened.task else ""
    except ValueError:
        return {}
    return {"target": written} if opened.takes_target else {"text": f"{text}{gap}{written}"}


def choose_fields(session: Session, values: dict[str, object]) -> dict:
    """Target and look-for for another checkpoint; a classifier has no target."""
    opened = session.catalog.glance(session, values["checkpoint"])
    look_for = LOOK_FOR_CLASS if opened and not opened.model.can_generate() else LOOK_FOR
    if opened and opened.predicts:
        look_for = LOOK_FOR_MASKED if opened.predicts == MASKED else LOOK_FOR_TEXT
    shown, predicts = opened is None or opened.takes_target, opened.predicts if opened else ""
    hint = "its first token alone" if predicts else HINT
    return {
        "target": gr.update(value="", visible=shown, placeholder=hint),
        "look_for": notices.look_for(look_for),
        "write_on": gr.update(visible=predicts in (NEXT, WRITTEN)),
    }


def keep_pick(session: Session, event: PickEvent) -> None:
    """The next input shows the same."""
    names = ("kind", "layer", "head", "query", "key")
    session.state(ExploreState).picked = {name: getattr(event, name) for name in names}


def opening(events: InputEvents, find_head: Callable[[Session, dict], ShownHead]):
    """The handlers that open this tab with the head that another tab shows, and take it away."""

    def open_head(session: Session, values: dict[str, object]) -> dict:
        opened, shown = {"tabs": gr.Tabs(selected=TITLE.lower())}, find_head(session, values)
        if not shown["place"]:  # random weights, or a text's: there is no model to take it from
            return opened
        kind, layer = shown["place"].split()
        picked = {"kind": kind, "layer": int(layer), "head": shown["head"], "query": None, "key": None}
        session.state(ExploreState).picked = picked
        chosen = {"checkpoint": shown["weights"], "text": shown["text"], "target": ""}
        return events.restore(session, chosen) | opened

    def take_away(session: Session, values: dict[str, object]) -> Iterator[dict]:
        state = session.state(ExploreState)
        if find_head(session, values)["place"] and state.picked and state.shown is not None:
            picked = {name: state.picked[name] for name in ("kind", "layer", "head")}
            yield from ask_model(session, AblationQuestion("head", **picked))

    return open_head, take_away


def explore_board(elem_id: str) -> gr.HTML:
    """Build the lens: all heads at a glance, one map large, one token's view, entropy, sink and known answer.

    It takes a `LensValue`; its events stand at the top of hf_attn/viz/web/lens/explore_board.js.
    """
    events = ("pick", "fetch", "look_inside", "move_window")
    return boards.build_board("explore_board", "hf-explore", elem_id, *events)


def build(page: Page) -> None:
    row, parts = build_model_input(LOOK_FOR, "explore")
    typed = {"max_lines": 1, "elem_classes": "hf-mono-input", "min_width": 0}
    with row:
        target = gr.Textbox("", label="Target", placeholder=HINT, elem_id="explore-target", **typed)
        target_error = notices.build_error_line("explore-target-error")
        press = gr.Button("Show", variant="primary", elem_id="explore-show", min_width=0)
    with gr.Row(elem_classes="hf-other"):
        label = "Or a folder or a Hub id" if limits_here().takes_paths else "Or a Hub id"
        hint = "google-bert/bert-base-uncased"
        other = gr.Textbox("", label=label, placeholder=hint, elem_id="explore-other", **typed)
        open_press = gr.Button("Open", elem_id="explore-open", min_width=0)
        write_press = gr.Button(
            "Let it write on", elem_id="explore-write-on", elem_classes="hf-aside", visible=False, min_width=0
        )
        other_error = notices.build_error_line("explore-other-error")
    board = explore_board("explore-board")
    shown = {
        "board": board,
        "target_error": target_error,
        "checks": build_part(page),
        "write_on": write_press,
    }
    handlers = show_input, choose_fields
    others = (other, open_press, write_press)
    events = InputEvents(page, ExploreState, *handlers, parts, {"target": target}, shown, WAITING, others)
    events.wire_input()
    clear_on_edit(target, target_error)
    for asked_by in (press.click, target.submit):
        events.wire(asked_by)
    asked, fields = (
        {name: parts[name] for name in ("checkpoint", "text")},
        {"text": parts["text"], "target": target},
    )
    events.wire(page.connect(write_press.click, write_on, asked, fields, **LAST).then)
    opens, chosen = [open_press.click, other.submit], {"checkpoint": parts["checkpoint"]}
    changed = chosen | {"other_error": other_error}
    events.wire(page.connect(opens, open_model, {"other": other}, changed, **LAST).success, if_new=True)
    lens = {"board": board}
    for event, read, find_head in page.ways_to_explore:
        open_head, take_away = opening(events, find_head)
        opened = page.connect(event, open_head, read, events.shows | {"tabs": page.tab.parent}, **LAST)
        page.connect(opened.success, take_away, read, {"checks": shown["checks"]}, js=TO_CHECKS, **LAST)
    page.connect(board.pick, keep_pick, **EACH_NOW)
    page.connect(board.fetch, send_head, None, lens, **EACH_NOW)
    page.connect(board.look_inside, unfold_cell, None, lens, **LIGHT, trigger_mode="multiple")
    page.connect(board.move_window, move_window, None, lens, **LAST)
