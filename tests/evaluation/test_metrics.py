"""Figures are measured on held-out examples, written freely, and come with an interval."""

import dataclasses

import pytest
import torch

from hf_attn.architectures.memory import count_activations
from hf_attn.architectures.registry import build_model
from hf_attn.evaluation import metrics
from hf_attn.evaluation.metrics import (
    evaluate,
    exact_matches,
    measure_quickly,
    parts_of,
    predict,
    wilson_interval,
)
from hf_attn.tasks import Recipe, build_task
from hf_attn.tasks.batch import END, PAD
from hf_attn.training.loop import train


@pytest.fixture(scope="module")
def trained():
    """A copy model that is good but not perfect."""
    task = build_task("copy", max_length=6)
    recipe = dataclasses.replace(task.recipe, steps=60, evaluate_every=60)
    model = build_model(task, recipe)
    for _ in train(task, model, recipe):
        pass
    return task, model


def test_an_untrained_model_is_measured_as_bad():
    task = build_task("addition")
    evaluation = evaluate(build_model(task, Recipe()), task, n=100)
    assert evaluation.overall.exact_match < 0.05
    assert len(evaluation.failures) == 100 - round(100 * evaluation.overall.exact_match)


def test_the_figures_agree_with_the_failures_and_the_sizes(trained):
    task, model = trained
    evaluation = evaluate(model, task, n=300)
    wrong = 1 - evaluation.overall.exact_match
    assert len(evaluation.failures) == pytest.approx(wrong * evaluation.overall.examples)
    assert sum(score.examples for score in evaluation.by_size.values()) == evaluation.overall.examples
    right = sum(score.exact_match * score.examples for score in evaluation.by_size.values())
    assert right == pytest.approx(evaluation.overall.exact_match * evaluation.overall.examples)
    assert all(task.answer(source) == answer != written for source, written, answer in evaluation.failures)


def test_the_verifier_and_the_labels_agree_on_what_is_right(trained):
    task, model = trained
    batch = task.held_out(300)
    quick = measure_quickly(model, task, batch)
    assert evaluate(model, task, n=300).overall.exact_match == pytest.approx(quick)
    assert quick > 0.2, "the model has learned something, so that agreeing means something"


def test_measuring_twice_gives_the_same(trained):
    task, model = trained
    assert evaluate(model, task, n=200) == evaluate(model, task, n=200)


def test_measuring_leaves_the_model_in_training_as_it_was(trained):
    task, model = trained
    model.train()
    predict(model, task, task.held_out(5))
    assert model.training


def test_what_stands_behind_the_end_does_not_count_and_a_missing_end_does():
    labels = torch.tensor([[5, 6, END, -100]])
    assert exact_matches(torch.tensor([[5, 6, END, 9]]), labels).tolist() == [True]
    assert exact_matches(torch.tensor([[5, 6, 7, END]]), labels).tolist() == [False]
    assert exact_matches(torch.tensor([[5, 6, PAD, PAD]]), labels).tolist() == [False]


def test_an_answer_that_does_not_end_is_wrong_whatever_it_says(monkeypatch):
    task = build_task("addition", digits=1)
    labels = task.held_out(5).labels  # "12" </s>
    zeros = torch.full_like(labels[:, :1], task.vocabulary["0"])
    for written, share in ((labels, 1), (torch.cat((zeros, labels[:, :-1]), dim=1), 0)):  # "012", which is 12
        monkeypatch.setattr(metrics, "predict", lambda *_, ids=written: ids)
        assert evaluate(build_model(task, Recipe()), task, n=5).overall.exact_match == share


@pytest.mark.parametrize("number", ["nan", "inf"])
def test_a_model_with_weights_that_are_no_numbers_is_not_measured(number):
    task = build_task("copy", max_length=3)
    model = build_model(task, Recipe())
    with torch.no_grad():
        model.lm_head.weight[0, 0] = float(number)
    with pytest.raises(ValueError, match="weights that are no numbers"):
        evaluate(model, task, n=5)


def test_the_interval_is_wilson_s():
    interval = wilson_interval(9, 10)
    assert (round(interval.low, 3), round(interval.high, 3)) == (
        0.596,
        0.982,
    )  # Agresti & Coull 1998, table 1
    assert wilson_interval(10, 10).high == 1
    assert wilson_interval(0, 10).low == 0


def test_training_examples_cannot_be_measured_on(trained):
    task, model = trained
    with pytest.raises(ValueError, match="split='training'"):
        evaluate(model, task, split="training")


def test_examples_that_take_much_memory_are_measured_in_smaller_parts(monkeypatch):
    task = build_task("copy", max_length=5)
    model, batch = build_model(task, task.recipe), task.held_out(40)
    whole = predict(model, task, batch)
    each = count_activations(model.config, batch.input_ids.shape[1], batch.labels.shape[1])
    monkeypatch.setattr(metrics, "LARGEST_PART", 7 * each)
    assert [len(part.input_ids) for part in parts_of(batch, model, 512)] == [7, 7, 7, 7, 7, 5]
    assert torch.equal(predict(model, task, batch), whole)


def test_accuracy_is_told_under_the_right_size():
    task = build_task("copy", max_length=4)
    sizes = evaluate(build_model(task, Recipe()), task, n=60).by_size
    lengths = [sum(index not in (PAD, END) for index in row) for row in task.held_out(60).input_ids.tolist()]
    assert {size: score.examples for size, score in sizes.items()} == {
        length: lengths.count(length) for length in sorted(set(lengths))
    }
