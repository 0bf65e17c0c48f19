"""How well a decoder's state and a token of the memory match: the scores of Bahdanau and of Luong.

Each score stands as a plain function under its equation; the module of the same name holds its weights and
computes only once a source what does not depend on the decoder's state. A function compares queries s
[B, T, D] with the memory h [B, S, M] and returns [B, T, S].
"""

import torch
from torch import nn


def additive_score(query, memory, query_weight, memory_weight, score_weight) -> torch.Tensor:
    """Compare by a small network with one hidden layer.

        e_ij = vᵀ tanh(W_s s_i + W_h h_j)           (Bahdanau et al. 2014, arXiv:1409.0473, appendix A.1.2)

    The weights are W_s [A, D], W_h [A, M] and v [A].
    """
    return _meet(query @ query_weight.T, memory @ memory_weight.T) @ score_weight


def luong_dot_score(query, memory) -> torch.Tensor:
    """Compare by the inner product, without a weight of its own, of states and memory of one width.

    score(s_i, h_j) = s_iᵀ h_j                   (Luong et al. 2015, arXiv:1508.04025, eq. 8, dot)
    """
    return query @ memory.transpose(1, 2)


def luong_general_score(query, memory, weight) -> torch.Tensor:
    """Compare by a bilinear form with W [D, M], which lets the two be of different width.

    score(s_i, h_j) = s_iᵀ W h_j                 (Luong et al. 2015, arXiv:1508.04025, eq. 8, general)
    """
    return luong_dot_score(query, memory @ weight.T)


def luong_concat_score(query, memory, weight, score_weight) -> torch.Tensor:
    """Compare by a small network that reads both, one behind the other, with W [A, D + M] and v [A].

        score(s_i, h_j) = vᵀ tanh(W [s_i; h_j])      (Luong et al. 2015, arXiv:1508.04025, eq. 8, concat)

    Since W [s; h] = W_s s + W_h h, this is the additive score with one matrix for two.
    """
    query_weight, memory_weight = weight.split((query.shape[-1], memory.shape[-1]), dim=1)
    return additive_score(query, memory, query_weight, memory_weight, score_weight)


def _meet(query: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
    """Tanh of every sum of a row of query [B, T, A] and a row of memory [B, S, A]: [B, T, S, A]."""
    return torch.tanh(query.unsqueeze(2) + memory.unsqueeze(1))


class ScoreFunction(nn.Module):
    """A score with its weights, `score(query, score.project(memory))`, built of D, M and A.

    D is the width of the decoder's states, M of the memory, A that in which the additive scores compare.

    Attributes:
        uses_attention_size: whether it compares in a width of its own.
        needs_equal_widths: whether D and M must be equal.
    """

    uses_attention_size = False
    needs_equal_widths = False

    def __init__(self, query_size: int, memory_size: int, attention_size: int):  # noqa: ARG002 - one interface
        super().__init__()

    def project(self, memory: torch.Tensor) -> torch.Tensor:
        """What of the score depends on the memory alone: [B, S, M] → [B, S, ·], once a source."""
        return memory


class DotScore(ScoreFunction):
    """The inner product: no weights."""

    needs_equal_widths = True

    def forward(self, query: torch.Tensor, projected: torch.Tensor) -> torch.Tensor:
        """Queries [B, T, D] against the projected memory → scores [B, T, S]."""
        return luong_dot_score(query, projected)


class GeneralScore(DotScore):
    """The bilinear form: W meets the memory once a source, then a state is compared by the inner product."""

    needs_equal_widths = False

    def __init__(self, query_size: int, memory_size: int, attention_size: int):
        super().__init__(query_size, memory_size, attention_size)
        self.memory_proj = nn.Linear(memory_size, query_size, bias=False)

    def project(self, memory: torch.Tensor) -> torch.Tensor:
        """W h, [B, S, D]."""
        return self.memory_proj(memory)


class AdditiveScore(ScoreFunction):
    """The small network: W_h h is computed once a source, W_s s once a state."""

    uses_attention_size = True

    def __init__(self, query_size: int, memory_size: int, attention_size: int):
        super().__init__(query_size, memory_size, attention_size)
        self.query_proj = nn.Linear(query_size, attention_size, bias=False)
        self.memory_proj = nn.Linear(memory_size, attention_size, bias=False)
        self.score_proj = nn.Linear(attention_size, 1, bias=False)

    def project(self, memory: torch.Tensor) -> torch.Tensor:
        """W_h h, [B, S, A]."""
        return self.memory_proj(memory)

    def forward(self, query: torch.Tensor, projected: torch.Tensor) -> torch.Tensor:
        """Queries [B, T, D] against the projected memory [B, S, A] → scores [B, T, S]."""
        return self.score_proj(_meet(self.query_proj(query), projected)).squeeze(-1)


class ConcatScore(ScoreFunction):
    """The small network with one matrix for both: its part for the memory is used once a source.

    Each part meets zeros in the other's place, so that the module is called: accelerate's disk offload loads
    weights then.
    """

    uses_attention_size = True

    def __init__(self, query_size: int, memory_size: int, attention_size: int):
        super().__init__(query_size, memory_size, attention_size)
        self.query_size, self.memory_size = query_size, memory_size
        self.concat_proj = nn.Linear(query_size + memory_size, attention_size, bias=False)
        self.score_proj = nn.Linear(attention_size, 1, bias=False)

    def project(self, memory: torch.Tensor) -> torch.Tensor:
        """W_h h, [B, S, A]."""
        return self.concat_proj(nn.functional.pad(memory, (self.query_size, 0)))

    def forward(self, query: torch.Tensor, projected: torch.Tensor) -> torch.Tensor:
        """Queries [B, T, D] against the projected memory [B, S, A] → scores [B, T, S]."""
        query = self.concat_proj(nn.functional.pad(query, (0, self.memory_size)))
        return self.score_proj(_meet(query, projected)).squeeze(-1)


# as `config.score_function` names them; each is a variant of the recurrent family, with its title and its
# paper, in hf_attn.architectures.families
SCORE_FUNCTIONS: dict[str, type[ScoreFunction] | None] = {
    "none": None,
    "additive": AdditiveScore,
    "dot": DotScore,
    "general": GeneralScore,
    "concat": ConcatScore,
}


def masked_softmax(scores: torch.Tensor, may_attend: torch.Tensor | None = None) -> torch.Tensor:
    """Scores [B, T, S] → weights [B, T, S], whose rows sum to 1, or to 0 where nothing may be attended.

        α_ij = exp(e_ij) / Σ_k exp(e_ik)             (Bahdanau et al. 2014, arXiv:1409.0473, eq. 6)

    `may_attend` is bool, [B, S], True = may attend; None for all.
    """
    if may_attend is None:
        return scores.softmax(dim=-1, dtype=torch.float32).to(scores.dtype)
    hidden = ~may_attend.unsqueeze(1)  # [B, 1, S]
    scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1, dtype=torch.float32).to(scores.dtype)
    return weights.masked_fill(hidden, 0)  # a row of nothing but the lowest number would come out uniform


def read_memory(score: ScoreFunction, query, projected, memory, may_attend=None):
    """Let every query [B, T, D] read the memory [B, S, M]: (contexts [B, T, M], weights [B, T, S]).

        c_i = Σ_j α_ij h_j                           (Bahdanau et al. 2014, arXiv:1409.0473, eq. 5)

    `projected` is `score.project(memory)`; `may_attend` as `masked_softmax` takes it.
    """
    weights = masked_softmax(score(query, projected), may_attend)
    return weights @ memory, weights
