"""Document `chapter-8`: what it says of places between a query and a key, and of places never trained."""

from typing import Any

import torch

from hf_attn.models.configuration_attn_encoder import AttnEncoderConfig
from hf_attn.models.positions import POSITION_TYPES
from hf_attn.textbooks.claims import STATED, Claim, Measured, count_parameters, difference

LENGTH, FAR = 8, 100
RELATIVE = ("relative", "t5", "t5_clipped", "alibi")


def build_positions(position_type: str, **settings) -> Any:
    """One of the ways to tell places, for one head of 16 and 8 trained places, its weights drawn."""
    config = AttnEncoderConfig(
        hidden_size=16,
        num_attention_heads=1,
        max_position_embeddings=LENGTH,
        position_type=position_type,
        **settings,
    )
    positions = POSITION_TYPES[position_type](config)
    positions.reset()
    return positions


@torch.no_grad()
def shifted() -> Measured:
    apart = []
    for position_type in RELATIVE:
        positions, places = build_positions(position_type), torch.arange(LENGTH).unsqueeze(0)
        near, far = (positions.score_terms(start + places, start + places) for start in (0, FAR))
        (one,), (other,) = ([part for part in parts if part is not None] for parts in (near, far))
        apart.append(difference(one, other))
    return tuple(apart)


@torch.no_grad()
def interpolated() -> Measured:
    positions = build_positions("learned_interpolated")
    (weight,) = positions.parameters()
    table = torch.cat((weight, weight[-1:]))  # behind the last row there is none
    places = torch.arange(2 * LENGTH)
    own = positions(torch.zeros(1, 2 * LENGTH, 16), places.unsqueeze(0))[0]
    before = places // 2  # α is one half
    between = (places / 2 - before).unsqueeze(1)
    return (difference(own, table[before] + between * (table[before + 1] - table[before])),)


def clipped() -> Measured:
    return (count_parameters(build_positions("t5_clipped", relative_clip_distance=16)),)


CLAIMS = (
    Claim(
        "Relative positions know only the distance: 100 places on, Shaw's vectors, T5's bias, the "
        "clipped one, ALiBi.",
        "<1e-6 <1e-6 <1e-6 <1e-6",
        shifted,
        "Each is looked up by j − i.",
        where="relative positions",
        kind=STATED,
    ),
    Claim(
        "A clipped bias for distances from −k to k is in ℝ^(2k + 1): numbers at k = 16.",
        "33",
        clipped,
        "One for each distance; a head has its own.",
        where="relative positions",
        kind=STATED,
    ),
    Claim(
        "Interpolated positions at twice the trained length: distance from the printed formula, α = 1/2.",
        "<1e-6",
        interpolated,
        "Chen et al. 2023 rescale rotary indices; of a learned table it holds as well.",
        where="learned positions",
        kind=STATED,
    ),
)
