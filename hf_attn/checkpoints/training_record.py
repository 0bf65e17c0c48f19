"""How a model came about and what it can do: what training.json holds, and a card is written from."""

import dataclasses
import importlib.metadata
import json
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path

from transformers import PreTrainedModel

from hf_attn.evaluation.baselines import Baseline
from hf_attn.evaluation.failure_search import Search
from hf_attn.evaluation.metrics import Evaluation, Score, predict
from hf_attn.tasks import Recipe, Task
from hf_attn.tasks.base import CLASSES, SEQUENCE

CURVE_POINTS = 200  # of a run's reports, as many as a curve can show
KEPT_FAILURES = 20
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
    """How a model came about and what it can do, for training.json and the card.

    Args:
        task: what was learned.
        recipe: how.
        evaluation: measured on held-out examples after the last step; None where nothing was measured.
        seed: of weights and examples.
        reports: the run's reports as mappings with step, seconds, loss and held_out_exact_match; the last one
            gives steps and seconds.
        device: where it was trained, in words.
        threads: processor threads that torch used.
        until: the accuracy at which the run was to stop, if any.
        baseline: of a task that names classes, measured on the same held-out examples.
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
                {name: report.get(name) for name in ("step", "loss", "held_out_exact_match")}
                for report in reports
            ]
        ),
        "versions": find_versions(),
    }


def describe_task(task: Task) -> dict:
    """Name and options; of a file of the user's only its name, since the folder may be shown to others."""
    options = dict(task.options)
    if options.get("path"):
        options["path"] = Path(str(options["path"])).name
    return {"name": task.name, "options": options}


def describe_model(model: PreTrainedModel, task: Task) -> dict:
    """Type and size of the model, and what it makes of the task's worked example."""
    described: dict = {"model_type": model.config.model_type, "parameters": model.num_parameters()}
    if task.kind == (SEQUENCE if model.can_generate() else CLASSES):
        source = task.worked_example.source
        prediction = task.decode(predict(model, task, task.batch_of([source]))[0].tolist())
        correct = task.verify(source, prediction).correct
        described["worked_example"] = {"source": source, "prediction": prediction, "correct": correct}
    return described


def describe_results(task: Task, evaluation: Evaluation, baseline: Baseline | None) -> dict:
    """Held-out figures, by size too, and some of the failures."""
    return {
        "split": "held-out",
        **_describe_score(evaluation.overall),
        "size_name": task.size_name,
        "by_size": {str(size): _describe_score(score) for size, score in evaluation.by_size.items()},
        "baseline": None if baseline is None else _describe_score(baseline.score),
        "failures": _describe_failures(evaluation.failures, KEPT_FAILURES),
    }


def describe_search(search: Search) -> dict:
    """What was tried to find failures, and some of those that were found."""
    return {
        "held_out": _describe_share(search.held_out.score),
        "made": search.made,
        "by_size": {str(size): _describe_share(score) for size, score in search.by_size.items()},
        "patterns": {
            name: {
                **_describe_share(tried.score),
                "failures": _describe_failures(tried.failures, KEPT_OF_PATTERN),
            }
            for name, tried in search.patterns.items()
        },
        "failures": _describe_failures(search.held_out.failures, KEPT_OF_SEARCH),
    }


def write_record(record: Mapping) -> str:
    """The text of training.json."""
    return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def find_versions() -> dict[str, str]:
    """Of Python and of what computes."""
    packages = ("torch", "transformers", "accelerate")
    found = {name: importlib.metadata.version(name) for name in packages}
    return {"python": platform.python_version(), **found, "hf_attn": _own_version()}


def _describe_share(score: Score) -> dict:
    return {
        "examples": score.examples,
        "exact_match": score.exact_match,
        "interval": [score.interval.low, score.interval.high],
    }


def _describe_score(score: Score) -> dict:
    return {**_describe_share(score), "measures": score.measures}


def _describe_failures(failures: Iterable[tuple[str, str, str]], most: int) -> list[dict]:
    names = ("source", "prediction", "answer")
    return [dict(zip(names, row, strict=True)) for row in list(failures)[:most]]


def _own_version() -> str:
    import hf_attn

    return hf_attn.__version__


def _thin(rows: list[dict]) -> list[dict]:
    """At most CURVE_POINTS rows, evenly chosen, the first and the last among them."""
    if len(rows) <= CURVE_POINTS:
        return rows
    return [rows[round(place * (len(rows) - 1) / (CURVE_POINTS - 1))] for place in range(CURVE_POINTS)]
