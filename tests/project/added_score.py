"""A score function as one adds it: class and row in `score_functions.py`, and a variant in FAMILIES."""

import torch
from torch import nn

from hf_attn.architectures.families import Variant
from hf_attn.models.score_functions import ScoreFunction

VARIANT = Variant("LSTM, cosine attention (Graves)", {"score_function": "cosine"})


class CosineScore(ScoreFunction):
    """Compare by the angle alone, as sharply as is learned.

    score(s_i, h_j) = β cos(s_i, h_j)                (Graves et al. 2014, arXiv:1410.5401, eq. 5 and 6)
    """

    needs_equal_widths = True

    def __init__(self, query_size, memory_size, attention_size):
        super().__init__(query_size, memory_size, attention_size)
        self.sharpness = nn.Parameter(torch.full((1,), 8.0))

    def project(self, memory):
        """Vectors of length 1, [B, S, M]."""
        return nn.functional.normalize(memory, dim=-1)

    def forward(self, query, projected):
        """Queries [B, T, D] against the projected memory [B, S, D] → scores [B, T, S]."""
        return self.sharpness * (nn.functional.normalize(query, dim=-1) @ projected.transpose(1, 2))
