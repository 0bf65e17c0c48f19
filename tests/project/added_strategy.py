"""A strategy as anybody adds one: a function and a row. test_one_row.py finds it everywhere."""

from hf_attn.generation.strategies import STRATEGIES, Parameter, Slider, Strategy


def cut_epsilon(probabilities, epsilon):
    """Keep the likeliest token, and those of at least this probability (Hewitt et al. 2022, 2210.15191)."""
    kept = probabilities * ((probabilities >= epsilon) | (probabilities == probabilities.max()))
    return kept / kept.sum()


LEAST = "Least probability of a token"
EPSILON = Parameter(
    "epsilon", "Least probability", "epsilon", LEAST, 0.05, 0.0, 1.0, Slider(0.0, 0.5, 0.05, 0.01)
)
STRATEGIES["epsilon"] = Strategy(
    "Epsilon sampling",
    "drawn from the tokens with p ≥ epsilon (Hewitt et al. 2022, arXiv:2210.15191)",
    (EPSILON,),
    cut_epsilon,
    "p >= epsilon || rank < 1",
)
