"""What the tabs do, without a browser: settings, runs, and what the boards are told."""

import copy
import threading
import time

import pytest

from demos.core.fields import task_choices
from demos.core.upload import take_table
from demos.jobs.job import FINISHED, PAUSED, STOPPED
from demos.jobs.training_job import TrainingJob
from demos.links.codec import can_hold
from demos.session.catalog import ModelCatalog
from demos.session.page import JobView
from demos.session.session import Session
from demos.tabs.train import form, replay
from demos.tabs.train import tab as train
from demos.tabs.train.messages import show_news
from hf_attn.architectures.families import architectures_of
from hf_attn.tasks import TASKS
from hf_attn.training.failures import Diverged
from tests.support.matrix import rows
from tests.support.sessions import Event, begun, board_of, changed, finished, follow, wait_for
from tests.support.tables import write_table

EMPTY = ModelCatalog()


@pytest.fixture(scope="module")
def copied():
    """A visit with one finished run of six steps."""
    session, _ = finished()
    yield session
    session.close()


@pytest.fixture(scope="module")
def own_table(tmp_path_factory):
    """A table that a visitor uploaded, with columns for classes and for pairs."""
    folder = tmp_path_factory.mktemp("upload")
    return take_table(write_table(folder), folder / "kept", ("text", "label"))


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("num_attention_heads", 3, "multiple of 3"),
        ("learning_rate", "fast", "for example 0.003"),
        ("size", 21, "choose one of 5, 10, 20, 40"),
    ],
)
def test_a_wrong_setting_is_one_sentence_under_its_field_and_starts_nothing(field, value, words):
    session = Session()
    changes = train.press_train(session, changed(**{field: value}))
    assert session.runs == {}
    errors = {name: said for name, said in changes.items() if name.endswith("_error")}
    assert words in errors.pop(f"{field}_error")
    assert set(errors.values()) == {""}


@pytest.mark.parametrize(
    "label", rows(task_choices(), ("Copy", "Addition", "Running text", "Your own classes", "Your own pairs"))
)
def test_a_task_offers_each_model_and_fills_the_settings_with_its_recipe(label, own_table):
    name, *_ = task_choices()[label]
    table = own_table if TASKS[name].column_options else None
    filled = form.choose_task(label) | form.show_columns(name, table)
    offered = [model for _, model in filled["model"]["choices"]]
    assert sorted(offered) == sorted(architectures_of(TASKS[name].kind))
    for model in offered:
        size = filled["size"].get("value")
        chosen = {"task": label, "model": model, "size": size, "preset": "small"}
        again = filled | form.choose_model(chosen)
        values = {field: update.get("value") for field, update in again.items()}
        values |= {"task": label, "model": model, "seed": "0", "probe": ""}
        task, recipe, _ = form.read_form(values, table)
        assert (task.name, recipe.architecture) == (name, model)
        assert recipe.model == task.recipes_of(model)["product"].model | {
            known: values[field] for field, known in form.fields_of(name, model).items()
        }


@pytest.mark.parametrize(
    ("label", "size", "example"),
    [
        ("Long sums of 3 to 5", "3", "391+153+48"),
        ("Long minus or times", "subtract", "391-153"),
        ("Long minus or times", "multiply", "391*7"),
    ],
)
def test_a_difference_a_product_and_a_sum_of_three_can_be_trained_and_carried_by_a_link(label, size, example):
    filled = {name: update.get("value") for name, update in form.choose_task(label).items()}
    values = filled | {"task": label, "size": size, "seed": "0", "probe": ""}
    task, recipe, seed = form.read_form(values)
    assert (task.worked_example.source, task.digits) == (example, 10)
    run = TrainingJob("run-1", "one", task, recipe, seed, "cpu")
    carried = replay.form_of(run)
    assert (carried["task"], str(carried["size"])) == (label, size)
    field = form.build_field("size", {"choices": [("subtract", "subtract")]})
    assert can_hold(field, 10, varies=True), "the size of the task before, while the choices change"


def test_another_optimizer_brings_its_learning_rate_and_learns_from_the_form():
    assert form.choose_optimizer(changed(optimizer="adafactor")) == {"learning_rate": "0.02"}
    assert form.choose_optimizer(changed()) == {"learning_rate": "0.005"}
    _, recipe, _ = form.read_form(changed(optimizer="adafactor", learning_rate="0.02"))
    assert (recipe.optimizer, recipe.learning_rate) == ("adafactor", 0.02)
    with pytest.raises(form.FieldError, match="ptimizer='lion' is not known; choose one of adafactor"):
        form.read_form(changed(optimizer="lion"))


# ---------------------------------------------------------------- a run


def test_a_run_shows_the_untrained_map_first_and_everything_last():
    session, outputs = finished()
    boards = [board for board in map(board_of, outputs) if board]
    assert [frame["step"] for frame in boards[0]["frames"]] == [0]
    assert boards[0]["status"] == "running"
    last = boards[-1]
    assert last["status"] == "finished"
    assert [point["step"] for point in last["points"]] == list(range(7))
    assert last["frames"][-1]["step"] == 6
    assert len(last["frames"][0]["predictions"]) == 6
    assert len(last["meta"]["rows"]) == len(last["meta"]["truth"])
    assert session.run.evaluation.overall.examples == len(session.run.task.held_out(1000))


def test_a_stopped_run_keeps_its_weights_and_goes_on_to_the_same_end_as_an_unbroken_one():
    session = begun(steps="8")
    steps = follow(session)
    next(steps)
    session.run.stop()
    outputs = list(steps)
    run = session.run
    assert run.status == STOPPED
    assert run.step < 8
    assert f"Stopped at step {run.step} of 8. The weights are kept; nothing is lost." in train.status_message(
        run
    )
    assert board_of(outputs[1])["status"] == "stopped", "behind the untrained map"
    train.press_pause(session)
    assert list(follow(session)), "Resume asks for a follower"
    unbroken, _ = finished(steps="8")
    theirs = unbroken.run.model.state_dict()
    assert all((value == theirs[name]).all() for name, value in run.model.state_dict().items())


def test_a_pause_waits_one_step_is_exactly_one_and_resume_goes_on():
    session = begun(steps="4")
    session.run.wants_pause, session.run.wanted_steps = True, 1
    steps = follow(session)
    while session.run.status != PAUSED or session.run.wanted_steps:
        next(steps)
    next(steps)
    assert session.run.step == 1
    train.press_step(session)
    while session.run.step == 1:
        next(steps)
    next(steps)
    assert (session.run.step, session.run.status) == (2, PAUSED)
    assert "Paused at step 2 of 4" in train.status_message(session.run)
    train.press_train(session, changed())  # the progress bar itself resumes
    list(steps)
    assert session.run.step == 4


def test_a_run_that_goes_on_while_it_is_measured_has_no_figure_of_the_step_before():
    run = begun(steps="30").run
    run.begin()
    for _ in range(3):
        run.advance()
    measuring = threading.Thread(target=run.measure)
    measuring.start()
    wait_for(measuring, lambda: run.readers)
    run.advance()  # only once it is measured
    assert (run.predicted_at, run.step) == (3, 4)
    assert run.to_message()["held_out"] is None
    assert run.evaluation is None, "1,000 examples of the step before"
    measuring.join()


def test_a_run_that_waits_for_a_place_is_trained_though_another_was_opened_meanwhile():
    session, _ = finished()
    train.press_again(session, other_seed=True)
    train.open_run(session, Event("run-1"))
    assert session.run.id == "run-1"
    view = JobView(kind=TrainingJob, show=show_news, shows={})
    assert list(view.follow(session))
    assert (session.run.id, session.run.status, session.run.step) == ("run-2", FINISHED, 6)


def test_step_of_a_stopped_run_takes_one_more_and_without_a_run_nothing():
    session = Session(device="cpu")
    assert train.press_step(session) == {}
    session = begun(steps="6")
    session.run.wants_pause, session.run.wanted_steps = True, 1
    steps = follow(session)
    while session.run.step < 1 or session.run.wanted_steps:
        next(steps)
    steps.close()
    assert session.run.status == STOPPED  # the page was closed: what was learned stays
    train.press_step(session)
    steps = follow(session)
    while session.run.step < 2:
        next(steps)
    next(steps)
    assert (session.run.step, session.run.status) == (2, PAUSED)
    steps.close()


def test_a_run_that_diverges_keeps_its_last_good_state_and_says_what_to_do(monkeypatch, copied):
    real = TrainingJob.advance

    def broken(run):
        if run.step == 3:
            raise Diverged("The loss is nan at step 4: choose a lower learning rate than 0.1.")
        return real(run)

    monkeypatch.setattr(TrainingJob, "advance", broken)
    _, outputs = finished()
    last = [board for board in map(board_of, outputs) if board][-1]
    assert last["status"] == "error"
    assert "lower learning rate" in last["message"]
    assert last["points"][-1]["step"] == 3
    assert copied.run.status == "finished"


def test_each_message_repeats_what_is_recent_and_tells_predictions_once():
    session, _ = finished(steps="20")
    run = session.run
    run.points = [(time.monotonic(), point) for _, point in run.points]
    recent = run.to_message()
    assert len(recent["points"]) == len(run.points)  # all of it happened in the last seconds
    run.points = [(moment - 60, point) for moment, point in run.points]
    run.frames = [(moment - 60, frame) for moment, frame in run.frames]
    late = run.to_message()  # of steps that take long: one lost message leaves no hole
    assert [point["step"] for point in late["points"]] == [18, 19, 20]
    assert [frame["step"] for frame in late["frames"]] == [frame["step"] for _, frame in run.frames[-3:]]
    told = [frame["predictions"] for frame in recent["frames"] if "predictions" in frame]
    assert len(told) == len({id(predictions) for predictions in told})


# ---------------------------------------------------------------- visits


def test_two_visits_never_meet_and_a_fresh_one_can_be_copied(copied):
    assert copy.deepcopy(Session()).runs == {}
    other = Session()
    choices = EMPTY.choices(other)
    assert choices == []
    with pytest.raises(ValueError, match="No checkpoint yet"), EMPTY.open(other, copied.run.id):
        pass


def test_closing_a_visit_stops_its_run_and_empties_its_folder():
    session = begun(steps="5000")
    steps = follow(session)
    next(steps)
    run, path = session.run, session.new_folder("x")
    session.close()
    list(steps)
    assert run.status == STOPPED
    assert not path.parent.exists()


def test_a_deleted_run_is_gone_and_another_one_is_shown():
    session, _ = finished()
    session.add(*form.read_form(changed()))
    train.delete_run(session, Event("run-2"))
    assert list(session.runs) == ["run-1"]
    assert session.shown == "run-1"
    train.delete_run(session, Event("run-2"))  # a click that came twice
