"""How much time do recurrent cells and attention take, by the length of the sequence?

A recurrent layer needs n steps one after the other, attention n² scores at once: O(nd²) against O(nd² + n²d)
operations (Vaswani et al. 2017, arXiv:1706.03762, table 1).
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from hf_attn.architectures.registry import drawing_weights
from hf_attn.experiments.base import Experiment, Finding, Row, mean_of, points_of, settings_of
from hf_attn.models.attention import MultiHeadAttention
from hf_attn.models.configuration_attn_encoder import AttnEncoderConfig
from hf_attn.models.configuration_recurrent_encoder import RecurrentEncoderConfig
from hf_attn.models.modeling_recurrent_encoder import build_cells
from hf_attn.viz.draw_chart import Chart

ATTENTION = "attention"
DOCUMENT_LENGTH = 500  # the longest of learn_ai_51_attention_mechanisms
STRAIGHT = 0.99  # R² from which points are said to lie on a straight line


@dataclass(frozen=True)
class Layer:
    """Two layers of one size, one that steps and one that attends."""

    cell_type: str  # of the one that steps: "lstm", "gru" or "rnn"
    hidden_size: int  # D, of input and output of both
    batch_size: int  # sequences at once
    lengths: tuple[int, ...]  # tokens of each, from short to long

    @property
    def title(self) -> str:
        return f"{self.hidden_size} wide, batch {self.batch_size}"


@dataclass(frozen=True)
class Sizes:
    """What is measured, and how often."""

    layers: tuple[Layer, ...] = (
        Layer("lstm", 64, 1, (50, 100, 200, 500, 1000, 2000)),
        Layer("rnn", 512, 32, (100,)),
    )
    repeats: int = 31


def build_arms(layer: Layer, length: int, seed: int) -> dict[str, tuple[Callable, list[torch.Tensor]]]:
    """Name → (what computes the outputs of a batch, the tensors that learn)."""
    recurrent = RecurrentEncoderConfig(
        hidden_size=layer.hidden_size, cell_type=layer.cell_type, bidirectional=False
    )
    attending = AttnEncoderConfig(
        hidden_size=layer.hidden_size, num_attention_heads=1, max_position_embeddings=length
    )
    attending._attn_implementation = "sdpa"
    with drawing_weights(seed):
        cells = build_cells(recurrent, layer.hidden_size, layer.hidden_size, bidirectional=False)
        attention = MultiHeadAttention(attending, layer_idx=0)
    inputs = torch.randn(
        layer.batch_size, length, layer.hidden_size, generator=torch.Generator().manual_seed(seed)
    )
    return {
        layer.cell_type.upper(): (lambda: cells(inputs)[0], list(cells.parameters())),
        ATTENTION: (lambda: attention(inputs)[0], list(attention.parameters())),
    }


def run(sizes: Sizes, seed: int) -> Iterator[Row]:
    """A row for each size, length and layer: medians over repeats, in which lengths and layers take turns.

    What counts is processor time: with one thread that is what an idle machine would take, however busy this
    one is; with more, it is what all of them take together.
    """
    for layer in sizes.layers:
        arms = {
            (length, model): arm
            for length in layer.lengths
            for model, arm in build_arms(layer, length, seed).items()
        }
        taken: dict[tuple[int, str], list[tuple[float, float]]] = {key: [] for key in arms}
        for _ in range(sizes.repeats):
            for key, (compute, weights) in arms.items():
                taken[key].append((measure_forward(compute), measure_training(compute, weights)))
        for (length, model), measured in taken.items():
            forward, training = zip(*measured, strict=True)
            yield {
                "size": layer.title,
                "length": length,
                "model": model,
                "seed": seed,
                "forward_ms": 1e3 * statistics.median(forward),
                "training_ms": 1e3 * statistics.median(training),
                "repeats": sizes.repeats,
            }


def measure_forward(compute: Callable[[], torch.Tensor]) -> float:
    """Processor seconds of the outputs alone, once the weights are in the cache."""
    with torch.no_grad():
        compute()
        started = time.process_time()
        compute()
        return time.process_time() - started


def measure_training(compute: Callable[[], torch.Tensor], weights: Sequence[torch.Tensor]) -> float:
    """Processor seconds of outputs and gradients."""
    started = time.process_time()
    torch.autograd.grad(compute().sum(), weights)
    return time.process_time() - started


def judge(rows: Sequence[Row]) -> tuple[Finding, ...]:
    findings = []
    for size in settings_of(rows, "size"):
        recurrent = next(model for model in settings_of(rows, "model", size=size) if model != ATTENTION)
        lengths = settings_of(rows, "length", size=size)

        def times(model: str, measure: str, size=size, lengths=lengths) -> list[float]:
            return [mean_of(rows, measure, size=size, length=length, model=model) for length in lengths]

        if len(lengths) > 2:
            forward = {model: times(model, "forward_ms") for model in (recurrent, ATTENTION)}
            fit = {model: statistics.correlation(lengths, taken) ** 2 for model, taken in forward.items()}
            grown = (f"{model} ×{taken[-1] / taken[-2]:.1f}" for model, taken in forward.items())
            findings.append(
                Finding(
                    f"{size}: the {recurrent}'s forward time grows on a straight line with the length.",
                    fit[recurrent] >= STRAIGHT,
                    f"R² {', '.join(f'{model} {share:.3f}' for model, share in fit.items())}; "
                    f"from {lengths[-2]} to {lengths[-1]} tokens {', '.join(grown)}",
                )
            )
        compared = [length for length in lengths if length <= DOCUMENT_LENGTH]
        for measure in ("forward_ms", "training_ms"):
            stepping, attending = times(recurrent, measure), times(ATTENTION, measure)
            compared_times = list(zip(compared, stepping, attending, strict=False))
            findings.append(
                Finding(
                    f"{size}, {measure.removesuffix('_ms')}: attention is faster than the {recurrent} "
                    f"at every length up to {compared[-1]}.",
                    all(attention < rnn for _, rnn, attention in compared_times),
                    "; ".join(
                        f"{n}: {rnn:.2f} and {attention:.2f} ms" for n, rnn, attention in compared_times
                    ),
                )
            )
    return tuple(findings)


def draw(rows: Sequence[Row]) -> Chart:
    size = max(settings_of(rows, "size"), key=lambda size: len(settings_of(rows, "length", size=size)))
    series = {
        f"{model}, {measure.removesuffix('_ms')}": points_of(rows, "length", measure, size=size, model=model)
        for model in settings_of(rows, "model", size=size)
        for measure in ("forward_ms", "training_ms")
    }
    return Chart(
        f"One layer by length, {size}",
        "tokens",
        "milliseconds of the processor",
        series,
        log_x=True,
        log_y=True,
    )


EXPERIMENT = Experiment(
    title="Time by length",
    question="At which lengths is a recurrent layer faster than attention, forward and in training?",
    settings=("size", "length", "model"),
    sizes=Sizes(),
    full=Sizes(
        (
            Layer("lstm", 64, 1, (50, 100, 200, 500, 1000, 2000, 5000)),
            Layer("rnn", 512, 32, (25, 50, 100, 200, 400)),
        ),
        repeats=50,
    ),
    count=lambda sizes: 2 * sum(len(layer.lengths) for layer in sizes.layers),
    run=run,
    judge=judge,
    draw=draw,
)
