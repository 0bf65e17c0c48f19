"""The model card: valid metadata, measured figures only, lines that work when they are pasted."""

import copy
import re

import pytest
import torch
from huggingface_hub import ModelCard

from hf_attn.checkpoints.model_card import build_card
from hf_attn.checkpoints.save_load import load_checkpoint, save_checkpoint
from hf_attn.checkpoints.training_record import describe_results
from hf_attn.evaluation.metrics import Evaluation, score_answers, wilson_interval
from hf_attn.interpret.attention_maps import attention_maps, weight_on_alignment
from hf_attn.tasks import TASKS, build_task
from hf_attn.viz import example_map
from hf_attn.viz.example_map import find_worked_map
from tests.support.matrix import rows
from tests.support.recurrent_models import build_recurrent


@pytest.fixture(scope="module")
def checkpoint(tiny_checkpoint):
    return load_checkpoint(tiny_checkpoint)


@pytest.fixture
def training(checkpoint):
    return copy.deepcopy(checkpoint.training)


@pytest.fixture
def card(tiny_checkpoint):
    return (tiny_checkpoint / "README.md").read_text()


def section(card, title):
    return re.search(rf"^#+ {title}\n(.*?)(?=^#|\Z)", card, re.MULTILINE | re.DOTALL).group(1)


def test_every_section_is_there_with_what_was_measured_and_metadata_that_the_hub_s_parser_takes(
    card, training
):
    sections = "Use|A worked example|Training data|Training|Results|Known failures|Limits and misuse"
    for title in f"{sections}|Environmental cost|Versions|Licence and citation".split("|"):
        assert section(card, title).strip(), title
    assert not re.search(r"More Information|TODO|\{\{|\{%|\bNone\b", card)
    results, data = training["results"], ModelCard(card).data
    assert f"On {results['examples']:,} held-out examples" in card
    lengths = [line for line in section(card, "Results").splitlines() if line.startswith("| length")]
    assert len(lengths) == len(results["by_size"])
    assert f"{training['seconds']:.1f} s of training on cpu" in section(card, "Environmental cost")
    assert f"{training['parameters']:,} parameters" in card
    assert (data.license, data.library_name, data.model_name) == ("apache-2.0", "transformers", "attn-copy")
    assert {"hf_attn", "copy", "attn_seq2seq"} <= set(data.tags)
    exact = next(result for result in data.eval_results if result.metric_type == "exact_match")
    assert exact.dataset_type == "hf_attn/copy"
    assert exact.metric_value == pytest.approx(results["exact_match"])


def test_failures_are_shown_none_is_no_proof_and_what_is_wrong_is_called_so(checkpoint, training, card):
    assert "`hf-attn cards attn-copy` does" in section(card, "Known failures")
    found = [
        {"source": "1 2", "prediction": "1 3", "answer": "1 2"},
        {"source": "4", "prediction": "", "answer": "4"},
    ]
    training["results"] |= {"exact_match": 0.998, "failures": found}
    training["worked_example"] = {"source": "1 2", "prediction": "2 2", "correct": False}
    training["measured_with"] = {**training["versions"], "torch": "3.0"}
    card = build_card("x", checkpoint.task, training)
    failures, versions = section(card, "Known failures"), section(card, "Versions")
    assert "2 of 1,000 examples were wrong" in failures
    assert "| 1 2 | 1 3 | 1 2 |" in failures
    assert "| 4 | (nothing) | 4 |" in failures
    assert "writes `2 2`: wrong." in section(card, "A worked example")
    assert f"Trained with python {training['versions']['python']}" in versions
    assert re.search(r"measured with.*torch 3\.0", versions, re.DOTALL)
    training["results"] |= {"exact_match": 0.99999, "interval": [0.9962, 1.0], "failures": []}
    card = build_card("x", checkpoint.task, training)
    assert "| all | 1,000 | 99.99 % |" in card, "nearly all is never written as all"
    training["results"]["exact_match"] = 1.0
    failures = section(build_card("x", checkpoint.task, training), "Known failures")
    assert "No failure was found among 1,000" in failures
    assert "above 99.62 %" in failures


def score(right, n):
    interval = wilson_interval(right, n)
    return {"examples": n, "exact_match": right / n, "interval": [interval.low, interval.high]}


SEARCH = {
    "held_out": score(4990, 5000),
    "made": 700,
    "by_size": {"1": score(5, 5), "2": score(2990, 3000), "3": score(1995, 1995)},
    "patterns": {
        "counting up": {**score(300, 300), "failures": []},
        "one symbol again and again": {
            **score(100, 400),
            "failures": [{"source": "1 1", "prediction": "1", "answer": "1 1"}],
        },
    },
    "failures": [{"source": "1 2", "prediction": "2 2", "answer": "1 2"}],
}


def test_a_search_names_the_worst_size_and_the_worst_pattern_with_n_and_interval(checkpoint, training):
    card = build_card("x", checkpoint.task, {**training, "search": SEARCH})
    failures = section(card, "Known failures")
    assert "on 5,000 held-out inputs" in failures
    assert "on 700 inputs made to be hard" in failures
    assert "Worst size: length 2, 99.67 % right of 3,000 (95 % interval 99.39 % to 99.82 %)." in failures
    worst = "one symbol again and again, 25 % right of 400 (95 % interval 21.01 % to 29.47 %)."
    assert f"Worst pattern: {worst}" in failures
    assert "| one symbol again and again | 400 | 25 % | 21.01 % – 29.47 % | 1 1 | 1 |" in failures
    assert "| counting up | 300 | 100 % | 98.74 % – 100 % | – | – |" in failures
    assert "| 1 2 | 2 2 | 1 2 |" in failures
    first = card.partition("## Use")[0]
    assert "worst on “one symbol again and again”: 25 %" in first
    assert "It gets 99.80 % of 5,000 held-out examples right" in first, "the largest measurement leads"
    exact = next(one for one in ModelCard(card).data.eval_results if one.metric_type == "exact_match")
    assert (exact.metric_value, exact.metric_args["examples"]) == (0.998, 5000)


def test_the_head_of_the_map_is_the_best_on_validation_and_its_untrained_twin_scores_as_before(checkpoint):
    task, model = checkpoint.task, checkpoint.model
    shown = find_worked_map(model, task)
    batch, scores = task.validation(50), []
    for row in range(len(batch)):
        maps = attention_maps(model, batch, row=row)
        source, target = task.read_source(maps.source_ids), task.decode(maps.answer_ids)
        scores.append(weight_on_alignment(maps.cross, task.alignment(source, target)))
    mean = torch.stack(scores).mean(0)
    assert mean[shown.layer, shown.head] == mean.max()
    assert shown.untrained < shown.weight


def test_without_an_alignment_a_head_is_as_sharp_as_its_rows_are_on_the_mean():
    weights = torch.tensor([[[[0.9, 0.1], [0.5, 0.5]], [[0.8, 0.2], [0.2, 0.8]]]])
    assert example_map.score_heads(weights, None).tolist() == [pytest.approx([0.7, 0.8])]


@pytest.mark.parametrize("best", [(0, 1), (1, 0)])
def test_what_is_shown_does_not_choose_the_head_that_shows_it(checkpoint, monkeypatch, best):
    scores = torch.zeros(2, 2)
    scores[best] = 1
    monkeypatch.setattr(example_map, "_score_validation", lambda *_: iter([scores, scores]))
    shown = find_worked_map(checkpoint.model, checkpoint.task)
    assert ((shown.layer, shown.head), shown.chosen_on) == (best, 2)


def test_a_record_and_its_card_say_what_an_interval_was_taken_over(checkpoint, training):
    grouped = score_answers([True, True, False, True], ["os", "os", "re", "re"], "modules")
    overall, single = grouped, score_answers([True, False], ["os", "re"], "modules")
    results = describe_results(checkpoint.task, Evaluation(overall, {1: single, 2: grouped}, ()), None)
    assert results["interval_over"] == results["by_size"]["2"]["interval_over"] == "2 modules"
    assert "interval_over" not in results["by_size"]["1"]
    search = {**SEARCH, "held_out": {**SEARCH["held_out"], "interval_over": "89 modules"}}
    card = build_card("x", checkpoint.task, {**training, "results": results, "search": search})
    assert "Examples were held out in groups (2 modules)" in section(card, "Results")
    assert "Intervals are Wilson's" not in card
    assert "(95 % interval 99.63 % to 99.89 % over 89 modules)" in card.partition("## Use")[0]
    failures = section(card, "Known failures")
    assert "Held-out inputs: 99.80 % right of 5,000 (95 % interval 99.63 % to 99.89 % over 89 mod" in failures
    assert "Worst size: length 2, 99.67 % right of 3,000 (95 % interval 99.39 % to 99.82 %)." in failures
    exact = next(one for one in ModelCard(card).data.eval_results if one.metric_type == "exact_match")
    assert exact.metric_args["over"] == "89 modules"


def test_without_groups_a_card_says_that_intervals_are_wilson_s(checkpoint, card, training):
    overall = score_answers([True, False])
    assert "interval_over" not in describe_results(checkpoint.task, Evaluation(overall, {}, ()), None)
    assert "Intervals are Wilson's, 95 %." in section(card, "Results")
    assert "in groups" not in card
    assert " over " not in card.partition("## Use")[0]
    exact = next(one for one in ModelCard(card).data.eval_results if one.metric_type == "exact_match")
    assert set(exact.metric_args) == {"examples", "confidence", "low", "high"}


def test_a_model_that_forms_no_weights_has_no_map(checkpoint, training, tmp_path):
    model = build_recurrent(score_function="none", vocab_size=checkpoint.model.config.vocab_size)
    save_checkpoint(tmp_path / "lstm", model, checkpoint.task, {})
    assert not (tmp_path / "lstm" / "map.png").exists()
    assert "map.png" not in (tmp_path / "lstm" / "README.md").read_text()


def test_what_was_not_measured_is_not_claimed(checkpoint, training):
    for name in ("results", "seconds", "recipe", "curve"):
        training.pop(name)
    card = build_card("x", checkpoint.task, training)
    assert "Nothing was measured" in section(card, "Results")
    assert section(card, "Environmental cost").strip() == "Not measured."
    assert ModelCard(card).data.eval_results is None


@pytest.mark.parametrize(
    "name", rows(sorted(TASKS.keys() - {"csv", "pairs"}), ["copy", "sentences"])
)  # those need data
def test_every_task_has_a_card(name, training):
    task = build_task(name)
    training["results"] = None
    card = build_card(f"attn-{name}", task, training)
    assert task.worked_example.source in section(card, "Use")
    assert ModelCard(card).data.model_name in (None, f"attn-{name}")
