"""The encoder and its classifier: what is pooled, and what a layer adds to its embeddings."""

import pytest
import torch

from hf_attn.models.layers import Residual
from tests.support.checks import (
    assert_close,
    assert_different,
    build_classifier,
    build_encoder,
    pad,
    random_ids,
    random_rows,
)


def test_mean_pooling_is_the_mean_over_tokens_and_leaves_padding_out():
    model = build_classifier(num_labels=3)
    ids, mask = pad(random_rows(7, 3), "right")
    states = model.encoder(ids, attention_mask=mask).last_hidden_state
    by_hand = torch.stack([states[0].mean(0), states[1, :3].mean(0)])
    assert_close(model(ids, attention_mask=mask).logits, model.classifier(by_hand))
    assert_different(model(ids).logits[1], model(ids, attention_mask=mask).logits[1])


def test_a_classifier_refuses_a_mask_that_says_nothing_of_padding_and_a_row_without_tokens():
    model = build_classifier()
    with pytest.raises(ValueError, match=r"shape \[1, 1, 3, 3\].*classifier pools.*give \[B, S\]"):
        model(random_ids(1, 3), attention_mask=torch.ones(1, 1, 3, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="without tokens"):
        model(random_ids(1, 0))


def test_a_post_norm_residual_normalises_and_a_pre_norm_one_does_not():
    config = build_encoder(norm_position="post").config
    states, block = torch.randn(2, 5, 16) * 3 + 1, torch.randn(2, 5, 16)
    after = Residual(config).after(states, block)
    torch.testing.assert_close(after.mean(-1), torch.zeros(2, 5), atol=1e-5, rtol=0)
    torch.testing.assert_close(after.var(-1, unbiased=False), torch.ones(2, 5), atol=1e-3, rtol=0)
    config.norm_position = "pre"
    torch.testing.assert_close(Residual(config).after(states, block), states + block)


def test_embeddings_are_scaled_by_the_root_of_the_width():
    plain, scaled = (
        build_encoder(position_type="none"),
        build_encoder(position_type="none", scale_embedding=True),
    )
    ids = random_ids(1, 4)
    first = plain(ids, output_hidden_states=True).hidden_states[0]
    torch.testing.assert_close(scaled(ids, output_hidden_states=True).hidden_states[0], 4 * first)
