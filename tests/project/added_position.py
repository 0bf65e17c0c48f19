"""A position encoding as one adds it: this class in `hf_attn/models/position_*.py`, a POSITION_TYPES row."""

import torch
from torch import nn
from transformers import initialization as init

from hf_attn.models.position_base import Positions


class KerplePositions(Positions):
    """A penalty that grows with the logarithm of the distance, as fast as each head learns."""

    title = "KERPLE"
    equation = "e_ij = q_i · k_j / √Dh − r₁ ln(1 + r₂ |i − j|)"
    paper = "Chi et al. 2022, arXiv:2205.09921, eq. 4"
    settings = ("num_attention_heads",)
    biases_scores = True

    def __init__(self, config, is_causal=False):
        super().__init__(config, is_causal)
        self.weight = nn.Parameter(torch.empty(2, config.num_attention_heads))

    def score_terms(self, query_positions, key_positions):
        """Return (bias [B, H, T, S], None)."""
        distances = (key_positions.unsqueeze(-2) - query_positions.unsqueeze(-1)).abs().unsqueeze(1)
        height, rate = self.weight.abs().view(2, 1, -1, 1, 1)  # each [1, H, 1, 1]
        return -height * torch.log1p(rate * distances), None

    def reset(self):
        """Begin with r₁ = r₂ = 1."""
        init.ones_(self.weight)
