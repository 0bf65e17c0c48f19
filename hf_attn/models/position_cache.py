"""Telling a stack's tokens where they stand, and what that needs of the cache."""

from typing import NamedTuple

import torch
from transformers.cache_utils import Cache, DynamicLayer, StaticLayer

from .position_base import PADDING_POSITION, Positions


class PositionedInputs(NamedTuple):
    """Tokens that have been told where they stand.

    Attributes:
        hidden_states: [B, T, D], what the first layer reads.
        between: (bias [B, H, T, S] or None, vectors [2, B, T, S, Dh] or None) for every self-attention; they
            may learn, so layers take them by position: reentrant checkpointing sees no other gradients.
        rotation: (cos, sin), each [B, 1, T, Dh]; or None.
    """

    hidden_states: torch.Tensor
    between: tuple[torch.Tensor | None, torch.Tensor | None]
    rotation: tuple[torch.Tensor, torch.Tensor] | None


def place_tokens(
    positions: Positions,
    embeddings: torch.Tensor,
    position_ids: torch.Tensor,
    attention_mask,
    past_key_values: Cache | None,
    layer_idx: int,
) -> PositionedInputs:
    """Let a position module do all that it does to new tokens, [B, T, D] at positions [B, T] or [1, T].

    The mask is as `mark_padding` takes it. Behind the stack's `layer_idx` layers the cache keeps places.
    """
    rotation = positions.rotation(position_ids)
    cache = getattr(past_key_values, "self_attention_cache", past_key_values)
    if positions.reads_neighbours:
        hidden_states = _tell_by_neighbours(
            positions, embeddings, position_ids, attention_mask, cache, layer_idx
        )
        return PositionedInputs(hidden_states, (None, None), rotation)
    between = (None, None)
    if positions.biases_scores:
        key_positions = position_ids
        if cache is not None:
            key_positions, _ = cache_positions(cache, layer_idx, position_ids, embeddings[..., :0])
        bias, vectors = positions.score_terms(position_ids, key_positions)
        if bias is not None:  # flex attention looks a row up by its number
            bias = bias.to(embeddings.dtype).expand(len(embeddings), -1, -1, -1)
        between = (bias, vectors)
    return PositionedInputs(positions(embeddings, position_ids), between, rotation)


def _tell_by_neighbours(positions, embeddings, position_ids, attention_mask, cache, layer_idx):
    """Tell the new tokens' places, [B, T, D], by all tokens: those in the cache belong to them."""
    newest = torch.arange(embeddings.shape[1], device=embeddings.device)
    if cache is not None:
        newest = newest + cache.get_seq_length()
    places = mark_padding(position_ids.expand(len(embeddings), -1), attention_mask, newest)
    if cache is not None:
        places, embeddings = cache_positions(cache, layer_idx, places, embeddings)
    order = (places == PADDING_POSITION).long().argsort(dim=1, stable=True)  # padding behind all tokens
    to = order.unsqueeze(-1).expand_as(embeddings)  # [B, S, D]
    told = positions(embeddings.gather(1, to), places.gather(1, order))
    return torch.zeros_like(told).scatter(1, to, told)[:, newest]


def mark_padding(position_ids: torch.Tensor, attention_mask, newest: torch.Tensor) -> torch.Tensor:
    """Put PADDING_POSITION where padding is: [B, T], of tokens that stand in the cache at `newest`, [T].

    The mask is [B, past + T], 1 = token; or [B, 1, T, S] as the kernel takes it, in which padding may not
    even attend to itself; anything else says nothing of padding.
    """
    if not isinstance(attention_mask, torch.Tensor):
        return position_ids
    if attention_mask.dim() == 2:
        return position_ids.masked_fill(attention_mask[:, -len(newest) :] == 0, PADDING_POSITION)
    itself = attention_mask[:, 0, torch.arange(len(newest), device=newest.device), newest]  # [B, T]
    return position_ids.masked_fill(~itself if itself.dtype == torch.bool else itself < 0, PADDING_POSITION)


def cache_positions(cache: Cache, layer_idx: int, position_ids: torch.Tensor, embeddings: torch.Tensor):
    """Put places and embeddings into the cache, one layer behind the model's own, and take all of them out.

    As a layer of the cache they are reordered with the beams, cropped and kept static as keys and values are.
    New tokens have position ids [B, T] or [1, T] and embeddings [B, T, D], or [B, T, 0] where those are not
    needed. Returned are those of all tokens, [B, S] and [B, S, D]; a static cache gives its full length.
    """
    if len(cache.layers) == layer_idx:
        first = cache.layers[0]
        is_static = isinstance(first, StaticLayer)
        cache.layers.append(StaticLayer(first.max_cache_len) if is_static else DynamicLayer())
    places = position_ids.expand(len(embeddings), -1)[:, None, :, None].float()  # [B, 1, T, 1]; exact to 2²⁴
    places, known = cache.update(places, embeddings.unsqueeze(1).float(), layer_idx)
    return places[:, 0, :, 0].long(), known[:, 0].to(embeddings.dtype)
