"""Every kernel computes the same attention, in values and in gradients."""

import pytest
import torch

from tests.support.checks import (
    answers,
    assert_close,
    check_kernels_agree,
    pad,
    random_ids,
    random_rows,
    read,
)
from tests.support.position_checks import ALL, kernels_of
from tests.support.subjects import each_kind, small_blocks, with_attention, with_positions

pytestmark = small_blocks
TWO = [name for name in ALL if len(kernels_of(name)) > 1]


@pytest.mark.parametrize(
    "subject",
    [
        *with_positions(types=TWO),
        *with_attention(gate=("linformer", "local")),
        *each_kind("encoder", "encoder-decoder", "decoder", norm_position="post", use_bias=True),
    ],
)
def test_the_kernels_agree_in_values_and_gradients(subject):
    model = subject.build()
    check_kernels_agree(model.model if subject.kind == "decoder" else model)


@pytest.mark.nightly  # inductor compiles the kernel: a minute
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@torch.no_grad()
@pytest.mark.parametrize(
    "subject",
    [
        *with_positions("decoder", types=("learned", "t5", "alibi", "composite"), gate=()),
        *each_kind("encoder", "encoder-decoder"),
    ],
)
def test_flex_agrees_in_values(subject):
    model = subject.build(hidden_size=32)  # flex wants heads of 16 at least
    ids, mask = pad(random_rows(7, 4), "right")
    given = {"input_ids": ids, "attention_mask": mask}
    shown = mask.bool()
    if model.config.is_encoder_decoder:
        given, shown = {**given, **read(model, random_ids(2, 5))}, slice(None)
    expected = answers(model, **given)[shown]
    model.set_attn_implementation("flex_attention")
    assert_close(answers(model, **given)[shown], expected)
