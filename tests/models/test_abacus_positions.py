"""Abacus: in training the digits begin at a place of their own, and nothing else does."""

import torch

from hf_attn.models.configuration_attn_seq2seq import AttnSeq2SeqConfig
from hf_attn.models.position_runs import AbacusPositions


def test_digits_alone_are_moved_on_in_training():
    sizes = {"vocab_size": 20, "max_position_embeddings": 16, "position_offset": 9}
    config = AttnSeq2SeqConfig(position_type="abacus", run_token_ids=list(range(4, 14)), **sizes)
    positions = AbacusPositions(config).train()
    source = torch.tensor([[5, 6, 15, 7, 2]]).repeat(64, 1)  # two digits, a sign, a digit, </s>
    places = positions.read_text(source, torch.arange(5)[None])
    columns, start = places.unbind(-1)
    assert len(start.unique()) > 1, "each example has a start of its own"
    assert torch.equal(columns, torch.tensor([2, 1, 0, 1, 0]) + start * torch.tensor([1, 1, 0, 1, 0]))
    steps = positions.place_steps(torch.arange(3).repeat(64, 1), places)
    assert torch.equal(steps, torch.arange(3) + start[:, :1] * torch.tensor([0, 1, 1])), (
        "the start stays at 0"
    )
