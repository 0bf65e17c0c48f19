"""What a GPU computes, it computes without being waited for: on the meta device no number can be read.

Four things must wait, and are not here: a recurrent model whose rows are padded (its kernels take the lengths
as numbers), rows that are packed by their position_ids (transformers looks for the joints in them), whatever
is shown to a person, and the neural ODE, which is solved as far as the last position: on the meta device it
is solved for all, so that only the rest of it is tested.
"""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from hf_attn.models.configuration_recurrent_encoder import RecurrentEncoderConfig
from hf_attn.models.modeling_recurrent_encoder import RecurrentForSequenceClassification
from hf_attn.models.position_relative import ALiBiPositions
from hf_attn.tasks import TASKS, build_task
from hf_attn.tasks.text.corpus import CorpusTask
from tests.support.checks import build_decoder, pad, random_rows
from tests.support.matrix import rows
from tests.support.position_checks import ALL, GATE, kernels_of
from tests.support.recurrent_models import GATE_MECHANISMS, MECHANISMS, build_recurrent, name_of
from tests.support.subjects import EFFICIENT_FAMILIES, FAMILIES

every_family = pytest.mark.parametrize("family", FAMILIES)


class MetaGenerator(torch.Generator):
    """Says that it draws on the meta device, which has no generator of its own."""

    device = torch.device("meta")


class NothingFromElsewhere(TorchDispatchMode):
    """Refuses whatever computes with a tensor of another device, or copies one from it."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        for given in tree_leaves((args, kwargs or {})):
            if isinstance(given, torch.Tensor) and given.device.type != "meta":
                raise RuntimeError(f"{function} of a tensor on {given.device}")
        return function(*args, **(kwargs or {}))


def learn(model, *, is_padded: bool = True, **more) -> None:
    """A step of training on the meta device, dropout included; RuntimeError where a number would be read."""
    ids, mask = pad(random_rows(8, 3, 1, 6), "right") if is_padded else (random_rows(8)[0][None], None)
    is_classifier = hasattr(model.config, "pooling")
    labels = torch.zeros(len(ids), dtype=torch.long) if is_classifier else ids
    given = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    model = model.to("meta").train()
    given = {name: value.to("meta") for name, value in given.items() if value is not None}
    with NothingFromElsewhere():
        model(**given, **more).loss.backward()
    assert all(weight.grad.is_meta for weight in model.parameters() if weight.grad is not None)
    assert any(weight.grad is not None for weight in model.parameters())


@every_family
@pytest.mark.parametrize("position_type", rows(ALL, GATE))
def test_a_model_learns_wherever_its_tokens_stand(family, position_type):
    for kernel in kernels_of(position_type):
        learn(FAMILIES[family](kernel, position_type=position_type, dropout=0.1))


@pytest.mark.parametrize(("family", "attention_type"), EFFICIENT_FAMILIES)
def test_a_model_learns_with_attention_that_forms_no_pairs(family, attention_type):
    learn(FAMILIES[family](attention_type=attention_type))


@pytest.mark.parametrize("settings", rows(MECHANISMS, GATE_MECHANISMS, name_of))
def test_a_recurrent_model_learns_from_rows_of_one_length(settings):
    learn(build_recurrent(**settings), is_padded=False)


@pytest.mark.parametrize("pooling", ["last", "max", "mean"])
def test_a_recurrent_classifier_learns_from_rows_of_one_length(pooling):
    learn(RecurrentForSequenceClassification(RecurrentEncoderConfig(pooling=pooling)), is_padded=False)


DRAWN = [name for name in TASKS if not issubclass(TASKS[name], CorpusTask) and name != "sentences"]


@pytest.mark.parametrize("name", DRAWN)
def test_examples_are_drawn_and_told_apart_by_split(name):
    """A corpus's rows are drawn, and sentences written, word by word in the machine's own memory."""
    task = build_task(name)
    sources, targets, keys = task.draw(MetaGenerator(), 8)
    splits = task.split_of(keys)
    assert {sources.ids.device, targets.ids.device, splits.device} == {torch.device("meta")}
    assert splits.shape == (8,)


@pytest.mark.parametrize("fault", [lambda bias: bias.max().item() * bias, lambda bias: bias * torch.ones(1)])
def test_reading_a_number_or_mixing_devices_is_found(fault, monkeypatch):
    plain = ALiBiPositions.score_terms

    def faulty(self, query_positions, key_positions):
        bias, _ = plain(self, query_positions, key_positions)
        return fault(bias), None

    monkeypatch.setattr(ALiBiPositions, "score_terms", faulty)
    with pytest.raises(RuntimeError, match=r"item|cpu"):
        learn(build_decoder(position_type="alibi"))
