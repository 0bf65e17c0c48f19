"""Explore: every head of a checkpoint, for an input of your own."""

import gradio as gr

from demos import shared
from demos.asking import LIGHT, as_ids, build_question, known_answer, wire_question
from demos.checkpoints import Opened, Shelf
from demos.page import Page
from demos.visits import Visit
from hf_attn.decoding import write
from hf_attn.inspection import AttentionMaps, attention_maps, estimate_map_bytes

TITLE = "Explore"
LOOK_FOR = "a head of the cross-attention whose rings hold weight: it reads what each written symbol needs."
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
    config = opened.model.config
    if not text:
        refuse_large(config, len(source), config.max_position_embeddings)
        return list(write(opened.model, as_ids(opened, source)).ids)
    if opened.task is None:
        raise ValueError("This checkpoint names no task, so only what it writes itself can be shown.")
    symbols = opened.task.split_target(text)
    unknown = [symbol for symbol in symbols if symbol not in opened.task.symbols]
    if unknown:
        example = opened.task.worked_example.target
        raise ValueError(f"{unknown[0]!r} is no symbol of {opened.task.name}: write for example {example!r}.")
    if len(symbols) >= config.max_position_embeddings:
        most = shared.count(config.max_position_embeddings - 1)
        raise ValueError(
            f"The target has {shared.count(len(symbols))} symbols; this model writes {most} at most."
        )
    return [*opened.task.ids(*symbols), config.eos_token_id]


def show_maps(opened: Opened, source: str, read: list[int], written: list[int], maps: AttentionMaps) -> dict:
    """The kinds of maps as the board takes them."""
    cols, rows = opened.labels(read), opened.labels(written)
    before = ["start", *rows[:-1]]
    kinds = {}
    if maps.cross is not None:
        kinds["cross"] = {"rows": rows, "cols": cols, "truth": known_answer(opened, source, written)}
    if maps.encoder is not None:
        kinds["encoder"] = {"rows": cols, "cols": cols}
    if maps.decoder is not None:
        causal = [[key <= query for key in range(len(before))] for query in range(len(rows))]
        kinds["decoder"] = {"rows": rows, "cols": before, "allowed": causal}
    for name, kind in kinds.items():
        weights = getattr(maps, name)
        kind |= {"maps": shared.encode_maps(weights), "shape": list(weights.shape)}
    return kinds


def ask(shelf: Shelf, visit: Visit, chosen: str | None, text: str, target: str, kept: dict | None) -> list:
    """Compute every map for an input: [board, error, origin]. Wrong input leaves the board as it is.

    Args:
        shelf: checkpoints that everybody may open.
        visit: the visitor's own runs.
        chosen: which of them.
        text: the input.
        target: what is to be written; empty for what the model writes itself.
        kept: kind, layer, head and cell that the visitor picked last.
    """
    if chosen is None:
        return [None, "", shared.origin("none yet", "none", "none")]
    try:
        with shelf.open(visit, chosen) as opened:
            text, target = (text or "").strip(), (target or "").strip()
            read = opened.encode(text)
            refuse_large(opened.model.config, len(read), 0)
            written = []
            if opened.model.config.is_encoder_decoder:
                written = read_target(opened, read, target)
                refuse_large(opened.model.config, len(read), len(written))
            given = as_ids(opened, written) if written else None
            maps = attention_maps(opened.model, as_ids(opened, read), target=given, max_bytes=MAP_LIMIT)
            value = {
                "kinds": show_maps(opened, text, read, written, maps),
                **(kept or {"kind": "cross"}),
            }
            if not kept:
                if truth := value["kinds"].get("cross", {}).get("truth"):
                    value |= {"query": 0, "key": truth[0].index(max(truth[0]))}
                value["layer"] = max(0, len(maps.cross if maps.cross is not None else maps.encoder) - 1)
            value["title"] = f"{text} → {' '.join(opened.labels(written)[:-1])}" if written else text
            value["untrained"] = opened.is_untrained
            return [shared.to_json(value), "", shared.origin_of(opened.model, opened.weights)]
    except ValueError as error:
        return [gr.skip(), shared.field_error(str(error)), gr.skip()]


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
    kept = gr.State(None)
    shelf = page.shelf

    def answer(*asked):
        return ask(shelf, *asked)

    asked = [page.visit, question.chosen, question.text, target, kept]
    answered = [board, question.error, origin]
    wire_question(page, question, answer, asked, answered)
    show.click(answer, asked, answered, **LIGHT)
    target.submit(answer, asked, answered, **LIGHT)
    question.chosen.change(lambda: "", None, target, **LIGHT, queue=False)
    board.pick(keep_pick, None, kept, **LIGHT, queue=False, trigger_mode="multiple")
