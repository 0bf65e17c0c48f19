"""Positions: each way to tell a place does what its paper says."""

import math

import pytest
import torch
from transformers.cache_utils import DynamicCache, StaticCache

from hf_attn.models.position_base import build_inverse_frequencies, build_sinusoids, position_ids_from_mask
from hf_attn.models.position_cache import PADDING_POSITION, find_key_positions, find_token_positions
from hf_attn.models.position_rotary import rotate
from hf_attn.models.positions import POSITION_TYPES
from tests.support.checks import (
    assert_close,
    assert_different,
    build_classifier,
    build_decoder,
    build_encoder,
    build_seq2seq,
    pad,
    random_ids,
    random_rows,
)
from tests.support.matrix import rows
from tests.support.position_checks import ALL

ENDING = [name for name in ALL if not POSITION_TYPES[name].extrapolates]


def test_positions_count_the_tokens_and_skip_padding_on_either_side():
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0]])
    assert position_ids_from_mask(mask, 5, 0, None).tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 2, 2]]
    assert position_ids_from_mask(mask, 2, 3, None).tolist() == [[1, 2], [2, 2]]
    assert position_ids_from_mask(None, 3, 4, None).tolist() == [[4, 5, 6]]


def test_padding_stands_apart_and_so_does_another_sequence_in_the_cache():
    places = torch.tensor([[0, 0, 1]])
    assert find_token_positions(places, torch.tensor([[0, 1, 1]]), None).tolist() == [
        [PADDING_POSITION, 0, 1]
    ]
    cache = DynamicCache()
    cache.update(torch.zeros(1, 1, 5, 2), torch.zeros(1, 1, 5, 2), 0)
    found = find_token_positions(torch.tensor([[2]]), None, cache)  # the third of its sequence
    assert found.tolist() == [[PADDING_POSITION] * 3 + [0, 1, 2]]


def test_places_in_the_cache_are_counted_back_whichever_kind_of_mask_tells_padding():
    tokens = torch.tensor([[1, 1, 0, 0, 1, 1, 1], [0, 1, 1, 1, 1, 1, 1]])
    causal = torch.ones(7, 7, dtype=torch.bool).tril()[5:]
    may_attend = (causal & tokens.bool()[:, None])[:, None]
    added = torch.zeros(2, 1, 2, 7).masked_fill(~may_attend, torch.finfo(torch.float32).min)
    new, ahead = torch.tensor([[3, 4], [4, 5]]), torch.tensor([[0, 1, 1, 1, 2, 3, 4], [-1, 0, 1, 2, 3, 4, 5]])
    for cache, size in ((DynamicCache(), 7), (StaticCache(build_decoder().config, max_cache_len=9), 9)):
        cache.update(torch.zeros(2, 1, 5, 2), torch.zeros(2, 1, 5, 2), 0)
        for mask in (tokens, may_attend, added):
            mask = torch.nn.functional.pad(mask, (0, size - 7))
            assert find_key_positions(new, mask, cache)[:, :7].tolist() == ahead.tolist()


@pytest.mark.parametrize("width", [6, 7])
def test_sinusoids_equal_the_formula_computed_by_hand(width):
    table = build_sinusoids(30, width)
    for place in (0, 1, 13, 29):
        for index in range(width):
            angle = place / 10000 ** ((index - index % 2) / width)
            expected = math.cos(angle) if index % 2 else math.sin(angle)
            assert table[place, index].item() == pytest.approx(expected, abs=1e-5)


def test_a_period_is_2_pi_times_what_the_document_prints():
    """It prints 1, 100 and 9646.62 at i = 0, 128 and 255 of D = 512: these are 10000^(2i/D)."""
    frequencies = build_inverse_frequencies(512, 10000.0).double()
    for pair, printed in ((0, 1.0), (128, 100.0), (255, 9646.6161991120)):
        assert 1 / frequencies[pair].item() == pytest.approx(printed, rel=1e-5)
        period = 2 * math.pi * printed
        assert math.sin((7 + period) * frequencies[pair].item()) == pytest.approx(
            math.sin(7 * frequencies[pair].item()), abs=1e-3
        )
        assert math.cos(printed * frequencies[pair].item()) == pytest.approx(
            math.cos(1), abs=1e-3
        )  # no period


def test_keys_times_queries_is_the_transpose_and_not_the_same_matrix(generator):
    query, key = torch.randn(5, 8, generator=generator), torch.randn(5, 8, generator=generator)
    assert_close(key @ query.T, (query @ key.T).T)
    assert_different(key @ query.T, query @ key.T)
    assert_different((key @ query.T).softmax(-1), (query @ key.T).softmax(-1))


def test_sinusoids_at_the_same_distance_have_the_same_product():
    for width, product in ((512, 189.5967), (32, 11.7774)):
        table = build_sinusoids(108, width)
        assert (table[2] @ table[7]).item() == pytest.approx(product, abs=2e-3)
        assert (table[102] @ table[107]).item() == pytest.approx(product, abs=2e-3)


def test_a_pair_is_turned_from_its_first_number_to_its_second():
    states = torch.zeros(1, 1, 5, 8)
    states[..., 0] = 1  # of the pair (0, 4), whose frequency is 1
    places = torch.arange(5)
    turned = rotate(states, *POSITION_TYPES["rotary"](build_encoder().config).rotation(places[None]))[0, 0]
    assert_close(turned[:, 0], places.cos())
    assert_close(turned[:, 4], places.sin())


def test_rotation_keeps_lengths_and_the_type_of_what_it_turns(generator):
    positions = POSITION_TYPES["rotary"](build_encoder().config)
    states = torch.randn(1, 2, 5, 8, generator=generator)
    turned = rotate(states, *positions.rotation(torch.arange(5)[None]))
    assert_close(turned.norm(dim=-1), states.norm(dim=-1))
    assert rotate(states.bfloat16(), *positions.rotation(torch.arange(5)[None])).dtype == torch.bfloat16


def test_rotary_frequencies_are_exact_in_a_model_of_half_precision():
    exact, _ = build_encoder(position_type="rotary").positions.rotation(torch.tensor([[23]]))
    halved, _ = build_encoder(position_type="rotary").half().positions.rotation(torch.tensor([[23]]))
    assert_close(halved, exact)


@pytest.mark.parametrize("position_type", rows(ENDING, ("learned",)))
def test_a_sequence_longer_than_the_positions_is_refused_with_numbers_and_remedy(position_type):
    sentence = r"25 tokens.*max_position_embeddings=24.*Shorten it"
    model = build_seq2seq(position_type=position_type)
    longest = random_ids(1, 24)
    assert model(longest, decoder_input_ids=longest).logits.isfinite().all()
    with pytest.raises(ValueError, match=sentence):
        model(random_ids(1, 25), decoder_input_ids=longest)
    with pytest.raises(ValueError, match=sentence):
        model(longest, decoder_input_ids=random_ids(1, 25))
    with pytest.raises(ValueError, match=sentence):
        model(longest, labels=random_ids(1, 25))
    with pytest.raises(ValueError, match=sentence):
        build_classifier(position_type=position_type)(random_ids(1, 25))


@pytest.mark.parametrize("cache", [None, "static"])
def test_generate_beyond_the_positions_is_refused_with_numbers_and_remedy(cache):
    model = build_seq2seq()
    settings = {"do_sample": False, "cache_implementation": cache}
    longest = model.generate(random_ids(1, 4), max_new_tokens=24, min_new_tokens=24, **settings)
    assert longest.shape[1] == 25  # the start and 24 tokens, of which the last is never read
    with pytest.raises(ValueError, match=r"25 tokens.*max_position_embeddings=24.*Shorten it"):
        model.generate(random_ids(1, 4), max_new_tokens=25, min_new_tokens=25, **settings)


def test_positions_given_by_hand_are_those_counted_from_the_mask():
    ids, mask = pad(random_rows(6, 3), "left")
    places = position_ids_from_mask(mask, 6, 0, None)
    encoder = build_encoder()
    counted, given = encoder(ids, attention_mask=mask), encoder(ids, attention_mask=mask, position_ids=places)
    assert_close(given.last_hidden_state[mask.bool()], counted.last_hidden_state[mask.bool()])
    model = build_seq2seq()
    read = {"input_ids": random_ids(2, 5), "decoder_input_ids": ids, "decoder_attention_mask": mask}
    assert_close(model(**read, decoder_position_ids=places).logits, model(**read).logits)
    assert_different(model(**read, decoder_position_ids=places + 1).logits, model(**read).logits)
