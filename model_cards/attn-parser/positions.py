"""Every way to tell a model where a token stands.

A position module may do two things, both optional: change the embeddings (`forward`), and give the rotation
of queries and keys (`rotation`). POSITION_TYPES names them as `config.position_type` does.
"""

import math

import torch
from torch import nn
from transformers import initialization as init


def position_ids_from_mask(attention_mask, length: int, past_length, device) -> torch.Tensor:
    """Number the tokens from 0, skipping padding on either side.

    Args:
        attention_mask: [B, past + T], 1 = token, 0 = padding; or None where nothing is padded.
        length: T, how many positions are wanted: the last ones.
        past_length: how many came before (in the cache).
        device: where the ids are wanted.

    Returns:
        [B, T], or [1, T] where nothing is padded.
    """
    if attention_mask is None or attention_mask.dim() != 2:
        return (torch.arange(length, device=device) + past_length).unsqueeze(0)
    return (attention_mask.long().cumsum(-1) - 1).clamp(min=0)[:, -length:]


def rotate(states: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Turn each pair (i, i + Dh/2) of a query or key by its position's angle.

        R(p)(x₁, x₂) = (x₁ cos pθ − x₂ sin pθ, x₁ sin pθ + x₂ cos pθ)   (Su et al. 2021, arXiv:2104.09864)

    Args:
        states: [B, H, T, Dh].
        cosine: [B, 1, T, Dh], float32.
        sine: [B, 1, T, Dh], float32.

    Returns:
        [B, H, T, Dh], turned in float32 and given back in the states' own type.
    """
    first, second = states.chunk(2, dim=-1)
    return (states * cosine + torch.cat((-second, first), dim=-1) * sine).to(states.dtype)


class Positions(nn.Module):
    """No positions at all: the control, and what the others build on.

    A stack without a causal mask is equivariant to permutations with it.
    """

    def __init__(self, config):
        super().__init__()

    def forward(self, embeddings: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """Return the embeddings as they are."""
        return embeddings

    def rotation(self, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Return the rotation of queries and keys: none."""
        return None

    def reset(self) -> None:
        """Draw weights and compute buffers anew: loading builds on the meta device and leaves them empty."""


class LearnedPositions(Positions):
    """A trained vector a position, added to the embedding (Gehring et al. 2017, arXiv:1705.03122)."""

    def __init__(self, config):
        super().__init__(config)
        self.std = config.position_initializer_range
        self.weight = nn.Parameter(torch.empty(config.max_position_embeddings, config.hidden_size))

    def forward(self, embeddings: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """Add the vectors of [B, T] positions to [B, T, D] embeddings."""
        return embeddings + nn.functional.embedding(position_ids, self.weight)

    def reset(self) -> None:
        """Draw the table anew from N(0, std²)."""
        init.normal_(self.weight, mean=0.0, std=self.std)


def build_sinusoids(length: int, width: int) -> torch.Tensor:
    """The fixed table of sines and cosines.

        PE(p, 2i) = sin(p / 10000^(2i/D)),   PE(p, 2i+1) = cos(p / 10000^(2i/D))  (Vaswani et al. 2017, §3.5)

    Returns:
        [length, width], float32.
    """
    positions = torch.arange(length, dtype=torch.float32).unsqueeze(1)
    frequencies = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(10000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(positions * frequencies)
    table[:, 1::2] = torch.cos(positions * frequencies[: width // 2])
    return table


class SinusoidalPositions(Positions):
    """Sines and cosines of falling frequency, added to the embedding: nothing to train."""

    def __init__(self, config):
        super().__init__(config)
        self.shape = (config.max_position_embeddings, config.hidden_size)
        self.register_buffer("table", build_sinusoids(*self.shape), persistent=False)

    def forward(self, embeddings: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """Add the table's rows of [B, T] positions to [B, T, D] embeddings."""
        return embeddings + nn.functional.embedding(position_ids, self.table).to(embeddings.dtype)

    def reset(self) -> None:
        """Compute the table again."""
        init.copy_(self.table, build_sinusoids(*self.shape))


def build_inverse_frequencies(head_dim: int, theta: float, device=None) -> torch.Tensor:
    """θ_i = theta^(−2i/Dh), i = 0 … Dh/2 − 1 (Su et al. 2021, eq. 15)."""
    return theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float32, device=device) / head_dim)


class RotaryPositions(Positions):
    """Turn queries and keys so that their product knows only the distance (Su et al. 2021, arXiv:2104.09864).

    The frequencies are no buffer: `model.half()` would round them, and the error grows with the position.
    """

    def __init__(self, config):
        super().__init__(config)
        self.head_dim, self.theta = config.hidden_size // config.num_attention_heads, config.rope_theta

    def rotation(self, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (cos, sin), each [B, 1, T, Dh], for [B, T] positions."""
        frequencies = build_inverse_frequencies(self.head_dim, self.theta, position_ids.device)
        angles = position_ids.unsqueeze(-1) * frequencies  # [B, T, Dh/2]
        angles = torch.cat((angles, angles), dim=-1).unsqueeze(1)
        return angles.cos(), angles.sin()


POSITION_TYPES = {
    "none": Positions,
    "learned": LearnedPositions,
    "sinusoidal": SinusoidalPositions,
    "rotary": RotaryPositions,
}
