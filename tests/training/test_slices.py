"""Training in slices: state in, state out, through another process, and what the page makes of it."""

import functools
import importlib.util
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save

from hf_attn.architectures.registry import build_model
from hf_attn.tasks import Recipe, build_task
from hf_attn.training.device import build_accelerator
from hf_attn.training.failures import RunFailed
from hf_attn.training.loop import train
from hf_attn.training.slices import SliceState, read_weights, train_in_slices, train_slice

pytest.importorskip("gradio")

from demos.jobs import loop as slicing
from demos.jobs import training_job
from demos.jobs.job import FINISHED, STOPPED
from demos.jobs.training_job import TrainingJob
from demos.session.page import JobSpec
from demos.session.session import Session
from demos.tabs.train import replay
from tests.support.sessions import begun


@pytest.fixture(scope="module")
def small():
    """A task and a recipe whose dropout draws, so that a lost generator would show."""
    task = build_task("copy", max_length=4, num_symbols=6)
    sizes = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "dropout": 0.1,
    }
    changes = {"steps": 9, "batch_size": 16, "evaluate_every": 4, "report_every": 1}
    return task, replace(task.recipe, model={**task.recipe.model, **sizes}, **changes)


@pytest.fixture(scope="module")
def unbroken(small):
    """Weights and losses of a run in one piece."""
    task, recipe = small
    torch.manual_seed(3)
    model = build_model(task, recipe, 3)
    generator, accelerator = torch.Generator().manual_seed(3), build_accelerator("cpu")
    losses = [r.loss for r in train(task, model, recipe, generator=generator, accelerator=accelerator)]
    return save(model.state_dict()), losses[1:]


take_two = functools.partial(train_slice, steps=2, device="cpu")


def test_slices_in_another_process_end_with_the_weights_of_an_unbroken_run(small, unbroken):
    task, recipe = small
    here = build_model(task, recipe, 3)
    spawn = multiprocessing.get_context("spawn")  # nothing is there but what was pickled
    with ProcessPoolExecutor(1, spawn, torch.set_num_threads, (1,)) as worker:

        def take(state):
            return worker.submit(take_two, state).result()

        states = list(train_in_slices(here, SliceState(task, recipe, seed=3), take))
    assert [state.step for state in states] == [2, 4, 6, 8, 9]
    losses = [report.loss for state in states for report in state.reports if report.step]
    assert save(here.state_dict()) == unbroken[0], "byte for byte"
    assert losses == unbroken[1]
    assert all(state.device.startswith("cpu") for state in states)


def test_a_slice_changes_nothing_but_what_it_gives(small):
    task, recipe = small
    first = train_slice(SliceState(task, recipe, seed=0), steps=3, device="cpu")
    before = dict(first.files)
    once, twice = (train_slice(first, steps=2, device="cpu") for _ in range(2))
    assert once.files["model.safetensors"] == twice.files["model.safetensors"]
    assert first.files == before
    assert (first.step, once.step) == (3, 5)


def test_a_slice_ends_with_its_time_and_takes_a_step_at_least(small):
    task, recipe = small
    state = train_slice(SliceState(task, recipe, seed=0), seconds=0.0, device="cpu")
    assert state.step == 1


def test_a_slice_that_diverges_says_so_and_leaves_the_model_as_it_was(small):
    task, recipe = small
    wild = replace(recipe, learning_rate=1e20, max_grad_norm=0.0, warmup_steps=0)
    model = build_model(task, wild, 0)
    before = save(model.state_dict())
    with pytest.raises(RunFailed, match="lower learning rate"):
        list(train_in_slices(model, SliceState(task, wild, seed=0), take_two))
    assert save(model.state_dict()) == before


def test_weights_of_another_model_are_refused(small):
    task, recipe = small
    state = train_slice(SliceState(task, recipe, seed=0), steps=1, device="cpu")
    other = replace(recipe, model={**recipe.model, "encoder_layers": 2})
    with pytest.raises(ValueError, match="not this model's"):
        read_weights(build_model(task, other, 0), state)


def sliced(small, take=lambda state, steps: train_slice(state, steps or 4, device="cpu")):
    """Return a run whose steps are taken in slices."""
    run = TrainingJob("run-1", "copy 1", *small, seed=3, device="cpu")
    run.model = build_model(run.task, run.recipe, run.seed)
    run.loop = slicing.begin_slices(run, take)
    return run


def test_the_page_follows_a_run_in_slices_with_every_step_of_its_curve(small, unbroken):
    run = sliced(small)
    frames = [run.frames[-1][1]["step"] for _ in run.follow() if run.frames]
    assert run.status == FINISHED
    assert [point["step"] for _, point in run.points] == list(range(10))
    assert set(frames) <= {4, 8, 9}, "a map is of weights that are here"
    assert save(run.model.state_dict()) == unbroken[0]
    assert run.computed_on.startswith("cpu")


def test_examples_are_answered_though_no_slice_ends_where_it_was_measured(small, monkeypatch):
    run = sliced(small, lambda state, _: train_slice(state, 3, device="cpu"))
    answer, answered = run._answer, []
    monkeypatch.setattr(run, "_answer", lambda: (answer(), answered.append((run.step, len(run.predictions)))))
    monkeypatch.setattr(run, "conclude", lambda: ())
    list(run.follow())
    assert answered == [(3, 6), (6, 6), (9, 6)], "steps 0, 4 and 8 were measured in them"


def test_dropout_and_scheduled_sampling_draw_from_torchs_global_generators():
    recipes = (
        Recipe(),
        Recipe({"dropout": 0.1}),
        Recipe({"attention_dropout": 0.1}),
        Recipe({"crowd_noise": 4.0}),
        Recipe({"position_offset": 9}),
        Recipe(teacher_forcing=0.9),
    )
    assert [slicing.uses_global_rng(recipe) for recipe in recipes] == [False, *[True] * 5]


def test_the_time_left_is_that_of_the_steps_so_far(small):
    run = TrainingJob("run-1", "copy 1", *small, seed=3)  # 9 steps
    assert run.eta_seconds() is None
    run.step, run.worked_seconds = 3, 6.0
    assert run.eta_seconds() == 12


def test_no_slice_goes_beyond_the_goal_of_a_link(small):
    asked = []

    def take(state, steps):
        asked.append(steps)
        return train_slice(state, min(steps, 2), device="cpu")

    run = sliced(small, take)
    run.goal = [5]
    for _ in run.follow():
        pass
    assert (asked, run.step) == ([5, 3, 1], 5)


def test_a_links_run_in_slices_ends_with_the_weights_of_its_step(monkeypatch):
    fields = replay.form_of(begun().run)
    for module in (slicing, training_job):
        monkeypatch.setattr(module, "has_zero_gpu", lambda: True)
    run = replay.start_linked_run(Session(), JobSpec(None, fields, [3]), [])
    run.goal = [3]
    for _ in run.follow():
        pass
    alone = train_slice(SliceState(run.task, run.recipe, run.seed), steps=3)
    assert (run.step, run.status) == (3, STOPPED)
    there = build_model(run.task, run.recipe, run.seed)
    read_weights(there, alone)
    assert save(run.model.state_dict()) == save(there.state_dict())


@pytest.mark.skipif(importlib.util.find_spec("spaces") is not None, reason="`spaces` is installed here")
def test_without_the_package_of_zero_gpu_a_run_learns_here_in_one_piece(monkeypatch):
    assert slicing.lend_gpu(take_two) is take_two
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    assert slicing.lend_gpu(take_two) is take_two
