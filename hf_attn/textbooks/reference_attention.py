"""Attention from scratch, in the order in which it is explained: one head, many heads, the encoder layer.

Each block stands under its equation and nothing is fused; PyTorch's own modules, with the same weights, give
the same outputs and maps. What is trained uses `hf_attn.models`.
"""

import math

import torch
from torch import nn


def attend(query, key, value, may_attend=None):
    """Scaled dot-product attention.

        A = softmax(Q Kᵀ / √Dk),   Y = A V              (Vaswani et al. 2017, arXiv:1706.03762, eq. 1)

    Args:
        query: [..., T, Dk].
        key: [..., S, Dk].
        value: [..., S, Dv].
        may_attend: bool with all axes of [..., T, S], broadcastable to it; True = may attend. Every query
            must see some key.

    Returns:
        (Y [..., T, Dv], A [..., T, S]); every row of A sums to 1.

    Raises:
        ValueError: the mask lacks an axis.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # [..., T, S]
    if may_attend is not None:
        if may_attend.dim() != scores.dim():  # [B, S] would pass for [T, S] where B = T
            raise ValueError(
                f"may_attend has {may_attend.dim()} axes and the scores have {scores.dim()}: give all, "
                "1 where nothing differs, as mask[:, None] or mask[:, None, None] for the padding [B, S]."
            )
        scores = scores.masked_fill(~may_attend, -math.inf)
    weights = scores.softmax(dim=-1)
    return weights @ value, weights


class SelfAttention(nn.Module):
    """One head: every token has a query, a key and a value.

        Q = X W_Q,   K = X W_K,   V = X W_V,   Y = softmax(Q Kᵀ / √Dk) V

    Args:
        width: D, of a token.
        key_width: Dk.
        value_width: Dv.
        bias: whether the maps have one.
    """

    def __init__(self, width: int, key_width: int, value_width: int, bias: bool = False):
        super().__init__()
        self.query = nn.Linear(width, key_width, bias=bias)
        self.key = nn.Linear(width, key_width, bias=bias)
        self.value = nn.Linear(width, value_width, bias=bias)

    def forward(self, tokens, may_attend=None):
        """[B, T, D] → (Y [B, T, Dv], A [B, T, T])."""
        return attend(self.query(tokens), self.key(tokens), self.value(tokens), may_attend)


class MultiHeadAttention(nn.Module):
    """Many heads, each in its own part of the width.

        head_i = Attention(X W_iQ, M W_iK, M W_iV),   Y = [head_1 … head_H] W_O  (Vaswani et al. 2017, §3.2.2)

    Args:
        width: D.
        num_heads: H; divides D.
        bias: whether the maps have one.

    Raises:
        ValueError: the heads do not share the width evenly.
    """

    def __init__(self, width: int, num_heads: int, bias: bool = True):
        super().__init__()
        if width % num_heads:
            raise ValueError(f"width={width} must be a multiple of num_heads={num_heads}: change either.")
        self.num_heads = num_heads
        self.query = nn.Linear(width, width, bias=bias)
        self.key = nn.Linear(width, width, bias=bias)
        self.value = nn.Linear(width, width, bias=bias)
        self.output = nn.Linear(width, width, bias=bias)

    def split(self, states: torch.Tensor) -> torch.Tensor:
        """[B, T, D] → [B, H, T, Dh]."""
        return states.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, tokens, memory=None, may_attend=None):
        """Let tokens [B, T, D] read a memory [B, S, D], themselves where None.

        Returns:
            (Y [B, T, D], A [B, H, T, S]).
        """
        memory = tokens if memory is None else memory
        query, key, value = self.query(tokens), self.key(memory), self.value(memory)
        heads, weights = attend(self.split(query), self.split(key), self.split(value), may_attend)
        return self.output(heads.transpose(1, 2).flatten(2)), weights  # [B, T, D]

    @classmethod
    def copy_of(cls, theirs: nn.MultiheadAttention) -> "MultiHeadAttention":
        """The same attention as PyTorch's module, whose three maps lie in one matrix."""
        ours = cls(theirs.embed_dim, theirs.num_heads, bias=theirs.in_proj_bias is not None)
        with torch.no_grad():
            for index, part in enumerate((ours.query, ours.key, ours.value)):
                part.weight.copy_(theirs.in_proj_weight.chunk(3)[index])
                if theirs.in_proj_bias is not None:
                    part.bias.copy_(theirs.in_proj_bias.chunk(3)[index])
            ours.output.load_state_dict(theirs.out_proj.state_dict())
        return ours


class LayerNorm(nn.Module):
    """Each token to mean 0 and variance 1, then scaled and shifted.

        LN(x) = γ (x − μ) / √(σ² + ε) + β                          (Ba et al. 2016, arXiv:1607.06450)

    Args:
        width: D.
        eps: ε; under the root, so that a constant token has a gradient.
    """

    def __init__(self, width: int, eps: float = 1e-5):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, tokens):
        """[..., D] → [..., D]."""
        centred = tokens - tokens.mean(dim=-1, keepdim=True)
        variance = centred.square().mean(dim=-1, keepdim=True)
        return self.weight * centred / (variance + self.eps).sqrt() + self.bias


class FeedForward(nn.Module):
    """Two maps with a ReLU between, each token on its own.

        FFN(x) = max(0, x W₁ + b₁) W₂ + b₂                         (Vaswani et al. 2017, eq. 2)

    Args:
        width: D.
        inner_width: F.
    """

    def __init__(self, width: int, inner_width: int):
        super().__init__()
        self.inner, self.outer = nn.Linear(width, inner_width), nn.Linear(inner_width, width)

    def forward(self, tokens):
        """[B, T, D] → [B, T, D]."""
        return self.outer(self.inner(tokens).relu())


class EncoderLayer(nn.Module):
    """Attention and feed-forward, each with a residual connection around it.

        post-norm: X' = LN(X + f(X))                               (Vaswani et al. 2017, §3.1)
        pre-norm:  X' = X + f(LN(X))                               (Xiong et al. 2020, arXiv:2002.04745)

    Args:
        width: D.
        num_heads: H.
        inner_width: F.
        norm_first: pre-norm instead of post-norm.
    """

    def __init__(self, width: int, num_heads: int, inner_width: int, norm_first: bool = False):
        super().__init__()
        self.attention = MultiHeadAttention(width, num_heads)
        self.feed_forward = FeedForward(width, inner_width)
        self.attention_norm, self.feed_forward_norm = LayerNorm(width), LayerNorm(width)
        self.norm_first = norm_first

    def forward(self, tokens, may_attend=None):
        """[B, T, D] → [B, T, D]."""
        if self.norm_first:
            tokens = tokens + self.attention(self.attention_norm(tokens), may_attend=may_attend)[0]
            return tokens + self.feed_forward(self.feed_forward_norm(tokens))
        tokens = self.attention_norm(tokens + self.attention(tokens, may_attend=may_attend)[0])
        return self.feed_forward_norm(tokens + self.feed_forward(tokens))

    @classmethod
    def copy_of(cls, theirs: nn.TransformerEncoderLayer) -> "EncoderLayer":
        """The same layer as PyTorch's module, with ReLU and without dropout."""
        inner_width, width = theirs.linear1.weight.shape
        ours = cls(width, theirs.self_attn.num_heads, inner_width, theirs.norm_first)
        ours.attention = MultiHeadAttention.copy_of(theirs.self_attn)
        ours.feed_forward.inner.load_state_dict(theirs.linear1.state_dict())
        ours.feed_forward.outer.load_state_dict(theirs.linear2.state_dict())
        norms = ((ours.attention_norm, theirs.norm1), (ours.feed_forward_norm, theirs.norm2))
        for our_norm, their_norm in norms:
            our_norm.load_state_dict(their_norm.state_dict())
            our_norm.eps = their_norm.eps
        return ours
