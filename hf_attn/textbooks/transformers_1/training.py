"""`transformers_part_1`: what its claims on words, order and counting need training for."""

from functools import cache

import torch

from hf_attn.experiments import word_order
from hf_attn.experiments.words import ngrams
from hf_attn.textbooks.chapter_1.training import UNREAD, beyond_trained
from hf_attn.textbooks.claims import OURS, STATED, Claim, Measured, mark_full
from hf_attn.textbooks.reference_attention import FeedForward, attend
from hf_attn.textbooks.timing import measure_exponent


def which_came_first() -> Measured:
    accuracy = {row["model"]: row["exact_match"] for row in word_order.run(word_order.WordOrderSizes(), 0)}
    return accuracy[word_order.NAIVE_BAYES], accuracy["attention with positions"]


@cache
def counted() -> dict[str, ngrams.Row]:
    """Tables of two and three tokens, and attention, on the standard library's docstrings."""
    return {row["model"]: row for row in ngrams.run(ngrams.Sizes(contexts=(1, 2)), 0)}


def surprise() -> Measured:
    rows = counted()
    return tuple(rows[f"{n}-gram"]["perplexity"] / rows[ngrams.ATTENTION]["perplexity"] for n in (2, 3))


def filled() -> Measured:
    """The shares of their full tables, V² and V³ cells, that two texts of n-grams fill."""
    rows = (counted()[f"{n}-gram"] for n in (2, 3))
    return tuple(row["met"] / row["parameters"] for row in rows)


@torch.no_grad()
def timed_costs() -> Measured:
    lengths, width = (512, 1024, 2048), 64
    mlp = FeedForward(width, 4 * width)
    mixing = measure_exponent(lambda length: attend(*torch.randn(3, 1, length, width)), lengths)
    return mixing, measure_exponent(lambda length: mlp(torch.randn(1, length, width)), lengths)


CLAIMS = mark_full(
    Claim(
        "Sinusoids can generalise to longer sequences: right answers behind the trained length, copying, "
        "reversing, adding.",
        ">0.50 >0.50 >0.50",
        beyond_trained,
        UNREAD,
        where="1.9",
        kind=STATED,
    ),
    Claim(
        "A bag of words forgets order: naive Bayes is at chance where only order counts, attention is not.",
        "0.45–0.55 ≥0.95",
        which_came_first,
        "Does a stand before b? Both answers have the same bag.",
        where="2.3",
        kind=STATED,
    ),
    Claim(
        "n-grams lack long contexts: perplexity of bi- and tri-grams over causal attention's, held-out text.",
        ">1.00 >1.00",
        surprise,
        "Kneser-Ney tables against 600 steps on the same docstrings.",
        where="2.4",
        kind=STATED,
    ),
    Claim(
        "Of an n-gram table's V^(L + 1) cells the share that the text fills, L = 1 and 2.",
        "0.4018 0.0254",
        filled,
        "The table grows by V a token, what a text can say of it does not.",
        kind=OURS,
    ),
    Claim(
        "By the clock, too, the attention part costs N²D and the MLP ND²: exponents of N, 512 to 2,048.",
        "2.0 1.0",
        timed_costs,
        "Scores and mixing alone, as counted above; one thread of a processor, width 64.",
        tolerance=0.3,
        kind=OURS,
    ),
)
