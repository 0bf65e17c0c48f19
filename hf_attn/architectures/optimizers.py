"""What changes the weights at each step of training: one table.

A new optimizer is a function that builds it and a row of OPTIMIZERS; the command line, the app, the
endpoints, the memory estimate and the model card take it from the row.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hf_attn.models.config_checks import check_choice, show_value

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer as TorchOptimizer

    from hf_attn.tasks.recipes import Recipe


@dataclass(frozen=True)
class Optimizer:
    """One way to change the weights.

    Attributes:
        title: for people, with its source.
        build: (model, recipe) → torch's optimizer of all the model's weights.
        used: settings of the recipe that not every optimizer has.
        moments: numbers that a step holds beside each weight and its gradient: two moments, or an update.
        rate: how many times AdamW's learning rate suits it, as measured: with Adafactor reversal learns best
            with 3 to 5 times, and nothing with 10 times; with Muon copy, reversal and sorting learn as well
            with 2 as with 3 (one seed).
        check_model: raises ValueError for a model that it cannot teach.
    """

    title: str
    build: "Callable[[Module, Recipe], TorchOptimizer]"
    used: tuple[str, ...]
    moments: float
    rate: float = 1.0
    check_model: "Callable[[Module], object]" = lambda model: None  # noqa: ARG005


def group_weights(model: "Module", recipe: "Recipe") -> list[dict]:
    """A model's weights in two groups, each with its weight_decay: only matrices and tables decay."""
    matrices = [weight for weight in model.parameters() if weight.dim() > 1]
    others = [weight for weight in model.parameters() if weight.dim() <= 1]
    return [
        {"params": matrices, "weight_decay": recipe.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]


def build_adamw(model: "Module", recipe: "Recipe") -> "TorchOptimizer":
    """Steps of equal size for all weights, whatever their gradients.

    θ ← θ - γ (m̂ / (√v̂ + ε) + λ θ)         (Loshchilov & Hutter 2019, arXiv:1711.05101)
    """
    from torch.optim import AdamW

    groups = group_weights(model, recipe)
    return AdamW(groups, lr=recipe.learning_rate, betas=recipe.betas, fused=True)


def build_adafactor(model: "Module", recipe: "Recipe") -> "TorchOptimizer":
    """Steps in proportion to each matrix, whose second moments are kept as a row and a column.

    θ ← θ - RMS(θ) min(γ, 1/√t) g / √(r cᵀ / Σ r) - γ λ θ      (Shazeer & Stern 2018, arXiv:1804.04235)
    """
    from torch.optim import Adafactor

    return Adafactor(group_weights(model, recipe), lr=recipe.learning_rate)


def find_layers(model: "Module") -> "set[Tensor]":
    """The matrices of a model's linear layers before its output; ValueError where there are none."""
    from torch import nn

    without_head = getattr(model, "base_model", model)
    layers = {layer.weight for layer in without_head.modules() if isinstance(layer, nn.Linear)}
    if not layers:
        raise ValueError(
            "optimizer='muon' takes its steps with matrices of linear layers, and this model has none before "
            "its output: choose optimizer='adamw'."
        )
    return layers


def build_muon(model: "Module", recipe: "Recipe") -> "TorchOptimizer":
    """Steps that change every direction of a matrix alike (`muon.Muon`), for linear layers before the output.

    AdamW's for embeddings, tables, the output and vectors. ValueError where no linear layer is there.
    """
    from hf_attn.architectures.muon import Muon

    layers = find_layers(model)
    matrices, others = group_weights(model, recipe)
    inside = [weight for weight in matrices["params"] if weight in layers]
    rest = [weight for weight in matrices["params"] if weight not in layers]
    groups = [{**matrices, "params": inside, "is_orthogonal": True}, {**matrices, "params": rest}, others]
    return Muon(groups, lr=recipe.learning_rate, betas=recipe.betas, fused=True)


OPTIMIZERS: dict[str, Optimizer] = {
    "adamw": Optimizer("AdamW", build_adamw, used=("betas", "weight_decay"), moments=2),
    "adafactor": Optimizer("Adafactor", build_adafactor, used=("weight_decay",), moments=1, rate=4),
    "muon": Optimizer(
        "Muon", build_muon, used=("betas", "weight_decay"), moments=2, rate=2, check_model=find_layers
    ),
}


def find_optimizer(name: str) -> Optimizer:
    """The row of that name; ValueError where there is none."""
    check_choice("optimizer", name, sorted(OPTIMIZERS))
    return OPTIMIZERS[name]


def list_unused(optimizer: str) -> list[str]:
    """The recipe's settings that other optimizers use and this one does not."""
    every = {name for row in OPTIMIZERS.values() for name in row.used}
    return sorted(every.difference(find_optimizer(optimizer).used))


def _defaults_of_unused(recipe: "Recipe", optimizer: str) -> dict:
    unused = list_unused(optimizer)
    return {field.name: field.default for field in dataclasses.fields(recipe) if field.name in unused}


def check_optimizer(recipe: "Recipe") -> None:
    """Raise ValueError for a recipe that sets what its optimizer does not use."""
    for name, default in _defaults_of_unused(recipe, recipe.optimizer).items():
        if (value := getattr(recipe, name)) != default:
            raise ValueError(
                f"{name}={show_value(value)} is not used by optimizer={recipe.optimizer!r}; it uses "
                f"{', '.join(find_optimizer(recipe.optimizer).used) or 'nothing'}: leave {name} at {default}."
            )


def switch_optimizer(recipe: "Recipe", name: str) -> "Recipe":
    """The recipe with another optimizer, a learning rate that suits it, and without what it does not use."""
    rate = recipe.learning_rate * find_optimizer(name).rate / find_optimizer(recipe.optimizer).rate
    return dataclasses.replace(
        recipe, optimizer=name, learning_rate=rate, **_defaults_of_unused(recipe, name)
    )
