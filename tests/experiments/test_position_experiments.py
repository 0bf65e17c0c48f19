"""Positions inside and beyond the trained length, and digit growth: what is learned, measured and judged."""

import pytest
import torch

from hf_attn.architectures.registry import build_model
from hf_attn.evaluation.metrics import predict
from hf_attn.experiments import position_extrapolation
from hf_attn.experiments.length_generalization import (
    ADDITION,
    CANNOT,
    LengthTest,
    explain_refusal,
    measure_size,
    run_length_test,
    stretch,
)
from hf_attn.models.positions import POSITION_TYPES

COPY = LengthTest("copy", 4, (3, 4, 5, 8), steps=4)
ADD = LengthTest(ADDITION, 2, (1, 2, 3), steps=4)


def untrained(growth, position_type):
    return build_model(growth.learned(), growth.recipe(position_type)).eval()


# What is learned and what is measured


@pytest.mark.parametrize("growth", [COPY, ADD], ids=["copy", "addition"])
def test_a_size_is_measured_in_the_symbols_that_were_learned(growth):
    for size in growth.tested:
        task = growth.sized(size)
        assert task.vocabulary == growth.learned().vocabulary
        sources = [task.read_source(row) for row in task.held_out(50).input_ids.tolist()]
        assert size in {task.size_of(source) for source in sources}
    assert growth.beyond == tuple(size for size in growth.tested if size > growth.trained)


def test_no_held_out_sum_is_drawn_in_training_at_any_size():
    held_out = {tuple(row) for row in ADD.sized(2).held_out(300).input_ids.tolist()}
    drawn = ADD.learned().sample(torch.Generator().manual_seed(1), 3000).input_ids.tolist()
    assert held_out.isdisjoint(map(tuple, drawn))


@pytest.mark.parametrize(("fields", "words"), [
    (("sort", 4, (5,)), "choose one of copy, reverse, addition"),
    (("copy", 4, ()), "tested is empty"),
    ((ADDITION, 4, (2, 0)), "tested=0 must be a whole number from 1 to 1,000"),
])  # fmt: skip
def test_what_cannot_grow_is_refused_in_words(fields, words):
    with pytest.raises(ValueError, match=words):
        LengthTest(*fields)


# Beyond is beyond


@pytest.mark.parametrize("position_type", POSITION_TYPES)
def test_only_ways_without_a_place_beyond_refuse_it_and_in_their_own_words(position_type):
    model = untrained(COPY, position_type)
    assert model.config.max_position_embeddings == COPY.learned().max_position_embeddings
    assert explain_refusal(model, COPY.sized(4)) is None
    refusal = explain_refusal(model, COPY.sized(8))
    assert (refusal is None) == POSITION_TYPES[position_type].extrapolates
    score = measure_size(model, COPY, 8, examples=4)
    assert (score is None) == (refusal is not None)
    if refusal:
        assert "9 tokens" in refusal
        assert "max_position_embeddings=5" in refusal


@pytest.mark.parametrize("position_type", ["learned_interpolated", "rotary_interpolated", "rotary_ntk"])
def test_a_stretched_model_writes_long_answers_and_leaves_the_first_as_it_was(position_type):
    model = untrained(COPY, position_type)
    batch = COPY.sized(4).held_out(4)
    before = predict(model, COPY.sized(4), batch)
    stretched = stretch(model, 9)
    assert stretched.config.position_scaling_factor == 9 / 5
    assert predict(stretched, COPY.sized(8), COPY.sized(8).held_out(4)).shape == (4, 9)
    assert model.config.position_scaling_factor is None
    assert torch.equal(predict(model, COPY.sized(4), batch), before)
    assert stretch(model, 5) is model


# A step's time and memory


def test_what_a_pass_keeps_is_counted_once_and_without_the_weights():
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1000))

        def forward(self, given):
            doubled = given * self.weight  # keeps what is given
            return type("Output", (), {"loss": (doubled * doubled).sum()})()  # keeps the product, twice

    assert position_extrapolation.measure_kept(Two(), {"given": torch.ones(1000)}) == 2 * 4 * 1000


# Rows and verdicts


@pytest.fixture(scope="module")
def rows():
    sizes = position_extrapolation.Sizes(("none", "learned", "alibi"), (COPY, ADD), examples=10)
    return list(position_extrapolation.run(sizes, 0))


def test_a_way_that_cannot_go_beyond_says_so_and_is_no_nought(rows):
    beyond = {(row["task"], row["position_type"]): row["beyond"] for row in rows}
    assert beyond["copy", "learned"] == CANNOT
    assert isinstance(beyond["copy", "alibi"], float)
    assert isinstance(beyond[ADDITION, "learned"], float)  # all its places were met
    refusing = position_extrapolation.judge(rows)[-1]
    assert refusing.holds
    assert "learned" in refusing.measured


# Watched


def test_a_watched_run_measures_every_size_and_says_where_it_stands():
    moments = list(run_length_test(COPY, "learned", rounds=2, examples=5))
    assert next(moment.measured_at for moment in moments if moment.scores) == 2
    last = moments[-1]
    assert (last.step, last.steps, last.measured_at) == (4, 4, 4)
    assert {size: score is None for size, score in last.scores.items()} == {
        3: False,
        4: False,
        5: True,
        8: True,
    }
    assert moments[0].step == 0
    assert len(moments[0].scores) == 0
