"""A layer broken on purpose is caught: the checks that the other tests rely on fail for each of these."""

import pytest
import torch

from hf_attn.models import (
    attention,
    encoder_decoder,
    layers,
    modeling_attn_decoder,
    modeling_attn_encoder,
    modeling_attn_seq2seq,
    position_cache,
)
from tests.support.checks import (
    build_classifier,
    build_decoder,
    build_seq2seq,
    check_accumulation_weighs_every_label_alike,
    check_cached_equals_uncached,
    check_kernels_agree,
    check_labels_shift_once,
    check_padding_and_the_future_weigh_nothing,
    check_padding_is_not_read,
    check_plain_attention_is_the_equation,
    check_rows_stand_alone,
    check_the_future_is_hidden,
    examples_for,
    make_caches_forget,
)
from tests.support.position_checks import build
from tests.support.subjects import each_kind, small_blocks

pytestmark = small_blocks
every_writer = pytest.mark.parametrize("subject", each_kind("encoder-decoder", "decoder"))


def assert_caught(check, *arguments, **settings) -> None:
    """The check fails."""
    with pytest.raises(AssertionError):
        check(*arguments, **settings)


# Masks


@pytest.mark.parametrize("ahead", [1, 7], ids=["one place off", "dropped"])
@every_writer
def test_a_causal_mask_that_lets_the_future_through_is_caught(subject, ahead, monkeypatch):
    def see_ahead(config, inputs_embeds, **_):
        length = inputs_embeds.shape[1]
        return torch.ones(length, length, dtype=torch.bool).tril(ahead)[None, None]

    model = subject.build()
    check_the_future_is_hidden(model)
    for module in (modeling_attn_seq2seq, modeling_attn_decoder):
        monkeypatch.setattr(module, "create_causal_mask", see_ahead)
    assert_caught(check_the_future_is_hidden, model)


@pytest.mark.parametrize("subject", each_kind("encoder", "classifier", "encoder-decoder", "decoder"))
def test_an_ignored_padding_mask_is_caught(subject, monkeypatch):
    model, create = subject.build(), modeling_attn_decoder.create_causal_mask
    for module in (modeling_attn_encoder, modeling_attn_seq2seq):
        monkeypatch.setattr(module, "create_bidirectional_mask", lambda *_, **__: None)
    monkeypatch.setattr(
        modeling_attn_decoder,
        "create_causal_mask",
        lambda attention_mask, position_ids, **given: create(attention_mask=None, position_ids=None, **given),
    )
    assert_caught(check_padding_is_not_read, model)
    assert_caught(check_rows_stand_alone, model, "left")


def test_pooling_over_padding_is_caught(monkeypatch):
    model = build_classifier(pooling="mean")
    check_rows_stand_alone(model, "right")
    monkeypatch.setattr(
        type(model), "_pool", lambda self, outputs, mask: outputs.last_hidden_state.mean(dim=1)
    )
    assert_caught(check_rows_stand_alone, model, "right")


def test_the_lowest_number_of_a_mask_taken_for_a_key_that_may_be_read_is_caught(monkeypatch):
    model, plain = build_decoder("eager", position_type="alibi"), attention.scaled_dot_product_attention
    check_padding_and_the_future_weigh_nothing(model)
    monkeypatch.setattr(  # `>=` where the mask is compared with the lowest number
        attention,
        "scaled_dot_product_attention",
        lambda q, k, v, may, bias, scaling: plain(q, k, v, torch.ones_like(may), bias, scaling),
    )
    assert_caught(check_padding_and_the_future_weigh_nothing, model)


# Labels


@every_writer
def test_labels_shifted_twice_and_never_are_caught(subject, monkeypatch):
    model = subject.build()
    check_labels_shift_once(model)
    shift_once = model.loss_function
    model.loss_function = lambda logits, labels, **given: shift_once(logits, labels.roll(-1, 1), **given)
    assert_caught(check_labels_shift_once, model)
    model = subject.build()
    if subject.kind == "decoder":
        model.loss_type = "ForMaskedLM"
    monkeypatch.setattr(encoder_decoder, "shift_right", lambda labels, *_: labels.clamp(min=0))
    assert_caught(check_labels_shift_once, model)


@every_writer
def test_an_ignored_number_of_items_is_caught(subject, monkeypatch):
    model = subject.build()
    forward, examples = type(model).forward, examples_for(model)
    check_accumulation_weighs_every_label_alike(model, *examples)
    monkeypatch.setattr(
        type(model), "forward", lambda self, *a, num_items_in_batch=None, **k: forward(self, *a, **k)
    )
    assert_caught(check_accumulation_weighs_every_label_alike, model, *examples)


# The scale


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


# Places and caches


@pytest.mark.parametrize("subject", each_kind("encoder", "encoder-decoder", "decoder"))
@pytest.mark.parametrize("position_type", ["learned", "sinusoidal"])
def test_padding_counted_as_positions_is_caught(subject, position_type, monkeypatch):
    model, count = subject.build(position_type=position_type), layers.position_ids_from_mask
    monkeypatch.setattr(
        layers, "position_ids_from_mask", lambda mask, length, past, device: count(None, length, past, device)
    )
    assert_caught(check_rows_stand_alone, model, "left", "right")
    if subject.kind == "encoder-decoder":
        assert_caught(check_rows_stand_alone, model, "right", "left")


@every_writer
@pytest.mark.parametrize("position_type", ["learned", "rotary"])
def test_a_wrong_position_after_the_cache_is_caught(subject, position_type, monkeypatch):
    model, count = subject.build(position_type=position_type), layers.position_ids_from_mask
    check_cached_equals_uncached(model)
    for wrong in (lambda past: past + (past > 0), lambda past: 0 * past):  # one too far, from the first
        monkeypatch.setattr(
            layers,
            "position_ids_from_mask",
            lambda mask, length, past, device, wrong=wrong: count(mask, length, wrong(past), device),
        )
        assert_caught(check_cached_equals_uncached, model)


@every_writer
def test_a_cache_that_forgets_is_caught(subject, monkeypatch):
    model = subject.build()
    make_caches_forget(monkeypatch)
    assert_caught(check_cached_equals_uncached, model)


@pytest.mark.parametrize("position_type", ["alibi", "dynamic"])
def test_a_cache_that_forgets_the_places_is_caught(position_type, monkeypatch):
    model, find = build("decoder", position_type), position_cache.find_key_positions

    def forget(position_ids, attention_mask, cache):
        places = find(position_ids, attention_mask, cache)
        known = places.shape[1] - position_ids.shape[1]
        return torch.cat((torch.zeros_like(places[:, :known]), places[:, known:]), dim=1)

    monkeypatch.setattr(position_cache, "find_key_positions", forget)
    assert_caught(check_cached_equals_uncached, model)
