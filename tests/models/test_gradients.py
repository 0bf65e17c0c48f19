"""Every parameter learns, also with activation checkpointing; dropout acts while it does, and only then."""

import pytest
import torch

from tests.support.checks import (
    answers,
    assert_different,
    assert_same_gradients,
    examples_for,
    gradients,
    random_ids,
    read,
)
from tests.support.subjects import (
    classifiers,
    each_kind,
    recurrent,
    small_blocks,
    with_attention,
    with_positions,
)

pytestmark = small_blocks
STACKS = ("encoder-decoder", "decoder")


def learn(model) -> dict[str, torch.Tensor]:
    """The gradients of eight examples."""
    examples, _ = examples_for(model)
    model(**{name: torch.cat([each[name] for each in examples]) for name in examples[0]}).loss.backward()
    return gradients(model)


@pytest.mark.parametrize(
    "subject",
    [
        *with_positions(*STACKS),
        *with_attention(*STACKS, gate=("linformer", "local")),
        *classifiers(),
        *recurrent(),
        *each_kind(*STACKS, tie_word_embeddings=True),
    ],
)
def test_every_parameter_learns(subject):
    model = subject.build()
    learn(model)
    assert not [
        name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()
    ]


@pytest.mark.parametrize(
    "subject",
    [
        *with_positions(*STACKS, gate=("rotary", "alibi", "recurrent")),
        *with_attention(*STACKS, gate=("performer",)),
        *each_kind("classifier"),
    ],
)
def test_checkpointing_gives_the_same_gradients(subject):
    expected = learn(subject.build().train())
    for reentrant in (False, True):
        model = subject.build().train()
        model.activation_checkpointing_enable({"use_reentrant": reentrant})
        assert_same_gradients(learn(model), expected)


@pytest.mark.parametrize("subject", each_kind(dropout=0.5))
def test_evaluation_is_deterministic_and_dropout_acts_in_training_only(subject):
    model, ids = subject.build(), random_ids(2, 6)
    given = {"input_ids": ids, **read(model, ids)}
    assert torch.equal(answers(model, **given), answers(model, **given))
    assert_different(answers(model.train(), **given), answers(model.eval(), **given))
