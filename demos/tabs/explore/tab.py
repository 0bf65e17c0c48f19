"""Explore: every head of a checkpoint, for an input of your own, and what the answer is without it."""

from collections.abc import Callable

import gradio as gr

from hf_attn.analysis.predictions import MASKED, NEXT, WRITTEN
from hf_attn.generation.generate import generate_answer

from ...core.events import Event, Kind, NewestEvent, Place
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
from ...session.model_input import InputEvents, as_ids, build_checkpoint, build_chips, build_text
from ...session.page import EACH, EACH_NOW, LAST, LIGHT, Page, ShownHead, clear_on_edit
from ...session.session import Session
from ...snippets.views import cell_snippet, maps_snippet
from ...ui import boards, formatting, notices
from .ablation_panel import build_part
from .count_job import note_effects, show_checks
from .head_counts import Place as HeadPlace
from .head_counts import choose_head
from .head_scores import ExploreState, prepare
from .story import NO_MODEL, read_input

TITLE = "Explore"
ASSETS = (
    "ablation.css",
    "predictions.css",
    "ablation_panels.js",
    "predictions.js",
    "layers.js",
    "input_row.js",
    "ablation_board.js",
)
HINT = "what the model writes itself"
WRITTEN_ON = 20  # tokens
TO_TOP = "(...given) => (scrollTo(0, 0), given)"
FORCE = "() => hfAttn.forceAnswer()"
LONGEST_NAME = 26  # characters of a model on the closed menu
WAITING = "on => hfAttn.lens.wait(on)"


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


class WindowEvent(NewestEvent):
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
        return show_checks(session) | {
            "board": None,
            "error": "",
            "target_error": "",
            "origin": notices.NOTHING,
        }
    try:
        with session.catalog.open(session, chosen) as opened:
            text, target = opened.join(text, target)
            computed = compute_maps(opened, text, target)
            new = prepare(opened, text, computed, target)
            new.shown["reading"] = read_input(opened, text, computed)
            if new.counts is not None:
                note_effects(opened, new)
            picked = state.picked if state.picked_in == chosen else None
            first = new.named or choose_head(opened, new.counts, computed.answering)
            value = lens_value(opened, text, computed, picked, first)
            new.opened_on = {name: value.get(name) for name in ("kind", "layer", "head", "query", "key")}
            if not state.is_newest(values):  # asked again meanwhile: the panels speak about that
                return {}
            state.begin(new)
            lines = {"error": "", "target_error": "", "origin": opened.origin}
            return show_checks(session) | {"board": boards.to_json(value | {"id": state.id}), **lines}
    except TargetError as error:
        return {"error": "", "target_error": notices.field_error(str(error))}
    except ValueError as error:
        return {"error": notices.field_error(str(error)), "target_error": ""}


def lens_value(
    opened: LoadedModel,
    text: str,
    computed: ComputedMaps,
    picked: dict | None,
    first: HeadPlace | None = None,
) -> dict:
    """The board's value, with the Python lines for the head that is shown first; the lens replaces them.

    Where nothing was picked, that is the `first` head, else the one of `board_value`, with its strongest
    cell; of a text, the head that reads most of what decides a word.
    """
    value = board_value(opened, text, computed, picked)
    is_text = opened.predicts in (NEXT, MASKED)
    is_decided = is_text and value.get("key") is not None
    if value["kinds"] and not picked and not is_decided:
        value |= choose_cell(computed, value, first, row=value["query"] if is_text else None)
    layer, head = (value.get(name) or 0 for name in ("layer", "head"))
    return value | {"python": maps_snippet(opened, computed, layer, head, value.get("kind"))}


def choose_cell(computed: ComputedMaps, value: dict, place: HeadPlace | None, row: int | None) -> dict:
    """A head, or the value's own where None, and its strongest cell: in a row, or in the whole map."""
    kind, layer, head = place or (value["kind"], value["layer"], value.get("head") or 0)
    maps = computed.long[kind] if computed.long else getattr(computed.maps, kind)
    weights = maps.head(layer, head) if computed.long else maps[layer, head]
    chosen = {"kind": kind, "layer": layer, "head": head}
    if row is not None:
        row = min(row, len(weights) - 1)
        return chosen | {"query": row, "key": int(weights[row].argmax())}
    first = int(kind == "decoder" and len(weights) > 1)  # the first token has but itself to read
    row, column = divmod(int(weights[first:].argmax()), weights.shape[1])
    return chosen | {"query": row + first, "key": column}


def move_window(session: Session, event: WindowEvent) -> dict:
    state = session.state(ExploreState)
    if state.chosen is None or not state.long or not session.is_newest(event):
        return {}
    try:
        with session.catalog.open(session, state.chosen) as opened:
            computed = compute_window(opened, state.read, state.written, (event.row, event.column))
            value = lens_value(opened, state.text, computed, state.picked or state.opened_on)
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
    """Target and menu for another checkpoint; a classifier has no target.

    The menu closes on a choice, but not on the tab's first answer, before which it may have been opened.
    """
    closes = {} if session.state(ExploreState).answered is None else {"open": False}
    opened = session.catalog.glance(session, values["checkpoint"])
    shown, predicts = opened is None or opened.takes_target, opened.predicts if opened else ""
    hint = "its first token alone" if predicts else HINT
    return {
        "target": gr.update(value="", visible=shown, placeholder=hint),
        "write_on": gr.update(visible=predicts in (NEXT, WRITTEN)),
        "force": gr.update(visible=shown),
        "menu": gr.update(label=f"Model: {name_choice(session, values['checkpoint'])}", **closes),
    }


def name_choice(session: Session, chosen: str | None) -> str:
    """A checkpoint as the closed menu names it."""
    label = next((label for label, value in session.catalog.choices(session) if value == chosen), "none yet")
    return formatting.shorten(label.removesuffix(" (bundled)"), LONGEST_NAME)


def keep_pick(session: Session, event: PickEvent) -> None:
    """The next input shows the same."""
    names = ("kind", "layer", "head", "query", "key")
    state = session.state(ExploreState)
    state.picked, state.picked_in = {name: getattr(event, name) for name in names}, state.chosen


def opening(events: InputEvents, find_head: Callable[[Session, dict], ShownHead]):
    """The handler that opens this tab with the head that another tab shows, already removed."""

    def open_head(session: Session, values: dict[str, object]) -> dict:
        opened, shown = {"tabs": gr.Tabs(selected=TITLE.lower())}, find_head(session, values)
        if not shown["place"]:  # random weights, or a text's: there is no model to take it from
            return opened
        kind, layer = shown["place"].split()
        picked = {"kind": kind, "layer": int(layer), "head": shown["head"], "query": None, "key": None}
        state = session.state(ExploreState)
        state.picked, state.picked_in = picked, shown["weights"]
        state.removes = "layer" if shown["head"] is None else "head"
        chosen = {"checkpoint": shown["weights"], "text": shown["text"], "target": ""}
        return events.restore(session, chosen) | opened

    return open_head


def explore_board(elem_id: str) -> gr.HTML:
    """Build the lens: all heads at a glance, one map large, one token's view, entropy, sink and known answer.

    It takes a `LensValue`; its events stand at the top of hf_attn/viz/web/lens/explore_board.js.
    """
    events = ("pick", "fetch", "look_inside", "move_window")
    return boards.build_board("explore_board", "hf-explore", elem_id, *events)


def build_menu() -> dict:
    """Lay out the one menu of models: bundled ones, runs, and a field for any other."""
    menu: dict = {}
    with (
        gr.Column(min_width=0, elem_classes="hf-menu-place"),
        gr.Accordion("Model", open=False, elem_id="explore-model", elem_classes="hf-menu") as menu["menu"],
    ):
        menu["checkpoint"] = build_checkpoint("explore")
        with gr.Row(elem_classes="hf-other"):
            label = "A folder, or an id on the Hub" if limits_here().takes_paths else "An id on the Hub"
            typed = {"placeholder": "google-bert/bert-base-uncased", "max_lines": 1, "min_width": 0}
            look = {"elem_id": "explore-other", "elem_classes": "hf-mono-input"}
            menu["other"] = gr.Textbox("", label=label, **typed, **look)
            menu["open"] = gr.Button("Open", elem_id="explore-open", min_width=0)
            menu["other_error"] = notices.build_error_line("explore-other-error")
    return menu


def build_row() -> dict:
    """Lay out model, input and the answer that may be forced, and under them examples."""
    with gr.Row(elem_classes="hf-explore-row"):
        parts = build_menu() | build_text("explore", show_label=False, container=False)
        parts["show"] = gr.Button("Show", elem_id="explore-show", min_width=0)
        with gr.Row(elem_classes="hf-quiet-row"):
            quiet = {"elem_classes": "hf-quiet", "min_width": 0}
            parts["force"] = gr.Button("Force an answer …", elem_id="explore-force", **quiet)
            parts["write_on"] = gr.Button(
                "Let it write on", elem_id="explore-write-on", visible=False, **quiet
            )
        typed = {"placeholder": HINT, "max_lines": 1, "elem_classes": "hf-mono-input", "min_width": 0}
        parts["target"] = gr.Textbox("", label="Forced answer", elem_id="explore-target", **typed)
        parts["target_error"] = notices.build_error_line("explore-target-error")
    return parts | build_chips()


def build(page: Page) -> None:
    with gr.Row(elem_classes="hf-tell hf-alone"):
        headline = gr.HTML(notices.headline(NO_MODEL), elem_id="explore-headline")
    parts = build_row()
    board = explore_board("explore-board")
    checks = build_part(page, headline)
    parts["origin"] = gr.HTML(notices.NOTHING, elem_id="explore-origin")
    target, more = parts.pop("target"), {"board": board, "checks": checks, "headline": headline}
    others = tuple(parts[name] for name in ("other", "open", "write_on", "force"))
    own = {name: parts.pop(name) for name in ("menu", "other", "open", "other_error", "show")}
    more["menu"] = own["menu"]
    handlers = show_input, choose_fields
    events = InputEvents(page, ExploreState, *handlers, parts, {"target": target}, more, WAITING, others)
    events.wire_input()
    clear_on_edit(target, parts["target_error"])
    for asked_by in (own["show"].click, target.submit):
        events.wire(asked_by)
    parts["force"].click(None, js=FORCE, **LIGHT)
    asked = {name: parts[name] for name in ("checkpoint", "text")}
    written = page.connect(
        parts["write_on"].click, write_on, asked, {"text": parts["text"], "target": target}, **LAST
    )
    events.wire(written.then)
    changed = {"checkpoint": parts["checkpoint"], "other_error": own["other_error"]}
    opens = [own["open"].click, own["other"].submit]
    taken = page.connect(opens, open_model, {"other": own["other"]}, changed, **LAST)
    events.wire(taken.success, if_new=True)
    for event, read, find_head in page.ways_to_explore:
        shows = events.shows | {"tabs": page.tab.parent}
        page.connect(event, opening(events, find_head), read, shows, js=TO_TOP, **LAST)
    lens = {"board": board}
    page.connect(board.pick, keep_pick, **EACH_NOW)
    page.connect(board.fetch, send_head, None, lens, **EACH_NOW)
    page.connect(board.look_inside, unfold_cell, None, lens, **LIGHT, trigger_mode="multiple")
    page.connect(board.move_window, move_window, None, lens, **EACH)
