"""Whatever the product does on a processor it does on a GPU, and gives the same numbers.

`make gpu` runs these tests on a GPU. Where there is none, `make test-nightly` runs them with the processor in
its place, so that they are known to be right themselves.
"""

import dataclasses
import gc
from pathlib import Path

import pytest
import torch

from hf_attn import Batch, attention_maps, evaluate, generate_answer, load_checkpoint, save_checkpoint
from hf_attn.analysis.ablation import list_trials, measure_outcomes
from hf_attn.architectures.families import architectures_of
from hf_attn.architectures.registry import build_model
from hf_attn.checkpoints.training_record import build_training_record
from hf_attn.models.positions import POSITION_TYPES
from hf_attn.tasks import TASKS, build_task
from hf_attn.tasks.base import CLASSES, SEQUENCE, TEXT
from hf_attn.training import loop
from hf_attn.training.device import build_accelerator
from hf_attn.training.loop import train
from tests.support.checks import assert_close, pad, random_rows
from tests.support.position_checks import kernels_of
from tests.support.recurrent_models import MECHANISMS, build_recurrent, name_of
from tests.support.subjects import EFFICIENT_FAMILIES, FAMILIES
from tests.support.tables import write_table

CARDS = Path(__file__).parents[2] / "model_cards"
STEPS = 4
BOUND = 2e-4  # between devices, which add up in another order: of losses, gradients and weights of attention
DEVICES = [pytest.param("cpu", marks=pytest.mark.nightly), pytest.param("cuda", marks=pytest.mark.gpu)]
every_device = pytest.mark.parametrize("device", DEVICES)


def shorten(recipe):
    """A few steps, without what a device draws by its own generator."""
    drawn = ("dropout", "crowd_noise")
    model = {name: 0.0 if name.endswith(drawn) else value for name, value in recipe.model.items()}
    few = {
        "steps": STEPS,
        "batch_size": 8,
        "report_every": 1,
        "evaluate_every": STEPS,
        "teacher_forcing": 1.0,
    }
    return dataclasses.replace(recipe, model=model, **few)


def learn(task, recipe, device, until=STEPS, state_dir=None):
    """A model after so many steps on a device, and its reports."""
    model, reports = build_model(task, recipe, seed=0), []
    run = train(task, model, recipe, accelerator=build_accelerator(device), state_dir=state_dir)
    for report in run:
        reports.append(report)
        if report.step == until < recipe.steps:
            run.close()
    assert model.device.type == device
    return model, reports


def losses(reports):
    return [report.loss for report in reports if report.step]


def assert_same_weights(model, other):
    for weight, wanted in zip(model.parameters(), other.parameters(), strict=True):
        assert_close(weight.detach().cpu(), wanted.detach().cpu())


@every_device
@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_learned_measured_answered_saved_and_loaded(name, device, tmp_path):
    options = {"path": str(write_table(tmp_path))} if name in ("csv", "pairs") else {}
    task = build_task(name, **options)
    recipe = shorten(task.recipe)
    _, expected = learn(task, recipe, "cpu")
    model, reports = learn(task, recipe, device)
    assert losses(reports) == pytest.approx(losses(expected), rel=BOUND)
    assert evaluate(model, task, n=20).overall.examples > 0
    if task.kind not in (CLASSES, TEXT):
        assert generate_answer(model, task.held_out(1).input_ids.to(device), max_new_tokens=3).ids
    record = build_training_record(task, recipe, None, seed=0, reports=[], device=device, threads=1)
    folder = save_checkpoint(tmp_path / "saved", model, task, record)
    assert_same_weights(load_checkpoint(folder).model, model)


@every_device
@pytest.mark.parametrize(
    ("task", "architecture"),
    [
        *(("copy", name) for name in architectures_of(SEQUENCE)),
        *(("topics", name) for name in architectures_of(CLASSES)),
    ],
)
def test_a_stopped_run_goes_on_to_the_weights_of_an_unbroken_one(task, architecture, device, tmp_path):
    task = build_task(task)
    recipe = shorten(task.recipes_of(architecture)["product"])
    unbroken, _ = learn(task, recipe, device)
    learn(task, recipe, device, until=2, state_dir=tmp_path / "state")
    resumed, reports = learn(task, recipe, device, state_dir=tmp_path / "state")
    assert [report.step for report in reports] == [3, 4]
    assert_same_weights(resumed, unbroken)


def lay_together(cells):
    """Give the weights of recurrent cells one storage, as cuDNN wants them on a GPU."""
    whole, start = torch.cat([weight.detach().reshape(-1) for weight in cells.parameters()]), 0
    for weight in cells.parameters():
        weight.data = whole[start : start + weight.numel()].view_as(weight)
        start += weight.numel()


@pytest.mark.parametrize(
    ("task", "architecture"),
    [("copy", "additive"), pytest.param("topics", "lstm", marks=pytest.mark.nightly)],
)
def test_a_stopped_run_goes_on_where_the_weights_of_its_cells_share_a_storage(
    task, architecture, tmp_path, monkeypatch
):
    task = build_task(task)
    recipe = shorten(task.recipes_of(architecture)["product"])
    unbroken, _ = learn(task, recipe, "cpu")

    from_seed = build_model

    def build(*given, seed):
        model = from_seed(*given, seed)
        for part in model.modules():
            if isinstance(part, torch.nn.RNNBase):
                part.flatten_parameters()
        return model

    monkeypatch.setattr(torch.nn.RNNBase, "flatten_parameters", lay_together)
    monkeypatch.setitem(learn.__globals__, "build_model", build)
    learn(task, recipe, "cpu", until=2, state_dir=tmp_path / "state")
    resumed, _ = learn(task, recipe, "cpu", state_dir=tmp_path / "state")
    assert_same_weights(resumed, unbroken)


def compute(model, device, *, is_padded=True, has_maps=True):
    """Loss, gradients and maps of a model on a device, by name, on the processor."""
    ids, mask = pad(random_rows(8, 3, 5), "right") if is_padded else (random_rows(8)[0][None], None)
    labels = torch.zeros(len(ids), dtype=torch.long) if hasattr(model.config, "pooling") else ids
    batch = Batch(ids, labels, mask).to(device)
    model.to(device).train().zero_grad()  # no backward pass of cuDNN's cells in evaluation mode
    loss = model(**batch.inputs()).loss
    loss.backward()
    found = {name: weight.grad for name, weight in model.named_parameters()} | {"loss": loss.detach()}
    if has_maps:
        maps = attention_maps(model.eval(), batch, row=0)
        found |= {kind: getattr(maps, kind) for kind in ("encoder", "decoder", "cross")}
    # copied, as `model.to` moves the gradients' tensors themselves
    return {name: value.cpu().clone() for name, value in found.items() if value is not None}


def check_same(model, device, **how):
    """A model computes on a device what it computes on a processor."""
    expected = compute(model, "cpu", **how)
    found = compute(model, device, **how)
    assert found.keys() == expected.keys() > {"loss"}
    for name, value in expected.items():
        assert_close(found[name], value, BOUND)


@every_device
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("position_type", POSITION_TYPES)
def test_a_position_type_gives_the_processors_numbers(position_type, family, device):
    for kernel in kernels_of(position_type):
        check_same(FAMILIES[family](kernel, position_type=position_type), device)


@every_device
@pytest.mark.parametrize(("family", "attention_type"), EFFICIENT_FAMILIES)
def test_attention_that_forms_no_pairs_gives_the_processors_numbers(family, attention_type, device):
    check_same(FAMILIES[family](attention_type=attention_type), device, has_maps=False)


@every_device
@pytest.mark.parametrize("settings", MECHANISMS, ids=name_of)
def test_a_recurrent_model_gives_the_processors_numbers(settings, device):
    for is_padded in (True, False):
        has_maps = settings.get("score_function") != "none"
        check_same(build_recurrent(**settings), device, is_padded=is_padded, has_maps=has_maps)


@every_device
def test_removing_heads_costs_what_it_costs_on_a_processor(device):
    checkpoint = load_checkpoint(CARDS / "attn-copy")
    model, task = checkpoint.model, checkpoint.task
    shares = []
    for place in ("cpu", device):
        outcomes = measure_outcomes(model.to(place), task, list_trials(model), examples=100)
        shares.append([outcome.exact_match for outcome in outcomes])
    assert shares[1] == pytest.approx(shares[0], abs=0.02)
    assert min(shares[0]) < 0.5


@pytest.mark.gpu
@pytest.mark.parametrize("architecture", ["transformer", "decoder"])
def test_steps_of_a_graph_learn_what_steps_by_themselves_do(architecture, monkeypatch, caplog):
    task = build_task("copy")
    recipe = dataclasses.replace(shorten(task.recipes_of(architecture)["product"]), steps=5 * STEPS)
    model, reports = learn(task, recipe, "cuda")
    assert not caplog.records, "recording failed"
    monkeypatch.setattr(loop, "can_record", lambda *_: False)
    plain, expected = learn(task, recipe, "cuda")
    assert losses(reports) == pytest.approx(losses(expected), rel=BOUND)
    for weight, wanted in zip(model.parameters(), plain.parameters(), strict=True):
        assert_close(weight.detach(), wanted.detach(), 10 * BOUND)


@pytest.mark.gpu
def test_a_run_gives_its_memory_back():
    task = build_task("copy")
    learn(task, shorten(task.recipe), "cuda")  # what stays with the process
    gc.collect()
    before = torch.cuda.memory_allocated()
    learn(task, shorten(task.recipe), "cuda")
    gc.collect()
    assert torch.cuda.memory_allocated() <= before
