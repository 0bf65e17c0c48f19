"""Each way to tell a place computes its paper's equation: by hand, or by another implementation."""

import math

import pytest
import torch
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention

from hf_attn.models.attention import eager_attention_forward
from hf_attn.models.position_relative import build_alibi_slopes
from tests.support.checks import SIZES, assert_close, assert_different, build_encoder, random_ids
from tests.support.position_checks import BUILDERS, build, build_positions

PLACES = torch.arange(12)[None]


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# Added to the embedding


def test_the_differential_equation_is_solved_as_a_thousand_small_steps_solve_it():
    positions = build_positions("ode").double()
    with torch.no_grad():
        found, place, steps = positions.solve(6), positions.start.clone(), 200
        for time in range(5):
            for step in range(steps):  # each by the slope in its middle
                now = time + step / steps
                middle = place + positions.slope(place, now) / (2 * steps)
                place = place + positions.slope(middle, now + 0.5 / steps) / steps
            assert_close(found[time + 1], place, tolerance=5e-5)
        assert_different(found[1:], found[:-1])


# Turned


def test_ntk_scaling_slows_the_slowest_pair_as_interpolation_does_and_the_fastest_not_at_all():
    plain, scaled = build_positions("rotary"), build_positions("rotary_ntk")
    places = torch.arange(48)[None]
    ratio = scaled.angles(places)[0, 1] / plain.angles(places)[0, 1]
    assert_close(ratio[[0, -1]], torch.tensor([1.0, 0.5]))
    assert (ratio.diff() < 0).all(), "frequencies fall, none rises"


def test_a_table_stretched_by_a_fixed_factor_ends():
    model = build("encoder", "learned_interpolated", position_scaling_factor=1.5)
    assert model(random_ids(1, 36))[0].isfinite().all()
    with pytest.raises(
        ValueError, match=r"37 tokens.*max_position_embeddings=24.*factor=1.5.*raise the factor"
    ):
        model(random_ids(1, 37))


# Between query and key


def test_relative_vectors_are_added_to_keys_and_values_as_shaw_writes():
    positions = build_positions("relative", relative_clip_distance=3)
    query, key, value = (draw(2, 2, 12, 8, seed=seed) for seed in range(3))
    bias, vectors = positions.score_terms(PLACES, PLACES)
    assert bias is None
    output, weights = eager_attention_forward(
        build_encoder("eager"), query, key, value, None, scaling=8**-0.5, relative_vectors=vectors
    )
    to_key, to_value = positions.weight
    for i in (0, 4, 11):
        row = [max(-3, min(3, j - i)) + 3 for j in range(12)]
        scores = torch.stack(
            [(query[:, :, i] * (key[:, :, j] + to_key[row[j]])).sum(-1) for j in range(12)], -1
        )
        expected = (scores / math.sqrt(8)).softmax(-1)  # [2, 2, 12]
        assert_close(weights[:, :, i], expected)
        read = sum(expected[..., j, None] * (value[:, :, j] + to_value[row[j]]) for j in range(12))
        assert_close(output[:, i], read)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("buckets", "farthest"), [(32, 128), (8, 20), (6, 9)])
def test_t5_s_buckets_are_those_of_transformers(is_causal, buckets, farthest):
    sizes = {"relative_attention_num_buckets": buckets, "relative_attention_max_distance": farthest}
    positions, distances = build_positions("t5", is_causal, **sizes), torch.arange(-200, 201)
    expected = T5Attention._relative_position_bucket(distances, not is_causal, buckets, farthest)
    assert torch.equal(positions.bucket(distances), expected)


@pytest.mark.parametrize("num_heads", [1, 2, 3, 6, 8, 12, 16])
def test_alibi_s_slopes_are_those_of_transformers_also_where_heads_are_no_power_of_2(num_heads):
    expected = build_alibi_tensor(torch.ones(1, 2), num_heads, torch.float32)[:, 0, 1]
    assert_close(build_alibi_slopes(num_heads), expected)
    if num_heads == 8:
        assert_close(build_alibi_slopes(8), torch.tensor([2.0**-h for h in range(1, 9)]))


# Refusals


@pytest.mark.parametrize("family", BUILDERS)
def test_relative_positions_choose_the_eager_kernel_and_refuse_another(family):
    sentence = r"'sdpa' never forms the attention weights.*'relative' needs them.*\"eager\""
    model = build(family, "relative", "eager")
    assert (
        type(model)(type(model.config)(**SIZES, position_type="relative")).config._attn_implementation
        == "eager"
    )
    with pytest.raises(ValueError, match=sentence):
        model.set_attn_implementation("sdpa")
    with pytest.raises(ValueError, match=sentence):
        BUILDERS[family]("sdpa", position_type="relative")
