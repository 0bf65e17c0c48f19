"""Language, Neighbours: word vectors learned here, a word's neighbours, one word minus another plus a third.

The board's value (demos/tabs/language/word_vectors.js): `to_json` of None or

    status          "running" | "stopped" | "finished" | "error";  message: what failed
    kind, words, width, step, steps;  losses [[step, loss]]
    near            {word, found [{word, cosine, rank}]} or None
    analogy         {word, without, plus, found, others: words that were ranked, right {word, rank} or None}
    share, pairs    of all sums of capitals and countries, how many are right; None of other texts
    plane           {points [{word, x, y, asked}], share, arrows [{from, to, asked}], arrows_title} or None
"""

import contextlib
import functools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import gradio as gr
import torch

from hf_attn.experiments.words.countries import COUNTRIES, compose_country_sentences
from hf_attn.experiments.words.sentences import split_sentences, split_words
from hf_attn.experiments.words.word_vectors import (
    KINDS,
    Report,
    Settings,
    UnknownWord,
    choose_word_vector_settings,
    share_first,
    train_vectors,
)
from hf_attn.tasks.text.topics import Topics

from ...core.limits import limits_here, refuse_longer
from ...jobs.job import LATE, MESSAGE_SECONDS, ending, last_moment
from ...jobs.training_job import FAILED, FINISHED, RUNNING, STOPPED
from ...session.page import LAST, LIGHT, Page, state_of, with_value
from ...snippets import views as python_lines
from ...ui import boards, formatting, notices
from .nearness import draw_plane, find_analogy, find_near

NAME, TITLE = "neighbours", "Neighbours"
LOOK_FOR = (
    "the parallel arrows: no sentence names a capital with its country, and yet their vectors differ alike."
)
LOOK_FOR_TEXT = "a word's neighbours: nothing said what it means, only which words it stands among."
TEXTS = ("countries", "docstrings", "own")
COMPOSED, DOCSTRINGS, OWN = TEXTS
ASKED = {  # text → word, then the analogy's three
    COMPOSED: ("rome", "paris", "france", "italy"),
    DOCSTRINGS: ("socket", "days", "day", "file"),
}
ABOUT = {
    COMPOSED: "600 sentences composed from a table of 30 countries; none names a capital with its country.",
    DOCSTRINGS: "The docstrings of Python's standard library; this takes some seconds.",
    OWN: "Your text: the more it says of a word, the better its vector.",
}
LONGEST_WORD = 200
PAIRS = [(country.name, country.capital) for country in COUNTRIES]
DRAWN = ("france", "italy", "germany", "spain", "greece", "japan", "egypt", "norway")  # and their capitals


@dataclass(eq=False)
class WordVectorsJob:
    """A visitor's word vectors; nothing before the first.

    Attributes:
        source: of TEXTS, what they are learned from.
        text: the visitor's own, where that is the source.
        settings: how.
        report: the newest; losses are those of all reports.
        share: of the capitals' sums that come out right; None for other texts, and while they are learned.
        status: "running", "stopped", "finished" or "error"; message says what failed.
        words: the asked one, then the sum's three.
        wants_stop: set by the button, heeded at the next report.
        is_late: it was stopped because its time on this server was up.
        asked, until: what a link has learned again, as `train` takes it, and the step at which that ends.
    """

    source: str = COMPOSED
    text: str = ""
    settings: Settings | None = None
    report: Report | None = None
    losses: list[tuple[int, float]] = field(default_factory=list)
    share: float | None = None
    status: str | None = None
    message: str = ""
    words: tuple[str, ...] = ASKED[COMPOSED]
    wants_stop: bool = False
    is_late: bool = False
    asked: tuple = ()
    until: int | None = None

    @property
    def form(self) -> dict[str, str] | None:
        """The settings as it was begun with them, and the words that are asked; None before."""
        if self.report is None:
            return None
        return dict(zip(KEPT, (self.source, self.settings.kind, self.text, *self.words), strict=True))

    @property
    def taken(self) -> list[int]:
        """One number, the step it has come to."""
        return [self.report.step]


@functools.lru_cache(maxsize=1)
def shared_docstrings() -> tuple[str, ...]:
    """The docstrings' sentences, read once for all visitors; nobody changes them."""
    return tuple(sentence for row in Topics().rows for sentence in split_sentences(row.source))


def read(source: str, text: str | None) -> Sequence[str]:
    """The chosen text's sentences.

    Raises:
        ValueError: nothing, or too much, was written.
    """
    if source == COMPOSED:
        return compose_country_sentences()
    if source == DOCSTRINGS:
        return shared_docstrings()
    if not split_words(text or ""):
        raise ValueError("Nothing is written: paste a text of some hundred words or more.")
    refuse_longer("text", text, limits_here().characters)
    return split_sentences(text)


def usual_words(lesson: WordVectorsJob) -> tuple[str, str, str, str]:
    """Words to begin with that have a vector."""
    words = lesson.report.vectors.words
    wanted = ASKED.get(lesson.source, words[-4:])
    return wanted if all(word in words for word in wanted) else words[-4:]


def to_value(lesson: WordVectorsJob, near: dict | None = None, analogy: dict | None = None) -> str | None:
    """What the board is told."""
    if lesson.report is None:
        return None
    vectors = lesson.report.vectors
    countries = DRAWN if lesson.source == COMPOSED else ()
    plane = draw_plane(vectors, near, analogy, countries) if near and analogy else None
    return boards.to_json(
        {
            "status": lesson.status,
            "message": lesson.message,
            "kind": lesson.settings.kind,
            "words": len(vectors.words),
            "width": vectors.vectors.shape[1],
            "step": lesson.report.step,
            "steps": lesson.report.steps,
            "losses": lesson.losses,
            "near": near,
            "analogy": analogy,
            "share": lesson.share,
            "pairs": len(PAIRS) * (len(PAIRS) - 1),
            "plane": plane,
            "python": say_lines(lesson),
        }
    )


def say_lines(lesson: WordVectorsJob) -> str:
    """The lines of Python that give the same vectors."""
    text = lesson.text if lesson.source == OWN else None
    is_composed = lesson.source == COMPOSED
    return python_lines.explain_vectors(text, lesson.settings.kind, lesson.words, is_composed=is_composed)


KEPT = tuple(f"vectors_{name}" for name in ("source", "kind", "text", "word", "a", "b", "c"))  # by links
FIELDS = ("word", "analogy")  # that can be wrong, beside the text
SHOWN = 8  # what `screen` gives


def screen(lesson: WordVectorsJob, *, text_error: str = "") -> list:
    """[board, train, stop, note, error of text, word and analogy, origin] as the lesson stands."""
    is_running = lesson.status == RUNNING
    near, analogy, errors = None, None, dict.fromkeys(FIELDS, "")
    if lesson.report is not None and lesson.report.step:
        try:
            near = find_near(lesson.report.vectors, lesson.words[0])
        except UnknownWord as error:
            errors["word"] = str(error)
        try:
            analogy = find_analogy(lesson.report.vectors, *lesson.words[1:])
        except UnknownWord as error:
            errors["analogy"] = str(error)
    wrong = any(errors.values())
    return [
        gr.skip() if wrong or text_error else to_value(lesson, near, analogy),
        gr.update(value=tell_button(lesson), interactive=not is_running),
        gr.update(interactive=is_running),
        notices.note(tell(lesson)),
        notices.field_error(text_error),
        *(notices.field_error(error) for error in errors.values()),
        tell_origin(lesson),
    ]


def tell_button(lesson: WordVectorsJob) -> str:
    """The button says how far it is."""
    if lesson.status != RUNNING:
        return "Train vectors"
    return (
        f"Training, {formatting.percent(lesson.report.step / lesson.report.steps, 0)}"
        if lesson.report
        else "Training…"
    )


def tell(lesson: WordVectorsJob) -> str:
    """One sentence on what happens or happened."""
    step = f"step {formatting.count(lesson.report.step)}" if lesson.report else "the beginning"
    return {
        None: "Every word gets a vector that tells its company from words drawn at random.",
        RUNNING: "Stop takes effect at once and keeps what was learned.",
        STOPPED: f"Stopped at {step}{LATE if lesson.is_late else ''}; the vectors can be asked.",
        FINISHED: f"Done in {lesson.report.seconds:.1f} seconds." if lesson.report else "",
        FAILED: "Failed; the line above says why.",
    }[lesson.status]


def tell_origin(lesson: WordVectorsJob) -> str:
    """Model, weights, device."""
    if lesson.report is None:
        return notices.origin("word vectors", "none yet", "CPU")
    weights = (
        f"{lesson.source}, step {formatting.count(lesson.report.step)}" if lesson.report.step else "untrained"
    )
    return notices.origin(f"{lesson.settings.kind}, {lesson.settings.width} numbers a word", weights, "CPU")


def train_again(lesson: WordVectorsJob) -> Iterator[list]:
    """Learn what a link asks for, up to its step: as `train`."""
    yield from train(lesson, *lesson.asked, until=lesson.until)


def train(
    lesson: WordVectorsJob, source: str, kind: str, text: str | None, *words, until: int | None = None
) -> Iterator[list]:
    """Learn from the chosen text: as `screen`, then the asked words; nothing while one is under way."""
    same = [gr.skip()] * len(words)
    if lesson.status == RUNNING:
        yield [*[gr.skip()] * SHOWN, *same]
        return
    try:
        sentences = read(source, text)
        settings = choose_word_vector_settings(sentences, kind)
        moments = train_vectors(sentences, settings, torch.Generator().manual_seed(0))
        first = next(moments)  # reads the text, which may be too short
    except ValueError as error:
        yield [*screen(lesson, text_error=str(error)), *same]
        return
    lesson.source, lesson.settings, lesson.report = source, settings, first
    lesson.text = text or ""
    lesson.losses, lesson.share, lesson.status = [], None, RUNNING
    lesson.message, lesson.wants_stop = "", False
    is_known = all(
        split_words(word or "")[:1] and word.strip().lower() in first.vectors.words for word in words
    )
    lesson.words = tuple(words) if is_known else usual_words(lesson)
    yield [*screen(lesson), *lesson.words]
    shown_at, last = time.monotonic(), last_moment()
    with ending(lesson, "Learning failed"):
        with contextlib.closing(moments):
            for report in moments:
                lesson.report = report
                if math.isfinite(report.loss):  # a short text may give batches in which nothing is read
                    lesson.losses.append((report.step, report.loss))
                lesson.is_late = time.monotonic() > last
                if lesson.wants_stop or lesson.is_late or (until is not None and report.step >= until):
                    break
                if time.monotonic() - shown_at >= MESSAGE_SECONDS:
                    yield [*screen(lesson), *same]
                    shown_at = time.monotonic()
        if source == COMPOSED:
            lesson.share = share_first(lesson.report.vectors, PAIRS)
        lesson.status = STOPPED if lesson.report.step < lesson.report.steps else FINISHED
    yield [*screen(lesson), *same]


def stop(lesson: WordVectorsJob) -> None:
    """Ask the learning to end at its next report."""
    lesson.wants_stop = True


def ask(lesson: WordVectorsJob, *words) -> list:
    """Other words: as `screen`; an unknown one leaves the board as it is."""
    if lesson.report is None:
        told = notices.field_error("No vectors yet: press Train vectors first.")
        return [*[gr.skip()] * 5, told, "", gr.skip()]
    lesson.words = tuple(formatting.shorten(word or "", LONGEST_WORD) for word in words)
    return screen(lesson)


def turn(source: str) -> list:
    """Another text: [own text, what it is, look-for]."""
    look_for = notices.look_for(LOOK_FOR if source == COMPOSED else LOOK_FOR_TEXT)
    return [gr.update(visible=source == OWN), notices.note(ABOUT[source]), look_for]


def build_settings() -> dict:
    """Lay the settings out: the components by name."""
    found = {
        "train": gr.Button("Train vectors", variant="primary", elem_id="vectors-train"),
        "stop": gr.Button("Stop", variant="stop", size="md", interactive=False, elem_id="vectors-stop"),
        "said": gr.HTML(notices.note(tell(WordVectorsJob())), elem_id="vectors-note"),
    }
    seg = {"elem_classes": "seg", "min_width": 0}
    found["source"] = gr.Radio(list(TEXTS), value=COMPOSED, label="Text", elem_id="vectors-source", **seg)
    found["about"] = gr.HTML(notices.note(ABOUT[COMPOSED]))
    found["text"] = gr.Textbox(
        "", label="Own text", lines=6, max_lines=6, visible=False, elem_id="vectors-text"
    )
    found["text_error"] = gr.HTML("", elem_classes="hf-field-error", elem_id="vectors-text-error")
    found["kind"] = gr.Radio(list(KINDS), value=KINDS[0], label="Learned by", elem_id="vectors-kind", **seg)
    typed = {"max_lines": 1, "elem_classes": "hf-mono-input", "min_width": 0}
    word, *three = ASKED[COMPOSED]
    found["word"] = gr.Textbox(word, label="Neighbours of", elem_id="vectors-word", **typed)
    found["word_error"] = gr.HTML("", elem_classes="hf-field-error", elem_id="vectors-word-error")
    with gr.Row(elem_classes="hf-three"):
        for name, label, value in zip("abc", ("Word", "minus", "plus"), three, strict=True):
            found[name] = gr.Textbox(value, label=label, elem_id=f"vectors-{name}", **typed)
    found["sum_error"] = gr.HTML("", elem_classes="hf-field-error", elem_id="vectors-sum-error")
    return found


def build_part(page: Page) -> None:
    """Lay the part out and connect it."""
    with gr.Row(elem_classes="hf-lead"):
        look_for = gr.HTML(notices.look_for(LOOK_FOR))
        origin = gr.HTML(tell_origin(WordVectorsJob()), elem_id="vectors-origin")
    with gr.Row(elem_classes="hf-work"):
        with gr.Column(elem_classes=["hf-panel", "hf-side"], min_width=0):
            has = build_settings()
        with gr.Column(min_width=0, elem_classes="hf-result"):
            board = boards.build_board("neighbours_board", "hf-language", "neighbours-board")
    lesson = state_of(WordVectorsJob(), stop)
    words = [has[name] for name in ("word", "a", "b", "c")]
    shown = [board, has["train"], has["stop"], has["said"]]
    shown += [has["text_error"], has["word_error"], has["sum_error"], origin]
    in_turn = {"concurrency_id": "train", "concurrency_limit": page.places}
    asked = [lesson, has["source"], has["kind"], has["text"], *words]
    has["train"].click(train, asked, [*shown, *words], **LIGHT, **in_turn)
    has["stop"].click(stop, lesson, None, **LIGHT, queue=False)
    kept = {name: has[name.removeprefix("vectors_")] for name in KEPT}
    turned = [has["text"], has["about"], look_for]

    def open_link(values):
        turns = dict(zip(turned, turn(values["vectors_source"]), strict=True))
        return turns | {part: with_value(values[name], turns.get(part)) for name, part in kept.items()}

    page.link_fields(kept, restore=open_link, outputs=tuple(turned[1:]))
    order = gr.Number(0, visible="hidden")  # its change starts what a link learns again
    order.change(train_again, lesson, [*shown, *words], **LIGHT, **in_turn)

    def open_again(form, taken, lesson, last):
        lesson.asked, lesson.until = tuple(form[name] for name in KEPT), taken[0]
        return {order: last + 1}

    page.link_job("vectors", kept, lesson, open_again, inputs=(lesson, order), outputs=(order,))
    for field_ in words:
        field_.submit(ask, [lesson, *words], shown, **LAST)
    has["source"].input(turn, has["source"], [has["text"], has["about"], look_for], **LIGHT, queue=False)
