"""Weights that are permuted are so in an order of each layer's own."""

import torch

from hf_attn.interpret.interventions import Intervention, intervening
from tests.support.checks import build_seq2seq, random_ids


@torch.no_grad()
def test_each_layer_is_permuted_in_an_order_of_its_own():
    model, source, written = build_seq2seq(encoder_layers=2), random_ids(1, 9), random_ids(1, 3, seed=1)

    def maps(*interventions):
        with intervening(model, interventions):
            given = {"decoder_input_ids": written, "output_attentions": True}
            return model(source, **given).encoder_attentions

    before, orders = maps(), []
    for layer in range(2):
        after = maps(Intervention("permute", "encoder", layer))[layer]
        came_from = after.unsqueeze(-1) == before[layer].unsqueeze(-2)  # [1, H, T, S after, S before]
        assert (came_from.sum(-1) == 1).all()
        orders.append(came_from.int().argmax(-1))
    assert not torch.equal(*orders)
