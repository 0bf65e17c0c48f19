"""A layer broken on purpose is caught: the checks that the other tests rely on fail for each of these."""

import pytest
import torch

from hf_attn.models import attention, encoder_decoder, layers, modeling_attn_encoder, modeling_attn_seq2seq
from tests.support.checks import (
    build_classifier,
    build_encoder,
    build_seq2seq,
    check_accumulation_weighs_every_label_alike,
    check_cached_equals_uncached,
    check_encoder_rows_stand_alone,
    check_kernels_agree,
    check_labels_shift_once,
    check_padding_is_not_read,
    check_plain_attention_is_the_equation,
    check_seq2seq_rows_stand_alone,
    check_the_future_is_hidden,
    make_caches_forget,
    random_ids,
    seq2seq_examples,
)


def assert_caught(check, *arguments, **settings) -> None:
    """The check fails."""
    with pytest.raises(AssertionError):
        check(*arguments, **settings)


def test_a_dropped_causal_mask_is_caught(monkeypatch):
    def see_all(config, inputs_embeds, **_):
        return torch.ones(len(inputs_embeds), 1, 1, 1, dtype=torch.bool)

    for kernel in ("eager", "sdpa"):
        model = build_seq2seq(kernel)
        check_the_future_is_hidden(model)
        with monkeypatch.context() as broken:
            broken.setattr(modeling_attn_seq2seq, "create_causal_mask", see_all)
            assert_caught(check_the_future_is_hidden, model)


def test_a_causal_mask_one_place_off_is_caught(monkeypatch):
    def see_one_ahead(config, inputs_embeds, **_):
        length = inputs_embeds.shape[1]
        return torch.ones(length, length, dtype=torch.bool).tril(1)[None, None]

    model = build_seq2seq()
    monkeypatch.setattr(modeling_attn_seq2seq, "create_causal_mask", see_one_ahead)
    assert_caught(check_the_future_is_hidden, model)


@pytest.mark.parametrize("loss_type", ["ForCausalLM"])
def test_labels_shifted_twice_are_caught(loss_type):
    model = build_seq2seq()
    check_labels_shift_once(model)
    model.loss_type = loss_type
    assert_caught(check_labels_shift_once, model)


def test_labels_never_shifted_are_caught(monkeypatch):
    model = build_seq2seq()
    monkeypatch.setattr(encoder_decoder, "shift_right", lambda labels, *_: labels.clamp(min=0))
    assert_caught(check_labels_shift_once, model)


def test_a_scale_left_out_is_caught(monkeypatch):
    plain = attention.scaled_dot_product_attention

    def unscaled(query, key, value, may_attend=None, bias=None, scaling=None):
        return plain(query, key, value, may_attend, bias, scaling=1.0)

    check_plain_attention_is_the_equation(plain)
    assert_caught(check_plain_attention_is_the_equation, unscaled)
    model = build_seq2seq()
    check_kernels_agree(model)
    monkeypatch.setattr(attention, "scaled_dot_product_attention", unscaled)
    assert_caught(check_kernels_agree, model)


def test_a_scale_of_the_whole_width_is_caught(monkeypatch):
    model = build_seq2seq()
    for module in model.modules():
        if isinstance(module, attention.MultiHeadAttention):
            module.scaling = module.config.hidden_size**-0.5
    plain = attention.scaled_dot_product_attention
    monkeypatch.setattr(
        attention,
        "scaled_dot_product_attention",
        lambda q, k, v, may=None, bias=None, _=None: plain(q, k, v, may, bias),
    )
    assert_caught(check_kernels_agree, model)


def test_an_ignored_padding_mask_is_caught(monkeypatch):
    encoder, model = build_encoder(), build_seq2seq()
    for module in (modeling_attn_encoder, modeling_attn_seq2seq):
        with monkeypatch.context() as broken:
            broken.setattr(module, "create_bidirectional_mask", lambda *_, **__: None)
            assert_caught(check_padding_is_not_read, model)
            assert_caught(check_seq2seq_rows_stand_alone, model, "right", "right")
            if module is modeling_attn_encoder:
                assert_caught(check_padding_is_not_read, encoder)
                assert_caught(check_encoder_rows_stand_alone, encoder, "right")


def test_pooling_over_padding_is_caught(monkeypatch):
    def check(model):
        mask = torch.tensor([[1, 1, 1, 0, 0]])
        ids = random_ids(1, 5)
        torch.testing.assert_close(model(ids, attention_mask=mask).logits, model(ids[:, :3]).logits)

    model = build_classifier()
    check(model)
    monkeypatch.setattr(
        type(model), "_pool", lambda self, outputs, mask: outputs.last_hidden_state.mean(dim=1)
    )
    assert_caught(check, model)


@pytest.mark.parametrize("position_type", ["learned", "sinusoidal", "rotary"])
def test_a_wrong_position_after_the_cache_is_caught(position_type, monkeypatch):
    count = layers.position_ids_from_mask
    model = build_seq2seq(position_type=position_type)
    check_cached_equals_uncached(model)

    def one_too_far(attention_mask, length, past_length, device):
        return count(attention_mask, length, past_length + (past_length > 0), device)

    def from_zero(attention_mask, length, past_length, device):
        return count(attention_mask, length, 0, device)

    for wrong in (one_too_far, from_zero):
        monkeypatch.setattr(layers, "position_ids_from_mask", wrong)
        assert_caught(check_cached_equals_uncached, model)


@pytest.mark.parametrize("position_type", ["learned", "sinusoidal"])
def test_padding_counted_as_positions_is_caught(position_type, monkeypatch):
    model, encoder = build_seq2seq(position_type=position_type), build_encoder(position_type=position_type)
    count = layers.position_ids_from_mask
    monkeypatch.setattr(
        layers, "position_ids_from_mask", lambda mask, length, past, device: count(None, length, past, device)
    )
    assert_caught(check_encoder_rows_stand_alone, encoder, "left")
    assert_caught(check_seq2seq_rows_stand_alone, model, "right", "left")
    assert_caught(check_seq2seq_rows_stand_alone, model, "left", "right")


def test_a_cache_that_forgets_is_caught(monkeypatch):
    model = build_seq2seq()
    make_caches_forget(monkeypatch)
    assert_caught(check_cached_equals_uncached, model)


def test_an_ignored_number_of_items_is_caught(monkeypatch):
    model = build_seq2seq()
    check_accumulation_weighs_every_label_alike(model, *seq2seq_examples())
    forward = type(model).forward
    monkeypatch.setattr(
        type(model), "forward", lambda self, *a, num_items_in_batch=None, **k: forward(self, *a, **k)
    )
    assert_caught(check_accumulation_weighs_every_label_alike, model, *seq2seq_examples())
