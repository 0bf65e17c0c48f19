"""Language, Neighbours: word vectors learned here, a word's neighbours, one word minus another plus a third.

The board takes a `NeighboursValue` of `ui/board_values.d.ts`.
"""

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import gradio as gr
import torch

from hf_attn.experiments.words.countries import COUNTRIES, compose_country_sentences, find_capital
from hf_attn.experiments.words.sentences import split_sentences, split_words
from hf_attn.experiments.words.word_vectors import (
    KINDS,
    Report,
    Settings,
    UnknownWord,
    WordVectors,
    choose_word_vector_settings,
    share_first,
    train_vectors,
)
from hf_attn.tasks.text.topics import Topics

from ...core.limits import limits_here, refuse_longer
from ...jobs.job import FAILED, FINISHED, RUNNING, STOPPED, TIME_UP, ReportedJob
from ...session.page import LAST, NOW, Page, with_value
from ...session.session import Session
from ...snippets.views import word_vectors_snippet
from ...ui import boards, formatting, notices

NAME, TITLE = "neighbours", "Neighbours"
BEGIN: list[notices.Part] = [
    "Press Train vectors: each word gets a vector from the words that it stands among."
]
NEAREST = 8
TEXTS = ("countries", "docstrings", "own")
COMPOSED, DOCSTRINGS, OWN = TEXTS
ASKED = {  # text → word, then the analogy's three
    COMPOSED: ("rome", "paris", "france", "italy"),
    DOCSTRINGS: ("socket", "days", "day", "file"),
}
PAIRS = [(country.name, country.capital) for country in COUNTRIES]
DRAWN = ("france", "italy", "germany", "spain", "greece", "japan", "egypt", "norway")  # and their capitals
KEPT = tuple(f"vectors_{name}" for name in ("source", "kind", "text", "word", "a", "b", "c"))  # in links
ABOUT = {
    COMPOSED: "600 sentences composed from a table of 30 countries; none names a capital with its country.",
    DOCSTRINGS: "The docstrings of Python's standard library; this takes some seconds.",
    OWN: "Your text: the more it says of a word, the better its vector.",
}
LONGEST_WORD = 200


@dataclass(eq=False)
class WordVectorsJob(ReportedJob):
    """A visitor's word vectors; nothing before the first."""

    settings: Settings | None = None  # how they are learned
    report: Report | None = None  # the newest; losses are those of all reports
    losses: list[tuple[int, float]] = field(default_factory=list)
    # of the capitals' sums that come out right; None for other texts, and while they are learned
    share: float | None = None
    words: tuple[str, ...] = ASKED[COMPOSED]  # the asked one, then the sum's three

    failure = "Learning failed"

    @property
    def source(self) -> str:
        """What they are learned from, of TEXTS."""
        return self.form["vectors_source"] if self.form else COMPOSED

    @property
    def progress(self) -> list[int]:
        return [self.report.step if self.report else 0]

    def begin(self) -> None:
        """Read the text, which may be too short, and choose words that have a vector."""
        self.settings, self.reports = begin_training(self.form)
        self.report, self.losses, self.share = next(self.reports), [], None
        known, words = self.report.vectors.words, tuple(self.form[name] or "" for name in KEPT[3:])
        if not all(split_words(word)[:1] and word.strip().lower() in known for word in words):
            words = ASKED.get(self.source, known[-4:])
        self.words = words if all(word.strip().lower() in known for word in words) else known[-4:]

    def take(self, report: Report) -> None:
        self.report = report
        if math.isfinite(report.loss):  # a short text may give batches in which nothing is read
            self.losses.append((report.step, report.loss))

    def conclude(self) -> Iterator[None]:
        """Measure how many of the capitals' sums come out right."""
        if self.source == COMPOSED:
            self.share = share_first(self.report.vectors, PAIRS)
            yield

    def describe(self) -> dict:
        return super().describe() | {"form": self.form | dict(zip(KEPT[3:], self.words, strict=True))}


@functools.lru_cache(maxsize=1)
def shared_docstrings() -> tuple[str, ...]:
    """The docstrings' sentences, read once for all visitors; nobody changes them."""
    return tuple(sentence for row in Topics().rows for sentence in split_sentences(row.source))


def read(source: str, text: str | None) -> Sequence[str]:
    """The chosen text's sentences; ValueError where it is empty or too long."""
    if source == COMPOSED:
        return compose_country_sentences()
    if source == DOCSTRINGS:
        return shared_docstrings()
    if not split_words(text or ""):
        raise ValueError("Nothing is written: paste a text of some hundred words or more.")
    refuse_longer("text", text, limits_here().characters)
    return split_sentences(text)


def begin_training(form: dict) -> tuple[Settings, Iterator[Report]]:
    """How the vectors of these settings are learned, and the reports, the first of them before any step.

    ValueError for a text that is empty or too long; at the first report, for one that is too short.
    """
    sentences = read(form["vectors_source"], form["vectors_text"])
    settings = choose_word_vector_settings(sentences, form["vectors_kind"])
    return settings, train_vectors(sentences, settings, torch.Generator().manual_seed(0))


def find_near(vectors: WordVectors, word: str) -> dict:
    found = [dataclasses.asdict(near) for near in vectors.neighbours(word, NEAREST)]
    return {"word": word.strip().lower(), "found": found}


def find_analogy(vectors: WordVectors, word: str, without: str, plus: str) -> dict:
    """The nearest words to a sum, and the rank of the right one where the table of countries knows it."""
    ranked = vectors.analogy(word, without, plus)
    wanted = find_capital(word, without, plus)
    right = next((near for near in ranked if near.word == wanted), None)
    found = [dataclasses.asdict(near) | {"is_right": near.word == wanted} for near in ranked[:NEAREST]]
    words = {
        name: text.strip().lower() for name, text in (("word", word), ("without", without), ("plus", plus))
    }
    rank = dataclasses.asdict(right) if right else None
    return words | {"found": found, "others": len(ranked), "right": rank}


def draw_plane(vectors: WordVectors, near: dict, analogy: dict, countries: Sequence[str]) -> dict:
    """The four words and, with their capitals, these countries, or else the neighbours, in a plane."""
    four = [analogy["without"], analogy["word"], analogy["plus"], analogy["found"][0]["word"]]
    pairs = [(four[0], four[1]), (four[2], four[3])]
    others = [near["word"], *(one["word"] for one in near["found"])]
    if countries:
        pairs += [(name, find_capital(four[1], four[0], name)) for name in countries]
        others = [near["word"]]
    known = [(a, b) for a, b in dict.fromkeys(pairs) if a in vectors.words and b in vectors.words]
    words = list(dict.fromkeys([*four, *(word for pair in known for word in pair), *others]))
    place = {word: number for number, word in enumerate(words)}
    plane = vectors.project(words)
    points = [
        {"word": word, "x": x, "y": y, "asked": word in four or word == near["word"]}
        for word, (x, y) in zip(words, plane.places.tolist(), strict=True)
    ]
    arrows = [{"from": place[a], "to": place[b], "asked": (a, b) in pairs[:2]} for a, b in known]
    title = f"arrows from {four[0]} to {four[1]} and from {four[2]} to {four[3]}"
    return {"points": points, "share": plane.share, "arrows": arrows, "arrows_title": title}


def to_value(job: WordVectorsJob, near: dict | None = None, analogy: dict | None = None) -> str | None:
    if job.report is None:
        return None
    vectors = job.report.vectors
    is_composed, text = job.source == COMPOSED, job.form["vectors_text"] if job.source == OWN else None
    countries = DRAWN if is_composed else ()
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
            "python": word_vectors_snippet(text, job.settings.kind, job.words, is_composed=is_composed),
        }
    )


def tell_vectors(job: WordVectorsJob, near: dict, analogy: dict) -> list[notices.Part]:
    """The screen's sentence: the nearest word, and what the sum comes to."""
    nearest, first = near["found"][0], analogy["found"][0]
    sum_of = f"{analogy['word']} − {analogy['without']} + {analogy['plus']}"
    told = [
        f"Nearest to “{near['word']}” is ",
        ("b", nearest["word"]),
        f", cosine {nearest['cosine']:.2f}. {sum_of} comes nearest to ",
        ("b", first["word"]),
        ".",
    ]
    if job.share is None:
        return told
    return [*told, f" Of all such sums {formatting.percent(job.share, 0)} are right."]


def show_job(session: Session) -> dict:
    """Everything but the fields, as the vectors stand; unknown words leave the board as it is."""
    job = session.state(WordVectorsJob)
    is_running = job.status == RUNNING
    label = "Training…" if is_running else "Train vectors"
    if is_running and job.report:
        label = f"Training, {formatting.percent(job.report.step / job.report.steps, 0)}"
    near, analogy, wrong = None, None, {"word_error": "", "sum_error": ""}
    if job.report is not None and job.report.step:
        try:
            near = find_near(job.report.vectors, job.words[0])
        except UnknownWord as error:
            wrong["word_error"] = notices.field_error(str(error))
        try:
            analogy = find_analogy(job.report.vectors, *job.words[1:])
        except UnknownWord as error:
            wrong["sum_error"] = notices.field_error(str(error))
    return {
        "board": gr.skip() if any(wrong.values()) else to_value(job, near, analogy),
        "told": notices.headline(tell_vectors(job, near, analogy) if near and analogy else BEGIN),
        "train": gr.update(value=label, interactive=not is_running),
        "stop": gr.update(interactive=is_running),
        "note": notices.note(status_message(job)),
        "origin": origin_line(job),
        **wrong,
    }


def show_followed(session: Session) -> dict:
    """As `show_job`, with the words that are asked."""
    job = session.state(WordVectorsJob)
    return show_job(session) | (dict(zip(KEPT[3:], job.words, strict=True)) if job.report else {})


def status_message(job: WordVectorsJob) -> str:
    if job.status == STOPPED and job.report is None:
        return "Stopped before it began; there are no vectors yet."
    step = f"step {formatting.count(job.report.step)}" if job.report else ""
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


def start_job(session: Session, values: dict) -> WordVectorsJob:
    """Let new vectors take the place of the last; ValueError where the visitor's own text is no text."""
    if values["vectors_source"] == OWN:
        next(begin_training(values)[1])
    job = session.state(WordVectorsJob)
    job.prepare(values)
    job.report = None
    return job


def press_train(session: Session, values: dict) -> dict:
    """Train on the chosen text; nothing while it is training."""
    if not session.state(WordVectorsJob).is_busy:
        try:
            start_job(session, values)
        except ValueError as error:
            return {"text_error": notices.field_error(str(error))}
    return show_job(session) | {"text_error": ""}


def look_up(session: Session, values: dict) -> dict:
    """Other words; an unknown one leaves the board as it is."""
    job = session.state(WordVectorsJob)
    if job.report is None:
        return {"word_error": notices.field_error("No vectors yet: press Train vectors first.")}
    job.words = tuple(formatting.shorten(values[name] or "", LONGEST_WORD) for name in KEPT[3:])
    return show_job(session)


def choose_source(_: Session, values: dict) -> dict:
    """The visitor's own text is seen where it is the source; what it is."""
    source = values["vectors_source"]
    return {
        "vectors_text": gr.update(visible=source == OWN),
        "about": notices.note(ABOUT[source]),
    }


def restore_fields(session: Session, values: dict) -> dict:
    seen = choose_source(session, values)
    return {**seen, **{name: with_value(value, seen.get(name)) for name, value in values.items()}}


def build_settings() -> dict:
    found = {
        "train": gr.Button("Train vectors", variant="primary", elem_id="vectors-train"),
        "stop": gr.Button("Stop", variant="stop", size="md", interactive=False, elem_id="vectors-stop"),
        "note": gr.HTML(notices.note(status_message(WordVectorsJob())), elem_id="vectors-note"),
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
    told, origin = notices.build_lead(BEGIN, origin_line(WordVectorsJob()), "vectors-origin")
    with gr.Row(elem_classes="hf-work"):
        with gr.Column(elem_classes=["hf-panel", "hf-side"], min_width=0):
            has = build_settings()
        with gr.Column(min_width=0, elem_classes="hf-result"):
            board = boards.build_board("neighbours_board", "hf-language", "neighbours-board")
    fields = {name: has[name.removeprefix("vectors_")] for name in KEPT}
    lines = {"about": has["about"]}
    shown = {"board": board, "told": told, "origin": origin}
    shown |= {name: has[name] for name in ("train", "stop", "note", "text_error", "word_error", "sum_error")}
    page.link_fields(fields, restore=restore_fields, shows=lines)
    view = page.link_job(
        "vectors",
        kind=WordVectorsJob,
        show=show_followed,
        shows={**shown, **fields},
        fields=fields,
        start=lambda session, spec, _: start_job(session, spec.form),
    )
    page.drive(view, has["train"].click, press_train, fields, has["stop"].click)
    page.connect([fields[name].submit for name in KEPT[3:]], look_up, fields, shown, **LAST)
    page.connect(has["source"].input, choose_source, fields, {**fields, **lines}, **NOW)
