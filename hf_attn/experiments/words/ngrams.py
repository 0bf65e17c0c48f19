"""Counting what followed the last L tokens, against attention that reads all of them.

An n-gram model with L = n − 1 tokens of context is a table of V^(L+1) probabilities (Shannon 1948): the
longer the context, the larger the table, and the rarer what it has met. Attention's parameters do not grow
with its context.
"""

import dataclasses
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from hf_attn.evaluation.metrics import evaluate
from hf_attn.experiments.base import (
    Experiment,
    Finding,
    Row,
    learn,
    mean_of,
    points_of,
    settings_of,
    values_of,
)
from hf_attn.tasks.batch import IGNORED, START
from hf_attn.tasks.splits import HELD_OUT, SPLITS, TRAINING, VALIDATION
from hf_attn.tasks.text.language import Language
from hf_attn.viz.draw_chart import Chart

ATTENTION = "attention"
DISCOUNTS = (0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98)  # what is tried on the validation part


@dataclass(frozen=True)
class Sizes:
    """What is counted and trained."""

    task: Language = Language(window=128)  # noqa: RUF009 - frozen
    contexts: tuple[int, ...] = (1, 2, 3, 4, 5)  # L of each table, from short to long
    steps: int = 600  # of the attention model's training
    batch_size: int = 32  # passages a step
    passages: int = 1000  # of the validation part, and of the held-out one


@dataclass(frozen=True)
class Counts:
    """How often each n-gram of one length was met."""

    keys: torch.Tensor  # [N] sorted; a context and its next token as one number in base V
    counts: torch.Tensor  # [N]
    contexts: torch.Tensor  # [C] sorted; the contexts among them
    totals: torch.Tensor  # [C] the sum of their counts
    kinds: torch.Tensor  # [C] how many different tokens followed it


def _look_up(keys: torch.Tensor, values: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """The value of each key; 0 where it was never met."""
    places = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
    return values[places] * (keys[places] == wanted)


class NGrams:
    """A table of what followed the last L tokens, interpolated and smoothed as Kneser and Ney do.

        p_L(w | h) = max(c(h w) − δ, 0) / c(h) + δ N(h) / c(h) · p_{L−1}(w | h'),   p_{−1} = 1 / V

    with N(h) the number of different tokens that followed h, and h' the context without its first token. At
    the longest context c counts how often something was met, at shorter ones behind how many different tokens
    (Kneser & Ney 1995, doi:10.1109/icassp.1995.479394). A context never met leaves all to the shorter one.

    Args:
        grams: [N, L + 1] contexts with their next token, as they were met.
        vocab_size: V.
    """

    def __init__(self, grams: torch.Tensor, vocab_size: int):
        if vocab_size ** grams.shape[1] > 2**62:
            raise ValueError(
                f"contexts of {grams.shape[1] - 1} tokens out of {vocab_size} are too many to number: "
                "choose shorter ones, or a smaller vocabulary."
            )
        self.vocab_size = vocab_size
        self.orders: list[Counts] = []  # from no context to the longest
        numbers = self._number(grams)
        for length in reversed(range(1, grams.shape[1] + 1)):
            keys, counts = numbers.unique(return_counts=True)
            contexts, owner = (keys // vocab_size).unique(return_inverse=True)
            totals = torch.zeros_like(contexts).index_add_(0, owner, counts)
            self.orders.insert(0, Counts(keys, counts, contexts, totals, owner.bincount()))
            numbers = keys % vocab_size ** (length - 1)  # each different one, without its first token

    def _number(self, grams: torch.Tensor) -> torch.Tensor:
        """[N, n] ids → [N], read as digits."""
        number = torch.zeros_like(grams[:, 0])
        for column in grams.unbind(1):
            number = number * self.vocab_size + column
        return number

    def probabilities(self, grams: torch.Tensor, discount: float) -> torch.Tensor:
        """[N, L + 1] contexts with a next token → [N] p(w | h)."""
        shares = torch.full((len(grams),), 1 / self.vocab_size, dtype=torch.float64)
        for length, order in enumerate(self.orders):
            numbers = self._number(grams[:, grams.shape[1] - 1 - length :])
            met = _look_up(order.keys, order.counts, numbers).double()
            context = numbers // self.vocab_size
            total = _look_up(order.contexts, order.totals, context).double()
            kinds = _look_up(order.contexts, order.kinds, context).double()
            counted = (met - discount).clamp(min=0) + discount * kinds * shares
            shares = torch.where(total > 0, counted / total.clamp(min=1), shares)
        return shares

    def perplexity(self, grams: torch.Tensor, discount: float) -> float:
        """exp(mean −log p) of the next tokens."""
        return math.exp(-float(self.probabilities(grams, discount).log().mean()))


def grams_of(passages: torch.Tensor, context: int) -> torch.Tensor:
    """Every token of passages [B, T] with the L before it: [N, L + 1].

    `<s>` stands before the first as often as needed; −100 behind a passage does not count.
    """
    before = torch.full((len(passages), context), START)
    windows = torch.cat((before, passages), dim=1).unfold(1, context + 1, 1)  # [B, T, L + 1]
    return windows[passages != IGNORED]


@dataclass(frozen=True, eq=False)
class Table:
    """A counted table and how surprised it is.

    Attributes:
        context: L, tokens that it reads.
        counted: [N, L + 1] every context with its next token, as they were met.
        grams: their table.
        discount: δ that was best on the validation part.
        perplexity: on the held-out part.
        cells: V^(L + 1), how many numbers the full table has.
        met: how many of them the text fills.
    """

    context: int
    counted: torch.Tensor
    grams: NGrams
    discount: float
    perplexity: float
    cells: int
    met: int


def count_table(parts: Mapping[str, torch.Tensor], context: int, vocab_size: int) -> Table:
    """Count contexts of L tokens in training passages, choose δ by validation, measure on those held out.

    `parts` has the passages of each split, [B, T] with −100 behind each.
    """
    counted, tried, measured = (grams_of(parts[split], context) for split in (TRAINING, VALIDATION, HELD_OUT))
    grams = NGrams(counted, vocab_size)
    discount = min(DISCOUNTS, key=lambda discount: grams.perplexity(tried, discount))
    perplexity = grams.perplexity(measured, discount)
    met = len(grams.orders[-1].keys)
    return Table(context, counted, grams, discount, perplexity, vocab_size ** (context + 1), met)


def run(sizes: Sizes, seed: int) -> Iterator[Row]:
    """A row for each length of context, then one for attention; all see the same passages."""
    task, vocab_size = sizes.task, len(sizes.task.vocabulary)
    is_training = task.encoded.splits == SPLITS.index(TRAINING)
    parts = {
        TRAINING: task.encoded.targets.rows(is_training.nonzero().squeeze(1)).padded(IGNORED),
        VALIDATION: task.validation(sizes.passages).labels,
        HELD_OUT: task.held_out(sizes.passages).labels,
    }
    for context in sizes.contexts:
        started = time.perf_counter()
        table = count_table(parts, context, vocab_size)
        yield {
            "model": f"{context + 1}-gram",
            "context": context,
            "seed": seed,
            "perplexity": table.perplexity,
            "bits_per_token": math.log2(table.perplexity),
            "parameters": table.cells,
            "met": table.met,
            "discount": table.discount,
            "tokens": int((parts[HELD_OUT] != IGNORED).sum()),
            "seconds": round(time.perf_counter() - started, 2),
        }
    recipe = dataclasses.replace(task.recipe, steps=sizes.steps, batch_size=sizes.batch_size)
    model, seconds = learn(task, recipe, seed)
    score = evaluate(model, task, n=sizes.passages).overall
    yield {
        "model": ATTENTION,
        "context": task.window - 1,
        "seed": seed,
        **score.measures,
        "parameters": model.num_parameters(),
        "met": None,
        "discount": None,
        "tokens": score.examples,
        "seconds": round(seconds, 2),
    }


def judge(rows: Sequence[Row]) -> tuple[Finding, ...]:
    tables = [model for model in settings_of(rows, "model") if model != ATTENTION]
    perplexity = {model: mean_of(rows, "perplexity", model=model) for model in (*tables, ATTENTION)}
    parameters = {model: values_of(rows, "parameters", model=model)[0] for model in perplexity}
    best = min(tables, key=lambda model: perplexity[model])
    met = {model: values_of(rows, "met", model=model)[0] for model in tables}
    figures = ", ".join(f"{model} {value:.2f}" for model, value in perplexity.items())
    short = tables[:2]
    return (
        Finding(
            f"Attention has a lower perplexity than {' and '.join(short)}.",
            all(perplexity[ATTENTION] < perplexity[model] for model in short),
            f"perplexity {figures}",
        ),
        Finding(
            f"Attention has a lower perplexity than the best table, {best}.",
            perplexity[ATTENTION] < perplexity[best],
            f"{perplexity[ATTENTION]:.2f} against {perplexity[best]:.2f}",
        ),
        Finding(
            f"The full table of {best} has more cells than attention has parameters.",
            parameters[best] > parameters[ATTENTION],
            f"{parameters[best]:,} against {parameters[ATTENTION]:,}",
        ),
        Finding(
            f"The text fills less than 1% of the cells of {tables[-1]}.",
            met[tables[-1]] < 0.01 * parameters[tables[-1]],
            "cells, and how many the text fills: "
            + ", ".join(f"{model} {parameters[model]:,} / {met[model]:,.0f}" for model in tables),
        ),
    )


def draw(rows: Sequence[Row]) -> Chart:
    tables = [row for row in rows if row["model"] != ATTENTION]
    return Chart(
        "Next tokens of held-out text",
        "tokens of context, L",
        "perplexity",
        {"table of (L + 1)-grams": points_of(tables, "context", "perplexity")},
        log_y=True,
        level=mean_of(rows, "perplexity", model=ATTENTION),
        level_label=f"attention over {settings_of(rows, 'context', model=ATTENTION)[0]} tokens",
    )


EXPERIMENT = Experiment(
    title="Tables of n-grams and attention",
    question="How well do tables of n-grams and attention predict the next token from the last L?",
    settings=("model", "context"),
    sizes=Sizes(),
    full=Sizes(contexts=(1, 2, 3, 4, 5, 6), steps=3000, passages=2000),
    count=lambda sizes: len(sizes.contexts) + 1,
    run=run,
    judge=judge,
    draw=draw,
)
