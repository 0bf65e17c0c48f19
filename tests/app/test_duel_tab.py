"""The Duel tab: settings, turns, and what the board is told."""

import shutil
from types import SimpleNamespace

import pytest

from demos.core.limits import HOME, PUBLIC, limits_here
from demos.jobs.job import FAILED, FINISHED, RUNNING
from demos.jobs.training_job import TrainingJob
from demos.session.catalog import ModelCatalog
from demos.session.run_files import pack_run
from demos.session.session import Session
from demos.tabs.duel import tab as duel
from demos.tabs.duel.job import DuelJob
from hf_attn.checkpoints.save_load import load_checkpoint
from hf_attn.training.failures import Diverged
from tests.support.sessions import Event, follow_job, read_boards

TINY = {
    **{"task": "Copy", "size": 5, "models": ["none", "transformer"], "parameters": "50 k"},
    **{"budget": "steps", "steps": "6", "seconds": "1", "seed": "0"},
}


def begun(**values):
    """A session whose duel is to be followed, and the duel."""
    session = Session(ModelCatalog(), device="cpu")
    duel.press_start(session, {**TINY, **values})
    return session, session.state(DuelJob)


def follow(session):
    """Let the session's duel work; what the tab shows, in turn."""
    return follow_job(session, DuelJob, duel.show_duel)


@pytest.fixture(scope="module")
def ended():
    """A session whose duel has ended, the duel, and every message of it."""
    session, held = begun()
    yield session, held, read_boards(follow(session))
    session.close()


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("models", ["none"], "choose two to four"),
        ("models", ["none", "additive", "dot", "general", "concat"], "5 are chosen"),
        ("steps", "none", "whole number"),
    ],
)
def test_a_wrong_setting_is_one_sentence_under_its_field_and_starts_nothing(field, value, words):
    session = Session()
    shown = duel.press_start(session, TINY | {field: value})
    errors = {name: shown[f"{name}_error"] for name in duel.ERRORS}
    assert session.state(DuelJob).status is None
    assert not session.state(DuelJob).runs
    assert words in shown["note"]
    assert words in errors.pop(field)
    assert set(errors.values()) == {""}


def test_a_public_server_gives_a_duel_no_more_seconds_than_a_run(monkeypatch):
    timed = TINY | {"budget": "seconds", "seconds": "600"}
    assert duel.read_form(timed)[2].seconds == 600
    monkeypatch.setenv("SPACE_ID", "ada/attn")
    with pytest.raises(duel.FieldError, match=f"from 1 to {PUBLIC.run_seconds:.0f}, for example 20"):
        duel.read_form(timed)


def test_one_that_failed_counts_as_done_so_that_a_link_goes_as_far():
    failed = SimpleNamespace(status=FAILED, step=2, recipe=SimpleNamespace(steps=9))
    job = DuelJob(runs=[failed, SimpleNamespace(status=RUNNING, step=3)])
    assert job.progress == [9, 3]


def test_a_duel_has_the_time_of_a_run_for_each_that_learns():
    job = DuelJob(runs=[None, None, None])
    assert job.seconds_allowed == 3 * limits_here().run_seconds


# ---------------------------------------------------------------- a duel


def test_all_learn_side_by_side_and_end_with_curves_maps_and_accuracy_by_length(ended):
    _, held, boards = ended
    first, last = boards[0], boards[-1]
    assert [c["step"] for c in first["contestants"]] == [0, 0]
    assert (held.status, last["status"], last["done"], last["measured"]) == (FINISHED, "finished", 1.0, True)
    none, transformer = last["contestants"]
    for contestant in (none, transformer):
        assert [point["step"] for point in contestant["points"]] == list(range(7))
        held_out = contestant["held_out"]
        assert sum(part["examples"] for part in contestant["sizes"]) == held_out["examples"]
        assert held_out["interval"][0] <= held_out["share"] <= held_out["interval"][1]
        assert contestant["validation"] == contestant["points"][-1]["validation"]
        assert contestant["written"]["answer"] == last["answer"]
    assert none["map"] is None
    seen = transformer["map"]
    assert seen["source"] == len(seen["cols"]) == len(seen["truth"][0])
    assert len(seen["rows"]) == len(seen["truth"])
    assert abs(none["parameters"] / transformer["parameters"] - 1) < 0.1


def test_one_that_diverges_leaves_the_others_learning(monkeypatch):
    real = TrainingJob.advance

    def broken(run):
        if run.recipe.architecture == "none" and run.step == 2:
            raise Diverged("The loss is nan at step 3.")
        return real(run)

    monkeypatch.setattr(TrainingJob, "advance", broken)
    session, _ = begun()
    last = read_boards(follow(session))[-1]
    none, transformer = last["contestants"]
    assert (none["status"], none["message"], none["step"]) == (FAILED, "The loss is nan at step 3.", 2)
    assert (transformer["step"], transformer["status"]) == (6, FINISHED)
    assert last["status"] == FINISHED


def test_a_duel_that_begins_while_the_last_one_is_measured_gets_none_of_its_figures():
    session, held = begun(steps="2")
    moments, asked = follow(session), []
    while not (held.status == FINISHED and held.is_measured):
        next(moments)
    session.measure_beside = asked.append
    duel.press_start(session, TINY)
    list(moments)
    assert (held.number, held.status, held.baseline) == (2, RUNNING, None)
    assert asked == []


# ---------------------------------------------------------------- keeping one


def test_a_kept_contestant_is_a_run_of_this_visit_and_downloads_as_a_checkpoint(ended, tmp_path):
    session, held, _ = ended
    run = held.runs[1]
    catalog = session.catalog
    assert catalog.choices(session) == []
    (board,) = read_boards([duel.keep_run(session, Event(run.id))])
    assert [contestant["kept"] for contestant in board["contestants"]] == [False, True]
    assert [value for _, value in catalog.choices(session)] == [run.id]
    with catalog.open(session, run.id) as opened:
        assert opened.task == run.task
    shutil.unpack_archive(pack_run(session, Event(run.id))["zipped"], tmp_path)
    (folder,) = tmp_path.iterdir()
    loaded = load_checkpoint(folder)
    assert loaded.training["steps"] == 6
    assert loaded.training["results"]["exact_match"] == run.evaluation.overall.exact_match


def test_where_no_run_can_be_kept_any_more_the_visitor_is_told(ended):
    _, held, _ = ended
    full = Session(device="cpu")
    full.runs = {f"run-{place}": held.runs[0] for place in range(HOME.runs)}
    full.states[DuelJob] = held
    shown = duel.keep_run(full, Event(held.runs[0].id))
    assert "delete one in Train first" in shown["note"]
    assert len(full.runs) == HOME.runs


def test_nothing_can_be_kept_of_a_duel_that_is_under_way():
    session, held = begun()
    duel.keep_run(session, Event(held.runs[0].id))
    duel.keep_run(session, Event("duel-9-9"))
    assert session.runs == {}
