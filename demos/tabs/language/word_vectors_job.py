"""Word vectors that a visitor learns: the job, and what is asked of the vectors."""

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from hf_attn.experiments.words.countries import COUNTRIES, compose_country_sentences, find_capital
from hf_attn.experiments.words.sentences import split_sentences, split_words
from hf_attn.experiments.words.word_vectors import (
    Report,
    Settings,
    WordVectors,
    choose_word_vector_settings,
    share_first,
    train_vectors,
)
from hf_attn.tasks.text.topics import Topics

from ...core.limits import limits_here, refuse_longer
from ...jobs.job import ReportedJob

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


@dataclass(eq=False)
class WordVectorsJob(ReportedJob):
    """A visitor's word vectors; nothing before the first.

    Attributes:
        settings: how they are learned.
        report: the newest; losses are those of all reports.
        share: of the capitals' sums that come out right; None for other texts, and while they are learned.
        words: the asked one, then the sum's three.
    """

    settings: Settings | None = None
    report: Report | None = None
    losses: list[tuple[int, float]] = field(default_factory=list)
    share: float | None = None
    words: tuple[str, ...] = ASKED[COMPOSED]

    failure = "Learning failed"

    @property
    def source(self) -> str:
        """What they are learned from, of TEXTS."""
        return self.form["vectors_source"] if self.form else COMPOSED

    @property
    def progress(self) -> list[int]:
        """[the newest step]."""
        return [self.report.step if self.report else 0]

    def begin(self) -> None:
        """Read the text, which may be too short, and choose words that have a vector."""
        self.settings, self.reports = begin_training(self.form)
        self.report, self.losses, self.share = next(self.reports), [], None
        known, words = self.report.vectors.words, tuple(self.form[name] or "" for name in KEPT[3:])
        is_known = all(split_words(word)[:1] and word.strip().lower() in known for word in words)
        self.words = words if is_known else usual_words(self)

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

    Raises:
        ValueError: a text that is empty or too long; at the first report, one that is too short.
    """
    sentences = read(form["vectors_source"], form["vectors_text"])
    settings = choose_word_vector_settings(sentences, form["vectors_kind"])
    return settings, train_vectors(sentences, settings, torch.Generator().manual_seed(0))


def usual_words(job: WordVectorsJob) -> tuple[str, str, str, str]:
    """Four words that have a vector."""
    words = job.report.vectors.words
    wanted = ASKED.get(job.source, words[-4:])
    return wanted if all(word in words for word in wanted) else words[-4:]


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
