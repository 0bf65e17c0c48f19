"""What a learner does beside the map: figures by hand, the three roles apart, one word in two sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from hf_attn.interpret.head import Head, project
from hf_attn.interpret.random_head import build_random_head
from hf_attn.models.config_checks import SEEDS, check_choice, check_number
from hf_attn.textbooks.worked_examples import ARROW_WORDS, exercise_1, time_flies

HAND_TOLERANCE = 0.005  # two decimals are enough
BANKS = ("we sat by the muddy river bank", "she got her cash at the bank")  # the word stands at one place


@dataclass(frozen=True)
class Check:
    """A learner's figure judged."""

    is_right: bool | None  # within HAND_TOLERANCE; None where nothing is written
    hint: str  # what it is computed from, or why it cannot be read; empty where it is right


def check_hand_exercise(written: Mapping[str, Sequence[Sequence[str]]]) -> dict[str, list[list[Check]]]:
    """Judge the figures that somebody wrote for the first exercise.

    Args:
        written: "scores" [3][3], "weights" [3][3], "outputs" [3][2], as typed: ".28", "0,28", or nothing.

    Returns:
        As many checks, each with what the figure is computed from where it is wrong.

    Raises:
        ValueError: another name, or more figures than the exercise has.
    """
    head = exercise_1()
    for name, lines in written.items():
        check_choice("name", name, ("scores", "weights", "outputs"))
        rows, columns = getattr(head, name).shape
        if len(lines) > rows or any(len(line) > columns for line in lines):
            raise ValueError(f"{name} has more than {rows} rows of {columns} figures: leave out the rest.")
    return {
        name: [
            [
                _check(text, float(getattr(head, name)[row, column]), _hint(head, name, row, column))
                for column, text in enumerate(line)
            ]
            for row, line in enumerate(lines)
        ]
        for name, lines in written.items()
    }


def _check(text: str, right: float, hint: str) -> Check:
    typed = text.strip().replace(",", ".").replace("−", "-")
    if not typed:
        return Check(None, "")
    try:
        number = float(typed)
    except ValueError:
        return Check(False, f"“{text.strip()}” is no number: write digits, for example .28.")
    is_right = abs(number - right) <= HAND_TOLERANCE
    return Check(is_right, "" if is_right else hint)


def _hint(head: Head, name: str, row: int, column: int) -> str:
    """What a figure is computed from, in words: not the figure itself."""
    if name == "scores":
        pairs = zip(head.query[row].tolist(), head.key[column].tolist(), strict=True)
        return " + ".join(f"{x:g}·{y:g}" for x, y in pairs)
    if name == "weights":
        exps = [f"e^{x:.2f}" for x in head.scaled[row].tolist()]
        return f"{exps[column]} ÷ ({' + '.join(exps)}): each score divided by √2 first"
    values = head.value[:, column].tolist()
    return " + ".join(f"weight {place} · {x:g}" for place, x in enumerate(values, start=1))


@dataclass(frozen=True)
class Role:
    """A step on the way from one vector for everything to queries, keys and values."""

    title: str
    equation: str  # of its scores and outputs
    head: Head  # the sentence attended so
    asymmetry: float  # the largest |s_ij − s_ji| of its scores: 0 where asking and answering are alike


def separate_query_key_value(seed: int = 0) -> tuple[Role, ...]:
    """One vector for everything; one map to be compared by and one for the content; Q, K and V.

    The same five words each time, unscaled as in document `chapter-8`; the maps are random. ValueError for a
    seed that torch does not take.
    """
    check_number("seed", seed, *SEEDS, 0)
    words = time_flies()
    generator = torch.Generator().manual_seed(seed)
    width = words.key.shape[-1]
    one, two, three = (torch.randn(width, width, generator=generator) for _ in range(3))
    steps = (
        ("One vector for everything", "S = X Xᵀ, Y = softmax(S) X", words),
        (
            "A map to compare by, a map for the content",
            "S = (X W_similarity)(X W_similarity)ᵀ, Y = softmax(S) X W_content",
            project(ARROW_WORDS, words.value, one, one, three, scale=False),
        ),
        (
            "Query, key and value",
            "S = (X W_q)(X W_k)ᵀ, Y = softmax(S) X W_v",
            project(ARROW_WORDS, words.value, one, two, three, scale=False),
        ),
    )
    return tuple(Role(*step, float((step[2].scores - step[2].scores.T).abs().max())) for step in steps)


@dataclass(frozen=True)
class Beside:
    """The same word in another sentence."""

    sentence: str  # the other one
    word: str  # which word, at the same place in both
    row: int  # its place
    output: tuple[float, ...]  # what it becomes there
    apart: float  # the distance |y − y'| between what it becomes here and there


def set_beside(here: Head, /, **settings) -> Beside | None:
    """What “bank” becomes in the other one of the two BANKS; None where the head is of neither.

    `here` is a head from `build_random_head` with these settings.
    """
    sentence = " ".join(here.columns)
    if sentence not in BANKS:
        return None
    other = BANKS[1 - BANKS.index(sentence)]
    there, row = build_random_head(other, **settings), len(here.rows) - 1
    apart = float((here.outputs[row] - there.outputs[row]).norm())
    return Beside(other, here.rows[row], row, tuple(there.outputs[row].tolist()), apart)
