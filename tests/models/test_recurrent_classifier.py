"""The recurrent encoder's classifier: what is pooled."""

import torch

from tests.support.checks import assert_close, pad, random_rows
from tests.support.recurrent_models import POOLINGS, build_reader


def test_pooling_is_what_its_name_says():
    ids, mask = pad(random_rows(7, 3), "left")
    for pooling in POOLINGS:
        model = build_reader(pooling=pooling)
        states = [model.encoder(row[None]).last_hidden_state[0] for row in random_rows(7, 3)]
        by_hand = {
            "mean": [row.mean(0) for row in states],
            "max": [row.max(0).values for row in states],
            "last": [torch.cat((row[-1, :8], row[0, 8:])) for row in states],  # each direction where it ends
        }
        expected = model.classifier(torch.stack(by_hand[pooling]))
        assert_close(model(ids, attention_mask=mask).logits, expected)
