"""What an experiment is: rows as they are measured, findings computed from them, and a chart."""

import dataclasses
import statistics
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel

from hf_attn.architectures.registry import build_model
from hf_attn.evaluation.metrics import Score, evaluate
from hf_attn.models.config_checks import show_value
from hf_attn.tasks.base import Task
from hf_attn.tasks.recipes import Recipe
from hf_attn.training.device import build_accelerator
from hf_attn.training.duel import count_parameters, find_nearest
from hf_attn.training.loop import Report, train
from hf_attn.utils.text import quote
from hf_attn.viz.draw_chart import Chart

Row = dict[str, Any]  # flat: names to numbers and words
# fields of an experiment's sizes that may be set: type → (kind of each value, an example)
SETTABLE: Mapping[object, tuple[type, str]] = {
    int: (int, "20"),
    str: (str, "copy"),
    tuple[int, ...]: (int, "20,50"),
    tuple[str, ...]: (str, "alibi,none"),
}


@dataclass(frozen=True)
class Finding:
    """What rows say of a claim."""

    claim: str  # a sentence that could be false
    holds: bool  # whether it is true of the rows
    measured: str  # the figures that decide


@dataclass(frozen=True)
class Experiment:
    """A question, how it is measured, and how rows answer it."""

    title: str  # a few words
    question: str  # one sentence
    settings: tuple[str, ...]  # names of a row's settings; its other figures are measured
    sizes: Any  # a frozen dataclass of the size that a small processor measures in minutes
    full: Any  # the same at the size that a text gives
    count: Callable[[Any], int]  # how many rows a seed has, at a size
    run: Callable[[Any, int], Iterator[Row]]  # measures at a size with a seed, row by row
    judge: Callable[[Sequence[Row]], tuple[Finding, ...]]  # what the rows of one or more seeds say
    draw: Callable[[Sequence[Row]], Chart]  # their picture


def resize(sizes: Any, settings: Mapping[str, object]) -> Any:
    """An experiment's sizes with some of its fields set: whole numbers, words, and lists of either.

    A list may be text with commas between, as the command line has it: {"test": "20,50", "task": "copy"}.

    Raises:
        ValueError: there is no such field, or its value is not of its kind.
    """
    kinds = {name: kind for name, kind in typing.get_type_hints(type(sizes)).items() if kind in SETTABLE}
    changes: dict[str, object] = {}
    for name, value in settings.items():
        if name not in kinds:
            known = f"choose {', '.join(kinds)}" if kinds else "it has none"
            raise ValueError(f"This experiment has no setting {quote(name)}; {known}.")
        kind, example = SETTABLE[kinds[name]]
        is_list = kinds[name] not in (int, str)
        parts = value.split(",") if is_list and isinstance(value, str) else value
        given = list(parts) if is_list and isinstance(parts, (list, tuple)) else [parts]
        try:
            read = tuple(one.strip() if kind is str else int(one) for one in map(str, given or [""]))
        except ValueError as error:
            raise ValueError(
                f"{name}={show_value(value)} is not understood; write {name}={example}."
            ) from error
        if kind is int and min(map(int, read)) < 1:
            raise ValueError(f"{name}={show_value(value)} must be at least 1, for example {name}={example}.")
        changes[name] = read if is_list else read[0]
    return dataclasses.replace(sizes, **changes)


def values_of(rows: Sequence[Row], measure: str, **settings) -> list[float]:
    """What was measured with these settings, seed by seed; ValueError where nothing was."""
    found = [row[measure] for row in rows if all(row.get(name) == value for name, value in settings.items())]
    if not found:
        wanted = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        raise ValueError(f"There is no row with {wanted}: run the experiment to its end.")
    return found


def mean_of(rows: Sequence[Row], measure: str, **settings) -> float:
    """The mean of a measure over all rows with these settings."""
    return statistics.fmean(values_of(rows, measure, **settings))


def points_of(rows: Sequence[Row], x: str, measure: str, **settings) -> list[tuple[Any, float]]:
    """The points of a chart's line: each value of the setting `x` with the mean of the measure there."""
    return [
        (value, mean_of(rows, measure, **settings, **{x: value}))
        for value in settings_of(rows, x, **settings)
    ]


def join_figures(figures: Iterable[float], separator: str = " / ") -> str:
    """Three digits of each figure.

    >>> join_figures((0.5, 1))
    '0.500 / 1.000'
    """
    return separator.join(f"{figure:.3f}" for figure in figures)


def settings_of(rows: Sequence[Row], name: str, **settings) -> list:
    """The values that a setting takes, in the order of the rows."""
    matching = [row for row in rows if all(row.get(key) == value for key, value in settings.items())]
    return list(dict.fromkeys(row[name] for row in matching if name in row))


def over_seeds(rows: Sequence[Row], settings: Sequence[str]) -> list[Row]:
    """One row for each choice of settings, its figures the means over seeds.

    Where there are more seeds than one, `seeds` counts them, and each figure that varies has its standard
    deviation beside it, as `name_sd`.
    """
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in settings), []).append(row)
    return [_summary(group, settings) for group in groups.values()]


def _summary(group: Sequence[Row], settings: Sequence[str]) -> Row:
    summary: Row = {name: group[0][name] for name in settings}
    for name in group[0]:
        values = [row[name] for row in group]
        if name in summary or name == "seed":
            continue
        summary[name] = values[0] if len(set(values)) == 1 else statistics.fmean(values)
        if len(set(values)) > 1:
            summary[f"{name}_sd"] = statistics.stdev(values)
    return summary if len(group) == 1 else {**summary, "seeds": len(group)}


def with_parameters(task: Task, recipe: Recipe, wanted: int) -> Recipe:
    """The recipe with the even hidden size whose parameters come nearest to a number.

    An `intermediate_size` keeps its ratio to the hidden size.
    """
    ratio = recipe.model.get("intermediate_size", 0) / recipe.model["hidden_size"]  # type: ignore[operator]

    def sized(half: int) -> Recipe:
        sizes: dict[str, object] = {"hidden_size": 2 * half}
        if ratio:
            sizes["intermediate_size"] = round(ratio * 2 * half)
        return dataclasses.replace(recipe, model={**recipe.model, **sizes})

    return sized(find_nearest(lambda half: count_parameters(task, sized(half)), wanted, guess=1))


def start_training(
    task: Task, recipe: Recipe, seed: int, device: str = "cpu", **settings
) -> tuple[PreTrainedModel, Iterator[Report]]:
    """Build a model and the loop that trains it (`train` with these settings); both follow the seed."""
    model, generator = build_model(task, recipe, seed), torch.Generator().manual_seed(seed)
    accelerator = build_accelerator(device)
    return model, train(task, model, recipe, generator=generator, accelerator=accelerator, **settings)


def learn(task: Task, recipe: Recipe, seed: int) -> tuple[PreTrainedModel, float]:
    """Train a model from its first step to its last; weights, examples and dropout follow the seed.

    Returns:
        (the model, seconds spent on steps).
    """
    quiet = dataclasses.replace(recipe, report_every=recipe.steps, evaluate_every=recipe.steps)
    model, loop = start_training(task, quiet, seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # what dropout and scheduled sampling draw from
        *_, last = loop
    return model, last.seconds


def learn_and_measure(task: Task, recipe: Recipe, seed: int, examples: int = 1000) -> Row:
    """Train, then measure on held-out examples: the figures of a row."""
    model, seconds = learn(task, recipe, seed)
    score = evaluate(model, task, n=examples).overall
    return {
        "parameters": model.num_parameters(),
        "steps": recipe.steps,
        **held_out_figures(score),
        "seconds": round(seconds, 2),
    }


def held_out_figures(score: Score) -> Row:
    """A score as figures of a row."""
    interval = {"low": score.interval.low, "high": score.interval.high}
    return {**score.measures, "exact_match": score.exact_match, **interval, "examples": score.examples}
