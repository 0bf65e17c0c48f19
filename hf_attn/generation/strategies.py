"""How each token of an answer is chosen: one table.

A new way to sample is a function that cuts a distribution and a row of STRATEGIES; the command line, the
endpoints and the app with its scripts take its name, its parameters and their limits from the row.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hf_attn.models.config_checks import check_choice, check_number, show_value
from hf_attn.utils.text import shorten

if TYPE_CHECKING:
    from torch import Tensor


class Slider(NamedTuple):
    """The limits of a parameter in the app, narrower than in Python."""

    low: float
    high: float
    start: float
    step: float


@dataclass(frozen=True)
class Parameter:
    """A number that a strategy takes; a whole one where its limits are."""

    name: str  # of the argument in Python; `--name` on the command line
    label: str  # of its field in the app
    short: str  # its name in a sentence, and in a link
    help: str  # what it is
    default: float  # where it is not given
    low: float  # the lowest that is allowed
    high: float  # the highest
    slider: Slider | None = None  # in the app; None where the app offers none

    @property
    def kind(self) -> type[int] | type[float]:
        """Of its values."""
        return type(self.low)


@dataclass(frozen=True)
class Strategy:
    """One way to choose the tokens of an answer.

    Attributes:
        title: for people.
        sentence: what each token, or the answer, is; with its source.
        parameters: what it takes beside temperature and seed, which all take that sample.
        cut: (probabilities [V], **parameters) → [V], what the token is drawn from; None: nothing is drawn.
        keeps: the same cut in JavaScript for the app, which redraws it while a slider moves: whether a token
            is kept, from its `rank` (0 is the likeliest), its probability `p`, the sum `before` it, the
            probability `most` of the likeliest, and the parameters by name. Empty where nothing is cut.
    """

    title: str
    sentence: str
    parameters: tuple[Parameter, ...] = ()
    cut: "Callable[..., Tensor] | None" = None
    keeps: str = ""

    @property
    def samples(self) -> bool:
        """Whether tokens are drawn at random."""
        return self.cut is not None

    @property
    def used(self) -> tuple[Parameter, ...]:
        """All that it takes."""
        return (*self.parameters, *((TEMPERATURE, SEED) if self.samples else ()))


def cut_top_k(probabilities: "Tensor", top_k: int) -> "Tensor":
    """Keep the k likeliest tokens.

    p'(x) ∝ p(x) [rank(x) ≤ k]          (Fan et al. 2018, arXiv:1805.04833)
    """
    likeliest = probabilities.topk(min(top_k, len(probabilities))).indices
    kept = probabilities.new_zeros(len(probabilities)).index_fill_(0, likeliest, 1.0)
    return _renormalize(probabilities, kept)


def cut_nucleus(probabilities: "Tensor", top_p: float) -> "Tensor":
    """Keep the fewest likeliest tokens that hold top_p together.

    p'(x) ∝ p(x) [Σ p(y) < top_p, over all y likelier than x]     (Holtzman et al. 2020, arXiv:1904.09751)
    """
    ordered, order = probabilities.sort(descending=True)
    kept = ordered.cumsum(0) - ordered < top_p
    return _renormalize(probabilities, kept.scatter(0, order, kept))


def cut_min_p(probabilities: "Tensor", min_p: float) -> "Tensor":
    """Keep the tokens that have at least this share of the likeliest one's probability.

    p'(x) ∝ p(x) [p(x) ≥ min_p · max p]      (Nguyen et al. 2024, arXiv:2407.01082)
    """
    return _renormalize(probabilities, probabilities >= min_p * probabilities.max())


def _renormalize(probabilities: "Tensor", kept: "Tensor") -> "Tensor":
    cut = probabilities * kept
    return cut / cut.sum()


# name, label, short name, help; default, lowest, highest; lowest, highest, start and step of the slider
TEMPERATURE = Parameter(
    "temperature",
    "Temperature",
    "temperature",
    "Temperature; 0 is greedy",
    1.0,
    0.0,
    1e6,
    Slider(0.0, 2.0, 1.0, 0.1),
)
SEED = Parameter("seed", "Seed", "seed", "Random seed", 0, 0, 2**63 - 1)
NUM_BEAMS = Parameter("num_beams", "Beams", "beams", "Number of beams", 4, 1, 100, Slider(2, 8, 4, 1))
RANKED_BY = "Length penalty: answers are ranked by log p / length ** penalty"
LENGTH_PENALTY = Parameter("length_penalty", "Length penalty", "length penalty", RANKED_BY, 1.0, -10.0, 10.0)
TOP_K = Parameter(
    "top_k", "Symbols kept, k", "k", "Number of tokens to draw from", 5, 1, 1_000_000, Slider(1, 20, 3, 1)
)
TOP_P = Parameter(
    "top_p", "Share kept, p", "p", "Probability to draw from", 0.9, 1e-9, 1.0, Slider(0.05, 1.0, 0.9, 0.05)
)
LEAST = "Least share of the likeliest token's probability"
MIN_P = Parameter("min_p", "Least share", "min p", LEAST, 0.1, 0.0, 1.0, Slider(0.0, 1.0, 0.1, 0.05))
STRATEGIES: dict[str, Strategy] = {
    "greedy": Strategy("Greedy decoding", "the likeliest token each time", keeps="rank < 1"),
    "beam": Strategy(
        "Beam search",
        "the likeliest of K answers written side by side (Wu et al. 2016, arXiv:1609.08144)",
        (NUM_BEAMS, LENGTH_PENALTY),
    ),
    "top-k": Strategy(
        "Top-k sampling",
        "drawn from the k likeliest tokens (Fan et al. 2018, arXiv:1805.04833)",
        (TOP_K,),
        cut_top_k,
        "rank < top_k",
    ),
    "nucleus": Strategy(
        "Nucleus sampling",
        "drawn from the fewest tokens that hold top_p together (Holtzman et al. 2020, arXiv:1904.09751)",
        (TOP_P,),
        cut_nucleus,
        "before < top_p",
    ),
    "min-p": Strategy(
        "Min-p sampling",
        "drawn from the tokens with p ≥ min_p · max p (Nguyen et al. 2024, arXiv:2407.01082)",
        (MIN_P,),
        cut_min_p,
        "p >= min_p * most",
    ),
}


def list_parameters() -> dict[str, Parameter]:
    """Every parameter of every strategy by its name."""
    own = [parameter for row in STRATEGIES.values() for parameter in row.parameters]
    return {parameter.name: parameter for parameter in (*own, TEMPERATURE, SEED)}


def name_users(name: str) -> list[str]:
    """The strategies that use a parameter."""
    return [strategy for strategy, row in STRATEGIES.items() if name in {one.name for one in row.used}]


def refuse_unused(strategy: str, given: Mapping[str, float | None]) -> None:
    """Refuse, by a ValueError, a setting other than None that the strategy does not use."""
    check_choice("strategy", strategy, STRATEGIES)
    used = [parameter.name for parameter in STRATEGIES[strategy].used]
    for name, value in given.items():
        if value is not None and name not in used:
            raise ValueError(
                f"{shorten(name, 60)}={show_value(value)} is not used by strategy={strategy!r}; it uses "
                f"{', '.join(used) or 'nothing'}: leave {shorten(name, 60)} out."
            )


def complete_settings(strategy: str, given: Mapping[str, float | None]) -> dict:
    """All that a strategy uses, with the defaults of what is not given or None.

    Raises:
        ValueError: there is no such strategy, it does not use what is given, or a value is out of its limits.
    """
    refuse_unused(strategy, given)
    settings = {parameter.name: parameter.default for parameter in STRATEGIES[strategy].used}
    settings |= {name: value for name, value in given.items() if value is not None}
    for one in STRATEGIES[strategy].used:
        check_number(one.name, settings[one.name], one.low, one.high, one.default)
    return settings
