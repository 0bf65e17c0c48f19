"""Figures are measured on held-out examples, written freely, and come with an interval."""

import dataclasses
import random

import pytest
import torch

from hf_attn.architectures.memory import count_activations
from hf_attn.architectures.registry import build_model
from hf_attn.evaluation import metrics
from hf_attn.evaluation.metrics import (
    evaluate,
    exact_matches,
    group_interval,
    measure_quickly,
    parts_of,
    pool_scores,
    predict,
    score_answers,
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


def test_the_figures_agree_with_the_failures_and_the_sizes_each_time_and_leave_training_on(trained):
    task, model = trained
    model.train()
    evaluation = evaluate(model, task, n=300)
    assert model.training
    assert evaluation == evaluate(model, task, n=300)
    overall, wrong = evaluation.overall, 1 - evaluation.overall.exact_match
    assert len(evaluation.failures) == pytest.approx(wrong * overall.examples)
    assert sum(score.examples for score in evaluation.by_size.values()) == overall.examples
    right = sum(score.exact_match * score.examples for score in evaluation.by_size.values())
    assert right == pytest.approx(overall.exact_match * overall.examples)
    assert all(task.answer(source) == answer != written for source, written, answer in evaluation.failures)
    assert (overall.tally, overall.over) == ({}, ""), "what is made has no groups"
    assert overall.interval == wilson_interval(round(300 * overall.exact_match), 300)


def test_what_cannot_be_measured_is_refused(trained):
    task, model = trained
    with pytest.raises(ValueError, match="split='training'"):
        evaluate(model, task, split="training")
    with pytest.raises(ValueError, match="n=0"):
        group_interval({})
    with pytest.raises(ValueError, match="shorter"):
        score_answers([True, False], ["one"], "modules")


def test_the_verifier_and_the_labels_agree_on_what_is_right(trained):
    task, model = trained
    batch = task.held_out(300)
    quick = measure_quickly(model, task, batch)
    assert evaluate(model, task, n=300).overall.exact_match == pytest.approx(quick)
    assert quick > 0.2, "the model has learned something, so that agreeing means something"


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


def width(interval):
    return interval.high - interval.low


def draw_groups(seed, count, each=12):
    """Group → (right, n): groups of many sizes, each with a share of its own; on the mean a half is right."""
    draw = random.Random(seed)
    sizes = [draw.randint(1, each) for _ in range(count)]
    return {
        number: (sum(draw.random() < share for _ in range(n)), n)
        for number, (n, share) in enumerate((n, draw.random()) for n in sizes)
    }


@pytest.mark.parametrize("groups", [None, range(50)])
def test_examples_that_were_drawn_each_by_itself_have_wilson_s_interval(groups):
    score = score_answers([number % 3 == 0 for number in range(50)], groups, "modules")
    assert (score.examples, score.exact_match) == (50, 17 / 50)
    assert score.interval == wilson_interval(17, 50)
    assert score.over == ""


def test_copies_within_a_group_make_the_interval_no_narrower():
    is_right, copies = [number % 3 == 0 for number in range(60)], 10
    once = score_answers(is_right, range(60), "modules")
    again = score_answers(is_right * copies, [*range(60)] * copies, "modules")
    assert (again.examples, again.exact_match) == (600, once.exact_match)
    assert again.over == "60 modules"
    assert width(again.interval) == pytest.approx(width(once.interval), rel=0.1)
    assert width(wilson_interval(200, 600)) < width(again.interval) / 2


@pytest.mark.parametrize("seed", range(3))
def test_an_interval_over_groups_is_as_wide_as_their_standard_error_says(seed):
    tally = draw_groups(seed, 150)
    right, n = (sum(column) for column in zip(*tally.values(), strict=True))
    share = right / n
    spread = sum((own - share * size) ** 2 for own, size in tally.values())  # of the sums of each group
    error = (150 / 149 * spread) ** 0.5 / n
    interval = group_interval(tally)
    assert (interval.low + interval.high) / 2 == pytest.approx(share, abs=error / 4)
    assert width(interval) == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_an_interval_over_groups_is_the_same_whatever_was_drawn_before_and_in_any_order():
    tally, state = draw_groups(0, 40), torch.get_rng_state()
    first = group_interval(tally)
    assert torch.equal(torch.get_rng_state(), state), "nothing is drawn from the global generator"
    torch.manual_seed(1)
    assert group_interval(dict(reversed(tally.items()))) == first


@pytest.mark.parametrize(("tally", "right"), [
    (dict.fromkeys(range(20), (5, 5)), 20),
    ({number: (0, number + 1) for number in range(20)}, 0),
    ({"one": (3, 4)}, 0.75),
    ({"one": (1, 2), "another": (3, 6)}, 1),
])  # fmt: skip
def test_groups_of_one_share_are_as_many_examples_as_there_are_groups(tally, right):
    assert group_interval(tally) == wilson_interval(right, len(tally))
    assert width(group_interval(tally)) > 0


def test_scores_of_parts_are_pooled_to_the_score_of_the_whole():
    draw = random.Random(0)
    is_right = [draw.random() < 0.7 for _ in range(300)]
    groups = [place % 40 for place in range(300)]
    for drawn in (groups, None):
        parts = [
            score_answers(is_right[part], drawn and drawn[part], "modules")
            for part in (slice(0, 1), slice(1, 120), slice(120, 300))
        ]
        whole = score_answers(is_right, drawn, "modules")
        assert pool_scores(parts) == whole
        assert whole.over == ("40 modules" if drawn else "")


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


def test_an_interval_over_groups_is_never_narrower_than_that_of_the_examples():
    tally = {"one": (90, 100), "other": (91, 100)}
    by_example = wilson_interval(181, 200)
    assert group_interval(tally) == by_example
