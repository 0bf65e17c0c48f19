"""The baseline learns from the same texts, is measured on the same split, and chooses on validation."""

import sys

import pytest

from hf_attn.evaluation.baselines import (
    FEATURES,
    STRENGTHS,
    measure_baseline,
    measure_beside,
)
from hf_attn.evaluation.metrics import group_interval, wilson_interval
from hf_attn.tasks import build_task
from hf_attn.tasks.splits import HELD_OUT, TRAINING, VALIDATION
from hf_attn.utils.optional_packages import MissingPackageError
from tests.support.tables import write_grouped_table


@pytest.fixture
def task(tmp_path):
    path = tmp_path / "table.csv"
    signs = {"sour": "lemon", "sweet": "honey"}
    rows = [f"{sign} number {i},{label}" for label, sign in signs.items() for i in range(100)]
    path.write_text("\n".join(["text,label", *rows]))
    return build_task("csv", path=str(path))


def test_what_one_word_tells_is_learned_and_counted_on_the_held_out_texts(task):
    baseline = measure_baseline(task)
    assert baseline.score.examples == len(task.texts_of(HELD_OUT)) == len(task.held_out(1000))
    assert baseline.score.exact_match == 1
    assert baseline.score.interval == wilson_interval(baseline.score.examples, baseline.score.examples)
    assert baseline.strength in STRENGTHS
    assert baseline.features in FEATURES
    assert baseline.parameters > 0


def test_the_baseline_s_interval_is_over_the_groups_that_were_held_out(tmp_path):
    task = build_task("csv", path=str(write_grouped_table(tmp_path)))
    score = measure_baseline(task).score
    held_out = task.texts_of(HELD_OUT)
    assert score.examples == len(held_out) == 3 * len(score.tally)
    assert set(score.tally) == {row.group for row in held_out}
    assert score.over == f"{len(score.tally)} texts"
    assert score.interval == group_interval(score.tally) != wilson_interval(len(held_out), len(held_out))


def test_held_out_texts_are_read_only_once_all_is_chosen(task, monkeypatch):
    read, texts_of = [], type(task).texts_of
    monkeypatch.setattr(
        type(task), "texts_of", lambda task, split: [read.append(split), texts_of(task, split)][1]
    )
    measure_baseline(task)
    assert read.count(HELD_OUT) == 1
    assert read[-1] == HELD_OUT
    assert set(read[:-1]) == {TRAINING, VALIDATION}


def test_only_classes_have_a_baseline_and_only_with_scikit_learn(task, monkeypatch):
    assert measure_beside(build_task("copy")) is None
    assert measure_beside(task).score.exact_match == 1
    monkeypatch.setitem(sys.modules, "sklearn", None)  # as if it were not installed
    with pytest.raises(MissingPackageError, match="pip install"):
        measure_beside(task)


def test_training_texts_are_not_measured_on(task):
    with pytest.raises(ValueError, match="split='training' cannot be measured on"):
        measure_baseline(task, "training")
