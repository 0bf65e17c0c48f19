"""Links to what was trained: films, dropout, and what tabs learn on their own boards, to the same place."""

import copy
import dataclasses
import json

import pytest
import torch

gr = pytest.importorskip("gradio")

from demos.core import limits  # noqa: E402
from demos.jobs import job as driving  # noqa: E402
from demos.jobs.loop import uses_global_rng  # noqa: E402
from demos.links import codec as links  # noqa: E402
from demos.session.session import Session  # noqa: E402
from demos.tabs.duel import job as duels  # noqa: E402
from demos.tabs.duel import tab as duel  # noqa: E402
from demos.tabs.language import word_order, word_vectors  # noqa: E402
from demos.tabs.positions import length_test  # noqa: E402
from demos.tabs.positions import tab as positions  # noqa: E402
from demos.tabs.train import form, replay  # noqa: E402
from tests.support.linked_page import DUEL, trained_by  # noqa: E402
from tests.support.sessions import begun, changed  # noqa: E402


def test_a_links_film_has_the_senders_frames_though_they_were_taken_by_the_clock(linked):
    sender, friend = begun(), Session(device="cpu")
    sender.run.film = frozenset({0, 2, 5})
    trained_by(sender)
    boards = {replay.BOARD: {"step": 2, "layer": None, "head": 1, "film": [0, 2, 5]}}
    state, _ = linked.describe("train", sender, boards)
    text = links.write_link(state)
    linked.open(text, friend)
    trained_by(friend)
    maps = [[frame["maps"] for _, frame in one.run.frames] for one in (sender, friend)]
    assert replay.steps_of(friend.run) == {0, 2, 5}
    assert maps[0] == maps[1]
    again, _ = linked.open(text, friend)
    assert linked.opening.page.order not in again, "the run is there with its film"
    state["boards"][replay.BOARD]["film"] = [0, 3]
    again, _ = linked.open(links.write_link(state), friend)
    assert linked.opening.page.order in again, "the film of the run that is there lacks a frame"
    for session in (sender, friend):
        session.close()


def with_three_runs():
    """Return a visit with three runs of other seeds; the first is shown, the others are laid over it."""
    session = begun()
    trained_by(session)
    for seed in ("1", "2"):
        session.add(*form.read_form(*changed(seed=seed)))
        trained_by(session)
    session.rename("run-3", "third <b>")
    session.show("run-1")
    return session


def test_runs_laid_over_the_shown_one_travel_with_it_by_their_names_and_films(linked):
    sender, friend = with_three_runs(), Session(device="cpu")
    boards = {replay.TABLE: {"laid": ["run-3", "run-2", "run-99"], "open": [0]}}
    state, said = linked.describe("train", sender, boards)
    assert "the settings of copy 1, third <b> and copy 2:" in said
    text = links.write_link(state)
    updates, told = linked.open(text, friend)
    for place in ("first", "second", "third"):
        assert f"Of the sender's 3 models, the {place} is trained here again" in told["opened"]["said"]
        trained_by(friend)
        updates, told = linked.go_on(updates, friend)
    assert updates[linked.opening.pending] is None
    assert [(run.name, run.seed) for run in friend.runs.values()] == [
        ("third <b>", 2),
        ("copy 2", 1),
        ("copy 1", 0),
    ]
    assert friend.shown == "run-3"
    assert told["opened"]["boards"][replay.TABLE] == {"laid": ["run-1", "run-2"], "open": [0]}
    for name, again in (("run-3", "run-1"), ("run-2", "run-2"), ("run-1", "run-3")):
        one, other = sender.runs[name], friend.runs[again]
        assert all(torch.equal(w, other.model.state_dict()[n]) for n, w in one.model.state_dict().items())
        if name != "run-1":  # whose film is that of the sender's board
            assert replay.steps_of(one) == replay.steps_of(other)
    friend.show("run-2")
    updates, told = linked.open(text, friend)
    assert linked.opening.page.order not in updates, "all of them are there"
    assert friend.shown == "run-3", "the link's run is on the board"
    assert told["opened"]["boards"][replay.TABLE]["laid"] == ["run-1", "run-2"]
    for session in (sender, friend):
        session.close()


def test_two_runs_alike_are_two_where_the_link_is_opened(linked):
    sender, friend = begun(), Session(device="cpu")
    trained_by(sender)
    sender.add_again(sender.run)
    trained_by(sender)
    boards = {replay.TABLE: {"laid": ["run-1"]}}
    state, _ = linked.describe("train", sender, boards)
    updates, _ = linked.open(links.write_link(state), friend)
    trained_by(friend)
    updates, _ = linked.go_on(updates, friend)
    trained_by(friend)
    linked.go_on(updates, friend)
    assert [run.seed for run in friend.runs.values()] == [0, 0]
    for session in (sender, friend):
        session.close()


def test_a_links_run_with_an_example_of_ones_own_is_not_that_without_it():
    sender, friend = begun(), Session(device="cpu")
    trained_by(sender)
    plain = replay.check_run(replay.describe_run(sender.run))
    replay.add_linked_run(friend, plain)
    trained_by(friend)
    own = dataclasses.replace(plain, fields=plain.fields | {"probe": "3 1 2"})
    assert replay.find_equal_run(friend, plain) is friend.run
    assert replay.find_equal_run(friend, own) is None
    for session in (sender, friend):
        session.close()


@pytest.mark.long
def test_a_full_visit_keeps_the_runs_that_a_link_needs_and_says_which_made_room(linked, monkeypatch):
    monkeypatch.setattr(limits, "_launched", [dataclasses.replace(limits.HOME, runs=3)])
    sender, friend = with_three_runs(), Session(device="cpu")
    boards = {replay.TABLE: {"laid": ["run-2", "run-3"]}}
    state, _ = linked.describe("train", sender, boards)
    for run in state["beside"]:
        del run["film"]
    for seed in ("1", "7", "8"):  # the first of the link's, and two others
        friend.add(*form.read_form(*changed(seed=seed)))
        trained_by(friend)
    updates, told = linked.open(links.write_link(state), friend)
    assert "copy 2 was deleted to make room" in told["opened"]["said"]
    trained_by(friend)
    updates, told = linked.go_on(updates, friend)
    assert "copy 3 was deleted to make room" in told["opened"]["said"]
    trained_by(friend)
    _, told = linked.go_on(updates, friend)
    assert [run.seed for run in friend.runs.values()] == [1, 2, 0]
    assert len(told["opened"]["boards"][replay.TABLE]["laid"]) == 2
    for session in (sender, friend):
        session.close()


def test_of_a_laid_run_that_was_deleted_while_the_link_was_trained_it_is_said_that_it_lacks(linked):
    sender, friend = with_three_runs(), Session(device="cpu")
    boards = {replay.TABLE: {"laid": ["run-2", "run-3"]}}
    state, _ = linked.describe("train", sender, boards)
    updates, _ = linked.open(links.write_link(state), friend)
    trained_by(friend)
    friend.forget("run-1")
    for _ in range(3):
        updates, told = linked.go_on(updates, friend)
        if updates.get(linked.opening.pending):
            trained_by(friend)
    assert "One run of the sender's was not trained" in told["opened"]["said"]
    for session in (sender, friend):
        session.close()


@pytest.mark.parametrize("beside", [[1], [{}], [{"form": {}, "steps": 1}], "more"])
def test_runs_that_a_link_does_not_describe_are_refused_in_words(linked, beside):
    sender = begun()
    trained_by(sender)
    state, _ = linked.describe("train", sender, {})
    state["beside"] = [replay.describe_run(sender.run)] * 4 if beside == "more" else beside
    friend = Session(device="cpu")
    updates, told = linked.open(links.write_link(state), friend)
    assert "This link does not say" in told["refused"]
    assert linked.opening.page.order not in updates
    assert not friend.runs
    sender.close()


def test_what_a_run_draws_for_dropout_does_not_hang_on_who_else_draws():
    session = begun()
    task, recipe = session.run.task, session.run.recipe
    recipe = dataclasses.replace(recipe, model={**recipe.model, "dropout": 0.3})
    assert uses_global_rng(recipe)
    assert not uses_global_rng(session.run.recipe)
    alone, _ = session.add(task, recipe, 1)
    for _ in driving.drive(alone):
        pass
    beside, other = session.add(task, recipe, 1)[0], session.add(task, recipe, 2)[0]
    for one in (beside, other):
        one.begin()
    while other.advance() and beside.advance():
        torch.rand(1)
    for name, weight in alone.model.state_dict().items():
        assert torch.equal(beside.model.state_dict()[name], weight), name
    session.close()


def learn_duel(session, held):
    return duel.follow(session, held)


def learn_growth(session, held):
    return positions.follow(session, held)


def learn_order(_, held):
    return word_order.learn(held)


def learn_vectors(_, held):
    return word_vectors.train_again(held)


def begin_duel(session, held, **other):
    duel.press_start(session, held, 0, *{**DUEL, **other}.values())


def begin_growth(session, held):
    positions.press_start(session, held, 0, "Copy", ["sinusoidal", "none"], "3")


def begin_vectors(_, held):
    held.asked = ("countries", "CBOW", "", "oslo", *word_vectors.ASKED["countries"][1:])


BEGUN = {
    "duel": (duels.DuelJob, begin_duel, learn_duel, duel.press_stop),
    "growth": (
        length_test.LengthTestJob,
        begin_growth,
        learn_growth,
        lambda _, held: positions.press_stop(held),
    ),
    "order": (word_order.WordOrderJob, lambda *_: None, learn_order, lambda _, held: word_order.stop(held)),
    "vectors": (
        word_vectors.WordVectorsJob,
        begin_vectors,
        learn_vectors,
        lambda _, held: word_vectors.stop(held),
    ),
}
TIMED = ("seconds", "spent", "done", "duel", "run", "python")


def timeless(value):
    """Return a board's value without what hangs on the clock."""
    if isinstance(value, dict):
        return {name: timeless(part) for name, part in value.items() if name not in TIMED}
    return [timeless(part) for part in value] if isinstance(value, list) else value


def last_board(outputs):
    """Return the last value that a board was sent; it is the first of the outputs."""
    return timeless(json.loads([one[0] for one in outputs if isinstance(one[0], str)][-1]))


@pytest.mark.parametrize(("name", "messages"), [("duel", 9), ("growth", 4), ("order", 4), ("vectors", 4)])
def test_what_was_learned_and_stopped_is_learned_again_from_a_link_to_the_same_place(
    linked, name, messages, monkeypatch
):
    for module in (duels, length_test, word_order, word_vectors):
        monkeypatch.setattr(module, "MESSAGE_SECONDS", 0.0)
    make, begin, learn, stop = BEGUN[name]
    sender, friend = Session(device="cpu"), Session(device="cpu")
    held, theirs = make(), make()
    begin(sender, held)
    seen = []
    for outputs in learn(sender, held):
        seen.append(outputs)
        if len(seen) == messages:
            stop(sender, held)
    assert held.status == "stopped"
    tab = linked.jobs[name].tab
    learned = links.describe_jobs(linked.opening.page.linked_jobs, tab, states_of(linked, tab, name, held))
    state, said = linked.describe(tab, sender, {}, learned)
    assert "opening it trains that again" in said
    updates, told = linked.open(links.write_link(state), friend, **{name: theirs})
    assert "is trained here again" in told["opened"]["said"]
    assert any(part in updates for part in linked.jobs[name].outputs)
    assert last_board(learn(friend, theirs)) == last_board(seen)
    assert (theirs.status, theirs.taken) == (held.status, held.taken)
    for session in (sender, friend):
        session.close()


def states_of(linked, tab, name, held):
    """Return what learns in a tab, by its component: nothing has begun beside the one that is given."""
    here = [one for one in linked.opening.page.linked_jobs if one.tab == tab]
    return {one.state: held if one.name == name else copy.deepcopy(one.state.value) for one in here}


def link_of(tab, name, form, taken):
    return links.write_link({"tab": tab, "learned": {name: {"form": form, "taken": taken}}})


@pytest.mark.parametrize("taken", [[], [1, 2], [-1], ["1"], [True], {}])
def test_a_link_that_says_wrongly_how_far_something_came_is_refused_in_a_sentence(linked, taken):
    form = {name: part.value for name, part in linked.jobs["vectors"].fields.items()}
    _, told = linked.open(link_of("language", "vectors", form, taken))
    assert told["refused"] == links.BROKEN


def test_a_link_that_lies_deep_in_itself_is_refused_in_a_sentence(linked):
    deep = []
    for _ in range(600):
        deep = [deep]
    _, told = linked.open(links.write_link({"tab": "duel", "boards": {"duel-board": deep}}))
    assert told["refused"] == links.BROKEN


def test_a_duel_of_a_link_ends_with_its_budget_though_the_link_says_more(linked):
    friend, theirs = Session(device="cpu"), duels.DuelJob()
    form = {name: part.value for name, part in linked.jobs["duel"].fields.items()} | DUEL
    linked.open(link_of("duel", "duel", form, [10**6, 10**6]), friend, duel=theirs)
    for _ in duel.follow(friend, theirs):
        pass
    assert [run.step for run in theirs.runs] == [6, 6]
    assert theirs.status == "finished"
    friend.close()


def test_a_duel_over_seconds_takes_the_senders_steps_and_not_its_seconds(linked, monkeypatch):
    monkeypatch.setattr(duels, "MESSAGE_SECONDS", 0.0)
    sender, friend = Session(device="cpu"), Session(device="cpu")
    held, theirs = duels.DuelJob(), duels.DuelJob()
    begin_duel(sender, held, budget="seconds", seconds="60")
    seen = []
    for outputs in duel.follow(sender, held):
        seen.append(outputs)
        if len(seen) == 9:
            held.stop.set()
    learned = links.describe_jobs(linked.opening.page.linked_jobs, "duel", {linked.jobs["duel"].state: held})
    linked.open(links.write_link({"tab": "duel", "learned": learned}), friend, duel=theirs)
    again = last_board(duel.follow(friend, theirs))
    assert again["status"] == "finished", "of a link's steps none is left"
    status = {"status": "stopped"}
    assert [one | status for one in again["contestants"]] == last_board(seen)["contestants"]
