"""Every kind of task and model in the Train tab: the map it shows, what it predicts, a table of one's own."""

import base64
import copy
import shutil
from pathlib import Path

import pytest

from demos.core.fields import task_choices
from demos.jobs import training_job
from demos.jobs.training_job import TrainingJob
from demos.session.run_files import pack_run
from demos.session.session import Session
from demos.tabs.train import form
from demos.tabs.train import tab as train
from hf_attn.analysis.ablation import Trial, find_needed, measure_outcomes
from hf_attn.evaluation.metrics import evaluate, measure_quickly
from hf_attn.interpret.interventions import Intervention
from hf_attn.tasks.splits import VALIDATION
from tests.support.sessions import Event, board_of, changed, finished, follow
from tests.support.tables import write_table


def press_with(session, label, **values):
    """Press Train with a task's own settings and two steps; return the errors by field."""
    filled = form.choose_task(label) | form.show_columns(task_choices()[label][0], session.table)
    given = {field: update.get("value") for field, update in filled.items()}
    given |= {"task": label, "seed": "0", "steps": "2", "probe": "", **values}
    changes = train.press_train(session, given)
    return {name: said for name, said in changes.items() if name.endswith("_error")}


def upload(session, path, label):
    """Upload a file for a task; return the columns that are offered."""
    return train.take_upload(session, {"table": str(path), "task": label})


def test_a_table_is_copied_into_the_visit_learned_from_and_gone_with_it(tmp_path):
    session = Session(device="cpu")
    columns = upload(session, write_table(tmp_path), "Your own classes")
    assert [column["value"] for column in columns.values()] == ["text", "label"]
    assert Path(session.folder) in session.table.path.parents
    assert session.table.guess_columns(("text", "label")) == ["text", "label"]
    press_with(session, "Your own classes")
    boards = [board for board in map(board_of, follow(session)) if board]
    assert boards[-1]["meta"]["map"] == "Self-attention"
    said = boards[-1]["frames"][-1]["predictions"][0]
    assert (said["label"] in ("like", "dislike"), said["answer"] in ("like", "dislike")) == (True, True)
    shutil.unpack_archive(pack_run(session, Event("run-1"))["zipped"], tmp_path / "zip")
    told = (tmp_path / "zip" / "attn-csv-1" / "training.json").read_text()
    assert '"path": "films.csv"' in told  # and not where it lay on the server
    kept = session.table.path
    session.close()
    assert not kept.exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PK\x03\x04 nothing", "films.csv is a ZIP archive"),
        (b"\n\n", "films.csv is empty"),
        (b"text,label\ngood,like\n", "films.csv has 1 different texts"),
        (b"text,label\n" + b"good,like\nbad\n" * 40, "films.csv, line 3 has 1 cells"),
        (
            b"only\n" + b"good\n" * 40,
            "films.csv has one column only; write a table with columns such as text",
        ),
    ],
)
def test_a_wrong_table_is_one_sentence_under_its_field_and_starts_nothing(content, words, tmp_path):
    session = Session(device="cpu")
    (tmp_path / "films.csv").write_bytes(content)
    upload(session, tmp_path / "films.csv", "Your own classes")
    errors = press_with(session, "Your own classes")
    assert words in errors.pop("table_error")
    assert set(errors.values()) == {""}
    assert session.runs == {}
    assert str(tmp_path) not in str(errors)
    session.close()


def test_without_a_table_the_page_asks_for_one_and_marks_nothing_until_train_is_pressed():
    form_values = changed(task="Your own pairs", num_hidden_layers=1)
    lines = train.describe(Session(), form_values)
    assert "Choose a table first" in lines.pop("note")
    assert lines.pop("board") is None, "what stood there is of another task"
    assert set(lines.values()) == {""}
    assert "Choose a table first" in press_with(Session(), "Your own pairs")["table_error"]


@pytest.mark.parametrize(
    ("model", "title", "heads"),
    [("dot", "Alignment", 1), ("decoder", "Decoder self-attention", 2), ("none", None, 0)],
)
def test_every_model_shows_the_map_in_which_its_answer_reads_or_says_that_it_has_none(model, title, heads):
    session, outputs = finished(model=model, num_hidden_layers=1, hidden_size=32, steps="2")
    last = [board for board in map(board_of, outputs) if board][-1]
    meta, frame = last["meta"], last["frames"][-1]
    assert (meta.get("map"), meta["heads"]) == (title, heads)
    assert ("maps" in frame) == bool(heads)
    if heads:
        assert len(meta["truth"]) == len(meta["rows"])
        assert {len(row) for row in meta["truth"]} == {len(meta["cols"])}
        shared_rows = len(meta["rows"]) * len(meta["cols"]) * heads
        assert len(base64.b64decode(frame["maps"][-1])) == 2 * shared_rows
    if model == "decoder":
        assert meta["allowed"][0] == [
            place < len(meta["cols"]) - len(meta["rows"]) + 1 for place in range(len(meta["cols"]))
        ]
    session.close()


def test_a_language_model_shows_what_it_writes_and_how_well_it_guesses(tmp_path):
    (tmp_path / "mine.txt").write_text("\n\n".join(f"the cat {i} sat on the mat" for i in range(60)))
    session = Session(device="cpu")
    upload(session, tmp_path / "mine.txt", "Running text")
    press_with(session, "Running text", hidden_size=32, num_hidden_layers=1, size=64)
    boards = [board for board in map(board_of, follow(session)) if board]
    rows = boards[-1]["frames"][-1]["predictions"]
    assert [row["source"] for row in rows][:2] == ["greedy", "nucleus 0.9, seed 0"]
    assert all(isinstance(row["text"], str) for row in rows)
    assert "next tokens are guessed, perplexity" in train.status_message(session.run)
    model, task = session.run.model, session.run.task
    guessed = measure_quickly(model, task, task.held_out(50))
    assert guessed == pytest.approx(evaluate(model, task, n=50).overall.exact_match)
    assert 0 < guessed < 1
    session.close()


# ---------------------------------------------------------------- which head a run needs


@pytest.fixture(scope="module")
def copier():
    """A run of copying that has learned, and a head that it needs."""
    filled = {name: update.get("value") for name, update in form.choose_task("Copy").items()}
    made = form.read_form({**filled, "task": "Copy", "seed": "0", "probe": ""})
    job = TrainingJob("run-1", "one", *made, "cpu")
    list(job.follow())
    return job


def test_what_is_needed_is_not_said_of_a_run_that_goes_on_meanwhile(copier, monkeypatch):
    job = copy.copy(copier)
    found, job.needed = job.needed, None

    def find_then_learn(*_):
        job.step += 1
        yield None
        yield found

    monkeypatch.setattr(training_job, "find_needed", find_then_learn)
    job.find_needed()
    assert job.needed is None


def test_the_costliest_head_is_chosen_on_validation_and_a_layer_where_no_head_is_needed(copier):
    job = copier
    *_, found = find_needed(job.model, job.task, "cross", examples=100)
    drops = {outcome.trial: outcome.drop for outcome in found.heads}
    assert max(drops, key=drops.__getitem__) == found.without.trial
    _, *validated = measure_outcomes(job.model, job.task, list(drops), 100, split=VALIDATION)
    assert [outcome.drop for outcome in validated] == list(drops.values())
    *_, layer = find_needed(job.model, job.task, "cross", examples=100, least=1.1)
    assert layer.without.trial == Trial((Intervention("remove", "cross", 0),))
    *_, unasked = find_needed(job.model, job.task, "cross", examples=100, most_heads=1)
    assert (unasked.heads, unasked.without.trial) == ((), layer.without.trial)
