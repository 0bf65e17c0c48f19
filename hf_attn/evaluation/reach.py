"""Inputs longer than those that were learned: which models read them, and how many are answered right."""

import dataclasses

import torch
from transformers import PreTrainedConfig

from hf_attn.evaluation.metrics import Score, find_right, next_logits, parts_of, score_answers
from hf_attn.models.positions import POSITION_TYPES
from hf_attn.tasks.base import Task
from hf_attn.tasks.batch import IGNORED, Batch

EXAMPLES_AT_ONCE = 25  # long ones


def can_reach(task: Task, config: PreTrainedConfig) -> bool:
    """Whether a task has inputs longer than any learned, and the model counts places in their text."""
    positions = POSITION_TYPES.get(getattr(config, "position_type", ""))
    return bool(task.longest_size and config.is_encoder_decoder and positions and positions.counts_text)


def widen_task(task: Task, config: PreTrainedConfig) -> Task:
    """The task as a model reads and judges a person's input: up to `longest_size` where it can reach."""
    if not can_reach(task, config):
        return task
    return dataclasses.replace(task, **{str(task.sizes[0].option): task.longest_size})  # type: ignore[type-var]


def measure_reach(model, task: Task, size: int, n: int, seed: int = 0) -> dict[str, Score]:
    """The share that is right of n inputs of each kind, all of one size, by `find_right`.

    What is written greedily is right just where that says so; the right answers are Python's.

    Raises:
        ValueError: the task has no inputs of that size.
    """
    scores = {}
    for kind, batch in task.beyond(size, n, seed).items():
        right = [find_right(model, task, part) for part in parts_of(batch, model, EXAMPLES_AT_ONCE)]
        scores[kind] = score_answers(torch.cat(right).tolist())
    return scores


def measure_least_sure(model, task: Task, size: int, n: int, kept: int, seed: int = 0) -> Score:
    """The share that is right of the `kept` of which the model is least sure, of n inputs of one size.

    How sure it is of an answer: by how much the true token's score exceeds the highest other, at the place
    where it does so least. Below 0 the answer is wrong. As many of each kind are searched.

    Raises:
        ValueError: the task has no inputs of that size.
    """
    kinds = task.beyond(size, 1, seed)
    margins = [
        find_margins(model, part)
        for batch in task.beyond(size, -(-n // len(kinds)), seed).values()
        for part in parts_of(batch, model, EXAMPLES_AT_ONCE)
    ]
    return score_answers((torch.cat(margins).sort().values[:kept] > 0).tolist())


def find_margins(model, batch: Batch) -> torch.Tensor:
    """The smallest (score of the true token - highest score of another) over a target's places: [B]."""
    logits, labels = next_logits(model, batch), batch.labels.unsqueeze(-1)
    is_true = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, labels.clamp(min=0), True)
    others = logits.masked_fill(is_true, -torch.inf).amax(-1)
    margins = logits.gather(-1, labels.clamp(min=0)).squeeze(-1) - others
    return margins.masked_fill(batch.labels == IGNORED, torch.inf).amin(-1)
