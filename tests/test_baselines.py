"""The baseline learns from the same texts, is measured on the same split, and chooses on validation."""

import pytest

from hf_attn.baselines import FEATURES, STRENGTHS, measure_baseline
from hf_attn.evaluation import wilson_interval
from hf_attn.tasks import build_task
from hf_attn.tasks.base import HELD_OUT


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


def test_it_counts_characters_where_they_tell_more_than_words(tmp_path):
    path = tmp_path / "table.csv"
    endings = {"masculine": "osto", "feminine": "ista"}
    rows = [f"w{i}x{i * 7}{ending},{label}" for label, ending in endings.items() for i in range(100)]
    path.write_text("\n".join(["text,label", *rows]))
    baseline = measure_baseline(build_task("csv", path=str(path)))
    assert baseline.features == "characters"
    assert baseline.score.exact_match == 1


def test_a_baseline_of_pure_chance_is_near_chance(tmp_path):
    path = tmp_path / "table.csv"
    rows = [f"text{i},{'ab'[(i * i // 7) % 2]}" for i in range(400)]
    path.write_text("\n".join(["text,label", *rows]))
    score = measure_baseline(build_task("csv", path=str(path))).score
    assert 0.2 < score.exact_match < 0.8


def test_training_texts_are_not_measured_on(task):
    with pytest.raises(ValueError, match="split='training' cannot be measured on"):
        measure_baseline(task, "training")
