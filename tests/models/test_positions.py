"""Positions: each way to tell a place does what its paper says."""

import math

import pytest
import torch

from hf_attn.models.position_base import build_sinusoids, position_ids_from_mask
from hf_attn.models.position_rotary import rotate
from hf_attn.models.positions import POSITION_TYPES
from tests.support.checks import (
    assert_close,
    assert_different,
    build_classifier,
    build_encoder,
    build_seq2seq,
    pad,
    random_ids,
    random_rows,
)
from tests.support.matrix import rows
from tests.support.position_checks import ALL

ENDING = [name for name in ALL if not POSITION_TYPES[name].extrapolates]


@pytest.mark.parametrize("width", [6, 7])
def test_sinusoids_equal_the_formula_computed_by_hand(width):
    table = build_sinusoids(30, width)
    for place in (0, 1, 13, 29):
        for index in range(width):
            angle = place / 10000 ** ((index - index % 2) / width)
            expected = math.cos(angle) if index % 2 else math.sin(angle)
            assert table[place, index].item() == pytest.approx(expected, abs=1e-5)


def test_a_pair_is_turned_from_its_first_number_to_its_second():
    states = torch.zeros(1, 1, 5, 8)
    states[..., 0] = 1  # of the pair (0, 4), whose frequency is 1
    places = torch.arange(5)
    turned = rotate(states, *POSITION_TYPES["rotary"](build_encoder().config).rotation(places[None]))[0, 0]
    assert_close(turned[:, 0], places.cos())
    assert_close(turned[:, 4], places.sin())


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
