"""The model card: valid metadata, measured figures only, lines that work when they are pasted."""

import copy
import itertools
import re

import pytest
from huggingface_hub import ModelCard

from hf_attn.cards import build_card
from hf_attn.hub import load_checkpoint
from hf_attn.tasks import TASKS, build_task


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


def test_the_hub_s_parser_takes_the_metadata(card, training):
    data = ModelCard(card).data
    assert data.license == "apache-2.0"
    assert data.library_name == "transformers"
    assert {"hf_attn", "copy", "attn_seq2seq"} <= set(data.tags)
    exact = next(result for result in data.eval_results if result.metric_type == "exact_match")
    assert data.model_name == "attn-copy"
    assert exact.dataset_type == "hf_attn/copy"
    assert exact.metric_value == pytest.approx(training["results"]["exact_match"])


def test_every_section_is_there_and_none_is_left_to_be_filled_in(card):
    for title in (
        "Use",
        "A worked example",
        "Training data",
        "Training",
        "Results",
        "Known failures",
        "Limits and misuse",
        "Environmental cost",
        "Versions",
        "Licence and citation",
    ):
        assert section(card, title).strip(), title
    assert not re.search(r"More Information|TODO|\{\{|\{%|\bNone\b", card)


def test_tables_are_tables(card):
    lines = card.splitlines()
    for above, line in itertools.pairwise(lines):
        if line.startswith("|") and above.startswith("|"):
            assert line.replace("\\|", "").count("|") == above.replace("\\|", "").count("|")
        if above.startswith("|"):
            assert line.startswith("|") or not line, "a blank line ends a table"


def test_results_and_cost_are_those_of_training_json(card, training):
    results = training["results"]
    assert f"On {results['examples']} held-out examples" in card
    rows = [line for line in section(card, "Results").splitlines() if line.startswith("| length")]
    assert len(rows) == len(results["by_size"])
    assert f"{training['seconds']:.1f} s of training on cpu" in section(card, "Environmental cost")
    assert f"{training['parameters']:,} parameters" in card


def test_failures_that_were_found_are_shown(checkpoint, training):
    training["results"] |= {
        "exact_match": 0.998,
        "failures": [
            {"source": "1 2", "prediction": "1 3", "answer": "1 2"},
            {"source": "4", "prediction": "", "answer": "4"},
        ],
    }
    failures = section(build_card("x", checkpoint.task, training), "Known failures")
    assert "2 of 1000 examples were wrong" in failures
    assert "| 1 2 | 1 3 | 1 2 |" in failures
    assert "| 4 | (nothing) | 4 |" in failures


def test_no_failure_found_is_no_proof_that_there_is_none(checkpoint, training):
    training["results"] |= {"exact_match": 1.0, "interval": [0.9962, 1.0], "failures": []}
    failures = section(build_card("x", checkpoint.task, training), "Known failures")
    assert "No failure was found among 1000" in failures
    assert "above 99.62 %" in failures


def test_nearly_all_is_never_written_as_all(checkpoint, training):
    training["results"]["exact_match"] = 0.99999
    assert "| all | 1000 | 99.99 % |" in build_card("x", checkpoint.task, training)


def test_what_was_not_measured_is_not_claimed(checkpoint, training):
    for name in ("results", "seconds", "recipe", "curve"):
        training.pop(name)
    card = build_card("x", checkpoint.task, training)
    assert "Nothing was measured" in section(card, "Results")
    assert section(card, "Environmental cost").strip() == "Not measured."
    assert ModelCard(card).data.eval_results is None


def test_a_wrong_answer_to_the_worked_example_is_called_wrong(checkpoint, training):
    training["worked_example"] = {"source": "1 2", "prediction": "2 2", "correct": False}
    example = section(build_card("x", checkpoint.task, training), "A worked example")
    assert "writes `2 2`: wrong." in example


@pytest.mark.parametrize("name", [name for name in TASKS if name not in ("csv", "pairs")])  # those need data
def test_every_task_has_a_card(name, training):
    task = build_task(name)
    training["results"] = None
    card = build_card(f"attn-{name}", task, training)
    assert task.worked_example.source in section(card, "Use")
    assert ModelCard(card).data.model_name in (None, f"attn-{name}")


def test_the_snippet_works_when_pasted(tiny_checkpoint, card, monkeypatch, capsys):
    monkeypatch.chdir(tiny_checkpoint.parent)
    snippet = re.search(r"```python\n(.*?)```", section(card, "Use"), re.DOTALL).group(1)
    exec(compile(snippet, "card", "exec"), {})
    written = load_checkpoint(tiny_checkpoint).training["worked_example"]["prediction"]
    assert capsys.readouterr().out.strip() == written
