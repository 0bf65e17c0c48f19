"""The attention map in a checkpoint's folder: one head on the task's worked example."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedModel

from hf_attn.architectures.families import is_recurrent
from hf_attn.interpret.attention_maps import (
    AnsweringMap,
    attention_maps,
    find_attentions,
    weight_on_alignment,
)
from hf_attn.tasks import Task
from hf_attn.tasks.tokenizers.from_vocabulary import build_tokenizer
from hf_attn.viz.draw_map import draw_map

MAP = "map.png"  # in the checkpoint's folder


@dataclass(frozen=True)
class WorkedMap:
    """One head's map of the worked example.

    Attributes:
        maps: of every layer and head, in which the answer reads the source.
        layer, head: the one that is shown, from 0.
        alignment: where the answer is known to lie, in the maps' shape; None where that is not known.
        weight: of the head shown: its share on the alignment, or without one the mean of every row's greatest
            weight. No other head's is greater.
    """

    maps: AnsweringMap
    layer: int
    head: int
    alignment: Sequence[Sequence[int]] | None
    weight: float

    def describe(self) -> dict:
        """Return its entry in training.json."""
        return {
            "kind": self.maps.kind,
            "layer": self.layer,
            "head": self.head,
            "heads": self.maps.weights.shape[0] * self.maps.weights.shape[1],
            "is_aligned": self.alignment is not None,
            "weight": round(self.weight, 4),
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
    """Find the head with most weight on the known alignment; without one, the sharpest head.

    None where the model forms no weights (a recurrent one without a score function, an efficient kernel), or
    none that are finite.
    """
    if not _forms_maps(model):
        return None
    source = task.worked_example.source
    maps = attention_maps(model, task.encode(source), tokenizer=build_tokenizer(task))
    answering = maps.answering
    if answering is None or not answering.weights.isfinite().all():
        return None
    alignment = None
    if answering.kind != "encoder":
        alignment = answering.align(task.alignment(source, task.decode(maps.answer_ids)))
    if alignment is None or not any(map(any, alignment)):  # a wrong answer may depend on nothing
        shares = answering.weights.amax(-1).mean(-1)  # [L, H]
    else:
        shares = weight_on_alignment(answering.weights, alignment)
    layer, head = divmod(int(shares.argmax()), shares.shape[1])
    return WorkedMap(answering, layer, head, alignment, float(shares[layer, head]))


def _forms_maps(model: PreTrainedModel) -> bool:
    kinds = find_attentions(model)
    if model.config.is_encoder_decoder and not is_recurrent(model.config):
        return len(kinds) == 3
    return bool(kinds)
