"""The recurrent encoder-decoder writes on from a state; and what it refuses to read."""

import pytest
import torch
from transformers import DynamicCache
from transformers.modeling_outputs import BaseModelOutput

from tests.support.checks import START, random_ids
from tests.support.recurrent_models import build_recurrent
from tests.support.subjects import recurrent


@pytest.mark.parametrize("subject", recurrent())
@torch.no_grad()
def test_generate_goes_on_from_a_state_as_if_it_had_read_everything(subject):
    model = subject.build(eos_token_id=None)
    ids, begun = random_ids(2, 5), torch.cat((torch.full((2, 1), START), random_ids(2, 4)), dim=1)
    # the mask tells generate that what the state has read is among the ids
    begin = {"decoder_input_ids": begun, "decoder_attention_mask": torch.ones_like(begun)}
    greedy = {**begin, "max_new_tokens": 6, "do_sample": False}
    state = model(ids, decoder_input_ids=begun[:, :-1], use_cache=True).cache
    assert model.generate(ids, **greedy, cache=state).tolist() == model.generate(ids, **greedy).tolist()


@torch.no_grad()
def test_a_state_of_other_rows_or_of_another_mechanism_is_refused():
    ids, (scored, plain) = random_ids(2, 5), [build_recurrent(score_function=s) for s in ("additive", "none")]
    of_scored, of_plain = (m(ids, decoder_input_ids=ids, use_cache=True).cache for m in (scored, plain))
    for model, state, rows in ((scored, of_scored, 1), (scored, of_plain, 2), (plain, of_scored, 2)):
        with pytest.raises(ValueError, match=f"cache is the state of 2 rows .* than these {rows}"):
            model(ids[:rows], decoder_input_ids=ids[:rows], cache=state)


def test_a_call_that_cannot_be_answered_says_why():
    model, ids = build_recurrent(), random_ids(2, 5)
    memory = model.get_encoder()(ids)
    embeds = torch.zeros(2, 3, 16)
    refused = {
        "nothing to read": {"inputs_embeds": embeds},
        "exactly one of input_ids and inputs_embeds": {
            "input_ids": ids,
            "inputs_embeds": embeds,
            "labels": ids,
        },
        r"teacher_forcing_ratio=1.5 must be between 0 and 1": {"labels": ids, "teacher_forcing_ratio": 1.5},
        r"teacher_forcing_ratio=0.5 mixes true tokens": {
            "input_ids": ids,
            "decoder_inputs_embeds": embeds,
            "teacher_forcing_ratio": 0.5,
        },
        r"attention_mask has the shape \[2, 4\], and the inputs are \[2, 5\]": {
            "input_ids": ids,
            "attention_mask": torch.ones(2, 4),
            "labels": ids,
        },
        "encoder_outputs is a BaseModelOutput of 1": {
            "encoder_outputs": BaseModelOutput(memory.last_hidden_state),
            "labels": ids,
        },
        "encoder_outputs is a tuple of 1": {"encoder_outputs": (memory.last_hidden_state,), "labels": ids},
    }
    for sentence, inputs in refused.items():
        with pytest.raises(ValueError, match=sentence):
            model(**inputs)
    with pytest.raises(TypeError, match="cache is a DynamicCache; a recurrent decoder carries"):
        model(encoder_outputs=memory, decoder_input_ids=ids, cache=DynamicCache())
    with pytest.raises(ValueError, match="does not support activation checkpointing"):
        model.activation_checkpointing_enable()
