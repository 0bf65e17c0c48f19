"""Positions that are added to the embedding, or turn it: each token by itself, by the number of its place."""

import math

import torch
from torch import nn
from transformers import initialization as init
from transformers.utils import is_tracing

from .position_base import Positions, Stretched, build_inverse_frequencies, compute_sinusoids


class IndexPositions(Positions):
    """The position's number, added to every coordinate; LayerNorm takes it off again.

    It fails, and is here to show why. The number grows without bound and soon outweighs the word; and being
    the same in every coordinate it is just what LayerNorm's subtracted mean takes off again: in a pre-norm
    model nothing is left of it, and in a post-norm model only the first attention sees it. In half precision
    the word beside a large number is rounded away, too: outputs of a random float16 encoder, two layers of
    64, are .05 off at 128 places and .4 at 1,024 (measured).
    """

    title = "Index added"
    equation = "P(i) = (i, i, …, i)"
    paper = "“The Birth of Transformers”, Deep Learning DNA, chapter 8, to show why it fails"

    def forward(self, embeddings: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """Add [B, T] positions to each coordinate of [B, T, D] embeddings."""
        return embeddings + position_ids.unsqueeze(-1).to(embeddings.dtype)


class SinusoidalPositions(Positions):
    """Sines and cosines of falling frequency, added to the embedding; nothing is learned.

    They are computed where they are needed, so any position has one, and no half precision rounds them first.
    """

    title = "Sinusoidal"
    equation = "PE(p, 2i) = sin(p / 10000^(2i/D)),  PE(p, 2i+1) = cos(p / 10000^(2i/D))"
    paper = "Vaswani et al. 2017, arXiv:1706.03762, §3.5"

    def forward(self, embeddings: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """Add the sinusoids of [B, T] positions to [B, T, D] embeddings."""
        return embeddings + compute_sinusoids(position_ids, embeddings.shape[-1]).to(embeddings.dtype)


class LearnedPositions(Positions):
    """A trained vector for each position, added to the embedding; beyond the table there is none.

    W is [max_position_embeddings, D]; longer sequences are refused.
    """

    title = "Learned table"
    equation = "P(i) = W_i"
    paper = "Gehring et al. 2017, arXiv:1705.03122"
    settings = ("max_position_embeddings", "seed")
    extrapolates = False

    def __init__(self, config, is_causal: bool = False):
        super().__init__(config, is_causal)
        self.std = config.position_initializer_range
        self.weight = nn.Parameter(torch.empty(config.max_position_embeddings, config.hidden_size))

    def forward(self, embeddings: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """Add the vectors of [B, T] positions to [B, T, D] embeddings."""
        return embeddings + nn.functional.embedding(position_ids, self.weight)

    def reset(self) -> None:
        """Draw the table anew from N(0, std²)."""
        init.normal_(self.weight, mean=0.0, std=self.std)


class LearnedInterpolatedPositions(Stretched, LearnedPositions):
    """A trained table whose rows move closer together where a sequence is longer than it.

    Chen et al. 2023 scale the indices of rotary positions; a learned table can be interpolated as well. Its
    weights are those of `learned`, so that a model trained with one reads with the other.
    """

    title = "Learned, interpolated"
    equation = "P(i) = W_⌊x⌋ + (x − ⌊x⌋)(W_⌊x⌋₊₁ − W_⌊x⌋),  x = i / s"
    paper = "after Chen et al. 2023, arXiv:2306.15595"
    extrapolates = True

    def forward(self, embeddings: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """Add the interpolated vectors of [B, T] positions to [B, T, D] embeddings."""
        places = position_ids / self.stretch(position_ids)
        before = places.floor().long()
        share = (places - before).unsqueeze(-1).to(embeddings.dtype)  # [B, T, 1]
        first = nn.functional.embedding(before, self.weight)
        second = nn.functional.embedding((before + 1).clamp(max=self.longest - 1), self.weight)
        return embeddings + first + share * (second - first)

    def check_length(self, length: int, past_length: int, position_ids: torch.Tensor | None = None) -> None:
        """Refuse what even the stretched table does not hold."""
        super().check_length(length, past_length, position_ids)
        if (
            self.factor is not None
            and (needed := self.count_beyond(length, position_ids)) > self.factor * self.longest
        ):
            raise ValueError(
                f"The sequence has {needed} tokens; this model has "
                f"max_position_embeddings={self.longest}, stretched by "
                f"position_scaling_factor={self.factor}. Shorten it, or raise the factor."
            )


class ODEPositions(Positions):
    """Positions lie on a trajectory whose direction is learned, solved step by step from its start.

        f(p, t) = (W₂ tanh(W₁ p + w t/L + b₁) + b₂) / √L,   L = max_position_embeddings

    Without √L the solution runs away, and 100 steps on a sentence of 20 letters end at a loss of 0.3 instead
    of 0.002 (measured). Solved from p(0), which is learned too, by Runge and Kutta's fourth-order method with
    one step a place: the solution goes on beyond any length, and costs four evaluations a place, one after
    the other.
    """

    title = "Neural ODE"
    equation = "dp/dt = f(p, t),  P(i) = p(i)"
    paper = "Chen et al. 2018, arXiv:1806.07366; Liu et al. 2020, arXiv:2003.09229"
    settings = ("max_position_embeddings", "seed")

    def __init__(self, config, is_causal: bool = False):
        super().__init__(config, is_causal)
        width = config.hidden_size
        self.std = config.position_initializer_range
        self.start = nn.Parameter(torch.empty(width))
        self.inner = nn.Linear(width, width)
        self.time = nn.Linear(1, width, bias=False)
        self.outer = nn.Linear(width, width)

    def slope(self, place: torch.Tensor, time: float) -> torch.Tensor:
        """f(p, t): [D] at a time → [D]."""
        now = place.new_full((1,), time / self.longest)
        return self.outer(torch.tanh(self.inner(place) + self.time(now))) / math.sqrt(self.longest)

    def solve(self, count: int) -> torch.Tensor:
        """Return p(0) … p(count − 1), [count, D].

        k₁ = f(p, t),   k₂ = f(p + k₁/2, t + ½),   k₃ = f(p + k₂/2, t + ½),   k₄ = f(p + k₃, t + 1)
        p(t + 1) = p(t) + (k₁ + 2k₂ + 2k₃ + k₄) / 6
        """
        places = [self.start]
        for time in range(count - 1):
            place = places[-1]
            first = self.slope(place, time)
            second = self.slope(place + first / 2, time + 0.5)
            third = self.slope(place + second / 2, time + 0.5)
            fourth = self.slope(place + third, time + 1)
            places.append(place + (first + 2 * second + 2 * third + fourth) / 6)
        return torch.stack(places)

    def forward(self, embeddings: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """Add the solution at [B, T] positions to [B, T, D] embeddings: of all, where none can be read."""
        n = self.longest if is_tracing(position_ids) or position_ids.is_meta else int(position_ids.max()) + 1
        return embeddings + nn.functional.embedding(position_ids, self.solve(n))

    def reset(self) -> None:
        """Draw p(0) anew from N(0, std²)."""
        init.normal_(self.start, mean=0.0, std=self.std)


class ComplexPositions(Positions):
    """The embedding's halves, real and imaginary, are turned by a learned frequency.

    A word is a wave, and its place the wave's phase: the halves are real and imaginary part of D/2 complex
    numbers x = r e^{iα}. A word brings its amplitude r and its own phase with it, and the place adds
    ω · position + φ, with ω and φ learned and shared by all words (in the paper each word may have its own
    ω). Out come real and imaginary part again, D numbers. Moving on by j turns by e^{iωj}, which holds as r
    does not depend on the place and the phase is linear in it.
    """

    title = "Complex phase"
    equation = "z(p) = x e^{i(ω p + φ)}"
    paper = "Wang et al. 2020, arXiv:1912.12333"
    head_multiple = 2

    @classmethod
    def check_config(cls, config) -> None:
        """Refuse a width without halves."""
        if config.hidden_size % 2:
            raise ValueError(
                f"position_type={config.position_type!r} takes hidden_size={config.hidden_size} as real and "
                "imaginary parts: choose it even."
            )

    def __init__(self, config, is_causal: bool = False):
        super().__init__(config, is_causal)
        self.omega = nn.Parameter(torch.empty(config.hidden_size // 2))
        self.phi = nn.Parameter(torch.empty(config.hidden_size // 2))

    def forward(self, embeddings: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """Turn [B, T, D] embeddings by the phases of [B, T] positions."""
        phase = position_ids.unsqueeze(-1) * self.omega.float() + self.phi.float()  # [B, T, D/2]
        real, imaginary = embeddings.chunk(2, dim=-1)
        cosine, sine = phase.cos(), phase.sin()
        turned = (real * cosine - imaginary * sine, real * sine + imaginary * cosine)
        return torch.cat(turned, dim=-1).to(embeddings.dtype)

    def reset(self) -> None:
        """Let ω begin as the sinusoids' frequencies, and φ at 0."""
        init.copy_(self.omega, build_inverse_frequencies(2 * len(self.omega), 10000.0))
        init.zeros_(self.phi)
