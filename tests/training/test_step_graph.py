"""What a GPU would record of a step, taken as it is: the same numbers as the ordinary step."""

import dataclasses
from types import SimpleNamespace

import pytest
import torch

from hf_attn import Batch
from hf_attn.architectures.registry import build_model
from hf_attn.generation.decoders import is_decoder_only
from hf_attn.tasks import TASKS, build_task
from hf_attn.tasks.batch import pad_inputs
from hf_attn.training import step_graph
from hf_attn.training.device import build_accelerator
from hf_attn.training.loop import Learner, learning_inputs
from hf_attn.training.step_graph import CALLS_BEFORE, MOST_TOKENS, StepGraph, can_record
from tests.support.checks import assert_close, pad, random_rows
from tests.support.matrix import rows
from tests.support.position_checks import ALL, GATE, kernels_of
from tests.support.recordings import NOT_RECORDED, on_processors
from tests.support.subjects import EFFICIENT_FAMILIES, FAMILIES
from tests.support.tables import write_table

STEPS = 6
BOUND = 1e-5


@pytest.fixture
def graphs(monkeypatch):
    """The graphs that were recorded in this test, on the processor."""
    monkeypatch.setattr(step_graph, "_FAILED", {})
    return on_processors(monkeypatch)


def learn(task, recipe, graph=None):
    """The learner after a few steps, with the mean loss."""
    model = build_model(task, recipe, seed=0)
    learner = Learner(task, model, recipe, build_accelerator("cpu"))
    assert learner.graph is None, "there is no GPU's graph on a processor"
    learner.graph = graph
    generator = torch.Generator().manual_seed(0)
    for step in range(STEPS):
        learner.learn(task.sample(generator, recipe.batch_size), step)
    return learner, learner.take_loss(STEPS)


def check_alike(learner, other):
    """The same weights, but for keys' biases: AdamW makes their gradients, mere rounding, as large as any."""
    weights = dict(learner.bare.named_parameters())
    for name, wanted in other.bare.named_parameters():
        if not name.endswith("k_proj.bias"):
            assert_close(weights[name].detach(), wanted.detach(), 1e-4)


def small(task, **settings):
    """The task's recipe with few examples a batch and without dropout."""
    is_drawn = ("dropout", "crowd_noise")
    model = {key: 0.0 if key.endswith(is_drawn) else value for key, value in task.recipe.model.items()}
    return dataclasses.replace(task.recipe, model=model | settings, batch_size=4)


@pytest.mark.parametrize("name", rows([*TASKS, "text, learned"], ("copy", "phrases", "sentences")))
def test_a_recorded_step_learns_what_the_ordinary_one_does(name, tmp_path, graphs):
    name, *position_type = name.split(", ")
    settings = {"position_type": "learned"} if position_type else {}
    options = {"path": str(write_table(tmp_path))} if name in ("csv", "pairs") else {}
    task = build_task(name, **options)
    recipe = small(task, **settings)
    expected, loss = learn(task, recipe)
    learner, found = learn(task, recipe, graph := StepGraph(torch.device("cpu")))
    assert found == pytest.approx(loss, rel=BOUND)
    check_alike(learner, expected)
    (recorded,) = graphs
    assert graph.graph is recorded
    assert recorded.replays == STEPS - CALLS_BEFORE, "every step behind the first ones is a replay"
    assert all(group["capturable"] for group in learner.optimizer.param_groups)


def test_a_step_that_cannot_be_recorded_is_taken_as_it_is_and_so_are_all_after_it(graphs, caplog):
    task = build_task("copy")
    recipe = dataclasses.replace(small(task), max_grad_norm=0)  # clipping would hide gradients that were left
    expected, loss = learn(task, recipe)
    stepping = torch.optim.AdamW.step

    def waits(self, *given):  # behind the backward pass, which leaves gradients
        if graphs and not step_graph._FAILED:
            raise RuntimeError(NOT_RECORDED)
        return stepping(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.AdamW, "step", waits)
        learner, found = learn(task, recipe, graph := StepGraph(torch.device("cpu")))
        assert (graph.graph, list(step_graph._FAILED.values())) == (None, graphs)
        assert NOT_RECORDED in caplog.text
        assert found == pytest.approx(loss, rel=BOUND)
        check_alike(learner, expected)
        learner, _ = learn(task, recipe, StepGraph(torch.device("cpu")))
    check_alike(learner, expected)
    assert len(graphs) == 1, "none is recorded in this process behind one that failed"


def test_inputs_of_another_shape_are_not_replayed(graphs):
    found = torch.zeros(())

    def add(numbers):
        found.add_(numbers.sum())

    graph = StepGraph(torch.device("cpu"))
    for call in range(8):
        graph.run(add, {"numbers": torch.ones(2 + (call == 6))})
    assert float(found) == 17
    assert graphs[0].replays == 8 - CALLS_BEFORE - 1


def gradients(model, inputs):
    model.zero_grad()
    loss = model(**inputs, num_items_in_batch=torch.tensor(9.0)).loss
    loss.backward()
    return [loss.detach(), *(weight.grad for weight in model.parameters() if weight.grad is not None)]


def check_widening(model):
    """Padding beyond the batch's own changes neither loss nor gradients."""
    ids, mask = pad(random_rows(8, 3, 5), "right")
    labels = torch.zeros(len(ids), dtype=torch.long) if hasattr(model.config, "pooling") else ids
    for batch in (Batch(ids, labels, mask), Batch(ids[:1], labels[:1])):
        inputs = learning_inputs(model, batch)
        expected = gradients(model, inputs)
        widths = (20, 20) if is_decoder_only(model) else (12, 11)
        for found, wanted in zip(gradients(model, pad_inputs(inputs, *widths)), expected, strict=True):
            assert_close(found, wanted, BOUND)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("position_type", rows(ALL, GATE))
def test_padding_to_a_fixed_width_changes_no_position(position_type, family):
    for kernel in kernels_of(position_type):
        check_widening(FAMILIES[family](kernel, position_type=position_type))


@pytest.mark.parametrize(("family", "attention_type"), EFFICIENT_FAMILIES)
def test_padding_to_a_fixed_width_changes_no_attention(family, attention_type):
    check_widening(FAMILIES[family](attention_type=attention_type))


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"device": torch.device("cpu")},
        {"num_processes": 2},
        {"mixed_precision": "fp16"},
        {"optimizer": torch.optim.Adafactor},
        {"recipe": "additive"},
        {"tokens": MOST_TOKENS + 1},
        {"first_safe": "99"},
    ],
    ids=str,
)
def test_what_waits_for_a_value_is_not_recorded(broken, monkeypatch):
    task = build_task("reverse")
    given = {"device": torch.device("cuda"), "num_processes": 1, "mixed_precision": "no"} | broken
    model = build_model(
        task, next(iter(task.recipes_of(broken.get("recipe", "transformer")).values())), seed=0
    )
    optimizer = broken.get("optimizer", torch.optim.AdamW)(model.parameters())
    monkeypatch.setattr(step_graph, "FIRST_SAFE", broken.get("first_safe", "2"))
    accelerator = SimpleNamespace(**given)
    assert can_record(model, optimizer, broken.get("tokens", 100), accelerator) == (not broken)
