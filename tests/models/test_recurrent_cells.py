"""Recurrent cells are torch's own, layer by layer, also where the steps between are looked at."""

import itertools

import pytest
import torch

from hf_attn.models.modeling_recurrent_encoder import RecurrentCells
from tests.models.test_graphs import MASKS
from tests.support.checks import assert_close

TORCHS = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}
every_cell = pytest.mark.parametrize(("cell_type", "num_layers"), list(itertools.product(TORCHS, (1, 2))))


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
