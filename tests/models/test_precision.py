"""In half the numbers' width a model answers nearly the same, and it learns with mixed ones."""

import pytest
import torch

from tests.support.checks import KERNELS, answers, gradients, pad, random_ids, random_rows, read
from tests.support.matrix import rows
from tests.support.recurrent_models import CELLS
from tests.support.subjects import (
    CAUSAL,
    classifiers,
    each_kind,
    recurrent,
    small_blocks,
    with_attention,
    with_positions,
)

pytestmark = small_blocks
every_half = pytest.mark.parametrize("dtype", rows((torch.bfloat16, torch.float16), (torch.bfloat16,)))
EXACT = ("classifier", "recurrent", "recurrent encoder", "recurrent classifier")  # no deep stack of sums


def inputs_for(model) -> tuple[dict[str, torch.Tensor], torch.Tensor | slice]:
    """A batch padded on the left, and which of its answers count."""
    ids, mask = pad(random_rows(7, 4), "left")
    given = {"input_ids": ids, "attention_mask": mask}
    if model.config.is_encoder_decoder:
        return {**given, **read(model, random_ids(2, 5))}, slice(None)
    return given, slice(None) if hasattr(model, "classifier") else mask.bool()


@torch.no_grad()
@every_half
@pytest.mark.parametrize(
    "subject",
    [
        *with_positions("decoder", both_kernels=True),
        *with_attention("encoder-decoder", "decoder", kernels=KERNELS, gate=CAUSAL),
        *each_kind(),
        *classifiers(),
        *recurrent(),
    ],
)
def test_half_precision_is_finite_and_near(subject, dtype):
    model = subject.build()
    given, shown = inputs_for(model)
    exact = answers(model, **given)
    found = answers(model.to(dtype), **given)
    assert found.dtype == dtype
    assert found.isfinite().all()
    if subject.settings.get("attention_type") != "reformer":  # a rounded query may hash to another bucket
        tolerance = 0.1 if subject.kind in EXACT else 0.3
        torch.testing.assert_close(found[shown].float(), exact[shown], atol=tolerance, rtol=0.1)


@torch.no_grad()
@every_half
@pytest.mark.parametrize("subject", each_kind())
def test_a_model_that_is_loaded_in_half_precision_answers_as_one_that_is_cast(subject, dtype, tmp_path):
    model = subject.build()
    given, shown = inputs_for(model)
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path, dtype=dtype)
    assert torch.equal(answers(loaded, **given)[shown], answers(model.to(dtype), **given)[shown])


def casts_lstm() -> bool:
    """Whether torch's own LSTM runs in half precision on this processor."""
    try:
        with torch.autocast("cpu", torch.bfloat16):
            torch.nn.LSTM(4, 4)(torch.zeros(2, 1, 4))
    except RuntimeError:
        return False
    return True


@pytest.mark.parametrize(
    "subject",
    [
        *with_positions(
            "decoder", "encoder-decoder", both_kernels=True, gate=("rotary", "both_ends", "recurrent")
        ),
        *with_attention("encoder-decoder", "decoder", gate=CAUSAL),
        *classifiers(),
        *recurrent(CELLS, CELLS[-3:]),
    ],
)
def test_mixed_precision_learns(subject):
    model = subject.build().train()
    if (
        getattr(model.config, "cell_type", None) == "lstm"
        and subject.kind == "recurrent"
        and not casts_lstm()
    ):
        pytest.skip("torch's LSTM has no half precision on this processor")
    ids, mask = pad(random_rows(6, 4), "right")
    labels = torch.tensor([0, 1]) if hasattr(model, "classifier") else ids
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(ids, attention_mask=mask, labels=labels).loss
    loss.backward()
    assert loss.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients(model).values())
