"""Worked examples of the texts as heads, and where each printed figure stands in their arithmetic."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from hf_attn.interpret.head import Head, project
from hf_attn.textbooks.chapter_1 import basics
from hf_attn.textbooks.chapter_8 import examples
from hf_attn.textbooks.claims import CORRECTED, REPRODUCED, Claim, measure_claim, verdict_of, write
from hf_attn.textbooks.notebook import printed_numbers

ARROW_WORDS = ("time", "flies", "like", "an", "arrow")
LEARNING_WORDS = ("I", "love", "deep", "learning")


@dataclass(frozen=True)
class Printed:
    """Figures of a document that stand in a worked example's arithmetic."""

    claim: Claim  # the sentence with its figures
    station: str | None = None  # the tensor of the head that they are in; None for others, such as a shape
    cells: tuple[tuple[int, int], ...] = ()  # (row, column) of each figure in that tensor
    head: int = 0  # of which head


@dataclass(frozen=True)
class Figure:
    """One printed figure beside the computed one."""

    printed: str  # as the text has it
    computed: str  # with as many digits
    verdict: str  # "reproduced" or "corrected"
    # where it is computed; None where it stands beside the arithmetic
    station: str | None = None
    row: int | None = None
    column: int | None = None
    head: int | None = None


@dataclass(frozen=True)
class Worked:
    """A worked example."""

    title: str  # for people
    document: str  # its key in DOCUMENTS
    place: str  # where it stands there
    sentence: str  # what its numbers show; at most 25 words
    build: Callable[[int], Head]  # gives one head, from 0
    printed: tuple[Printed, ...]  # the figures
    num_heads: int = 1  # how many heads there are
    cell: tuple[int, int] = (0, 0)  # the cell to begin with

    def compare(self, printed: Printed) -> list[Figure]:
        """Every printed figure of a claim beside the computed one."""
        claim = printed.claim
        if printed.station is None:
            computed = (measure_claim("", claim).measured or "").split()
            pairs = zip(claim.claimed.split(), computed, strict=True)
            return [Figure(said, found, REPRODUCED if said == found else CORRECTED) for said, found in pairs]
        tensor = getattr(self.build(printed.head), printed.station)
        figures = []
        for said, (row, column) in zip(claim.claimed.split(), printed.cells, strict=True):
            measured = (float(tensor[row, column]),)
            verdict = verdict_of(said, measured, claim.tolerance)
            figures.append(
                Figure(said, write(said, measured), verdict, printed.station, row, column, printed.head)
            )
        return figures


def block(rows: Sequence[int], columns: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Cells of a printed matrix, row by row.

    >>> block((1,), (0, 2))
    ((1, 0), (1, 2))
    """
    return tuple(itertools.product(rows, columns))


def _claim(claims: Sequence[Claim], beginning: str) -> Claim:
    (found,) = [claim for claim in claims if claim.claim.startswith(beginning)]
    return found


def exercise_1(_: int = 0) -> Head:
    """The first exercise of chapter 1: three words, two numbers each."""
    rows = (basics.HAND_QUERY, basics.HAND_KEY, basics.HAND_VALUE)
    query, key, value = (torch.tensor(part, dtype=torch.float64) for part in rows)
    names = ("(1,0)", "(0,1)", "(1,1)")
    return Head(names, names, query, key, value)


@torch.no_grad()
def cat_on_the_mat(_: int = 0) -> Head:
    """The untrained layer of chapter 1 over its sentence, with the printed seed."""
    states, layer = basics.draw_layer()
    maps = (part.weight.T for part in (layer.query, layer.key, layer.value))
    return project(basics.WORDS, states, *maps)


def notebook_raw(_: int = 0) -> Head:
    """The notebook's attention without maps and without scaling: q = k = v = x."""
    states = printed_numbers.embed()
    identity = torch.eye(printed_numbers.WIDTH)
    return project(_notebook_words(), states, identity, identity, identity, scale=False)


def notebook_one_head(_: int = 0) -> Head:
    """The notebook's one head, whose maps are uniform on [0, 1)."""
    return project(
        _notebook_words(), printed_numbers.embed(), *(part.T for part in printed_numbers.draw_maps())
    )


def notebook_many_heads(head: int = 0) -> Head:
    """One of the notebook's eight heads, from the state that its missing cells left."""
    maps = printed_numbers.draw_head_maps(printed_numbers.SKIPPED)
    return project(_notebook_words(), printed_numbers.embed(), *(part[head].T for part in maps))


def _notebook_words() -> tuple[str, ...]:
    return tuple(f"x{place + 1}" for place in range(len(printed_numbers.SENTENCE)))


def time_flies(_: int = 0) -> Head:
    """Chapter 8's five words, one vector for everything, not scaled."""
    states = torch.tensor(examples.ARROW, dtype=torch.float64)
    return Head(ARROW_WORDS, ARROW_WORDS, states, states, states, scale=False)


def deep_learning(causal: bool = False, hidden: tuple[int, ...] = ()) -> Head:
    """Chapter 8's printed scores of four words: the queries are the scores, the keys are unit vectors."""
    scores, values = (torch.tensor(part).double() for part in (examples.SCORES, examples.EMBEDDINGS))
    unit = torch.eye(4, dtype=torch.float64)
    return Head(LEARNING_WORDS, LEARNING_WORDS, scores, unit, values, False, causal, hidden)


_HAND_SCORES = Claim("Exercise 1: the scores.", "1 0 1 0 1 1 1 1 2", None, "Printed step by step.")
_HAND_SCALED = Claim(
    "Exercise 1: the scores divided by √2.",
    "0.71 0 0.71 0 0.71 0.71 0.71 0.71 1.41",
    None,
    "Printed step by step.",
)
_CAT = _claim(basics.CLAIMS, "Whom each of")
_CAT_WEIGHTS = dataclasses.replace(_CAT, claimed=" ".join(_CAT.claimed.split()[1::2]))
_CAT_CELLS = tuple((row, basics.WORDS.index(word)) for row, word in enumerate(_CAT.claimed.split()[::2]))
_RAW = (
    "The sentence's eight vectors",
    "Scores computed one by one",
    "Each row of the softmax",
    "The context",
)
_HEADS = ("Shapes of eight heads'", "Eight heads side by side")


def _notebook(*beginnings: str) -> tuple[Printed, ...]:
    return tuple(Printed(_claim(printed_numbers.CLAIMS, beginning)) for beginning in beginnings)


def _at(claims: Sequence[Claim], beginning: str, station: str, rows, columns, head: int = 0) -> Printed:
    return Printed(_claim(claims, beginning), station, block(rows, columns), head)


_TWO, _EIGHT, _SIXTEEN = (printed_numbers.SECOND,), range(8), range(printed_numbers.WIDTH)

WORKED_EXAMPLES: dict[str, Worked] = {
    "exercise-1": Worked(
        "exercise 1, by hand",
        "chapter-1",
        "exercise 1",
        "The text prints .28 .28 .44 for the third row. Its own scores 1, 1 and 2 give .25 .25 .50.",
        exercise_1,
        (
            Printed(_HAND_SCORES, "scores", block(range(3), range(3))),
            Printed(_HAND_SCALED, "scaled", block(range(3), range(3))),
            _at(basics.CLAIMS, "Exercise 1: the three rows", "weights", range(3), range(3)),
            _at(basics.CLAIMS, "Exercise 1: the outputs", "outputs", range(3), range(2)),
        ),
        cell=(2, 2),
    ),
    "time-flies": Worked(
        "time flies like an arrow",
        "chapter-8",
        "one vector for everything",
        "“flies” scores “arrow” 1.12, and “arrow” scores “flies” 1.12: query and key are one vector.",
        time_flies,
        (
            _at(examples.CLAIMS, "Similarity of the words", "scores", range(5), range(5)),
            _at(examples.CLAIMS, "Its softmax", "weights", range(5), range(5)),
            _at(examples.CLAIMS, "Its contextual vectors", "outputs", range(5), range(3)),
            Printed(_claim(examples.CLAIMS, "Q Kᵀ and K Qᵀ")),
        ),
        cell=(1, 4),
    ),
    "causal": Worked(
        "I love deep learning, causal mask",
        "chapter-8",
        "causal mask",
        "With the causal mask a word reads only itself and the words before it. Each row still sums to 1.",
        lambda _: deep_learning(causal=True),
        (
            _at(examples.CLAIMS, "Causal weights of", "weights", range(4), range(4)),
            Printed(_claim(examples.CLAIMS, "The mask is added")),
        ),
        cell=(2, 1),
    ),
    "padding": Worked(
        "I love deep <pad>, padding mask",
        "chapter-8",
        "padding mask",
        "The last token is padding: with the mask its weight is 0 in every row. The text prints .17 to .33.",
        lambda _: deep_learning(hidden=(3,)),
        tuple(
            Printed(_claim(examples.CLAIMS, beginning))
            for beginning in ("Weights of the padding", "The first sentence's last token")
        ),
        cell=(0, 0),
    ),
    "cat": Worked(
        "The cat sat on the mat",
        "chapter-1",
        "heatmap",
        "Untrained weights spread over all six words: the largest is .27, an even spread would be .17.",
        cat_on_the_mat,
        (Printed(_CAT_WEIGHTS, "weights", _CAT_CELLS),),
        cell=(2, 2),
    ),
    "notebook-raw": Worked(
        "notebook, no weights",
        "notebook",
        "cells 40 to 51",
        "Without query and key maps and without scaling each word reads itself: at least .95 of its weight.",
        notebook_raw,
        (
            *_notebook(*_RAW),
            _at(printed_numbers.CLAIMS, "The second token's context", "outputs", _TWO, _SIXTEEN),
        ),
        cell=(1, 1),
    ),
    "notebook-head": Worked(
        "notebook, one head",
        "notebook",
        "cells 52 to 61",
        "“x2” gives .86 of its weight to “x5” and .14 to “x6”: large scores leave nothing for the other six.",
        notebook_one_head,
        (
            *_notebook("The second token's key and value"),
            _at(printed_numbers.CLAIMS, "The score of the second token's", "scores", _TWO, (2,)),
            _at(printed_numbers.CLAIMS, "All scores of the second", "scores", _TWO, _EIGHT),
            _at(printed_numbers.CLAIMS, "Its weights, with the scores", "weights", _TWO, _EIGHT),
            _at(printed_numbers.CLAIMS, "Its context vector with", "outputs", _TWO, _SIXTEEN),
        ),
        cell=(1, 4),
    ),
    "notebook-heads": Worked(
        "notebook, eight heads",
        "notebook",
        "cells 62 to 89",
        "The notebook prints the query of “x2” in head 4. It comes out after 13,824 draws of missing cells.",
        notebook_many_heads,
        (
            *_notebook(*_HEADS),
            _at(printed_numbers.CLAIMS, "The fourth head's query.", "query", _TWO, _SIXTEEN, head=3),
            _at(printed_numbers.CLAIMS, "The third head's key", "key", _TWO, _SIXTEEN, head=2),
        ),
        num_heads=printed_numbers.HEADS,
        cell=(1, 1),
    ),
}
