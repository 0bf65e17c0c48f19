"""Each way to tell a place computes its paper's equation: by hand, or by another implementation."""

import math

import pytest
import torch
from torch import nn
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention

from hf_attn.models.attention import eager_attention_forward
from hf_attn.models.configuration_attn_encoder import AttnEncoderConfig
from hf_attn.models.position_base import build_sinusoids
from hf_attn.models.position_relative import build_alibi_slopes
from hf_attn.models.positions import POSITION_TYPES
from tests.support.checks import SIZES, assert_close, assert_different, build_encoder, random_ids
from tests.support.position_checks import BUILDERS, STRETCHED, build, build_positions

PLACES = torch.arange(12)[None]


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# Added to the embedding


def test_an_added_index_gives_the_document_s_table():
    words = torch.tensor(
        [[0.2, 0.3, 0.1, 0.4], [0.5, 0.2, 0.8, 0.1], [0.3, 0.7, 0.2, 0.5], [0.6, 0.4, 0.3, 0.2]]
    )
    expected = [[0.2, 0.3, 0.1, 0.4], [1.5, 1.2, 1.8, 1.1], [2.3, 2.7, 2.2, 2.5], [3.6, 3.4, 3.3, 3.2]]
    positions = POSITION_TYPES["index"](AttnEncoderConfig(hidden_size=4, num_attention_heads=1))
    assert_close(positions(words[None], torch.arange(4)[None])[0], torch.tensor(expected))


def test_layer_normalisation_takes_an_added_index_off_again():
    """Why it fails: a pre-norm model gives what it gives without positions."""
    ids = random_ids(2, 7)
    blind, index = (build_encoder(position_type=name) for name in ("none", "index"))
    assert_close(index(ids)[0], blind(ids)[0])
    blind, index = (build_encoder(position_type=name, norm_position="post") for name in ("none", "index"))
    assert_different(index(ids)[0], blind(ids)[0])


def test_an_interpolated_table_is_the_table_inside_and_lies_between_its_rows_beyond():
    learned, stretched = build_positions("learned"), build_positions("learned_interpolated")
    stretched.load_state_dict(learned.state_dict())
    inside = draw(1, 24, 16)
    assert_close(stretched(inside, torch.arange(24)[None]), learned(inside, torch.arange(24)[None]))
    beyond = stretched(torch.zeros(1, 36, 16), torch.arange(36)[None])[0]
    assert_close(beyond[3], learned.weight[2])  # 3 · 24/36
    assert_close(beyond[1], learned.weight[0] / 3 + learned.weight[1] * 2 / 3)
    assert_close(beyond[35], learned.weight[23])  # 23.33 is beyond the last row


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


def test_a_constant_slope_is_solved_exactly():
    positions = build_positions("ode")
    with torch.no_grad():
        positions.outer.weight.zero_()
        positions.outer.bias.copy_(draw(16))
        slope = positions.outer.bias / math.sqrt(24)
        assert_close(positions.solve(9), positions.start + torch.arange(9).unsqueeze(1) * slope)


def test_moving_on_turns_a_complex_word_and_keeps_its_amplitude():
    positions, word = build_positions("complex"), draw(1, 1, 16)
    nn.init.normal_(positions.phi, generator=torch.Generator().manual_seed(1))

    def wave(place):
        return torch.complex(*positions(word, torch.tensor([[place]]))[0, 0].chunk(2))

    amplitude = torch.complex(*word[0, 0].chunk(2))
    assert_close(wave(0), amplitude * torch.exp(1j * positions.phi))
    assert_close(wave(9), wave(4) * torch.exp(1j * positions.omega * 5))
    assert_close(wave(9).abs(), amplitude.abs())


# Turned


def test_interpolated_rotary_angles_stay_inside_what_was_trained():
    plain, stretched = build_positions("rotary"), build_positions("rotary_interpolated")
    places = torch.arange(48)[None]
    assert_close(stretched.angles(places), plain.angles(places / 2))
    assert stretched.angles(places).max() < 24
    assert torch.equal(stretched.angles(places[:, :24]), plain.angles(places[:, :24]))


def test_ntk_scaling_slows_the_slowest_pair_as_interpolation_does_and_the_fastest_not_at_all():
    plain, scaled = build_positions("rotary"), build_positions("rotary_ntk")
    places = torch.arange(48)[None]
    ratio = scaled.angles(places)[0, 1] / plain.angles(places)[0, 1]
    assert_close(ratio[[0, -1]], torch.tensor([1.0, 0.5]))
    assert (ratio.diff() < 0).all(), "frequencies fall, none rises"


@pytest.mark.parametrize("position_type", STRETCHED)
def test_a_fixed_scale_is_the_same_for_every_length(position_type):
    fixed = build_positions(position_type, position_scaling_factor=2)
    growing = build_positions(position_type)
    long, short = torch.arange(48)[None], torch.arange(10)[None]

    def tell(positions, places):
        rotation = positions.rotation(places)
        return (
            positions(torch.zeros(1, places.shape[1], 16), places)[0]
            if rotation is None
            else rotation[0][0, 0]
        )

    assert_close(tell(fixed, long), tell(growing, long))
    assert_close(tell(fixed, short), tell(fixed, long)[:10])
    assert_different(tell(fixed, short), tell(growing, short))


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


def test_t5_s_bias_is_not_divided_by_the_root_of_the_head_and_the_clipped_one_is():
    for name, row_of, scale in (
        ("t5", lambda p, d: p.bucket(torch.tensor(d)), 1),
        ("t5_clipped", None, 8**-0.5),
    ):
        positions = build_positions(name, relative_clip_distance=3)
        bias, _ = positions.score_terms(PLACES, PLACES)
        assert bias.shape == (1, 2, 12, 12)
        for i, j in ((0, 0), (0, 11), (7, 5), (5, 6)):
            row = row_of(positions, j - i) if row_of else max(-3, min(3, j - i)) + 3
            assert_close(bias[0, :, i, j], positions.weight[row] * scale)


@pytest.mark.parametrize("num_heads", [1, 2, 3, 6, 8, 12, 16])
def test_alibi_s_slopes_are_those_of_transformers_also_where_heads_are_no_power_of_2(num_heads):
    expected = build_alibi_tensor(torch.ones(1, 2), num_heads, torch.float32)[:, 0, 1]
    assert_close(build_alibi_slopes(num_heads), expected)
    if num_heads == 8:
        assert_close(build_alibi_slopes(8), torch.tensor([2.0**-h for h in range(1, 9)]))


def test_alibi_punishes_both_sides_alike():
    bias, _ = build_positions("alibi").score_terms(PLACES, PLACES)
    assert_close(bias, bias.transpose(-2, -1))
    assert_close(bias[0, :, 3, 8], -5 * build_alibi_slopes(2))


def test_a_composite_is_its_absolute_and_its_relative_part():
    composite, clipped = build_positions("composite"), build_positions("t5_clipped")
    clipped.weight.data.copy_(composite.weight)
    composite.alpha.data.fill_(0.5)
    composite.beta.data.fill_(-2)
    words = draw(1, 12, 16)
    assert_close(composite(words, PLACES), words + 0.5 * build_sinusoids(12, 16))
    assert_close(composite.score_terms(PLACES, PLACES)[0], -2 * clipped.score_terms(PLACES, PLACES)[0])


# Told by the neighbours


@pytest.mark.parametrize("is_causal", [False, True])
def test_convolutions_are_torch_s(is_causal):
    words = draw(2, 12, 16)
    places = PLACES.expand(2, -1)

    def convolve(width, groups, weight):
        padded = nn.functional.pad(words.mT, (width - 1, 0) if is_causal else (width // 2, width // 2))
        return nn.functional.conv1d(padded, weight, groups=groups).mT

    depthwise = build_positions("depthwise_convolution", is_causal, position_kernel_size=5)
    assert_close(depthwise(words, places), words + convolve(5, 16, depthwise.weight.T.unsqueeze(1)))
    several = build_positions("multiscale_convolution", is_causal)
    found = [
        convolve(k, 1, m.weight.unflatten(1, (k, 16)).mT) for k, m in ((3, several.narrow), (5, several.wide))
    ]
    assert_close(several(words, places), words + torch.cat(found, dim=-1))


def test_recurrent_positions_are_torch_s_lstm():
    positions, words = build_positions("recurrent"), draw(2, 12, 16)
    lstm = nn.LSTM(16, 16, batch_first=True)
    order = torch.arange(64).view(4, 16)[[0, 1, 3, 2]].flatten()  # torch: input, forget, cell, output
    lstm.weight_ih_l0.data = positions.from_input.weight.data[order]
    lstm.weight_hh_l0.data = positions.from_state.weight.data[order]
    lstm.bias_ih_l0.data = positions.from_input.bias.data[order]
    lstm.bias_hh_l0.data.zero_()
    assert_close(positions(words, PLACES.expand(2, -1)), words + positions.projection(lstm(words)[0]))


def test_a_dynamic_position_depends_on_place_and_context():
    positions, words = build_positions("dynamic", is_causal=True), draw(1, 12, 16)
    told = positions(words, PLACES) - words
    by_hand = torch.cat((build_sinusoids(12, 16)[5], words[0, :6].mean(0)))
    assert_close(told[0, 5], positions.outer(torch.tanh(positions.inner(by_hand))))
    elsewhere = positions(words, PLACES + 3) - words
    other = words.clone()
    other[:, 2] += 1
    assert_different(elsewhere, told)
    assert_different((positions(other, PLACES) - other)[:, 5], told[:, 5])
    assert_close((positions(other, PLACES) - other)[:, :2], told[:, :2])


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


@pytest.mark.parametrize("position_type", ["t5", "t5_clipped", "alibi", "composite"])
def test_flash_attention_is_refused_where_a_bias_is_needed(position_type):
    model = build("decoder", position_type)
    with pytest.raises(
        ValueError, match=rf"'flash_attention_2' takes no bias.*'{position_type}' is one.*sdpa"
    ):
        model.get_correct_attn_implementation("flash_attention_2")


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"hidden_size": 6, "position_type": "rotary_interpolated"}, r"'rotary_interpolated'.*size 3 is odd"),
        ({"hidden_size": 4, "position_type": "rotary_ntk"}, r"'rotary_ntk'.*size 2 has no other.*at least 4"),
        ({"hidden_size": 7, "num_attention_heads": 1, "position_type": "complex"}, r"hidden_size=7.*even"),
        ({"position_scaling_factor": 0.5}, r"position_scaling_factor=0.5 must be a number from 1 to "),
        ({"relative_clip_distance": 0}, r"relative_clip_distance=0 must be a whole number from 1"),
        ({"position_kernel_size": 0}, r"position_kernel_size=0 must be a whole number from 1"),
        ({"relative_attention_num_buckets": 7}, r"num_buckets=7 must be even"),
        ({"relative_attention_max_distance": 16}, r"max_distance=16 above half"),
    ],
)
def test_a_config_refuses_sizes_that_positions_cannot_work_with(setting, sentence):
    with pytest.raises(ValueError, match=sentence):
        AttnEncoderConfig(**{**SIZES, **setting})
