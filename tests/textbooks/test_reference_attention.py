"""Attention from scratch is PyTorch's own: the same outputs, maps and gradients."""

import pytest
import torch
from torch import nn

from hf_attn.textbooks.reference_attention import (
    EncoderLayer,
    LayerNorm,
    MultiHeadAttention,
    attend,
)

torch_attend = nn.functional.scaled_dot_product_attention


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_one_head_is_pytorchs_function_with_and_without_a_mask():
    query, key, value = draw(2, 5, 8), draw(2, 7, 8, seed=1), draw(2, 7, 3, seed=2)
    may_attend = torch.ones(1, 5, 7).tril(diagonal=1).bool()
    for mask in (None, may_attend):
        output, weights = attend(query, key, value, mask)
        assert (output - torch_attend(query, key, value, mask)).abs().max() < 1e-12
        assert (weights.sum(dim=-1) - 1).abs().max() < 1e-12
    assert weights[:, ~may_attend[0]].abs().max() == 0


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("length", [10, 12])
def test_many_heads_are_pytorchs_module_in_outputs_maps_and_gradients(bias, length):
    theirs = nn.MultiheadAttention(32, 4, bias=bias, batch_first=True, dtype=torch.float64)
    ours = MultiHeadAttention.copy_of(theirs).double()
    tokens, memory = draw(2, 10, 32).requires_grad_(), draw(2, length, 32, seed=1)
    mine = ours(tokens, memory)
    (our_gradient,) = torch.autograd.grad(mine[0].square().sum(), tokens)
    reference = theirs(tokens, memory, memory, average_attn_weights=False)
    (their_gradient,) = torch.autograd.grad(reference[0].square().sum(), tokens)
    for one, other in (*zip(mine, reference, strict=True), (our_gradient, their_gradient)):
        assert one.shape == other.shape
        assert (one - other).abs().max() < 1e-6


def test_padding_that_ours_may_not_attend_is_what_theirs_masks():
    theirs = nn.MultiheadAttention(16, 2, batch_first=True, dtype=torch.float64)
    tokens = draw(2, 6, 16)
    padding = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])  # theirs: True = hidden
    ours = MultiHeadAttention.copy_of(theirs).double()(tokens, may_attend=~padding[:, None, None])
    reference, _ = theirs(tokens, tokens, tokens, key_padding_mask=padding)
    assert (ours[0] - reference).abs().max() < 1e-6


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_encoder_layer_is_pytorchs_module(norm_first):
    torch.manual_seed(0)
    theirs = nn.TransformerEncoderLayer(
        32, 4, 64, dropout=0.0, batch_first=True, norm_first=norm_first, dtype=torch.float64
    )
    for parameter in theirs.parameters():  # norms away from 1 and 0, so that a wrong copy shows
        nn.init.normal_(parameter, std=0.3)
    ours = EncoderLayer.copy_of(theirs).double()
    tokens, causal = draw(2, 7, 32), torch.ones(1, 1, 7, 7).tril().bool()
    assert (ours(tokens) - theirs(tokens)).abs().max() < 1e-6
    masked = theirs(tokens, src_mask=~causal[0, 0])
    assert (ours(tokens, causal) - masked).abs().max() < 1e-6
    assert (masked - theirs(tokens)).abs().max() > 1e-3


def test_the_normalisation_is_pytorchs_also_for_small_and_constant_tokens():
    ours, theirs = LayerNorm(6), nn.LayerNorm(6)
    for tokens in (torch.randn(3, 6), 1e-3 * torch.eye(6), torch.ones(1, 6)):
        one, other = tokens.clone().requires_grad_(), tokens.clone().requires_grad_()
        ours(one).square().sum().backward()
        theirs(other).square().sum().backward()
        assert (ours(one) - theirs(other)).abs().max() < 1e-5
        torch.testing.assert_close(one.grad, other.grad, atol=1e-3, rtol=1e-4)


def test_heads_that_do_not_share_the_width_are_refused_in_words():
    with pytest.raises(ValueError, match=r"width=10 .* num_heads=4"):
        MultiHeadAttention(10, 4)
