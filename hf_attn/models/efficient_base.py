"""The base of every efficient kind of self-attention: how it is called, and which token may read which.

`sequences` everywhere is [B or 1, S]: tokens that may read each other share a number, padding is 0; with a
cache the queries are the last T of the S tokens.
"""

from collections.abc import Callable

import torch
from transformers.masking_utils import find_packed_sequence_indices

from .attention import MultiHeadAttention


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


def efficient_attention_forward(module, query, key, value, attention_mask, position_bias=None, **_):
    """Call a kind's kernel as `eager_attention_forward` is called: (Y [B, T, H, Dh], None for no map)."""
    read = cut_to_length(key, value, attention_mask, position_bias)
    return module.attend(query, *read).transpose(1, 2), None


def plain_attention_forward(module, query, key, value, attention_mask, position_bias=None, **_):
    """Call a kind's plain twin as `eager_attention_forward` is called: (Y [B, T, H, Dh], A [B, H, T, S])."""
    output, weights = module.attend_plainly(query, *cut_to_length(key, value, attention_mask, position_bias))
    return output.transpose(1, 2), weights


def cut_to_length(key, value, sequences, bias):
    """Cut off the slots of a static cache that are still empty; without `sequences` all tokens are one."""
    if sequences is None:
        sequences = torch.ones(1, key.shape[2], dtype=torch.long, device=key.device)
    length = sequences.shape[1]
    return key[:, :, :length], value[:, :, :length], sequences, None if bias is None else bias[..., :length]


def mark_sequences(inputs_embeds, attention_mask, past_key_values=None, position_ids=None) -> torch.Tensor:
    """Number the sequence that each token belongs to, from 1, and padding 0: [B or 1, past + T].

    The mask is [B, past + T], 1 = token. Without mask and cache each 0 of the position_ids, [B, T], begins a
    new sequence. ValueError: no tokens, or a mask that has a place for each pair, or not one for each token.
    """
    batch, length = inputs_embeds.shape[:2]
    if batch == 0 or length == 0:
        raise ValueError(f"{batch} rows of {length} tokens hold nothing to read: give at least one token.")
    past_length = 0 if past_key_values is None else past_key_values.get_seq_length()
    if attention_mask is not None:
        if attention_mask.dim() != 2:
            raise ValueError(
                f"attention_mask of shape {list(attention_mask.shape)} says of each pair whether it may be "
                'read, and this attention_type forms no pairs: give [B, S], or choose attention_type="full".'
            )
        # a static cache counts in a tensor, which would have to be waited for
        is_counted = not isinstance(past_length, torch.Tensor)
        wanted = past_length + length if is_counted else max(length, attention_mask.shape[1])
        if attention_mask.shape != (batch, wanted):
            raise ValueError(
                f"attention_mask of shape {list(attention_mask.shape)} does not fit {batch} rows of {length} "
                f"tokens: give {[batch, wanted]}, a 1 or 0 for each token, those in the cache included."
            )
        return (attention_mask != 0).long()
    if past_key_values is None and position_ids is not None:
        packed = find_packed_sequence_indices(position_ids)
        if packed is not None:
            return packed + 1
    return torch.ones(1, int(past_length) + length, dtype=torch.long, device=inputs_embeds.device)


def may_read(sequences: torch.Tensor, length: int, is_causal: bool) -> torch.Tensor:
    """Which of the last `length` tokens may read which: [B or 1, 1, T, S], True = may."""
    queries, keys = sequences[:, -length:, None], sequences[:, None]
    allowed = (queries == keys) & (queries != 0)  # [B, T, S]
    return (allowed.tril(sequences.shape[1] - length) if is_causal else allowed).unsqueeze(1)
