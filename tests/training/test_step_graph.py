"""What a GPU would record of a step, taken as it is: the same numbers as the ordinary step."""

import dataclasses

import pytest
import torch

from hf_attn import Batch
from hf_attn.architectures.registry import build_model
from hf_attn.models.positions import POSITION_TYPES
from hf_attn.tasks import TASKS, build_task
from hf_attn.training.device import build_accelerator
from hf_attn.training.loop import Learner, learning_inputs
from hf_attn.training.step_graph import can_record
from tests.support.checks import assert_close, pad, random_rows
from tests.support.families import EFFICIENT, FAMILIES
from tests.support.position_checks import kernels_of
from tests.support.tables import write_table

STEPS = 4
BOUND = 1e-5


class Unrecorded:
    """In a graph's place: calls the step with what a graph would be given, and keeps the shapes."""

    def __init__(self):
        self.shapes = set()

    def run(self, function, inputs):
        self.shapes.add(tuple((name, tuple(value.shape), value.dtype) for name, value in inputs.items()))
        function(**inputs)


def learn(task, recipe, graph=None):
    """The weights and the mean loss after a few steps."""
    model = build_model(task, recipe, seed=0)
    learner = Learner(task, model, recipe, build_accelerator("cpu"))
    assert learner.graph is None, "there is no GPU's graph on a processor"
    learner.graph = graph
    generator = torch.Generator().manual_seed(0)
    for step in range(STEPS):
        learner.learn(task.sample(generator, recipe.batch_size), step)
    return [weight.detach() for weight in model.parameters()], learner.take_loss(STEPS)


@pytest.mark.parametrize("name", TASKS)
def test_a_step_of_fixed_shapes_learns_what_the_ordinary_one_does(name, tmp_path):
    options = {"path": str(write_table(tmp_path))} if name in ("csv", "pairs") else {}
    task = build_task(name, **options)
    model = {key: 0.0 if key.endswith("dropout") else value for key, value in task.recipe.model.items()}
    recipe = dataclasses.replace(task.recipe, model=model, batch_size=4)
    expected, loss = learn(task, recipe)
    weights, found = learn(task, recipe, graph := Unrecorded())
    assert found == pytest.approx(loss, rel=BOUND)
    assert len(graph.shapes) == 1, "a graph computes on the same memory each time"
    for weight, wanted in zip(weights, expected, strict=True):
        assert_close(weight, wanted, 1e-4)


def gradients(model, batch):
    model.zero_grad()
    loss = model(**learning_inputs(model, batch), num_items_in_batch=torch.tensor(9.0)).loss
    loss.backward()
    return [loss.detach(), *(weight.grad for weight in model.parameters() if weight.grad is not None)]


def check_widening(model):
    """Padding beyond the batch's own changes neither loss nor gradients."""
    ids, mask = pad(random_rows(8, 3, 5), "right")
    labels = torch.zeros(len(ids), dtype=torch.long) if hasattr(model.config, "pooling") else ids
    for batch in (Batch(ids, labels, mask), Batch(ids[:1], labels[:1])):
        expected = gradients(model, batch)
        for found, wanted in zip(gradients(model, batch.widened(12, 11)), expected, strict=True):
            assert_close(found, wanted, BOUND)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("position_type", POSITION_TYPES)
def test_padding_to_a_fixed_width_changes_no_position(position_type, family):
    for kernel in kernels_of(position_type):
        check_widening(FAMILIES[family](kernel, position_type=position_type))


@pytest.mark.parametrize(("family", "attention_type"), EFFICIENT)
def test_padding_to_a_fixed_width_changes_no_attention(family, attention_type):
    check_widening(FAMILIES[family](attention_type=attention_type))


def test_what_waits_for_a_value_is_not_recorded():
    task = build_task("copy")
    accelerator = build_accelerator("cpu")
    model = build_model(task, task.recipe, seed=0)
    optimizer = torch.optim.AdamW(model.parameters())
    assert not can_record(model, optimizer, 100, accelerator)
