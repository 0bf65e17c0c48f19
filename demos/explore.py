"""Explore: every head of a checkpoint, for an input of your own, and what the answer is without it."""

import gradio as gr

from demos import shared
from demos.asking import LIGHT, as_ids, build_question, known_alignment, wire_question
from demos.checking import build_part
from demos.checkpoints import Opened, Shelf
from demos.measuring import Checks
from demos.page import Page
from demos.probing import causal
from demos.visits import Visit
from hf_attn.decoding import write
from hf_attn.inspection import AttentionMaps, attention_maps, estimate_map_bytes, is_recurrent
from hf_attn.tasks.base import CLASSES, TEXT

TITLE = "Explore"
LOOK_FOR = (
    "a head whose rings hold weight: it reads what each symbol needs; take it away, and see what is left."
)
LOOK_FOR_CLASS = (
    "a column that many rows read: a word, or the end, in which the encoder gathers what it needs."
)
LONGEST_TITLE = 120  # characters
MAP_LIMIT = 48 * 2**20  # bytes of weights that are sent to a page


def refuse_large(config, source_length: int, target_length: int) -> None:
    """Refuse maps that are too large to be drawn, before they are computed.

    Raises:
        ValueError: how much it would be, and what would do.
    """
    needed = estimate_map_bytes(config, source_length, target_length)
    if needed > MAP_LIMIT:
        raise ValueError(
            f"{shared.count(source_length)} tokens would need {shared.count(round(needed / 2**20))} MB "
            f"of maps; this page draws up to {MAP_LIMIT // 2**20} MB. Shorten the input."
        )


def read_target(opened: Opened, source: list[int], text: str) -> list[int]:
    """Ids of the given target, or of what the model writes itself.

    Raises:
        ValueError: a symbol that the task does not have, or too many.
    """
    most = opened.most_written(len(source))
    if not text:
        refuse_large(opened.model.config, len(source), most)
        return list(write(opened.model, as_ids(opened, source), max_new_tokens=most).ids)
    if opened.task is None:
        raise ValueError("This checkpoint names no task, so only what it writes itself can be shown.")
    symbols = opened.task.split_target(text)
    unknown = [symbol for symbol in symbols if symbol not in opened.task.vocabulary]
    if unknown:
        example = opened.task.worked_example.target
        raise ValueError(f"{unknown[0]!r} is no symbol of {opened.task.name}: write for example {example!r}.")
    if len(symbols) >= most:
        raise ValueError(
            f"The target has {shared.count(len(symbols))} symbols; this model writes "
            f"{shared.count(most - 1)} at most."
        )
    end = [] if opened.kind == TEXT else [opened.model.config.eos_token_id]
    return [*opened.task.ids(*symbols), *end]


def show_maps(opened: Opened, source: str, read: list[int], written: list[int], maps: AttentionMaps) -> dict:
    """The kinds of maps as the board takes them."""
    kinds = {}
    answering, known = maps.answering, known_alignment(opened, source, written)
    truth = answering.align(known) if answering is not None else None
    if maps.cross is not None:
        kinds["cross"] = {"rows": written, "cols": read, "truth": truth}
    if maps.encoder is not None:
        kinds["encoder"] = {"rows": read, "cols": read}
    if maps.decoder is not None:
        rows, cols = maps.target_tokens, maps.decoder_tokens
        kinds["decoder"] = {"rows": rows, "cols": cols, "allowed": causal(len(rows), len(cols))}
        if truth is not None and answering.kind == "decoder":
            kinds["decoder"]["truth"] = [[0] * len(cols)] * maps.written_from + truth
    for name, kind in kinds.items():
        weights = getattr(maps, name)
        kind |= {side: opened.labels(kind[side]) for side in ("rows", "cols")}
        kind |= {"maps": shared.encode_maps(weights), "shape": list(weights.shape)}
    if "cross" in kinds and is_recurrent(opened.model.config):
        kinds["cross"]["title"] = "alignment, written symbols read the input"
    return kinds


def look(opened: Opened, text: str, target: str) -> tuple[list[int], list[int], AttentionMaps]:
    """Ids of an input, ids of what is written, and the maps of both.

    Raises:
        ValueError: input or target cannot be read, or the maps would be too large.
    """
    read = opened.encode(text)
    refuse_large(opened.model.config, len(read), 0)
    written = read_target(opened, read, target) if opened.model.can_generate() else []
    refuse_large(opened.model.config, len(read), len(written))
    given = as_ids(opened, written) if written else None
    return read, written, attention_maps(opened.model, as_ids(opened, read), given, max_bytes=MAP_LIMIT)


def show(opened: Opened, text: str, read, written, maps: AttentionMaps, kept: dict | None) -> dict:
    """Everything that the board shows of an input."""
    value = {"kinds": show_maps(opened, text, read, written, maps), **(kept or {})}
    if maps.answering is not None and not kept:
        kind = maps.answering.kind
        value |= {"kind": kind, "layer": len(maps.answering.weights) - 1}
        if truth := value["kinds"][kind].get("truth"):
            query = next((place for place, row in enumerate(truth) if any(row)), 0)
            value |= {"query": query, "key": int(getattr(maps, kind)[-1, 0, query].argmax())}
    value["title"] = text
    if written:
        answer = opened.task.decode(written) if opened.task else " ".join(opened.labels(written))
        value["title"] = f"{text} → {answer}"
    value["title"] = shared.shorten(value["title"], LONGEST_TITLE)
    value["untrained"] = opened.is_untrained
    return value


def ask(
    shelf: Shelf,
    visit: Visit,
    chosen: str | None,
    text: str,
    target: str,
    kept: dict | None,
    checks: Checks | None = None,
) -> list:
    """Compute every map for an input: [board, error, origin]. Wrong input leaves the board as it is.

    Args:
        shelf: checkpoints that everybody may open.
        visit: the visitor's own runs.
        chosen: which of them.
        text: the input.
        target: what is to be written; empty for what the model writes itself.
        kept: kind, layer, head and cell that the visitor picked last.
        checks: told of what is shown, so that questions are about it.
    """
    checks, text, target = checks or Checks(), (text or "").strip(), (target or "").strip()
    if chosen is None:
        checks.clear()
        return [None, "", shared.origin("none yet", "none", "none")]
    try:
        with shelf.open(visit, chosen) as opened:
            read, written, maps = look(opened, text, target)
            value = show(opened, text, read, written, maps, kept)
            known = known_alignment(opened, text, written)
            checks.begin(opened, chosen, text, read, written, maps, known, is_own=not target)
            value["turn"] = checks.turn
            return [shared.to_json(value), "", shared.origin_of(opened.model, opened.weights)]
    except ValueError as error:
        return [gr.skip(), shared.field_error(str(error)), gr.skip()]


def choose(shelf: Shelf, visit: Visit, chosen: str | None) -> list:
    """Another checkpoint: [target, look-for]; a classifier writes no target."""
    kind = shelf.kind(visit, chosen)
    look_for = shared.look_for(LOOK_FOR_CLASS if kind == CLASSES else LOOK_FOR)
    return [gr.update(value="", visible=kind != CLASSES), look_for]


def keep_pick(event: gr.EventData) -> dict:
    """Remember what was picked, so that the next input shows the same head."""
    return {name: getattr(event, name) for name in ("kind", "layer", "head", "query", "key")}


def build(page: Page) -> None:
    """Lay the tab out and connect it."""
    question, origin = build_question(LOOK_FOR, "explore")
    with question.row:
        target = gr.Textbox(
            "",
            label="Target",
            max_lines=1,
            placeholder="what the model writes itself",
            elem_id="explore-target",
            elem_classes="hf-mono-input",
            min_width=0,
        )
        show = gr.Button("Show", variant="primary", elem_id="explore-show", min_width=0)
    board = shared.explore_board("explore-board")
    kept, checks = gr.State(None), gr.State(Checks(), time_to_live=12 * 3600, delete_callback=Checks.clear)
    checked = build_part(page, checks)
    shelf = page.shelf

    def answer(*asked):
        return [*ask(shelf, *asked), asked[-1].to_value()]

    def turn(*chosen):
        return choose(shelf, *chosen)

    asked = [page.visit, question.chosen, question.text, target, kept, checks]
    answered = [board, question.error, origin, checked]
    wire_question(page, question, answer, asked, answered)
    show.click(answer, asked, answered, **LIGHT)
    target.submit(answer, asked, answered, **LIGHT)
    chosen = [page.visit, question.chosen]
    question.chosen.change(turn, chosen, [target, question.look_for], **LIGHT, queue=False)
    board.pick(keep_pick, None, kept, **LIGHT, queue=False, trigger_mode="multiple")
