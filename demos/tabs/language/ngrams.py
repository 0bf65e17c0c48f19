"""Language, n-grams: what follows by counting one, two or three words, and what such tables cost.

The board takes a `NgramsValue` of `ui.board_values`.
"""

import dataclasses
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field

import gradio as gr

from hf_attn.experiments.words.ngram_text import (
    NAMES,
    WINDOW,
    Passages,
    Table,
    attention_size,
    count_ngrams,
    next_tokens,
    predict_next_words,
    read_docstring_passages,
    read_passages,
    sizes_by_context,
)
from hf_attn.tasks.base import HELD_OUT, TEXT, TRAINING
from hf_attn.tasks.batch import SPECIAL_TOKENS

from ...core.limits import refuse_longer
from ...jobs.training_job import TrainingJob
from ...session.page import LAST, LIGHT, NOW, Page, state_of, with_value
from ...session.session import Session
from ...snippets.views import ngrams_snippet
from ...ui import boards, formatting, notices

NAME, TITLE = "ngrams", "n-grams"
LOOK_FOR = (
    "the column “filled”: each word more that is read makes the table larger by the vocabulary, and emptier."
)
OWN, DOCSTRINGS = "own text", "docstrings"
FIRST = """The bank by the river is green. The boat waits by the river. The bank in the city is closed.
The river runs through the city. A boat runs down the river. The city by the river is old.
The old bank is in the city. A green boat waits in the city. The boat by the bank is old.
The river by the city is green. The old boat runs down the river. The bank waits in the city.
A boat waits by the green bank. The city is by the river. The river runs by the old bank."""
PROMPTS = {OWN: "the boat waits by the", DOCSTRINGS: "return the number of"}
LONGEST = 20_000  # characters
LONGEST_PROMPT = 200
ORIGIN = ("n-gram tables, Kneser–Ney", "counted from this text", "CPU")
READY = "Held out are every fifth sentence of your own text, or whole modules of the docstrings."


@dataclass(eq=False)
class CountingJob:
    """What a visitor has counted, and the call that reads it; nothing before the first."""

    reading: str = ""
    passages: Passages | None = None
    tables: list[Table] = field(default_factory=list)
    wants_stop: bool = False


@functools.lru_cache(maxsize=1)
def shared_docstrings() -> Passages:
    """The docstrings, read once for all visitors; nobody changes them."""
    return read_docstring_passages()


def read(source: str, text: str | None) -> Passages:
    """The chosen text; ValueError where it is too short or too long."""
    if source == DOCSTRINGS:
        return shared_docstrings()
    refuse_longer("text", text, LONGEST)
    return read_passages(text or "")


def newest_model(session: Session) -> TrainingJob | None:
    """The newest run of this session that is a language model and has learned something."""
    runs = (run for run in reversed(session.runs.values()) if run.task.kind == TEXT)
    return next((run for run in runs if run.model is not None and run.step), None)


def ask_model(session: Session, prompt: str) -> dict | None:
    """Next-token probabilities of the visitor's own language model; None where there is none."""
    run = newest_model(session)
    if run is None:
        return None
    try:
        ids = run.task.encode(prompt)
    except ValueError:  # it does not know a character, or reads fewer tokens
        return None
    with run.looking() as model:
        found = next_tokens(model, ids)
    tokens = formatting.label_tokens([run.task.tokens[place] for place, _ in found])
    words = [[token, chance, None] for token, (_, chance) in zip(tokens, found, strict=True)]
    context = [run.task.read_source(ids)]
    return {
        "name": f"attention ({run.name}, step {run.step})",
        "context": context,
        "seen": None,
        "words": words,
    }


def model_stays(session: Session) -> str:
    """That a link does not carry the visitor's own language model."""
    run = newest_model(session)
    return f"What {run.name} says stays here: a link carries what is counted." if run else ""


def to_value(session: Session, counting: CountingJob, prompt: str) -> str:
    passages, size = counting.passages, len(counting.passages.words)
    tables = [
        {name: getattr(table, name) for name in ("context", "perplexity", "discount", "cells", "met")}
        | {"name": NAMES[table.context]}
        for table in counting.tables
    ]
    following = [
        dataclasses.asdict(predict_next_words(passages, table, prompt)) | {"name": NAMES[table.context]}
        for table in counting.tables
    ]
    counts = {"training": passages.count(TRAINING), "held_out": passages.count(HELD_OUT)}
    growth = {"cells": sizes_by_context(size), "attention": attention_size(size), "window": WINDOW}
    return boards.to_json(
        {
            "prompt": prompt,
            "counts": counts | {"vocabulary": size - len(SPECIAL_TOKENS)},
            "tables": tables,
            "following": following,
            "model": ask_model(session, prompt),
            "growth": growth,
            "python": ngrams_snippet(counting.reading, prompt),
        }
    )


def check_prompt(prompt: str | None) -> str:
    """The beginning, without spaces around it; ValueError where it is too long."""
    refuse_longer("text so far", prompt, LONGEST_PROMPT)
    return (prompt or "").strip()


def screen(board=None, text_error="", prompt_error="", note=None, is_running=False) -> list:
    """[board, text's error, beginning's error, note, count, stop]; None leaves the board as it is."""
    return [
        gr.skip() if board is None else board,
        notices.field_error(text_error),
        notices.field_error(prompt_error),
        notices.note(note or READY),
        gr.update(interactive=not is_running),
        gr.update(interactive=is_running),
    ]


def count(
    session: Session, counting: CountingJob, source: str, text: str | None, prompt: str | None
) -> Iterator[list]:
    """Count a text table by table; a refused text leaves the last tables in place."""
    counting.wants_stop = False
    try:
        start = check_prompt(prompt)
    except ValueError as error:
        yield screen(prompt_error=str(error))
        return
    yield screen(note="Reading…", is_running=True)
    try:
        passages = read(source, text)
    except ValueError as error:
        yield screen(text_error=str(error))
        return
    tables = []
    for table in count_ngrams(passages):
        tables.append(table)
        if counting.wants_stop:
            break
        yield screen(note=f"Counted the {NAMES[table.context]}s…", is_running=True)
    counting.reading = "read_docstring_passages()" if source == DOCSTRINGS else f"read_passages({text!r})"
    counting.passages, counting.tables = passages, tables
    note = "Stopped; what was counted is shown." if counting.wants_stop else READY
    yield screen(to_value(session, counting, start), note=note)


def begin(session: Session, counting: CountingJob, *chosen) -> Iterator[list]:
    """The tab was opened: count the text that stands there, once."""
    if counting.passages is not None:
        yield [gr.skip()] * 6
        return
    yield from count(session, counting, *chosen)


def continue_text(session: Session, counting: CountingJob, prompt: str | None) -> list:
    """Another beginning: [board, its error]."""
    try:
        start = check_prompt(prompt)
    except ValueError as error:
        return [gr.skip(), notices.field_error(str(error))]
    if counting.passages is None:
        return [gr.skip(), notices.field_error("Nothing is counted yet: press Count first.")]
    return [to_value(session, counting, start), ""]


def stop(counting: CountingJob) -> None:
    counting.wants_stop = True


def choose_source(source: str) -> list[dict]:
    """[text, beginning] for another source."""
    return [gr.update(visible=source == OWN), gr.update(value=PROMPTS[source])]


def build_part(page: Page) -> None:
    notices.build_lead(LOOK_FOR, notices.origin(*ORIGIN))
    with gr.Row(elem_classes="hf-work"):
        with gr.Column(elem_classes=["hf-panel", "hf-side"], min_width=0):
            press = gr.Button("Count", variant="primary", elem_id="ngrams-count")
            halt = gr.Button("Stop", variant="stop", size="md", interactive=False, elem_id="ngrams-stop")
            note = gr.HTML(notices.note(READY), elem_id="ngrams-note")
            source = gr.Radio(
                [OWN, DOCSTRINGS], value=OWN, label="Text", elem_classes="seg", elem_id="ngrams-source"
            )
            text = gr.Textbox(FIRST, label="Your own text", lines=8, max_lines=8, elem_id="ngrams-text")
            text_error = notices.build_error_line("ngrams-text-error")
            prompt = gr.Textbox(
                PROMPTS[OWN],
                label="The text so far",
                max_lines=1,
                elem_id="ngrams-prompt",
                elem_classes="hf-mono-input",
            )
            prompt_error = notices.build_error_line("ngrams-prompt-error")
        with gr.Column(min_width=0, elem_classes="hf-result"):
            board = boards.build_board("ngrams_board", "hf-language", "ngrams-board")
    counting = state_of(CountingJob(), stop)
    inputs = [page.session, counting, source, text, prompt]
    shown = [board, text_error, prompt_error, note, press, halt]

    def open_link(values):
        shown, _ = choose_source(values["source"])
        set_by_link = {source: with_value(values["source"]), prompt: with_value(values["prompt"])}
        return {text: with_value(values["counted"], shown), **set_by_link}

    page.link_fields(
        {"source": source, "counted": text, "prompt": prompt}, restore=open_link, stays=model_stays
    )
    page.tab.select(begin, inputs, shown, **LIGHT)
    press.click(count, inputs, shown, **LIGHT)
    prompt.submit(continue_text, [page.session, counting, prompt], [board, prompt_error], **LAST)
    halt.click(stop, counting, None, **NOW)
    source.input(choose_source, source, [text, prompt], **NOW)
