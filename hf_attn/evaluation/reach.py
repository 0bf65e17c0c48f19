"""Inputs longer than those that were learned: how many are answered right."""

import torch
from transformers import PreTrainedConfig

from hf_attn.evaluation.metrics import Score, find_right, parts_of, score_answers
from hf_attn.models.positions import POSITION_TYPES
from hf_attn.tasks.base import Task

EXAMPLES_AT_ONCE = 25  # long ones


def can_reach(task: Task, config: PreTrainedConfig) -> bool:
    """Whether a task has inputs longer than any learned, and the model counts places in their text."""
    positions = POSITION_TYPES.get(getattr(config, "position_type", ""))
    return bool(task.longest_size and config.is_encoder_decoder and positions and positions.counts_text)


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
