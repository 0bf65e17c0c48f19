"""The recurrent encoder's classifier: what is pooled."""

import pytest
import torch

from tests.support.checks import assert_close, pad, random_ids, random_rows
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


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_row_of_nothing_but_padding_reads_nothing(pooling):
    model = build_reader(pooling=pooling)
    mask = torch.tensor([[1, 1, 1], [0, 0, 0]])
    found = model(random_ids(2, 3), attention_mask=mask).logits
    assert_close(found[1], model.classifier(torch.zeros(16)))
    assert found.isfinite().all()


def test_a_mask_of_another_length_is_refused():
    with pytest.raises(ValueError, match=r"attention_mask has the shape \[2, 4\].*inputs are \[2, 3\]"):
        build_reader()(random_ids(2, 3), attention_mask=torch.ones(2, 4))
