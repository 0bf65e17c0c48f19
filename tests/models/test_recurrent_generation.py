"""The recurrent encoder-decoder writes, by every strategy of generate; and what it refuses to read."""

import pytest
import torch
from transformers import DynamicCache
from transformers.modeling_outputs import BaseModelOutput

from hf_attn.models.configuration_recurrent import RecurrentConfig
from tests.support.checks import START, assert_close, pad, random_ids, random_rows
from tests.support.recurrent_models import (
    SIZES,
    WIRINGS,
    build_recurrent,
    every_mechanism,
    name_of,
    written_by_hand,
)

# Generation


@every_mechanism
def test_generate_writes_what_a_pass_over_everything_would(settings):
    model = build_recurrent(**settings, eos_token_id=None)
    ids, mask = pad(random_rows(6, 3, 5), "left")
    greedy = {"attention_mask": mask, "max_new_tokens": 6, "do_sample": False}
    written = model.generate(ids, **greedy)
    assert written[:, 1:].tolist() == written_by_hand(model, ids, 6, mask).tolist()
    assert model.generate(ids, **greedy, num_beams=1).tolist() == written.tolist()
    assert model.generate(ids, **greedy, use_cache=False).tolist() == written.tolist()


@every_mechanism
@torch.no_grad()
def test_generate_goes_on_from_a_state_as_if_it_had_read_everything(settings):
    model = build_recurrent(**settings, eos_token_id=None)
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


@pytest.mark.parametrize("settings", WIRINGS, ids=name_of)
def test_beams_score_what_they_wrote_with_and_without_the_state(settings):
    model, source = build_recurrent(**settings), random_ids(2, 5)
    beams = {"num_beams": 4, "num_return_sequences": 3, "max_new_tokens": 6, "do_sample": False}
    found = [
        model.generate(source, **beams, use_cache=use, return_dict_in_generate=True, output_scores=True)
        for use in (True, False)
    ]
    assert found[0].sequences.shape[0] == 6
    assert found[0].sequences.tolist() == found[1].sequences.tolist()
    assert_close(found[0].sequences_scores, found[1].sequences_scores)


def test_sampling_and_sampled_beams_repeat_with_their_seed():
    model, source = build_recurrent(), random_ids(2, 5)
    for settings in ({"num_return_sequences": 3}, {"num_beams": 3, "num_return_sequences": 2}):
        drawn = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            drawn.append(model.generate(source, do_sample=True, max_new_tokens=8, **settings).tolist())
        assert drawn[0] == drawn[1]
        assert drawn[0] != drawn[2]


def test_generate_returns_the_alignment_of_every_step():
    model, source = build_recurrent(eos_token_id=None), random_ids(2, 5)
    settings = {"max_new_tokens": 4, "do_sample": False, "return_dict_in_generate": True}
    found = model.generate(source, output_attentions=True, **settings)
    read = found.sequences[:, :-1]
    (expected,) = model(source, decoder_input_ids=read, output_attentions=True).cross_attentions
    assert_close(torch.cat([step[0] for step in found.cross_attentions], dim=2), expected)


def test_a_beginning_padded_on_the_left_is_continued_as_if_it_stood_alone():
    for feeding in (True, False):
        model = build_recurrent(input_feeding=feeding)
        sources, beginnings = random_rows(6, 4), random_rows(2, 5, seed=7)
        source, source_mask = pad(sources, "left")
        read, mask = pad(beginnings, "left")
        settings = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False}
        together = model.generate(
            source,
            attention_mask=source_mask,
            decoder_input_ids=read,
            decoder_attention_mask=mask,
            **settings,
        )
        for row, (s, t) in enumerate(zip(sources, beginnings, strict=True)):
            alone = model.generate(s[None], decoder_input_ids=t[None], **settings)
            assert together[row, -6:].tolist() == alone[0, -6:].tolist()


# Shapes and refusals


def test_an_assistant_is_refused_as_a_state_cannot_go_back():
    model = build_recurrent()
    assert model._is_stateful
    assert not model._supports_default_dynamic_cache()
    assert not hasattr(model(random_ids(1, 4), use_cache=True).cache, "crop")
    with pytest.raises(ValueError, match="stateful"):
        model.generate(random_ids(1, 4), assistant_model=build_recurrent(), max_new_tokens=4)


def test_a_tuple_is_returned_on_demand_and_holds_the_same():
    for cell_type in ("lstm", "gru"):
        model = build_recurrent(cell_type=cell_type, output_hidden_states=True)
        inputs = {"input_ids": random_ids(2, 6), "labels": random_ids(2, 5)}
        named, plain = model(**inputs), model(**inputs, return_dict=False)
        assert torch.equal(plain[0], named.loss)
        assert torch.equal(plain[1], named.logits)
        assert [states.shape for states in named.decoder_hidden_states] == [(2, 5, 16)] * 2
        assert [states.shape for states in named.encoder_hidden_states] == [(2, 6, 16)] * 2
        memory = model.get_encoder()(inputs["input_ids"], return_dict=False)
        assert torch.equal(model(encoder_outputs=memory, labels=inputs["labels"]).logits, named.logits)


def test_embeddings_given_in_place_of_ids_give_the_same_logits():
    model, source, target = build_recurrent(embedding_size=6), random_ids(2, 5), random_ids(2, 4)
    by_hand = {
        "inputs_embeds": model.get_encoder().get_input_embeddings()(source),
        "decoder_inputs_embeds": model.get_decoder().get_input_embeddings()(target),
    }
    assert_close(model(**by_hand).logits, model(source, decoder_input_ids=target).logits)


def test_the_bare_model_reads_the_source_shifted_where_no_target_is_given():
    model, ids = build_recurrent().model, random_ids(2, 5)
    shifted = torch.cat((torch.full((2, 1), START), ids[:, :-1]), dim=1)
    assert_close(model(ids)[0], model(ids, decoder_input_ids=shifted)[0])


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


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"score_function": "cosine"}, r"score_function='cosine'.*additive, concat, dot, general, none"),
        ({"cell_type": "lsmt"}, r"cell_type='lsmt'.*gru, lstm, rnn"),
        ({"dropout": 1.0}, r"dropout=1.0 must be a number from 0 to 0.999"),
        ({"num_layers": 0}, r"num_layers=0 must be a whole number from 1"),
        ({"encoder_hidden_size": 0}, r"encoder_hidden_size=0 must be a whole number from 1"),
        ({"attention_size": 0}, r"attention_size=0 must be a whole number from 1"),
        ({"embedding_size": 0}, r"embedding_size=0 must be a whole number from 1"),
        ({"hidden_size": 15}, r"hidden_size=15 is odd.*choose an even hidden_size, or encoder_hidden_size"),
        (
            {"score_function": "dot", "encoder_hidden_size": 16},
            r"hidden_size=16.*encoder_hidden_size=16 × 2 = 32.*choose hidden_size=32.*'general'",
        ),
        (
            {"tie_word_embeddings": True, "embedding_size": 8},
            r"embedding_size=8 and hidden_size=16 must be equal",
        ),
    ],
)
def test_a_config_refuses_with_argument_value_and_what_is_allowed(setting, sentence):
    with pytest.raises(ValueError, match=sentence):
        RecurrentConfig(**{**SIZES, **setting})


def test_transformers_canonical_names_reach_the_same_sizes():
    config = RecurrentConfig(d_model=32, num_hidden_layers=3)
    assert (config.hidden_size, config.num_layers, config.num_attention_heads) == (32, 3, 1)
    assert (config.encoder_layers, config.decoder_layers, config.memory_size) == (3, 3, 32)
    assert RecurrentConfig(hidden_size=15, encoder_hidden_size=4).memory_size == 8
