"""Why a model reaches: what its heads keep on the digits they need while ever more keys are there.

A longer input has more keys, and each takes a share of every softmax. Noise on far keys in training
(`crowd_noise`) is to teach scores that leave room for keys never met.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from hf_attn.experiments.base import Experiment, Finding, Row, learn, mean_of, points_of, settings_of
from hf_attn.experiments.reach import recipe_for
from hf_attn.interpret.attention_maps import attention_maps
from hf_attn.models.config_checks import check_number
from hf_attn.tasks.recipes import REACHING
from hf_attn.tasks.synthetic.arithmetic import Arithmetic
from hf_attn.viz.draw_chart import Chart

MODELS = {"with noise": "both_ends", "without": "both_ends without noise"}  # name → of experiments/reach.py
KIND = "same lengths"  # both numbers have all digits
KEPT = 0.95  # of what is attended to at the length that was learned


@dataclass(frozen=True)
class Sizes:
    """What is trained and measured.

    Attributes:
        train: most digits of a number that is learned.
        test: digits of both numbers, from few to many.
        steps: of each training.
        examples: sums at each size.
    """

    train: int = 10
    test: tuple[int, ...] = (20, 50, 100, 200, 500, 1000)
    steps: int = REACHING.steps
    examples: int = 3

    def __post_init__(self) -> None:
        longest = Arithmetic.longest_size
        check_number("train", self.train, 1, longest)
        for size in self.test:
            check_number("test", size, self.train + 1, longest)
        check_number("examples", self.examples, 1, 1000)


def run(sizes: Sizes, seed: int) -> Iterator[Row]:
    task = Arithmetic(digits=sizes.train)
    for name, recipe in MODELS.items():
        model, seconds = learn(task, recipe_for(recipe, sizes.steps), seed)
        masses = {
            size: measure_mass(model, task, size, sizes.examples, seed) for size in (sizes.train, *sizes.test)
        }
        for size, mass in masses.items():
            yield {
                "model": name,
                "size": size,
                "seed": seed,
                "keys": 2 * size + 2,
                "mass": mass,
                "kept": mass / masses[sizes.train],
                "steps": sizes.steps,
                "seconds": round(seconds, 1),
            }


def measure_mass(model: PreTrainedModel, task: Arithmetic, size: int, examples: int, seed: int) -> float:
    """Mean weight of the cross-attention on the digits that a written digit needs, over heads and digits.

    Needed are the digits of its own column, and of the one before for the carry (`Arithmetic.alignment`).
    """
    batch = task.beyond(size, examples, seed)[KIND]
    return (
        sum(mass_of(model, task, source) for source in map(task.read_source, batch.input_ids.tolist()))
        / examples
    )


def mass_of(model: PreTrainedModel, task: Arithmetic, source: str) -> float:
    """The same of one sum, whose true answer is read."""
    target = task.answer(source)
    ids = [task.vocabulary[symbol] for symbol in task.split_target(target)]
    weights = attention_maps(model, torch.tensor([task.encode(source)]), torch.tensor([ids])).cross
    if weights is None:
        raise ValueError("The model has no cross-attention.")
    needed = torch.tensor(task.alignment(source, target))[: len(ids)] > 0  # [T, S]
    return float((weights[:, :, : len(ids)] * needed).sum(-1).mean())


def judge(rows: Sequence[Row]) -> tuple[Finding, ...]:
    longest = max(settings_of(rows, "size"))
    kept = {model: mean_of(rows, "kept", model=model, size=longest) for model in MODELS}
    figures = ", ".join(f"{model} {share:.3f}" for model, share in kept.items())
    return (
        Finding(
            f"With noise at least {KEPT:.0%} of the attention on what is needed is kept at {longest:,}.",
            kept["with noise"] >= KEPT,
            figures,
        ),
        Finding(f"Without it less than {KEPT:.0%} is kept at {longest:,}.", kept["without"] < KEPT, figures),
    )


def draw(rows: Sequence[Row]) -> Chart:
    series = {name: points_of(rows, "keys", "mass", model=name) for name in MODELS}
    return Chart("Attention on the digits that are needed", "keys", "weight, mean of heads", series)


EXPERIMENT = Experiment(
    title="Dilution",
    question="What do heads keep on the digits they need, while ever more keys are there?",
    settings=("model", "size"),
    sizes=Sizes(),
    full=Sizes(examples=10),
    count=lambda sizes: len(MODELS) * (1 + len(sizes.test)),
    run=run,
    judge=judge,
    draw=draw,
)
