"""Efficient attention: every kind's kernel is its plain twin, and at one end of its size full attention."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from hf_attn.models.attention import scaled_dot_product_attention
from hf_attn.models.configuration_attn_encoder import AttnEncoderConfig
from hf_attn.models.efficient_attention import EFFICIENT_ATTENTION, EfficientAttention, mark_sequences
from hf_attn.models.performer_reformer import RandomAttention, positive_features
from tests.support.checks import SIZES, assert_close, assert_different
from tests.support.subjects import CAUSAL, EFFICIENT

EVERY = [
    (kind, is_causal) for kind in EFFICIENT for is_causal in (False, True) if kind in CAUSAL or not is_causal
]


def build(kind: str, is_causal: bool = False, seed: int = 0, **fields) -> EfficientAttention:
    """A layer's self-attention, 2 heads of 8, with its random parts drawn."""
    config = AttnEncoderConfig(**{**SIZES, "max_position_embeddings": 300, **fields}, attention_type=kind)
    attention = EFFICIENT_ATTENTION[kind](config, 0, is_causal)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        attention.reset()
    if isinstance(attention, RandomAttention):
        attention.redraw(torch.Generator().manual_seed(seed))
    return attention


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def one(length: int) -> torch.Tensor:
    """All tokens are one sequence."""
    return torch.ones(1, length, dtype=torch.long)


def slopes(compute, *tensors) -> tuple:
    """What `compute` gives, and the gradients of its sum of squares."""
    tensors = [tensor.clone().requires_grad_() for tensor in tensors]
    output = compute(*tensors)
    given = torch.autograd.grad(output.square().sum(), tensors, allow_unused=True, materialize_grads=True)
    return output.detach(), *given


# The kernel is its twin


@pytest.mark.parametrize(("kind", "is_causal"), EVERY)
@settings(max_examples=20, deadline=None)
@given(
    length=st.integers(1, 40) | st.integers(125, 300),
    asked=st.integers(1, 300),
    padded=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=3),
    window=st.integers(1, 45),
    chunk=st.integers(1, 12),
    rounds=st.integers(1, 3),
)
def test_every_kernel_gives_its_plain_twins_values_and_gradients(
    kind, is_causal, length, asked, padded, window, chunk, rounds
):
    attention = build(kind, is_causal, attention_window=window, reformer_chunk=chunk, reformer_rounds=rounds)
    asked = min(asked, length) if is_causal else length  # with a cache the last ones ask
    sequences = torch.ones(len(padded), length, dtype=torch.long)
    for row, (left, right) in zip(sequences, padded, strict=True):
        row[:left] = 0
        row[length - min(right, length) :] = 0
    shape = (len(padded), 2, length, 8)
    tensors = draw(*shape)[:, :, :asked], draw(*shape, seed=1), draw(*shape, seed=2)
    shown = (sequences[:, length - asked :] != 0)[:, None, :, None]
    fast = slopes(lambda *read: attention.attend(*read, sequences) * shown, *tensors)
    plain = slopes(lambda *read: attention.attend_plainly(*read, sequences)[0] * shown, *tensors)
    for ours, twins in zip(fast, plain, strict=True):
        assert (ours - twins).abs().max() <= 1e-4 * twins.abs().max() + 2e-5


@pytest.mark.parametrize("is_causal", [False, True])
def test_local_attention_adds_a_bias_where_the_twin_does(is_causal):
    attention = build("local", is_causal)
    tensors = (*(draw(2, 2, 70, 8, seed=seed) for seed in range(3)), draw(2, 2, 70, 70, seed=3))
    fast, plain = (
        slopes(lambda q, k, v, bias, how=how: how(q, k, v, one(70), bias), *tensors)
        for how in (attention.attend, lambda *read: attention.attend_plainly(*read)[0])
    )
    for ours, twins in zip(fast, plain, strict=True):
        assert_close(ours, twins, tolerance=1e-4)
    assert_different(fast[0], attention.attend(*tensors[:3], one(70)))


@pytest.mark.parametrize("is_causal", [False, True])
def test_local_padding_reads_nothing_and_weighs_nothing_in_kernel_and_twin(is_causal):
    attention = build("local", is_causal)
    sequences = torch.tensor([[0, 0, 1, 1, 1, 0, 0, 2, 2, 0]])
    query, key, value = (draw(1, 2, 10, 8, seed=seed) for seed in range(3))
    twin, weights = attention.attend_plainly(query, key, value, sequences)
    for output in (attention.attend(query, key, value, sequences), twin, weights):
        assert ((output != 0).any(-1) == (sequences != 0)).all()
    assert (weights[..., (sequences == 0)[0]] == 0).all()


# What a kind is at one end of its size


@settings(max_examples=20, deadline=None)
@given(length=st.integers(1, 40), more=st.integers(0, 50), is_causal=st.booleans())
def test_a_window_over_everything_is_full_attention(length, more, is_causal):
    attention = build("local", is_causal, attention_window=max(1, length - 1) + more)
    tensors = [draw(2, 2, length, 8, seed=seed) for seed in range(3)]
    full = torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=is_causal)
    assert_close(attention.attend(*tensors, one(length)), full)


@settings(max_examples=20, deadline=None)
@given(length=st.integers(1, 40))
def test_linformer_with_a_mixture_for_each_place_is_full_attention(length):
    attention = build("linformer", linformer_size=length, max_position_embeddings=length)
    for mixture in (attention.key_mixture, attention.value_mixture):
        torch.nn.init.eye_(mixture)
    tensors = [draw(2, 2, length, 8, seed=seed) for seed in range(3)]
    assert_close(
        attention.attend(*tensors, one(length)), torch.nn.functional.scaled_dot_product_attention(*tensors)
    )


@settings(max_examples=20, deadline=None)
@given(length=st.integers(1, 40), rounds=st.integers(1, 3), more=st.integers(0, 9))
def test_reformer_with_one_chunk_is_full_attention_with_shared_keys_but_to_itself(length, rounds, more):
    attention = build("reformer", reformer_chunk=length + more, reformer_rounds=rounds)
    query, value = draw(2, 2, length, 8), draw(2, 2, length, 8, seed=1)
    key = query / query.norm(dim=-1, keepdim=True) * math.sqrt(8)
    others = ~torch.eye(length, dtype=torch.bool)[None, None] if length > 1 else None
    full, _ = scaled_dot_product_attention(query, key, value, others)
    assert_close(attention.attend(query, query, value, one(length)), full, tolerance=1e-4)


def test_what_several_rounds_find_counts_once():
    several, single = (build("reformer", reformer_rounds=rounds) for rounds in (3, 1))
    several.drawn.copy_(single.drawn.expand_as(several.drawn))
    query, value = draw(2, 2, 30, 8), draw(2, 2, 30, 8, seed=1)
    read = [attention.attend(query, query, value, one(30)) for attention in (several, single)]
    assert_close(*read)


# Random features


def test_random_features_are_orthogonal_in_blocks_and_as_long_as_normal_vectors():
    drawn = build("performer", performer_features=4096).drawn
    for block in drawn.split(8)[:5]:
        products = block @ block.T
        assert_close(products, products.diagonal().diag(), tolerance=1e-4)
    assert drawn.square().sum(1).mean().item() == pytest.approx(8, rel=0.05)
    assert (drawn.mean(0).abs() < 4 / math.sqrt(4096)).all()  # no direction is likelier


@pytest.mark.parametrize("is_causal", [False, True])
def test_performer_is_its_equation_written_out(is_causal):
    attention = build("performer", is_causal)
    query, key, value = (draw(1, 2, 20, 8, seed=seed).double() for seed in range(3))
    scaled, features = [x / 8**0.25 for x in (query, key)], attention.drawn.double()
    phi = [(x @ features.T - x.square().sum(-1, keepdim=True) / 2).exp() / math.sqrt(12) for x in scaled]
    products = phi[0] @ phi[1].transpose(2, 3)
    products = products.tril() if is_causal else products
    expected = products @ value / products.sum(-1, keepdim=True)
    assert_close(attention.attend(query.float(), key.float(), value.float(), one(20)), expected.float())


@pytest.mark.parametrize("is_causal", [False, True])
def test_performer_stays_finite_where_exponentials_overflow(is_causal):
    query, key, value = (30 * draw(2, 2, 20, 8, seed=seed) for seed in range(3))
    attention = build("performer", is_causal)
    output, *given = slopes(lambda *read: attention.attend(*read, one(20)), query, key, value)
    assert all(tensor.isfinite().all() for tensor in (output, *given))
    queries, _ = positive_features(query, key, one(20), attention.drawn)
    assert (queries.amax(-1) == 1).all()


# What it costs


class LargestTensor(TorchDispatchMode):
    """How many numbers the largest tensor has that is made within."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        for tensor in found if isinstance(found, (tuple, list)) else (found,):
            if isinstance(tensor, torch.Tensor):
                self.numbers = max(self.numbers, tensor.untyped_storage().size() // tensor.element_size())
        return found


@pytest.mark.parametrize(("kind", "is_causal"), EVERY)
def test_no_kernel_forms_a_number_for_each_pair_nor_does_its_gradient(kind, is_causal):
    attention = build(kind, is_causal, max_position_embeddings=1024, reformer_rounds=2)
    tensors = [draw(1, 1, 1024, 8, seed=seed) for seed in range(3)]
    with LargestTensor() as largest:
        slopes(lambda *read: attention.attend(*read, one(1024)), *tensors)
    assert 1024 * 8 <= largest.numbers < 1024**2 / 4
    with LargestTensor() as largest:
        attention.attend_plainly(*tensors, one(1024))
    assert largest.numbers >= 1024**2


# What is refused


def test_a_mask_of_pairs_is_refused():
    with pytest.raises(ValueError, match=r"shape \[2, 1, 5, 5\].*forms no pairs.*\[B, S\]"):
        mark_sequences(draw(2, 5, 16), torch.ones(2, 1, 5, 5))


@pytest.mark.parametrize("shape", [(2, 4), (2, 6), (1, 5), (3, 5)])
def test_a_mask_that_does_not_fit_the_tokens_is_refused(shape):
    with pytest.raises(ValueError, match=rf"shape \[{shape[0]}, {shape[1]}\] does not fit 2 rows.*\[2, 5\]"):
        mark_sequences(draw(2, 5, 16), torch.ones(shape))


@pytest.mark.parametrize("size", [(2, 0), (0, 3)])
def test_a_row_without_tokens_is_refused(size):
    with pytest.raises(ValueError, match=f"{size[0]} rows of {size[1]} tokens hold nothing to read"):
        mark_sequences(torch.ones(*size, 16), None)


def test_linformer_refuses_a_row_longer_than_its_mixtures():
    attention, tensor = build("linformer", max_position_embeddings=40), draw(1, 2, 41, 8)
    with pytest.raises(ValueError, match=r"41 tokens.*max_position_embeddings=40 places"):
        attention.attend(tensor, tensor, tensor, one(41))
