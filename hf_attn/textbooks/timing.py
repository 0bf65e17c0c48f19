"""How times grow with the length, for every document that says so: on processor time, medians of one run."""

import math
import statistics
import time
from collections.abc import Callable, Sequence

from hf_attn.experiments import rnn_vs_attention_time
from hf_attn.experiments.base import values_of


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The p of seconds ∝ size^p: the slope of the straight line through the logarithms.

    >>> round(exponent((1, 2, 4), (0.5, 2.0, 8.0)), 6)
    2.0
    """
    logs = ([math.log(value) for value in values] for values in (sizes, seconds))
    return statistics.linear_regression(*logs).slope


def layer_exponents(layer: rnn_vs_attention_time.Layer, repeats: int = 7) -> tuple[float, float]:
    """How the forward time of a layer that steps, and of attention, grows with the length: two exponents."""
    rows = list(rnn_vs_attention_time.run(rnn_vs_attention_time.Sizes((layer,), repeats=repeats), 0))
    stepping, attending = (
        exponent(layer.lengths, values_of(rows, "forward_ms", model=model))
        for model in (layer.cell_type.upper(), rnn_vs_attention_time.ATTENTION)
    )
    return stepping, attending


def measure_exponent(compute: Callable[[int], object], sizes: Sequence[int], repeats: int = 7) -> float:
    """The exponent of what takes a size, each size in turn, the first call of each not counted."""
    taken: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(repeats + 1):
        for size, seconds in taken.items():
            started = time.process_time()
            compute(size)
            seconds.append(time.process_time() - started)
    return exponent(sizes, [statistics.median(seconds[1:]) for seconds in taken.values()])
