"""The content of training.json, from which the card is written: training, results, versions."""

import dataclasses
import importlib.metadata
import json
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path

from transformers import PreTrainedModel

from hf_attn.evaluation.baselines import Baseline
from hf_attn.evaluation.failure_search import Search
from hf_attn.evaluation.metrics import Evaluation, Score, describe_interval, predict
from hf_attn.evaluation.reach import measure_least_sure, measure_reach
from hf_attn.tasks import Recipe, Task
from hf_attn.tasks.base import CLASSES, SEQUENCE

CURVE_POINTS = 200  # of a run's reports, at most
KEPT_FAILURES = 20
TIMES, REACH_TRIED = (2, 5, 10, 20), 50  # as long as the longest learned; inputs of each kind
LEAST_SURE, SEARCH_SEED = 50, 1  # of many inputs so many are told; they are others than those tried first
KEPT_OF_SEARCH, KEPT_OF_PATTERN = 8, 2


def build_training_record(
    task: Task,
    recipe: Recipe,
    evaluation: Evaluation | None,
    *,
    seed: int,
    reports: Iterable[Mapping],
    device: str,
    threads: int,
    until: float | None = None,
    baseline: Baseline | None = None,
) -> dict:
    """Build the content of training.json.

    Reports are mappings with step, seconds, loss and validation_exact_match; the last one gives steps and
    seconds of the run. The evaluation is on held-out examples after the last step, None where nothing was
    measured; a classifier's baseline is measured on the same ones. The device is named in words.
    """
    reports = list(reports)
    last = reports[-1] if reports else {"step": 0, "seconds": 0.0}
    return {
        "task": describe_task(task),
        "model": recipe.architecture,
        "recipe": dataclasses.asdict(recipe),
        "seed": seed,
        "until": until,
        "steps": last["step"],
        "seconds": round(last["seconds"], 3),
        "device": device,
        "threads": threads,
        "results": None if evaluation is None else describe_results(task, evaluation, baseline),
        "curve": _thin(
            [
                {name: report.get(name) for name in ("step", "loss", "validation_exact_match")}
                for report in reports
            ]
        ),
        "versions": find_versions(),
    }


def describe_task(task: Task) -> dict:
    """Name and options of a task; of a user's file its name and what its rows are known by, no more."""
    options = dict(task.options)
    if not options.get("path"):
        return {"name": task.name, "options": options}
    options["path"] = Path(str(options["path"])).name
    return {"name": task.name, "options": options, "rows": task.fingerprint()}


def describe_model(model: PreTrainedModel, task: Task) -> dict:
    """Type and size of the model, and its answer to the task's worked example."""
    described: dict = {"model_type": model.config.model_type, "parameters": model.num_parameters()}
    if task.kind == (SEQUENCE if model.can_generate() else CLASSES):
        source = task.worked_example.source
        prediction = task.decode(predict(model, task, task.batch_of([source]))[0].tolist())
        correct = task.verify(source, prediction).correct
        described["worked_example"] = {"source": source, "prediction": prediction, "correct": correct}
    return described


def describe_results(task: Task, evaluation: Evaluation, baseline: Baseline | None) -> dict:
    """Held-out figures, in all and by size, and some of the failures."""
    return {
        "split": "held-out",
        **_describe_score(evaluation.overall),
        "size_name": task.size_name,
        "by_size": {str(size): _describe_score(score) for size, score in evaluation.by_size.items()},
        "baseline": None if baseline is None else _describe_score(baseline.score),
        "failures": _describe_failures(evaluation.failures, KEPT_FAILURES),
    }


def describe_search(search: Search) -> dict:
    """What a search for failures tried, and some of the failures it found."""
    return {
        "held_out": _describe_share(search.held_out.score),
        "made": search.made,
        "by_size": {str(size): _describe_share(score) for size, score in search.by_size.items()},
        "patterns": {
            name: {
                **_describe_share(pattern.score),
                "failures": _describe_failures(pattern.failures, KEPT_OF_PATTERN),
            }
            for name, pattern in search.patterns.items()
        },
        "failures": _describe_failures(search.held_out.failures, KEPT_OF_SEARCH),
    }


def describe_reach(model: PreTrainedModel, task: Task) -> dict:
    """Figures by kind for inputs so many times as long as the longest learned, as TIMES says: {size: …}."""
    return {
        str(times * task.largest_size): {
            kind: _describe_share(score)
            for kind, score in measure_reach(model, task, times * task.largest_size, REACH_TRIED).items()
        }
        for times in TIMES
        if times * task.largest_size <= task.longest_size
    }


def describe_least_sure(model: PreTrainedModel, task: Task, size: int, searched: int) -> dict:
    """Of so many inputs of a size those of which the model is least sure."""
    score = measure_least_sure(model, task, size, searched, LEAST_SURE, SEARCH_SEED)
    return {"size": size, "searched": searched, **_describe_share(score)}


def write_record(record: Mapping) -> str:
    """The text of training.json; ValueError where it holds what JSON cannot, such as infinity."""
    try:
        return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError as error:
        raise ValueError(f"training cannot be written as JSON ({error}): give finite numbers.") from error


def find_versions() -> dict[str, str]:
    """Versions of Python, of the libraries that compute, and of hf_attn."""
    import hf_attn

    packages = ("torch", "transformers", "accelerate")
    versions = {name: importlib.metadata.version(name) for name in packages}
    return {"python": platform.python_version(), **versions, "hf_attn": hf_attn.__version__}


def _describe_share(score: Score) -> dict:
    return {"examples": score.examples, "exact_match": score.exact_match, **describe_interval(score)}


def _describe_score(score: Score) -> dict:
    return {**_describe_share(score), "measures": score.measures}


def _describe_failures(failures: Iterable[tuple[str, str, str]], most: int) -> list[dict]:
    names = ("source", "prediction", "answer")
    return [dict(zip(names, row, strict=True)) for row in list(failures)[:most]]


def _thin(rows: list[dict]) -> list[dict]:
    """At most CURVE_POINTS rows at even distances, with the first and the last."""
    if len(rows) <= CURVE_POINTS:
        return rows
    return [rows[round(place * (len(rows) - 1) / (CURVE_POINTS - 1))] for place in range(CURVE_POINTS)]
