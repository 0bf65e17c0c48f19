"""Figures of attention weights seen as a distribution, a matrix, a signal or a kernel.

Each is a function of a head's weights A [..., Q, K], a row for each query and a column for each key, or of
queries and keys. Everywhere `may_attend` is bool, broadcastable to the weights: True = may attend, and None
where every key may be attended. A row of zeros, a query that attends to nothing (padding, or all of its keys
hidden), does not count. What cannot be weights, such as numbers below 0 or above 1, is refused with a
ValueError, and so is a share or tolerance out of its range.
"""

import math
from collections.abc import Mapping

import torch

from hf_attn.analysis.hopfield import inner_products

FIRST_SHARE = 0.1  # of all singular values: the rank that document `chapter-8` gives a deep map
COUNTED = 0.01  # of the largest singular value: smaller ones do not count to a rank
LOW = 0.5  # of the highest frequency
LEAKED = 1e-4  # weight on hidden keys, or above 1, that rounding explains
WHOLE = 1e-9  # below a whole number that rounding explains: 0.29 · 100 is 28.999999999999996

# what `measure_theory` measures of a head; n is the number of keys that a query may attend to
THEORY: Mapping[str, str] = {
    "entropy": "how undecided a query is: −Σ a ln a over ln n, 0 for one key and 1 spread evenly",
    "entropy_bits": "the same in bits, not divided by its highest, log2 n",
    "effective_rank": "e to the entropy of the singular values: how many directions the map uses",
    "rank": "how many singular values are above a hundredth of the largest",
    "rank_share": "that rank over the largest possible, the smaller of queries and keys",
    "first_tenth": "share of Σ σ² that the largest tenth of the singular values holds",
    "low_frequencies": "share of the Fourier transform's energy below half the highest frequency, both ways",
    "sink": "weight on the first key",
    "distance": "how many places away a query reads on average, Σ a |query − key|",
}


def entropy(weights: torch.Tensor) -> torch.Tensor:
    """How undecided each query is, in nats: [..., Q].

        H_q = −Σ_k A_qk ln A_qk                     (Shannon 1948, doi:10.1002/j.1538-7305.1948.tb01338.x, §6)

    0 where all weight lies on one key, ln n where it is spread evenly over n.
    """
    _check_weights(weights)
    return torch.special.entr(weights).sum(-1)


def normalised_entropy(weights: torch.Tensor, may_attend: torch.Tensor | None = None) -> torch.Tensor:
    """The entropy as a share of the highest that a query's mask allows: [..., Q] from 0 to 1.

        H_q / ln n_q,   n_q = number of keys that query q may attend to

    NaN for a query without a choice, which has one key or none.
    """
    allowed = _count_keys(weights, may_attend)
    share = entropy(weights) / allowed.clamp(min=2).to(weights.dtype).log()
    return share.masked_fill(~choosing(weights, may_attend), math.nan)


def choosing(weights: torch.Tensor, may_attend: torch.Tensor | None = None) -> torch.Tensor:
    """Which queries choose among keys, bool [..., Q]: they may attend to two at least, and attend to some."""
    return (_count_keys(weights, may_attend) > 1) & (weights.sum(-1) > 0)


def singular_values(weights: torch.Tensor) -> torch.Tensor:
    """A map's singular values, which say how much goes through each of its directions.

        A = U Σ Vᵀ,   Σ = diag(σ_1 ≥ σ_2 ≥ …)

    Args:
        weights: [..., Q, K]; rows and columns of zeros change nothing.

    Returns:
        [..., min(Q, K)] from the largest to the smallest, float64.
    """
    _check_weights(weights)
    return torch.linalg.svdvals(weights.double())


def effective_rank(weights: torch.Tensor) -> torch.Tensor:
    """How many directions a map uses, weighed by how much goes through each: [...].

        exp(−Σ_i p_i ln p_i),   p_i = σ_i / Σ_j σ_j          (Roy & Vetterli 2007, EUSIPCO, eq. 3–4)

    From 1 (every query reads alike) to min(Q, K) (an identity); 0 for a map of zeros.
    """
    sigma = singular_values(weights)
    total = sigma.sum(-1, keepdim=True)
    shares = sigma / total.clamp(min=torch.finfo(sigma.dtype).tiny)
    return torch.special.entr(shares).sum(-1).exp() * (total.squeeze(-1) > 0)


def numerical_rank(weights: torch.Tensor, tolerance: float = COUNTED) -> torch.Tensor:
    """How many singular values are not small beside the largest: [...], int64; 0 for a map of zeros.

    #{i: σ_i > tolerance · σ_1},   0 ≤ tolerance < 1
    """
    if not 0 <= tolerance < 1:
        raise ValueError(f"tolerance={tolerance} must be at least 0 and below 1, a share of the largest one.")
    sigma = singular_values(weights)
    return (sigma > tolerance * sigma[..., :1]).sum(-1)


def leading_energy(weights: torch.Tensor, share: float = FIRST_SHARE) -> torch.Tensor:
    """How much of a map its first singular values explain: [...], from 0 to 1; NaN for a map of zeros.

        Σ_{i ≤ m} σ_i² / Σ_i σ_i²,   m = ⌊share · min(Q, K)⌋, at least 1,   0 < share ≤ 1
                                                (Wang et al. 2020, arXiv:2006.04768, fig. 1, there of σ)

    σ² because ‖A‖² = Σ σ²: that is what a map of rank m can keep at best (Eckart & Young 1936,
    doi:10.1007/BF02288367).
    """
    if not 0 < share <= 1:
        raise ValueError(f"share={share} must be above 0 and at most 1: 0.1 is the largest tenth.")
    squares = singular_values(weights).square()
    first = max(1, int(share * squares.shape[-1] + WHOLE))
    return squares[..., :first].sum(-1) / squares.sum(-1)


def low_frequency_share(weights: torch.Tensor, below: float = LOW) -> torch.Tensor:
    """How much of a map is smooth: it changes little from query to query and from key to key.

        F_uv = Σ_qk A_qk e^(−2πi (qu/Q + kv/K)),   Σ_{low} |F_uv|² / Σ_uv |F_uv|²

    A frequency is |u|/Q or |v|/K waves a place, u and v counted from −Q/2 and −K/2; the highest is one half.
    Low is what is below `below` times that in both directions, the constant (0, 0) included. Attention as a
    low-pass filter: Wang et al. 2022, arXiv:2203.05962.

    The weights have no padding: rows and columns of zeros are an edge, and edges are steep. [...] is 1 where
    every weight is the same; about `below` for an identity, whose energy lies evenly along u = −v; NaN for a
    map of zeros.
    """
    _check_weights(weights)
    if not 0 < below <= 1:
        raise ValueError(f"below={below} must be above 0 and at most 1, a share of the highest frequency.")
    energy = torch.fft.fft2(weights.double()).abs().square()
    rows, columns = (
        torch.fft.fftfreq(size, device=weights.device).abs() < below / 2 for size in weights.shape[-2:]
    )
    return (energy * (rows[:, None] & columns)).sum((-2, -1)) / energy.sum((-2, -1))


def sink_share(weights: torch.Tensor, may_attend: torch.Tensor | None = None) -> torch.Tensor:
    """How much attention drains into the first key, whatever stands there: [...].

        mean over q of A_q0                          (Xiao et al. 2023, arXiv:2309.17453, §3.1)

    Over the queries that have a choice; 1 / K for even attention; NaN where no query has one.
    """
    _check_weights(weights)
    return mean_over_queries(weights[..., 0], choosing(weights, may_attend))


def mean_distance(weights: torch.Tensor) -> torch.Tensor:
    """How many places away a head reads: [...]; NaN where no query attends to anything.

    mean over q of Σ_k A_qk |q − k|             (Vig & Belinkov 2019, arXiv:1906.04284, §4.3)
    """
    _check_weights(weights)
    far = (weights * _offsets(weights).abs()).sum(-1)
    return mean_over_queries(far, weights.sum(-1) > 0)


def distance_profile(
    weights: torch.Tensor, may_attend: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean weight at each distance from the query.

        w_o = mean over q of A_q,q+o,   o = 1 − Q … K − 1

    Args:
        weights: [..., Q, K].
        may_attend: bool, broadcastable to weights; None where every key may be attended.

    Returns:
        (offsets key − query [Q + K − 1], w [..., Q + K − 1]); an offset counts for those queries that attend
        to something and may attend there, and is NaN where there are none.
    """
    _check_weights(weights)
    queries, keys = weights.shape[-2:]
    counted = (weights.sum(-1, keepdim=True) > 0).expand_as(weights)
    if may_attend is not None:
        counted = counted & may_attend
    places = (_offsets(weights) + queries - 1).flatten()
    sums, counts = (
        weights.new_zeros(*weights.shape[:-2], queries + keys - 1).index_add_(-1, places, part.flatten(-2))
        for part in (weights * counted, counted.to(weights.dtype))
    )
    return torch.arange(1 - queries, keys, device=weights.device), sums / counts


def kernel_matrix(
    query: torch.Tensor, key: torch.Tensor, may_attend: torch.Tensor | None = None
) -> torch.Tensor:
    """The kernel that attention normalises, A = κ / Σ_k κ: [..., Q, K], float64, above 0 where allowed.

        κ(q, k) = exp(q · k / √D)                    (Tsai et al. 2019, arXiv:1908.11775, eq. 1–2)

    Queries are [..., Q, D], keys [..., K, D]; what may not be attended has a κ of 0. Between tokens it is
    asymmetric, since a token's query is another vector than its key. ValueError where their widths differ;
    OverflowError where scores are beyond what e may be raised to.
    """
    scores = inner_products(query, key) / math.sqrt(query.shape[-1])
    if scores.numel() and scores.max() > math.log(torch.finfo(scores.dtype).max):
        raise OverflowError(
            f"q·k/√D reaches {float(scores.max()):.0f}, and e to that is beyond a number; scale queries down."
        )
    kernel = scores.exp()
    return kernel if may_attend is None else kernel * may_attend


def measure_theory(weights: torch.Tensor, may_attend: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
    """Every view of THEORY, for each head of one kind of attention in one example.

    Args:
        weights: [L, H, Q, K].
        may_attend: bool [Q, K]: True = may attend; padded queries and keys, which may not, are cut away.
            None where every key may be attended.

    Returns:
        Name → [L, H], float64; NaN where there is nothing to measure, such as a query's choice of one key.

    Raises:
        ValueError: a mask of another shape, or weight on what may not be attended.
    """
    _check_weights(weights)
    if may_attend is not None:
        weights, may_attend = crop(weights, may_attend)
    weights = weights.double()
    chooses = choosing(weights, may_attend)
    rank = numerical_rank(weights).double()
    return {
        "entropy": normalised_entropy(weights, may_attend).nanmean(-1),
        "entropy_bits": mean_over_queries(entropy(weights) / math.log(2), chooses),
        "effective_rank": effective_rank(weights),
        "rank": rank,
        "rank_share": rank / min(weights.shape[-2:]),
        "first_tenth": leading_energy(weights),
        "low_frequencies": low_frequency_share(weights),
        "sink": sink_share(weights, may_attend),
        "distance": mean_distance(weights),
    }


def crop(weights: torch.Tensor, may_attend: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A map without its padding, [..., q, k], and its mask [q, k]: queries that may attend, and their keys.

    `may_attend` is [Q, K]. What a padded query attends to is not looked at. ValueError: a mask of another
    shape, or weight on a key that may not be attended.
    """
    if may_attend.shape != weights.shape[-2:] or may_attend.dtype != torch.bool:
        raise ValueError(
            f"may_attend is {may_attend.dtype} {list(may_attend.shape)}; give torch.bool "
            f"{list(weights.shape[-2:])}, queries by keys, True where a query may attend."
        )
    rows, columns = may_attend.any(-1), may_attend.any(-2)
    weights = weights[..., rows, :]
    leaked = float((weights * ~may_attend[rows]).sum(-1).amax()) if weights.numel() else 0.0
    if leaked > LEAKED:
        raise ValueError(f"weights put {leaked:.3f} on keys that may_attend hides: give the mask they had.")
    return weights[..., columns], may_attend[rows][:, columns]


def mean_over_queries(values: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """The mean of values [..., Q] over the queries that are counted [..., Q]: [...], NaN where none is."""
    return (values * counted).sum(-1) / counted.expand_as(values).sum(-1)


def _check_weights(weights: torch.Tensor) -> None:
    if weights.dim() < 2 or not weights.is_floating_point() or 0 in weights.shape[-2:]:
        raise ValueError(
            f"weights is {weights.dtype} {list(weights.shape)}; give floats [..., queries, keys], at least "
            "one of each."
        )
    if not (weights >= 0).all():
        raise ValueError("weights holds negative numbers or NaN; give them as they leave the softmax.")
    if (weights > 1 + LEAKED).any():
        raise ValueError(
            f"weights reaches {float(weights.max()):.3g}, and a weight is at most 1; give them as they leave "
            "the softmax."
        )


def _count_keys(weights: torch.Tensor, may_attend: torch.Tensor | None) -> torch.Tensor:
    """How many keys each query may attend to, [..., Q]."""
    if may_attend is None:
        return torch.full(weights.shape[:-1], weights.shape[-1], device=weights.device)
    return may_attend.broadcast_to(weights.shape).sum(-1)


def _offsets(weights: torch.Tensor) -> torch.Tensor:
    """Key − query for each cell, [Q, K]."""
    queries, keys = (torch.arange(size, device=weights.device) for size in weights.shape[-2:])
    return keys - queries[:, None]
