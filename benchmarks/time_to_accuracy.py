"""Seconds of training until ≥99 % of validation examples are written right, freely and greedily.

    python -m benchmarks.time_to_accuracy [--seeds 3] [--limit 1200] [--product] [--threads N] [--quick]

Ours (the task's `document` recipe: the text's size, visible task and batch) beside the text's own recipe
on `nn.Transformer`, seed by seed in turn. Measuring is not counted. Both are judged alike: MEASURED
validation examples every few steps; where those say 99 %, CONFIRMED must say so too. CONFIRMED held-out
examples are measured once, where a run ended.
"""

import argparse
import dataclasses
import math
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import torch
from accelerate import Accelerator

from benchmarks.peers import DOCUMENT, DocumentSettings, build_document_learner
from benchmarks.report import build_arguments, environment, record, show, summary
from hf_attn.architectures.registry import build_model
from hf_attn.evaluation.metrics import exact_matches, predict
from hf_attn.tasks import TASKS, Batch, Recipe, Task, build_task
from hf_attn.training.device import build_accelerator
from hf_attn.training.loop import train

TARGET = 0.99
MEASURED, CONFIRMED = 200, 1000  # examples; fewer where the task has not so many
OURS, PEER, PRODUCT = "ours", "document's recipe", "product"
RATIO_GOALS = {"copy": 100, "parser": 50, "addition": 12}  # wanted: the text's seconds over ours
QUICK_LIMIT = 1.0  # seconds for a peer that is only to show that the script works
QUICK_EVERY = (5, 2)
WARM_STEPS = 2  # of a model thrown away, before a clock runs

# Steps between two measurements, ours and the peer's. Rounding up to the next measurement costs ours, with
# its short runs, the larger share.
MEASURE_EVERY = {"copy": (5, 50), "addition": (5, 25), "parser": (2, 10)}

# What the app runs by default: task, options, seconds wanted.
PRODUCTS: tuple[tuple[str, dict, float], ...] = (
    ("copy", {}, 2),
    ("parser", {}, 1),
    ("parser", {"depth": 3}, 60),
    ("addition", {}, 4),
    ("reverse", {}, 3),
)


Write = Callable[[Batch], torch.Tensor]  # what a model writes for a batch


@dataclass(frozen=True)
class Measurement:
    """How good a model was after so many steps and seconds of training, and how it writes then."""

    step: int
    seconds: float
    exact_match: float
    write: Write


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        reached: whether it came to the target within limit and steps.
        last: the measurement at which it did, or its last one.
    """

    reached: bool
    last: Measurement


def measure_share_right(write: Write, batch: Batch) -> float:
    """Share of a batch that is written right."""
    return float(exact_matches(write(batch), batch.labels).float().mean())


def measure(write: Write, task: Task) -> float:
    """Share right on the measured validation examples, or on the confirming ones where those say 99 %."""
    share = measure_share_right(write, task.validation(MEASURED))
    return share if share < TARGET else measure_share_right(write, task.validation(CONFIRMED))


def measure_ours(
    task: Task, recipe: Recipe, seed: int, every: int, accelerator: Accelerator | None = None
) -> Iterator[Measurement]:
    """Train by our loop, which counts its own seconds and is not told to measure: that is done here."""
    recipe = dataclasses.replace(recipe, report_every=every, evaluate_every=recipe.steps)
    model = build_model(task, recipe, seed)
    generator = torch.Generator().manual_seed(seed)

    def write(batch: Batch) -> torch.Tensor:
        return predict(model, task, batch)

    accelerator = accelerator or build_accelerator("cpu")
    for report in train(task, model, recipe, generator=generator, accelerator=accelerator):
        yield Measurement(report.step, report.seconds, measure(write, task), write)


def measure_document(task: Task, settings: DocumentSettings, seed: int, every: int) -> Iterator[Measurement]:
    """Train by the text's recipe for as long as it is asked to go on."""
    learner = build_document_learner(task, settings, seed)
    step, seconds = 0, 0.0

    def write(batch: Batch) -> torch.Tensor:
        return learner.model.write_greedily(batch, task.max_target_tokens)

    while True:
        started = perf_counter()
        for _ in range(every):
            learner.step()
        seconds += perf_counter() - started
        step += every
        yield Measurement(step, seconds, measure(write, task), write)


def race(measurements: Iterable[Measurement], limit: float = math.inf) -> Outcome:
    for last in measurements:
        if last.exact_match >= TARGET:
            return Outcome(True, last)
        if last.seconds >= limit:
            break
    return Outcome(False, last)


def median_seconds(outcomes: Sequence[Outcome]) -> tuple[float, bool]:
    """(median seconds to the target, whether that is only a lower bound).

    A run that did not reach it would have taken longest, and longer than it was given. The median is known as
    long as the run in the middle (the later of two) reached the target.
    """
    order = sorted(outcomes, key=lambda outcome: (not outcome.reached, outcome.last.seconds))
    lower, upper = order[(len(order) - 1) // 2], order[len(order) // 2]
    return (lower.last.seconds + upper.last.seconds) / 2, not upper.reached


def measure_held_out(task: Task, ends: Iterable[Measurement]) -> list[float]:
    """Share of held-out examples right, of each run where it ended: measured once, and only told."""
    return [measure_share_right(end.write, task.held_out(CONFIRMED)) for end in ends]


def arm_row(name: str, arm: str, outcomes: Sequence[Outcome]) -> dict:
    median, is_lower_bound = median_seconds(outcomes)
    return {
        "task": name,
        "arm": arm,
        "target": TARGET,
        "median_seconds": median,
        "is_lower_bound": is_lower_bound,
        "seconds": summary([outcome.last.seconds for outcome in outcomes]),
        "steps": [outcome.last.step for outcome in outcomes],
        "reached": [outcome.reached for outcome in outcomes],
        "exact_match": [outcome.last.exact_match for outcome in outcomes],
        "seeds": list(range(len(outcomes))),
    }


def tell(name: str, arm: str, seed: int, outcome: Outcome) -> None:
    """One line on standard error for each finished run: a whole benchmark takes a while."""
    last = outcome.last
    print(
        f"{name} {arm} seed {seed}: {last.seconds:.2f} s, {last.step} steps, {last.exact_match:.1%}"
        f"{'' if outcome.reached else ' (target not reached)'}",
        file=sys.stderr,
    )


def warm_up(
    task: Task,
    recipe: Recipe,
    settings: DocumentSettings | None = None,
    accelerator: Accelerator | None = None,
) -> None:
    """Take a few steps of throwaway models, so that no clock sees the process's first ones."""
    for _ in measure_ours(task, dataclasses.replace(recipe, steps=WARM_STEPS), 0, WARM_STEPS, accelerator):
        pass
    if settings is not None:
        next(measure_document(task, settings, 0, WARM_STEPS))


def compare(name: str, seeds: int, limit: float, every: tuple[int, int]) -> list[dict]:
    """Ours and the text's recipe on one task, seed by seed in turn: a row each."""
    settings = DOCUMENT[name]
    task = build_task(name, **settings.task_options)
    ours_every, peer_every = every
    recipe = task.recipes["document"]
    warm_up(task, recipe, settings)
    arms: dict[str, Callable[[int], Outcome]] = {
        OURS: lambda seed: race(measure_ours(task, recipe, seed, ours_every)),
        PEER: lambda seed: race(measure_document(task, settings, seed, peer_every), limit),
    }
    return race_arms(name, task, arms, seeds, limit, RATIO_GOALS[name])


def race_arms(
    name: str,
    task: Task,
    arms: dict[str, Callable[[int], Outcome]],
    seeds: int,
    limit: float,
    goal: float,
) -> list[dict]:
    """Ours and a peer, seed by seed in turn: a row each, the peer's with its ratio to ours."""
    outcomes: dict[str, list[Outcome]] = {arm: [] for arm in arms}
    for seed in range(seeds):
        for arm, run in arms.items():
            outcomes[arm].append(run(seed))
            tell(name, arm, seed, outcomes[arm][-1])
    ours, peer = (
        {
            **arm_row(name, arm, ran),
            "held_out": measure_held_out(task, (one.last for one in ran)),
            "limit": limit,
        }
        for arm, ran in outcomes.items()
    )
    if not ours["is_lower_bound"]:
        peer["ratio_to_ours"] = peer["median_seconds"] / ours["median_seconds"]
        peer["goal"] = goal
    return [ours, peer]


def measure_product(name: str, options: dict, goal: float, seeds: int) -> list[dict]:
    """Our product recipe to its end: seconds to the target, seconds in all, and what it ends at."""
    task = build_task(name, **options)
    warm_up(task, task.recipe)
    outcomes, ends = [], []
    for seed in range(seeds):
        run = list(measure_ours(task, task.recipe, seed, task.recipe.evaluate_every))
        outcomes.append(race(run))
        ends.append(run[-1])
        tell(name, PRODUCT, seed, outcomes[-1])
    label = name + "".join(f" {option}={value}" for option, value in options.items())
    figures = arm_row(label, PRODUCT, outcomes)
    figures["final_exact_match"] = measure_held_out(task, ends)
    figures["final_seconds"] = [end.seconds for end in ends]
    return [figures | {"goal": goal}]


def cells(line: dict) -> list[str]:
    more, at_least = (">", "≥") if line["is_lower_bound"] else ("", "")
    stopped = [share for share, there in zip(line["exact_match"], line["reached"], strict=True) if not there]
    low, high = line["seconds"]["range"]
    final = line.get("final_exact_match") or line["held_out"]
    wanted = "≤{:g} s" if line["arm"] == PRODUCT else "≥{:g}×"
    return [
        line["task"],
        line["arm"],
        f"{more}{line['median_seconds']:.2f}" + (f", {max(stopped):.0%} reached" if stopped else ""),
        f"{low:.2f} – {high:.2f}",
        f"{statistics.median(line['steps']):g}",
        f"{at_least}{line['ratio_to_ours']:.3g}×" if "ratio_to_ours" in line else "",
        f"{statistics.median(final):.1%} (≥{min(final):.1%})",
        wanted.format(line["goal"]) if "goal" in line else "",
    ]


def chosen_work(arguments: argparse.Namespace) -> Iterator[list[dict]]:
    quick = arguments.quick
    seeds, limit = (1, QUICK_LIMIT) if quick else (arguments.seeds, arguments.limit)
    tasks = ["parser"] if quick else arguments.tasks
    if not arguments.product:
        for name in DOCUMENT:
            if name in tasks:
                yield compare(name, seeds, limit, QUICK_EVERY if quick else MEASURE_EVERY[name])
        return
    for name, options, goal in PRODUCTS:
        if name not in TASKS:
            print(f"{name}: there is no such task, its row is left out", file=sys.stderr)
        elif name in tasks and not (quick and options):
            yield measure_product(name, options, goal, seeds)


def main() -> None:
    names = [*DOCUMENT, *(name for name, _, _ in PRODUCTS if name not in DOCUMENT)]
    parser = build_arguments(__doc__.splitlines()[0].replace("%", "%%"), names)
    parser.add_argument("--seeds", type=int, default=3, help="runs of each arm (default: %(default)s)")
    parser.add_argument(
        "--limit", type=float, default=1200, help="seconds a peer may train (default: %(default)s)"
    )
    parser.add_argument("--product", action="store_true", help="product recipes, not the comparison")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    around = {"script": "time_to_accuracy", "quick": arguments.quick, **environment()}
    lines = []
    for measured in chosen_work(arguments):
        record(arguments.output / "time_to_accuracy.jsonl", measured, around)
        lines += measured
    columns = ["task", "arm", "median s to 99 %", "range", "steps", "of ours", "held out", "wanted"]
    show(
        "Seconds of training to 99 % of validation examples", columns, [cells(line) for line in lines], around
    )


if __name__ == "__main__":
    main()
