"""The documents' experiments: one module each. A new one is a module here and a line in EXPERIMENTS."""

from hf_attn.experiments import (
    beams,
    bottleneck,
    digits,
    gradients,
    ngrams,
    order,
    positions,
    reversal,
    timing,
)
from hf_attn.experiments.base import Experiment, Finding, Row, over_seeds

EXPERIMENTS: dict[str, Experiment] = {
    "bottleneck": bottleneck.EXPERIMENT,
    "reversal": reversal.EXPERIMENT,
    "beams": beams.EXPERIMENT,
    "order": order.EXPERIMENT,
    "gradients": gradients.EXPERIMENT,
    "timing": timing.EXPERIMENT,
    "ngrams": ngrams.EXPERIMENT,
    "positions": positions.EXPERIMENT,
    "digits": digits.EXPERIMENT,
}


def find_experiment(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        ValueError: there is none.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"There is no experiment {name!r}; choose one of {', '.join(EXPERIMENTS)}.")
    return EXPERIMENTS[name]


__all__ = ["EXPERIMENTS", "Experiment", "Finding", "Row", "find_experiment", "over_seeds"]
