"""The decoder-only model: what generate writes with it, and how long a sequence may be."""

import pytest
import torch

from tests.support.checks import build_decoder, random_ids

EXACTLY_6 = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False}


def test_beams_are_the_likeliest_and_one_beam_is_greedy():
    model, ids = build_decoder(), random_ids(1, 4)
    wanted = {**EXACTLY_6, "attention_mask": torch.ones_like(ids), "length_penalty": 0.0}
    found = [
        model.generate(ids, num_beams=4, num_return_sequences=3, **wanted, use_cache=cache)
        for cache in (True, False)
    ]
    assert found[0].tolist() == found[1].tolist()
    log_p = model(found[0]).logits.log_softmax(-1)[:, :-1].gather(2, found[0][:, 1:, None])[:, 3:, 0].sum(1)
    assert log_p.tolist() == sorted(log_p.tolist(), reverse=True)
    greedy = model.generate(ids, **EXACTLY_6, attention_mask=torch.ones_like(ids))
    assert model.generate(ids, num_beams=1, **wanted).tolist() == greedy.tolist()


def test_sampling_gives_as_many_continuations_as_asked_and_the_greedy_one_from_a_single_choice():
    model, ids = build_decoder(), random_ids(1, 4)
    wanted = {**EXACTLY_6, "attention_mask": torch.ones_like(ids), "do_sample": True}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        sampled = model.generate(ids, num_return_sequences=5, **wanted)
        single = model.generate(ids, num_return_sequences=2, top_k=1, **wanted)
    assert sampled.shape == (5, 10)
    assert len({tuple(row) for row in sampled.tolist()}) > 1
    greedy = model.generate(ids, attention_mask=torch.ones_like(ids), **EXACTLY_6)
    assert single.tolist() == greedy.tolist() * 2


def test_a_sequence_longer_than_the_positions_is_refused_at_once_and_through_the_cache():
    model, sentence = build_decoder(), r"25 tokens.*max_position_embeddings=24.*Shorten it"
    with pytest.raises(ValueError, match=sentence):
        model(random_ids(1, 25))
    cache = model(random_ids(1, 20), use_cache=True).cache
    with pytest.raises(ValueError, match=sentence):
        model(random_ids(1, 5), cache=cache)
    with pytest.raises(ValueError, match="exactly one of input_ids and inputs_embeds"):
        model()
