"""What a claim is, and how its verdict is computed: printed figures against measured ones."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from types import ModuleType

import torch
from torch.utils.flop_counter import FlopCounterMode

REPRODUCED, CORRECTED, NOT_REPRODUCIBLE = "reproduced", "corrected", "not reproducible"
PRINTED, STATED, OURS = "printed", "stated", "ours"  # what kind of claim a row is
RARE = 1e-3  # what the document's own code prints less often than this, it did not print
COUNTED_DRAWS = 100_000  # of a program whose seed is not told

Figure = float | str


@dataclass(frozen=True)
class Chance:
    """How often a program whose seed is not told comes as far as what was printed."""

    hits: int  # draws that do
    draws: int  # all draws

    def __str__(self) -> str:
        return f"{self.hits} of {self.draws:,} draws"


Measured = tuple[Figure, ...] | Chance


@dataclass(frozen=True)
class Document:
    """A text whose claims are measured."""

    title: str  # as its author has it
    source: str  # whose it is, or what book it is a chapter of
    modules: tuple[ModuleType, ...]  # their CLAIMS are the document's
    url: str | None = None  # where it can be read, or the book; None where no public copy is known
    elsewhere: tuple[str, ...] = ()  # Markdown: what of it is no figure, and where it is found


@dataclass(frozen=True)
class Claim:
    """A sentence of a document with its figures, and the function that measures them.

    Attributes:
        claim: one sentence.
        claimed: the figures, separated by spaces: a number; a bound such as "<1e-6" or "≥0.90"; a range such
            as "0.70–0.90"; or a word. Of OURS a pattern for the digits of what is measured.
        measure: gives as many figures, or a Chance; None where there is nothing to compute.
        why: one sentence: what explains the difference, or what the figure rests on.
        tolerance: how far a number may lie from the printed one; half a unit of its last digit where None.
        is_full: needs training or a clock, hence minutes; see `mark_full`.
        where: the document's section, exercise or heading where the figure or the sentence stands.
        kind: PRINTED, the document prints these figures; STATED, it says so in words, and how we read them,
            a bound among the figures, is ours; OURS, no document says it: measured beside the others.
    """

    claim: str
    claimed: str
    measure: Callable[[], Measured] | None
    why: str
    tolerance: float | None = None
    is_full: bool = False
    where: str = ""
    kind: str = PRINTED


def mark_full(*claims: Claim) -> tuple[Claim, ...]:
    """Return the claims as ones that need training or a clock, hence minutes."""
    return tuple(replace(claim, is_full=True) for claim in claims)


@dataclass(frozen=True)
class Row:
    """A claim beside what was measured."""

    document: str  # its key in DOCUMENTS
    claim: str  # the claim's sentence
    kind: str  # "printed", "stated" or "ours"
    where: str  # in the document; nowhere in it where the claim is ours
    claimed: str | None  # the figures as the document has them, or as its words are read
    measured: str | None  # the figures as measured, or None where there is nothing to compute
    verdict: str | None  # "reproduced", "corrected" or "not reproducible"; None of what no document claims
    why: str  # one sentence
    is_full: bool  # measured by training or by the clock


def measure_claim(document: str, claim: Claim) -> Row:
    """Measure a claim and judge it.

    Every claim starts from the same state of the global generators, and leaves them as they were.
    """
    written, verdict = None, NOT_REPRODUCIBLE
    if claim.measure is not None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            measured = claim.measure()
        written = write(claim.claimed, measured)
        verdict = verdict_of(claim.claimed, measured, claim.tolerance)
    is_ours = claim.kind == OURS
    return Row(
        document,
        claim.claim,
        claim.kind,
        claim.where,
        None if is_ours else write_claimed(claim),
        written,
        None if is_ours else verdict,
        claim.why,
        claim.is_full,
    )


def write_claimed(claim: Claim) -> str:
    """The claimed figures, with how far a measured one may lie from them where the digits do not say it."""
    return claim.claimed if claim.tolerance is None else f"{claim.claimed} (± {claim.tolerance:g})"


def verdict_of(claimed: str, measured: Measured, tolerance: float | None = None) -> str:
    """Compare printed figures with measured ones.

    >>> verdict_of("14.3667", (14.36671,)), verdict_of("62,832", (60_611.4,))
    ('reproduced', 'corrected')
    """
    if isinstance(measured, Chance):
        return NOT_REPRODUCIBLE if measured.hits < RARE * measured.draws else REPRODUCED
    pairs = pair(claimed, measured)
    is_right = all(agrees(printed, figure, tolerance) for printed, figure in pairs)
    return REPRODUCED if is_right else CORRECTED


def pair(claimed: str, measured: Sequence[Figure]) -> list[tuple[str, Figure]]:
    """Each printed figure with the measured one; ValueError where there are not as many."""
    printed = claimed.split()
    if len(printed) != len(measured):
        raise ValueError(
            f"claimed={claimed!r} has {len(printed)} figures and {len(measured)} were measured: "
            "let the claim's function return one for each."
        )
    return list(zip(printed, measured, strict=True))


def agrees(printed: str, measured: Figure, tolerance: float | None = None) -> bool:
    """Whether a measured figure is what was printed.

    >>> agrees("≥0.90", 0.95), agrees("0.70–0.90", 0.99), agrees("True", "True"), agrees("0.28", 0.2483)
    (True, False, True, False)
    """
    if isinstance(measured, str):
        return printed == measured
    if printed[0] in "<>≤≥":
        bound = float(printed[1:].replace(",", ""))
        return {"<": measured < bound, ">": measured > bound, "≤": measured <= bound, "≥": measured >= bound}[
            printed[0]
        ]
    if "–" in printed:
        low, high = printed.split("–")
        return float(low) <= measured <= float(high)
    value = Decimal(printed.replace(",", ""))
    unit = Decimal(1).scaleb(int(value.as_tuple().exponent))  # of the last digit
    allowed = float(unit) / 2 if tolerance is None else tolerance
    return abs(measured - float(value)) <= allowed * (1 + 1e-6)  # a figure may lie on the edge itself


def write(claimed: str, measured: Measured) -> str:
    """The measured figures with as many digits as the printed ones have."""
    if isinstance(measured, Chance):
        return str(measured)
    return " ".join(_write_figure(printed, figure) for printed, figure in pair(claimed, measured))


def _write_figure(printed: str, measured: Figure) -> str:
    """One figure.

    >>> _write_figure("62,832", 60611.4), _write_figure("2.2317e-09", 2.24e-9), _write_figure("≥0.90", 1 / 3)
    ('60,611', '2.2400e-09', '0.33')
    """
    if isinstance(measured, str):
        return measured
    number = re.split("–", printed.lstrip("<>≤≥"))[0].replace(",", "")
    is_number = printed[0] not in "<>≤≥"
    if "e" in number and is_number:
        return f"{measured:.{len(number.split('e')[0].partition('.')[2])}e}"
    decimals = max(0, -int(Decimal(number).as_tuple().exponent))
    separator = "," if "," in printed else ""
    return f"{round(measured, decimals) + 0.0:{separator}.{decimals}f}"  # + 0.0: no figure is -0.00


def flat(*tensors) -> tuple[float, ...]:
    """All numbers of tensors or arrays, row by row."""
    return tuple(float(number) for tensor in tensors for number in tensor.reshape(-1).tolist())


def shape_of(tensor: torch.Tensor) -> str:
    """A tensor's shape in a word.

    >>> shape_of(torch.zeros(8, 16))
    '8×16'
    """
    return "×".join(map(str, tensor.shape))


def difference(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """The largest distance between two tensors' numbers."""
    return float((ours - theirs).abs().max())


def count_multiplications(compute: Callable[[], object]) -> int:
    """Count the multiplications in matrix products while `compute` runs; torch counts each with its sum."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        compute()
    return counter.get_total_flops() // 2


def count_parameters(module: torch.nn.Module) -> int:
    """Count the numbers that a module learns."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
