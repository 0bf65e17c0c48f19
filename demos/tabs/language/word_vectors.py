"""Language, Neighbours: word vectors learned here, a word's neighbours, one word minus another plus a third.

The board takes a `NeighboursValue` of `ui.board_values`.
"""

import contextlib
import math
import time
from collections.abc import Iterator

import gradio as gr
import torch

from hf_attn.experiments.words.sentences import split_words
from hf_attn.experiments.words.word_vectors import (
    KINDS,
    UnknownWord,
    choose_word_vector_settings,
    share_first,
    train_vectors,
)

from ...jobs.job import MESSAGE_SECONDS, TIME_UP, deadline, record_failure
from ...jobs.training_job import FAILED, FINISHED, RUNNING, STOPPED
from ...session.page import LAST, NOW, Page, state_of, with_value
from ...snippets.views import word_vectors_snippet
from ...ui import boards, formatting, notices
from .word_vectors_job import (
    ASKED,
    COMPOSED,
    DOCSTRINGS,
    DRAWN,
    KEPT,
    OWN,
    PAIRS,
    TEXTS,
    WordVectorsJob,
    draw_plane,
    find_analogy,
    find_near,
    read,
    usual_words,
)

NAME, TITLE = "neighbours", "Neighbours"
LOOK_FOR = (
    "the parallel arrows: no sentence names a capital with its country, and yet their vectors differ alike."
)
LOOK_FOR_TEXT = "a word's neighbours: nothing said what it means, only which words it stands among."
ABOUT = {
    COMPOSED: "600 sentences composed from a table of 30 countries; none names a capital with its country.",
    DOCSTRINGS: "The docstrings of Python's standard library; this takes some seconds.",
    OWN: "Your text: the more it says of a word, the better its vector.",
}
LONGEST_WORD = 200


def to_value(job: WordVectorsJob, near: dict | None = None, analogy: dict | None = None) -> str | None:
    if job.report is None:
        return None
    vectors = job.report.vectors
    countries = DRAWN if job.source == COMPOSED else ()
    plane = draw_plane(vectors, near, analogy, countries) if near and analogy else None
    return boards.to_json(
        {
            "status": job.status,
            "message": job.message,
            "kind": job.settings.kind,
            "words": len(vectors.words),
            "width": vectors.vectors.shape[1],
            "step": job.report.step,
            "steps": job.report.steps,
            "losses": job.losses,
            "near": near,
            "analogy": analogy,
            "share": job.share,
            "pairs": len(PAIRS) * (len(PAIRS) - 1),
            "plane": plane,
            "python": job_snippet(job),
        }
    )


def job_snippet(job: WordVectorsJob) -> str:
    text = job.text if job.source == OWN else None
    is_composed = job.source == COMPOSED
    return word_vectors_snippet(text, job.settings.kind, job.words, is_composed=is_composed)


FIELDS = ("word", "analogy")  # that can be wrong, beside the text
SHOWN = 8  # what `screen` gives


def screen(job: WordVectorsJob, *, text_error: str = "") -> list:
    """[board, train, stop, note, error of text, word and analogy, origin]."""
    is_running = job.status == RUNNING
    near, analogy, errors = None, None, dict.fromkeys(FIELDS, "")
    if job.report is not None and job.report.step:
        try:
            near = find_near(job.report.vectors, job.words[0])
        except UnknownWord as error:
            errors["word"] = str(error)
        try:
            analogy = find_analogy(job.report.vectors, *job.words[1:])
        except UnknownWord as error:
            errors["analogy"] = str(error)
    wrong = any(errors.values())
    return [
        gr.skip() if wrong or text_error else to_value(job, near, analogy),
        gr.update(value=button_label(job), interactive=not is_running),
        gr.update(interactive=is_running),
        notices.note(status_message(job)),
        notices.field_error(text_error),
        *(notices.field_error(error) for error in errors.values()),
        origin_line(job),
    ]


def button_label(job: WordVectorsJob) -> str:
    if job.status != RUNNING:
        return "Train vectors"
    return (
        f"Training, {formatting.percent(job.report.step / job.report.steps, 0)}"
        if job.report
        else "Training…"
    )


def status_message(job: WordVectorsJob) -> str:
    step = f"step {formatting.count(job.report.step)}" if job.report else "the beginning"
    return {
        None: "Each word gets a vector that tells the words near it from words drawn at random.",
        RUNNING: "Stop takes effect at once and keeps what was learned.",
        STOPPED: f"Stopped at {step}{TIME_UP if job.is_late else ''}; the vectors can be used.",
        FINISHED: f"Done in {job.report.seconds:.1f} seconds." if job.report else "",
        FAILED: "Failed; the line above says why.",
    }[job.status]


def origin_line(job: WordVectorsJob) -> str:
    if job.report is None:
        return notices.origin("word vectors", "none yet", "CPU")
    weights = f"{job.source}, step {formatting.count(job.report.step)}" if job.report.step else "untrained"
    return notices.origin(f"{job.settings.kind}, {job.settings.width} numbers a word", weights, "CPU")


def train_again(job: WordVectorsJob) -> Iterator[list]:
    """Train as a link asks, up to its step: outputs as `train`."""
    yield from train(job, *job.asked, until=job.until)


def train(
    job: WordVectorsJob, source: str, kind: str, text: str | None, *words, until: int | None = None
) -> Iterator[list]:
    """Train on the chosen text: as `screen`, then the four words; nothing while it is training."""
    same = [gr.skip()] * len(words)
    if job.status == RUNNING:
        yield [*[gr.skip()] * SHOWN, *same]
        return
    try:
        sentences = read(source, text)
        settings = choose_word_vector_settings(sentences, kind)
        moments = train_vectors(sentences, settings, torch.Generator().manual_seed(0))
        first = next(moments)  # reads the text, which may be too short
    except ValueError as error:
        yield [*screen(job, text_error=str(error)), *same]
        return
    job.source, job.settings, job.report = source, settings, first
    job.text = text or ""
    job.losses, job.share, job.status = [], None, RUNNING
    job.message, job.wants_stop = "", False
    is_known = all(
        split_words(word or "")[:1] and word.strip().lower() in first.vectors.words for word in words
    )
    job.words = tuple(words) if is_known else usual_words(job)
    yield [*screen(job), *job.words]
    shown_at, last = time.monotonic(), deadline()
    with record_failure(job, "Learning failed"):
        with contextlib.closing(moments):
            for report in moments:
                job.report = report
                if math.isfinite(report.loss):  # a short text may give batches in which nothing is read
                    job.losses.append((report.step, report.loss))
                job.is_late = time.monotonic() > last
                if job.wants_stop or job.is_late or (until is not None and report.step >= until):
                    break
                if time.monotonic() - shown_at >= MESSAGE_SECONDS:
                    yield [*screen(job), *same]
                    shown_at = time.monotonic()
        if source == COMPOSED:
            job.share = share_first(job.report.vectors, PAIRS)
        job.status = STOPPED if job.report.step < job.report.steps else FINISHED
    yield [*screen(job), *same]


def stop(job: WordVectorsJob) -> None:
    job.wants_stop = True


def look_up(job: WordVectorsJob, *words) -> list:
    """Other words: as `screen`; an unknown one leaves the board as it is."""
    if job.report is None:
        error = notices.field_error("No vectors yet: press Train vectors first.")
        return [*[gr.skip()] * 5, error, "", gr.skip()]
    job.words = tuple(formatting.shorten(word or "", LONGEST_WORD) for word in words)
    return screen(job)


def choose_source(source: str) -> list:
    """[own text, what it is, look-for] for another text."""
    look_for = notices.look_for(LOOK_FOR if source == COMPOSED else LOOK_FOR_TEXT)
    return [gr.update(visible=source == OWN), notices.note(ABOUT[source]), look_for]


def build_settings() -> dict:
    found = {
        "train": gr.Button("Train vectors", variant="primary", elem_id="vectors-train"),
        "stop": gr.Button("Stop", variant="stop", size="md", interactive=False, elem_id="vectors-stop"),
        "said": gr.HTML(notices.note(status_message(WordVectorsJob())), elem_id="vectors-note"),
    }
    seg = {"elem_classes": "seg", "min_width": 0}
    found["source"] = gr.Radio(list(TEXTS), value=COMPOSED, label="Text", elem_id="vectors-source", **seg)
    found["about"] = gr.HTML(notices.note(ABOUT[COMPOSED]))
    found["text"] = gr.Textbox(
        "", label="Your own text", lines=6, max_lines=6, visible=False, elem_id="vectors-text"
    )
    found["text_error"] = notices.build_error_line("vectors-text-error")
    found["kind"] = gr.Radio(list(KINDS), value=KINDS[0], label="Learned by", elem_id="vectors-kind", **seg)
    typed = {"max_lines": 1, "elem_classes": "hf-mono-input", "min_width": 0}
    word, *three = ASKED[COMPOSED]
    found["word"] = gr.Textbox(word, label="Neighbours of", elem_id="vectors-word", **typed)
    found["word_error"] = notices.build_error_line("vectors-word-error")
    with gr.Row(elem_classes="hf-three"):
        for name, label, value in zip("abc", ("Word", "minus", "plus"), three, strict=True):
            found[name] = gr.Textbox(value, label=label, elem_id=f"vectors-{name}", **typed)
    found["sum_error"] = notices.build_error_line("vectors-sum-error")
    return found


def build_part(page: Page) -> None:
    look_for, origin = notices.build_lead(LOOK_FOR, origin_line(WordVectorsJob()), "vectors-origin")
    with gr.Row(elem_classes="hf-work"):
        with gr.Column(elem_classes=["hf-panel", "hf-side"], min_width=0):
            has = build_settings()
        with gr.Column(min_width=0, elem_classes="hf-result"):
            board = boards.build_board("neighbours_board", "hf-language", "neighbours-board")
    job = state_of(WordVectorsJob(), stop)
    words = [has[name] for name in ("word", "a", "b", "c")]
    shown = [board, has["train"], has["stop"], has["said"]]
    shown += [has["text_error"], has["word_error"], has["sum_error"], origin]
    inputs = [job, has["source"], has["kind"], has["text"], *words]
    has["train"].click(train, inputs, [*shown, *words], **page.in_turn)
    has["stop"].click(stop, job, None, **NOW)
    linked = {name: has[name.removeprefix("vectors_")] for name in KEPT}
    turned = [has["text"], has["about"], look_for]

    def open_link(values):
        turns = dict(zip(turned, choose_source(values["vectors_source"]), strict=True))
        return turns | {part: with_value(values[name], turns.get(part)) for name, part in linked.items()}

    page.link_fields(linked, restore=open_link, outputs=tuple(turned[1:]))
    order = gr.Number(0, visible="hidden")  # its change starts what a link learns again
    order.change(train_again, job, [*shown, *words], **page.in_turn)

    def open_again(form, taken, job, last):
        job.asked, job.until = tuple(form[name] for name in KEPT), taken[0]
        return {order: last + 1}

    page.link_job("vectors", linked, job, open_again, inputs=(job, order), outputs=(order,))
    for field_ in words:
        field_.submit(look_up, [job, *words], shown, **LAST)
    has["source"].input(choose_source, has["source"], [has["text"], has["about"], look_for], **NOW)
