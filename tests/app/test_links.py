"""Links: every tab's state goes through an address and comes back, and whatever else it says is refused."""

import base64
import copy
import json
import os
import zlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
gr = pytest.importorskip("gradio")

from gradio import components  # noqa: E402

from demos.links import codec as links  # noqa: E402
from demos.session.session import Session  # noqa: E402
from demos.tabs.train import replay  # noqa: E402
from demos.tabs.train import tab as train  # noqa: E402
from tests.support.linked_page import DUEL, NAMES, trained_by, value_in  # noqa: E402
from tests.support.sessions import begun, changed  # noqa: E402
from tests.support.tables import write_table  # noqa: E402

NO_WAYS = {"task": "Copy", "types": [], "run_seed": "0"}


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
    assert updates[linked.opening.page.tabs].selected == name


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
    state = {"tab": name, "values": values, "boards": boards, "locked": data.draw(st.booleans())}
    read = links.read_link(links.write_link(state))
    assert read == state
    assert links.check_state(linked.opening.page.linked_fields, read) == linked.kept[name]


WRONG = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
WRONG |= st.text(max_size=12) | st.lists(st.integers(-2, 60) | st.text(max_size=3), max_size=3)
WRONG |= st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)


@settings(max_examples=60)
@given(st.data())
def test_a_link_that_somebody_has_changed_is_opened_or_refused_in_words(linked, data):
    name = data.draw(st.sampled_from(NAMES))
    state, _ = linked.state_of(name)
    field = data.draw(st.sampled_from(sorted(state["values"])))
    state["values"][field] = data.draw(WRONG | drawn(linked, linked.fields[name][field]))
    _, told = linked.open(links.write_link(state))
    assert told.get("opened") or (told["refused"].endswith((".", "is.")) and told["turn"] == 0)


def packed(**state):
    return links.write_link(state)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", links.BROKEN),
        ("1.", links.BROKEN),
        ("1.%%%%", links.BROKEN),
        (packed(tab="try")[:-6], links.BROKEN),
        ("7.eJyrVkrLz1eyUkpKLFKqBQAcJQRb", "of version 7, and this app reads version 1"),
        ("1." + "A" * links.LONGEST, "characters; up to 6"),
        (packed(tab="weather"), "'weather', which does not exist: choose attention, train"),
        (packed(), "None, which does not exist"),
        (packed(tab="try", secrets=1), "'secrets', which this app does not know"),
        (packed(tab="try", values=[1]), links.BROKEN),
        (packed(tab="try", boards={"try-board": 3}), links.BROKEN),
        (packed(tab="try", values={"colour": "red"}), "'colour', which Try does not have"),
        (
            packed(tab="try", values={"strategy": "guess"}),
            'to "guess", but that field takes one of greedy, beam',
        ),
        (
            packed(tab="try", values={"temperature": 99}),
            "to 99, but that field takes a number from 0",
        ),
        (packed(tab="try", values={"checkpoint": "run", "text": "1"}), "does not say how it was trained"),
        (packed(tab="explore", values={"checkpoint": "/etc/passwd", "text": "1"}), "cannot be opened"),
        (packed(tab="attention", values={"weights": "attn-copy", "head": 9, "text": "1 2"}), "shows head 10"),
        (packed(tab="duel", values={"size": 21}), "21 is not a size of Reversal"),
        (packed(tab="train", values={"model": "mamba"}), "'mamba' is not one of"),
        (packed(tab="train", run={"form": {"task": "Copy"}, "steps": 3}), "how the sender's run is trained"),
        (packed(tab="duel", learned={"growth": {}}), "does not say how Duel learns 'growth'"),
        (packed(tab="duel", learned={"duel": [1]}), "does not say how Duel learns 'duel'"),
        (packed(tab="duel", learned={"duel": {"form": {}, "taken": [1]}}), "does not say how Duel learns"),
        (packed(tab="duel", learned={"duel": {"form": DUEL, "taken": ["a"]}}), links.BROKEN),
        (packed(tab="duel", learned={"duel": {"form": DUEL, "taken": [1]}}), "how far 1 models of 2 came"),
        (packed(tab="duel", learned={"duel": {"form": {**DUEL, "seed": 3}, "taken": [1]}}), "to 3, but that"),
        (
            packed(tab="positions", learned={"growth": {"form": NO_WAYS, "taken": [1]}}),
            "one to four position encodings",
        ),
    ],
)
def test_an_address_that_cannot_be_read_is_refused_in_words(linked, text, said):
    updates, told = linked.open(text)
    assert said in told["refused"]
    assert list(updates) == [linked.opening.board], "everything else is as it always is"


def test_what_unpacks_to_more_than_a_page_holds_is_refused():
    with pytest.raises(ValueError, match=r"characters; up to .* work everywhere\. Shorten the text"):
        links.write_link({"tab": "language", "values": {"counted": os.urandom(9000).hex()}})
    bomb = links.write_link({"tab": "language", "values": {"counted": "a" * (links.LONGEST_STATE + 10)}})
    with pytest.raises(ValueError, match=links.BROKEN):
        links.read_link(bomb)


def test_a_page_without_a_link_opens_as_it_always_does(linked):
    given = [copy.deepcopy(one.value) for one in linked.opening.inputs]
    assert linked.opening.open_page(gr.Request(query_params={}), *given) == {linked.opening.board: gr.skip()}


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
    for _ in train.follow(sender):
        run.wants_stop = run.wants_pause and not run.wanted_steps
    assert run.step == steps
    state, said = linked.state_of("explore", sender, checkpoint=run.id, text="1 2")
    assert state["values"]["checkpoint"] == "run"
    assert f"trains {steps} steps again" in said
    friend = Session(device="cpu")
    updates, told = linked.open(links.write_link(state), friend)
    assert f"copy, {steps}\u202fsteps" in told["opened"]["said"]
    assert updates[linked.opening.page.order] == 1, "which starts the handler that trains"
    weights = trained_by(friend)
    assert friend.run.step == steps
    for name, weight in run.model.state_dict().items():
        assert torch.equal(weights[name], weight), name
    then, _ = linked.go_on(updates, friend)
    assert then[linked.opening.page.tabs].selected == "explore"
    assert value_in(then[linked.fields["explore"]["checkpoint"]]) == friend.run.id
    assert then[linked.opening.pending] is None
    again, _ = linked.open(links.write_link(state), friend)
    assert linked.opening.page.order not in again, "the run is there: it is not trained a second time"
    for session in (sender, friend):
        session.close()


def test_a_links_run_that_is_stopped_early_is_shown_as_far_as_it_got(linked):
    sender, friend = begun(), Session(device="cpu")
    trained_by(sender)
    updates, _ = linked.open(
        links.write_link(linked.state_of("explore", sender, checkpoint="run-1", text="1 2")[0]), friend
    )
    friend.run.wants_pause, friend.run.wanted_steps = True, 2
    for _ in train.follow(friend):
        friend.run.wants_stop = not friend.run.wanted_steps
    _, told = linked.go_on(updates, friend)
    assert told["opened"]["said"] == "copy 1 stopped at step 2; the sender's run had 6\u202fsteps."
    for session in (sender, friend):
        session.close()


def test_every_setting_of_a_run_is_found_again_in_the_fields():
    for other in (
        {"task": "Reversal", "model": "concat", "size": 10},
        {"learning_rate": "0.0031", "seed": "7"},
        {"learning_rate": "0.02", "optimizer": "adafactor"},
    ):
        session = begun(**other)
        wanted = replay.RunSpec(replay.form_of(session.run), 1)
        again, _ = replay.add_linked_run(Session(device="cpu"), wanted)
        assert (again.task, again.recipe, again.seed) == (
            session.run.task,
            session.run.recipe,
            session.run.seed,
        )
        session.close()


def test_links_from_before_there_were_optimizers_and_min_p_open_as_before(linked):
    session = begun()
    fields = replay.form_of(session.run)
    assert fields.pop("optimizer") == "adamw"
    again, _ = replay.add_linked_run(Session(device="cpu"), replay.check_run({"form": fields, "steps": 1}))
    assert again.recipe == session.run.recipe
    session.close()
    values = {"strategy": "nucleus", "beams": 4, "k": 3, "p": 0.7, "temperature": 1.5, "seed": "3"}
    updates, _ = linked.open(
        packed(tab="try", values={"checkpoint": "attn-addition", "text": "1+2", **values})
    )
    opened = {name: value_in(updates[part]) for name, part in linked.fields["try"].items()}
    assert opened | values == opened
    assert opened["min p"] == 0.1


def test_a_run_on_an_uploaded_table_cannot_travel_and_says_so(linked, tmp_path):
    session = Session(device="cpu")
    path = write_table(tmp_path)
    session.take(str(path), ("source", "target"))
    columns = {"column_1": session.table.columns[0], "column_2": session.table.columns[1]}
    form = changed(task="Your own pairs", size=None, steps="2", **columns)
    session.add(*train.form.read_form(*form, table=session.table))
    trained_by(session)
    with pytest.raises(ValueError, match="learned an uploaded table, which a link cannot carry"):
        linked.state_of("explore", session, checkpoint="run-1", text="1")
    state, said = linked.state_of("train", session)
    assert "run" not in state
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
        replay.check_run({"form": fields, "steps": 3})


@pytest.mark.parametrize("part", ["values", "boards"])
def test_half_a_pair_of_surrogates_in_a_link_is_refused_in_words(linked, part):
    said = {"strategy": "\ud800"} if part == "values" else {"explore-board": {"kind": "\ud800"}}
    packed = base64.urlsafe_b64encode(zlib.compress(json.dumps({"tab": "try", part: said}).encode()))
    _, told = linked.open(f"1.{packed.decode().rstrip('=')}")
    assert told["refused"] == links.BROKEN


@pytest.mark.parametrize("film", [[-1], ["a"], [None], [1.5], [True], [10**400], 3])
def test_a_film_of_steps_that_a_run_does_not_have_is_none(film):
    assert replay.check_film(film, 10) is None
    assert replay.check_film([0, 10, 11], 10) == {0, 10}
