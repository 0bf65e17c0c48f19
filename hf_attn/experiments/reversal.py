"""Four models of equal size write a sequence backwards.

An LSTM without attention, with additive attention (Bahdanau et al. 2014, arXiv:1409.0473), with general
attention (Luong et al. 2015, arXiv:1508.04025), and a Transformer (Vaswani et al. 2017, arXiv:1706.03762).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hf_attn.experiments.base import (
    Experiment,
    Finding,
    Row,
    learn_and_measure,
    mean_of,
    points_of,
    settings_of,
    with_parameters,
)
from hf_attn.tasks.recipes import Recipe
from hf_attn.tasks.synthetic.copying import COPIER
from hf_attn.tasks.synthetic.reversing import Reversing
from hf_attn.viz.draw_chart import Chart

NUM_SYMBOLS = 18
SPREAD = 0.05  # by which numbers of parameters may differ
LSTM = {"hidden_size": 64, "attention_size": 64, "bidirectional": False}

# learning rates: 3e-3 and 6e-3 were tried on the validation part at length 20, 100,000 parameters, 300 steps
RECIPES: Mapping[str, Recipe] = {
    **{name: Recipe(LSTM, name, learning_rate=6e-3) for name in ("none", "additive", "general")},
    "transformer": Recipe(COPIER, "transformer", learning_rate=6e-3),
}
TITLES = {
    "none": "LSTM, no attention",
    "additive": "LSTM, additive",
    "general": "LSTM, general",
    "transformer": "Transformer",
}


@dataclass(frozen=True)
class Sizes:
    """What is trained."""

    lengths: tuple[int, ...] = (20, 40)  # symbols of every sequence, from short to long
    parameters: int = 100_000  # of each model, as nearly as its hidden size allows
    steps: int = 500  # of each training
    batch_size: int = 64  # of each training
    examples: int = 1000  # held-out sequences that a model is measured on
    recipes: Mapping[str, Recipe] = field(default_factory=lambda: RECIPES)  # by architecture


def run(sizes: Sizes, seed: int) -> Iterator[Row]:
    for length in sizes.lengths:
        task = Reversing(min_length=length, max_length=length, num_symbols=NUM_SYMBOLS)
        for model, recipe in sizes.recipes.items():
            sized = with_parameters(task, recipe, sizes.parameters)
            chosen = replace(sized, steps=sizes.steps, batch_size=sizes.batch_size)
            settings = {"length": length, "model": model, "hidden_size": sized.model["hidden_size"]}
            yield {**settings, "seed": seed, **learn_and_measure(task, chosen, seed, sizes.examples)}


def judge(rows: Sequence[Row]) -> tuple[Finding, ...]:
    models, lengths = settings_of(rows, "model"), settings_of(rows, "length")
    attending = [model for model in models if model != "none"]
    parameters = [row["parameters"] for row in rows]
    spread = (max(parameters) - min(parameters)) / min(parameters)

    def measured(measure: str, length: int) -> str:
        shares = [f"{model} {mean_of(rows, measure, model=model, length=length):.3f}" for model in models]
        return f"length {length}: {', '.join(shares)}"

    def gap(length: int) -> float:
        accuracy = {m: mean_of(rows, "token_accuracy", model=m, length=length) for m in models}
        return min(accuracy[model] for model in attending) - accuracy["none"]

    return (
        Finding(
            f"The models' parameters differ by at most {SPREAD:.0%}.",
            spread <= SPREAD,
            f"{min(parameters):,} to {max(parameters):,}",
        ),
        Finding(
            "At every length, every model with attention writes more tokens right than the LSTM without.",
            all(gap(length) > 0 for length in lengths),
            "; ".join(measured("token_accuracy", length) for length in lengths),
        ),
        Finding(
            f"At length {lengths[-1]}, the LSTM without attention gets no sequence right as a whole.",
            mean_of(rows, "exact_match", model="none", length=lengths[-1]) == 0,
            measured("exact_match", lengths[-1]),
        ),
        Finding(
            f"The smallest gain from attention is larger at length {lengths[-1]} than at {lengths[0]}.",
            gap(lengths[-1]) > gap(lengths[0]),
            "; ".join(f"length {length}: {gap(length):+.3f} of the tokens" for length in lengths),
        ),
    )


def draw(rows: Sequence[Row]) -> Chart:
    series = {
        f"length {length}": [
            (TITLES[model], accuracy)
            for model, accuracy in points_of(rows, "model", "token_accuracy", length=length)
        ]
        for length in settings_of(rows, "length")
    }
    return Chart(
        "Reversal by models of equal size",
        "",
        "token accuracy, held out",
        series,
        level=1 / NUM_SYMBOLS,
        level_label="chance",
    )


EXPERIMENT = Experiment(
    title="Reversal with and without attention",
    question="With equal parameters and steps, which models reverse sequences of 20 and of 40 symbols?",
    settings=("length", "model"),
    sizes=Sizes(),
    full=Sizes(parameters=250_000, steps=1140),  # 30 epochs of 2,400 sequences, as in “Learn AI Series (#51)”
    count=lambda sizes: len(sizes.lengths) * len(sizes.recipes),
    run=run,
    judge=judge,
    draw=draw,
)
