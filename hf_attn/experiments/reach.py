"""Learned on short inputs, measured on long ones: how far what was learned reaches.

A run does not look at long inputs: it has a fixed number of steps, and is made anew from other weights with
twice as many where an example of validation, of the lengths that are learned, is wrong. The recipe was chosen
on seeds 0 to 5, looking at long ones too. They are drawn by kinds (`Task.beyond`), and judged by Python's own
integers.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from transformers import PreTrainedModel

from hf_attn.evaluation.metrics import Score, evaluate, measure_quickly
from hf_attn.evaluation.reach import measure_reach
from hf_attn.experiments.base import Experiment, Finding, Row, learn, points_of, settings_of
from hf_attn.models.config_checks import check_choice, check_number
from hf_attn.tasks.base import Task
from hf_attn.tasks.recipes import REACHING, Recipe
from hf_attn.tasks.splits import HELD_OUT
from hf_attn.tasks.synthetic.arithmetic import Arithmetic
from hf_attn.tasks.synthetic.copying import Copying
from hf_attn.tasks.synthetic.reversing import Reversing
from hf_attn.tasks.synthetic.sorting import Sorting
from hf_attn.viz.draw_chart import Chart

TASKS_BY_NAME: Mapping[str, Callable[[int], Task]] = {  # name → the task up to a size
    "addition": lambda size: Arithmetic(digits=size),
    "addition of 3": lambda size: Arithmetic(digits=size, terms=3),
    "addition of 4": lambda size: Arithmetic(digits=size, terms=4),
    "addition of 5": lambda size: Arithmetic(digits=size, terms=5),
    "subtraction": lambda size: Arithmetic("subtract", digits=size),
    "multiplication": lambda size: Arithmetic("multiply", digits=size),
    "copy": lambda size: Copying(size),
    "reverse": lambda size: Reversing(size),
    "sort": lambda size: Sorting(length=size, shortest=1),
}
LEARNED_TABLE: Mapping[str, object] = {"position_initializer_range": 1.0, "crowd_noise": 0.0}
# what a model is given, beside the recipe's own: places, and the two things that let them carry far
MODELS: Mapping[str, Mapping[str, object]] = {
    "both_ends": {"position_type": "both_ends"},
    "significance": {"position_type": "significance"},
    "both_ends without noise": {"position_type": "both_ends", "crowd_noise": 0.0},
    "both_ends with multiplier 1": {"position_type": "both_ends", "relative_bias_multiplier": 1.0},
    **{
        name: {
            "position_type": name,
            "max_position_embeddings": 1024,
            "position_offset": 500,
            **LEARNED_TABLE,
        }
        for name in ("coupled", "abacus")
    },
    "t5_clipped": {"position_type": "t5_clipped"},
    **{name: {"position_type": name} for name in ("t5", "alibi", "rotary", "none")},
}
VALIDATED = 1000  # examples: a run is right where all of them are
ANEW = 1000  # from the seed of a run to that of the run that is made in its place
RIGHT_ENOUGH = 0.99  # of every kind: it reaches so far


@dataclass(frozen=True)
class Sizes:
    """What is trained and measured.

    Attributes:
        task: a name in TASKS_BY_NAME.
        train: largest size that is learned: digits of a number, or symbols.
        test: the sizes that are measured.
        models: names in MODELS, one training each.
        steps: of training.
        runs: most runs of one training, each from other weights with twice the steps of the one before.
        examples: of each kind at each size.
    """

    task: str = "addition"
    train: int = 10
    test: tuple[int, ...] = (20, 50, 100, 200)
    models: tuple[str, ...] = ("both_ends", "significance")
    steps: int = REACHING.steps
    runs: int = 2
    examples: int = 50

    def __post_init__(self) -> None:
        check_choice("task", self.task, tuple(TASKS_BY_NAME))
        for model in self.models:
            check_choice("models", model, tuple(MODELS))
        longest = TASKS_BY_NAME[self.task](1).longest_size
        check_number("train", self.train, 1, longest)
        for size in self.test:
            check_number("test", size, self.train + 1, longest)
        for name in ("test", "models"):
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise ValueError(f"{name} names one of its values twice: name each once.")


def run(sizes: Sizes, seed: int) -> Iterator[Row]:
    task = TASKS_BY_NAME[sizes.task](sizes.train)
    for name in sizes.models:
        model, seconds, steps = learn_until_right(task, recipe_for(name, sizes.steps), seed, sizes.runs)
        run_figures = {
            "steps": steps,
            "parameters": model.num_parameters(),
            "seconds": round(seconds, 1),
        }
        for size in (sizes.train, *sizes.test):
            for kind, score in measure_kinds(model, sizes, size, seed).items():
                yield {
                    "task": sizes.task,
                    "train": sizes.train,
                    "model": name,
                    "size": size,
                    "kind": kind,
                    "seed": seed,
                    "exact_match": score.exact_match,
                    "low": score.interval.low,
                    "high": score.interval.high,
                    "examples": score.examples,
                    **run_figures,
                }


def learn_until_right(task: Task, recipe: Recipe, seed: int, runs: int) -> tuple[PreTrainedModel, float, int]:
    """Train, and anew where one of VALIDATED validation examples is wrong: another seed, twice the steps.

    Returns:
        (the model, seconds of all its runs, steps of the last).
    """
    model, seconds = learn(task, recipe, seed)
    if runs > 1 and measure_quickly(model, task, task.validation(VALIDATED)) < 1:
        longer = dataclasses.replace(recipe, steps=2 * recipe.steps)
        model, more, steps = learn_until_right(task, longer, seed + ANEW, runs - 1)
        return model, seconds + more, steps
    return model, seconds, recipe.steps


def recipe_for(name: str, steps: int) -> Recipe:
    """The recipe of a name in MODELS."""
    return dataclasses.replace(REACHING, model={**REACHING.model, **MODELS[name]}, steps=steps)


def measure_kinds(model: PreTrainedModel, sizes: Sizes, size: int, seed: int) -> dict[str, Score]:
    """Scores by kind at one size; at the largest learned of what was held out."""
    task = TASKS_BY_NAME[sizes.task](sizes.train)
    if size == task.largest_size:
        return {HELD_OUT: evaluate(model, task, n=10 * sizes.examples).overall}
    return measure_reach(model, task, size, sizes.examples, seed)


def judge(rows: Sequence[Row]) -> tuple[Finding, ...]:
    findings = []
    for task, train, model in dict.fromkeys((row["task"], row["train"], row["model"]) for row in rows):
        trained = [
            row for row in worst_of(rows) if (row["task"], row["train"], row["model"]) == (task, train, model)
        ]
        worst = {
            size: min(row["exact_match"] for row in trained if row["size"] == size)
            for size in settings_of(trained, "size")
        }
        figures = ", ".join(f"{size}: {share:.3f}" for size, share in worst.items())
        longest, seeds = max(worst), len(settings_of(trained, "seed"))
        findings.append(
            Finding(
                f"{task} up to {train}, {model}: at {longest}, {RIGHT_ENOUGH:.0%} of every kind are right, "
                f"whatever the seed ({seeds}).",
                worst[longest] >= RIGHT_ENOUGH,
                f"the worst kind and seed by size, {figures}",
            )
        )
    return tuple(findings)


def worst_of(rows: Sequence[Row]) -> list[Row]:
    """Of every training and size the row of the kind that is worst."""
    found: dict[tuple, Row] = {}
    for row in rows:
        key = tuple(row[name] for name in ("task", "train", "model", "size", "seed"))
        if key not in found or row["exact_match"] < found[key]["exact_match"]:
            found[key] = row
    return [{name: value for name, value in row.items() if name != "kind"} for row in found.values()]


def count_kinds(task: str) -> int:
    """How many kinds of inputs a name in TASKS_BY_NAME has at a size."""
    return len(TASKS_BY_NAME[task](1).beyond(2, 1))


def draw(rows: Sequence[Row]) -> Chart:
    series = {name: points_of(rows, "size", "exact_match", model=name) for name in settings_of(rows, "model")}
    return Chart("Right answers beyond the length trained", "size", "right, mean of all kinds", series)


EXPERIMENT = Experiment(
    title="Reach",
    question="Learned on short inputs only: how many long ones are right?",
    settings=("task", "train", "model", "size", "kind"),
    sizes=Sizes(),
    full=Sizes(test=(20, 50, 100, 200, 500), models=tuple(MODELS), examples=100),
    count=lambda sizes: len(sizes.models) * (1 + len(sizes.test) * count_kinds(sizes.task)),
    run=run,
    judge=judge,
    draw=draw,
)
