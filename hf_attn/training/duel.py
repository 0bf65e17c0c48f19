"""Several models trained in turns on the same task with the same budget.

Example:
    task = build_task("reverse", max_length=20)
    contestants = match_parameters(task, ("none", "additive", "transformer"), 150_000)
    for turn in duel(task, contestants, Budget(steps=300)):
        print(turn.name, turn.report.step, turn.report.validation_exact_match, turn.evaluation)
"""

import functools
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from transformers import PreTrainedModel

from hf_attn.architectures.memory import count_planned_weights
from hf_attn.architectures.registry import build_config, build_model, find_architecture
from hf_attn.evaluation.metrics import Evaluation, Score, evaluate, pool_scores
from hf_attn.models.config_checks import check_number
from hf_attn.models.positions import POSITION_TYPES, Positions
from hf_attn.tasks.base import CLASSES, SEQUENCE, Task
from hf_attn.tasks.recipes import MOST_STEPS, Recipe
from hf_attn.training.device import build_accelerator
from hf_attn.training.failures import RunFailed
from hf_attn.training.loop import Report, train

MEASUREMENTS = 20  # on validation examples, over a contestant's budget
REPORTS = 100  # turns of a contestant, over its budget
MOST_PARAMETERS = 100_000_000  # of a contestant: tiny models learn here, and even this takes days
TOLERANCE = 0.1  # how far from the wanted number of parameters a contestant may be
FASTEST_STEP = 1e-3  # seconds: no contestant takes less
USUAL_STEP = 0.05  # seconds, of a small model on a processor: says only how often it is measured
SECONDS_SLICE = 3  # steps of a turn where seconds are the budget, so that nobody spends much more

# kind of task → the models that show most beside one another, from the oldest
USUAL = {SEQUENCE: ("none", "additive", "transformer"), CLASSES: ("rnn", "lstm", "transformer")}

Name = TypeVar("Name")


@dataclass(frozen=True)
class Budget:
    """What each contestant may spend: either steps, or seconds of training as `Report.seconds` counts them.

    Raises:
        ValueError: neither or both are given, or one is not above 0.
    """

    steps: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.seconds is None):
            raise ValueError(
                f"steps={self.steps} and seconds={self.seconds}: give exactly one, for example steps=300."
            )
        if self.steps is not None:
            check_number("steps", self.steps, 1, MOST_STEPS, example=300)
        if self.seconds is not None:
            check_number("seconds", self.seconds, FASTEST_STEP, FASTEST_STEP * MOST_STEPS, example=20)

    def spent(self, step: int, seconds: float) -> float:
        """The share of the budget that so many steps and seconds use: 1 is all of it."""
        return step / self.steps if self.steps is not None else seconds / self.seconds  # type: ignore[operator]


@dataclass(frozen=True)
class Turn:
    """A contestant's latest report.

    Attributes:
        name: of the contestant.
        model: its model, as it is now.
        report: how its run stands.
        evaluation: what was measured at the end, on the examples that all are measured on; None before.
    """

    name: str
    model: PreTrainedModel
    report: Report
    evaluation: Evaluation | None = None


def find_usual(task: Task | type[Task]) -> tuple[str, ...]:
    """Return the models that are usually compared on such a task; ValueError where only one learns it."""
    if task.kind not in USUAL:
        raise ValueError(f"Only one model learns task {task.name!r}: there is nothing to compare it with.")
    return USUAL[task.kind]


def count_parameters(task: Task, recipe: Recipe) -> int:
    """Count the weights of a recipe's model without allocating them."""
    model_class = find_architecture(task, recipe.architecture).family.head
    return count_planned_weights(model_class, build_config(task, recipe)).parameters


def match_parameters(task: Task, architectures: Iterable[str], parameters: int) -> dict[str, Recipe]:
    """Make recipes of models with nearly the same number of parameters.

    Args:
        task: what they learn.
        architectures: names of models that learn the task's kind.
        parameters: how many weights each may have.

    Returns:
        For each architecture the task's recipe, its widths chosen by `match_size`.

    Raises:
        ValueError: an architecture that does not learn such a task, or that is larger even at its smallest.
    """
    matched = {}
    for name in architectures:
        find_architecture(task, name)
        matched[name] = match_size(task, task.recipes_of(name)["product"], parameters)
    return matched


def find_nearest(count: Callable[[int], int], wanted: int, guess: int) -> int:
    """Search the whole number from 1 on whose count comes nearest to what is wanted.

    The count grows with the number, at most as its square: each guess takes it for the square, between the
    guesses that were too low and too high.
    """
    low, high = 0, None  # the largest that has too few, the smallest that has not
    while high is None or high - low > 1:
        low, high = (guess, high) if count(guess) < wanted else (low, guess)
        guess = max(low + 1, round(guess * math.sqrt(wanted / count(guess))))
        guess = guess if high is None else min(guess, high - 1)
    return min((number for number in (low, high) if number), key=lambda number: abs(count(number) - wanted))


def match_size(task: Task, recipe: Recipe, parameters: int) -> Recipe:
    """Choose the hidden size that comes closest to a number of parameters; other widths keep their ratio.

    Raises:
        ValueError: even the smallest width has over a tenth more, or so many parameters are not learned here.
    """
    check_number("parameters", parameters, 1, MOST_PARAMETERS, example=150_000)

    @functools.cache
    def count(units: int) -> int:
        return count_parameters(task, _widened(recipe, units))

    guess = max(1, int(recipe.model["hidden_size"]) // _units_of(recipe))  # type: ignore[call-overload]
    nearest = find_nearest(count, parameters, guess)
    if (smallest := count(nearest)) > (1 + TOLERANCE) * parameters and nearest == 1:
        raise ValueError(
            f"parameters={parameters}: {recipe.architecture} has {smallest} even at its smallest; "
            f"choose at least {smallest}."
        )
    return _widened(recipe, nearest)


def _units_of(recipe: Recipe) -> int:
    """The number that a hidden size must be a multiple of: heads and directions share it evenly."""
    heads = int(recipe.model.get("num_attention_heads", 2))  # type: ignore[call-overload]
    positions = POSITION_TYPES.get(str(recipe.model.get("position_type")), Positions)
    return heads * positions.head_multiple


def _widened(recipe: Recipe, units: int) -> Recipe:
    hidden_size = units * _units_of(recipe)
    before = int(recipe.model["hidden_size"])  # type: ignore[call-overload]
    widths = {
        name: max(1, round(width * hidden_size / before))
        for name, width in recipe.model.items()
        if name.endswith("_size") and isinstance(width, int)
    }
    return replace(recipe, model={**recipe.model, **widths, "hidden_size": hidden_size})


def plan_duel(task: Task, contestants: Mapping[str, Recipe], budget: Budget) -> dict[str, Recipe]:
    """Fit recipes to a budget: the same batches for all, and as many measurements.

    With a budget of steps each learning rate falls as its recipe says, to 0 at the last step. Which step is
    the last of so many seconds nobody knows before, so there the learning rate stays as high as it is.

    Raises:
        ValueError: fewer than two contestants, or one that does not learn such a task.
    """
    if len(contestants) < 2:
        raise ValueError(f"A duel needs two models or more, not {', '.join(contestants) or 'none at all'}.")
    batch_size = next(iter(contestants.values())).batch_size
    for recipe in contestants.values():
        find_architecture(task, recipe.architecture)
    fitted: dict[str, Any]
    if budget.steps is not None:
        steps = budget.steps
        fitted = {"report_every": max(1, steps // REPORTS), "evaluate_every": max(1, steps // MEASUREMENTS)}
    else:
        seconds = budget.seconds or 0.0
        steps = math.ceil(seconds / FASTEST_STEP)  # more than there will be
        every = max(1, round(seconds / USUAL_STEP / MEASUREMENTS))
        fitted = {"report_every": min(every, SECONDS_SLICE), "evaluate_every": every, "decay_fraction": 0}
    return {
        name: replace(recipe, batch_size=batch_size, steps=steps, **fitted)
        for name, recipe in contestants.items()
    }


def next_in_turn(spent: Mapping[Name, float]) -> Name | None:
    """Return the contestant that has spent the least share of its budget; None once all is spent."""
    waiting = {name: share for name, share in spent.items() if share < 1}
    return min(waiting, key=waiting.__getitem__) if waiting else None


def duel(
    task: Task,
    contestants: Mapping[str, Recipe],
    budget: Budget,
    *,
    seed: int = 0,
    device: str = "auto",
    report_every_step: threading.Event | None = None,
) -> Iterator[Turn]:
    """Train several models on the same task in turns; close the generator to stop.

    All begin from the same seed and see the same examples in the same order; whoever has used least of the
    budget goes next, so that all grow together and a busy machine slows none alone. Dropout draws from
    torch's global generator: seed it too (`torch.manual_seed`) where a recipe has dropout.

    Args:
        task: what they learn.
        contestants: two recipes or more, by name; `match_parameters` gives models of equal size.
        budget: what each may spend.
        seed: of weights and examples.
        device: "auto", "cpu", "cuda" or "mps".
        report_every_step: once set, every step is reported.

    Yields:
        A turn of each before its first step, then after each slice of steps, and in the end one of each with
        its evaluation on the same held-out examples.

    Raises:
        ValueError: fewer than two contestants, or one that does not learn such a task.
        RunFailed: a contestant's loss is no number any more, or the device failed.
    """
    accelerator = build_accelerator(device)
    planned = plan_duel(task, contestants, budget)
    models = {name: build_model(task, recipe, seed) for name, recipe in planned.items()}
    loops = {
        name: train(
            task,
            models[name],
            recipe,
            generator=torch.Generator().manual_seed(seed),
            accelerator=accelerator,
            report_every_step=report_every_step,
        )
        for name, recipe in planned.items()
    }
    latest = {}
    for name, loop in loops.items():
        latest[name] = next(loop)
        yield Turn(name, models[name], latest[name])
    spent = dict.fromkeys(planned, 0.0)
    while (turn := next_in_turn(spent)) is not None:
        try:
            latest[turn] = report = next(loops[turn])
        except RunFailed as error:
            raise type(error)(f"{turn}: {error}") from error
        spent[turn] = 1.0 if report.step == report.steps else budget.spent(report.step, report.seconds)
        yield Turn(turn, models[turn], report)
    for name, model in models.items():
        yield Turn(name, model, latest[name], evaluate(model, task))


def pool_sizes(by_size: Mapping[int, Score], most: int = 4) -> dict[tuple[int, int], Score]:
    """Pool the scores of neighbouring sizes into groups of as many each: (smallest, largest) → score."""
    sizes = sorted(by_size)
    each = max(1, math.ceil(len(sizes) / most))
    pooled = {}
    for start in range(0, len(sizes), each):
        group = sizes[start : start + each]
        pooled[group[0], group[-1]] = pool_scores([by_size[size] for size in group])
    return pooled
