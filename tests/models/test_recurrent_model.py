"""The recurrent encoder-decoder: every score and wiring; padding, state, weights, and what it refuses."""

import itertools

import pytest
import torch
from safetensors.torch import load_file

from hf_attn.models import score_functions
from hf_attn.models.modeling_recurrent import RecurrentForConditionalGeneration, RecurrentModel
from hf_attn.models.modeling_recurrent_decoder import RecurrentState
from tests.support.checks import (
    PAD,
    SIDES,
    assert_close,
    assert_different,
    check_cached_equals_uncached,
    check_padding_is_not_read,
    check_seq2seq_rows_stand_alone,
    check_the_future_is_hidden,
    gradients,
    pad,
    random_ids,
    random_rows,
)
from tests.support.recurrent_models import CELLS, WIRINGS, build_recurrent, every_mechanism, name_of

# What is read


@every_mechanism
def test_a_padded_batch_gives_the_same_logits_as_each_row_alone(settings):
    model = build_recurrent(**settings)
    for source_side, target_side in itertools.product(SIDES, SIDES):
        check_seq2seq_rows_stand_alone(model, source_side, target_side)


@pytest.mark.parametrize("settings", CELLS, ids=name_of)
def test_padding_anywhere_moves_no_state_of_the_encoder_in_either_direction(settings):
    encoder = build_recurrent(**settings).get_encoder()
    row, other = random_rows(4, 7)
    ids = torch.stack((torch.tensor([PAD, row[0], PAD, PAD, row[1], row[2], row[3]]), other))
    mask = torch.tensor([[0, 1, 0, 0, 1, 1, 1], [1] * 7])
    together, alone = encoder(ids, attention_mask=mask), encoder(row[None])
    assert_close(together.last_hidden_state[:1, mask[0].bool()], alone.last_hidden_state, 1e-6)
    assert (together.last_hidden_state[0, ~mask[0].bool()] == 0).all()
    assert_close(together.final_hidden[:1], alone.final_hidden, 1e-6)
    if alone.final_cell is not None:
        assert_close(together.final_cell[:1], alone.final_cell, 1e-6)


@every_mechanism
def test_a_later_target_token_changes_no_earlier_logit(settings):
    check_the_future_is_hidden(build_recurrent(**settings))


@every_mechanism
def test_what_stands_under_the_sources_padding_changes_nothing(settings):
    check_padding_is_not_read(build_recurrent(**settings))


def test_a_mask_of_ones_gives_exactly_what_no_mask_gives():
    model, ids, target = build_recurrent(), random_ids(3, 6), random_ids(3, 5)
    ones = {"attention_mask": torch.ones_like(ids), "decoder_attention_mask": torch.ones_like(target)}
    masked, plain = model(ids, decoder_input_ids=target, **ones), model(ids, decoder_input_ids=target)
    assert torch.equal(masked.logits, plain.logits)


def test_a_source_of_nothing_but_padding_gives_finite_logits_and_reads_nothing():
    for settings in WIRINGS:
        model = build_recurrent(**settings)
        mask = torch.tensor([[1, 1, 1], [0, 0, 0]])
        output = model(random_ids(2, 3), attention_mask=mask, labels=random_ids(2, 4), output_attentions=True)
        assert output.loss.isfinite()
        if output.cross_attentions is not None:
            assert (output.cross_attentions[0][1] == 0).all()


def test_the_encoders_states_are_torchs_own():
    encoder = build_recurrent(num_layers=2).get_encoder()
    ids = random_ids(3, 6)
    found = encoder(ids)
    torchs = torch.nn.LSTM(
        encoder.cells.input_size, encoder.cells.hidden_size, 2, bidirectional=True, batch_first=True
    )
    torchs.load_state_dict(encoder.cells.state_dict())
    states, (hidden, cell) = torchs(encoder.embed_tokens(ids))
    assert torch.equal(found.last_hidden_state, states)
    for layer in range(2):
        both = torch.cat((hidden[2 * layer], hidden[2 * layer + 1]), dim=-1)
        assert torch.equal(found.final_hidden[:, layer], both)
        assert torch.equal(
            found.final_cell[:, layer], torch.cat((cell[2 * layer], cell[2 * layer + 1]), dim=-1)
        )


# Where the context goes


@torch.no_grad()
def plain_decoder(model, source, target) -> torch.Tensor:
    """Logits by the equations of RecurrentDecoder, row by row and token by token, with torch's cell."""
    decoder, rows = model.get_decoder(), []
    for ids, read in zip(source, target, strict=True):
        encoded = model.get_encoder()(ids[None])
        memory = encoded.last_hidden_state  # [1, S, M]
        layers = [*zip(encoded.final_hidden.unbind(1), encoded.final_cell.unbind(1), strict=True)]
        logits = []
        for token in read:
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
        rows.append(torch.cat(logits))
    return torch.stack(rows)


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


@pytest.mark.parametrize("settings", WIRINGS, ids=name_of)
def test_rows_of_the_alignment_sum_to_1_and_padding_gets_0(settings):
    model = build_recurrent(**settings)
    ids, mask = pad(random_rows(7, 3, 5), "left")
    target = random_ids(3, 4)
    output = model(ids, attention_mask=mask, decoder_input_ids=target, output_attentions=True)
    assert model(ids, decoder_input_ids=target).cross_attentions is None
    if settings["score_function"] == "none":
        assert output.cross_attentions is None
        return
    (weights,) = output.cross_attentions
    assert weights.shape == (3, 1, 4, 7)
    assert_close(weights.sum(-1), torch.ones(3, 1, 4))
    hidden = ~mask.bool()[:, None, None].expand_as(weights)
    assert (weights[hidden] == 0).all()
    assert output.encoder_attentions is None
    assert output.decoder_attentions is None


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


@every_mechanism
def test_step_by_step_through_the_state_equals_one_pass(settings):
    model = build_recurrent(**settings)
    check_cached_equals_uncached(model)
    check_cached_equals_uncached(model, chunks=(3, 1, 2))
    for side in SIDES:
        check_cached_equals_uncached(model, target_side=side)


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


# Weights


@every_mechanism
def test_every_parameter_learns(settings):
    model = build_recurrent(**settings)
    model(random_ids(4, 6), labels=random_ids(4, 5)).loss.backward()
    idle = {name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()}
    assert not idle


def test_evaluation_is_deterministic_and_dropout_acts_in_training_only():
    model = build_recurrent(dropout=0.5, num_layers=2)
    inputs = {"input_ids": random_ids(2, 6), "decoder_input_ids": random_ids(2, 5)}
    assert torch.equal(model(**inputs).logits, model(**inputs).logits)
    assert_different(model.train()(**inputs).logits, model(**inputs).logits)


def test_the_same_seed_gives_the_same_weights():
    first, same, other = (build_recurrent(seed=seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(weight, same[name]) for name, weight in first.items())
    assert_different(other["lm_head.weight"], first["lm_head.weight"])


def test_initial_weights_lie_where_the_configuration_says():
    cells = build_recurrent(hidden_size=64).get_decoder().cells
    assert all(0.9 / 8 < float(weight.detach().abs().max()) <= 1 / 8 for weight in cells.parameters())
    model = build_recurrent(hidden_size=64, initializer_range=0.02, embedding_initializer_range=0.3)
    assert float(model.get_decoder().cells.weight_hh_l0.detach().std()) == pytest.approx(0.02, rel=0.05)
    assert float(model.lm_head.weight.detach().std()) == pytest.approx(0.02, rel=0.1)
    table = model.get_encoder().embed_tokens.weight.detach()
    assert (table[PAD] == 0).all()
    assert float(table[1:].std()) == pytest.approx(0.3, rel=0.1)


@every_mechanism
def test_a_saved_model_loads_with_the_same_logits(settings, tmp_path):
    model = build_recurrent(**settings)
    model.save_pretrained(tmp_path)
    weights = {path.name for path in tmp_path.iterdir() if path.suffix in (".safetensors", ".bin", ".pt")}
    assert weights == {"model.safetensors"}
    loaded, report = RecurrentForConditionalGeneration.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values())
    assert not any(tensor.is_meta for tensor in (*loaded.parameters(), *loaded.buffers()))
    inputs = {"input_ids": random_ids(2, 6), "decoder_input_ids": random_ids(2, 5)}
    assert torch.equal(loaded(**inputs).logits, model(**inputs).logits)
    bare = RecurrentModel.from_pretrained(tmp_path)
    assert torch.equal(bare(**inputs).last_hidden_state, model.model(**inputs).last_hidden_state)


def test_a_model_built_on_the_meta_device_takes_no_memory_and_loads():
    model = build_recurrent()
    with torch.device("meta"):
        empty = RecurrentForConditionalGeneration(model.config)
    assert all(weight.is_meta for weight in empty.parameters())
    loaded = RecurrentForConditionalGeneration.from_pretrained(
        None, config=model.config, state_dict=model.state_dict()
    )
    inputs = {"input_ids": random_ids(2, 6), "decoder_input_ids": random_ids(2, 5)}
    assert torch.equal(loaded(**inputs).logits, model(**inputs).logits)


def test_tied_tables_are_one_tensor_saved_once_and_untied_ones_are_three(tmp_path):
    tables = ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head")
    tied, untied = (build_recurrent(tie_word_embeddings=tie) for tie in (True, False))
    assert len({tied.get_submodule(name).weight.data_ptr() for name in tables}) == 1
    assert len({untied.get_submodule(name).weight.data_ptr() for name in tables}) == 3
    tied.save_pretrained(tmp_path)
    assert sum("embed" in name or "head" in name for name in load_file(tmp_path / "model.safetensors")) == 1
    loaded = RecurrentForConditionalGeneration.from_pretrained(tmp_path)
    assert len({loaded.get_submodule(name).weight.data_ptr() for name in tables}) == 1
    tied(random_ids(2, 4), labels=random_ids(2, 4)).loss.backward()
    torch.optim.SGD(tied.parameters(), lr=1.0).step()
    assert torch.equal(tied.lm_head.weight, tied.get_decoder().embed_tokens.weight)


@pytest.mark.parametrize("tie", [False, True])
def test_resized_embeddings_keep_what_the_old_tokens_gave(tie):
    model = build_recurrent(tie_word_embeddings=tie)
    inputs = {"input_ids": random_ids(2, 6), "decoder_input_ids": random_ids(2, 5)}
    before = model(**inputs).logits
    model.resize_token_embeddings(30)
    assert_close(model(**inputs).logits[..., :23], before)
    assert model(torch.full((2, 4), 29), labels=torch.full((2, 3), 28)).loss.isfinite()
    model.resize_token_embeddings(23)
    assert_close(model(**inputs).logits, before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("settings", [*WIRINGS[:4], *CELLS], ids=name_of)
def test_half_precision_is_finite_and_near(settings, dtype):
    ids, mask = pad(random_rows(7, 4), "left")
    inputs = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": random_ids(2, 5)}
    model = build_recurrent(**settings)
    exact = model(**inputs).logits
    logits = model.to(dtype)(**inputs).logits
    assert logits.dtype == dtype
    torch.testing.assert_close(logits.float(), exact, atol=0.1, rtol=0.1)


def casts_lstm():
    """Whether torch's own LSTM runs in half precision on this processor."""
    try:
        with torch.autocast("cpu", torch.bfloat16):
            torch.nn.LSTM(4, 4)(torch.zeros(2, 1, 4))
    except RuntimeError:
        return False
    return True


@pytest.mark.parametrize("settings", CELLS, ids=name_of)
def test_autocast_learns(settings):
    model = build_recurrent(**settings).train()
    if model.config.cell_type == "lstm" and not casts_lstm():
        pytest.skip("torch's LSTM has no half precision on this processor")
    ids, mask = pad(random_rows(5, 3), "right")
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(ids, attention_mask=mask, labels=random_ids(2, 4)).loss
    loss.backward()
    assert all(gradient.isfinite().all() for gradient in gradients(model).values())
