"""The recurrent encoder-decoder is its equations: states, alignment, and what the state carries."""

import pytest
import torch
from accelerate import disk_offload

from hf_attn.models import score_functions
from hf_attn.models.modeling_recurrent_decoder import RecurrentState
from tests.support.checks import PAD, assert_close, assert_different, random_ids, read
from tests.support.matrix import rows
from tests.support.recurrent_models import CELLS, MECHANISMS, WIRINGS, build_recurrent, name_of
from tests.support.subjects import recurrent

# Where the context goes


@torch.no_grad()
def plain_decoder(model, source, target) -> torch.Tensor:
    """Logits by the equations of RecurrentDecoder, row by row and token by token, with torch's cell."""
    decoder, written = model.get_decoder(), []
    for ids, tokens in zip(source, target, strict=True):
        encoded = model.get_encoder()(ids[None])
        memory = encoded.last_hidden_state  # [1, S, M]
        layers = [*zip(encoded.final_hidden.unbind(1), encoded.final_cell.unbind(1), strict=True)]
        logits = []
        for token in tokens:
            inputs = decoder.embed_tokens(token[None])
            if model.config.input_feeding:
                context = context_of(decoder, layers[-1][0], memory)
                inputs = torch.cat((inputs, context), dim=-1)
            for index, weights in enumerate(decoder.cells.all_weights):
                layers[index] = torch.lstm_cell(inputs, layers[index], *weights)
                inputs = layers[index][0]
            if not model.config.input_feeding:
                context = context_of(decoder, inputs, memory)
            logits.append(model.lm_head(torch.tanh(decoder.readout(torch.cat((inputs, context), dim=-1)))))
        written.append(torch.cat(logits))
    return torch.stack(written)


def context_of(decoder, state, memory) -> torch.Tensor:
    """The additive attention of one state [1, D], by its function."""
    score = decoder.score
    weights = (score.query_proj.weight, score.memory_proj.weight, score.score_proj.weight[0])
    return (score_functions.additive_score(state[None], memory, *weights).softmax(-1) @ memory)[0]


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("feeding", [True, False])
def test_the_decoder_is_its_equations(feeding, num_layers):
    model = build_recurrent(input_feeding=feeding, num_layers=num_layers)
    source, target = random_ids(3, 6), random_ids(3, 5, seed=1)
    logits = model(source, decoder_input_ids=target).logits
    assert_close(logits, plain_decoder(model, source, target))


def test_without_attention_only_the_final_state_tells_of_the_source():
    model = build_recurrent(score_function="none", bidirectional=False)
    encoded = model.get_encoder()(random_ids(2, 6))
    target = random_ids(2, 4)
    before = model(encoder_outputs=encoded, decoder_input_ids=target).logits
    encoded.last_hidden_state = torch.randn_like(encoded.last_hidden_state)
    assert torch.equal(model(encoder_outputs=encoded, decoder_input_ids=target).logits, before)
    encoded.final_cell = encoded.final_cell + 1
    assert_different(model(encoder_outputs=encoded, decoder_input_ids=target).logits, before)


# Through the state


def test_a_state_is_not_changed_by_the_step_that_reads_it():
    model = build_recurrent()
    encoded, token = model.get_encoder()(random_ids(2, 6)), random_ids(2, 1)
    first = model(encoder_outputs=encoded, decoder_input_ids=token, use_cache=True).cache
    again = [
        model(encoder_outputs=encoded, decoder_input_ids=token, cache=first, use_cache=True) for _ in range(2)
    ]
    assert torch.equal(again[0].logits, again[1].logits)
    assert (first.get_seq_length(), again[0].cache.get_seq_length()) == (1, 2)


def test_reordering_a_state_lets_each_row_go_on_from_another():
    state = RecurrentState(
        (torch.arange(6.0).reshape(3, 1, 2),), torch.arange(3.0).reshape(3, 1, 1), torch.tensor(4)
    )
    state.reorder_cache(torch.tensor([2, 0, 0]))
    assert state.parts[0][:, 0, 0].tolist() == [4, 0, 0]
    assert state.projected.flatten().tolist() == [2, 0, 0]
    assert state.get_seq_length() == 4


@pytest.mark.parametrize("subject", recurrent())
def test_hidden_states_are_the_embeddings_and_one_a_layer_on_both_sides(subject):
    model, ids = subject.build(), random_ids(3, 6)
    mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1] * 6, [0, 0, 0, 0, 0, 1]])
    given = {"input_ids": ids, "attention_mask": mask, **read(model, random_ids(3, 5, seed=1))}
    shown, plain = model(**given, output_hidden_states=True), model(**given)
    assert_close(shown.logits, plain.logits)
    for states, last in (
        (shown.encoder_hidden_states, shown.encoder_last_hidden_state),
        (shown.decoder_hidden_states, model.model(**given).last_hidden_state),
    ):
        assert len(states) == model.config.num_layers + 1
        assert_close(states[-1], last)
    assert torch.equal(shown.encoder_hidden_states[0], model.get_encoder().embed_tokens(ids))


# Weights


def test_initial_weights_lie_where_the_configuration_says():
    cells = build_recurrent(hidden_size=64).get_decoder().cells
    assert all(0.9 / 8 < float(weight.detach().abs().max()) <= 1 / 8 for weight in cells.parameters())
    model = build_recurrent(hidden_size=64, initializer_range=0.02, embedding_initializer_range=0.3)
    assert float(model.get_decoder().cells.weight_hh_l0.detach().std()) == pytest.approx(0.02, rel=0.05)
    assert float(model.lm_head.weight.detach().std()) == pytest.approx(0.02, rel=0.1)
    table = model.get_encoder().embed_tokens.weight.detach()
    assert (table[PAD] == 0).all()
    assert float(table[1:].std()) == pytest.approx(0.3, rel=0.1)


@torch.no_grad()
@pytest.mark.parametrize(
    "settings", rows([*CELLS, WIRINGS[12], *MECHANISMS[-3:]], [*CELLS[::5], WIRINGS[12]], name_of)
)
def test_weights_on_a_disk_give_the_same(settings, tmp_path):
    model, ids = build_recurrent(**settings), random_ids(3, 6)
    given = {"input_ids": ids, "decoder_input_ids": random_ids(3, 5, seed=1), "output_hidden_states": True}
    asked = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False}
    expected, written = model(**given), model.generate(ids, **asked)
    disk_offload(model, tmp_path, execution_device=torch.device("cpu"))
    assert {weight.device.type for weight in model.get_decoder().cells.parameters()} == {"meta"}
    found = model(**given)
    assert_close(found.logits, expected.logits)
    for one, other in zip(found.decoder_hidden_states, expected.decoder_hidden_states, strict=True):
        assert_close(one, other)
    assert torch.equal(model.generate(ids, **asked), written)
