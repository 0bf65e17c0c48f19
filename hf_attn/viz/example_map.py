"""The attention map in a checkpoint's folder: one head on the task's worked example."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from hf_attn.analysis.head_roles import build_attention_mask, build_untrained, spread_evenly
from hf_attn.architectures.families import is_recurrent
from hf_attn.interpret.attention_maps import (
    AnsweringMap,
    AttentionMaps,
    attention_maps,
    find_attentions,
    weight_on_alignment,
)
from hf_attn.tasks import Task
from hf_attn.tasks.tokenizers.from_vocabulary import build_tokenizer
from hf_attn.viz.draw_map import draw_map

MAP = "map.png"  # in the checkpoint's folder
CHOSEN_ON = 50  # validation examples that choose the head

Alignment = Sequence[Sequence[int]] | None


@dataclass(frozen=True)
class WorkedMap:
    """One head's map of the worked example.

    Attributes:
        maps: of every layer and head, in which the answer reads the source.
        layer, head: the one that is shown, from 0: of all heads the one with the highest score on average
            over `chosen_on` validation examples; where there are none, in this example.
        alignment: where the answer is known to lie, in the maps' shape; None where that is not known.
        weight: the head's score in this example: its share on the alignment, or without one the mean of every
            row's greatest weight.
        even: the score of even weights.
        untrained: the score of the same head of the model before its first step.
        chosen_on: how many validation examples chose the head.
    """

    maps: AnsweringMap
    layer: int
    head: int
    alignment: Alignment
    weight: float
    even: float
    untrained: float
    chosen_on: int

    def describe(self) -> dict:
        """Return its entry in training.json."""
        return {
            "kind": self.maps.kind,
            "layer": self.layer,
            "head": self.head,
            "heads": self.maps.weights.shape[0] * self.maps.weights.shape[1],
            "is_aligned": self.alignment is not None,
            "weight": round(self.weight, 4),
            "even": round(self.even, 4),
            "untrained": round(self.untrained, 4),
            "chosen_on": self.chosen_on,
        }

    def draw(self, folder: Path) -> Path:
        """Write the picture into a folder."""
        return draw_map(
            self.maps.weights[self.layer, self.head],
            self.maps.rows,
            self.maps.columns,
            folder / MAP,
            alignment=self.alignment,
            title=f"{self.maps.kind} attention, layer {self.layer}, head {self.head}",
        )


def find_worked_map(model: PreTrainedModel, task: Task) -> WorkedMap | None:
    """Find the head with most weight on the known alignment over validation examples; else the sharpest one.

    None where the model forms no weights (a recurrent one without a score function, an efficient kernel), or
    none that are finite.
    """
    if not _forms_maps(model):
        return None
    source = task.encode(task.worked_example.source)
    tokenizer = build_tokenizer(task)
    maps = attention_maps(model, source, tokenizer=tokenizer)
    if maps.answering is None or not maps.answering.weights.isfinite().all():
        return None
    alignment = find_alignment(task, maps, maps.answering)
    scores = score_heads(maps.answering.weights, alignment)  # [L, H]
    chosen = list(_score_validation(model, task, tokenizer, alignment)) if scores.numel() > 1 else []
    choice = torch.stack(chosen).mean(0) if chosen else scores
    layer, head = divmod(int(choice.argmax()), scores.shape[1])
    answer = maps.answer_ids if model.can_generate() else None
    untrained = attention_maps(build_untrained(model), source, answer, tokenizer=tokenizer).answering
    even = spread_evenly(build_attention_mask(maps.answering.kind, *maps.answering.weights.shape[-2:]))
    return WorkedMap(
        maps.answering,
        layer,
        head,
        alignment,
        float(scores[layer, head]),
        float(score_heads(even[None, None], alignment)),
        float(score_heads(untrained.weights, alignment)[layer, head]),  # type: ignore[union-attr]
        len(chosen),
    )


def find_alignment(task: Task, maps: AttentionMaps, answering: AnsweringMap) -> Alignment:
    """Where the answer that the maps show is known to lie; None where nothing is known of it."""
    if answering.kind == "encoder":
        return None
    known = task.alignment(task.read_source(maps.source_ids), task.decode(maps.answer_ids))
    alignment = answering.align(known)
    return alignment if alignment and any(map(any, alignment)) else None  # a wrong answer may need nothing


def score_heads(weights: torch.Tensor, alignment: Alignment) -> torch.Tensor:
    """[L, H]: each head's share on the alignment, or without one the mean of every row's greatest weight."""
    return weights.amax(-1).mean(-1) if alignment is None else weight_on_alignment(weights, alignment)


def _score_validation(
    model: PreTrainedModel, task: Task, tokenizer: PreTrainedTokenizerFast, shown: Alignment
) -> Iterator[torch.Tensor]:
    """The heads' scores in validation examples with their right answers; none where the data are not here."""
    try:
        batch = task.validation(CHOSEN_ON)
    except ValueError:
        return
    for row in range(len(batch)):
        maps = attention_maps(model, batch, row=row, tokenizer=tokenizer)
        if maps.answering is None:
            return
        alignment = find_alignment(task, maps, maps.answering)
        if (alignment is None) == (shown is None):
            yield score_heads(maps.answering.weights, alignment)


def _forms_maps(model: PreTrainedModel) -> bool:
    kinds = find_attentions(model)
    if model.config.is_encoder_decoder and not is_recurrent(model.config):
        return len(kinds) == 3
    return bool(kinds)
