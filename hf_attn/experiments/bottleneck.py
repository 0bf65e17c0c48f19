"""All that an encoder-decoder without attention knows of its source must pass through one vector.

Reversal by hidden size and length, without attention (Sutskever et al. 2014, arXiv:1409.3215) and with
additive attention (Bahdanau et al. 2014, arXiv:1409.0473).
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hf_attn.experiments.base import (
    Experiment,
    Finding,
    Row,
    join_figures,
    learn_and_measure,
    mean_of,
    points_of,
    settings_of,
)
from hf_attn.tasks.recipes import RECURRENT_DOCUMENT, Recipe
from hf_attn.tasks.synthetic.reversing import Reversing
from hf_attn.viz.draw_chart import Chart

MODELS = ("none", "additive")
NUM_SYMBOLS = 18  # “Learn AI Series (#51)” draws from 2 to 19
MARGINAL = 0.05  # of token accuracy: a doubling that brings less brings little


@dataclass(frozen=True)
class Sizes:
    """What is trained; the recipe's model and architecture are filled in."""

    hidden_sizes: tuple[int, ...] = (16, 32, 64, 128)  # widths of the vector, from small to large
    lengths: tuple[int, ...] = (10, 20)  # symbols of every sequence, from short to long
    recipe: Recipe = Recipe(steps=400, batch_size=64, learning_rate=6e-3)  # noqa: RUF009 - frozen
    examples: int = 1000  # held-out sequences that a model is measured on


def run(sizes: Sizes, seed: int) -> Iterator[Row]:
    for length in sizes.lengths:
        task = Reversing(min_length=length, max_length=length, num_symbols=NUM_SYMBOLS)
        for hidden_size in sizes.hidden_sizes:
            for model in MODELS:
                fields = {"hidden_size": hidden_size, "attention_size": hidden_size, "bidirectional": False}
                recipe = dataclasses.replace(sizes.recipe, model=fields, architecture=model)
                settings = {"length": length, "hidden_size": hidden_size, "model": model, "seed": seed}
                yield {**settings, **learn_and_measure(task, recipe, seed, sizes.examples)}


def judge(rows: Sequence[Row]) -> tuple[Finding, ...]:
    widths, lengths = settings_of(rows, "hidden_size"), settings_of(rows, "length")

    def accuracies(model: str, length: int) -> list[float]:
        line = {"model": model, "length": length}
        return [mean_of(rows, "token_accuracy", **line, hidden_size=width) for width in widths]

    squeezed, longer = accuracies("none", lengths[0]), accuracies("none", lengths[-1])
    attending = accuracies("additive", lengths[-1])
    gain = squeezed[-1] - squeezed[-2]
    lost = [short - long for short, long in zip(squeezed, longer, strict=True)]
    return (
        Finding(
            f"Without attention, the last doubling ({widths[-2]} to {widths[-1]}) brings little at length "
            f"{lengths[0]}: less than {MARGINAL:.0%} of the tokens.",
            gain < MARGINAL,
            f"token accuracy {join_figures(squeezed, ' → ')}",
        ),
        Finding(
            f"Without attention, length {lengths[-1]} is harder than {lengths[0]} at every width.",
            all(loss > 0 for loss in lost),
            f"{join_figures(longer)} against {join_figures(squeezed)}",
        ),
        Finding(
            f"At length {lengths[-1]}, attention gets more through at every width.",
            all(read > one for read, one in zip(attending, longer, strict=True)),
            f"with {join_figures(attending)}, without {join_figures(longer)}",
        ),
    )


def draw(rows: Sequence[Row]) -> Chart:
    names = {"none": "no attention", "additive": "additive"}
    series = {
        f"{names[model]}, length {length}": points_of(
            rows, "hidden_size", "token_accuracy", model=model, length=length
        )
        for model in MODELS
        for length in settings_of(rows, "length")
    }
    return Chart(
        "Reversal through one vector, and with attention",
        "hidden size",
        "token accuracy, held out",
        series,
        log_x=True,
    )


EXPERIMENT = Experiment(
    title="The bottleneck",
    question="How much of a sequence passes through one vector, and what does attention change?",
    settings=("length", "hidden_size", "model"),
    sizes=Sizes(),
    # 30 epochs of 2,000 sequences in batches of 64; ours are drawn anew, the text's are repeated
    full=Sizes((32, 64, 128, 256), (15, 30), dataclasses.replace(RECURRENT_DOCUMENT, steps=960)),
    count=lambda sizes: len(sizes.lengths) * len(sizes.hidden_sizes) * len(MODELS),
    run=run,
    judge=judge,
    draw=draw,
)
