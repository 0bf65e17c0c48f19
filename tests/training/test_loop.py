"""The loop learns, is deterministic, stops and goes on where it was, saves whole or not at all."""

import dataclasses
import itertools
import json

import pytest
import torch

from hf_attn.architectures.registry import build_model
from hf_attn.evaluation.metrics import exact_matches, predict
from hf_attn.tasks import Recipe, Task, build_task
from hf_attn.training import loop
from hf_attn.training.device import build_accelerator, check_precision
from hf_attn.training.failures import Diverged
from hf_attn.training.loop import (
    CONFIRMING_SAMPLE,
    Learner,
    RunState,
    build_optimizer,
    learning_rate_at,
    train,
)
from hf_attn.utils.atomic_write import FolderKind, atomic_directory

TINY = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "num_attention_heads": 2,
}


def tiny_run(steps=30, seed=0, dropout=0.0, **options):
    task = build_task("copy", max_length=5)
    recipe = Recipe(
        {**TINY, "dropout": dropout}, steps=steps, batch_size=16, report_every=1, evaluate_every=10
    )
    return task, build_model(task, recipe, seed), dataclasses.replace(recipe, **options)


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


def losses(reports):
    return [report.loss for report in reports if report.step]


def test_copying_is_learned_to_99_per_cent_of_validation_examples():
    task = build_task("copy", max_length=8)
    recipe = dataclasses.replace(task.recipe, steps=250)
    model = build_model(task, recipe)
    reports = list(train(task, model, recipe, until=0.99))
    assert reports[0].validation_exact_match < 0.05
    assert reports[-1].validation_exact_match >= 0.99
    assert reports[-1].validation_examples > 200, "the goal was confirmed on more examples"
    confirming = task.validation(1000)
    right = exact_matches(predict(model, task, confirming), confirming.labels)
    assert float(right.float().mean()) == reports[-1].validation_exact_match


def test_a_run_that_stops_at_an_accuracy_never_draws_a_held_out_example(monkeypatch):
    def refuse(self, n, seed=0):
        raise AssertionError("held-out examples are measured once, after the run")

    monkeypatch.setattr(Task, "held_out", refuse)
    task = build_task("copy", max_length=3)
    recipe = dataclasses.replace(task.recipe, steps=20, evaluate_every=10, batch_size=8)
    *_, last = train(task, build_model(task, recipe), recipe, until=0.0001)
    assert last.validation_examples > 0


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    def run(seed):
        task, model, recipe = tiny_run(10, seed)
        list(train(task, model, recipe, generator=torch.Generator().manual_seed(seed)))
        return weights(model)

    assert same(run(0), run(0))
    assert not same(run(0), run(1))


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_a_stopped_run_goes_on_to_the_same_losses_and_weights_to_the_bit(tmp_path, dropout):
    task, model, recipe = tiny_run(20, dropout=dropout)
    torch.manual_seed(0)  # dropout draws from the global generator
    unbroken = losses(train(task, model, recipe))
    torch.manual_seed(0)
    _, broken, _ = tiny_run(20, dropout=dropout)
    run = train(task, broken, recipe, state_dir=tmp_path / "state")
    first = losses(itertools.islice(run, 8))
    run.close()
    torch.manual_seed(99)
    _, resumed, _ = tiny_run(20, seed=7, dropout=dropout)  # other weights: what counts is what was saved
    second = losses(train(task, resumed, recipe, state_dir=tmp_path / "state"))
    assert first + second == unbroken
    assert same(weights(resumed), weights(model))


def test_a_finished_run_resumes_to_one_last_report_and_the_same_weights(tmp_path):
    task, model, recipe = tiny_run(5)
    last = list(train(task, model, recipe, state_dir=tmp_path / "state"))[-1]
    _, resumed, _ = tiny_run(5, seed=7)
    (again,) = train(task, resumed, recipe, state_dir=tmp_path / "state")
    assert (again.step, again.validation_exact_match) == (5, last.validation_exact_match)
    assert same(weights(resumed), weights(model))


def test_the_learning_rate_is_a_trapezoid():
    recipe = Recipe(steps=100, learning_rate=1.0, warmup_steps=10, decay_fraction=0.5)
    rates = [learning_rate_at(step, recipe) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9:51] == pytest.approx([1.0] * 42)
    assert rates[75] == pytest.approx(0.5)
    assert rates[99] == pytest.approx(0.02)
    assert learning_rate_at(99, dataclasses.replace(recipe, decay_fraction=0.0)) == 1.0


def test_reports_come_as_often_as_asked_and_measure_as_often_as_asked():
    task, model, recipe = tiny_run(20, report_every=5, evaluate_every=10)
    reports = list(train(task, model, recipe))
    assert [report.step for report in reports] == [0, 5, 10, 15, 20]
    assert [report.measured_at for report in reports] == [0, 0, 10, 10, 20]
    assert reports[0].loss != reports[0].loss, "before the first step there is no loss"
    assert all(report.tokens_per_second > 0 for report in reports[1:])


def test_the_last_step_is_measured_whenever_measurements_are_due():
    task, model, recipe = tiny_run(7, evaluate_every=5)
    assert [report.measured_at for report in train(task, model, recipe)] == [0, 0, 0, 0, 0, 5, 5, 7]


def test_a_report_tells_the_mean_loss_of_the_labels_and_not_of_their_padding():
    task, model, recipe = tiny_run(1)
    batch = task.sample(torch.Generator().manual_seed(0), recipe.batch_size)
    with torch.no_grad():
        expected = float(model(**batch.inputs()).loss)
    *_, last = train(task, model, recipe)
    assert last.loss == pytest.approx(expected, rel=1e-5)


def test_a_report_tells_the_learning_rate_of_its_last_step():
    task, model, recipe = tiny_run(4, warmup_steps=3)
    rates = [learning_rate_at(step, recipe) for step in range(4)]
    assert [report.learning_rate for report in train(task, model, recipe)] == [rates[0], *rates]


def test_an_accuracy_that_is_just_reached_is_confirmed_and_ends_the_run(monkeypatch):
    monkeypatch.setattr(loop, "measure_quickly", lambda *_: 0.5)
    task, model, recipe = tiny_run(8, evaluate_every=2)
    *_, last = train(task, model, recipe, until=0.5)
    assert last.step == 2
    assert last.validation_examples == len(task.validation(CONFIRMING_SAMPLE))


def test_the_state_of_a_run_comes_back_whole():
    state, other = (RunState(torch.Generator().manual_seed(seed)) for seed in (3, 4))
    state.step, state.seconds, state.tokens, state.validation = 7, 1.5, 640, (0.25, 200, 5)
    saved = json.loads(json.dumps(state.state_dict()))
    other.load_state_dict(saved)
    assert json.loads(json.dumps(other.state_dict())) == saved


def test_a_probe_s_maps_come_with_every_report():
    task, model, recipe = tiny_run(2)
    probe = task.batch_of(["1 2 3"])
    reports = list(train(task, model, recipe, probe=probe))
    assert [tuple(report.maps.cross.shape) for report in reports] == [(1, 2, 4, 4)] * 3
    assert not torch.equal(reports[0].maps.cross, reports[-1].maps.cross)


def test_a_device_that_is_not_here_is_refused_in_words():
    with pytest.raises(ValueError, match="'tpu'"):
        build_accelerator("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match=r"'cuda'.*'auto' or 'cpu'"):
            build_accelerator("cuda")


@pytest.mark.parametrize(
    ("precision", "said"), [("fp16", "needs a CUDA GPU; choose 'bf16'"), ("bf61", "no, bf16")]
)
def test_a_precision_that_is_not_here_is_refused_in_words(monkeypatch, precision, said):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", precision)
    with pytest.raises(ValueError, match=said):
        build_accelerator("cpu")


def test_a_gpu_too_old_for_bfloat16_is_refused_in_words(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: including_emulation)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Tesla T4")
    with pytest.raises(ValueError, match="Tesla T4 has no bfloat16; choose 'fp16' or 'no'"):
        check_precision("bf16", is_cuda=True)


LETTERS = FolderKind("folder of letters", (), "ab".__contains__)


def test_a_process_killed_between_the_two_renames_loses_nothing(tmp_path):
    target = tmp_path / "run"
    (tmp_path / ".run.replaced").mkdir()
    (tmp_path / ".run.replaced" / "a").write_text(
        "old"
    )  # as a kill leaves it: set aside, nothing in its place
    with pytest.raises(RuntimeError), atomic_directory(target, LETTERS):
        raise RuntimeError
    assert (target / "a").read_text() == "old"


def test_only_matrices_decay():
    task = build_task("copy", max_length=3)
    model = build_model(task, Recipe({"use_bias": True}))
    decaying, others = build_optimizer(model, Recipe(weight_decay=0.3)).param_groups
    assert (decaying["weight_decay"], others["weight_decay"]) == (0.3, 0.0)
    assert all(weight.dim() > 1 for weight in decaying["params"])
    assert others["params"]
    assert all(weight.dim() == 1 for weight in others["params"])


def test_gradients_are_clipped():
    task = build_task("copy", max_length=3)

    def gradient_norms(max_grad_norm):
        model = build_model(task, Recipe())
        norms = []
        recipe = Recipe(steps=2, max_grad_norm=max_grad_norm, report_every=1)
        clip = torch.nn.utils.clip_grad_norm_

        def spy(parameters, *args, **kwargs):
            parameters = list(parameters)
            clip(parameters, *args, **kwargs)
            norms.append(torch.norm(torch.stack([p.grad.norm() for p in parameters if p.grad is not None])))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.nn.utils, "clip_grad_norm_", spy)
            list(train(task, model, recipe))
        return norms

    clipped = gradient_norms(0.01)
    assert len(clipped) == 2
    assert all(norm <= 0.0101 for norm in clipped)
    assert gradient_norms(0.0) == []


def test_a_run_that_diverges_stops_in_words():
    task = build_task("copy", max_length=3)
    recipe = Recipe(steps=50, learning_rate=1e20, warmup_steps=0, max_grad_norm=0.0)
    with pytest.raises(Diverged, match=r"step \d+.*lower learning rate"):
        list(train(task, build_model(task, recipe), recipe))


@pytest.mark.parametrize("loss", ["inf", "nan"])
def test_a_loss_that_is_no_finite_number_has_diverged(loss):
    task, model, recipe = tiny_run()
    learner = Learner(task, model, recipe, build_accelerator("cpu"))
    learner.loss_sum, learner.loss_steps = torch.tensor(float(loss)), 1
    with pytest.raises(Diverged, match=f"The loss is {loss} at step 3"):
        learner.take_loss(3)


def test_a_damaged_state_is_refused_in_words(tmp_path):
    task = build_task("copy", max_length=3)
    recipe = Recipe(steps=4, report_every=1)
    run = train(task, build_model(task, recipe), recipe, state_dir=tmp_path / "state")
    next(run), next(run)
    run.close()
    (tmp_path / "state" / "progress.json").write_text("{")
    with pytest.raises(OSError, match=r"cannot be read.*Begin the run again"):
        next(train(task, build_model(task, recipe), recipe, state_dir=tmp_path / "state"))
