"""An optimizer as anybody adds one: a function and a row. test_one_row.py finds it everywhere."""

import torch

from hf_attn.architectures.optimizers import OPTIMIZERS, Optimizer, group_weights


def build_sgd(model, recipe):
    """Go down the gradient: θ ← θ - γ (g + λ θ)."""
    return torch.optim.SGD(group_weights(model, recipe), lr=recipe.learning_rate)


OPTIMIZERS["sgd"] = Optimizer("Plain SGD", build_sgd, used=("weight_decay",), moments=0, rate=10)
