"""A model learns its labels: each is scored once, by what was read before it, however batches are cut."""

import pytest
import torch

from tests.support.checks import (
    LABELS,
    assert_close,
    check_accumulation_weighs_every_label_alike,
    check_labels_shift_once,
    check_the_trainer_accumulates,
    examples_for,
    random_ids,
)
from tests.support.matrix import rows
from tests.support.recurrent_models import WIRINGS
from tests.support.subjects import CLASSIFIERS, WRITERS, Subject, each_kind

LOSSES = {
    "single_label_classification": torch.nn.functional.cross_entropy,
    "multi_label_classification": torch.nn.functional.binary_cross_entropy_with_logits,
    "regression": torch.nn.functional.mse_loss,
}
CLASSES = [
    Subject(kind, {"problem_type": problem, "num_labels": 1 if problem == "regression" else 3})
    for kind in CLASSIFIERS
    for problem in LOSSES
]
OUTSIDE = Subject("recurrent", WIRINGS[2])  # whose context never enters the cells
writers = [*each_kind(*WRITERS), pytest.param(OUTSIDE, id=str(OUTSIDE))]


@pytest.mark.parametrize("subject", writers)
def test_labels_shift_exactly_once(subject):
    check_labels_shift_once(subject.build())


@pytest.mark.parametrize("subject", CLASSES, ids=str)
def test_each_problem_type_has_the_loss_of_its_name(subject):
    problem_type = subject.settings["problem_type"]
    labels = LABELS[problem_type]
    output = subject.build()(random_ids(8, 5), labels=labels)
    assert_close(output.loss, LOSSES[problem_type](output.logits.squeeze(-1), labels))


@pytest.mark.parametrize("subject", [*rows(CLASSES, CLASSES, str), *writers])
def test_accumulated_gradients_weigh_every_label_alike(subject):
    model = subject.build()
    check_accumulation_weighs_every_label_alike(model, *examples_for(model))


@pytest.mark.parametrize("subject", [*rows(CLASSES, CLASSES[1:4], str), *each_kind(*WRITERS)])
def test_the_trainer_learns_the_same_from_eight_batches_of_one_and_one_of_eight(subject, tmp_path):
    check_the_trainer_accumulates(subject.build, tmp_path)


@pytest.mark.parametrize("subject", each_kind("encoder-decoder", "recurrent"))
def test_a_loss_function_of_ones_own_gets_each_argument_by_its_name(subject):
    model, given = subject.build(), {}

    def loss(logits, labels, num_items_in_batch=None, **others):
        given.update(others, num_items_in_batch=num_items_in_batch)
        return logits.sum() + labels.sum()

    model.loss_function = loss
    model(random_ids(2, 4), labels=random_ids(2, 4), num_items_in_batch=7)
    assert given == {"num_items_in_batch": 7, "vocab_size": model.config.vocab_size}
