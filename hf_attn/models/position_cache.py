"""What a stack's tokens are told of their places, also where they go on from a cache.

The cache keeps what transformers expects of it, one layer a layer. Places need no room there: those of
earlier tokens are counted back from the new ones. An encoding that reads neighbours needs their embeddings,
so that the first layer keeps these in place of keys and values, which it computes from them anew.
"""

from typing import NamedTuple

import torch
from torch import nn
from transformers.cache_utils import Cache

from .position_base import PADDING_POSITION


class PositionedInputs(NamedTuple):
    """Tokens that have been told where they stand.

    Attributes:
        hidden_states: [B, T, D], what the first layer reads.
        between: (bias [B, H, T, S] or None, vectors [2, B, T, S, Dh] or None) for every self-attention; they
            may learn, so layers take them by position: reentrant checkpointing sees no other gradients.
        rotation: (cos, sin), each [B, 1, T, Dh]; or None.
        all_states: [B, S, D], hidden states of all tokens, those in the cache included, where the first
            layer's self-attention makes its keys and values of them; else None.
    """

    hidden_states: torch.Tensor
    between: tuple[torch.Tensor | None, torch.Tensor | None] = (None, None)
    rotation: tuple[torch.Tensor, torch.Tensor] | None = None
    all_states: torch.Tensor | None = None


def place_tokens(
    stack, embeddings: torch.Tensor, position_ids: torch.Tensor, attention_mask, cache: Cache | None
) -> PositionedInputs:
    """Let a stack's position module do all that it does to new tokens, [B, T, D] at [B or 1, T]; drop out.

    The stack has `positions` and `config`; the mask is as `find_key_positions` takes it. With
    `reads_neighbours` the first layer of the cache takes the tokens up here: the stack's own mask must have
    been made before.
    """
    positions = stack.positions
    seen = getattr(cache, "self_attention_cache", cache)
    rate = stack.config.dropout if stack.training else 0.0

    def drop(states: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(states, rate) if rate else states

    if positions.reads_neighbours:
        places = find_token_positions(position_ids, attention_mask, seen).expand(len(embeddings), -1)
        newest = find_newest(position_ids, seen)
        if seen is not None:
            known = embeddings.unflatten(-1, (stack.config.num_attention_heads, -1)).transpose(1, 2)
            known, _ = seen.update(known, known, 0)  # [B, H, S, Dh]
            embeddings = known.transpose(1, 2).flatten(2).to(embeddings.dtype)
        all_states = drop(add_neighbour_positions(positions, embeddings, places))
        return PositionedInputs(all_states[:, newest], all_states=None if seen is None else all_states)
    between = (None, None)
    if positions.biases_scores:
        if stack.training and stack.config.crowd_noise:  # one for each row
            position_ids = position_ids.expand(len(embeddings), *position_ids.shape[1:])
        key_positions = find_key_positions(position_ids, attention_mask, seen)
        bias, vectors = positions.score_terms(position_ids, key_positions)
        if bias is not None:  # flex attention looks a row up by its number
            bias = bias.to(embeddings.dtype).expand(len(embeddings), -1, -1, -1)
        between = (bias, vectors)
    return PositionedInputs(
        drop(positions(embeddings, position_ids)), between, positions.rotation(position_ids)
    )


def add_neighbour_positions(positions, embeddings: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Tell all tokens, [B, S, D] at [B, S], their places by each other; padding stands aside meanwhile."""
    order = (places == PADDING_POSITION).long().argsort(dim=1, stable=True)  # padding behind all tokens
    to = order.unsqueeze(-1).expand_as(embeddings)  # [B, S, D]
    placed = positions(embeddings.gather(1, to), places.gather(1, order))
    return torch.zeros_like(placed).scatter(1, to, placed)


def find_newest(position_ids: torch.Tensor, cache: Cache | None) -> torch.Tensor:
    """Where the new tokens, at [B or 1, T], stand among all that the cache then holds: [T]."""
    newest = torch.arange(position_ids.shape[1], device=position_ids.device)
    return newest if cache is None else newest + cache.get_seq_length()


def find_key_positions(position_ids: torch.Tensor, attention_mask, cache: Cache | None) -> torch.Tensor:
    """Number all tokens that new ones, at [B or 1, T], may read: [B or 1, S].

    Those in the cache are counted back from the first new one that is no padding, as a sequence goes on where
    it ended. The mask is [B, past + T], 1 = token, or as the kernel takes it, [B, 1, T, S]; anything else
    says nothing of padding. A static cache gives its full length; behind the new tokens stands nothing yet.
    """
    if cache is None:
        return position_ids
    size, _ = cache.get_mask_sizes(position_ids.shape[1], 0)
    newest = find_newest(position_ids, cache)
    is_token = torch.ones(1, size, dtype=torch.bool, device=position_ids.device)
    if isinstance(attention_mask, torch.Tensor):
        is_token = attention_mask != 0
        if attention_mask.dim() == 4:  # what the last of the new tokens may read
            is_added = attention_mask.is_floating_point()
            is_token = attention_mask[:, 0, -1] >= 0 if is_added else attention_mask[:, 0, -1]
        is_token = nn.functional.pad(is_token, (0, size - is_token.shape[1]), value=True)
    rows = max(len(is_token), len(position_ids))
    position_ids, count = position_ids.expand(rows, -1), is_token.long().cumsum(-1).expand(rows, -1)
    first = is_token[:, newest].long().argmax(-1, keepdim=True).expand(rows, -1)  # among the new tokens
    places = position_ids.gather(1, first) + count - count.gather(1, first + newest[:1])  # [B or 1, S]
    return places.index_copy(1, newest, position_ids)


def find_token_positions(position_ids: torch.Tensor, attention_mask, cache: Cache | None) -> torch.Tensor:
    """As `find_key_positions`, with PADDING_POSITION where padding is, or nothing yet: [B or 1, S].

    So are tokens before the first place: they end another sequence. ValueError where the mask says of each
    pair whether it may be read.
    """
    places = find_key_positions(position_ids, attention_mask, cache)
    if isinstance(attention_mask, torch.Tensor):
        if attention_mask.dim() != 2:
            raise ValueError(
                f"attention_mask of shape {list(attention_mask.shape)} says of each pair whether it may be "
                "read, and this position_type reads neighbours, not pairs: give [B, S], 1 = token, 0 = "
                "padding, or choose another position_type."
            )
        missing = places.shape[1] - attention_mask.shape[1]
        places = places.masked_fill(
            nn.functional.pad(attention_mask == 0, (0, missing), value=True), PADDING_POSITION
        )
    return places.masked_fill(places < 0, PADDING_POSITION)
