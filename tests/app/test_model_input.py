"""Try and Explore, without a browser: what is written, how it is judged, which maps are sent."""

import json
import math

import pytest

from demos.core.fields import task_choices
from demos.jobs.probe import answer_examples, choose_examples, read_answer
from demos.session import maps as looking
from demos.session import model_input
from demos.session.catalog import NONE_YET, ModelCatalog, build_catalog
from demos.session.session import Session
from demos.tabs.explore import tab as explore
from demos.tabs.train import form
from demos.tabs.try_it import answer_view
from demos.tabs.try_it import tab as trying
from demos.ui import boards
from hf_attn.architectures.registry import build_model
from hf_attn.checkpoints.save_load import load_checkpoint, save_checkpoint
from hf_attn.evaluation.metrics import find_right, predict
from hf_attn.tasks import build_task
from hf_attn.tasks.synthetic.parsing import read_prefix
from tests.support.matrix import rows
from tests.support.sessions import changed, finished, follow
from tests.support.tables import write_table

EMPTY = ModelCatalog()


@pytest.fixture(scope="module")
def copied():
    """A visit with one finished run of six steps."""
    session, _ = finished(EMPTY)
    yield session
    session.close()


def write(session, text, chosen="run-1"):
    """Return the updates of Try."""
    return trying.write(session, {"checkpoint": chosen, "text": text})


def look(session, text, target="", chosen="run-1"):
    """Return the updates of Explore."""
    return explore.show_input(session, {"checkpoint": chosen, "text": text, "target": target})


def answer(session, text):
    """Return the value of the try board, and the origin."""
    updates = write(session, text)
    assert updates["error"] == ""
    return json.loads(updates["board"]), updates["origin"]


def test_the_verdict_is_checked_by_integers_and_an_answer_that_stops_early_is_marked():
    task = build_task("addition")
    _, said = answer_view.judge(task, "153+391", task.ids(*"0544"))
    assert said["correct"]
    assert said["check"] == "right: 153+391 = 544, checked by Python's integers"
    _, said = answer_view.judge(task, "367+285", task.ids(*"0642"))
    assert (said["correct"], said["answer"]) == (False, "652")


def test_a_tree_shows_the_right_label_beside_a_wrong_or_missing_node():
    task = build_task("parser")
    tree = boards.read_tree(read_prefix(["ASSIGN", "x", "SUB", "1"]), task.tree("x=1+2"))
    operator = tree["children"][1]
    assert (operator["label"], operator["expected"], operator["wrong"]) == ("SUB", "ADD", True)
    assert (operator["sign"], operator["children"][1]["expected"]) == ("−", "2")
    assert not tree["wrong"]


# without a table there are none; a dictionary takes long to read
WITH_EXAMPLES = {
    label: row
    for label, row in task_choices().items()
    if not form.TASKS[row[0]].column_options and row[0] != "pronunciation"
}


@pytest.mark.parametrize("label", rows(WITH_EXAMPLES, ("Copy", "Addition", "Running text")))
def test_examples_are_the_worked_one_and_three_held_out_ones_that_the_task_reads(label):
    name, option, _, _, size = task_choices()[label]
    task = build_task(name, **({option: size} if option else {}))
    examples = model_input.examples_of(task)
    assert len(set(examples)) == len(model_input.CHIPS)
    assert examples[0] == task.worked_example.source
    assert all(task.encode(example) for example in examples)


def test_without_its_data_a_task_still_has_its_worked_example():
    assert model_input.examples_of(build_task("csv")) == [build_task("csv").worked_example.source]


def test_the_example_that_was_watched_while_it_trained_is_what_is_asked_first(copied):
    watched = copied.runs["run-1"].probe.source
    updates = model_input.choose_checkpoint(copied, "run-1", "x=1+2")
    assert updates["text"] == updates["chip_1"]["value"] == watched
    assert watched != build_task("copy").worked_example.source
    stays = model_input.choose_checkpoint(copied, "run-1", "1 2")
    assert stays["text"] == "1 2", "the model can read it"


@pytest.fixture(scope="module")
def read():
    """A function that gives what Try and Explore show of an untrained model of some kind."""
    sessions = []

    def read_both(text, **values):
        session, _ = finished(EMPTY, steps="1", hidden_size=32, num_hidden_layers=1, **values)
        sessions.append(session)
        value, origin = answer(session, text)
        return value, json.loads(look(session, text)["board"]), origin

    yield read_both
    for session in sessions:
        session.close()


def test_a_decoder_only_model_shows_source_and_answer_as_one_sequence_that_reads_back(read):
    tried, computed, _ = read("3 1 2", model="decoder")
    written = len(tried["written"])
    assert tried["map"]["cols"][:4] == ["3", "1", "2", "end"]
    assert tried["map"]["shape"][2:] == [written, 3 + written]
    assert tried["map"]["allowed"][0] == [True] * 4 + [False] * (written - 1)
    (kind,) = computed["kinds"].values()
    assert kind["shape"][2:] == [3 + written, 3 + written]
    assert kind["rows"][3:] == tried["map"]["rows"]
    assert kind["allowed"][0] == [True] + [False] * (2 + written)


def test_a_model_without_attention_says_so(read):
    tried, computed, _ = read("3 1 2", model="none")
    assert tried["map"] == {"kind": None}
    assert tried["steps"]
    assert computed["kinds"] == {}


@pytest.fixture(scope="module")
def classified(tmp_path_factory):
    """A visit with a classifier that was trained on a table of its own."""
    session = Session(EMPTY, device="cpu")
    session.take(str(write_table(tmp_path_factory.mktemp("films"))), ("text", "label"))
    values = {"task": "Your own classes", "column_1": "text", "column_2": "label", "num_hidden_layers": 1}
    values = changed(**values, hidden_size=32, learning_rate="0.01", steps="60")
    session.add(*form.read_form(values, session.table))
    list(follow(session))
    yield session
    session.close()


def test_a_classifier_shows_its_classes_its_map_and_what_each_word_is_worth(classified):
    value, origin = answer(classified, "a poor film in town")
    assert "Transformer, 1 layer, 2 heads" in origin
    assert [w["token"] for w in value["written"]] == ["dislike"]
    (classes,) = value["distributions"]
    assert set(classes["names"]) == {"like", "dislike"}
    assert math.isclose(sum(map(math.exp, classes["log_p"])), 1, abs_tol=1e-4)
    assert value["map"]["kind"] == "encoder"
    removal = value["removal"]
    worth = {one["word"]: one["drop"] for one in removal["words"]}
    assert max(worth, key=worth.get) == "poor"
    assert removal["class"] == "dislike"
    assert all(
        math.isclose(one["left"] + one["drop"], removal["before"], abs_tol=1e-6) for one in removal["words"]
    )


def test_a_language_model_goes_on_from_a_prompt(tmp_path):
    (tmp_path / "mine.txt").write_text("\n\n".join(f"the cat {i} sat on the mat" for i in range(60)))
    session = Session(EMPTY, device="cpu")
    session.take(str(tmp_path / "mine.txt"), ())
    values = changed(task="Running text", model="decoder", size=64, hidden_size=32, steps="1")
    session.add(*form.read_form(values, session.table))
    list(follow(session))
    value, _ = answer(session, "the cat")
    assert value["passage"]["prompt"] == "the cat"
    assert value["correct"] is None
    assert value["map"]["cols"][:4] == ["start", "t", "h", "e"]
    assert len(value["steps"]) == len(value["written"])
    assert look(session, "the cat", "sat")["error"] == ""
    session.close()


def test_without_a_checkpoint_the_tabs_say_so():
    session = Session(EMPTY)
    assert NONE_YET in model_input.choose_checkpoint(session, None, "")["hint"]
    assert write(session, "1", None)["board"] is None
    assert look(session, "1", chosen=None)["board"] is None


class Answered(model_input.AnsweredInput):
    """Of the tab below."""


def counting(compute):
    """The events of a tab that only counts what it is asked."""
    return model_input.InputEvents(None, Answered, compute, lambda *_: {}, {}, {}, {}, "")


def test_an_opened_tab_answers_once_and_again_only_when_its_weights_have_learned(copied):
    events = counting(lambda _, values: {"board": values["text"]})

    def boards():
        values = {"checkpoint": "run-1", "text": "1 2"}
        return [sent["board"] for sent in events.answer_if_new(copied, values) if "board" in sent]

    assert boards() == ["1 2"]
    assert boards() == [], "opened again, nothing is new: what was picked stays"
    copied.run.step += 1
    assert boards() == ["1 2"]
    copied.run.step -= 1


def test_an_answer_that_comes_after_the_next_question_is_dropped(copied):
    newer = []

    def slow(session, values):
        if values["text"] == "late":
            newer.append(events.answer(session, values | {"text": "new", "asked": 2.0}))
        return {"board": values["text"]}

    events = counting(slow)
    asked = {"checkpoint": "run-1", "text": "late", "asked": 1.0}
    assert events.answer(copied, asked) == {}
    assert [updates["board"] for updates in newer] == ["new"]
    assert list(events.ask(copied, asked)) == [{}], "it begins after the newer one"


def test_a_click_before_an_opened_tab_has_its_fields_is_answered_with_the_text_that_fills_them(copied):
    asked = {"checkpoint": None, "text": ""}

    def slow(session, values):
        if not clicked:  # pressed while the tab that was opened is being answered
            clicked.append(None)
            clicked.extend(events.ask(session, asked | {"asked": 6.0}))
        return {"board": values["text"]}

    clicked, events, fresh = [], counting(slow), Session(EMPTY)
    fresh.runs = copied.runs
    opened = list(events.open_tab(fresh, asked | {"asked": 5.0}))
    assert [updates["board"] for updates in clicked[1:] if "board" in updates] == [opened[0]["text"]]
    assert opened[0]["text"]


def test_every_kind_of_map_comes_with_its_labels_and_the_target_may_be_given(copied):
    updates = look(copied, "3 1 2", "3 1 2")
    kinds = json.loads(updates["board"])["kinds"]
    assert updates["error"] == ""
    assert kinds["cross"]["shape"] == [2, 2, 4, 4]
    assert kinds["cross"]["rows"] == ["3", "1", "2", "end"]
    assert kinds["decoder"]["cols"] == ["start", "3", "1", "2"]
    assert kinds["decoder"]["allowed"][0] == [True, False, False, False]
    assert kinds["cross"]["truth"][1] == [0, 1, 0, 0]
    for target, words in [("3 99", "not a symbol of copy"), ("1 " * 30, "writes 5 at most")]:
        updates = look(copied, "3 1 2", target)
        assert (updates["error"], words in updates["target_error"]) == ("", True)


def test_a_layer_too_large_for_memory_is_refused_before_it_is_computed(copied, monkeypatch):
    monkeypatch.setattr("hf_attn.interpret.long_inputs.LAYER_LIMIT", 100)
    monkeypatch.setattr(looking, "attention_maps", None)
    assert "4 tokens would need" in look(copied, "3 1 2")["error"]


def test_a_given_checkpoint_is_listed_and_a_broken_one_is_refused(tmp_path):
    task = build_task("copy", max_length=5)
    save_checkpoint(tmp_path / "mine", build_model(task, task.recipe), task, {"steps": 240})
    catalog = build_catalog(tmp_path / "mine")
    updates = write(Session(catalog), "1 2", str(tmp_path / "mine"))
    assert updates["error"] == ""
    assert "step 240" in updates["origin"]
    assert json.loads(updates["board"])["written"]
    with pytest.raises(FileNotFoundError):
        build_catalog(tmp_path / "other")


@pytest.mark.parametrize("others", [[], [1, 4], [0, 1, 2, 3, 4, 5]])
def test_examples_that_are_shown_have_the_answers_that_would_be_written_though_right_ones_are_not(others):
    found = load_checkpoint(next(path for _, path in build_catalog().folders if path.name == "attn-copy"))
    examples, _ = choose_examples(found.task)
    batch = examples.batch
    written = predict(found.model, found.task, batch)
    batch.labels[others, 0] = 7 - batch.labels[others, 0] % 2  # another answer than the model's
    wanted = [
        read_answer(found.task, *row)
        for row in zip(examples.sources, examples.answers, written.tolist(), strict=True)
    ]
    assert find_right(found.model, found.task, batch).tolist() == [
        place not in others for place in range(len(examples))
    ]
    assert answer_examples(found.model, found.task, examples) == wanted
