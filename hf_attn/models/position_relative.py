"""Relative positions: what stands between a query and a key depends on their distance only.

Every class here gives something for each pair of query at [B, T] and key at [B, S]; the distance is j − i,
the key's place less the query's.
"""

import math

import torch
from torch import nn
from transformers import initialization as init

from .position_base import Positions, compute_sinusoids


def measure_distances(query_positions: torch.Tensor, key_positions: torch.Tensor) -> torch.Tensor:
    """Subtract: j − i for queries at [B, T] and keys at [B, S], [B, T, S]."""
    return key_positions.unsqueeze(-2) - query_positions.unsqueeze(-1)


def look_up(indices: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """[B, T, S] indices into a table of one number a head, [n, H] → [B, H, T, S]."""
    return nn.functional.embedding(indices, table).permute(0, 3, 1, 2)


class ClippedDistances(Positions):
    """What encodings share that learn something for each distance from −k to k, and treat farther ones as k.

    clip(j − i) = max(−k, min(k, j − i)),   k = relative_clip_distance
    """

    settings = ("num_attention_heads", "relative_clip_distance", "seed")
    biases_scores = True

    def __init__(self, config, is_causal: bool = False):
        super().__init__(config, is_causal)
        self.farthest, self.std = config.relative_clip_distance, config.position_initializer_range

    def find_rows(self, query_positions: torch.Tensor, key_positions: torch.Tensor) -> torch.Tensor:
        """clip(j − i) + k, from 0 to 2k, [B, T, S]."""
        distances = measure_distances(query_positions, key_positions)
        return distances.clamp(-self.farthest, self.farthest) + self.farthest


class RelativePositions(ClippedDistances):
    """A trained vector for each distance, added to the key and to the value.

    One pair of tables [2k + 1, Dh] for all heads, as in the paper's §3.3, and for all layers of a stack. The
    vector is added inside the product: what a distance is worth depends on who asks. The value's part needs
    the weights α themselves, so that only the eager kernel can do it.
    """

    title = "Relative vectors"
    equation = "e_ij = q_i · (k_j + a^K_ij) / √Dh,  y_i = Σ_j α_ij (v_j + a^V_ij),  a_ij = w_clip(j − i)"
    paper = "Shaw et al. 2018, arXiv:1803.02155"
    needs_weights = True

    def __init__(self, config, is_causal: bool = False):
        super().__init__(config, is_causal)
        head_dim = config.hidden_size // config.num_attention_heads
        self.weight = nn.Parameter(torch.empty(2, 2 * self.farthest + 1, head_dim))

    def score_terms(self, query_positions: torch.Tensor, key_positions: torch.Tensor):
        """Return (None, vectors [2, B, T, S, Dh]): a^K and a^V."""
        return None, self.weight[:, self.find_rows(query_positions, key_positions)]

    def reset(self) -> None:
        """Draw both tables anew from N(0, std²)."""
        init.normal_(self.weight, mean=0.0, std=self.std)


class T5Bias(Positions):
    """A trained number a head for each bucket of distances, added to the score; far ones are wide.

    Near distances have a bucket each, farther ones share buckets that widen with the logarithm, the farthest
    from relative_attention_max_distance on. Half of the buckets look ahead, or none in a causal stack. One
    table for all layers, as in T5. T5 leaves √Dh out of the product (its initial weights make up for it);
    here the product is scaled as everywhere, the bias is not.
    """

    title = "T5 bias"
    equation = "e_ij = q_i · k_j / √Dh + b_bucket(j − i)"
    paper = "Raffel et al. 2020, arXiv:1910.10683, §2.1"
    settings = ("num_attention_heads", "seed")
    biases_scores = True

    def __init__(self, config, is_causal: bool = False):
        super().__init__(config, is_causal)
        self.std = config.position_initializer_range
        self.num_buckets = config.relative_attention_num_buckets
        self.max_distance = config.relative_attention_max_distance
        self.weight = nn.Parameter(torch.empty(self.num_buckets, config.num_attention_heads))

    def bucket(self, distances: torch.Tensor) -> torch.Tensor:
        """Return the bucket of each distance j − i, from 0 to relative_attention_num_buckets − 1.

        Of n buckets for one direction the first n/2 hold one distance d each; beyond,
        bucket = n/2 + (n − n/2) ln(d / (n/2)) / ln(max_distance / (n/2)), rounded down, and at most n − 1.
        """
        if self.is_causal:
            buckets, ahead = self.num_buckets, torch.zeros_like(distances)
            distances = (-distances).clamp(min=0)
        else:
            buckets = self.num_buckets // 2
            ahead, distances = (distances > 0).long() * buckets, distances.abs()
        near = buckets // 2
        growth = torch.log(distances.clamp(min=1) / near) / math.log(self.max_distance / near)
        far = (near + (growth * (buckets - near)).long()).clamp(max=buckets - 1)
        return ahead + torch.where(distances < near, distances, far)

    def score_terms(self, query_positions: torch.Tensor, key_positions: torch.Tensor):
        """Return (bias [B, H, T, S], None)."""
        return look_up(self.bucket(measure_distances(query_positions, key_positions)), self.weight), None

    def reset(self) -> None:
        """Draw the table anew from N(0, std²)."""
        init.normal_(self.weight, mean=0.0, std=self.std)


class ClippedBias(ClippedDistances):
    """A trained number a head for each distance; all distances beyond the clip share one.

    Unlike T5's own its buckets are all one place wide, and it is divided by √Dh with the product.
    """

    title = "Clipped bias"
    equation = "e_ij = (q_i · k_j + b_clip(j − i)) / √Dh"
    paper = "“The Birth of Transformers”, Deep Learning DNA, chapter 8, a variant of T5's"

    def __init__(self, config, is_causal: bool = False):
        super().__init__(config, is_causal)
        self.scaling = (config.hidden_size // config.num_attention_heads) ** -0.5
        self.weight = nn.Parameter(torch.empty(2 * self.farthest + 1, config.num_attention_heads))

    def score_terms(self, query_positions: torch.Tensor, key_positions: torch.Tensor):
        """Return (bias [B, H, T, S], None)."""
        return look_up(self.find_rows(query_positions, key_positions), self.weight) * self.scaling, None

    def reset(self) -> None:
        """Draw the table anew from N(0, std²)."""
        init.normal_(self.weight, mean=0.0, std=self.std)


def build_alibi_slopes(num_heads: int, device=None) -> torch.Tensor:
    """m_h = 2^(−8h/H), h = 1 … H, float32, where H is a power of 2 (Press et al. 2022, §3).

    For other H: the slopes of the next smaller power of 2, then every second one of twice that power, as the
    authors' code has it.
    """
    power = 2 ** int(math.log2(num_heads))
    slopes = 2.0 ** (-8.0 * torch.arange(1, power + 1, device=device) / power)
    between = 2.0 ** (-8.0 * torch.arange(1, 2 * power + 1, 2, device=device) / (2 * power))
    return torch.cat((slopes, between[: num_heads - power]))


class ALiBiPositions(Positions):
    """A penalty that grows with the distance, steeper in some heads; nothing is learned.

    In a causal stack keys ahead are hidden, so that |j − i| is the paper's i − j; an encoder sees both sides
    alike.
    """

    title = "ALiBi"
    equation = "e_ij = q_i · k_j / √Dh − m_h |j − i|,  m_h = 2^(−8h/H)"
    paper = "Press et al. 2022, arXiv:2108.12409"
    settings = ("num_attention_heads",)
    biases_scores = True

    def __init__(self, config, is_causal: bool = False):
        super().__init__(config, is_causal)
        self.num_heads = config.num_attention_heads

    def score_terms(self, query_positions: torch.Tensor, key_positions: torch.Tensor):
        """Return (bias [B, H, T, S], None)."""
        slopes = build_alibi_slopes(self.num_heads, query_positions.device).view(1, -1, 1, 1)
        return -slopes * measure_distances(query_positions, key_positions).abs().unsqueeze(1), None


class CompositePositions(ClippedBias):
    """A sinusoid on the embedding and a clipped bias on the scores, each with a learned weight.

    The absolute part is the sinusoid, added to the embedding with α; the relative part is the clipped bias,
    added to the scores with β: each as much as the model learns to want of it.
    """

    title = "Absolute + relative"
    equation = "P = α · absolute + β · relative,  α = β = 1 at first"
    paper = "“The Birth of Transformers”, Deep Learning DNA, chapter 8"

    def __init__(self, config, is_causal: bool = False):
        super().__init__(config, is_causal)
        self.alpha = nn.Parameter(torch.empty(1))
        self.beta = nn.Parameter(torch.empty(1))

    def forward(self, embeddings: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """Add α times the sinusoids of [B, T] positions to [B, T, D] embeddings."""
        sinusoids = compute_sinusoids(position_ids, embeddings.shape[-1])
        return embeddings + self.alpha * sinusoids.to(embeddings.dtype)

    def score_terms(self, query_positions: torch.Tensor, key_positions: torch.Tensor):
        """Return (β · bias [B, H, T, S], None)."""
        bias, _ = super().score_terms(query_positions, key_positions)
        return self.beta * bias, None

    def reset(self) -> None:
        """Draw the table anew, and begin with α = β = 1."""
        super().reset()
        init.ones_(self.alpha)
        init.ones_(self.beta)
