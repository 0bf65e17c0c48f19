"""Document `chapter-8`: its three tasks, learned at its sizes."""

import dataclasses

from hf_attn.experiments.base import start_training
from hf_attn.tasks import build_task
from hf_attn.tasks.base import Task
from hf_attn.textbooks.claims import OURS, Claim, mark_full

WRITTEN = 0.985  # of validation examples, as a whole: the accuracy printed for addition at its epoch 5


def steps_to_learn(task: Task) -> int:
    """Steps of the recipe at the document's size after which so many validation examples are right."""
    recipe = dataclasses.replace(task.recipes["document"], report_every=1)
    for report in start_training(task, recipe, seed=0)[1]:
        if report.validation_exact_match >= WRITTEN:
            return report.measured_at
    raise ArithmeticError(f"{task.name} was not learned to {WRITTEN:.1%} in {recipe.steps} steps.")


CLAIMS = mark_full(
    Claim(
        "Steps until 98.5 % of copies of 20 symbols are right; the document trains 5,000 of 40.",
        "70",
        lambda: (steps_to_learn(build_task("copy", min_length=20)),),
        "Its sizes, another recipe: validation sequences written freely, 98.5 % right as a whole.",
        kind=OURS,
    ),
    Claim(
        "Steps until 98.5 % of sums up to 499 + 499 are right; the document prints that after 1,800 of 128.",
        "300",
        lambda: (steps_to_learn(build_task("addition", max_addend=499)),),
        "Its sizes, another recipe with batches of 64, 0 no special token; measured on validation sums.",
        kind=OURS,
    ),
    Claim(
        "Steps until 98.5 % of assignments are parsed right; the document trains 600 of 64.",
        "9",
        lambda: (steps_to_learn(build_task("parser")),),
        "Its sizes, another recipe with batches of 32; 98.5 % of validation assignments right, exact digits.",
        kind=OURS,
    ),
)
