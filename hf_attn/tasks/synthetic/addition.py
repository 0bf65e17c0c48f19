"""Add two numbers written in decimal, most significant digit first.

A person writes "7+95"; the model reads "007+095" and writes "0102": every number has as many digits as
the largest, as in “The Birth of Transformers”, so that a position is always the same column. Reading and
writing put the zeros in and take them out.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from hf_attn.models.config_checks import bounded
from hf_attn.tasks.base import HardInputs, Task, WorkedExample
from hf_attn.tasks.batch import SPECIAL_TOKENS, Ragged, constant
from hf_attn.tasks.options import SizeChoice
from hf_attn.tasks.recipes import SMALL_TRANSFORMER, Recipe
from hf_attn.utils.text import quote

ZERO = len(SPECIAL_TOKENS)  # id of the digit 0; the digits' ids are in order
LEADING_ZEROS = re.compile(r"(?<![0-9])0+(?=[0-9])")
PRODUCT_MODEL: Mapping[str, object] = {
    **SMALL_TRANSFORMER,
    "intermediate_size": 192,
    "encoder_layers": 1,
    "position_initializer_range": 1.0,
    "use_bias": True,
}
# that of “The Birth of Transformers”
DOCUMENT_MODEL: Mapping[str, object] = {
    **PRODUCT_MODEL,
    "hidden_size": 256,
    "intermediate_size": 512,
    "encoder_layers": 3,
    "decoder_layers": 3,
}


def write_digits(numbers: torch.Tensor, width: int) -> Ragged:
    """Numbers [B] → ids of their `width` digits, leading zeros included."""
    powers = 10 ** torch.arange(width - 1, -1, -1, device=numbers.device)
    return Ragged(numbers.unsqueeze(1) // powers % 10 + ZERO, torch.full_like(numbers, width))


@dataclass(frozen=True)
class Addition(Task):
    """Add two numbers: "153+391" → "544".

    Args:
        digits: most digits an addend has, 1 to 9.
        max_addend: largest addend; 10^digits − 1 where None. “The Birth of Transformers” draws from 0 to 499.
        balanced: draw the number of digits of each addend first, so that short numbers are as common as long
            ones; else addends are uniform from 0 to the largest, as in the document.
    """

    digits: int = bounded(3, 1, 9)
    max_addend: int | None = bounded(None, 1, 10**9 - 1)
    balanced: bool = True

    name = "addition"
    title = "Addition"
    purpose = "add two numbers"
    notation = "two whole numbers with a + between"
    metric = "every digit right"
    size_name = "digits"
    is_spaced = False
    sizes = (SizeChoice("digits", "Digits", (1, 2, 3, 4, 5), 3),)
    symbols = tuple("0123456789+")
    recipes: ClassVar[Mapping[str, Recipe]] = {
        "product": Recipe(PRODUCT_MODEL, steps=340, batch_size=128, learning_rate=6e-3, betas=(0.9, 0.98)),
        "document": Recipe(DOCUMENT_MODEL, steps=340, batch_size=64, learning_rate=1.2e-3, betas=(0.9, 0.98)),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_addend is not None and self.max_addend >= 10**self.digits:
            raise ValueError(
                f"max_addend={self.max_addend} must be from 1 to {10**self.digits - 1} "
                f"with digits={self.digits}."
            )

    @property
    def largest(self) -> int:
        return 10**self.digits - 1 if self.max_addend is None else self.max_addend

    @property
    def number_width(self) -> int:
        return self.digits

    @property
    def sum_digits(self) -> int:
        return len(str(2 * self.largest))

    @property
    def max_source_tokens(self) -> int:
        return 2 * self.digits + 2

    @property
    def max_target_tokens(self) -> int:
        return self.sum_digits + 1

    @property
    def worked_example(self) -> WorkedExample:
        """The sum of “The Birth of Transformers”, where its digits are allowed."""
        first, second = {1: (7, 5), 2: (53, 91)}.get(self.digits, (153, 391))
        source = f"{min(first, self.largest)}+{min(second, self.largest)}"
        return WorkedExample(
            source,
            self.answer(source),
            "Each digit of the sum reads the two digits above it, and those to the right for the carry.",
        )

    def draw(self, generator: torch.Generator, n: int) -> tuple[Ragged, Ragged, torch.Tensor]:
        """Draw two addends; the key is the sorted pair, so that a+b and b+a are in the same split."""
        addends = self._draw_addends(generator, (2, n))  # [2, n]
        first, second = addends
        plus = constant(self.vocabulary["+"], first)
        sources = write_digits(first, self.digits) + plus + write_digits(second, self.digits)
        return sources, write_digits(first + second, self.sum_digits), addends.sort(dim=0).values.T + 1

    def key_of(self, source: str) -> list[int]:
        """The sorted addends."""
        return [1 + int(addend) for addend in sorted(source.split("+"), key=int)]

    def _draw_addends(self, generator: torch.Generator, shape: tuple[int, int]) -> torch.Tensor:
        device = generator.device
        if not self.balanced:
            return torch.randint(0, self.largest + 1, shape, generator=generator, device=device)
        longest = len(str(self.largest))
        length = torch.randint(1, longest + 1, shape, generator=generator, device=device)
        low = torch.where(length == 1, 0, 10 ** (length - 1))
        high = (10**length).clamp(max=self.largest + 1)
        share = torch.rand(shape, generator=generator, device=device, dtype=torch.float64)
        return low + (share * (high - low)).long()

    def split_source(self, text: str) -> list[str]:
        """Read "a+b"; spaces and leading zeros do not matter."""
        self.refuse_foreign(text, self.symbols, "digits and one +")
        text = "".join(text.split())
        addends = text.split("+")
        if len(addends) != 2 or not all(addends):
            raise ValueError(
                f"{quote(text)} is not a sum of two numbers: write {self.worked_example.source!r}."
            )
        numbers = [int(addend) for addend in addends]
        for number in numbers:
            if number > self.largest:
                raise ValueError(
                    f"{number} is too large: this model adds numbers from 0 to {self.largest} "
                    f"(at most {self.digits} digits)."
                )
        return [*str(numbers[0]).zfill(self.digits), "+", *str(numbers[1]).zfill(self.digits)]

    def join_source(self, symbols: Sequence[str]) -> str:
        """The sum or number as people write it, without leading zeros."""
        return LEADING_ZEROS.sub("", "".join(symbols))

    join_target = join_source

    def split_target(self, text: str) -> list[str]:
        """One symbol a digit, leading zeros put in; no digits in nothing."""
        return list(text.zfill(self.sum_digits)) if text else []

    def answer(self, source: str) -> str:
        first, second = "".join(self.split_source(source)).split("+")
        return str(int(first) + int(second))

    def measure(self, source: str, prediction: str, reference: str | None = None) -> dict[str, float]:  # noqa: ARG002
        """Token accuracy, and the share of digits right counted from the ones."""
        right, written = self.split_target(self.answer(source)), self.split_target(prediction)
        same = [a == b for a, b in zip(reversed(right), reversed(written), strict=False)]
        return {
            **super().measure(source, prediction),
            "digit_accuracy": sum(same) / max(len(right), len(written)),
        }

    def alignment(self, source: str, target: str) -> list[list[int]]:
        """A digit needs the addends' digits of its place (1), and those right of them for the carry (2)."""
        tokens = self.split_source(source)
        plus = tokens.index("+")
        significance = [
            plus - 1 - place if place < plus else len(tokens) - 1 - place for place in range(len(tokens))
        ]
        significance[plus] = -2  # no digit
        rows = [
            [1 if s == mine else 2 if s == mine - 1 and s >= 0 else 0 for s in significance] + [0]
            for mine in reversed(range(len(self.split_target(target))))
        ]
        return [*rows, [0] * len(tokens) + [1]]

    def size_of(self, source: str) -> int:
        return max(len(str(int(addend))) for addend in source.split("+"))

    def hard_inputs(self, randomness: random.Random) -> HardInputs:
        """Carries, which one digit hands to the next, and numbers of unequal length."""

        def addend() -> int:
            return randomness.randint(0, self.largest)

        def by_place(least: int, most: int, least_ones: int) -> str:
            """A sum whose digits add up to least … most at every place, to least_ones or more at the ones."""
            first = second = 0
            for place in range(self.digits):
                low, high = (least, most) if place else (least_ones, max(most, least_ones))
                total = randomness.randint(low, min(high, 18))
                digit = randomness.randint(max(0, total - 9), min(9, total))
                first += digit * 10**place
                second += (total - digit) * 10**place
            return f"{first}+{second}"

        def uneven() -> str:
            pair = [randomness.randint(0, 9), randomness.randint(10 ** (self.digits - 1), self.largest)]
            randomness.shuffle(pair)
            return "+".join(map(str, pair))

        return {
            "a carry at every place": lambda: by_place(9, 18, 10),
            "one carry through nines": lambda: by_place(9, 9, 10),
            "no carry": lambda: by_place(0, 9, 0),
            "a number and itself": lambda: "{0}+{0}".format(addend()),
            "nothing added": lambda: randomness.choice(("0+{}", "{}+0")).format(addend()),
            "one digit and the most digits": uneven,
        }
