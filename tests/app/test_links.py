"""Links: every tab's state goes through an address and comes back, and whatever else it says is refused."""

import base64
import json
import os
import zlib

import gradio as gr
import pytest
import torch
from gradio import components
from hypothesis import given, settings
from hypothesis import strategies as st

from demos.links import codec as links
from demos.links import open_link
from demos.session.page import JobSpec
from demos.session.session import Session
from demos.tabs.train import form, replay
from tests.support.linked_page import DUEL, NAMES, trained_by, value_in
from tests.support.sessions import begun, changed
from tests.support.tables import write_table

NO_WAYS = {"task": "Copy", "types": [], "run_seed": "0"}


def test_a_slider_takes_what_lies_from_one_end_to_the_other():
    slider = gr.Slider(2, 8)
    assert [links.can_hold(slider, value) for value in (1, 2, 8, 9)] == [False, True, True, False]


def test_a_choice_is_taken_in_its_own_type_alone():
    radio = gr.Radio([1, 2])
    taken = [links.can_hold(radio, value) for value in (1, 3, True, 1.0, "1")]
    assert taken == [True, False, False, False, False]


def test_nesting_is_counted_through_objects_and_lists():
    rows, lists = {}, []
    for _ in range(links.DEEPEST):
        rows, lists = {"row": rows}, [lists]
    assert [links.is_deep(state) for state in ({}, {"fields": {}}, rows, {"boards": lists})] == [
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_tab_opens_again_with_what_its_fields_held(linked, name):
    values = linked.values_of(name)
    state, _ = linked.state_of(name)
    text = links.write_link(state)
    assert links.read_link(text) == state
    updates, told = linked.open(text)
    assert told["opened"]["tab"] == name
    assert told["opened"]["boards"] == state["boards"]
    assert {field: value_in(updates[part]) for field, part in linked.fields[name].items()} == values
    assert updates[linked.links.page.tabs].selected == name


def drawn(linked, component):
    """Draw what a field can hold."""
    choices = [choice for _, choice in getattr(component, "choices", None) or []]
    if isinstance(component, components.Checkbox):
        return st.booleans()
    if isinstance(component, components.Slider):
        return st.floats(component.minimum, component.maximum)
    if isinstance(component, components.Textbox):
        return st.text(max_size=80)
    if links.takes_many(component):
        return st.lists(st.sampled_from(choices), max_size=4)
    return st.sampled_from(choices or [path.name for _, path in linked.catalog.folders])


@settings(max_examples=25)
@given(st.data())
def test_any_choice_in_any_tab_survives_the_address(linked, data):
    name = data.draw(st.sampled_from(NAMES))
    values = {field: data.draw(drawn(linked, part)) for field, part in linked.fields[name].items()}
    number = st.none() | st.integers(0, 40)
    boards = data.draw(st.dictionaries(st.text(max_size=9), st.dictionaries(st.text(max_size=5), number)))
    state = {"tab": name, "fields": values, "boards": boards, "locked": data.draw(st.booleans())}
    read = links.read_link(links.write_link(state))
    assert read == state
    assert links.check_state(linked.links.page.linked_fields, read) == linked.kept[name]


WRONG = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
WRONG |= st.text(max_size=12) | st.lists(st.integers(-2, 60) | st.text(max_size=3), max_size=3)
WRONG |= st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)


@settings(max_examples=60)
@given(st.data())
def test_a_link_that_somebody_has_changed_is_opened_or_refused_in_words(linked, data):
    name = data.draw(st.sampled_from(NAMES))
    state, _ = linked.state_of(name)
    field = data.draw(st.sampled_from(sorted(state["fields"])))
    state["fields"][field] = data.draw(WRONG | drawn(linked, linked.fields[name][field]))
    _, told = linked.open(links.write_link(state))
    assert told.get("opened") or (told["refused"].endswith((".", "is.")) and told["turn"] == 0)


def packed(**state):
    return links.write_link(state)


def job(name="duel", form=DUEL, progress=(1,), **more):
    return [{"job": name, "form": form, "progress": list(progress), **more}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", links.BROKEN),
        ("1.", links.BROKEN),
        ("1.%%%%", links.BROKEN),
        (packed(tab="try")[:-6], links.BROKEN),
        ("7.eJyrVkrLz1eyUkpKLFKqBQAcJQRb", "of version 7, and this app reads"),
        ("1." + "A" * links.LONGEST, "characters; up to 6"),
        (packed(tab="weather"), "'weather', which does not exist: choose attention, train"),
        (packed(), "None, which does not exist"),
        (packed(tab="try", secrets=1), "'secrets', which this app does not know"),
        (packed(tab="try", fields=[1]), links.BROKEN),
        (packed(tab="try", boards={"try-board": 3}), links.BROKEN),
        (packed(tab="try", fields={"colour": "red"}), "'colour', which Try does not have"),
        (
            packed(tab="try", fields={"strategy": "guess"}),
            'to "guess", but that field takes one of Greedy decoding, Beam search',
        ),
        (packed(tab="try", fields={"temperature": 99}), "to 99, but that field takes a number from 0"),
        (packed(tab="try", fields={"checkpoint": "job:0", "text": "1"}), "does not say how it was trained"),
        (packed(tab="explore", fields={"checkpoint": "/etc/passwd", "text": "1"}), "cannot be opened"),
        (packed(tab="attention", fields={"weights": "attn-copy", "head": 9, "text": "1 2"}), "shows head 10"),
        (packed(tab="duel", fields={"size": 21}), "21 is not a size of Reversal"),
        (packed(tab="train", fields={"model": "mamba"}), "'mamba' is not one of"),
        (packed(tab="train", jobs=job("train", {"task": "Copy"}, [3])), "how the sender's run is trained"),
        (packed(tab="duel", jobs=[1]), "does not say how what it shows is trained"),
        (packed(tab="duel", jobs=[{"job": []}]), "does not say how what it shows is trained"),
        (packed(tab="duel", jobs=job(seconds=1e308)), links.BROKEN),
        (packed(tab="duel", jobs=job(seconds=10**400)), links.BROKEN),
        (packed(tab="duel", jobs=job(seconds=-1)), links.BROKEN),
        (packed(tab="duel", jobs=job(progress=[10**400])), links.BROKEN),
        (packed(tab="duel", jobs=job("growth", {})), "does not say how what it shows is trained"),
        (packed(tab="duel", jobs=job(form=[1])), "does not say how what it shows is trained"),
        (packed(tab="duel", jobs=job(form={})), "does not say how Duel learns 'duel'"),
        (packed(tab="duel", jobs=job(progress=["a"])), links.BROKEN),
        (
            packed(tab="duel", jobs=job(name="duel", progress=[1], form=DUEL, **{"name ": 3}) * 5),
            "has 5 jobs",
        ),
        (packed(tab="duel", jobs=job(form={**DUEL, "seed": 3})), "to 3, but that"),
    ],
)
def test_an_address_that_cannot_be_read_is_refused_in_words(linked, text, said):
    updates, told = linked.open(text)
    assert said in told["refused"]
    assert list(updates) == [linked.links.board], "everything else is as it always is"


@pytest.mark.parametrize(
    ("tab", "jobs", "said"),
    [
        ("duel", job(), "how far 1 models of 2 came"),
        ("positions", job("growth", NO_WAYS), "one to four position encodings"),
    ],
)
def test_a_job_that_cannot_start_is_refused_in_words(linked, tab, jobs, said):
    _, told = linked.open(packed(tab=tab, jobs=jobs))
    assert said in told["refused"]


def test_what_unpacks_to_more_than_a_page_holds_is_refused():
    with pytest.raises(ValueError, match=r"characters; up to .* work everywhere\. Shorten the text"):
        links.write_link({"tab": "language", "fields": {"counted": os.urandom(9000).hex()}})
    bomb = links.write_link({"tab": "language", "fields": {"counted": "a" * (links.LONGEST_STATE + 10)}})
    with pytest.raises(ValueError, match=links.BROKEN):
        links.read_link(bomb)


def test_a_page_without_a_link_opens_as_it_always_does(linked):
    session = linked.session()
    assert linked.links.read(session, gr.Request(query_params={})) == {}
    assert list(linked.links.open(session)) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_teachers_link_disables_every_field_of_its_tab(linked, name):
    state, _ = linked.state_of(name)
    updates, told = linked.open(links.write_link({**state, "locked": True, "hidden": True}))
    parts = [part for one in linked.kept[name] for part in (*one.fields.values(), *one.buttons)]
    assert {updates[part]["interactive"] for part in parts} == {False}
    assert told["opened"]["locked"] == [part.elem_id for part in parts if part.elem_id]
    assert told["opened"]["hidden"]
    assert "set by the link" in told["opened"]["said"]


@pytest.mark.parametrize(("steps", "other"), [(6, {}), (3, {"seed": "5", "model": "dot", "hidden_size": 32})])
def test_a_run_in_a_link_is_trained_again_to_the_very_same_weights(linked, steps, other):
    sender = begun(**other)
    run = sender.run
    run.wants_pause, run.wanted_steps = True, steps
    for _ in run.follow():
        run.wants_stop = run.wants_pause and not run.wanted_steps
    assert run.step == steps
    state, said = linked.state_of("explore", sender, checkpoint=run.id, text="1 2")
    assert state["fields"]["checkpoint"] == "job:0"
    assert f"trains {steps} steps again" in said
    friend, text = linked.session(), links.write_link(state)
    first, _ = linked.read(text, friend)
    assert first[linked.links.page.tabs].selected == "train"
    shown = [linked.told(updates) for updates in linked.links.open(friend) if linked.links.board in updates]
    assert f"copy, {steps}\u202fsteps" in shown[0]["opened"]["said"]
    assert shown[-1]["opened"]["tab"] == "explore"
    assert friend.run.step == steps
    weights = friend.run.model.state_dict()
    for name, weight in run.model.state_dict().items():
        assert torch.equal(weights[name], weight), name
    film = [[frame["step"] for _, frame in one.film] for one in (run, friend.run)]
    assert film[0] == film[1]
    then, _ = linked.open(text, friend)
    assert value_in(then[linked.fields["explore"]["checkpoint"]]) == friend.run.id
    assert len(friend.runs) == 1, "the run is there: it is not trained a second time"
    for session in (sender, friend):
        session.close()


def test_a_links_run_that_is_stopped_early_is_shown_as_far_as_it_got(linked):
    sender, friend = begun(), linked.session()
    trained_by(sender)
    state, _ = linked.state_of("explore", sender, checkpoint="run-1", text="1 2")
    linked.read(links.write_link(state), friend)
    friend.pace = 4.0  # a message after each step
    for updates in linked.links.open(friend):
        friend.run.wants_stop = friend.run.step == 2
        if linked.links.board in updates:
            told = linked.told(updates)
    assert (
        told["opened"]["said"]
        == f"copy 1 stopped at step {friend.run.step}; the sender's run had 6\u202fsteps."
    )
    for session in (sender, friend):
        session.close()


def test_a_link_that_trains_for_long_asks_first(linked):
    sender, friend = begun(), linked.session()
    trained_by(sender)
    sender.run.worked_seconds = 125.0
    state, _ = linked.state_of("explore", sender, checkpoint="run-1", text="1 2")
    text = links.write_link(state)
    updates, told = linked.read(text, friend)
    assert "takes about 2:05 to train" in told["asks"]
    assert told["accepts"] == "Train it here"
    assert list(linked.links.open(friend)) == []
    assert (list(updates), friend.runs) == ([linked.links.board], {}), "nothing begins unasked"
    settings = linked.links.open_settings(friend)
    assert settings[linked.links.page.tabs].selected == "train"
    assert value_in(settings[linked.fields["train"]["steps"]]) == "6"
    assert linked.links.accept_link(friend) == {}, "it was answered"
    linked.read(text, friend)
    linked.links.accept_link(friend)
    assert list(linked.links.open(friend))
    assert friend.run.step == 6
    for session in (sender, friend):
        session.close()


@pytest.mark.parametrize("tab", ["explore", "try"])
def test_a_link_to_a_model_elsewhere_asks_before_it_is_fetched(linked, connections, tab):
    friend, text = linked.session(), packed(tab=tab, fields={"checkpoint": "somebody/model", "text": "1 2"})
    updates, told = linked.read(text, friend)
    assert told["asks"].startswith("This link opens the model 'somebody/model', which nobody opened")
    assert told["accepts"] == "Fetch it"
    assert list(updates) == [linked.links.board]
    refused = linked.links.open_settings(friend)
    assert linked.told(refused)["opened"]["said"] == open_link.UNFETCHED
    assert linked.links.accept_link(friend) == {}, "it was answered"
    assert connections == []
    linked.read(text, friend)
    fetched = linked.links.accept_link(friend)
    assert "cannot be opened" in linked.told(fetched)["refused"]
    assert connections


def test_a_run_that_was_deleted_is_linked_by_no_name_and_a_typed_text_is_no_run(linked):
    session = begun()
    trained_by(session)
    state, _ = linked.state_of("try", session, text="run-1")
    assert state["fields"]["text"] == "run-1"
    assert "jobs" not in state
    session.forget("run-1")
    with pytest.raises(ValueError, match="The chosen run was deleted"):
        linked.state_of("explore", session, checkpoint="run-1", text="1 2")


def test_every_setting_of_a_run_is_found_again_in_the_fields():
    for other in (
        {"task": "Reversal", "model": "concat", "size": 10},
        {"learning_rate": "0.0031", "seed": "7"},
        {"learning_rate": "0.02", "optimizer": "adafactor"},
    ):
        session = begun(**other)
        wanted = JobSpec(None, replay.form_of(session.run), [1])
        again = replay.start_linked_run(Session(device="cpu"), wanted, [])
        assert (again.task, again.recipe, again.seed) == (
            session.run.task,
            session.run.recipe,
            session.run.seed,
        )
        session.close()


def test_a_run_on_an_uploaded_table_cannot_travel_and_says_so(linked, tmp_path):
    session = Session(device="cpu")
    path = write_table(tmp_path)
    session.take(str(path), ("source", "target"))
    columns = {"column_1": session.table.columns[0], "column_2": session.table.columns[1]}
    values = changed(task="Your own pairs", size=None, steps="2", **columns)
    session.add(*form.read_form(values, session.table))
    trained_by(session)
    with pytest.raises(ValueError, match="learned an uploaded table, which a link cannot carry"):
        linked.state_of("explore", session, checkpoint="run-1", text="1")
    state, said = linked.state_of("train", session)
    assert "jobs" not in state
    assert "uploaded table" in said
    session.close()


def test_a_checkpoint_travels_by_its_name_and_no_path_of_the_sender_does(linked):
    for name in ("attention", "try", "explore"):
        assert str(linked.catalog.folders[0][1].parent) not in json.dumps(linked.state_of(name)[0])


# ---------------------------------------------------------------- one opening, one answer


@pytest.mark.parametrize(
    ("field", "value"), [("task", "Nope"), ("model", "mamba"), ("preset", "huge"), ("size", 3)]
)
def test_a_links_run_of_a_task_or_a_model_that_there_is_not_is_refused_in_words(field, value):
    fields = replay.form_of(begun().run) | {field: value}
    with pytest.raises(ValueError, match=str(value)):
        replay.check_run(fields)


@pytest.mark.parametrize("part", ["fields", "boards"])
def test_half_a_pair_of_surrogates_in_a_link_is_refused_in_words(linked, part):
    said = {"strategy": "\ud800"} if part == "fields" else {"explore-board": {"kind": "\ud800"}}
    packed = base64.urlsafe_b64encode(zlib.compress(json.dumps({"tab": "try", part: said}).encode()))
    _, told = linked.open(f"1.{packed.decode().rstrip('=')}")
    assert told["refused"] == links.BROKEN
