"""`chapter_8_transformer`: its three tasks, learned at its sizes, and what is claimed of trained maps."""

import dataclasses
from functools import cache

import torch

from hf_attn.architectures import build_model
from hf_attn.experiments.base import learn
from hf_attn.inspection import attention_maps
from hf_attn.sources.base import Claim, Measured
from hf_attn.tasks import build_task
from hf_attn.tasks.base import Task
from hf_attn.training import build_accelerator, train

WRITTEN = 0.985  # of held-out examples, as a whole: the accuracy that is printed for addition at its epoch 5
COUNTED = 0.01  # of the largest singular value: smaller ones do not count to a rank


def steps_to_learn(task: Task) -> int:
    """Steps of the recipe at the document's size after which so many held-out examples are written right.

    Raises:
        ArithmeticError: the recipe's steps do not suffice.
    """
    recipe = dataclasses.replace(task.recipes["document"], report_every=1)
    generator = torch.Generator().manual_seed(0)
    model = build_model(task, recipe, seed=0)
    for report in train(task, model, recipe, generator=generator, accelerator=build_accelerator("cpu")):
        if report.held_out_exact_match >= WRITTEN:
            return report.measured_at
    raise ArithmeticError(f"{task.name} was not learned to {WRITTEN:.1%} in {recipe.steps} steps.")


@cache
def trained_maps() -> torch.Tensor:
    """Cross maps of the last layer of a model that copies 20 symbols, for 50 sources; [50 · H, 21, 21]."""
    task = build_task("copy", min_length=20)
    model, _ = learn(task, task.recipes["document"], seed=0)
    batch = task.held_out(50)
    maps = [
        attention_maps(model, batch.input_ids[index : index + 1], batch.labels[index : index + 1]).cross[-1]  # type: ignore[index]
        for index in range(len(batch))
    ]
    return torch.cat(maps)


def ranks() -> Measured:
    """The mean share of singular values above one hundredth of the largest."""
    values = torch.linalg.svdvals(trained_maps())
    return (float((values > COUNTED * values[:, :1]).float().mean()),)


def concentration() -> Measured:
    """The mean share of the sum of squares that the largest tenth of the singular values holds."""
    squares = torch.linalg.svdvals(trained_maps()).square()
    top = max(1, squares.shape[1] // 10)
    return (float((squares[:, :top].sum(dim=1) / squares.sum(dim=1)).mean()),)


def low_frequencies() -> Measured:
    """The mean share of the Fourier transform's energy at less than half the highest frequency, both ways."""
    maps = trained_maps()
    energy = torch.fft.fft2(maps).abs().square()
    low = [torch.fft.fftfreq(size).abs() < 0.25 for size in maps.shape[1:]]
    kept = energy * (low[0][:, None] & low[1])
    return (float((kept.sum(dim=(1, 2)) / energy.sum(dim=(1, 2))).mean()),)


CLAIMS = (
    Claim(
        "Deep layers' maps have a rank of at most .1 n: mean rank over n, last layer's cross maps of "
        "a copier.",
        "≤0.10",
        ranks,
        "A copier's map is a diagonal, whose rank is full; counted are singular values above 1 % of "
        "the largest.",
        is_full=True,
    ),
    Claim(
        "At least .9 of a map's energy lies in its first singular values: the largest tenth, same maps.",
        "≥0.90",
        concentration,
        "A diagonal's singular values are all alike.",
        is_full=True,
    ),
    Claim(
        "Low frequencies hold over 80 % of a map: those below half the highest, same maps.",
        ">0.80",
        low_frequencies,
        "A diagonal has all frequencies alike: the lower half both ways is a quarter of them.",
        is_full=True,
    ),
    Claim(
        "Copying 20 symbols takes 5,000 steps of 40.",
        "5,000",
        lambda: (steps_to_learn(build_task("copy", min_length=20)),),
        "Its sizes, another recipe: held-out sequences written freely, 98.5 % right as a whole.",
        is_full=True,
    ),
    Claim(
        "Adding numbers up to 499 takes 1,800 steps of 128 to be 98.5 % right.",
        "1,800",
        lambda: (steps_to_learn(build_task("addition", max_addend=499)),),
        "Its sizes, another recipe with batches of 64, and special tokens apart from the digit 0; held out.",
        is_full=True,
    ),
    Claim(
        "Parsing one assignment takes 600 steps of 64.",
        "600",
        lambda: (steps_to_learn(build_task("parser")),),
        "Its sizes, another recipe with batches of 32; 98.5 % of held-out assignments right, exact digits.",
        is_full=True,
    ),
)
