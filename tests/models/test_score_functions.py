"""Scores and weights of the alignment: against their equations written as loops, their sizes, and padding."""

import math

import pytest
import torch

from hf_attn.models.score_functions import (
    SCORE_FUNCTIONS,
    additive_score,
    luong_concat_score,
    luong_dot_score,
    luong_general_score,
    masked_softmax,
    read_memory,
)
from tests.support.checks import assert_close, assert_different

WITH_WEIGHTS = ("additive", "dot", "general", "concat")


def dot(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def times(matrix: list[list[float]], vector: list[float]) -> list[float]:
    return [dot(row, vector) for row in matrix]


def by_hand(query, memory, score) -> torch.Tensor:
    """`score(s, h)` of every state and every token, one after the other, in plain numbers."""
    return torch.tensor(
        [
            [[score(s, h) for h in tokens] for s in states]
            for states, tokens in zip(query, memory, strict=True)
        ]
    )


def draw(generator, query_size: int = 3, memory_size: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries [2, 4, D] and a memory [2, 5, M]."""
    return torch.randn(2, 4, query_size, generator=generator), torch.randn(
        2, 5, memory_size, generator=generator
    )


def test_additive_score_is_the_equation(generator):
    query, memory = draw(generator, 3, 4)
    w_s, w_h, v = (torch.randn(*size, generator=generator) for size in ((6, 3), (6, 4), (6,)))

    def score(s, h):
        both = zip(times(w_s.tolist(), s), times(w_h.tolist(), h), strict=True)
        return dot(v.tolist(), [math.tanh(a + b) for a, b in both])

    expected = by_hand(query.tolist(), memory.tolist(), score)
    assert_close(additive_score(query, memory, w_s, w_h, v), expected)


def test_luong_dot_score_is_the_equation(generator):
    query, memory = draw(generator)
    assert_close(luong_dot_score(query, memory), by_hand(query.tolist(), memory.tolist(), dot))


def test_luong_general_score_is_the_equation(generator):
    query, memory = draw(generator, 3, 4)
    w = torch.randn(3, 4, generator=generator)
    expected = by_hand(query.tolist(), memory.tolist(), lambda s, h: dot(s, times(w.tolist(), h)))
    assert_close(luong_general_score(query, memory, w), expected)


def test_luong_concat_score_is_the_equation(generator):
    query, memory = draw(generator, 3, 4)
    w, v = torch.randn(6, 7, generator=generator), torch.randn(6, generator=generator)

    def score(s, h):
        return dot(v.tolist(), [math.tanh(x) for x in times(w.tolist(), [*s, *h])])

    assert_close(luong_concat_score(query, memory, w, v), by_hand(query.tolist(), memory.tolist(), score))


def test_a_score_s_module_gives_what_its_function_gives(generator):
    query, memory = draw(generator, 3, 4)
    additive, general, concat = (SCORE_FUNCTIONS[name](3, 4, 6) for name in ("additive", "general", "concat"))
    v = {module: module.score_proj.weight[0] for module in (additive, concat)}
    expected = {
        additive: additive_score(
            query, memory, additive.query_proj.weight, additive.memory_proj.weight, v[additive]
        ),
        general: luong_general_score(query, memory, general.memory_proj.weight),
        concat: luong_concat_score(query, memory, concat.concat_proj.weight, v[concat]),
    }
    for module, scores in expected.items():
        assert_close(module(query, module.project(memory)), scores)
    query, memory = draw(generator)
    plain = SCORE_FUNCTIONS["dot"](3, 3, 6)
    assert_close(plain(query, plain.project(memory)), luong_dot_score(query, memory))


@pytest.mark.parametrize("name", WITH_WEIGHTS)
def test_all_steps_at_once_score_as_each_step_alone(name, generator):
    query, memory = draw(generator)
    score = SCORE_FUNCTIONS[name](3, 3, 6)
    projected = score.project(memory)
    together = score(query, projected)
    assert together.shape == (2, 4, 5)
    for place in range(4):
        assert_close(together[:, place : place + 1], score(query[:, place : place + 1], projected))


@pytest.mark.parametrize(
    ("name", "attention_size", "parameters"),
    [("additive", 64, 16_448), ("dot", 64, 0), ("general", 64, 16_384), ("concat", 128, 32_896)],
)
def test_scores_at_the_document_s_size_have_this_many_parameters(name, attention_size, parameters):
    score = SCORE_FUNCTIONS[name](128, 128, attention_size)
    assert sum(weight.numel() for weight in score.parameters()) == parameters


def test_no_attention_is_a_row_of_the_table_without_a_module():
    assert SCORE_FUNCTIONS["none"] is None
    assert set(SCORE_FUNCTIONS) == {"none", *WITH_WEIGHTS}


# Weights


def test_weights_sum_to_1_over_tokens_and_padding_gets_exactly_0(generator):
    scores = 5 * torch.randn(3, 4, 6, generator=generator)
    may_attend = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 1, 1]]).bool()
    weights = masked_softmax(scores, may_attend)
    assert_close(weights.sum(-1), torch.ones(3, 4))
    assert (weights.transpose(1, 2)[~may_attend] == 0).all()
    for row, its_scores, its_mask in zip(weights, scores, may_attend, strict=True):
        assert_close(
            row[:, its_mask], its_scores[:, its_mask].exp() / its_scores[:, its_mask].exp().sum(-1, True)
        )
    assert_close(masked_softmax(scores), masked_softmax(scores, torch.ones(3, 6).bool()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_where_nothing_may_be_read_the_weights_are_0_and_so_are_the_gradients(dtype):
    scores = torch.full((1, 2, 3), 3.0, dtype=dtype, requires_grad=True)
    weights = masked_softmax(scores, torch.zeros(1, 3).bool())
    assert (weights == 0).all()
    weights.sum().backward()
    assert (scores.grad == 0).all()


@pytest.mark.parametrize("name", WITH_WEIGHTS)
def test_the_context_is_the_weighted_sum_of_the_memory(name, generator):
    query, memory = draw(generator)
    score = SCORE_FUNCTIONS[name](3, 3, 6)
    may_attend = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 1, 0, 1]]).bool()
    contexts, weights = read_memory(score, query, score.project(memory), memory, may_attend)
    for row in range(2):
        for step in range(4):
            expected = sum(weights[row, step, place] * memory[row, place] for place in range(5))
            assert_close(contexts[row, step], expected)
    other = memory.clone()
    other[1, 0] += 1  # padding
    assert_close(read_memory(score, query, score.project(other), other, may_attend)[0], contexts)
    assert_different(read_memory(score, query, score.project(other), other)[0], contexts)
