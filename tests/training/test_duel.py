"""A duel is fair: equal sizes, the same examples, equal budgets, and nobody waits for another."""

from dataclasses import replace

import pytest
import torch

from hf_attn.architectures.families import architectures_of
from hf_attn.architectures.registry import build_model
from hf_attn.evaluation.metrics import Interval, Score, evaluate
from hf_attn.tasks import TASKS, build_task
from hf_attn.tasks.base import TEXT
from hf_attn.training.duel import (
    SECONDS_SLICE,
    TOLERANCE,
    Budget,
    count_parameters,
    duel,
    find_usual,
    match_parameters,
    match_size,
    next_in_turn,
    plan_duel,
    pool_sizes,
)
from hf_attn.training.failures import Diverged
from hf_attn.training.loop import train
from tests.support.commands import in_process

COPY = build_task("copy", max_length=5, num_symbols=9)
PAIR = match_parameters(COPY, ("none", "transformer"), 8_000)


@pytest.fixture(scope="module")
def turns():
    """Every turn of a duel of 12 steps each."""
    return list(duel(COPY, PAIR, Budget(steps=12), device="cpu"))


# ---------------------------------------------------------------- sizes


@pytest.mark.parametrize("parameters", [50_000, 150_000, 400_000])
@pytest.mark.parametrize("name", ["reverse", "brackets"])
def test_matched_models_have_as_good_as_the_same_number_of_parameters(name, parameters):
    task = build_task(name)
    matched = match_parameters(task, architectures_of(task.kind), parameters)
    for recipe in matched.values():
        assert abs(count_parameters(task, recipe) / parameters - 1) < TOLERANCE


def test_no_other_width_comes_closer():
    task = build_task("copy")
    recipe = match_size(task, task.recipe, 150_000)
    gap = abs(count_parameters(task, recipe) - 150_000)
    for width in (recipe.model["hidden_size"] - 2, recipe.model["hidden_size"] + 2):
        sizes = {"hidden_size": width, "intermediate_size": 2 * width}
        other = replace(recipe, model={**recipe.model, **sizes})
        assert abs(count_parameters(task, other) - 150_000) >= gap


def test_heads_share_the_width_evenly_also_where_rotary_turns_pairs():
    task = build_task("copy")
    model = {**task.recipe.model, "num_attention_heads": 4, "position_type": "rotary"}
    recipe = match_size(task, replace(task.recipe, model=model), 60_000)
    assert recipe.model["hidden_size"] % 8 == 0
    assert recipe.model["intermediate_size"] == 2 * recipe.model["hidden_size"]


def test_a_number_below_the_smallest_model_is_refused_with_what_would_do():
    with pytest.raises(ValueError, match="even at its smallest; choose at least") as refused:
        match_parameters(COPY, ("transformer",), 10)
    enough = int(str(refused.value).split("at least ")[-1].rstrip("."))
    assert count_parameters(COPY, match_parameters(COPY, ("transformer",), enough)["transformer"]) == enough


def test_usual_contestants_learn_the_task_and_text_has_none():
    for name in ("copy", "parity"):
        task = build_task(name)
        assert set(match_parameters(task, find_usual(task), 60_000)) == set(find_usual(task))
    texts = [task for task in TASKS.values() if task.kind == TEXT]
    for task in texts:
        with pytest.raises(ValueError, match="nothing to compare"):
            find_usual(task)


# ---------------------------------------------------------------- budgets and turns


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "exactly one"),
        ({"steps": 0}, "steps=0"),
        ({"seconds": float("inf")}, "seconds=inf"),
    ],
)
def test_a_budget_is_steps_or_seconds(given, words):
    with pytest.raises(ValueError, match=words):
        Budget(**given)


def test_whoever_has_used_least_goes_next():
    assert next_in_turn({"a": 0.5, "b": 0.25, "c": 1.0}) == "b"
    assert next_in_turn({"a": 0.5, "b": 0.5}) == "a"
    assert next_in_turn({"a": 1.0, "b": 1.2}) is None


def test_over_seconds_batches_are_alike_rates_stay_high_and_turns_are_short():
    contestants = {
        name: replace(recipe, batch_size=8 * place) for place, (name, recipe) in enumerate(PAIR.items(), 1)
    }
    for recipe in plan_duel(COPY, contestants, Budget(seconds=60)).values():
        assert (recipe.batch_size, recipe.decay_fraction, recipe.report_every) == (8, 0, SECONDS_SLICE)
        assert recipe.evaluate_every > SECONDS_SLICE


def test_all_learn_in_turns_to_the_same_step_and_are_measured_on_the_same_examples(turns):
    steps = [(turn.name, turn.report.step) for turn in turns if turn.evaluation is None]
    assert steps == [(name, step) for step in range(13) for name in PAIR]
    last = [turn for turn in turns if turn.evaluation is not None]
    assert [turn.name for turn in last] == list(PAIR)
    examples = [{size: score.examples for size, score in turn.evaluation.by_size.items()} for turn in last]
    assert examples[0] == examples[1]


def test_a_contestant_learns_as_it_would_alone(turns):
    theirs = next(turn.model for turn in turns if turn.name == "transformer")
    recipe = replace(PAIR["transformer"], steps=12, batch_size=PAIR["none"].batch_size)
    model = build_model(COPY, recipe, seed=0)
    for _ in train(COPY, model, recipe, generator=torch.Generator().manual_seed(0)):
        pass
    assert all(torch.equal(value, theirs.state_dict()[name]) for name, value in model.state_dict().items())
    last = [turn.evaluation for turn in turns if turn.evaluation is not None]
    assert last[1].overall == evaluate(model, COPY).overall


def test_equal_seconds_are_spent_by_all_and_one_turn_more_at_most():
    reports = {name: [] for name in PAIR}
    for turn in duel(COPY, PAIR, Budget(seconds=0.4), device="cpu"):
        if turn.evaluation is None:
            reports[turn.name].append(turn.report)
    for *_, before, last in reports.values():
        assert before.seconds < 0.4 <= last.seconds
        assert last.step - before.step <= SECONDS_SLICE
        assert last.learning_rate >= before.learning_rate  # still warming up, or as high as it gets


def test_a_duel_needs_two_and_names_the_one_that_diverges():
    with pytest.raises(ValueError, match="two models or more, not none"):
        next(duel(COPY, {"none": PAIR["none"]}, Budget(steps=1)))
    wild = {**PAIR, "none": replace(PAIR["none"], learning_rate=1e20, max_grad_norm=0.0, warmup_steps=0)}
    with pytest.raises(Diverged, match=r"^none: "):
        list(duel(COPY, wild, Budget(steps=8), device="cpu"))


# ---------------------------------------------------------------- by size


def test_pooled_sizes_count_every_example_once():
    by_size = {size: Score(size, 1.0 if size < 4 else 0.5, Interval(0, 1)) for size in (2, 3, 4, 6, 8)}
    pooled = pool_sizes(by_size, most=3)
    assert list(pooled) == [(2, 3), (4, 6), (8, 8)]
    assert [score.examples for score in pooled.values()] == [5, 10, 8]
    assert [score.exact_match for score in pooled.values()] == [1.0, 0.5, 0.5]
    assert pooled[4, 6].interval.low < 0.5 < pooled[4, 6].interval.high
    assert pool_sizes({}) == {}


# ---------------------------------------------------------------- the command

SMALL = ("duel", "copy", "--set", "max_length=5", "--parameters", "20000", "--device", "cpu")


def test_the_command_prints_a_line_a_model_and_its_accuracy_by_length(capsys):
    code, output, _ = in_process(capsys, *SMALL, "--models", "none,transformer", "--steps", "4")
    assert code == 0
    assert "copy, max_length=5" in output
    assert output.count("none") == output.count("transformer") == 2
    assert "held out by length" in output
    assert "…" not in output


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--models", "none,none"), "each once"),
        (("--models", "none,gru"), "does not learn task"),
        (("--steps", "2", "--seconds", "3"), "exactly one"),
        (("--set", "hidden_size=64"), "leave it out"),
    ],
)
def test_wrong_use_is_one_line(capsys, more, words):
    code, output, errors = in_process(capsys, *SMALL, *more)
    assert (code, output) == (2, "")
    assert words in errors
    assert len(errors.strip().splitlines()) == 1
