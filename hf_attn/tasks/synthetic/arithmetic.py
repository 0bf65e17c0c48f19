"""Arithmetic on whole numbers of any length: add two to five, subtract, multiply by one digit.

A person writes "7+95"; the model reads it as it stands and writes the ones first, "201": a carry then comes
from the digit just written. Nothing is filled up with zeros, so that a longer number is a longer sequence.
Reading and writing turn answers round, so that people see "102".
"""

import operator
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar

import torch

from hf_attn.models.config_checks import bounded, check_choice
from hf_attn.tasks.base import HardInputs, Task, WorkedExample
from hf_attn.tasks.batch import SPECIAL_TOKENS, Batch, Ragged, constant
from hf_attn.tasks.options import SizeChoice
from hf_attn.tasks.recipes import REACHING, Recipe
from hf_attn.utils.text import shorten

ZERO = len(SPECIAL_TOKENS)  # id of the digit 0; the digits' ids are in order
MOST_DIGITS, MOST_TERMS = 2_000, 5
CHAIN = 0.85  # of the columns of an example with long carries: they sum to 9, so that a carry runs through
KEY_DIGITS = 9  # of a number, in one of an example's keys, as the hash multiplies them
OPERATIONS: Mapping[
    str, tuple[str, Callable[[int, int], int]]
] = {  # name → sign, and what Python makes of it
    "add": ("+", operator.add),
    "subtract": ("-", operator.sub),
    "multiply": ("*", operator.mul),
}
LONG_CHAIN = 0.95  # the same where a model is tested
NINES_COMPLEMENT = str.maketrans("0123456789", "9876543210")
LEADING_ZEROS = re.compile(r"(?<![0-9])0+(?=[0-9])")


def count_digits(numbers: torch.Tensor) -> torch.Tensor:
    """[…, digits], the ones first → how many digits each number has, […]; zero has one."""
    place = torch.arange(1, numbers.shape[-1] + 1, device=numbers.device)
    return ((numbers > 0) * place).amax(-1).clamp(min=1)


def split_into_parts(numbers: torch.Tensor) -> torch.Tensor:
    """[…, digits], the ones first → […, parts]: numbers of KEY_DIGITS digits each."""
    padded = torch.nn.functional.pad(numbers, (0, -numbers.shape[-1] % KEY_DIGITS))
    return (
        padded.unflatten(-1, (-1, KEY_DIGITS)) * 10 ** torch.arange(KEY_DIGITS, device=padded.device)
    ).sum(-1)


def sort_numbers(numbers: torch.Tensor) -> torch.Tensor:
    """[terms, n, digits], the ones first → the same, the smallest of each example's first."""
    for part in range(-(-numbers.shape[-1] // KEY_DIGITS)):  # a radix sort, from the last digits on
        index = split_into_parts(numbers)[..., part].argsort(dim=0, stable=True)
        numbers = numbers.gather(0, index.unsqueeze(-1).expand_as(numbers))
    return numbers


@dataclass(frozen=True)
class Arithmetic(Task):
    """Compute with whole numbers: "153+391" → "544".

    Args:
        operation: "add", "subtract" (the smaller from the larger) or "multiply" (by one digit). A difference
            has as many digits as the larger number, zeros first ("100-99" → "001"): whether there are only
            zeros left could not be known while the ones are written.
        digits: most digits of a number, 1 to MOST_DIGITS; each number has its own count, all being equally
            likely.
        terms: how many numbers are added, 2 to MOST_TERMS.
        hard: share of the training examples in which carries run far, where two numbers are added, and as
            many again in which the numbers are of two different digits at most.
    """

    operation: str = "add"
    digits: int = bounded(10, 1, MOST_DIGITS)
    terms: int = bounded(2, 2, MOST_TERMS)
    hard: float = bounded(0.2, 0.0, 0.5)

    name = "arithmetic"
    title = "Long arithmetic"
    purpose = "compute with numbers of any length"
    metric = "every digit right"
    size_name = "digits"
    is_spaced = False
    is_reversed = True
    longest_size = MOST_DIGITS
    longest_text = MOST_TERMS * (MOST_DIGITS + 1)
    sizes = (
        SizeChoice("digits", "Digits", (3, 5, 10, 20), 10),
        SizeChoice("terms", "Numbers", (3, 4, 5), 3, "Long sums of 3 to 5"),
        SizeChoice("operation", "Operation", ("subtract", "multiply"), "subtract", "Long minus or times"),
    )
    symbols = (*"0123456789", *(sign for sign, _ in OPERATIONS.values()))
    run_symbols = tuple("0123456789")
    recipes: ClassVar[Mapping[str, Recipe]] = {"product": REACHING}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("operation", self.operation, tuple(OPERATIONS))
        if self.operation != "add" and self.terms != 2:
            raise ValueError(f"terms={self.terms} are for operation='add'; to {self.operation} takes 2.")

    @property
    def sign(self) -> str:
        return OPERATIONS[self.operation][0]

    @property
    def notation(self) -> str:  # type: ignore[override]
        kinds = {"subtract": ", the larger first", "multiply": ", one of a single digit"}
        return f"{self.terms} whole numbers with {self.sign} between{kinds.get(self.operation, '')}"

    @property
    def max_source_tokens(self) -> int:
        return self.terms * (self.digits + 1)

    @property
    def max_target_tokens(self) -> int:
        return self.digits + 2

    @property
    def longest_read(self) -> int:
        """Numbers of MOST_DIGITS: a model that counts in the text reads longer ones than it learned."""
        return self.terms * (MOST_DIGITS + 1)

    @property
    def worked_example(self) -> WorkedExample:
        """Numbers with a carry, where their digits are allowed."""
        source = self._example
        return WorkedExample(
            source, self.answer(source), "Each digit of the answer reads its own column, and the one before."
        )

    @property
    def _example(self) -> str:
        numbers = ("9", *"2345") if self.digits < 3 else ("391", "153", "48", "7", "6")
        if self.operation == "multiply":
            numbers = (numbers[0], "7")
        return self.sign.join(numbers[: self.terms])

    # Drawing

    def draw(self, generator: torch.Generator, n: int) -> tuple[Ragged, Ragged, torch.Tensor]:
        """Draw numbers of independent lengths; the key is the numbers in order of size."""
        numbers = self._draw_numbers(generator, n)  # [terms, n, digits], the ones first
        ordered = sort_numbers(numbers)
        if self.operation == "subtract":
            numbers = ordered.flip(0)
        targets = self._compute(numbers)
        if self.operation == "multiply":  # the single digit may stand on either side
            turned = torch.rand(n, 1, generator=generator, device=generator.device) < 0.5
            numbers = torch.where(turned, numbers.flip(0), numbers)
        written = [self._write(number) for number in numbers]
        sources = written[0]
        for number in written[1:]:
            sources = sources + constant(self.vocabulary[self.sign], number.lengths) + number
        keys = split_into_parts(ordered).transpose(0, 1).flatten(1) + 1  # a 0 would not count
        return sources, targets, keys

    def _write(self, number: torch.Tensor) -> Ragged:
        """[n, digits], the ones first → ids, the ones last."""
        lengths = count_digits(number)
        place = lengths[:, None] - 1 - torch.arange(number.shape[1], device=number.device)
        return Ragged((number.gather(1, place.clamp(min=0)) + ZERO) * (place >= 0), lengths)

    def _draw_numbers(self, generator: torch.Generator, n: int) -> torch.Tensor:
        """[terms, n, digits], the ones first, zeros behind the last digit."""
        place = torch.arange(self.digits, device=generator.device)

        def draw(high: int, *shape: int, low: int = 0) -> torch.Tensor:
            return torch.randint(low, high, shape, generator=generator, device=generator.device)

        lengths = draw(self.digits + 1, self.terms, n, 1, low=1)
        if self.operation == "multiply":
            lengths[1] = 1
        numbers = draw(10, self.terms, n, self.digits)
        part = torch.rand(n, 1, generator=generator, device=generator.device)
        pair = draw(10, 2, self.terms, n, 1)
        of_pair = pair[0].where(draw(10, self.terms, n, self.digits) < draw(10, n, 1), pair[1])
        numbers = of_pair.where(part >= 1 - self.hard, numbers)
        if self.operation == "add":  # columns that sum to 9, from a carry on
            is_chained = (draw(100, n, self.digits) < 100 * CHAIN) & (part < self.hard) & (place > 0)
            rest = 9 - numbers[0].masked_fill(place >= lengths[0], 0)
            numbers[1] = rest.where(is_chained, numbers[1])
        top = draw(10, self.terms, n, 1, low=1)
        is_empty = (place == lengths - 1) & (lengths > 1) & (numbers == 0)
        return top.where(is_empty, numbers).masked_fill(place >= lengths, 0)

    def _compute(self, numbers: torch.Tensor) -> Ragged:
        """[terms, n, digits], the ones first → the answers' ids, column by column."""
        columns = torch.nn.functional.pad(numbers, (0, 1))
        if self.operation == "multiply":
            column = columns[0] * columns[1, :, :1]
        else:
            column = columns.sum(0) if self.operation == "add" else columns[0] - columns[1]
        carry, written = torch.zeros_like(column[:, 0]), []
        for total in column.unbind(1):
            written.append((total + carry) % 10)
            carry = (total + carry).div(10, rounding_mode="floor")
        digits = torch.stack(written, dim=1)
        lengths = count_digits(numbers[0] if self.operation == "subtract" else digits)
        place = torch.arange(digits.shape[1], device=digits.device)
        return Ragged((digits + ZERO) * (place < lengths[:, None]), lengths)

    def key_of(self, source: str) -> list[int]:
        """The numbers in order of size, in parts of KEY_DIGITS digits."""
        width = -(-self.digits // KEY_DIGITS) * KEY_DIGITS
        filled = [number.zfill(width) for number in self._read_numbers(source)]
        return [
            1 + int(number[max(0, end - KEY_DIGITS) : end])
            for number in sorted(filled)
            for end in range(width, 0, -KEY_DIGITS)
        ]

    def find_split(self, source: str) -> str | None:
        """The split of a source; None of numbers longer than any that are drawn."""
        return super().find_split(source) if self.size_of(source) <= self.digits else None

    # Reading and writing

    def _read_numbers(self, text: str) -> list[str]:
        """The numbers of a source, without leading zeros; ValueError says what is wrong."""
        self.refuse_foreign(text, (*self.run_symbols, self.sign), f"digits and {self.sign}")
        numbers = [number.strip() for number in text.split(self.sign)]
        example = f"write {self.notation}, for example {self._example!r}."
        if apart := next((number for number in numbers if len(number.split()) > 1), None):
            raise ValueError(f"{shorten(apart)!r} has a space between its digits: {example}")
        if len(numbers) != self.terms or not all(numbers):
            raise ValueError(f"{shorten(text)!r} has not {self.terms} numbers: {example}")
        numbers = [LEADING_ZEROS.sub("", number) for number in numbers]
        longest = max(map(len, numbers))
        if longest > MOST_DIGITS:
            raise ValueError(f"A number has {longest:,} digits; {MOST_DIGITS:,} at most are read.")
        if self.operation == "multiply" and min(map(len, numbers)) > 1:
            raise ValueError(f"{shorten(text)!r} has no single digit: {example}")
        if self.operation == "subtract" and numbers[0].zfill(longest) < numbers[1].zfill(longest):
            raise ValueError(f"{shorten(text)!r} would be below 0: {example}")
        return numbers

    def split_source(self, text: str) -> list[str]:
        """Read numbers and signs; spaces around them and leading zeros do not matter.

        They may be longer than trained.
        """
        return list(self.sign.join(self._read_numbers(text)))

    def split_target(self, text: str) -> list[str]:
        """The digits as the model writes them, the ones first."""
        return list(reversed(text))

    def join_target(self, symbols: Sequence[str]) -> str:
        """The number as people write it."""
        return "".join(reversed(symbols))

    def answer(self, source: str) -> str:
        numbers = self._read_numbers(source)
        result = str(reduce(OPERATIONS[self.operation][1], map(int, numbers)))
        return result.zfill(len(numbers[0])) if self.operation == "subtract" else result

    def alignment(self, source: str, target: str) -> list[list[int]]:
        """A digit needs the digits of its column (1), and those right of it for the carry (2)."""
        numbers = self._read_numbers(source)
        columns: list[int] = []
        for number in numbers:
            everywhere = self.operation == "multiply" and len(number) == 1
            columns += [-2, *([-1] if everywhere else reversed(range(len(number))))]
        del columns[0]  # no sign stands before the first
        rows = [
            [1 if column in (mine, -1) else 2 if column == mine - 1 else 0 for column in columns] + [0]
            for mine in range(len(target))
        ]
        return [*rows, [0] * len(columns) + [1]]

    def size_of(self, source: str) -> int:
        return max(map(len, self._read_numbers(source)))

    def beyond(self, size: int, n: int, seed: int = 0) -> Mapping[str, Batch]:
        """Draw n inputs of each kind of `hard_inputs`, with a number of so many digits."""
        longer = replace(self, digits=size)
        makers = longer.hard_inputs(random.Random(f"{seed} {size}"))
        return {kind: longer.batch_of([str(make()) for _ in range(n)]) for kind, make in makers.items()}

    def hard_inputs(self, randomness: random.Random) -> HardInputs:
        """Inputs with a number of the most digits: the four kinds on which reach is measured."""
        digits, is_minus = self.digits, self.operation == "subtract"

        def number(length: int) -> str:
            first = randomness.choice("123456789" if length > 1 else "0123456789")
            return first + "".join(randomness.choices("0123456789", k=length - 1))

        def chained(first: str) -> str:
            """A number whose columns sum to 9 with the first's, or equal them: a carry or borrow runs on."""
            rest = first if is_minus else first.translate(NINES_COMPLEMENT)
            mixed = [
                one if randomness.random() < LONG_CHAIN else randomness.choice("0123456789") for one in rest
            ]
            length = randomness.choice((digits, randomness.randint(1, digits)))
            return "".join(mixed)[-length:-1] + randomness.choice("56789")

        def with_others(first: str, other: Callable[[], str]) -> str:
            """A source of the first number and as many others as it takes, the single digit of a product."""
            others = [number(1) if self.operation == "multiply" else other() for _ in range(self.terms - 1)]
            numbers = sorted(
                (LEADING_ZEROS.sub("", one) for one in (first, *others)), key=lambda one: (len(one), one)
            )
            if not is_minus:
                randomness.shuffle(numbers)
            return self.sign.join(reversed(numbers))

        def chain() -> str:
            first = number(digits)
            return with_others(first, lambda: chained(first))

        def nines() -> str:
            first = "1" + "0" * (digits - 1) if is_minus else "9" * digits
            return with_others(first, lambda: randomness.choice("123456789"))

        return {
            "same lengths": lambda: with_others(number(digits), lambda: number(digits)),
            "mixed lengths": lambda: with_others(
                number(digits), lambda: number(randomness.randint(1, digits))
            ),
            "carry chains": chain,
            "nines": nines,
        }
