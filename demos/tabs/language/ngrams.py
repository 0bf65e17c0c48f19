"""Language, n-grams: what follows by counting one, two or three words, and what such tables cost.

The board takes a `NgramsValue` of `ui/board_values.d.ts`.
"""

import dataclasses
import functools
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
from hf_attn.tasks.base import TEXT
from hf_attn.tasks.batch import SPECIAL_TOKENS
from hf_attn.tasks.splits import HELD_OUT, TRAINING

from ...core.limits import refuse_longer
from ...jobs.job import FINISHED, RUNNING, STOPPED, ReportedJob
from ...jobs.training_job import TrainingJob
from ...session.page import LAST, NOW, JobView, Page, with_value
from ...session.session import Session
from ...snippets.views import ngrams_snippet
from ...ui import boards, formatting, notices

NAME, TITLE = "ngrams", "n-grams"
BEGIN: list[notices.Part] = ["Press Count: tables of one, two and three words are counted from the text."]
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
READY = "Every fifth sentence of your own text is held out; of the docstrings, whole modules are."


@dataclass(eq=False)
class CountingJob(ReportedJob):
    """What a visitor has counted, table by table; nothing before the first."""

    reading: str = ""  # the call that reads the text
    passages: Passages | None = None
    tables: list[Table] = field(default_factory=list)  # of it, that are there
    fault: str = ""  # why the newest text was refused; the tables of the one before stay

    message_seconds = 0.0
    failure = "Counting failed"

    def prepare(self, form: dict[str, object]) -> None:
        super().prepare(form)
        self.fault = ""

    def begin(self) -> None:
        source, text = self.form["source"], self.form["counted"]
        passages = read(source, text)
        self.passages, self.tables, self.reports = passages, [], count_ngrams(passages)
        self.reading = "read_docstring_passages()" if source == DOCSTRINGS else f"read_passages({text!r})"

    def take(self, report: Table) -> None:
        self.tables = [*self.tables, report]

    def fail(self, error: Exception) -> None:
        super().fail(error)
        self.fault = str(error) if isinstance(error, ValueError) else self.message


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
    run = newest_model(session)
    return f"What {run.name} says stays here: a link carries what is counted." if run else ""


def tell_tables(tables: list[Table]) -> list[notices.Part]:
    """The screen's sentence: how large and how full the smallest and the largest table are."""
    first, last = tables[0], tables[-1]
    sizes = [formatting.count(table.cells) for table in (first, last)]
    shares = [formatting.percent(table.met / table.cells, 1) for table in (first, last)]
    if first is last:
        return [f"The {NAMES[first.context]} table has {sizes[0]} cells, {shares[0]} of them filled."]
    return [
        f"From {NAMES[first.context]} to {NAMES[last.context]} the table grows from {sizes[0]} to {sizes[1]} "
        f"cells, and the filled share falls from {shares[0]} to ",
        ("b", shares[1]),
        ".",
    ]


def to_value(session: Session, prompt: str) -> str:
    counting = session.state(CountingJob)
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


def press_count(session: Session, values: dict) -> dict:
    """Count a text; a refused beginning or text leaves the last tables in place."""
    job = session.state(CountingJob)
    try:
        prompt = check_prompt(values["prompt"])
    except ValueError as error:
        return {"prompt_error": notices.field_error(str(error))}
    if not job.is_busy:
        job.prepare(values | {"prompt": prompt})
    return show_job(session) | {"prompt_error": ""}


def begin(session: Session, values: dict) -> dict:
    """The tab was opened: count the text that stands there, once."""
    return press_count(session, values) if session.state(CountingJob).form is None else {}


def show_job(session: Session) -> dict:
    job = session.state(CountingJob)
    is_running = job.status == RUNNING
    note = READY
    if is_running:
        note = f"Counted the {NAMES[job.tables[-1].context]}s…" if job.taken else "Reading…"
    elif job.status == STOPPED:
        note = "Stopped; what was counted is shown."
    is_new = job.status in (FINISHED, STOPPED) and job.tables
    return {
        "board": to_value(session, job.form["prompt"]) if is_new else gr.skip(),
        "told": notices.headline(tell_tables(job.tables)) if is_new else gr.skip(),
        "text_error": notices.field_error(job.fault),
        "note": notices.note(note),
        "count": gr.update(interactive=not is_running),
        "stop": gr.update(interactive=is_running),
    }


def continue_text(session: Session, values: dict) -> dict:
    """Another beginning."""
    try:
        prompt = check_prompt(values["prompt"])
    except ValueError as error:
        return {"prompt_error": notices.field_error(str(error))}
    if not session.state(CountingJob).tables:
        return {"prompt_error": notices.field_error("Nothing is counted yet: press Count first.")}
    return {"board": to_value(session, prompt), "prompt_error": ""}


def choose_source(_: Session, values: dict) -> dict:
    is_own = values["source"] == OWN
    return {"counted": gr.update(visible=is_own), "prompt": PROMPTS[values["source"]]}


def restore_fields(session: Session, values: dict) -> dict:
    seen = choose_source(session, values)["counted"]
    return values | {"counted": with_value(values["counted"], seen)}


def build_part(page: Page) -> None:
    told, _ = notices.build_lead(BEGIN, notices.origin(*ORIGIN))
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
    fields = {"source": source, "counted": text, "prompt": prompt}
    shown = {"board": board, "text_error": text_error, "prompt_error": prompt_error, "note": note}
    shown |= {"count": press, "stop": halt, "told": told}
    page.link_fields(fields, restore=restore_fields, stays=model_stays)
    view = JobView(kind=CountingJob, show=show_job, shows=shown)
    page.drive(view, press.click, press_count, fields, halt.click, concurrency_id="count")
    opened = page.connect(page.tab.select, begin, fields, shown, **NOW)
    page.follow(opened.then, view, concurrency_id="count")
    page.connect(prompt.submit, continue_text, fields, shown, **LAST)
    page.connect(source.input, choose_source, fields, fields, **NOW)
