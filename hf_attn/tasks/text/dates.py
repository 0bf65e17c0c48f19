"""Read a date as people of many countries write it, and write it as ISO 8601 does.

Babel knows how each country writes (Unicode's CLDR); what is drawn comes from its tables. Numbers alone can
be ambiguous: "03/04/2025" is April in London and March in New York. A source does not say where it was
written, so every text here can be read in one way only: where all is numbers, the day stands before the
month, or a year of four digits before both. Formats that break this ("3/4/25" for March 4) are left out.
"""

import datetime
import functools
import random
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from hf_attn.tasks.base import HardInputs, Task, WorkedExample
from hf_attn.tasks.batch import SPECIAL_TOKENS, Ragged
from hf_attn.tasks.recipes import RECURRENT, SMALL_TRANSFORMER, Recipe
from hf_attn.utils.optional_packages import MissingPackageError, require_package
from hf_attn.utils.text import quote

# The vocabulary is the same whatever Babel knows: a format that needs another character is left out.
ALPHABET = (
    " (),-./0123456789ACDEFHJKMNOPSTVWabcdefghijklmnopqrstuvwxyz"
    "ÇáäåçéìñóöøúûüąğıłőśŞşźабвгдеиклмнопрстуфцчьюя土年日曜月木水火金"
)
SEEN = ("en_US", "en_GB", "de", "fr", "es", "it", "pt", "nl", "sv", "pl", "ru", "tr", "fi", "hu", "ja")
UNSEEN = ("da", "gl", "af")  # Danish, Galician, Afrikaans: words akin to some of those, in other orders
LOCALES = {"seen": SEEN, "unseen": UNSEEN}
LENGTHS = ("short", "medium", "long", "full")
SKELETONS = ("yMd", "yMEd", "yMMMd", "yMMMEd", "yMMMMd", "yMMMMEEEEd")
FIRST_YEAR, LAST_YEAR = 1969, 2068  # two digits name one year among these (as POSIX reads %y)
LONGEST = 40  # characters
FIELDS = {"y": "y", "M": "M", "L": "M", "d": "d", "E": "E", "c": "E"}  # CLDR's letters, by what they tell
ISO_LENGTH = len("2025-03-04")
ISO_PLACES = {"y": 0, "M": 5, "d": 8}  # where a field begins in an ISO date


@dataclass(frozen=True)
class DateFormat:
    """A way to write dates, as parts one behind the other.

    Attributes:
        locale: whose it is.
        pattern: as CLDR writes it, "d. MMMM y".
        parts: (field, texts): what the field says for each of its values; one text for what stands between.
            y counts from FIRST_YEAR, M, d and E (weekday, Monday first) from their first.
    """

    locale: str
    pattern: str
    parts: tuple[tuple[str, tuple[str, ...]], ...]

    @functools.cached_property
    def expression(self) -> re.Pattern:
        """What this format reads, the fields as groups."""
        groups = []
        for field, texts in self.parts:
            choice = "|".join(re.escape(text) for text in sorted(set(texts), key=len, reverse=True))
            groups.append(f"(?P<{field}>{choice})" if field else choice)
        return re.compile("".join(groups))

    @property
    def is_decidable(self) -> bool:
        """Whether its dates can be read without knowing the country."""
        texts = dict(self.parts)
        order = "".join(field for field, _ in self.parts if field in ("y", "M", "d"))
        if len(order) != 3 or len(set(order)) != 3:
            return False  # something is missing, or told twice
        month_is_named = not any(character.isdigit() for character in texts["M"][0])
        year_is_long = len(texts["y"][0]) == 4
        return order == "dMy" or (year_is_long and (month_is_named or order == "yMd"))

    def read(self, text: str) -> tuple[datetime.date, dict[str, tuple[int, int]]] | None:
        """The date that a text tells, and where each field stands in it; None where it is not so written."""
        if (match := self.expression.fullmatch(text)) is None:
            return None
        texts = dict(self.parts)
        year, month, day = (texts[field].index(match[field]) for field in ("y", "M", "d"))
        try:
            date = datetime.date(FIRST_YEAR + year, 1 + month, 1 + day)
        except ValueError:  # the 31st of a shorter month
            return None
        return date, {field: match.span(field) for field in ("y", "M", "d")}


def clean(text: str) -> str:
    """One way to write what looks alike: composed characters, plain single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).split())


@functools.lru_cache(maxsize=2)
def load_formats(locales: str) -> tuple[DateFormat, ...]:
    """The formats of the seen or the unseen locales that can be read in one way only; needs Babel."""
    require_package("babel", "Task 'dates'")
    from babel import Locale

    formats = []
    for name in LOCALES[locales]:
        locale = Locale.parse(name)
        known = [locale.date_formats[length].pattern for length in LENGTHS]
        known += [locale.datetime_skeletons[s].pattern for s in SKELETONS if s in locale.datetime_skeletons]
        found = [_format_of(name, pattern) for pattern in dict.fromkeys(known)]
        formats += [format_ for format_ in found if format_ is not None and format_.is_decidable]
    return tuple(formats)


def _format_of(locale: str, pattern: str) -> DateFormat | None:
    """A CLDR pattern with its words; None where it needs fields or characters that are not known here."""
    from babel.dates import tokenize_pattern

    parts: list[tuple[str, tuple[str, ...]]] = []
    for _, token in tokenize_pattern(pattern):
        if isinstance(token, str):
            parts.append(("", (re.sub(r"\s", " ", token),)))
            continue
        letter, count = token  # ("M", 4) is MMMM
        if letter not in FIELDS:
            return None
        parts.append((FIELDS[letter], _field_texts(locale, letter * count)))
    texts = [text for _, texts in parts for text in texts]
    longest = sum(max(map(len, texts)) for _, texts in parts)
    if longest > LONGEST or not set("".join(texts)) <= set(ALPHABET):
        return None
    return DateFormat(locale, pattern, tuple(parts))


@functools.lru_cache(maxsize=1024)
def _field_texts(locale: str, field: str) -> tuple[str, ...]:
    """What Babel writes for each value of one field, such as MMMM."""
    from babel.dates import format_date

    dates = {
        "y": [datetime.date(year, 1, 1) for year in range(FIRST_YEAR, LAST_YEAR + 1)],
        "M": [datetime.date(2024, month, 1) for month in range(1, 13)],
        "d": [datetime.date(2024, 1, day) for day in range(1, 32)],
        "E": [datetime.date(2024, 1, day) for day in range(1, 8)],  # the 1st was a Monday
    }[FIELDS[field[0]]]
    return tuple(clean(format_date(date, field, locale=locale)) for date in dates)


@dataclass(frozen=True)
class FormatTables:
    """All formats as tensors, so that many dates are written at once."""

    ids: torch.Tensor  # [texts, W] every text that a part can be, as ids, 0 behind
    lengths: torch.Tensor  # [texts]
    first: torch.Tensor  # [formats, P] index of the first text of each part; of none, an empty text's
    field: torch.Tensor  # [formats, P] which column of `dates` chooses among a part's texts
    dates: torch.Tensor  # [days, 5] of every day: 0, year, month, day and weekday, each from 0

    def to(self, device: torch.device) -> "FormatTables":
        return FormatTables(*(tensor.to(device) for tensor in vars(self).values()))

    def write(self, formats: torch.Tensor, values: torch.Tensor) -> Ragged:
        """Dates as ids: formats [n] and values [n, 5], rows of `dates`."""
        texts = self.first[formats] + values.gather(1, self.field[formats])  # [n, P]
        lengths = self.lengths[texts]
        ends = lengths.cumsum(1).unsqueeze(2)
        places = ends - lengths.unsqueeze(2) + torch.arange(self.ids.shape[1], device=texts.device)
        is_inside = places < ends  # [n, P, W]
        ids = texts.new_zeros(len(texts), LONGEST + 1)  # what is outside goes to the last column
        ids.scatter_(1, torch.where(is_inside, places, LONGEST).flatten(1), self.ids[texts].flatten(1))
        return Ragged(ids[:, :LONGEST], lengths.sum(1))


@functools.lru_cache(maxsize=2)
def build_tables(locales: str) -> FormatTables:
    """The tables of the seen or the unseen locales."""
    formats = load_formats(locales)
    texts: list[str] = [""]
    begin: dict[tuple[str, ...], int] = {}
    for format_ in formats:
        for _, choices in format_.parts:
            if choices not in begin:
                begin[choices] = len(texts)
                texts += choices
    most = max(len(format_.parts) for format_ in formats)
    first, field = torch.zeros(2, len(formats), most, dtype=torch.long)
    for row, format_ in enumerate(formats):
        for column, (name, choices) in enumerate(format_.parts):
            first[row, column] = begin[choices]
            field[row, column] = ("", "y", "M", "d", "E").index(name)
    id_of = {character: index for index, character in enumerate(ALPHABET, len(SPECIAL_TOKENS))}
    rows = [torch.tensor([id_of[character] for character in text], dtype=torch.long) for text in texts]
    written = Ragged.of(rows)
    start = datetime.date(FIRST_YEAR, 1, 1)
    days = (datetime.date(LAST_YEAR, 12, 31) - start).days + 1
    dates = [start + datetime.timedelta(day) for day in range(days)]
    values = [(0, date.year - FIRST_YEAR, date.month - 1, date.day - 1, date.weekday()) for date in dates]
    return FormatTables(written.ids, written.lengths, first, field, torch.tensor(values))


def write_date(format_: DateFormat, date: datetime.date, weekday: int | None = None) -> str:
    """A date as a format writes it, with another weekday (Monday is 0) where one is given."""
    values = {
        "": 0,
        "y": date.year - FIRST_YEAR,
        "M": date.month - 1,
        "d": date.day - 1,
        "E": date.weekday() if weekday is None else weekday,
    }
    return "".join(texts[values[field]] for field, texts in format_.parts)


@functools.lru_cache(maxsize=4096)
def read_date(text: str) -> tuple[datetime.date, dict[str, tuple[int, int]]] | None:
    """The date that a text tells and where its fields stand; None where no known format reads it."""
    readings = [format_.read(text) for locales in LOCALES for format_ in load_formats(locales)]
    found = [reading for reading in readings if reading is not None]
    return found[0] if len({date for date, _ in found}) == 1 else None


@dataclass(frozen=True)
class Dates(Task):
    """Write a date as ISO 8601 does: "Dienstag, 4. März 2025" → "2025-03-04".

    A date is in the same split in whatever format it is written.

    Args:
        locales: "seen", the 15 that are for training; or "unseen", three others, to measure what was learned
            on words and orders that training never showed. The vocabulary is the same.
    """

    locales: str = "seen"

    name = "dates"
    title = "Dates"
    purpose = "write a date as year, month and day"
    notation = "a date with its day, month and year"
    metric = "the right date"
    size_name = "words"
    is_spaced = False
    symbols = tuple(ALPHABET)
    max_source_tokens = LONGEST + 1
    max_target_tokens = ISO_LENGTH + 1
    recipes: ClassVar[Mapping[str, Recipe]] = {  # most steps go into the names of months
        "product": Recipe(SMALL_TRANSFORMER, steps=1200, learning_rate=4e-3, evaluate_every=50)
    }
    recurrent_recipe = replace(RECURRENT, steps=400)  # with attention it needs fewer than the Transformer

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.locales not in LOCALES:
            raise ValueError(
                f"locales={quote(self.locales)} is not known; choose {' or '.join(map(repr, LOCALES))}."
            )

    @property
    def worked_example(self) -> WorkedExample:
        story = (
            "The year's digits are copied from where the year stands, the month's two digits read its name, "
            "and the day's read its number, with a zero before it if need be. Nobody needs the weekday."
        )
        if self.locales == "unseen":
            return WorkedExample("tirsdag den 4. marts 2025", "2025-03-04", story)
        return WorkedExample("Dienstag, 4. März 2025", "2025-03-04", story)

    def draw(self, generator: torch.Generator, n: int) -> tuple[Ragged, Ragged, torch.Tensor]:
        """Draw days and formats uniformly; the day is the key, in whatever format it is written."""
        device = generator.device
        tables = build_tables(self.locales).to(device)
        days = torch.randint(0, len(tables.dates), (n,), generator=generator, device=device)
        formats = torch.randint(0, len(tables.first), (n,), generator=generator, device=device)
        values = tables.dates[days]
        date = values[:, 1:4] + torch.tensor([FIRST_YEAR, 1, 1], device=device)
        return tables.write(formats, values), self._write_iso(date), date

    def _write_iso(self, date: torch.Tensor) -> Ragged:
        """Year, month and day [n, 3] → ids of the ISO date."""
        number = date @ torch.tensor([10_000, 100, 1], device=date.device)  # 20250304
        powers = 10 ** torch.arange(7, -1, -1, device=date.device)
        digits = number.unsqueeze(1) // powers % 10 + self.vocabulary["0"]
        dash = torch.full_like(digits[:, :1], self.vocabulary["-"])
        ids = torch.cat((digits[:, :4], dash, digits[:, 4:6], dash, digits[:, 6:]), dim=1)
        return Ragged(ids, torch.full_like(number, ISO_LENGTH))

    def split_source(self, text: str) -> list[str]:
        """One symbol a character, single spaces included; whether it is a date is not asked."""
        text = clean(text)
        for place, character in enumerate(text, 1):
            if character not in ALPHABET:
                raise ValueError(
                    f"{character!r} (character {place}) is not in this model's alphabet: write a date as in "
                    f"{', '.join(LOCALES[self.locales])}, for example {self.worked_example.source!r}."
                )
        if len(text) > LONGEST:
            raise ValueError(
                f"The input has {len(text)} characters; this model reads {LONGEST} at most, "
                f"for example {self.worked_example.source!r}."
            )
        return list(text)

    def answer(self, source: str) -> str | None:
        """The date by Python's `datetime`; None where no known format reads the text, or without Babel."""
        reading = self._read(source)
        return reading[0].isoformat() if reading else None

    def find_split(self, source: str) -> str | None:
        """The split of the day; None where no format that is drawn reads it. Needs Babel."""
        is_drawn = any(format_.read(clean(source)) for format_ in load_formats(self.locales))
        return super().find_split(source) if is_drawn and self.answer(source) else None

    def key_of(self, source: str) -> list[int]:
        """Year, month and day."""
        return [int(number) for number in str(self.answer(source)).split("-")]

    def _read(self, source: str) -> tuple[datetime.date, dict[str, tuple[int, int]]] | None:
        try:
            return read_date(clean(source))
        except MissingPackageError:
            return None

    def alignment(self, source: str, target: str) -> list[list[int]] | None:
        """A digit needs the digit that it copies, or the month's whole name (1).

        What was not written is read off the number's digits (2): the century of "25", the zero before "4".
        The dashes need nothing; `</s>` needs `</s>`.
        """
        reading = self._read(source)
        if reading is None:
            return None
        size = len(self.split_source(source))
        rows = [[0] * (size + 1) for _ in range(max(len(target), ISO_LENGTH))]
        for field, (start, end) in reading[1].items():
            is_number = clean(source)[start:end].isdigit()
            width = 4 if field == "y" else 2
            for digit in range(width):
                row = rows[ISO_PLACES[field] + digit]
                copied = end - width + digit  # its own place, where so many digits are written
                if is_number and copied >= start:
                    row[copied] = 1
                else:
                    row[start:end] = [2 if is_number else 1] * (end - start)
        return [*rows[: len(target)], [0] * size + [1]]

    def size_of(self, source: str) -> int:
        """How many words there are: none where a date is all numbers."""
        return len(re.findall(r"[^\W\d_]+", source))

    def hard_inputs(self, randomness: random.Random) -> HardInputs:
        """Every locale, those never trained on too, rare days, and ways to write that Babel has not."""
        formats = load_formats(self.locales)
        first, last = (
            datetime.date(FIRST_YEAR, 1, 1).toordinal(),
            datetime.date(LAST_YEAR, 12, 31).toordinal(),
        )
        short = [format_ for format_ in formats if len(dict(format_.parts)["y"][0]) == 2]
        with_weekday = [format_ for format_ in formats if "E" in dict(format_.parts)]

        def day() -> datetime.date:
            return datetime.date.fromordinal(randomness.randint(first, last))

        def leap_day() -> datetime.date:
            return datetime.date(randomness.randrange(1972, LAST_YEAR + 1, 4), 2, 29)

        def outer_day() -> datetime.date:
            return day().replace(year=randomness.choice((FIRST_YEAR, LAST_YEAR)), day=28)

        def pair(among: list[DateFormat] | tuple[DateFormat, ...], date: datetime.date) -> tuple[str, str]:
            return write_date(randomness.choice(among), date), date.isoformat()

        def in_lower_case() -> tuple[str, str]:
            source, answer = pair(formats, day())
            if source == source.lower():
                raise ValueError(f"{quote(source)} has no capitals.")
            return source.lower(), answer

        def of_another_day() -> tuple[str, str]:
            date = day()
            chosen = randomness.choice(with_weekday)
            return write_date(chosen, date, (date.weekday() + randomness.randint(1, 6)) % 7), date.isoformat()

        def written_in(locale: str) -> Callable[[], tuple[str, str]]:
            own = [f for locales in LOCALES for f in load_formats(locales) if f.locale == locale]
            return lambda: pair(own, day())

        makers: dict[str, Callable[[], tuple[str, str]]] = {
            "29 February": lambda: pair(formats, leap_day()),
            f"the years {FIRST_YEAR} and {LAST_YEAR}": lambda: pair(formats, outer_day()),
            "a year of two digits": lambda: pair(short, day()),
            "a weekday that is not that day's (never trained on)": of_another_day,
            "all in lower case (never trained on)": in_lower_case,
        }
        for name, locales in LOCALES.items():
            hint = "" if name == self.locales else " (never trained on)"
            makers |= {f"as written in {locale}{hint}": written_in(locale) for locale in locales}
        return makers
