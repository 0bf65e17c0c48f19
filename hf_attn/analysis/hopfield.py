"""Attention as a memory: a modern Hopfield network; its stored patterns are keys, its states queries.

One update of a state is attention with the keys for values, and it never raises the energy. Everywhere a
state ξ is [..., Q, D] and the patterns X are [..., K, D], at least one and as wide as the states; β is above
0, and attention's own, 1/√D, where it is None; `may_attend` is bool, broadcastable to [..., Q, K]: which
patterns there are for which state.
"""

import math

import torch


def hopfield_energy(
    state: torch.Tensor,
    patterns: torch.Tensor,
    beta: float | None = None,
    may_attend: torch.Tensor | None = None,
) -> torch.Tensor:
    """The energy of states in a modern Hopfield network that stores patterns: [..., Q], float64.

        E(ξ) = −lse(β, X ξ) + ½ ξᵀξ + β⁻¹ ln N + ½ M²,   lse(β, z) = β⁻¹ ln Σ_i e^(β z_i),   M = max_i ‖x_i‖
                                                     (Ramsauer et al. 2020, arXiv:2008.02217, eq. 2)

    Not negative; NaN for a state that has no pattern.
    """
    scores = inner_products(state, patterns)
    beta = _check_beta(beta, state)
    if may_attend is None:
        may_attend = torch.ones_like(scores, dtype=torch.bool)
    may_attend = may_attend.broadcast_to(scores.shape)
    counts = may_attend.sum(-1)
    lse = (beta * scores).masked_fill(~may_attend, -math.inf).logsumexp(-1) / beta
    norms = patterns.double().square().sum(-1).unsqueeze(-2).expand_as(scores)
    largest = norms.masked_fill(~may_attend, 0).amax(-1)  # M²
    energy = (
        -lse + state.double().square().sum(-1) / 2 + counts.clamp(min=1).double().log() / beta + largest / 2
    )
    return energy.masked_fill(counts == 0, math.nan)


def hopfield_update(
    state: torch.Tensor,
    patterns: torch.Tensor,
    beta: float | None = None,
    may_attend: torch.Tensor | None = None,
) -> torch.Tensor:
    """One step towards a stored pattern, which is attention with the keys for values: [..., Q, D], float64.

        ξ' = Xᵀ softmax(β X ξ)                      (Ramsauer et al. 2020, arXiv:2008.02217, eq. 3, theorem 1)

    The energy never rises. Zeros for a state that has no pattern.
    """
    scores = inner_products(state, patterns) * _check_beta(beta, state)
    if may_attend is None:
        return scores.softmax(-1) @ patterns.double()
    weights = scores.masked_fill(~may_attend, -math.inf).softmax(-1)
    has_pattern = may_attend.any(-1, keepdim=True)  # a softmax over nothing is NaN
    return weights.masked_fill(~has_pattern, 0) @ patterns.double()


def hopfield_descent(
    state: torch.Tensor,
    patterns: torch.Tensor,
    steps: int = 1,
    beta: float | None = None,
    may_attend: torch.Tensor | None = None,
) -> torch.Tensor:
    """The energy before, and after each of some updates, of which attention makes one: [steps + 1, ..., Q].

    It is float64, and from one row to the next never higher but for rounding. ValueError for steps below 1.
    """
    if steps < 1:
        raise ValueError(f"steps={steps} must be at least 1.")
    energies = [hopfield_energy(state, patterns, beta, may_attend)]
    for _ in range(steps):
        state = hopfield_update(state, patterns, beta, may_attend)
        energies.append(hopfield_energy(state, patterns, beta, may_attend))
    return torch.stack(energies)


def inner_products(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Each query [..., Q, D] times each key [..., K, D]: [..., Q, K], float64.

    ValueError where there is no key, or queries and keys have other widths.
    """
    if key.dim() < 2 or 0 in key.shape[-2:]:
        raise ValueError(
            f"Keys, or patterns, of shape {list(key.shape)} hold nothing to be asked for: give one or more "
            "of width 1 or more, [..., K, D]."
        )
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"queries are {query.shape[-1]} wide and keys {key.shape[-1]}: give vectors of one width."
        )
    return query.double() @ key.double().transpose(-2, -1)


def _check_beta(beta: float | None, state: torch.Tensor) -> float:
    """Attention's own β where none is given."""
    if beta is None:
        return 1 / math.sqrt(state.shape[-1])
    if not beta > 0 or math.isinf(beta):
        raise ValueError(f"beta={beta} must be a number above 0; attention's own is 1/√D.")
    return beta
