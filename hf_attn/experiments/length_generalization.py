"""Tasks learned at small sizes and measured at larger ones: what `positions` and the app's length test share.

A model has as many positions as the sizes that it learns need, so that beyond is beyond: a learned table
refuses longer sequences, a formula goes on.
"""

import copy
import dataclasses
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from transformers import PreTrainedModel

from hf_attn.evaluation.metrics import Score, evaluate
from hf_attn.experiments.base import start_training
from hf_attn.models.config_checks import check_choice, check_number
from hf_attn.models.position_base import Stretched
from hf_attn.tasks.base import Task
from hf_attn.tasks.recipes import SMALL_TRANSFORMER, Recipe
from hf_attn.tasks.synthetic.addition import Addition
from hf_attn.tasks.synthetic.copying import LONGEST, Copying, SymbolSequences
from hf_attn.tasks.synthetic.reversing import Reversing

CANNOT = "cannot"  # what stands for an accuracy where a model refuses so long a sequence
SYMBOLS: Mapping[str, type[SymbolSequences]] = {"copy": Copying, "reverse": Reversing}
ADDITION = "addition"
LEARNED = (*SYMBOLS, ADDITION)
REPORT_EVERY = 5  # steps between two moments of a run that is watched
# small models, the same for every position encoding; as few steps as tell the encodings apart
SMALL = {**SMALL_TRANSFORMER, "embedding_initializer_range": 1.0, "position_initializer_range": 1.0}
RECIPES: Mapping[str, Recipe] = {
    "copy": Recipe({**SMALL, "intermediate_size": 128}, steps=200, learning_rate=5e-3),
    "reverse": Recipe(
        {**SMALL, "intermediate_size": 128, "encoder_layers": 1, "decoder_layers": 1},
        steps=300,
        learning_rate=5e-3,
    ),
    ADDITION: Recipe(
        {**SMALL, "encoder_layers": 1, "use_bias": True},
        steps=300,
        batch_size=128,
        learning_rate=6e-3,
        betas=(0.9, 0.98),
    ),
}


@dataclass(frozen=True)
class PaddedAddition(Addition):
    """Addition in which sums, too, are written at the width of `digits`, however small the numbers are.

    Trained on numbers of up to 2 digits at a width of 4 a model reads "0007+0095" and writes "00102": it has
    met every place, but the first ones only with a zero in them.
    """

    @property
    def sum_digits(self) -> int:
        return self.digits + 1


@dataclass(frozen=True)
class LengthTest:
    """A task that is learned at some sizes and measured at others.

    Attributes:
        task: "copy", "reverse" or "addition".
        trained: largest size that is learned: symbols, or digits of an addend.
        tested: the sizes that are measured, each by itself.
        steps: of training; those of RECIPES where None.

    An addition's numbers are all as wide as the largest that is tested.

    Raises:
        ValueError: another task, or nothing to measure.
    """

    task: str
    trained: int
    tested: tuple[int, ...]
    steps: int | None = None

    def __post_init__(self) -> None:
        check_choice("task", self.task, LEARNED)
        if not self.tested:
            raise ValueError("tested is empty: give at least one size.")
        for size in self.tested:
            check_number("tested", size, 1, LONGEST)

    @property
    def beyond(self) -> tuple[int, ...]:
        """The sizes that are measured and were never learned."""
        return tuple(size for size in self.tested if size > self.trained)

    def learned(self) -> Task:
        """What is learned: every size up to the largest."""
        if self.task == ADDITION:
            return self._add(self.trained)
        return SYMBOLS[self.task](max_length=self.trained)

    def sized(self, size: int) -> Task:
        """What one size is measured on; of an addition also smaller ones are drawn."""
        if self.task == ADDITION:
            return self._add(size)
        return SYMBOLS[self.task](min_length=size, max_length=size)

    def _add(self, digits: int) -> Addition:
        width = max(self.trained, *self.tested)
        return PaddedAddition(digits=width, max_addend=10**digits - 1)

    def recipe(self, position_type: str) -> Recipe:
        """The recipe of the task with this position encoding."""
        recipe = RECIPES[self.task]
        fields = {**recipe.model, "position_type": position_type}
        return dataclasses.replace(recipe, model=fields, steps=self.steps or recipe.steps)


def explain_refusal(model: PreTrainedModel, task: Task) -> str | None:
    """Why a model cannot read the task's sequences, in its positions' own words; None where it can."""
    try:
        model.get_encoder().positions.check_length(task.max_position_embeddings, 0)
    except ValueError as error:
        return str(error)
    return None


def stretch(model: PreTrainedModel, tokens: int) -> PreTrainedModel:
    """The model with its positions stretched so that so many tokens fit, where its encoding allows it.

    A sequence that is written grows token by token, so that the factor is fixed beforehand:
    s = tokens / max_position_embeddings.
    """
    longest = model.config.max_position_embeddings
    if not isinstance(model.get_encoder().positions, Stretched) or tokens <= longest:
        return model
    stretched = copy.deepcopy(model)
    stretched.config.position_scaling_factor = tokens / longest
    for module in stretched.modules():
        if isinstance(module, Stretched):
            module.factor = tokens / longest
    return stretched


def measure_size(model: PreTrainedModel, test: LengthTest, size: int, examples: int) -> Score | None:
    """Held-out figures at one size; None where the model refuses so long a sequence.

    Of an addition twice as many examples are drawn, since not every sum has a number of that many digits.
    """
    task = test.sized(size)
    if explain_refusal(model, task):
        return None
    drawn = 2 * examples if test.task == ADDITION else examples
    return evaluate(stretch(model, task.max_position_embeddings), task, n=drawn).by_size[size]


@dataclass(frozen=True)
class LengthTestReport:
    """How a run stands that is watched while it grows.

    Attributes:
        step, steps: taken, and in all.
        loss: mean over the steps since the last moment; NaN before the first.
        seconds: spent on steps.
        measured_at: the step at which the scores were measured, or are being measured.
        scores: the newest figures by size; None where the model refuses.
    """

    step: int
    steps: int
    loss: float
    seconds: float
    measured_at: int
    scores: Mapping[int, Score | None]


def run_length_test(
    test: LengthTest,
    position_type: str,
    *,
    seed: int = 0,
    rounds: int = 4,
    examples: int = 64,
    device: str = "cpu",
    report_every_step: threading.Event | None = None,
) -> Iterator[LengthTestReport]:
    """Train a model and measure it at every size several times; close the generator to stop.

    Args:
        test: what is learned and measured.
        position_type: name of the position encoding.
        seed: of weights and examples.
        rounds: how often every size is measured, evenly over the run.
        examples: held-out examples of each size.
        device: "auto", "cpu", "cuda" or "mps".
        report_every_step: once set, there is a moment after every step.

    Yields:
        A moment every few steps, and one after each size that is measured.
    """
    task, recipe = test.learned(), test.recipe(position_type)
    every = max(1, min(REPORT_EVERY, recipe.steps // rounds))
    recipe = dataclasses.replace(recipe, report_every=every, evaluate_every=recipe.steps)
    model, loop = start_training(task, recipe, seed, device, report_every_step=report_every_step)
    scores: dict[int, Score | None] = {}
    measured_at, next_at = 0, recipe.steps / rounds
    for report in loop:
        told = (report.step, report.steps, report.loss, report.seconds)
        yield LengthTestReport(*told, measured_at, dict(scores))
        if report.step >= next_at:
            measured_at, next_at = report.step, next_at + recipe.steps / rounds
            for size in test.tested:
                scores[size] = measure_size(model, test, size, examples)
                yield LengthTestReport(*told, measured_at, dict(scores))
