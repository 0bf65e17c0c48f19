"""One head of attention as data: queries, keys, values and switches; `explain` computes a weight in steps."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import cached_property
from numbers import Integral

import torch
from torch.nn import functional

from hf_attn.utils.text import quote

SCORE_DIGITS, MOST_DIGITS = 2, 6  # of a score as it is shown, and of its products at most
LARGE = 7.0  # e^7 has four digits; where scores are larger, the largest is taken off before exp
LONGEST = 64  # tokens on either side of a map whose every number is to be read

Numbers = tuple[float, ...]


@dataclass(frozen=True)
class Line:
    """What the query of a row reads from one key.

    Attributes:
        score: q · k.
        scaled: the score divided by √Dk, or as it is where the head does not scale.
        bias: what the positions add to it; 0 where they add nothing.
        may_attend: False = masked.
        exp: e to the power of scaled + bias − shift, 0 where masked.
        weight: exp over the row's sum.
        value: v.
        contribution: weight · v.
    """

    score: float
    scaled: float
    bias: float
    may_attend: bool
    exp: float
    weight: float
    value: Sequence[float]
    contribution: Sequence[float]


@dataclass(frozen=True)
class Explanation:
    """The arithmetic of one cell of the map, and of its row.

    Attributes:
        row, column: the cell.
        query, key: the two vectors, [Dk].
        products: number by number; they sum to the score.
        product_digits: decimals at which the products as shown sum to the score as shown.
        lines: one a key.
        shift: what is subtracted before exp to keep numbers short; it leaves the softmax as it is.
        exp_sum: of the row.
        output: y, the sum of the contributions, [Dv].
    """

    row: int
    column: int
    query: Numbers
    key: Numbers
    products: Numbers
    product_digits: int
    lines: tuple[Line, ...]
    shift: float
    exp_sum: float
    output: Numbers

    @property
    def chosen(self) -> Line:
        """The line of the cell's key."""
        return self.lines[self.column]


@dataclass(frozen=True)
class Difference:
    """The largest distance between two numbers of two tensors, and at which row and column it is."""

    largest: float
    row: int
    column: int


@dataclass(frozen=True, eq=False)
class Head:
    """One head of an attention layer on one example.

        A = softmax(Q Kᵀ / √Dk + bias),   Y = A V       (Vaswani et al. 2017, arXiv:1706.03762, eq. 1)

    All tensors are float64 on the CPU. A switch is turned by `dataclasses.replace(head, scale=False)`.

    Attributes:
        rows, columns: names of the T tokens that read and of the S tokens that are read.
        query: [T, Dk].
        key: [S, Dk].
        value: [S, Dv].
        scale: whether scores are divided by √Dk.
        causal: whether a token may only read itself and those before it.
        hidden: places of keys that no query may attend to, such as padding.
        bias: [T, S], what positions add to the scaled scores; None for nothing.
        value_offsets: [T, S, Dv], what positions add to a value, depending on who reads; None for nothing.

    Raises:
        ValueError: the shapes do not fit each other, or the switches do not fit the shapes.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    scale: bool = True
    causal: bool = False
    hidden: tuple[int, ...] = ()
    bias: torch.Tensor | None = None
    value_offsets: torch.Tensor | None = None

    def __post_init__(self) -> None:
        shapes = (len(self.query), len(self.key), len(self.value), self.query.shape[-1])
        wanted = (len(self.rows), len(self.columns), len(self.columns), self.key.shape[-1])
        if shapes != wanted:
            raise ValueError(
                f"{wanted[0]} rows and {wanted[1]} columns of width {wanted[3]} do not fit a query of "
                f"{tuple(self.query.shape)}, a key of {tuple(self.key.shape)} and a value of "
                f"{tuple(self.value.shape)}: give one row a token."
            )
        if self.causal and len(self.rows) != len(self.columns):
            raise ValueError(
                f"causal=True needs as many queries as keys, and there are {len(self.rows)} and "
                f"{len(self.columns)}: leave it off where one sequence reads another."
            )
        places = range(len(self.columns))
        if unknown := [place for place in self.hidden if not is_whole(place) or place not in places]:
            raise ValueError(
                f"hidden={quote(unknown[0])} is no key: places are 0 to {len(self.columns) - 1}."
            )
        if len(set(self.hidden)) == len(self.columns):
            raise ValueError(f"hidden={self.hidden} leaves no key to read: leave one in.")
        if self.bias is not None and self.bias.shape != (len(self.rows), len(self.columns)):
            raise ValueError(
                f"bias has shape {list(self.bias.shape)}; give {[len(self.rows), len(self.columns)]}, a row "
                "for each query and a column for each key."
            )

    @property
    def scaling(self) -> float:
        """What the scores are multiplied with."""
        return self.key.shape[-1] ** -0.5 if self.scale else 1.0

    @cached_property
    def may_attend(self) -> torch.Tensor:
        """Bool, [T, S]; True = may attend."""
        allowed = torch.ones(len(self.rows), len(self.columns), dtype=torch.bool)
        allowed[:, list(self.hidden)] = False
        return allowed.tril() if self.causal else allowed

    @cached_property
    def scores(self) -> torch.Tensor:
        """Q Kᵀ, [T, S]."""
        return self.query @ self.key.T

    @cached_property
    def scaled(self) -> torch.Tensor:
        """Q Kᵀ / √Dk, [T, S]."""
        return self.scores * self.scaling

    @cached_property
    def weights(self) -> torch.Tensor:
        """A, [T, S]: every row sums to 1, or to 0 where nothing may be attended."""
        masked = self.scaled if self.bias is None else self.scaled + self.bias
        weights = masked.masked_fill(~self.may_attend, torch.finfo(masked.dtype).min).softmax(dim=-1)
        return weights.masked_fill(~self.may_attend, 0)

    @cached_property
    def outputs(self) -> torch.Tensor:
        """Y, [T, Dv]."""
        return torch.einsum("ts,tsd->td", self.weights, self._values)

    @property
    def _values(self) -> torch.Tensor:
        """The value that each query reads at each key, [T, S, Dv]."""
        values = self.value.expand(len(self.rows), -1, -1)
        return values if self.value_offsets is None else values + self.value_offsets

    def explain(self, row: int, column: int) -> Explanation:
        """Compute the weight of a cell, both counted from 0, step by step; ValueError where there is none."""
        are_whole = is_whole(row) and is_whole(column)
        if not (are_whole and 0 <= row < len(self.rows) and 0 <= column < len(self.columns)):
            raise ValueError(
                f"({quote(row)}, {quote(column)}) is no cell: rows are 0 to {len(self.rows) - 1}, "
                f"columns 0 to {len(self.columns) - 1}."
            )
        bias = torch.zeros(len(self.columns)) if self.bias is None else self.bias[row]
        allowed, masked = self.may_attend[row], self.scaled[row] + bias
        largest = float(masked[allowed].max()) if allowed.any() else 0.0
        shift = largest if abs(largest) > LARGE else 0.0
        exps = (masked - shift).exp().masked_fill(~allowed, 0)
        columns = {
            "score": self.scores[row],
            "scaled": self.scaled[row],
            "bias": bias,
            "may_attend": allowed,
            "exp": exps,
            "weight": self.weights[row],
            "value": self._values[row],
            "contribution": self.weights[row].unsqueeze(1) * self._values[row],
        }
        lines = zip(*(tensor.tolist() for tensor in columns.values()), strict=True)
        products = self.query[row] * self.key[column]
        return Explanation(
            row=row,
            column=column,
            query=tuple(self.query[row].tolist()),
            key=tuple(self.key[column].tolist()),
            products=tuple(products.tolist()),
            product_digits=digits_that_sum(products.tolist(), float(self.scores[row, column])),
            lines=tuple(Line(**dict(zip(columns, line, strict=True))) for line in lines),
            shift=shift,
            exp_sum=float(exps.sum()),
            output=tuple(self.outputs[row].tolist()),
        )

    def measure_torch_difference(self) -> Difference:
        """How far the outputs are from `F.scaled_dot_product_attention`, in float32 as models compute it.

        A query that may attend to nothing is left out: it has no attention to compare.
        """
        mask = torch.zeros_like(self.scores) if self.bias is None else self.bias
        mask = mask.masked_fill(~self.may_attend, -math.inf)
        reads = self.may_attend.any(dim=1)
        query, value, mask = self.query[reads], self._values[reads], mask[reads]
        theirs = functional.scaled_dot_product_attention(
            query.unsqueeze(1).float(),  # [T, 1, Dk]
            self.key.expand(len(query), -1, -1).float(),  # [T, S, Dk]
            value.float(),  # [T, S, Dv]
            attn_mask=mask.unsqueeze(1).float(),
            scale=self.scaling,
        )
        apart = (theirs.squeeze(1).double() - self.outputs[reads]).abs()
        place = int(apart.argmax())
        row = int(reads.nonzero()[place // apart.shape[1]])
        return Difference(float(apart.max()), row, place % apart.shape[1])


def project(words: Sequence[str], states: torch.Tensor, w_query, w_key, w_value, **switches) -> Head:
    """Self-attention of X [T, D], whose tokens are `words`, by three maps [D, Dk].

        Q = X W_q,   K = X W_k,   V = X W_v

    The switches are `scale`, `causal` and `hidden` of the head.
    """
    query, key, value = (states.double() @ weight.double() for weight in (w_query, w_key, w_value))
    return Head(tuple(words), tuple(words), query, key, value, **switches)


def read_mask(mask: torch.Tensor) -> torch.Tensor:
    """Which keys a mask leaves to each query, bool of its shape.

    A mask is bool, True = may attend; or it is added to the scores, 0 or the lowest number, perhaps with what
    positions add.
    """
    return mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2


def is_whole(number: object) -> bool:
    """Whether something is a whole number, Python's or NumPy's, and neither 1.0 nor True."""
    return isinstance(number, Integral) and not isinstance(number, bool)


def digits_that_sum(products: Sequence[float], score: float) -> int:
    """Fewest decimals at which products, rounded one by one, still sum to the score as it is shown.

    Of many rounded numbers the errors add up: with two decimals each, sixteen of them can miss by .08.

    >>> digits_that_sum([0.333, 0.333, 0.333], 0.999), digits_that_sum([0.5, 0.25], 0.75)
    (3, 2)
    """
    for digits in range(SCORE_DIGITS, MOST_DIGITS):
        if round_half_up(sum(round_half_up(x, digits) for x in products), SCORE_DIGITS) == round_half_up(
            score, SCORE_DIGITS
        ):
            return digits
    return MOST_DIGITS


def round_half_up(number: float | Decimal, digits: int) -> Decimal:
    """Round as people do, and as JavaScript's toFixed does: halves away from zero.

    >>> round_half_up(-0.125, 2), round_half_up(2.5, 0)
    (Decimal('-0.13'), Decimal('3'))
    """
    return Decimal(number).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)
