"""Rotary positions: queries and keys are turned, so that their product knows only the distance."""

import torch

from .position_base import Positions, Stretched, build_inverse_frequencies


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


class RotaryPositions(Positions):
    """Queries and keys are turned by their position: their product knows only the distance.

    The frequencies are no buffer: `model.half()` would round them, and the error grows with the position.
    """

    title = "Rotary (RoPE)"
    equation = "(R(m) q) · (R(n) k) = q · R(n − m) k,  θ_i = theta^(−2i/Dh)"
    paper = "Su et al. 2021, arXiv:2104.09864"
    settings = ("num_attention_heads", "rope_theta")
    head_multiple = 2

    @classmethod
    def check_config(cls, config) -> None:
        """Refuse a head without pairs."""
        if (head_size := config.hidden_size // config.num_attention_heads) % 2:
            raise ValueError(
                f"position_type={config.position_type!r} turns pairs of numbers, and a head of size "
                f"{head_size} is odd: choose hidden_size / num_attention_heads even."
            )

    def __init__(self, config, is_causal: bool = False):
        super().__init__(config, is_causal)
        self.head_dim, self.theta = config.hidden_size // config.num_attention_heads, config.rope_theta

    def angles(self, position_ids: torch.Tensor) -> torch.Tensor:
        """pθ_i of [B, T] positions, [B, T, Dh/2]."""
        return position_ids.unsqueeze(-1) * build_inverse_frequencies(
            self.head_dim, self.theta, position_ids.device
        )

    def rotation(self, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (cos, sin), each [B, 1, T, Dh], for [B, T] positions."""
        angles = self.angles(position_ids)
        angles = torch.cat((angles, angles), dim=-1).unsqueeze(1)
        return angles.cos(), angles.sin()


class RotaryInterpolatedPositions(Stretched, RotaryPositions):
    """Beyond the trained length every pair turns more slowly, so that no angle is new.

    Every pair turns s times slower: neighbours come closer.
    """

    title = "Rotary, interpolated"
    equation = "angle = (p / s) θ_i,  s = length / trained"
    paper = "Chen et al. 2023, arXiv:2306.15595, §2.3"
    settings = ("max_position_embeddings", "num_attention_heads", "rope_theta")

    def angles(self, position_ids: torch.Tensor) -> torch.Tensor:
        """(p/s)θ_i of [B, T] positions, [B, T, Dh/2]."""
        return super().angles(position_ids / self.stretch(position_ids))


class RotaryNTKPositions(Stretched, RotaryPositions):
    """Beyond the trained length the base grows: slow pairs turn slower, fast ones hardly.

    The slowest pair turns s times slower, as if interpolated, the fastest as before: neighbours stay apart.
    All frequencies fall, none rises.
    """

    title = "Rotary, NTK-aware"
    equation = "theta' = theta · s^(Dh/(Dh − 2)),  s = length / trained"
    paper = "described in Peng et al. 2023, arXiv:2309.00071, §3.1"
    settings = ("max_position_embeddings", "num_attention_heads", "rope_theta")
    head_multiple = 4

    @classmethod
    def check_config(cls, config) -> None:
        """Refuse a head of one pair."""
        super().check_config(config)
        if (head_size := config.hidden_size // config.num_attention_heads) < 4:
            raise ValueError(
                f"position_type={config.position_type!r} slows all pairs but the first, and a head of size "
                f"{head_size} has no other: choose hidden_size / num_attention_heads at least 4."
            )

    def angles(self, position_ids: torch.Tensor) -> torch.Tensor:
        """pθ'_i of [B, T] positions, [B, T, Dh/2]."""
        base = self.theta * self.stretch(position_ids) ** (self.head_dim / (self.head_dim - 2))  # [B, T]
        frequencies = build_inverse_frequencies(self.head_dim, base.unsqueeze(-1), position_ids.device)
        return position_ids.unsqueeze(-1) * frequencies  # [B, T, Dh/2]
