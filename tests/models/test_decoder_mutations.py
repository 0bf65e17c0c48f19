"""A decoder-only model broken on purpose is caught: its checks fail for each of these."""

import pytest
import torch

from hf_attn.models import attention, layers, modeling_attn_decoder
from tests.models.test_mutations import assert_caught
from tests.support.checks import check_accumulation_weighs_every_label_alike, make_caches_forget
from tests.support.decoder_checks import (
    build_decoder,
    check_cached_equals_uncached,
    check_labels_shift_once,
    check_padding_and_the_future_weigh_nothing,
    check_rows_stand_alone,
    check_the_future_is_hidden,
    decoder_examples,
)


@pytest.mark.parametrize("ahead", [1, 7], ids=["one place off", "dropped"])
@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
def test_a_causal_mask_that_lets_the_future_through_is_caught(kernel, ahead, monkeypatch):
    def see_ahead(config, inputs_embeds, **_):
        length = inputs_embeds.shape[1]
        return torch.ones(length, length, dtype=torch.bool).tril(ahead)[None, None]

    model = build_decoder(kernel)
    check_the_future_is_hidden(model)
    monkeypatch.setattr(modeling_attn_decoder, "create_causal_mask", see_ahead)
    assert_caught(check_the_future_is_hidden, model)


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
def test_an_ignored_padding_mask_is_caught(kernel, monkeypatch):
    create = modeling_attn_decoder.create_causal_mask
    model = build_decoder(kernel)
    monkeypatch.setattr(
        modeling_attn_decoder,
        "create_causal_mask",
        lambda attention_mask, position_ids, **given: create(attention_mask=None, position_ids=None, **given),
    )
    assert_caught(check_rows_stand_alone, model, "left")


@pytest.mark.parametrize("position_type", ["learned", "alibi"])
def test_the_lowest_number_of_a_mask_taken_for_a_key_that_may_be_read_is_caught(position_type, monkeypatch):
    model, plain = build_decoder("eager", position_type=position_type), attention.scaled_dot_product_attention
    check_padding_and_the_future_weigh_nothing(model)
    monkeypatch.setattr(  # `>=` where the mask is compared with the lowest number
        attention,
        "scaled_dot_product_attention",
        lambda q, k, v, may, bias, scaling: plain(q, k, v, torch.ones_like(may), bias, scaling),
    )
    assert_caught(check_padding_and_the_future_weigh_nothing, model)


@pytest.mark.parametrize("position_type", ["learned", "sinusoidal"])
def test_padding_counted_as_positions_is_caught(position_type, monkeypatch):
    model, count = build_decoder(position_type=position_type), layers.position_ids_from_mask
    monkeypatch.setattr(
        layers, "position_ids_from_mask", lambda mask, length, past, device: count(None, length, past, device)
    )
    assert_caught(check_rows_stand_alone, model, "left")


@pytest.mark.parametrize("position_type", ["learned", "sinusoidal", "rotary"])
def test_a_wrong_position_after_the_cache_is_caught(position_type, monkeypatch):
    model, count = build_decoder(position_type=position_type), layers.position_ids_from_mask
    check_cached_equals_uncached(model)
    monkeypatch.setattr(
        layers, "position_ids_from_mask", lambda mask, length, past, device: count(mask, length, 0, device)
    )
    assert_caught(check_cached_equals_uncached, model)


def test_a_cache_that_forgets_is_caught(monkeypatch):
    model = build_decoder()
    make_caches_forget(monkeypatch)
    assert_caught(check_cached_equals_uncached, model)


def test_labels_never_shifted_and_shifted_twice_are_caught():
    model = build_decoder()
    check_labels_shift_once(model)
    shift_once = model.loss_function
    model.loss_function = lambda logits, labels, **given: shift_once(logits, labels.roll(-1, 1), **given)
    assert_caught(check_labels_shift_once, model)
    model = build_decoder()
    model.loss_type = "ForMaskedLM"
    assert_caught(check_labels_shift_once, model)


def test_an_ignored_number_of_items_is_caught(monkeypatch):
    model, forward = build_decoder(), modeling_attn_decoder.AttnDecoderForCausalLM.forward
    monkeypatch.setattr(
        type(model), "forward", lambda self, *a, num_items_in_batch=None, **k: forward(self, *a, **k)
    )
    assert_caught(check_accumulation_weighs_every_label_alike, model, *decoder_examples())
