"""What transformers does with a cache it may do with ours: it has a layer for each layer, and no more."""

import copy
from functools import partial
from pathlib import Path

import pytest
import torch
from transformers import DynamicCache, EncoderDecoderCache, StaticCache

from hf_attn import load_checkpoint
from tests.support.checks import assert_close, assert_different, pad, random_ids, random_rows
from tests.support.matrix import rows
from tests.support.position_checks import ALL, GATE, build
from tests.support.recurrent_models import name_of
from tests.support.subjects import CAUSAL

CARDS = Path(__file__).parents[2] / "model_cards"
KINDS = [{"position_type": position_type} for position_type in ALL]
KINDS += [{"attention_type": kind} for kind in CAUSAL]
KINDS += [{"position_type": told, "attention_type": "local"} for told in ("dynamic", "alibi")]
OFTEN = [each for each in KINDS if each.get("position_type") in GATE or "attention_type" in each]
every_kind = pytest.mark.parametrize("settings", rows(KINDS, OFTEN, name_of))
every_compiled = pytest.mark.parametrize("settings", rows(KINDS, [{"position_type": "alibi"}], name_of))


def build_kind(family: str, settings: dict):
    settings = {"position_type": "learned", **settings}
    return build(family, settings.pop("position_type"), **settings)


def go_on(model, ids, cache, mask=None):
    """Logits of what comes after a cache, [B, T, V]."""
    return model(ids, cache=cache, attention_mask=mask, use_cache=True).logits


@every_kind
def test_a_cache_has_a_layer_for_each_layer_of_the_model(settings):
    ids = random_ids(2, 6)
    decoder, seq2seq = build_kind("decoder", settings), build_kind("encoder-decoder", settings)
    cache = decoder(ids, use_cache=True).cache
    assert len(cache) == decoder.config.num_hidden_layers
    cache = seq2seq(ids, decoder_input_ids=ids, use_cache=True).cache
    assert (
        len(cache.self_attention_cache) == len(cache.cross_attention_cache) == seq2seq.config.decoder_layers
    )
    for layer in (*cache.self_attention_cache.layers, *cache.cross_attention_cache.layers):
        assert layer.keys.shape == layer.values.shape == (2, 2, 6, 8)  # [B, H, S, Dh]


@torch.no_grad()
@every_kind
def test_a_cropped_cache_goes_on_as_if_what_is_gone_had_never_been_read(settings):
    model, ids = build_kind("decoder", settings), random_ids(2, 9)
    cache = model(torch.cat((ids[:, :6], random_ids(2, 2, seed=3)), dim=1), use_cache=True).cache
    cache.crop(-2)
    assert_close(go_on(model, ids[:, 6:], cache), model(ids, use_cache=False).logits[:, 6:])


@torch.no_grad()
@every_kind
def test_rows_of_a_cache_are_chosen_repeated_and_reordered_with_what_they_read(settings):
    model, rows = build_kind("decoder", settings), random_rows(6, 4, 5, seed=2)
    ids, mask = pad(rows, "left")
    token, order = random_ids(3, 1, seed=4), torch.tensor([2, 0, 0])
    cache = model(ids, attention_mask=mask, use_cache=True).cache
    repeated = copy.deepcopy(cache)
    cache.reorder_cache(order)
    seen = torch.cat((mask[order], torch.ones(3, 1)), dim=1)
    whole = model(torch.cat((ids[order], token), dim=1), attention_mask=seen, use_cache=False).logits
    assert_close(go_on(model, token, cache, seen)[:, -1], whole[:, -1])
    repeated.batch_repeat_interleave(2)
    repeated.batch_select_indices(torch.tensor([4, 1, 0]))
    assert_close(go_on(model, token, repeated, seen)[:, -1], whole[:, -1])


@torch.no_grad()
@every_kind
@pytest.mark.parametrize("is_static", [False, True])
def test_a_second_turn_may_be_padded_on_the_left(settings, is_static):
    model, first, second = build_kind("decoder", settings), random_ids(2, 5), random_rows(4, 2, seed=3)
    ids, mask = pad(second, "left")
    seen = torch.cat((torch.ones(2, 5, dtype=torch.long), mask), dim=1)
    places = (seen.cumsum(-1) - 1).masked_fill(seen == 0, 0)[:, 5:]  # as generate gives them
    expected = model(torch.cat((first, ids), dim=1), attention_mask=seen, use_cache=False).logits[:, 5:]
    for told in (None, places):
        cache = (
            StaticCache(config=model.config, max_cache_len=12)
            if is_static
            else DynamicCache(config=model.config)
        )
        model(first, cache=cache)
        wide = torch.nn.functional.pad(seen, (0, 3)) if is_static else seen
        given = {"cache": cache, "attention_mask": wide, "position_ids": told}
        assert_close(model(ids, **given).logits[mask.bool()], expected[mask.bool()])


def count_graphs(graphs: list):
    """A compiler's backend that runs what it is given as it is, and keeps it."""

    def keep(graph, _):
        graphs.append(graph)
        return graph.forward

    return keep


@torch.no_grad()
@every_compiled
def test_a_compiled_step_through_a_static_cache_is_one_graph_for_all_tokens(settings):
    model, ids, graphs = build_kind("decoder", settings), random_ids(2, 9), []
    assert model._can_compile_fullgraph
    expected = model(ids, use_cache=False).logits
    cache = StaticCache(config=model.config, max_cache_len=12)
    go_on(model, ids[:, :5], cache)
    torch.compiler.reset()
    step = torch.compile(model, backend=count_graphs(graphs), fullgraph=True)
    for place in range(5, 9):
        given = model.prepare_inputs_for_generation(
            ids[:, place : place + 1],
            cache=cache,
            attention_mask=torch.ones(2, place + 1, dtype=torch.long),
            position_ids=torch.full((2, 1), place),
            use_cache=True,
        )
        assert_close(step(**given).logits[:, 0], expected[:, place])
    assert len(graphs) == 1


@torch.no_grad()
@every_compiled
def test_so_is_a_compiled_step_of_an_encoder_decoder(settings):
    model, ids, graphs = build_kind("encoder-decoder", settings), random_ids(2, 9), []
    assert model._can_compile_fullgraph
    encoded = model.get_encoder()(random_ids(2, 7, seed=1))
    expected = model(encoder_outputs=encoded, decoder_input_ids=ids, use_cache=False).logits
    config = model.config.get_text_config(decoder=True)
    cache = EncoderDecoderCache(*(StaticCache(config=config, max_cache_len=size) for size in (12, 7)))
    given = {"encoder_outputs": encoded, "cache": cache, "use_cache": True}
    model(decoder_input_ids=ids[:, :5], **given)
    torch.compiler.reset()
    step = torch.compile(model, backend=count_graphs(graphs), fullgraph=True)
    for place in range(5, 9):
        token, at = ids[:, place : place + 1], torch.full((2, 1), place)
        found = step(decoder_input_ids=token, decoder_position_ids=at, **given).logits
        assert_close(found[:, 0], expected[:, place])
    assert len(graphs) == 1


@torch.no_grad()
@pytest.mark.parametrize("card", ["attn-sentences", "attn-copy", "bahdanau-reverse"])
def test_the_name_that_caches_had_before_is_read_as_well_and_told(card):
    model, ids = load_checkpoint(CARDS / card).model, random_ids(1, 5)
    if model.config.is_encoder_decoder:
        model = partial(model, ids)
    step = "decoder_input_ids" if isinstance(model, partial) else "input_ids"
    first, second = (model(**{step: ids[:, :3]}, use_cache=True).cache for _ in range(2))
    with pytest.warns(FutureWarning, match="`past_key_values` is deprecated.*Use `cache` instead"):
        told = model(**{step: ids[:, 3:]}, past_key_values=first).logits
    assert_close(told, model(**{step: ids[:, 3:]}, cache=second).logits, 0)
    assert_different(told, model(**{step: ids[:, 3:]}).logits)
