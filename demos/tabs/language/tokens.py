"""Language, Tokens: any text as characters, words, bytes and byte pairs, which are learned from it.

The board takes a `TokensValue` of `ui/board_values.d.ts`.
"""

import gradio as gr
import torch

from hf_attn.experiments.words.bpe_steps import (
    LearningStep,
    Segmentation,
    learn_bpe_merges,
    split_at_words,
    split_bytes,
    split_characters,
)
from hf_attn.experiments.words.word_vectors import look_up
from hf_attn.tasks.tokenizers.trained import SPACE

from ...core.limits import refuse_longer
from ...session.page import LAST, Page, clear_on_edit
from ...session.session import Session
from ...snippets.views import tokens_snippet
from ...ui import boards, notices

NAME, TITLE = "tokens", "Tokens"
BEGIN: list[notices.Part] = ["Write a text and press Cut: byte pair encoding learns its tokens from it."]
FIRST = "Peter Piper picked a peck of pickled peppers"
CHIPS = (
    FIRST,
    "low lower lowest new newer newest wide wider widest",
    "naïve café, 東京, 3 × 4 = 12",
    "banana bandana",
)
LONGEST = 400  # characters
MOST_MERGES = 40
PAIRS = 8  # that are shown at each step
WIDTH = 8  # numbers of an embedding
ORIGIN = ("byte pair encoding", "learned from this text; table untrained", "CPU")


def embed(cut: Segmentation) -> dict:
    """Ids and their rows in an untrained embedding table."""
    table = torch.randn(len(cut.vocabulary), WIDTH, generator=torch.Generator().manual_seed(0))
    ids = sorted(set(cut.ids))
    rows, difference = look_up(torch.tensor(ids), table)
    return {
        "ids": cut.ids,
        "size": len(cut.vocabulary),
        "vocabulary": {place: cut.vocabulary[place].replace(SPACE, " ") for place in ids},
        "rows": {place: row.tolist() for place, row in zip(ids, rows, strict=True)},
        "difference": difference,
    }


def describe_step(step: LearningStep, number: dict[str, int]) -> dict:
    return {
        "merge": step.merge and [piece.replace(SPACE, " ") for piece in step.merge],
        "made": number["".join(step.merge)] if step.merge else -1,
        "count": step.count,
        "ids": [number[piece] for piece in step.pieces],
        "size": len(step.vocabulary),
        "pairs": [[*(piece.replace(SPACE, " ") for piece in pair), n] for pair, n in step.pairs[:PAIRS]],
    }


def cut(text: str) -> dict:
    """The board's value: the text in all four segmentations; ValueError where it is empty or too long."""
    if not text.strip():
        raise ValueError(f"Nothing is written: write up to {LONGEST} characters of any text.")
    refuse_longer("text", text, LONGEST)
    steps = learn_bpe_merges(text, MOST_MERGES)
    last = steps[-1].vocabulary
    pairs = embed(Segmentation(last, last))  # every token of every step has its row
    kinds = {"characters": split_characters(text), "words": split_at_words(text), "bytes": split_bytes(text)}
    number = {token: place for place, token in enumerate(last)}
    return {
        "text": text,
        "kinds": {name: embed(found) for name, found in kinds.items()} | {"bpe": pairs},
        "steps": [describe_step(step, number) for step in steps],
        "python": tokens_snippet(text, MOST_MERGES),
    }


def tell_merges(value: dict) -> list[notices.Part]:
    """The screen's sentence: what all merges do to the text, and the pair that is merged first."""
    first, last = value["steps"][0], value["steps"][-1]
    if len(value["steps"]) == 1:
        return ["No pair occurs twice in this text, so nothing is merged."]
    left, right, times = first["pairs"][0]
    merges, (before, after) = len(value["steps"]) - 1, (str(len(step["ids"])) for step in (first, last))
    told = [("code", left), " and ", ("code", right), f" stand side by side {times} times: merged first. "]
    return [*told, f"{merges} merges shorten the text from ", ("b", before), " tokens to ", ("b", after), "."]


def segment(_: Session, values: dict) -> dict:
    """Segment a text; a refused one leaves the board as it is."""
    try:
        value = cut(values["tokens"] or "")
        return {
            "board": boards.to_json(value),
            "told": notices.headline(tell_merges(value)),
            "error": "",
        }
    except ValueError as error:
        return {"error": notices.field_error(str(error))}


def pick_text(text: str):
    return lambda session: {"tokens": text} | segment(session, {"tokens": text})


def build_part(page: Page) -> None:
    told, _ = notices.build_lead(BEGIN, notices.origin(*ORIGIN))
    with gr.Row(elem_classes="hf-line-of-text"):
        text = gr.Textbox(
            FIRST, label="Text", max_lines=1, elem_id="tokens-text", elem_classes="hf-mono-input", min_width=0
        )
        press = gr.Button("Cut", variant="primary", elem_id="tokens-cut", min_width=0)
    error = notices.build_error_line("tokens-error")
    with gr.Row(elem_classes="hf-chips"):
        chips = [gr.Button(chip, size="sm", elem_classes="chip") for chip in CHIPS]
        gr.HTML(notices.note(f"any text of up to {LONGEST} characters"))
    board = boards.build_board("tokens_board", "hf-language", "tokens-board")
    typed, shown = {"tokens": text}, {"board": board, "told": told, "error": error}
    page.link_fields(typed, buttons=tuple(chips))
    clear_on_edit(text, error)
    page.connect([press.click, text.submit, page.tab.select], segment, typed, shown, **LAST)
    for chip in chips:
        page.connect(chip.click, pick_text(chip.value), None, {**typed, **shown}, **LAST)
