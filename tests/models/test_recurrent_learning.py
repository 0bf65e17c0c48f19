"""The recurrent encoder-decoder learns from true tokens or from those that it chose itself."""

import pytest
import torch

from tests.support.checks import (
    START,
    assert_close,
    assert_different,
    assert_same_gradients,
    gradients,
    pad,
    random_ids,
    random_rows,
)
from tests.support.recurrent_models import build_recurrent, written_by_hand
from tests.support.subjects import recurrent


@pytest.mark.parametrize("subject", recurrent())
def test_teacher_forcing_of_0_reads_its_own_choices_in_training_as_in_writing(subject):
    model = subject.build(eos_token_id=None).train()
    source, mask = pad(random_rows(6, 4), "right")
    labels = random_ids(2, 5, seed=1)
    kwargs = {"attention_mask": mask, "output_attentions": True, "output_hidden_states": True}
    found = model(source, labels=labels, teacher_forcing_ratio=0.0, **kwargs)
    own = written_by_hand(model, source, 5, mask)
    assert found.logits.argmax(-1).tolist() == own.tolist()
    read = torch.cat((torch.full((2, 1), START), own[:, :-1]), dim=1)
    expected = model(source, decoder_input_ids=read, labels=labels, **kwargs)
    assert_close(found.loss, expected.loss)
    assert_close(found.logits, expected.logits)
    for kind in ("cross_attentions", "decoder_hidden_states"):
        for one, other in zip(found.get(kind, ()), expected.get(kind, ()), strict=True):
            assert_close(one, other)
    assert_different(found.logits, model(source, labels=labels, **kwargs).logits)
    model.zero_grad()
    found.loss.backward()
    slopes = gradients(model)
    model.zero_grad()
    expected.loss.backward()
    assert_same_gradients(slopes, gradients(model))


def test_a_share_of_steps_is_forced_each_example_and_step_drawn_alone():
    model, source = build_recurrent().train(), random_ids(400, 3)
    labels = random_ids(400, 3, seed=1)
    first = model(source, labels=labels).logits[:, 0].argmax(-1)
    both = {
        name: model(source, decoder_input_ids=torch.stack((torch.full((400,), START), token), dim=1)).logits
        for name, token in (("true", labels[:, 0]), ("own", first))
    }
    torch.manual_seed(0)
    found = model(source, labels=labels, teacher_forcing_ratio=0.3).logits[:, 1]
    is_true = (found - both["true"][:, 1]).abs().amax(-1) < 1e-5
    is_own = (found - both["own"][:, 1]).abs().amax(-1) < 1e-5
    assert (is_true | is_own).all()
    told_apart = (labels[:, 0] != first).sum()
    assert 0.2 < float((is_true & ~is_own).sum() / told_apart) < 0.4
