"""Multi-head attention, and the plain function that every faster kernel must equal.

To read how a Transformer works here, take this file, then `layers.py`, then `modeling_attn_seq2seq.py`; the
position encodings (`position_*.py`) and efficient attention (`efficient_*.py`) can wait.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import Cache, EncoderDecoderCache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .position_base import Positions
from .position_rotary import rotate
from .positions import POSITION_TYPES


def check_mask_axes(may_attend: torch.Tensor, scores: torch.Tensor) -> None:
    """Refuse a mask that has not all axes of the scores: [B, S] would be taken for [T, S] where B = T.

    Raises:
        ValueError: so it is.
    """
    if may_attend.dim() != scores.dim():
        raise ValueError(
            f"may_attend has shape {tuple(may_attend.shape)}, and the scores have {tuple(scores.shape)}: "
            "give it as many axes. Of padding [B, S] that is mask[:, None, None], of a causal mask [T, S] "
            "mask[None, None]."
        )


def refuse_padding_mask(attention_mask: torch.Tensor, batch: int, length: int, size: int) -> None:
    """Refuse a mask that does not fit rows of new tokens, `size` with those in the cache.

    Raises:
        ValueError: so it is.
    """
    raise ValueError(
        f"attention_mask of shape {list(attention_mask.shape)} does not fit {batch} rows of {length} "
        f"tokens: give {[batch, size]}, a 1 or 0 for each token, those in the cache included."
    )


def scaled_dot_product_attention(query, key, value, may_attend=None, bias=None, scaling=None):
    """Attend from each query to every key it may see.

        A = softmax(Q Kᵀ / √Dh + bias),   Y = A V        (Vaswani et al. 2017, arXiv:1706.03762, eq. 1)

    Args:
        query: [B, H, T, Dh].
        key: [B, H, S, Dh].
        value: [B, H, S, Dh].
        may_attend: bool with all four axes, broadcastable to [B, H, T, S]; True = may attend. A query that
            may attend to nothing gets zeros, never NaN.
        bias: float, broadcastable to [B, H, T, S], added to the scores before the softmax.
        scaling: what the scores are multiplied with (default: 1/√Dh).

    Returns:
        (Y [B, H, T, Dh], A [B, H, T, S]); every row of A sums to 1, or to 0 where nothing may be attended.

    Raises:
        ValueError: the mask lacks an axis.
    """
    scores = query @ key.transpose(-2, -1) * (scaling or 1 / math.sqrt(query.shape[-1]))  # [B, H, T, S]
    if bias is not None:
        scores = scores + bias
    if may_attend is not None:
        check_mask_axes(may_attend, scores)
        scores = scores.masked_fill(~may_attend, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1, dtype=torch.float32).to(query.dtype)
    if may_attend is not None:  # a row of nothing but the lowest number would come out uniform
        weights = weights.masked_fill(~may_attend, 0)
    return weights @ value, weights


def eager_attention_forward(
    module,
    query,
    key,
    value,
    attention_mask,
    scaling=None,
    dropout=0.0,
    position_bias=None,
    relative_vectors=None,
    **_,
):
    """The plain attention behind transformers' attention interface.

        A = softmax(Q (K + a^K)ᵀ scaling + bias),   Y = A (V + a^V)

    Args:
        module: the attention module; its `training` decides whether dropout acts.
        query: [B, H, T, Dh].
        key: [B, H, S, Dh].
        value: [B, H, S, Dh].
        attention_mask: None, or broadcastable to [B, H, T, S]: bool (True = may attend), or additive as
            transformers makes it for eager attention (0 = may attend, the lowest number = may not).
        scaling: what the scores are multiplied with.
        dropout: probability with which a weight is dropped in training.
        position_bias: float, broadcastable to [B, H, T, S], added to the scores.
        relative_vectors: [2, B, T, S, Dh], a^K and a^V (Shaw et al. 2018, arXiv:1803.02155); they stand
            between a query and a key, so that no kernel can add them to the keys and values beforehand.
        **_: arguments of other kernels, ignored here.

    Returns:
        (Y [B, T, H, Dh], A [B, H, T, S]).
    """
    if relative_vectors is not None:
        position_bias = torch.einsum("bhtd,btsd->bhts", query * scaling, relative_vectors[0])
    may_attend, bias = attention_mask, position_bias
    if attention_mask is not None and attention_mask.dtype != torch.bool:
        may_attend = attention_mask > torch.finfo(attention_mask.dtype).min
        bias = attention_mask if position_bias is None else attention_mask + position_bias
    output, weights = scaled_dot_product_attention(query, key, value, may_attend, bias, scaling)
    if dropout and module.training:
        weights = nn.functional.dropout(weights, dropout)
        output = weights @ value
    if relative_vectors is not None:
        output = output + torch.einsum("bhts,btsd->bhtd", weights, relative_vectors[1])
    return output.transpose(1, 2), weights


class Claim:
    """What a model claims to transformers by its configuration; of its class it is True.

    Args:
        holds: says so of the class of the configuration's position encoding.
    """

    def __init__(self, holds: Callable[[type[Positions]], bool]):
        self.holds = holds

    def __get__(self, model, _family=None) -> bool:
        return model is None or self.holds(POSITION_TYPES[model.config.position_type])


class ChooseKernelMixin:
    """Shared by all Transformer models: not every attention kernel works with every position encoding."""

    config: Any
    _supports_sdpa = Claim(lambda positions: not positions.needs_weights)
    _supports_flex_attn = Claim(lambda positions: not positions.needs_weights)
    _supports_flash_attn = Claim(lambda positions: not positions.biases_scores)
    _supports_attention_backend = Claim(lambda positions: not positions.biases_scores)

    def get_correct_attn_implementation(
        self, requested_attention: str | None, is_init_check: bool = False
    ) -> str:
        """Choose the kernel that transformers would; ValueError for one that cannot encode the positions."""
        position_type = self.config.position_type
        positions = POSITION_TYPES[position_type]
        if positions.needs_weights and requested_attention not in (None, "eager"):
            raise ValueError(
                f"attn_implementation={requested_attention!r} never forms the attention weights, and "
                f'position_type={position_type!r} needs them: give attn_implementation="eager".'
            )
        if positions.biases_scores and requested_attention not in (None, "eager", "sdpa", "flex_attention"):
            raise ValueError(
                f"attn_implementation={requested_attention!r} takes no bias on the scores, and "
                f'position_type={position_type!r} is one: give "sdpa", "flex_attention" or "eager".'
            )
        wanted = "eager" if positions.needs_weights else requested_attention
        return super().get_correct_attn_implementation(wanted, is_init_check)  # type: ignore[misc]


class OutputProjection(nn.Linear):
    """The last linear map of a block, whose output joins the residual stream: it may start at zero."""


class MultiHeadAttention(nn.Module):
    """Attention in H subspaces at once, self or cross.

        head_i = Attention(X W_iQ, M W_iK, M W_iV),   Y = [head_1 … head_H] W_O  (Vaswani et al. 2017, §3.2.2)

    Args:
        config: gives hidden_size, num_attention_heads, attention_dropout and use_bias.
        layer_idx: the layer's index in its stack, and in the cache.
        is_causal: True for decoder self-attention: kernels that get no mask then hide the future.
    """

    plain_kernel = staticmethod(eager_attention_forward)

    def __init__(self, config, layer_idx: int, is_causal: bool = False):
        super().__init__()
        self.config, self.layer_idx, self.is_causal = config, layer_idx, is_causal
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.scaling = self.head_dim**-0.5
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=config.use_bias)
        self.k_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=config.use_bias)
        self.v_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=config.use_bias)
        self.o_proj = OutputProjection(config.hidden_size, config.hidden_size, bias=config.use_bias)

    def forward(
        self,
        hidden_states: torch.Tensor,
        memory: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        cache: Cache | None = None,
        rotation: tuple[torch.Tensor, torch.Tensor] | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Let every position of `hidden_states` read.

        Args:
            hidden_states: [B, T, D], from which the queries are made.
            memory: [B, S, D], from which keys and values are made; None for self-attention.
            attention_mask: [B, 1, T, S] bool, True = may attend; None where all may, or all but the future;
                floats to be added to the scores for "eager", as transformers' mask functions make them. The
                efficient kinds take [B or 1, S], the number of each token's sequence (`mark_sequences`).
            cache: cache of this stack; cross-attention computes its keys and values once.
            rotation: (cos, sin) of the queries' and keys' positions, for rotary positions.
            **kwargs: passed to the kernel: `position_bias`, `relative_vectors`, …

        Returns:
            (Y [B, T, D], A [B, H, T, S] or None where the kernel does not form it).
        """
        query = self._split_heads(self.q_proj(hidden_states))  # [B, H, T, Dh]
        if memory is not None:
            key, value = self._cross_key_value(memory, cache)
        else:
            key, value = (self._split_heads(project(hidden_states)) for project in (self.k_proj, self.v_proj))
            if rotation is not None:
                query, key = rotate(query, *rotation), rotate(key, *rotation)
            if cache is not None:
                seen = getattr(cache, "self_attention_cache", cache)
                key, value = seen.update(key, value, self.layer_idx)  # [B, H, S, Dh]
        dropout = self.config.attention_dropout if self.training else 0.0
        output, weights = self.choose_kernel()(
            self, query, key, value, attention_mask, dropout=dropout, scaling=self.scaling, **kwargs
        )
        return self.o_proj(output.reshape(hidden_states.shape)), weights  # [B, T, D]

    def choose_kernel(self) -> Callable:
        """Return the kernel that the model is set to; it is called as `eager_attention_forward` is."""
        return ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, self.plain_kernel)

    def _split_heads(self, states: torch.Tensor) -> torch.Tensor:
        """[B, T, D] → [B, H, T, Dh]."""
        return states.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def _cross_key_value(self, memory, cache):
        """Project the memory to keys and values once: later steps take them from the cache."""
        is_cached = isinstance(cache, EncoderDecoderCache)
        if is_cached and cache.is_updated.get(self.layer_idx):
            layer = cache.cross_attention_cache.layers[self.layer_idx]
            return layer.keys, layer.values
        key, value = self._split_heads(self.k_proj(memory)), self._split_heads(self.v_proj(memory))
        if not is_cached:
            return key, value
        cache.is_updated[self.layer_idx] = True
        return cache.cross_attention_cache.update(key, value, self.layer_idx)
