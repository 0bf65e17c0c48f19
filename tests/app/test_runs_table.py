"""Runs after they were trained: begun again, renamed, compared, scrubbed, and there when a page is back."""

import json
import time

import numpy as np
import pytest

from demos.jobs.job import STOPPED
from demos.session import reload
from demos.session.reload import LeftPage, SessionStore, go_on
from demos.session.run_files import file_name, pack_run
from demos.session.session import LONGEST_NAME, Session
from demos.tabs.train import form
from demos.tabs.train import tab as train
from demos.tabs.train.messages import row_of
from demos.tabs.train.tab import compare_runs, rename_run
from hf_attn.interpret.attention_maps import attention_maps
from tests.support.sessions import Event, begun, board_of, changed, finished, follow


class Named(Event):
    """What a new name sends."""

    def __init__(self, run, name):
        super().__init__(run)
        self.name = name


class Chosen:
    """What the runs laid over the curves send."""

    def __init__(self, *runs, sent_at=0.0):
        self.runs, self.sent_at = list(runs), sent_at


@pytest.fixture(scope="module")
def twice():
    """A visit whose run was trained, then once more from the same start, then from another seed."""
    session, _ = finished(steps="4")
    for other_seed in (False, True):
        train.press_again(session, other_seed=other_seed)
        list(follow(session))
    return session


# ---------------------------------------------------------------- again


def test_again_begins_from_the_same_bytes_and_reports_the_same(twice):
    first, again, other = twice.runs.values()
    assert again.points[1][1]["loss"] == first.points[1][1]["loss"] != other.points[1][1]["loss"]
    assert again.frames[0][1]["maps"] == first.frames[0][1]["maps"] != other.frames[0][1]["maps"]
    theirs = first.model.state_dict()
    same = {name: weight.numpy().tobytes() for name, weight in again.model.state_dict().items()}
    assert same == {name: weight.numpy().tobytes() for name, weight in theirs.items()}


def test_nothing_begins_again_while_a_run_is_under_way():
    session = begun()
    assert train.press_again(session) == {}
    assert train.press_again(Session()) == {}
    assert len(session.runs) == 1


# ---------------------------------------------------------------- names


def test_a_new_name_stays_with_the_run_and_its_file():
    session, _ = finished(steps="1")
    table = json.loads(rename_run(session, Named("run-1", "  <b>first</b>\u202f \n try 🙂 "))["runs"])
    assert table["runs"][0]["name"] == session.run.name == "<b>first</b> try 🙂"
    assert "refused" not in table
    assert pack_run(session, Event("run-1"))["zipped"].endswith("attn-b-first-b-try.zip")
    session.close()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "1 to 40 characters"),
        (" \t\u0000\n", "1 to 40 characters"),
        ("x" * (LONGEST_NAME + 1), "has 41 characters; 40 at most"),
        ("copy 2", "Another run is called copy 2"),
    ],
)
def test_a_name_that_will_not_do_is_refused_in_words_and_the_old_one_stays(name, why):
    session = begun()
    session.add(*form.read_form(changed()))
    table = json.loads(rename_run(session, Named("run-1", name))["runs"])
    assert why in table["refused"]["why"]
    assert (table["refused"]["run"], session.runs["run-1"].name) == ("run-1", "copy 1")


def test_any_name_makes_a_plain_file_name():
    names = ["../../etc/passwd", "地図 🙂", "a/b\\c:d", "...", "copy 1"]
    assert [file_name(name) for name in names] == ["etc-passwd", "run", "a-b-c-d", "run", "copy-1"]


# ---------------------------------------------------------------- compared


def test_two_runs_differ_in_the_settings_that_were_changed_and_in_nothing_else(twice):
    first, again, other = (dict(row_of(run)["settings"]) for run in twice.runs.values())
    assert first == again
    assert {name for name in first if first[name] != other[name]} == {"Seed"}
    assert first["Learning rate"] == "0.005"
    results = dict(row_of(twice.run)["results"])
    held_out = f"{100 * twice.run.evaluation.overall.exact_match:.1f}"
    assert results["Held-out"].startswith(held_out)
    assert results["Validation"] == f"{100 * twice.run.validation:.1f}\u202f%"
    assert results["Loss"] == f"{twice.run.points[-1][1]['loss']:.4f}"


def test_a_compared_run_is_sent_whole_with_the_maps_of_every_layer_and_head(twice):
    value = json.loads(compare_runs(twice, Chosen("run-1", "gone", sent_at=2.0))["compared"])
    assert compare_runs(twice, Chosen(sent_at=1.0)) == {}, "sent before"
    (told,) = value["runs"]
    assert value["python"].count("build_model(") == 2, "the shown run and the one laid over it"
    run = twice.runs["run-1"]
    maps = attention_maps(run.model, run.probe.batch).cross
    sent = np.stack([np.frombuffer(decoded(layer), "<u2") for layer in told["frames"][-1]["maps"]]) / 65535
    assert told["meta"]["layers"] == [1, 2]
    assert np.abs(sent.reshape(maps.shape) - maps.numpy()).max() < 1e-5
    assert [told["frames"][0]["step"], told["frames"][-1]["step"]] == [0, 4]


def decoded(packed):
    import base64

    return base64.b64decode(packed)


# ---------------------------------------------------------------- the example that is watched


def test_an_example_of_ones_own_is_watched_with_its_known_answer():
    session = Session(device="cpu")
    train.press_train(session, changed(probe=" 3 1 4 ", steps="2"))
    board = [board for board in map(board_of, follow(session)) if board][-1]
    assert board["meta"]["rows"] == board["meta"]["cols"] == ["3", "1", "4", "end"]
    assert board["meta"]["truth"] == np.eye(4, dtype=int).tolist()
    assert (board["meta"]["probe"], board["meta"]["own_probe"]) == ("3 1 4", True)
    train.press_again(session)
    assert session.run.own_probe.source == "3 1 4"


# ---------------------------------------------------------------- loaded again


def test_a_page_that_is_loaded_again_has_its_runs_and_no_other_page_has():
    waiting = SessionStore()
    session, _ = finished(steps="1")
    key, is_back = waiting.arrive(session, "")
    session.close()
    assert (list(session.runs), is_back) == (["run-1"], False)
    back, stranger = Session(), Session()
    new, is_back = waiting.arrive(back, key)
    assert (new != key, is_back) == (True, True)
    waiting.hear(new)
    assert not waiting.arrive(stranger, key)[1]
    assert list(back.runs) == ["run-1"]
    assert session.runs == stranger.runs == {}
    assert back.run.status == "finished"


def test_a_page_that_is_loaded_again_before_it_heard_of_its_key_has_its_runs():
    waiting = SessionStore()
    session, _ = finished(steps="1")
    key, _ = waiting.arrive(session, "")
    for _ in range(3):  # each time with the one key that it knows
        again = Session()
        newest, is_back = waiting.arrive(again, key)
        assert is_back
        assert list(again.runs) == ["run-1"]
    waiting.hear(newest)
    assert not waiting.arrive(Session(), key)[1]
    assert list(again.runs) == ["run-1"]
    again.close()
    waiting.give_up(newest)
    assert waiting.unheard == {}


@pytest.mark.parametrize("left", ["", "nobody", "[]", "null", "3", '{"tab": "train"}'])
def test_what_a_browser_kept_may_be_anything(left):
    assert LeftPage.read(left).key == ""


def test_a_visit_that_nobody_comes_back_to_gives_everything_up():
    waiting = SessionStore()
    session, _ = finished(steps="1")
    (key, _), path = waiting.arrive(session, ""), session.new_folder("x")
    session.close()
    waiting.give_up(key)
    assert session.runs == {}
    assert not path.parent.exists()
    late = Session()
    waiting.arrive(late, key)
    assert late.runs == {}


def test_who_left_is_given_up_in_time_and_earlier_where_too_many_wait(monkeypatch):
    monkeypatch.setattr(reload, "MOST_LEFT", 2)
    monkeypatch.setattr(reload, "LOOK_SECONDS", 0.01)
    waiting, sessions = SessionStore(seconds=0.3), [begun() for _ in range(3)]
    keys = [waiting.arrive(session, "")[0] for session in sessions]
    for session in sessions:
        session.close()
    assert [bool(session.runs) for session in sessions] == [False, True, True]
    assert waiting.arrive(Session(), keys[2])[1]
    while waiting.is_watched:
        time.sleep(0.01)
    assert sessions[1].runs == {}
    assert len(waiting.sessions) == 1  # of the page that came back


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_run_under_way_goes_on_in_the_page_that_comes_back_as_it_was(is_paused):
    waiting, session = SessionStore(), begun(steps="40")
    key, _ = waiting.arrive(session, "")
    steps = follow(session)
    next(steps)
    session.run.wants_pause = is_paused
    session.close()
    steps.close()
    back = Session()
    waiting.arrive(back, key)
    assert back.run.status == STOPPED
    (run,) = go_on(back)
    assert (run.wants_pause, back.interrupted) == (is_paused, [])
    run.wants_pause = False
    list(follow(back))
    assert back.run.step == 40
    assert list(go_on(back)) == []  # once is enough
