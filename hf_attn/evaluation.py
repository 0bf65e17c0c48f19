"""How good a model is on examples that training never saw, writing freely."""

import math
from collections import defaultdict
from dataclasses import dataclass, field

import torch

from hf_attn.decoding import greedy_ids
from hf_attn.tasks.base import HELD_OUT, VALIDATION, Task
from hf_attn.tasks.sequences import END, IGNORED, PAD, Batch


@dataclass(frozen=True)
class Interval:
    """A confidence interval, both ends included."""

    low: float
    high: float


@dataclass(frozen=True)
class Score:
    """A share and how sure it is.

    Attributes:
        examples: how many were tried.
        exact_match: share that is right as a whole.
        interval: Wilson's 95 % interval of exact_match.
        measures: means of the task's other figures (token_accuracy, …).
    """

    examples: int
    exact_match: float
    interval: Interval
    measures: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """Held-out figures of a model.

    Attributes:
        overall: over all examples.
        by_size: by the task's size (length, digits, depth).
        failures: (source, prediction, answer) of the wrong ones.
    """

    overall: Score
    by_size: dict[int, Score]
    failures: tuple[tuple[str, str, str], ...]


def wilson_interval(right: int, n: int, z: float = 1.96) -> Interval:
    """Where the true share lies with 95 % confidence (Wilson 1927, doi:10.2307/2276774).

        (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n)

    Raises:
        ValueError: n is 0.
    """
    if n < 1:
        raise ValueError("n=0: there is nothing to measure on.")
    share = right / n
    middle = share + z * z / (2 * n)
    spread = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return Interval(max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale))


def predict(model, task: Task, batch: Batch, batch_size: int = 512) -> torch.Tensor:
    """Greedy answers [B, max_target_tokens], padded behind `</s>`."""
    rows = []
    for start in range(0, len(batch), batch_size):
        part = batch[slice(start, start + batch_size)].to(next(model.parameters()).device)
        ids = greedy_ids(model, part.input_ids, part.attention_mask, task.max_target_tokens)
        rows.append(torch.nn.functional.pad(ids, (0, task.max_target_tokens - ids.shape[1]), value=PAD).cpu())
    return torch.cat(rows)


def exact_matches(predictions: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """[B] bool: rows that are right to the last symbol, `</s>` included."""
    labels = torch.nn.functional.pad(labels, (0, predictions.shape[1] - labels.shape[1]), value=IGNORED)
    finished = (predictions == END).cumsum(1) - (predictions == END).long() > 0  # behind the first </s>
    return (predictions.masked_fill(finished, PAD) == labels.masked_fill(labels == IGNORED, PAD)).all(dim=1)


def share_exact(predictions: torch.Tensor, batch: Batch) -> float:
    """Share of a batch that is written right as a whole: the quick figure of a run under way."""
    return float(exact_matches(predictions, batch.labels.cpu()).float().mean())


def evaluate(model, task: Task, split: str = HELD_OUT, n: int = 1000, seed: int = 0) -> Evaluation:
    """Let the model write freely and judge every answer by the task's independent verifier.

    Args:
        model: an encoder-decoder with a head, on any device.
        task: gives examples, verifier and sizes.
        split: "held-out" or "validation".
        n: how many examples; fewer where the split has not so many.
        seed: which examples.

    Raises:
        ValueError: another split (training examples say nothing about what was learned), or n below 1.
    """
    if n < 1:
        raise ValueError(f"n={n} must be at least 1.")
    if split not in (HELD_OUT, VALIDATION):
        raise ValueError(f"split={split!r} cannot be measured on; choose {HELD_OUT!r} or {VALIDATION!r}.")
    batch = task.held_out(n, seed) if split == HELD_OUT else task.validation(n, seed)
    sources = [task.read_source(row) for row in batch.input_ids.tolist()]
    predictions = predict(model, task, batch)
    ended = (predictions == END).any(dim=1).tolist()
    answers = [task.decode(row) for row in predictions.tolist()]
    rows = [
        (has_ended and task.verify(source, answer).correct, task.measure(source, answer))
        for source, answer, has_ended in zip(sources, answers, ended, strict=True)
    ]
    groups: dict[int, list[tuple[bool, dict[str, float]]]] = defaultdict(list)
    for source, row in zip(sources, rows, strict=True):
        groups[task.size_of(source)].append(row)
    wrong = [index for index, (correct, _) in enumerate(rows) if not correct]
    return Evaluation(
        overall=_score(rows),
        by_size={size: _score(groups[size]) for size in sorted(groups)},
        failures=tuple((sources[i], answers[i], task.answer(sources[i])) for i in wrong),
    )


def _score(rows: list[tuple[bool, dict[str, float]]]) -> Score:
    right = sum(correct for correct, _ in rows)
    measures = {name: sum(figures[name] for _, figures in rows) / len(rows) for name in rows[0][1]}
    return Score(len(rows), right / len(rows), wilson_interval(right, len(rows)), measures)
