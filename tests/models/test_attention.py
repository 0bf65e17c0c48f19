"""Attention: the plain function is the equation, and every kernel equals it."""

import pytest
import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from hf_attn.models.attention import (
    MultiHeadAttention,
    eager_attention_forward,
    scaled_dot_product_attention,
)
from hf_attn.textbooks import reference_attention
from tests.support.checks import (
    KERNELS,
    assert_close,
    assert_same_gradients,
    build_encoder,
    build_seq2seq,
    check_plain_attention_is_the_equation,
    gradients,
    pad,
    random_ids,
    random_rows,
)


def attend_by(kernel):
    """The kernel's function, with the plain one's signature."""
    forward = eager_attention_forward if kernel == "eager" else ALL_ATTENTION_FUNCTIONS[kernel]
    module = MultiHeadAttention(build_encoder().config, 0).eval()

    def attend(query, key, value, may_attend):
        output, weights = forward(module, query, key, value, may_attend, scaling=query.shape[-1] ** -0.5)
        return output.transpose(1, 2), weights

    return attend


@pytest.mark.parametrize("batch", [3, 5])  # of 5 tokens: with 5 rows [B, n] has the shape of [T, S]
def test_the_padding_mask_of_self_attention_and_multi_head_attention_is_refused(batch):
    """It is (B, n): in the text's own code an error, and silently wrong where B = n."""
    query = torch.randn(batch, 2, 5, 4)
    is_token = torch.ones(batch, 5, dtype=torch.bool)
    is_token[0, 3:] = False
    for attend in (scaled_dot_product_attention, reference_attention.attend):
        with pytest.raises(ValueError, match=r"mask\[:, None, None\]"):
            attend(query, query, query, is_token)
        output, weights = attend(query, query, query, is_token[:, None, None])
        assert weights[0, :, :, 3:].abs().max() == 0
        assert_close(
            output,
            torch.nn.functional.scaled_dot_product_attention(query, query, query, is_token[:, None, None]),
        )


def test_plain_attention_equals_torchs_own():
    check_plain_attention_is_the_equation(scaled_dot_product_attention)


@pytest.mark.parametrize("kernel", KERNELS)
def test_multi_head_attention_equals_torchs_own(kernel, generator):
    ours = MultiHeadAttention(build_encoder(kernel, use_bias=True).config, 0).eval()
    theirs = torch.nn.MultiheadAttention(16, 2, batch_first=True).eval()
    parts = (ours.q_proj, ours.k_proj, ours.v_proj)
    for name in ("weight", "bias"):
        getattr(theirs, f"in_proj_{name}").data = torch.cat([getattr(part, name) for part in parts]).detach()
        getattr(theirs.out_proj, name).data = getattr(ours.o_proj, name).detach()
    states, memory = (torch.randn(2, length, 16, generator=generator) for length in (5, 7))
    assert_close(ours(states)[0], theirs(states, states, states)[0])
    assert_close(ours(states, memory)[0], theirs(states, memory, memory)[0])


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_query_that_may_attend_to_nothing_gets_zeros(kernel, generator):
    query, key, value = (torch.randn(2, 2, 4, 8, generator=generator) for _ in range(3))
    may_attend = torch.ones(2, 1, 4, 4, dtype=torch.bool)
    may_attend[0, :, 2] = False
    output, weights = attend_by(kernel)(query, key, value, may_attend)
    assert output.isfinite().all()
    assert (output[0, :, 2] == 0).all()
    assert (output[0, :, 1] != 0).all()
    if weights is not None:
        assert (weights[0, :, 2] == 0).all()
        assert_close(weights[1].sum(-1), torch.ones(2, 4))


def test_a_mask_of_numbers_means_what_a_mask_of_booleans_means(generator):
    query, key, value = (torch.randn(2, 2, 4, 8, generator=generator) for _ in range(3))
    may_attend = torch.rand(2, 1, 4, 4, generator=generator) > 0.5
    may_attend[0, :, 2] = False  # a query of padding may read nothing
    lowest = torch.finfo(torch.float32).min
    added = torch.zeros(2, 1, 4, 4).masked_fill(~may_attend, lowest)
    for mask in (added, added.masked_fill(~may_attend, float("-inf"))):
        for of_numbers, of_booleans in zip(
            attend_by("eager")(query, key, value, mask),
            attend_by("eager")(query, key, value, may_attend),
            strict=True,
        ):
            assert_close(of_numbers, of_booleans)


def test_dropout_falls_on_the_weights_that_are_used(generator):
    module = MultiHeadAttention(build_encoder().config, 0).train()
    query, key = torch.randn(1, 1, 50, 8, generator=generator), torch.randn(1, 1, 50, 8, generator=generator)
    value = torch.eye(50)[None, None]
    output, weights = eager_attention_forward(module, query, key, value, None, dropout=0.5)
    assert_close(output.transpose(1, 2), weights)
    assert 0.4 < (weights == 0).float().mean() < 0.6


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:The .grad attribute")  # of torch's compiler
@pytest.mark.skipif(not torch.cuda.is_available(), reason="flex attention has no backward pass on a CPU")
@pytest.mark.parametrize("build", [build_seq2seq, build_encoder])
def test_flex_agrees_in_gradients(build):
    model = build(hidden_size=32).cuda()
    ids, mask = (tensor.cuda() for tensor in pad(random_rows(7, 4), "right"))
    extra = {"decoder_input_ids": random_ids(2, 5).cuda()} if model.config.is_encoder_decoder else {}
    found = []
    for kernel in ("eager", "flex_attention"):
        model.set_attn_implementation(kernel)
        model.zero_grad()
        output = model(ids, attention_mask=mask, **extra)[0]
        (output if extra else output[mask.bool()]).square().mean().backward()
        found.append(gradients(model))
    assert_same_gradients(found[1], found[0])
