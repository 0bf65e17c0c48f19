"""Sequences of ids as tensors: batches of examples, and rows of unequal length."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")
PAD, START, END, UNKNOWN = range(len(SPECIAL_TOKENS))
IGNORED = -100  # a label that is not learned


@dataclass(frozen=True)
class Batch:
    """Examples as tensors.

    Attributes:
        input_ids: [B, S] source ids, each ending in `</s>`, padded on the right.
        labels: [B, T] target ids, each ending in `</s>`, padded with −100; or [B] classes.
        attention_mask: [B, S], 1 = token; None where no source is padded, so that kernels need no mask.
    """

    input_ids: torch.Tensor
    labels: torch.Tensor
    attention_mask: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.input_ids)

    def inputs(self) -> dict[str, torch.Tensor]:
        """What `model(**…)` takes to learn from."""
        given = {"input_ids": self.input_ids, "labels": self.labels, "attention_mask": self.attention_mask}
        return {name: tensor for name, tensor in given.items() if tensor is not None}

    def prompt(self) -> tuple[torch.Tensor, torch.Tensor]:
        """(ids [B, S], mask [B, S]): the sources padded on the left, so that writing goes on behind each."""
        if self.attention_mask is None:
            return self.input_ids, torch.ones_like(self.input_ids)
        order = self.attention_mask.argsort(dim=1, stable=True)
        return self.input_ids.gather(1, order), self.attention_mask.gather(1, order)

    def joined(self) -> dict[str, torch.Tensor]:
        """For a model that reads one sequence, source `</s>` target `</s>`: the target is learned."""
        ids, mask = self.prompt()
        is_target = self.labels != IGNORED
        return {
            "input_ids": torch.cat((ids, self.labels.masked_fill(~is_target, PAD)), dim=1),
            "labels": torch.cat((torch.full_like(ids, IGNORED), self.labels), dim=1),
            "attention_mask": torch.cat((mask, is_target.long()), dim=1),
        }

    def __getitem__(self, rows) -> "Batch":
        mask = None if self.attention_mask is None else self.attention_mask[rows]
        return Batch(self.input_ids[rows], self.labels[rows], mask)

    def to(self, device) -> "Batch":
        """The same batch on another device."""
        mask = None if self.attention_mask is None else self.attention_mask.to(device)
        return Batch(self.input_ids.to(device), self.labels.to(device), mask)


@dataclass(frozen=True)
class Ragged:
    """Sequences of unequal length: ids [B, L] with anything behind `lengths` [B] being 0."""

    ids: torch.Tensor
    lengths: torch.Tensor

    def __add__(self, other: "Ragged") -> "Ragged":
        """Write `other` behind this, row by row."""
        width = self.ids.shape[1] + other.ids.shape[1]
        ids = self.ids.new_zeros(len(self.ids), width)
        ids[:, : self.ids.shape[1]] = self.ids
        places = self.lengths.unsqueeze(1) + torch.arange(other.ids.shape[1], device=ids.device)
        return Ragged(ids.scatter_(1, places, other.ids), self.lengths + other.lengths)

    def where(self, keep: torch.Tensor) -> "Ragged":
        """Empty the rows in which `keep` [B] is False."""
        return Ragged(self.ids * keep.unsqueeze(1), self.lengths * keep)

    def rows(self, rows: torch.Tensor) -> "Ragged":
        """Some of the rows."""
        return Ragged(self.ids[rows], self.lengths[rows])

    @staticmethod
    def of(rows: Sequence[torch.Tensor]) -> "Ragged":
        """Rows of their own lengths, together."""
        lengths = torch.tensor([len(row) for row in rows])
        return Ragged(torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True), lengths)

    @staticmethod
    def stack(parts: Sequence["Ragged"]) -> "Ragged":
        """One part's rows under the other's."""
        ids = _widen([part.ids for part in parts], PAD)
        return Ragged(ids, torch.cat([part.lengths for part in parts]))

    def padded(self, value: int) -> torch.Tensor:
        """[B, longest], with `value` behind each sequence."""
        longest = int(self.lengths.max())
        behind = torch.arange(longest, device=self.ids.device) >= self.lengths.unsqueeze(1)
        return self.ids[:, :longest].masked_fill(behind, value)


def constant(token: int, like: torch.Tensor) -> Ragged:
    """The same one token in each of `like`'s rows [B]."""
    return Ragged(torch.full_like(like, token).unsqueeze(1), torch.ones_like(like))


def join_batches(batches: Sequence[Batch]) -> Batch:
    """One batch of all the examples."""
    input_ids = _widen([batch.input_ids for batch in batches], PAD)
    mask = (input_ids != PAD).long()
    parts = [batch.labels for batch in batches]
    labels = torch.cat(parts) if parts[0].dim() == 1 else _widen(parts, IGNORED)
    return Batch(input_ids, labels, None if mask.all() else mask)


def pad_inputs(inputs: dict[str, torch.Tensor], source: int, target: int) -> dict[str, torch.Tensor]:
    """What a model learns from, its rows padded on the right to so many ids and labels, with a mask."""
    ids, labels = inputs["input_ids"], inputs["labels"]
    mask = inputs.get("attention_mask", torch.ones_like(ids))
    return {
        "input_ids": _fill_up(ids, source, PAD),
        "labels": labels if labels.dim() == 1 else _fill_up(labels, target, IGNORED),
        "attention_mask": _fill_up(mask, source, 0),
    }


def _widen(tensors: Sequence[torch.Tensor], value: int) -> torch.Tensor:
    """Rows of unequal width under each other, with `value` behind the shorter."""
    width = max(tensor.shape[1] for tensor in tensors)
    return torch.cat([_fill_up(tensor, width, value) for tensor in tensors])


def _fill_up(ids: torch.Tensor, width: int, value: int) -> torch.Tensor:
    """[B, L] → [B, width], with `value` behind each row; a longer one stays."""
    return torch.nn.functional.pad(ids, (0, max(0, width - ids.shape[1])), value=value)
