"""Muon: steps that change every direction of a matrix alike."""

from collections import defaultdict

import torch
from torch.optim import AdamW

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # of the iteration's polynomial, as Jordan et al. chose them
ITERATIONS = 5
MOMENTUM = 0.95
STEP_SIZE = 0.2  # root mean square of an update: AdamW's is usually .2 to .4


class Muon(AdamW):
    """Muon for the matrices of linear layers, AdamW for all other weights.

        M ← .95 M + .05 G,   O = orthogonal(.05 G + .95 M),   W ← (1 - γ λ) W - .2 √max(n, m) γ O

    orthogonal(X) = U Vᵀ of X = U Σ Vᵀ, nearly: singular values above a tenth of the largest come to lie
    between .68 and 1.2. A gradient with few strong directions then teaches the weak ones, too. Jordan et al.
    2024, kellerjordan.github.io/posts/muon; the size of a step, by which one rate γ suits both kinds of
    weights, is of Liu et al. 2025, arXiv:2502.16982. torch.optim.Muon takes the same steps, one matrix after
    the other, in bfloat16, which a processor computes slowly, and has no place for the other weights.

    Args:
        groups: of weights, as AdamW takes them; where one has is_orthogonal=True, its matrices [n, m] take
            Muon's steps.
        settings: AdamW's.
    """

    def __init__(self, groups: list[dict], **settings):
        super().__init__(groups, **settings)
        self._step_supports_amp_scaling = False  # an update has no scale: gradients come as they are

    @torch.no_grad()
    def step(self, closure=None):
        """Change all weights that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            if group.get("is_orthogonal"):
                self.step_orthogonally(group)
        super().step()  # passes over weights without a gradient
        return loss

    def step_orthogonally(self, group: dict) -> None:
        """Take Muon's step with a group's matrices, those of a shape together, and drop their gradients."""
        by_shape = defaultdict(list)
        for weight in group["params"]:
            if weight.grad is not None:
                by_shape[weight.shape].append(weight)
        for shape, weights in by_shape.items():
            gradients = torch.stack([weight.grad for weight in weights])
            for weight in weights:
                if not self.state[weight]:  # by AdamW's names, which it looks for where a state is loaded
                    self.state[weight] = {"step": torch.tensor(0.0), "exp_avg": torch.zeros_like(weight)}
            momenta = [self.state[weight]["exp_avg"] for weight in weights]
            torch._foreach_lerp_(momenta, gradients.unbind(), 1 - MOMENTUM)
            updates = make_orthogonal(gradients.lerp(torch.stack(momenta), MOMENTUM))
            rate = group["lr"]  # a tensor where a step is a graph
            for weight, update in zip(weights, updates, strict=True):
                weight.mul_(1 - rate * group["weight_decay"])
                weight.sub_(update * (STEP_SIZE * max(shape) ** 0.5) * rate)
                weight.grad = None


def make_orthogonal(matrices: torch.Tensor) -> torch.Tensor:
    """[k, n, m] → nearly U Vᵀ of each U Σ Vᵀ, by steps X ← a X + (b XXᵀ + c (XXᵀ)²) X (Newton–Schulz)."""
    is_tall = matrices.shape[-2] > matrices.shape[-1]
    found = matrices.mT if is_tall else matrices
    found = found / found.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    a, b, c = NEWTON_SCHULZ
    for _ in range(ITERATIONS):
        squares = found @ found.mT
        found = a * found + (b * squares + c * squares @ squares) @ found
    return found.mT if is_tall else found
