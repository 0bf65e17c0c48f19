"""Scores of the alignment: rows in which nothing may be read."""

import pytest
import torch

from hf_attn.models.score_functions import masked_softmax


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_where_nothing_may_be_read_the_weights_are_0_and_so_are_the_gradients(dtype):
    scores = torch.full((1, 2, 3), 3.0, dtype=dtype, requires_grad=True)
    weights = masked_softmax(scores, torch.zeros(1, 3).bool())
    assert (weights == 0).all()
    weights.sum().backward()
    assert (scores.grad == 0).all()
