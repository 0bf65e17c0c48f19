"""The decoder-only model: how long a sequence may be."""

import pytest

from tests.support.checks import build_decoder, random_ids


def test_a_sequence_longer_than_the_positions_is_refused_at_once_and_through_the_cache():
    model, sentence = build_decoder(), r"25 tokens.*max_position_embeddings=24.*Shorten it"
    with pytest.raises(ValueError, match=sentence):
        model(random_ids(1, 25))
    cache = model(random_ids(1, 20), use_cache=True).cache
    with pytest.raises(ValueError, match=sentence):
        model(random_ids(1, 5), cache=cache)
    with pytest.raises(ValueError, match="exactly one of input_ids and inputs_embeds"):
        model()
