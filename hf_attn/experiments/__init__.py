"""Experiments on attention: one module each. A new one is a module here and a line in EXPERIMENTS."""

from hf_attn.experiments import (
    beam_width,
    bottleneck,
    dilution,
    gradients,
    position_extrapolation,
    reach,
    reversal,
    rnn_vs_attention_time,
    word_order,
)
from hf_attn.experiments.base import Experiment, Finding, Row, over_seeds
from hf_attn.experiments.words import deciding_words, ngrams
from hf_attn.utils.text import quote

EXPERIMENTS: dict[str, Experiment] = {
    "bottleneck": bottleneck.EXPERIMENT,
    "reversal": reversal.EXPERIMENT,
    "beams": beam_width.EXPERIMENT,
    "order": word_order.EXPERIMENT,
    "gradients": gradients.EXPERIMENT,
    "timing": rnn_vs_attention_time.EXPERIMENT,
    "ngrams": ngrams.EXPERIMENT,
    "positions": position_extrapolation.EXPERIMENT,
    "reach": reach.EXPERIMENT,
    "dilution": dilution.EXPERIMENT,
    "words": deciding_words.EXPERIMENT,
}


def find_experiment(name: str) -> Experiment:
    """The experiment of that name; ValueError where there is none."""
    if name not in EXPERIMENTS:
        raise ValueError(f"There is no experiment {quote(name)}; choose one of {', '.join(EXPERIMENTS)}.")
    return EXPERIMENTS[name]


__all__ = ["EXPERIMENTS", "Experiment", "Finding", "Row", "find_experiment", "over_seeds"]
