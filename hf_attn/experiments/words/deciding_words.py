"""Which models find the earlier words that decide a later one, in a toy English (`tasks/text/sentences`).

A decoder-only Transformer (Vaswani et al. 2017, arXiv:1706.03762), the same with one layer and without
positions, an LSTM (Hochreiter & Schmidhuber 1997) of as many parameters at as many steps and at three times
as many, and tables of what followed the last words (Shannon 1948).
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from hf_attn.evaluation.metrics import evaluate, score_answers
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
from hf_attn.experiments.words.ngrams import NGrams, grams_of
from hf_attn.tasks.batch import IGNORED, PAD, START
from hf_attn.tasks.recipes import Recipe
from hf_attn.tasks.text.sentences import Sentences
from hf_attn.tasks.text.toy_english import FAMILIES
from hf_attn.training.duel import find_nearest
from hf_attn.training.loop import build_optimizer, learning_rate_at
from hf_attn.viz.draw_chart import Chart

TASK = Sentences()
TRANSFORMER, ONE_LAYER, NO_POSITIONS = "Transformer", "one layer", "no positions"
CHANGES: dict[str, dict[str, object]] = {
    TRANSFORMER: {},
    ONE_LAYER: {"num_hidden_layers": 1},
    NO_POSITIONS: {"position_type": "none"},
}
LONGER = 3  # times the steps that the LSTM is given, too
DISCOUNT = 0.8
GOAL, GOAL_OF_EACH = 0.99, 0.97


@dataclass(frozen=True)
class Sizes:
    """What is trained and counted."""

    steps: int = 2700  # of each training
    batch_size: int = 48  # passages of each step
    contexts: tuple[int, ...] = (1, 2, 4)  # words that the tables read
    counted: int = 60_000  # passages that they count
    passages: int = 2000  # held-out ones that all are measured on


class LSTMLanguageModel(nn.Module):
    """One table of embeddings, an LSTM, and a linear map to scores of the next word."""

    def __init__(self, size: int):
        super().__init__()
        self.embeddings = nn.Embedding(len(TASK.tokens), size)
        self.cells = nn.LSTM(size, size, batch_first=True)
        self.head = nn.Linear(size, len(TASK.tokens))

    def forward(self, labels: torch.Tensor) -> torch.Tensor:
        """[B, T] words → [B, T, V] scores of each, given those before it."""
        before = torch.cat((torch.full_like(labels[:, :1], START), labels[:, :-1]), dim=1)
        return self.head(self.cells(self.embeddings(before.masked_fill(before == IGNORED, PAD)))[0])


def train_lstm(recipe: Recipe, parameters: int, seed: int) -> tuple[LSTMLanguageModel, float]:
    """(an LSTM with about so many parameters that learned by this recipe, seconds)."""

    def count(size: int) -> int:
        with torch.device("meta"):
            return sum(weight.numel() for weight in LSTMLanguageModel(size).parameters())

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LSTMLanguageModel(find_nearest(count, parameters, guess=64))
    optimizer = build_optimizer(model, recipe)
    generator, started = torch.Generator().manual_seed(seed), time.perf_counter()
    for step in range(recipe.steps):
        labels = TASK.sample(generator, recipe.batch_size).labels
        loss = cross_entropy(model(labels).flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), recipe.max_grad_norm)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate_at(step, recipe)
        optimizer.step()
        optimizer.zero_grad()
    return model, time.perf_counter() - started


def count_words(context: int, sizes: Sizes, labels: torch.Tensor, seed: int) -> torch.Tensor:
    """[B, T, V] probabilities of a table that reads so many words, where a word is judged; 0 elsewhere."""
    counted = TASK.sample(torch.Generator().manual_seed(seed), sizes.counted).labels
    table = NGrams(grams_of(counted, context), len(TASK.tokens))
    before = torch.cat((torch.full((len(labels), context), START), labels), dim=1).unfold(1, context + 1, 1)
    judged = TASK.count_tokens(labels)
    contexts = before[judged][:, :-1].repeat_interleave(len(TASK.tokens), 0)  # [N V, L]
    words = torch.arange(len(TASK.tokens)).repeat(int(judged.sum())).unsqueeze(1)
    found = torch.zeros(*labels.shape, len(TASK.tokens))
    chances = table.probabilities(torch.cat((contexts, words), dim=1), DISCOUNT)
    found[judged] = chances.view(-1, len(TASK.tokens)).float()
    return found


def figures_of(right: torch.Tensor, labels: torch.Tensor) -> Row:
    """The share of decided words that are guessed, over all and of each kind."""
    kinds = TASK.sizes_of_tokens(labels)
    score = score_answers(right.tolist())
    shares = {
        kind: score_answers(
            [bool(one) for one, its in zip(right, kinds, strict=True) if its == kind]
        ).exact_match
        for kind in FAMILIES
        if kind in kinds
    }
    return {
        "exact_match": score.exact_match,
        "low": score.interval.low,
        "high": score.interval.high,
        "examples": score.examples,
        **shares,
    }


def run(sizes: Sizes, seed: int) -> Iterator[Row]:
    labels = TASK.held_out(sizes.passages).labels
    recipe = replace(TASK.recipe, steps=sizes.steps, batch_size=sizes.batch_size)
    parameters = 0
    for name, changes in CHANGES.items():
        model, seconds = learn(TASK, replace(recipe, model={**recipe.model, **changes}), seed)
        parameters = parameters or model.num_parameters()
        found = evaluate(model, TASK, n=sizes.passages)
        overall = found.overall
        yield {
            "model": name,
            "seed": seed,
            "parameters": model.num_parameters(),
            "steps": recipe.steps,
            "exact_match": overall.exact_match,
            "low": overall.interval.low,
            "high": overall.interval.high,
            "examples": overall.examples,
            **{str(kind): score.exact_match for kind, score in found.by_size.items()},
            "seconds": round(seconds, 2),
        }
    for name, times in (("LSTM", 1), (f"LSTM, {LONGER} times the steps", LONGER)):
        lstm, seconds = train_lstm(replace(recipe, steps=times * recipe.steps), parameters, seed)
        with torch.no_grad():
            right = torch.cat([TASK.judge_tokens(lstm(part), part) for part in labels.split(500)])
        size = sum(weight.numel() for weight in lstm.parameters())
        row = {"model": name, "seed": seed, "parameters": size, "steps": times * recipe.steps}
        yield {**row, **figures_of(right, labels), "seconds": round(seconds, 2)}
    for context in sizes.contexts:
        started = time.perf_counter()
        right = TASK.judge_tokens(count_words(context, sizes, labels, seed), labels)
        seconds = round(time.perf_counter() - started, 2)
        row = {"model": f"{context + 1}-grams", "seed": seed, "parameters": 0, "steps": 0}
        yield {**row, **figures_of(right, labels), "seconds": seconds}


def judge(rows: Sequence[Row]) -> tuple[Finding, ...]:
    models = settings_of(rows, "model")
    overall = values_of(rows, "exact_match", model=TRANSFORMER)
    worst = {
        kind: min(values_of(rows, kind, model=TRANSFORMER))
        for kind in FAMILIES
        if all(kind in row for row in rows)
    }
    least = min(worst, key=worst.__getitem__)
    shares = ", ".join(f"{model} {mean_of(rows, 'exact_match', model=model):.3f}" for model in models)
    tables = [model for model in models if model.endswith("-grams")]
    slow, long = "LSTM", f"LSTM, {LONGER} times the steps"
    return (
        Finding(
            f"On every seed the Transformer guesses at least {GOAL:.0%} of the decided words.",
            min(overall) >= GOAL,
            " / ".join(f"{share:.4f}" for share in overall),
        ),
        Finding(
            f"On every seed it guesses at least {GOAL_OF_EACH:.0%} of each kind.",
            worst[least] >= GOAL_OF_EACH,
            f"at worst {worst[least]:.4f}, {least}",
        ),
        Finding(
            "No table of the last words comes near it.",
            all(mean_of(rows, "exact_match", model=table) < 0.5 for table in tables),
            shares,
        ),
        Finding(
            "The LSTM of the same size is behind it at the same steps, and less so at three times as many.",
            mean_of(rows, "exact_match", model=slow)
            < mean_of(rows, "exact_match", model=long)
            < mean_of(rows, "exact_match", model=TRANSFORMER),
            shares,
        ),
        Finding(
            "The LSTM is as good at agreement between noun and verb: within 1 %.",
            mean_of(rows, "is or are", model=slow) >= mean_of(rows, "is or are", model=TRANSFORMER) - 0.01,
            f"LSTM {mean_of(rows, 'is or are', model=slow):.3f}, "
            f"Transformer {mean_of(rows, 'is or are', model=TRANSFORMER):.3f}",
        ),
    )


def draw(rows: Sequence[Row]) -> Chart:
    points = points_of(rows, "model", "exact_match")
    return Chart("Decided words guessed", "", "share right, held out", {"all kinds": points})


EXPERIMENT = Experiment(
    title="Words that earlier words decide",
    question="Which models find the earlier words that decide a later one, in pairs that they never met?",
    settings=("model",),
    sizes=Sizes(),
    full=Sizes(steps=8100),
    count=lambda sizes: len(CHANGES) + 2 + len(sizes.contexts),
    run=run,
    judge=judge,
    draw=draw,
)
