"""The base of every efficient kind of self-attention: how it is called, and which token may read which.

`sequences` everywhere is [B or 1, S]: tokens that may read each other share a number, padding is 0; with a
cache the queries are the last T of the S tokens.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn
from transformers.masking_utils import find_packed_sequence_indices

from .attention import MultiHeadAttention, refuse_padding_mask


class EfficientAttention(MultiHeadAttention):
    """Shared by the efficient kinds: each has its own kernel instead of one for all pairs.

    Attributes:
        adds_bias: whether a bias can be added to the scores.
        not_causal: why it cannot hide the future; None where it can.
    """

    adds_bias = False
    not_causal: str | None = None

    def choose_kernel(self) -> Callable:
        """The plain twin for "eager", else the kind's own kernel."""
        is_plain = self.config._attn_implementation == "eager"
        return plain_attention_forward if is_plain else efficient_attention_forward

    def attend(self, query, key, value, sequences, bias=None) -> torch.Tensor:
        """[B, H, T, Dh] reading [B, H, S, Dh] → [B, H, T, Dh], without a number for each pair."""
        raise NotImplementedError

    def attend_plainly(self, query, key, value, sequences, bias=None) -> tuple[torch.Tensor, torch.Tensor]:
        """The same by all pairs: (Y [B, H, T, Dh], A [B, H, T, S]) with Y = A V."""
        raise NotImplementedError

    def reset(self) -> None:
        """Draw what the kind has beside its linear maps."""


class StaticSequences(NamedTuple):
    """What stands in a static cache, turned so that the newest tokens come last and slots that wait first.

    Attributes:
        sequences: [B or 1, S], 0 also where a slot is still empty.
        slots: [S], the slot of the cache that each is in.
    """

    sequences: torch.Tensor
    slots: torch.Tensor


def efficient_attention_forward(module, query, key, value, attention_mask, position_bias=None, **_):
    """Call a kind's kernel as `eager_attention_forward` is called: (Y [B, T, H, Dh], None for no map)."""
    read = reorder_static_cache(key, value, attention_mask, position_bias)
    return module.attend(query, *read).transpose(1, 2), None


def plain_attention_forward(module, query, key, value, attention_mask, position_bias=None, **_):
    """Call a kind's plain twin as `eager_attention_forward` is called: (Y [B, T, H, Dh], A [B, H, T, S])."""
    output, weights = module.attend_plainly(
        query, *reorder_static_cache(key, value, attention_mask, position_bias)
    )
    if isinstance(attention_mask, StaticSequences):  # the map as the slots are
        weights = torch.zeros_like(weights).index_copy(-1, attention_mask.slots, weights)
    return output.transpose(1, 2), weights


def reorder_static_cache(key, value, sequences, bias):
    """Turn what comes from a static cache as its StaticSequences are; without any all tokens are one."""
    if sequences is None:
        sequences = torch.ones(1, key.shape[2], dtype=torch.long, device=key.device)
    if isinstance(sequences, StaticSequences):
        sequences, slots = sequences
        key, value = key.index_select(2, slots), value.index_select(2, slots)
        bias = None if bias is None else bias.index_select(3, slots)
    return key, value, sequences, bias


def mark_sequences(
    inputs_embeds, attention_mask, cache=None, position_ids=None
) -> torch.Tensor | StaticSequences:
    """Number the sequence that each token belongs to, from 1, and padding 0: [B or 1, past + T].

    The mask is [B, past + T], 1 = token. Without mask and cache each 0 of the position_ids, [B, T], begins a
    new sequence. ValueError: no tokens, or a mask that has a place for each pair, or not one for each token.
    """
    batch, length = inputs_embeds.shape[:2]
    if batch == 0 or length == 0:
        raise ValueError(f"{batch} rows of {length} tokens hold nothing to read: give at least one token.")
    past_length = 0 if cache is None else cache.get_seq_length()
    size = length if cache is None else cache.get_mask_sizes(length, 0)[0]
    # a static cache, of more slots than tokens; it counts in a tensor, which would have to be waited for
    is_static = isinstance(past_length, torch.Tensor) or size != past_length + length
    sequences = torch.ones(1, size, dtype=torch.long, device=inputs_embeds.device)
    if attention_mask is not None:
        if attention_mask.dim() != 2:
            raise ValueError(
                f"attention_mask of shape {list(attention_mask.shape)} says of each pair whether it may be "
                'read, and this attention_type forms no pairs: give [B, S], or choose attention_type="full".'
            )
        given = attention_mask.shape[1]
        fits = length <= given <= size if is_static else given == size
        if len(attention_mask) != batch or not fits:
            refuse_padding_mask(attention_mask, batch, length, size)
        sequences = nn.functional.pad((attention_mask != 0).long(), (0, size - given))
    elif cache is None and position_ids is not None:
        packed = find_packed_sequence_indices(position_ids)
        sequences = sequences if packed is None else packed + 1
    if not is_static:
        return sequences
    slots = torch.arange(size, device=inputs_embeds.device)
    sequences = sequences.masked_fill(slots >= past_length + length, 0)
    slots = (slots + past_length + length) % size
    return StaticSequences(sequences.index_select(1, slots), slots)


def may_read(sequences: torch.Tensor, length: int, is_causal: bool) -> torch.Tensor:
    """Which of the last `length` tokens may read which: [B or 1, 1, T, S], True = may."""
    queries, keys = sequences[:, -length:, None], sequences[:, None]
    allowed = (queries == keys) & (queries != 0)  # [B, T, S]
    return (allowed.tril(sequences.shape[1] - length) if is_causal else allowed).unsqueeze(1)
