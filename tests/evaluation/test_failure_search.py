"""Failures are looked for where they hide, and what is found is so; cards are measured anew from that."""

import hashlib
import json
import shutil

import pytest
import torch

from hf_attn.architectures.registry import build_model
from hf_attn.checkpoints.remeasure import remeasure
from hf_attn.checkpoints.save_load import load_checkpoint, save_checkpoint
from hf_attn.evaluation import failure_search, metrics
from hf_attn.evaluation.failure_search import look_for_failures, make_hard_inputs
from hf_attn.tasks import build_task
from tests.support.commands import in_process
from tests.support.tables import write_grouped_table

TASKS = [
    build_task("copy"),
    build_task("copy", max_length=2, num_symbols=2),
    build_task("reverse", min_length=7, max_length=7),
    build_task("sort"),
    build_task("sort", length=1, smallest=0, largest=1),
    build_task("addition"),
    build_task("addition", digits=1),
    build_task("addition", digits=5, max_addend=49999),
    build_task("parser"),
    build_task("parser", depth=3),
    build_task("dates"),
]


@pytest.fixture(scope="module")
def checkpoint(tiny_checkpoint):
    return load_checkpoint(tiny_checkpoint)


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_hard_inputs_are_different_ones_that_the_task_reads_with_right_answers(task):
    made = make_hard_inputs(task)
    assert made
    for name, pairs in made.items():
        assert len({source for source, _ in pairs}) == len(pairs) <= 400, name
        for source, answer in pairs[:20]:
            assert len(task.encode(source)) <= task.max_source_tokens
            assert task.verify(source, answer, answer).correct, (name, source, answer)


@pytest.fixture(scope="module")
def search(checkpoint):
    return look_for_failures(checkpoint.model, checkpoint.task, n=200)


def test_what_a_search_calls_wrong_is_wrong_and_all_are_counted(checkpoint, search):
    assert sum(score.examples for score in search.by_size.values()) == search.held_out.score.examples
    for name, tried in {"held-out": search.held_out, **search.patterns}.items():
        n = tried.score.examples
        assert n - len(tried.failures) == round(tried.score.exact_match * n), name
        for source, written, answer in tried.failures[:10]:
            assert answer == checkpoint.task.answer(source)
            assert not checkpoint.task.verify(source, written).correct or written == answer, name


@torch.no_grad()
def test_a_weakness_that_was_put_in_is_found(checkpoint, search):
    model, task = load_checkpoint(checkpoint.path).model, checkpoint.task
    seven = task.vocabulary["7"]
    model.lm_head.weight[seven] = model.lm_head.weight[task.vocabulary["8"]]  # it writes 8 for 7, or either
    pattern = "one symbol again and again"
    after = look_for_failures(model, task, n=200).patterns[pattern]
    new = {source for source, *_ in after.failures} - {
        source for source, *_ in search.patterns[pattern].failures
    }
    assert new
    assert all(set(source.split()) <= {"7", "8"} for source in new)


def test_answers_that_do_not_end_are_failures(monkeypatch):
    def write_zeros_in_front(model, task, batch):  # "012" without </s>, which is read as 12
        zeros = torch.full_like(batch.labels[:, :1], task.vocabulary["0"])
        return torch.cat((zeros, batch.labels[:, :-1]), dim=1)

    task = build_task("addition", digits=1)
    for module in (metrics, failure_search):
        monkeypatch.setattr(module, "predict", write_zeros_in_front)
    search = look_for_failures(build_model(task, task.recipe), task, n=5)
    assert {tried.score.exact_match for tried in (search.held_out, *search.patterns.values())} == {0}


def test_a_pattern_s_interval_is_over_the_groups_that_were_held_out(tmp_path, monkeypatch):
    def write_the_first_class(model, task, batch):
        return torch.zeros(len(batch), 1, dtype=torch.long)

    task = build_task("csv", path=str(write_grouped_table(tmp_path)))
    for module in (metrics, failure_search):
        monkeypatch.setattr(module, "predict", write_the_first_class)
    search = look_for_failures(build_model(task, task.recipe), task)
    rows = task.texts_of("held-out")
    assert search.held_out.score.over == f"{len({row.group for row in rows})} texts"
    for name, right in zip(task.classes, (3, 0), strict=True):
        groups = {row.group for row in rows if row.target == name}
        score = search.patterns[f"class {name} (held-out)"].score
        assert score.tally == dict.fromkeys(groups, (right, 3))
        assert score.over == f"{len(groups)} texts"


def test_text_has_no_failures_to_look_for(checkpoint):
    with pytest.raises(ValueError, match="many ways of going on are right"):
        look_for_failures(checkpoint.model, build_task("text"))


@pytest.fixture
def few(monkeypatch):
    """Of each kind of hard inputs a card needs no hundreds."""
    monkeypatch.setattr("hf_attn.evaluation.failure_search.MADE", 30)


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_cards_are_measured_anew_and_a_second_time_nothing_changes(tiny_checkpoint, tmp_path, capsys, few):
    folder = shutil.copytree(tiny_checkpoint, tmp_path / "all" / "attn-copy")
    training = json.loads((folder / "training.json").read_text())
    right = training["results"]["exact_match"]
    training["results"]["exact_match"] = 0.123  # somebody wrote in it
    (folder / "training.json").write_text(json.dumps(training))
    before = digests(folder)

    code, output, _ = in_process(capsys, "cards", tmp_path / "all", "--examples", 200, "--json")
    assert code == 0
    row = json.loads(output)
    assert row["changed"]
    assert row["results"]["exact_match"] == right
    measured = json.loads((folder / "training.json").read_text())
    assert measured["results"]["exact_match"] == right
    assert measured["seconds"] == training["seconds"], "of training"
    after = digests(folder)
    assert {name for name in after if after[name] != before.get(name)} == {"README.md", "training.json"}
    page = (tmp_path / "all" / "README.md").read_text()
    assert "[`attn-copy`](attn-copy)" in page

    _, output, _ = in_process(capsys, "cards", tmp_path / "all", "--examples", 200, "--json")
    assert not json.loads(output)["changed"]
    assert digests(folder) == after
    assert (tmp_path / "all" / "README.md").read_text() == page


def test_a_map_that_is_missing_is_drawn_and_one_that_is_none_of_the_model_s_goes_which_is_a_change(
    tiny_checkpoint, tmp_path, monkeypatch, few
):
    folder = shutil.copytree(tiny_checkpoint, tmp_path / "attn-copy")
    (folder / "map.png").unlink()
    remeasure(folder, 50)
    assert (folder / "map.png").read_bytes() == (tiny_checkpoint / "map.png").read_bytes()
    monkeypatch.setattr("hf_attn.checkpoints.remeasure.find_worked_map", lambda model, task: None)
    remeasure(folder, 50)
    (folder / "map.png").write_bytes(b"of another model")
    assert remeasure(folder, 50)[1]
    assert not (folder / "map.png").exists()
    assert not remeasure(folder, 50)[1]


def test_a_record_that_says_little_has_a_line_none_is_told_and_so_is_a_folder_without_checkpoints(
    checkpoint, tmp_path, capsys, few
):
    code, _, errors = in_process(capsys, "cards", tmp_path)
    assert (code, "is no checkpoint, and there is none in it" in errors) == (2, True)
    save_checkpoint(tmp_path / "all" / "bare", checkpoint.model, checkpoint.task, {})
    code, _, errors = in_process(capsys, "cards", tmp_path / "all", "--examples", 50)
    assert code == 0, errors
    (line,) = [row for row in (tmp_path / "all" / "README.md").read_text().splitlines() if "`bare`" in row]
    assert line.endswith("| – |")
    (tmp_path / "all" / "bare" / "training.json").unlink()
    code, _, errors = in_process(capsys, "cards", tmp_path / "all" / "bare")
    assert code == 1
    assert "does not say what it learned; it has no training.json" in errors
