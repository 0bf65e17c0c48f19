"""Views of attention: each is its plain twin, and does not see padding."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_attn.analysis.head_metrics import (
    THEORY,
    crop,
    distance_profile,
    effective_rank,
    entropy,
    kernel_matrix,
    leading_energy,
    low_frequency_share,
    mean_distance,
    measure_theory,
    normalised_entropy,
    numerical_rank,
    singular_values,
    sink_share,
)
from hf_attn.analysis.hopfield import hopfield_descent, hopfield_energy, hopfield_update, inner_products
from hf_attn.models.attention import scaled_dot_product_attention

FEW = settings(max_examples=25, deadline=None)
EVEN = torch.full((6, 6), 1 / 6)


def draw_weights(seed, heads, queries, keys, sharpness=3.0, may_attend=None):
    """[1, heads, Q, K] as a softmax leaves them."""
    scores = sharpness * torch.randn(1, heads, queries, keys, generator=torch.Generator().manual_seed(seed))
    if may_attend is not None:
        scores = scores.masked_fill(~may_attend, -math.inf)
    return scores.softmax(-1).nan_to_num(0)


maps = st.builds(
    draw_weights,
    st.integers(0, 10_000),
    st.integers(1, 3),
    st.integers(1, 9),
    st.integers(1, 9),
    st.floats(0, 20),
)


# Each view and its plain twin


def plain_entropy(row):
    return -sum(weight * math.log(weight) for weight in row if weight > 0)


@FEW
@given(maps)
def test_entropy_and_its_share_are_the_sums_written_out(weights):
    rows = weights.flatten(0, 2).tolist()
    wanted = [plain_entropy(row) for row in rows]
    assert entropy(weights).flatten().tolist() == pytest.approx(wanted, abs=1e-5)
    share, keys = normalised_entropy(weights), weights.shape[-1]
    if keys == 1:
        assert share.isnan().all()
    else:
        assert share.flatten().tolist() == pytest.approx([one / math.log(keys) for one in wanted], abs=1e-5)
        assert (share > -1e-6).all()
        assert (share < 1 + 1e-6).all()


@FEW
@given(maps)
def test_singular_values_ranks_and_energy_are_numpy_s(weights):
    for own, head in zip(singular_values(weights)[0], weights[0].double().numpy(), strict=True):
        sigma = np.linalg.svd(head, compute_uv=False)
        assert own.numpy() == pytest.approx(sigma, abs=1e-8)
    sigma = np.linalg.svd(weights[0, 0].double().numpy(), compute_uv=False)
    shares = sigma / sigma.sum()
    assert float(effective_rank(weights)[0, 0]) == pytest.approx(math.exp(plain_entropy(shares)), rel=1e-6)
    assert int(numerical_rank(weights)[0, 0]) == sum(value > 0.01 * sigma[0] for value in sigma)
    first = max(1, len(sigma) // 2)
    wanted = sum(sigma[:first] ** 2) / sum(sigma**2)
    assert float(leading_energy(weights, 0.5)[0, 0]) == pytest.approx(wanted, rel=1e-6)


def test_a_rank_is_counted_beside_the_largest_singular_value():
    weights = torch.tensor([[1.0, 0.0]] * 100 + [[0.95, 0.05]])  # σ is 10 and 0.05
    assert int(numerical_rank(weights)) == 1
    assert int(numerical_rank(weights, 0.001)) == 2


@FEW
@given(maps, st.sampled_from([0.25, 0.5, 1.0]))
def test_low_frequencies_are_those_of_the_transform_written_out(weights, below):
    head = weights[0, 0].double()
    queries, keys = head.shape
    low = total = 0.0
    for u in range(queries):
        for v in range(keys):
            waves = torch.tensor(
                [
                    [-2 * math.pi * (q * u / queries + k * v / keys) for k in range(keys)]
                    for q in range(queries)
                ]
            ).double()
            energy = float((head * waves.cos()).sum() ** 2 + (head * waves.sin()).sum() ** 2)
            total += energy
            slow = min(u, queries - u) / queries < below / 2 and min(v, keys - v) / keys < below / 2
            low += energy * slow
    assert float(low_frequency_share(weights, below)[0, 0]) == pytest.approx(low / total, abs=1e-6)


@FEW
@given(maps)
def test_distances_and_the_sink_are_the_means_written_out(weights):
    head = weights[0, 0].double()
    queries, keys = head.shape
    offsets, profile = distance_profile(weights.double())
    assert offsets.tolist() == list(range(1 - queries, keys))
    for offset, mean in zip(offsets.tolist(), profile[0, 0].tolist(), strict=True):
        reached = [float(head[q, q + offset]) for q in range(queries) if 0 <= q + offset < keys]
        assert mean == pytest.approx(sum(reached) / len(reached), abs=1e-9)
    far = sum(float(head[q, k]) * abs(q - k) for q in range(queries) for k in range(keys)) / queries
    assert float(mean_distance(weights)[0, 0]) == pytest.approx(far, abs=1e-5)
    sink = float(sink_share(weights)[0, 0])
    assert math.isnan(sink) if keys == 1 else sink == pytest.approx(float(head[:, 0].mean()), abs=1e-6)


@pytest.mark.parametrize("is_masked", [False, True])
def test_the_kernel_normalised_is_attention(is_masked, generator):
    query, key = torch.randn(2, 3, 2, 5, 8, generator=generator).double()
    mask = torch.ones(1, 1, 5, 5).tril().bool() if is_masked else None
    kernel = kernel_matrix(query, key, mask)
    _, weights = scaled_dot_product_attention(query, key, key, mask)
    torch.testing.assert_close((kernel / kernel.sum(-1, keepdim=True)).float(), weights.float())
    asymmetry = (kernel - kernel.transpose(-2, -1)).abs().max()
    assert asymmetry > 0.1
    same = kernel_matrix(key, key)
    torch.testing.assert_close(same, same.transpose(-2, -1))
    assert torch.linalg.eigvalsh(same).min() > -1e-9  # e^(x·y) is a positive kernel


# Masks and padding


@FEW
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(2, 6), st.integers(1, 3))
def test_padding_and_queries_that_read_nothing_change_no_figure(seed, queries, keys, padding):
    weights = draw_weights(seed, 2, queries, keys)
    padded = torch.nn.functional.pad(weights, (0, padding, 0, padding))
    padded[..., queries:, 0] = 1  # what a padded query reads is nobody's business
    mask = torch.zeros(queries + padding, keys + padding, dtype=torch.bool)
    mask[:queries, :keys] = True
    alone, measured = measure_theory(weights), measure_theory(padded, mask)
    assert list(measured) == list(THEORY)
    for name, figure in alone.items():
        assert figure.shape == (1, 2)
        torch.testing.assert_close(measured[name], figure, equal_nan=True)


def test_a_causal_query_is_measured_by_the_keys_that_it_may_attend_to():
    mask = torch.ones(5, 5).tril().bool()
    even = (mask / mask.sum(-1, keepdim=True)).expand(1, 1, 5, 5)
    figures = measure_theory(even, mask)
    assert float(figures["entropy"]) == pytest.approx(1)  # the first query, which has one key, does not count
    assert float(figures["sink"]) == pytest.approx((1 / 2 + 1 / 3 + 1 / 4 + 1 / 5) / 4)
    assert normalised_entropy(even, mask)[0, 0].isnan().tolist() == [True] + [False] * 4
    _, profile = distance_profile(even, mask)
    assert profile[0, 0, 5:].isnan().all()
    assert float(profile[0, 0, 0]) == pytest.approx(1 / 5)  # four places back is for the last query alone


def test_weight_on_hidden_keys_and_a_mask_of_another_shape_are_refused():
    mask = torch.ones(6, 6).tril().bool()
    with pytest.raises(ValueError, match=r"weights put 0\.\d+ on keys that may_attend hides"):
        measure_theory(EVEN[None, None], mask)
    with pytest.raises(ValueError, match=r"torch.bool \[5, 5\]; give torch.bool \[6, 6\], queries by keys"):
        crop(EVEN, mask[:5, :5])


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (torch.ones(3), r"\[3\]; give floats \[..., queries, keys\]"),
        (torch.ones(3, 3, dtype=torch.long), "torch.int64"),
        (-EVEN, "negative numbers or NaN; give them as they leave the softmax"),
        (EVEN * math.nan, "negative numbers or NaN"),
        (EVEN * 9, "weights reaches 1.5, and a weight is at most 1"),
    ],
)
def test_what_is_no_attention_map_is_refused_in_words(weights, words):
    for figure in (
        entropy,
        effective_rank,
        numerical_rank,
        low_frequency_share,
        mean_distance,
        measure_theory,
    ):
        with pytest.raises(ValueError, match=words):
            figure(weights)


def test_shares_out_of_their_range_are_refused():
    for figure, wrong in ((numerical_rank, 1.0), (leading_energy, 0.0), (low_frequency_share, 1.5)):
        with pytest.raises(ValueError, match=f"={wrong} must be "):
            figure(EVEN, wrong)


def test_a_share_of_the_singular_values_is_counted_without_rounding():
    assert leading_energy(torch.eye(100), 0.29).item() == pytest.approx(0.29)
    assert leading_energy(torch.eye(6), 0.49).item() == pytest.approx(2 / 6)


# The memory


@FEW
@given(st.integers(0, 10_000), st.floats(0.05, 20), st.floats(0.1, 5))
def test_hopfield_energy_is_the_equation_is_not_negative_and_never_rises(seed, beta, scale):
    generator = torch.Generator().manual_seed(seed)
    state, patterns = scale * torch.randn(2, 6, 4, generator=generator)
    energies = hopfield_descent(state, patterns, steps=4, beta=beta)
    assert energies.shape == (5, 6)
    assert (energies > -1e-9).all()
    assert (energies.diff(dim=0) <= 1e-9 * energies[:1].clamp(min=1)).all()
    own, stored = state[0].double(), patterns.double()
    scores = [beta * float(own @ pattern) for pattern in stored]
    lse = (max(scores) + math.log(sum(math.exp(score - max(scores)) for score in scores))) / beta
    largest = max(float(pattern @ pattern) for pattern in stored)
    plain = -lse + float(own @ own) / 2 + math.log(6) / beta + largest / 2
    assert float(energies[0, 0]) == pytest.approx(plain, rel=1e-6)


def test_an_update_is_attention_with_the_keys_for_values(generator):
    query, key = torch.randn(2, 1, 2, 5, 8, generator=generator).double()
    mask = torch.ones(1, 1, 5, 5).tril().bool()
    for may_attend in (None, mask):
        output, _ = scaled_dot_product_attention(query, key, key, may_attend)
        torch.testing.assert_close(
            hopfield_update(query, key, may_attend=may_attend), output, atol=1e-6, rtol=0
        )


def test_patterns_that_are_hidden_do_not_count(generator):
    state, patterns = torch.randn(2, 4, 8, generator=generator)
    mask = torch.tensor([[True, True, False, False]]).expand(4, 4).clone()
    mask[3] = False
    torch.testing.assert_close(
        hopfield_energy(state, patterns, may_attend=mask)[:3], hopfield_energy(state, patterns[:2])[:3]
    )
    assert hopfield_energy(state, patterns, may_attend=mask)[3].isnan()
    assert (hopfield_update(state, patterns, may_attend=mask)[3] == 0).all()


def test_what_cannot_be_compared_is_refused_in_words():
    with pytest.raises(ValueError, match="queries are 4 wide and keys 5"):
        inner_products(torch.ones(2, 4), torch.ones(2, 5))
    for figure in (hopfield_energy, hopfield_update, hopfield_descent, kernel_matrix):
        for shape in ((0, 4), (2, 0)):
            with pytest.raises(ValueError, match=rf"shape \[{shape[0]}, {shape[1]}\] hold nothing"):
                figure(torch.ones(2, shape[1]), torch.ones(shape))
    with pytest.raises(ValueError, match="beta=0 must be a number above 0"):
        hopfield_energy(torch.ones(2, 4), torch.ones(2, 4), beta=0)
    with pytest.raises(ValueError, match="steps=0 must be at least 1"):
        hopfield_descent(torch.ones(2, 4), torch.ones(2, 4), steps=0)
    with pytest.raises(OverflowError, match="reaches 2000, and e to that is beyond a number"):
        kernel_matrix(torch.full((1, 4), 1000.0), torch.full((1, 4), 1.0))
