"""Self-attention whose cost grows with the length, not with its square: EFFICIENT_ATTENTION names the kinds.

Each kind has a kernel that never forms [T, S], and a plain twin that does and gives the map; the model uses
the twin with attn_implementation="eager". Cross-attention stays full.
"""

import math

import torch
from torch import nn
from transformers import initialization as init
from transformers.masking_utils import create_masks_for_generate

from .attention import ChooseKernelMixin, MultiHeadAttention, scaled_dot_product_attention
from .efficient_base import EfficientAttention, mark_sequences, may_read
from .own_attention import OWN_ATTENTION
from .performer_reformer import PerformerAttention, RandomAttention, ReformerAttention
from .positions import POSITION_TYPES

SMALLEST_BLOCK = 32  # queries that local attention takes at once, where the window is smaller


class LocalAttention(EfficientAttention):
    """Each token reads its neighbours, W on either side; in a causal stack the W before and itself.

        A = softmax over |j − i| ≤ W of (Q Kᵀ / √Dh + bias),  W = attention_window  (Beltagy et al. 2020,
                                                                                     arXiv:2004.05150, §3.1)

    O(nW). Each further layer reaches W positions farther. Distance is counted in the row, padding between two
    tokens included. A bias on the scores is made for all pairs, which costs n² again.
    """

    adds_bias = True

    def attend(self, query, key, value, sequences, bias=None) -> torch.Tensor:
        """Read by blocks of queries, each beside the keys that any of it may read."""
        window = self.config.attention_window
        return local_attention(query, key, value, sequences, window, self.is_causal, bias)

    def attend_plainly(self, query, key, value, sequences, bias=None) -> tuple[torch.Tensor, torch.Tensor]:
        """Read by all pairs, all but the near ones hidden; a row sums to 1."""
        length, past = query.shape[2], key.shape[2] - query.shape[2]
        near = torch.ones(length, past + length, dtype=torch.bool, device=query.device)
        near = near.triu(past - self.config.attention_window).tril(past + self.config.attention_window)
        allowed = may_read(sequences, length, self.is_causal) & near
        return scaled_dot_product_attention(query, key, value, allowed, bias)


def local_attention(query, key, value, sequences, window: int, is_causal: bool, bias=None) -> torch.Tensor:
    """Attend to the positions at most `window` away, in memory T × (block + 2W).

    The queries are cut into blocks, and beside each block lie all keys that its queries may read. With 7
    tokens, W = 2 and blocks of 3 (· is padding):

        queries   0 1 2              3 4 5              6 · ·
        keys      · · 0 1 2 3 4      1 2 3 4 5 6 ·      4 5 6 · · · ·

    Row i of a block reads columns i to i + 2W of its keys: a band. A causal stack has no keys behind the
    block, and with a cache the keys begin before the first query.

    Queries are [B, H, T, Dh], keys and values [B, H, S, Dh], sequences [B or 1, S], a bias [B, H, T, S] or
    None. `window` is W, at least 1; with `is_causal` only the W before are read. Returned is [B, H, T, Dh].
    """
    length, past = query.shape[2], key.shape[2] - query.shape[2]
    window = min(window, key.shape[2])  # there are no keys farther away
    size = min(length, max(window, SMALLEST_BLOCK))  # queries of a block
    blocks = -(-length // size)
    behind = 0 if is_causal else window  # keys after the last query of a block
    span = window + size + behind  # keys beside a block
    start = past - window  # of the first block's keys; negative where it begins with padding
    filling = blocks * size - length  # padding after the last query

    def cut_queries(states):  # [..., T, D] → [..., blocks, size, D]
        return nn.functional.pad(states, (0, 0, 0, filling)).unflatten(-2, (blocks, size))

    def cut_keys(states):  # [..., S, D] → [..., blocks, span, D]
        padding = (0, 0, max(0, -start), filling + behind)
        padded = nn.functional.pad(states[..., max(0, start) :, :], padding)
        return padded.unfold(-2, span, size).transpose(-2, -1)

    numbers = sequences[:, None, :, None]
    of_queries, of_keys = cut_queries(numbers[:, :, past:]), cut_keys(numbers).transpose(-2, -1)
    band = torch.ones(size, span, dtype=torch.bool, device=query.device).triu().tril(span - size)
    allowed = (of_queries == of_keys) & (of_queries != 0) & band  # [B, 1, blocks, size, span]
    if bias is not None:
        starts = start + size * torch.arange(blocks, device=query.device)
        columns = starts[:, None] + torch.arange(span, device=query.device)
        columns = columns.clamp(0, key.shape[2] - 1)[:, None]  # [blocks, 1, span]
        bias = cut_queries(bias).take_along_dim(columns[None, None], dim=-1)
    read, _ = scaled_dot_product_attention(cut_queries(query), cut_keys(key), cut_keys(value), allowed, bias)
    return read.flatten(2, 3)[:, :, :length]


class LinformerAttention(EfficientAttention):
    """Keys and values of n places are mixed into k, which every query reads.

        Y = softmax(Q (E K)ᵀ / √Dh) F V,   E, F [k, n],   k = linformer_size   (Wang et al. 2020,
                                                                                arXiv:2006.04768, eq. 7)

    O(nk). E and F are learned, one pair a layer for all heads; n is max_position_embeddings, and a longer row
    is refused. A shorter row uses their first columns. Rows of the map A = softmax(·) F say how much of each
    value is in the output; they sum to no particular number and may be negative.
    """

    not_causal = "its keys are mixtures of all places, later ones among them"

    def __init__(self, config, layer_idx: int, is_causal: bool = False):
        super().__init__(config, layer_idx, is_causal)
        self.key_mixture = nn.Parameter(torch.empty(config.linformer_size, config.max_position_embeddings))
        self.value_mixture = nn.Parameter(torch.empty(config.linformer_size, config.max_position_embeddings))

    def reset(self) -> None:
        """Draw E and F from N(0, 1/k), as in the paper's proof."""
        for mixture in (self.key_mixture, self.value_mixture):
            init.normal_(mixture, mean=0.0, std=len(mixture) ** -0.5)

    def attend(self, query, key, value, sequences, _bias=None) -> torch.Tensor:
        """Read the k mixtures."""
        weights, value_mixture = self.weigh_mixtures(query, key, sequences)
        return weights @ torch.einsum("bsk,bhsd->bhkd", value_mixture, value)

    def attend_plainly(self, query, key, value, sequences, _bias=None) -> tuple[torch.Tensor, torch.Tensor]:
        """Take the mixtures apart again: how much of each value is read."""
        weights, value_mixture = self.weigh_mixtures(query, key, sequences)
        weights = torch.einsum("bhtk,bsk->bhts", weights, value_mixture)
        return weights @ value, weights

    def weigh_mixtures(self, query, key, sequences) -> tuple[torch.Tensor, torch.Tensor]:
        """How much each query reads of each mixture, [B, H, T, k], and what is in them, F [B or 1, S, k]."""
        length = sequences.shape[1]
        if length > self.key_mixture.shape[1]:
            raise ValueError(
                f"The sequence has {length} tokens; attention_type='linformer' has mixtures of "
                f"max_position_embeddings={self.key_mixture.shape[1]} places. Shorten it, or build the model "
                "with more."
            )
        is_token = sequences != 0
        places = (is_token.long().cumsum(-1) - 1).clamp(min=0)
        key_mixture, value_mixture = (
            nn.functional.embedding(places, mixture.T) * is_token.unsqueeze(-1)  # [B, S, k]
            for mixture in (self.key_mixture, self.value_mixture)
        )
        mixed = torch.einsum("bsk,bhsd->bhkd", key_mixture, key)  # E K
        scores = query @ mixed.transpose(-2, -1) / math.sqrt(query.shape[-1])  # [B, H, T, k]
        return scores.softmax(dim=-1, dtype=torch.float32).to(value_mixture.dtype), value_mixture


EFFICIENT_ATTENTION: dict[str, type[EfficientAttention]] = {
    "local": LocalAttention,
    "linformer": LinformerAttention,
    "performer": PerformerAttention,
    "reformer": ReformerAttention,
}


def find_self_attention(config, is_causal: bool) -> type[MultiHeadAttention]:
    """Find the class of a stack's self-attention: full where it must hide the future and the kind cannot."""
    if config.attention_type in OWN_ATTENTION:
        return OWN_ATTENTION[config.attention_type]
    found = EFFICIENT_ATTENTION.get(config.attention_type)
    return MultiHeadAttention if found is None or (is_causal and found.not_causal) else found


def build_cross_attention(config, layer_idx: int) -> MultiHeadAttention:
    """Full cross-attention, or one of one's own."""
    own = OWN_ATTENTION.get(config.attention_type)
    if own is None:
        return MultiHeadAttention(config, layer_idx)
    attention = own(config, layer_idx, is_causal=False)
    attention.is_cross = True
    return attention


class ChooseAttentionMixin(ChooseKernelMixin):
    """Shared by all models whose attention may be efficient, or of one's own."""

    @property
    def _can_compile_fullgraph(self) -> bool:
        """What transformers asks of a model: of a class of one's own nobody knows."""
        return self.config.attention_type not in OWN_ATTENTION

    def get_correct_attn_implementation(
        self, requested_attention: str | None, is_init_check: bool = False
    ) -> str:
        """Choose the kernel: attention of one's own is its own, which transformers calls "eager"."""
        if (kind := self.config.attention_type) in OWN_ATTENTION:
            if requested_attention not in (None, "eager"):
                raise ValueError(
                    f"attn_implementation={requested_attention!r} computes weights of its own or none, and "
                    f'attention_type={kind!r} says how they are computed: give attn_implementation="eager".'
                )
            requested_attention = "eager"
        return super().get_correct_attn_implementation(requested_attention, is_init_check)

    def redraw(self, generator: torch.Generator) -> None:
        """Draw every layer's random features or hashes anew."""
        for module in self.modules():  # type: ignore[attr-defined]
            if isinstance(module, RandomAttention):
                module.redraw(generator)

    def create_masks_for_generate(self, config, attention_mask, cache=None, **kwargs):
        """What a decoder with a static cache gets: 4-dimensional, or where no pairs are formed as long as it.

        So the mask has one shape for all steps, and a compiled step one graph.
        """
        has_kernel = issubclass(find_self_attention(self.config, is_causal=True), EfficientAttention)
        if not has_kernel and not POSITION_TYPES[self.config.position_type].reads_neighbours:
            return create_masks_for_generate(
                config=config, attention_mask=attention_mask, cache=cache, **kwargs
            )
        if attention_mask is None:
            return None
        size, _ = cache.get_mask_sizes(1, 0)
        return nn.functional.pad(attention_mask, (0, size - attention_mask.shape[1]))


__all__ = [
    "EFFICIENT_ATTENTION",
    "ChooseAttentionMixin",
    "EfficientAttention",
    "build_cross_attention",
    "find_self_attention",
    "mark_sequences",
]
