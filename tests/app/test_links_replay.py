"""Links to what was trained: runs, dropout, and what tabs learn on their own boards, to the same place."""

import dataclasses
import json

import pytest
import torch

from demos.core import limits
from demos.jobs.loop import uses_global_rng
from demos.links import codec as links
from demos.tabs.duel import job as duels
from demos.tabs.duel import tab as duel
from demos.tabs.language import word_order, word_vectors
from demos.tabs.positions import length_test
from demos.tabs.positions import tab as positions
from demos.tabs.train import form, replay
from tests.support.linked_page import DUEL, trained_by
from tests.support.sessions import begun, changed

TABLE = "runs"


@pytest.fixture(scope="module")
def three():
    """A visitor with three runs of other seeds; the first is shown, the others are laid over it."""
    session = begun()
    trained_by(session)
    for seed in ("1", "2"):
        session.add(*form.read_form(changed(seed=seed)))
        trained_by(session)
    session.rename("run-3", "third <b>")
    session.show("run-1")
    yield session
    session.close()


def linked_form(linked, name):
    return {field: part.value for field, part in linked.jobs[name].fields.items()} | DUEL


def closing(*sessions):
    for session in sessions:
        session.close()


def test_runs_laid_over_the_shown_one_travel_with_it_by_their_names_and_films(linked, three):
    friend = linked.session()
    boards = {TABLE: {"laid": ["run-3", "run-2", "run-99"], "open": [0]}}
    state, said = linked.describe("train", three, boards)
    assert "the settings of third <b>, copy 2 and copy 1:" in said
    text = links.write_link(state)
    linked.read(text, friend)
    told = [linked.told(updates) for updates in linked.links.open(friend) if linked.links.board in updates]
    for place, one in zip(("first", "second", "third"), told, strict=False):
        assert f"Of the sender's 3 models, the {place} is trained here again" in one["opened"]["said"]
    runs = [(run.name, run.seed) for run in friend.runs.values()]
    assert runs == [("third <b>", 2), ("copy 2", 1), ("copy 1", 0)]
    assert friend.shown == "run-3"
    laid = {"laid": ["run-1", "run-2", "run-99"], "open": [0]}
    assert told[-1]["opened"]["boards"][TABLE] == laid
    for name, again in (("run-3", "run-1"), ("run-2", "run-2"), ("run-1", "run-3")):
        one, other = three.runs[name], friend.runs[again]
        assert all(torch.equal(w, other.model.state_dict()[n]) for n, w in one.model.state_dict().items())
        films = [[(frame["step"], frame["maps"]) for _, frame in run.film] for run in (one, other)]
        assert films[0] == films[1]
    friend.show("run-2")
    _, told = linked.open(text, friend)
    assert len(friend.runs) == 3, "all of them are there"
    assert friend.shown == "run-3", "the link's run is on the board"
    assert told["opened"]["boards"][TABLE]["laid"][:2] == ["run-1", "run-2"]
    friend.close()


@pytest.mark.parametrize(("seconds", "asks"), [(19.0, None), (21.0, "takes about 1:03 to train")])
def test_what_all_jobs_of_a_link_take_together_decides_whether_it_asks(
    linked, three, seconds, asks, monkeypatch
):
    friend = linked.session()
    for run in three.runs.values():
        monkeypatch.setattr(run, "worked_seconds", seconds)
    state, _ = linked.describe("train", three, {TABLE: {"laid": ["run-2", "run-3"]}})
    _, told = linked.read(links.write_link(state), friend)
    assert ("asks" in told) == (asks is not None)
    assert asks is None or asks in told["asks"]
    friend.close()


def test_a_links_runs_come_before_what_its_tab_learned_of_them(linked):
    run = {"job": "train", "form": replay.form_of(begun().run), "progress": [6]}
    grown = {"job": "duel", "form": linked_form(linked, "duel"), "progress": [6, 6]}
    specs = links.check_jobs(linked.jobs.values(), {"tab": "duel", "jobs": [grown, run]})
    assert [spec.kind.name for spec in specs] == ["train", "duel"]


def test_a_links_run_that_is_stopped_before_its_first_step_was_not_trained(linked):
    sender, friend = begun(), linked.session()
    trained_by(sender)
    state, _ = linked.state_of("explore", sender, checkpoint="run-1", text="1 2")
    linked.read(links.write_link(state), friend)
    for updates in linked.links.open(friend):
        friend.run.wants_stop = True
        if linked.links.board in updates:
            told = linked.told(updates)
    assert friend.run.step == 0
    assert "could not be trained here" in told["refused"]
    closing(sender, friend)


def test_a_full_session_keeps_the_runs_that_a_link_needs_and_says_which_made_room(linked, three, monkeypatch):
    monkeypatch.setattr(limits, "_launched", [dataclasses.replace(limits.HOME, runs=3)])
    friend = linked.session()
    state, _ = linked.describe("train", three, {TABLE: {"laid": ["run-2", "run-3"]}})
    for seed in ("1", "7", "8"):  # the first of the link's, and two others
        friend.add(*form.read_form(changed(seed=seed)))
        trained_by(friend)
    linked.read(links.write_link(state), friend)
    told = [linked.told(updates) for updates in linked.links.open(friend) if linked.links.board in updates]
    assert "copy 2 was deleted to make room" in told[0]["opened"]["said"]
    assert "copy 3 was deleted to make room" in told[1]["opened"]["said"]
    assert [run.seed for run in friend.runs.values()] == [1, 2, 0]
    assert len(told[-1]["opened"]["boards"][TABLE]["laid"]) == 2
    friend.close()


def test_of_a_laid_run_that_was_deleted_while_the_link_was_trained_it_is_said_that_it_lacks(linked, three):
    friend = linked.session()
    state, _ = linked.describe("train", three, {TABLE: {"laid": ["run-2", "run-3"]}})
    linked.read(links.write_link(state), friend)
    for updates in linked.links.open(friend):
        if len(friend.runs) == 2:
            friend.forget("run-1")
        if linked.links.board in updates:
            told = linked.told(updates)
    assert "One run of the sender's was not trained" in told["opened"]["said"]
    assert told["opened"]["boards"][TABLE]["laid"] == ["run-2"]
    friend.close()


def test_what_a_run_draws_for_dropout_does_not_hang_on_who_else_draws():
    session = begun()
    task, recipe = session.run.task, session.run.recipe
    recipe = dataclasses.replace(recipe, model={**recipe.model, "dropout": 0.3})
    assert uses_global_rng(recipe)
    assert not uses_global_rng(session.run.recipe)
    alone = session.add(task, recipe, 1)
    for _ in alone.follow():
        pass
    beside, other = session.add(task, recipe, 1), session.add(task, recipe, 2)
    for one in (beside, other):
        one.begin()
    for _ in range(recipe.steps):
        other.advance()
        torch.rand(1)
        beside.advance()
    for name, weight in alone.model.state_dict().items():
        assert torch.equal(beside.model.state_dict()[name], weight), name
    session.close()


TABS_OF = {"duel": "duel", "growth": "positions", "order": "language", "vectors": "language"}


def begin_duel(session, **other):
    duel.press_start(session, {**DUEL, **other})


def begin_growth(session):
    positions.press_start(session, {"task": "Copy", "types": ["sinusoidal", "none"], "run_seed": "3"})


def begin_vectors(session):
    words = ("oslo", *word_vectors.ASKED["countries"][1:])
    word_vectors.press_train(
        session, dict(zip(word_vectors.KEPT, ("countries", "CBOW", "", *words), strict=True))
    )


BEGUN = {
    "duel": (duels.DuelJob, begin_duel),
    "growth": (length_test.LengthTestJob, begin_growth),
    "order": (word_order.WordOrderJob, word_order.press_learn),
    "vectors": (word_vectors.WordVectorsJob, begin_vectors),
}
TIMED = ("seconds", "spent", "done", "duel", "run", "python")


def timeless(value):
    """Return a board's value without what hangs on the clock."""
    if isinstance(value, dict):
        return {name: timeless(part) for name, part in value.items() if name not in TIMED}
    return [timeless(part) for part in value] if isinstance(value, list) else value


def board_in(linked, name, session):
    """Return what a job's board shows, without what hangs on the clock; it is the first of its outputs."""
    kind = linked.jobs[name]
    return timeless(json.loads(kind.show(session)[next(iter(kind.shows))]))


def stopped_after(linked, name, messages, monkeypatch, **settings):
    """Return a session whose job was stopped after so many messages."""
    make, begin = BEGUN[name]
    monkeypatch.setattr(make, "message_seconds", 0.0)
    session = linked.session()
    begin(session, **settings)
    job = session.state(make)
    for number, _ in enumerate(job.follow(), 1):
        if number == messages:
            job.stop()
    assert job.status == "stopped"
    return session, job


@pytest.mark.parametrize(("name", "messages"), [("duel", 11), ("growth", 5), ("order", 5), ("vectors", 5)])
def test_what_was_learned_and_stopped_is_learned_again_from_a_link_to_the_same_place(
    linked, name, messages, monkeypatch
):
    sender, job = stopped_after(linked, name, messages, monkeypatch)
    friend = linked.session()
    state, said = linked.describe(TABS_OF[name], sender, {})
    assert "opening it trains that again" in said
    _, told = linked.open(links.write_link(state), friend)
    assert "is trained here again" in told["opened"]["said"]
    assert board_in(linked, name, friend) == board_in(linked, name, sender)
    theirs = friend.state(type(job))
    assert (theirs.status, theirs.progress) == (job.status, job.progress)
    closing(sender, friend)


def link_of(tab, name, form, progress):
    return links.write_link({"tab": tab, "jobs": [{"job": name, "form": form, "progress": progress}]})


@pytest.mark.parametrize("progress", [[], [1] * 9, [-1], ["1"], [True], {}])
def test_a_link_that_says_wrongly_how_far_something_came_is_refused_in_a_sentence(linked, progress):
    values = {name: part.value for name, part in linked.jobs["vectors"].fields.items()}
    _, told = linked.open(link_of("language", "vectors", values, progress))
    assert told["refused"] == links.BROKEN


def test_a_link_that_lies_deep_in_itself_is_refused_in_a_sentence(linked):
    deep = []
    for _ in range(600):
        deep = [deep]
    _, told = linked.open(links.write_link({"tab": "duel", "boards": {"duel-board": deep}}))
    assert told["refused"] == links.BROKEN


def test_a_duel_of_a_link_ends_with_its_budget_though_the_link_says_more(linked):
    friend = linked.session()
    linked.open(link_of("duel", "duel", linked_form(linked, "duel"), [2000, 2000]), friend)
    theirs = friend.state(duels.DuelJob)
    assert [run.step for run in theirs.runs] == [6, 6]
    assert theirs.status == "finished"
    friend.close()


def test_a_duel_over_seconds_takes_the_senders_steps_and_not_its_seconds(linked, monkeypatch):
    sender, _ = stopped_after(linked, "duel", 11, monkeypatch, budget="seconds", seconds="60")
    friend = linked.session()
    linked.open(links.write_link(linked.describe("duel", sender, {})[0]), friend)
    assert board_in(linked, "duel", friend) == board_in(linked, "duel", sender)
    closing(sender, friend)
