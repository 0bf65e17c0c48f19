"""Recurrent models as graphs, layer by layer, and with weights on a disk, whatever the attention mask."""

import itertools

import pytest
import torch
from accelerate import disk_offload

from hf_attn.models.configuration_recurrent_encoder import RecurrentEncoderConfig
from hf_attn.models.modeling_recurrent_encoder import RecurrentCells, RecurrentForSequenceClassification
from tests.support.checks import START, assert_close, pad, random_ids, random_rows
from tests.support.recurrent_models import (
    CELLS,
    MECHANISMS,
    WIRINGS,
    build_recurrent,
    every_mechanism,
    name_of,
    written_by_hand,
)

TORCHS = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}
MASKS = {
    "none": None,
    "whole": torch.ones(3, 6, dtype=torch.long),
    "left": torch.tensor([[0, 0, 1, 1, 1, 1], [1] * 6, [0, 0, 0, 0, 0, 1]]),
    "right": torch.tensor([[1, 1, 1, 1, 0, 0], [1, 0, 0, 0, 0, 0], [1] * 6]),
    "between": torch.tensor([[1, 0, 1, 0, 0, 1], [0] * 6, [1, 1, 0, 1, 1, 1]]),
}
every_cell = pytest.mark.parametrize(("cell_type", "num_layers"), list(itertools.product(TORCHS, (1, 2))))


# A graph takes seconds: one of each wiring, cell and depth is recorded always, the others in the slow tests.
OFTEN = [WIRINGS[0], WIRINGS[7], WIRINGS[-1], *CELLS[2::5], *MECHANISMS[-2:]]
every_graph = pytest.mark.parametrize(
    "settings",
    [
        pytest.param(each, marks=[] if each in OFTEN else pytest.mark.nightly, id=name_of(each))
        for each in MECHANISMS
    ],
)


def build_cells(cell_type, num_layers, bidirectional=True):
    torch.manual_seed(0)
    return RecurrentCells(cell_type, 5, 4, num_layers=num_layers, bidirectional=bidirectional)


@every_cell
def test_every_layer_s_states_are_torch_s_own(cell_type, num_layers):
    cells, inputs = build_cells(cell_type, num_layers), torch.randn(3, 6, 5)
    outputs, _, layers = cells(inputs, every_layer=True)
    assert torch.equal(layers[-1], outputs)
    below = inputs
    for index, found in enumerate(layers):
        torchs = TORCHS[cell_type](below.shape[-1], 4, bidirectional=True, batch_first=True)
        named = cells.state_dict().items()
        torchs.load_state_dict({k.replace(f"_l{index}", "_l0"): w for k, w in named if f"_l{index}" in k})
        below = torchs(below)[0]
        assert_close(found, below)


@every_cell
@pytest.mark.parametrize("padding", MASKS)
def test_the_twin_that_goes_step_by_step_gives_what_one_call_gives(cell_type, num_layers, padding):
    cells, inputs = build_cells(cell_type, num_layers), torch.randn(3, 6, 5, requires_grad=True)
    mask, state = MASKS[padding], [torch.randn(2 * num_layers, 3, 4) for _ in range(2)]
    state = tuple(state if cell_type == "lstm" else state[:1])
    is_token = None if mask is None else mask.bool()
    found = []
    for every_layer in (False, True):
        outputs, end, _ = cells(inputs, state, is_token, every_layer)
        loss = sum(part.square().sum() for part in (outputs, *end))
        found.append((outputs, *end, *torch.autograd.grad(loss, [inputs, *cells.parameters()])))
    for fast, plain in zip(*found, strict=True):
        assert_close(fast, plain, 1e-4)


@every_mechanism
def test_hidden_states_are_the_embeddings_and_one_a_layer_on_both_sides(settings):
    model, ids = build_recurrent(**settings), random_ids(3, 6)
    given = {"input_ids": ids, "attention_mask": MASKS["left"], "decoder_input_ids": random_ids(3, 5, seed=1)}
    shown, plain = model(**given, output_hidden_states=True), model(**given)
    assert_close(shown.logits, plain.logits)
    for states, last in (
        (shown.encoder_hidden_states, shown.encoder_last_hidden_state),
        (shown.decoder_hidden_states, model.model(**given).last_hidden_state),
    ):
        assert len(states) == model.config.num_layers + 1
        assert_close(states[-1], last)
    assert torch.equal(shown.encoder_hidden_states[0], model.get_encoder().embed_tokens(ids))


def build_classifier(**settings):
    torch.manual_seed(0)
    sizes = {"vocab_size": 23, "hidden_size": 16, "num_labels": 3}
    return RecurrentForSequenceClassification(RecurrentEncoderConfig(**sizes, **settings)).eval()


@torch.no_grad()
@every_graph
def test_a_model_is_exported_and_compiled_without_a_break_whatever_is_padded(settings):
    model, ids, target = build_recurrent(**settings), random_ids(3, 6), random_ids(3, 4, seed=1)
    given = {"input_ids": ids, "attention_mask": MASKS["whole"], "decoder_input_ids": target}
    given["use_cache"] = False
    exported = torch.export.export(model, (), given).module()
    torch.compiler.reset()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    for mask in list(MASKS.values())[1:]:
        given["attention_mask"] = mask
        expected = model(**given).logits
        assert_close(exported(**given).logits, expected)
        assert_close(compiled(**given).logits, expected)


@torch.no_grad()
@pytest.mark.parametrize("pooling", ["last", "mean", "max"])
@pytest.mark.parametrize("cell_type", TORCHS)
def test_a_classifier_is_exported_and_compiled_without_a_break_whatever_is_padded(cell_type, pooling):
    model, ids = build_classifier(cell_type=cell_type, pooling=pooling), random_ids(3, 6)
    exported = torch.export.export(model, (ids,), {"attention_mask": MASKS["whole"]}).module()
    torch.compiler.reset()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    for mask in list(MASKS.values())[1:]:
        expected = model(ids, attention_mask=mask).logits
        assert_close(exported(ids, attention_mask=mask).logits, expected)
        assert_close(compiled(ids, attention_mask=mask).logits, expected)


@torch.no_grad()
@every_graph
def test_an_exported_step_writes_on_from_the_state_that_it_gave(settings):
    model = build_recurrent(**settings)
    ids, mask = pad(random_rows(6, 4, 5), "left")
    encoded = model.get_encoder()(ids, attention_mask=mask)
    token = torch.full((3, 1), START)
    begun = model(encoder_outputs=encoded, attention_mask=mask, decoder_input_ids=token, use_cache=True)
    state, token = begun.cache, begun.logits.argmax(-1)
    given = {"encoder_outputs": encoded, "attention_mask": mask, "use_cache": True}
    step = torch.export.export(model, (), {**given, "decoder_input_ids": token, "cache": state})
    step, written = step.module(), [token]
    for _ in range(5):
        output = step(**given, decoder_input_ids=token, cache=state)
        state, token = output.cache, output.logits.argmax(-1)
        written.append(token)
    assert state.get_seq_length() == 6
    assert torch.equal(torch.cat(written, dim=1), written_by_hand(model, ids, 6, mask))


@torch.no_grad()
@pytest.mark.parametrize("settings", [*CELLS, *MECHANISMS[-2:]], ids=name_of)
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
