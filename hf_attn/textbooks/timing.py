"""How forward times grow with the length, for the documents that claim it: processor time, medians."""

import math
import statistics
import time
from collections.abc import Callable, Sequence

from hf_attn.experiments import rnn_vs_attention_time
from hf_attn.experiments.base import values_of
from hf_attn.experiments.rnn_vs_attention_time import ATTENTION, Layer, Sizes

REPEATS = 7  # of each measurement


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The p of seconds ∝ size^p: the slope of the straight line through the logarithms.

    >>> round(exponent((1, 2, 4), (0.5, 2.0, 8.0)), 6)
    2.0
    """
    logs = ([math.log(value) for value in values] for values in (sizes, seconds))
    return statistics.linear_regression(*logs).slope


def forward_times(layer: Layer, repeats: int = REPEATS) -> tuple[list[float], list[float]]:
    """Forward milliseconds by length: of the recurrent layer, and of attention of its size."""
    rows = list(rnn_vs_attention_time.run(Sizes((layer,), repeats=repeats), 0))
    stepping, attending = (
        values_of(rows, "forward_ms", model=model) for model in (layer.cell_type.upper(), ATTENTION)
    )
    return stepping, attending


def speedups(layer: Layer) -> tuple[float, ...]:
    """The recurrent layer's forward time over attention's, by length."""
    return tuple(rnn / attention for rnn, attention in zip(*forward_times(layer, repeats=15), strict=True))


def layer_exponents(layer: Layer) -> tuple[float, float]:
    """How the forward times of the recurrent layer and of attention grow with the length: two exponents."""
    stepping, attending = forward_times(layer)
    return exponent(layer.lengths, stepping), exponent(layer.lengths, attending)


def measure_exponent(compute: Callable[[int], object], sizes: Sequence[int]) -> float:
    """The exponent of what takes a size, each size in turn, the first call of each not counted."""
    taken: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(REPEATS + 1):
        for size, seconds in taken.items():
            started = time.process_time()
            compute(size)
            seconds.append(time.process_time() - started)
    return exponent(sizes, [statistics.median(seconds[1:]) for seconds in taken.values()])
