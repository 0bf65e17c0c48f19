"""What the tabs do, without a browser: settings, runs, and what the boards are told."""

import asyncio
import copy
import dataclasses
import json
import math
import os
import shutil
import threading
import time

import pytest

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
gr = pytest.importorskip("gradio")

from demos import TABS, asking, build_app, driving, explore, form, train, trying  # noqa: E402
from demos.checkpoints import NONE_YET, Shelf, build_shelf  # noqa: E402
from demos.visits import KEPT_RUNS, PAUSED, STOPPED, Run, Visit, thin  # noqa: E402
from hf_attn.hub import load_checkpoint, save_checkpoint  # noqa: E402
from hf_attn.tasks import TASKS, build_task  # noqa: E402
from hf_attn.tasks.parsing import read_prefix  # noqa: E402
from hf_attn.training import build_model  # noqa: E402

COPY = ("Copy", 5, "small", 64, 2, 2, 2, "learned", "0.005", "6", "0")
EMPTY = Shelf()


def changed(**values):
    """Return the settings of a small copy run with some of them changed."""
    return tuple(values.get(name, value) for name, value in zip(form.FIELDS, COPY, strict=True))


def begun(**values):
    """Return a visit whose run is to be followed."""
    visit = Visit(device="cpu")
    visit.add(*form.read_form(*changed(**values)))
    return visit


def board_of(outputs):
    """Return the train board's value among the outputs."""
    value = outputs[train.SCREEN.index("board")]
    return json.loads(value) if isinstance(value, str) else None


def finished(**values):
    """Return a visit whose run has ended, and everything its page was sent."""
    visit = begun(**values)
    return visit, list(train.follow(visit))


class Event:
    """What a click on a row sends."""

    def __init__(self, run):
        self.run = run


@pytest.fixture(scope="module")
def copied():
    """A visit with one finished run of six steps."""
    visit, _ = finished()
    yield visit
    visit.close()


# ---------------------------------------------------------------- settings


def test_the_settings_become_a_task_and_a_recipe():
    task, recipe, seed = form.read_form(*changed(task="Addition", size=2, num_attention_heads=4, seed="7"))
    assert (task.name, task.digits, seed) == ("addition", 2, 7)
    assert (recipe.steps, recipe.learning_rate, recipe.report_every, recipe.evaluate_every) == (
        6,
        0.005,
        1,
        1,
    )
    assert recipe.model["num_attention_heads"] == 4


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("num_attention_heads", 3, "multiple of 3"),
        ("learning_rate", "fast", "0.003 works"),
        ("learning_rate", "nan", "between"),
        ("learning_rate", "30", "0.1"),
        ("steps", "0", "from 1 to 20"),
        ("steps", "20001", "from 1 to 20"),
        ("steps", "", "Nothing"),
        ("size", 21, "choose one of 5, 10, 20, 40"),
        ("hidden_size", "4096", "from 8 to 512"),
        ("seed", "one", "whole number"),
        ("seed", "-1", "whole number"),
    ],
)
def test_a_wrong_setting_is_one_sentence_under_its_field_and_starts_nothing(field, value, words):
    visit = Visit()
    order, _, *rest = train.press_train(visit, 4, *changed(**{field: value}))
    errors = dict(zip(form.ERRORS, rest, strict=False))
    assert order == 4
    assert visit.runs == {}
    assert words in errors.pop(field)
    assert set(errors.values()) == {""}


def test_every_task_is_offered_and_fills_the_settings_with_its_recipe():
    offered = {name for name, *_ in form.offers().values()}
    assert offered == set(TASKS)
    for label in form.offers():
        for preset in form.PRESETS:
            size, *filled = form.choose_task(label, preset)
            form.read_form(label, size["value"], preset, *filled, "0")


def test_a_task_that_the_form_does_not_know_is_offered_with_its_defaults(monkeypatch):
    monkeypatch.setitem(
        TASKS, "mirror", dataclasses.dataclass(frozen=True)(type("Mirror", (TASKS["copy"],), {}))
    )
    monkeypatch.setattr(TASKS["mirror"], "title", "Mirror")
    assert form.read_form("Mirror", "-", "small", *COPY[3:])[0].max_length == 20


# ---------------------------------------------------------------- a run


def test_a_run_shows_the_untrained_map_first_and_everything_last():
    visit, outputs = finished()
    boards = [board for board in map(board_of, outputs) if board]
    assert [frame["step"] for frame in boards[0]["frames"]] == [0]
    assert boards[0]["status"] == "running"
    last = boards[-1]
    assert last["status"] == "finished"
    assert [point["step"] for point in last["points"]] == list(range(7))
    assert last["frames"][-1]["step"] == 6
    assert len(last["frames"][0]["predictions"]) == 6
    assert len(last["meta"]["rows"]) == len(last["meta"]["truth"])
    assert visit.run.evaluation.overall.examples == len(visit.run.task.held_out(1000))


def test_a_stopped_run_keeps_its_weights_and_goes_on_to_the_same_end_as_an_unbroken_one():
    visit = begun(steps="30")
    steps = train.follow(visit)
    next(steps)
    train.press_stop(visit, 1)
    outputs = list(steps)
    run = visit.run
    assert run.status == STOPPED
    assert 0 < run.step < 30 or run.step == 0
    assert f"Stopped at step {run.step} of 30. The weights are kept; nothing is lost." in train.tell(run)
    assert board_of(outputs[0])["status"] == "stopped"
    assert train.press_pause(visit, 1)[0] == 2  # Resume asks for a follower
    list(train.follow(visit))
    unbroken, _ = finished(steps="30")
    theirs = unbroken.run.model.state_dict()
    assert all((value == theirs[name]).all() for name, value in run.model.state_dict().items())


def test_stop_takes_effect_within_half_a_second():
    visit = begun(task="Addition", size=3, preset="document", hidden_size=256, num_attention_heads=4,
                  encoder_layers=3, decoder_layers=3, learning_rate="0.001", steps="260")  # fmt: skip
    steps = train.follow(visit)
    next(steps)
    ended = []

    def watch():
        for outputs in steps:
            if (board := board_of(outputs)) and board["status"] == "stopped":
                ended.append(time.monotonic())
                break

    thread = threading.Thread(target=watch)
    thread.start()
    time.sleep(1.2)
    asked = time.monotonic()
    train.press_stop(visit, 1)
    thread.join()
    assert ended[0] - asked < 1.0  # half a second on an idle machine
    assert visit.run.step > 0


def test_a_pause_waits_one_step_is_exactly_one_and_resume_goes_on():
    visit = begun(steps="40")
    train.press_step(Visit(), 0, *COPY)
    visit.run.wants_pause, visit.run.wanted_steps = True, 1
    steps = train.follow(visit)
    while visit.run.status != PAUSED or visit.run.wanted_steps:
        next(steps)
    next(steps)
    assert visit.run.step == 1
    train.press_step(visit, 1, *COPY)
    while visit.run.step == 1:
        next(steps)
    next(steps)
    assert (visit.run.step, visit.run.status) == (2, PAUSED)
    assert "Paused at step 2 of 40" in train.tell(visit.run)
    train.press_train(visit, 1, *COPY)  # the progress bar itself resumes
    list(steps)
    assert visit.run.step == 40


def test_step_without_a_run_begins_one_and_takes_its_first_step():
    visit = Visit(device="cpu")
    assert train.press_step(visit, 0, *COPY)[0] == 1
    steps = train.follow(visit)
    while visit.run.step < 1 or visit.run.wanted_steps:
        next(steps)
    next(steps)
    assert (visit.run.step, visit.run.status) == (1, PAUSED)
    steps.close()
    assert visit.run.status == STOPPED  # the page was closed: what was learned stays
    assert visit.run.can_go_on


def test_a_loss_that_is_no_number_ends_the_run_with_a_remedy_and_harms_no_other(monkeypatch, copied):
    real = Run.advance

    def broken(run):
        report = real(run)
        return dataclasses.replace(report, loss=math.nan) if report.step == 3 else report

    monkeypatch.setattr(Run, "advance", broken)
    _, outputs = finished()
    last = [board for board in map(board_of, outputs) if board][-1]
    assert last["status"] == "error"
    assert "Lower the learning rate" in last["message"]
    assert copied.run.status == "finished"


def test_a_crash_is_told_in_the_run_and_not_raised(monkeypatch, caplog):
    monkeypatch.setattr(Run, "advance", lambda run: 1 / 0)
    visit, outputs = finished()
    assert visit.run.status == "error"
    assert "division" in board_of(outputs[-1])["message"]
    assert "ZeroDivisionError" in caplog.text


def test_each_message_repeats_what_is_recent_and_tells_predictions_once():
    visit, _ = finished(steps="20")
    run = visit.run
    recent = run.to_message()
    assert len(recent["points"]) == len(run.points)  # all of it happened in the last seconds
    run.points = [(moment - 60, point) for moment, point in run.points]
    assert [point["step"] for point in run.to_message()["points"]] == [20]
    told = [frame["predictions"] for frame in recent["frames"] if "predictions" in frame]
    assert len(told) == len({id(predictions) for predictions in told})


def test_watching_at_a_pace_takes_its_time():
    visit = begun(steps="6")
    visit.run.pace = 20.0
    started = time.monotonic()
    list(driving.drive(visit.run))
    assert time.monotonic() - started > 5 / 20 - 0.06


def test_thinning_keeps_the_first_and_the_last():
    assert thin(list(range(100)), 5) == [0, 25, 50, 74, 99]
    assert thin([1, 2], 5) == [1, 2]


# ---------------------------------------------------------------- visits


def test_two_visits_never_meet_and_a_fresh_one_can_be_copied(copied):
    assert copy.deepcopy(Visit()).runs == {}
    other = Visit()
    choices = EMPTY.choices(other)
    assert choices == []
    with pytest.raises(ValueError, match="No checkpoint yet"), EMPTY.open(other, copied.run.id):
        pass


def test_the_oldest_run_makes_room_and_the_visitor_is_told():
    visit = Visit()
    for _ in range(KEPT_RUNS):
        train.press_train(visit, 0, *COPY)
        visit.run.status = STOPPED
    outputs = train.press_train(visit, 0, *COPY)
    assert len(visit.runs) == KEPT_RUNS
    assert "run-1" not in visit.runs
    note = outputs[2 + len(form.ERRORS) + train.SCREEN.index("note")]
    assert "copy 1 made room" in note


def test_closing_a_visit_stops_its_run_and_empties_its_folder():
    visit = begun(steps="5000")
    steps = train.follow(visit)
    next(steps)
    run, path = visit.run, visit.new_folder("x")
    visit.close()
    list(steps)
    assert run.status == STOPPED
    assert not path.parent.exists()


def test_a_deleted_run_is_gone_and_another_one_is_shown():
    visit, _ = finished()
    visit.add(*form.read_form(*COPY))
    train.delete_run(visit, Event("run-2"))
    assert list(visit.runs) == ["run-1"]
    assert visit.shown == "run-1"
    train.delete_run(visit, Event("run-2"))  # a click that came twice


def test_a_downloaded_run_is_a_checkpoint_with_its_card(copied, tmp_path):
    path, said = train.pack_run(copied, Event(copied.run.id))
    shutil.unpack_archive(path, tmp_path)
    (folder,) = tmp_path.iterdir()
    loaded = load_checkpoint(folder)
    assert folder.name in said
    assert loaded.task == copied.run.task
    assert loaded.training["steps"] == 6
    assert "held-out" in (folder / "README.md").read_text()


def test_opening_a_run_shows_it_whole(copied):
    outputs = train.open_run(copied, Event(copied.run.id))
    assert len(board_of(outputs)["points"]) == 7


# ---------------------------------------------------------------- Try and Explore


def answer(visit, text, **how):
    """Return the value of the try board, the error and the origin."""
    board, error, origin = trying.ask(EMPTY, visit, "run-1", text, **how)
    return json.loads(board) if isinstance(board, str) else board, error, origin


def test_each_symbol_comes_with_its_distribution_and_the_cut_in_words(copied):
    value, error, origin = answer(copied, "3 1 2", strategy="top-k", top_k=3)
    assert error == ""
    assert "step 6" in origin
    assert len(value["written"]) == len(value["steps"]) == len(value["cut"])
    assert "top-k 3 keeps 3 of 23 symbols" in value["cut"][0]
    for entries in value["steps"]:
        assert math.isclose(sum(entry["probability"] for entry in entries), 1, abs_tol=1e-4)
        assert sum(entry["kept"] for entry in entries[:-1]) == 3
        assert math.isclose(sum(entry["after"] for entry in entries), 1, abs_tol=1e-4)


def test_a_beam_shows_its_other_answers_judged(copied):
    value, _, _ = answer(copied, "3 1 2", strategy="beam", num_beams=3)
    assert len(value["alternatives"]) == 3
    assert all(isinstance(one["correct"], bool) for one in value["alternatives"])
    assert "kept" not in value["steps"][0][0]


def test_a_wrong_character_is_a_sentence_and_leaves_the_board(copied):
    board, error, origin = trying.ask(EMPTY, copied, "run-1", "3 x")
    assert "&#x27;x&#x27; (number 2) is not a symbol" in error
    assert board == origin == gr.skip()


def test_the_verdict_is_checked_by_integers_and_an_answer_that_stops_early_is_marked():
    task = build_task("addition")
    _, said = trying.judge(task, "153+391", task.ids(*"0544"))
    assert said["correct"]
    assert said["check"] == "right: 153+391 = 544, checked by Python's integers"
    _, said = trying.judge(task, "367+285", task.ids(*"0642"))
    assert (said["correct"], said["answer"]) == (False, "652")


def test_a_tree_shows_the_right_label_beside_a_wrong_or_missing_node():
    task = build_task("parser")
    tree = trying.read_tree(read_prefix(["ASSIGN", "x", "SUB", "1"]), task.tree("x=1+2"))
    operator = tree["children"][1]
    assert (operator["label"], operator["expected"], operator["wrong"]) == ("SUB", "ADD", True)
    assert (operator["sign"], operator["children"][1]["expected"]) == ("−", "2")
    assert not tree["wrong"]


def test_examples_are_the_worked_one_and_three_held_out_ones_that_the_task_reads():
    for label, (name, option, _, _, size) in form.offers().items():
        task = build_task(name, **({option: size} if option else {}))
        examples = asking.examples_of(task)
        assert len(set(examples)) == asking.CHIPS, label
        assert examples[0] == task.worked_example.source
        assert all(task.encode(example) for example in examples)


def test_a_new_run_is_chosen_and_an_older_choice_stays(copied):
    chosen, seen = asking.look_again(EMPTY, copied, None, None)
    assert (chosen["value"], seen) == ("run-1", "run-1")
    shelf = Shelf((("attn-copy (bundled)", "/somewhere"),))
    chosen, _ = asking.look_again(shelf, copied, "/somewhere", seen)
    assert chosen["value"] == "/somewhere"


def test_without_a_checkpoint_the_tabs_say_so():
    assert NONE_YET in asking.choose(EMPTY, Visit(), None, "")[2]
    assert trying.ask(EMPTY, Visit(), None, "1")[0] is None
    assert explore.ask(EMPTY, Visit(), None, "1", "", None)[0] is None


def test_every_kind_of_map_comes_with_its_labels_and_the_target_may_be_given(copied):
    board, error, _ = explore.ask(EMPTY, copied, "run-1", "3 1 2", "3 1 2", None)
    kinds = json.loads(board)["kinds"]
    assert error == ""
    assert kinds["cross"]["shape"] == [2, 2, 4, 4]
    assert kinds["cross"]["rows"] == ["3", "1", "2", "end"]
    assert kinds["decoder"]["cols"] == ["start", "3", "1", "2"]
    assert kinds["decoder"]["allowed"][0] == [True, False, False, False]
    assert kinds["cross"]["truth"][1] == [0, 1, 0, 0]
    for target, words in [("3 99", "no symbol of copy"), ("1 " * 30, "writes 5 at most")]:
        assert words in explore.ask(EMPTY, copied, "run-1", "3 1 2", target, None)[1]


def test_maps_too_large_to_draw_are_refused_before_they_are_computed(copied, monkeypatch):
    monkeypatch.setattr(explore, "MAP_LIMIT", 100)
    monkeypatch.setattr(explore, "attention_maps", None)
    _, error, _ = explore.ask(EMPTY, copied, "run-1", "3 1 2", "", None)
    assert "4 tokens would need" in error


def test_a_given_checkpoint_is_listed_and_a_broken_one_is_refused(tmp_path):
    task = build_task("copy", max_length=5)
    save_checkpoint(tmp_path / "mine", build_model(task, task.recipe), task, {"steps": 240})
    shelf = build_shelf(tmp_path / "mine")
    board, error, origin = trying.ask(shelf, Visit(), str(tmp_path / "mine"), "1 2")
    assert error == ""
    assert "step 240" in origin
    assert json.loads(board)["written"]
    with pytest.raises(FileNotFoundError):
        build_shelf(tmp_path / "other")


def test_the_page_has_its_tabs_and_trains_in_turn():
    async def build():  # outside an event loop Gradio opens some and never closes them
        return build_app(EMPTY, "cpu")

    app = asyncio.run(build())
    assert [tab.TITLE for tab in TABS] == ["Train", "Try", "Explore"]
    turns = [fn for fn in app.fns.values() if fn.concurrency_id == "train"]
    assert [fn.concurrency_limit for fn in turns] == [2]
