"""Inputs on which models stumble, made for each task: what is repeated, carried, nested, or never shown.

They are made from what a person may write, not from what training draws. A task that is not in PATTERNS has
none: its failures are looked for among held-out examples.
"""

import datetime
import random
from collections.abc import Callable, Mapping

from hf_attn.tasks import Task
from hf_attn.tasks.synthetic.addition import Addition
from hf_attn.tasks.synthetic.copying import SymbolSequences
from hf_attn.tasks.synthetic.parsing import DIGITS, OPERATORS, VARIABLES, Parsing
from hf_attn.tasks.synthetic.sorting import Sorting
from hf_attn.tasks.text.dates import FIRST_YEAR, LAST_YEAR, LOCALES, DateFormat, Dates, load_formats

MOST = 400  # inputs of a pattern
Pair = tuple[str, str]  # source, right answer
Makers = Mapping[str, Callable[[], Pair]]


def make_hard_inputs(task: Task, seed: int = 0) -> dict[str, list[Pair]]:
    """Inputs by what is hard about them.

    Args:
        task: what they are for.
        seed: which ones, where there are more than MOST.

    Returns:
        Name → different (source, right answer). What the task's options do not allow is left out.
    """
    makers: Makers = {}
    for learned, patterns in PATTERNS.items():
        if isinstance(task, learned):
            makers = patterns(task, random.Random(seed))
    made = {name: _collect(task, make) for name, make in makers.items()}
    return {name: pairs for name, pairs in made.items() if pairs}


def _collect(task: Task, make: Callable[[], Pair]) -> list[Pair]:
    """At most MOST different inputs that the task reads."""
    found: dict[str, str] = {}
    for _ in range(4 * MOST):
        if len(found) == MOST:
            break
        try:
            source, answer = make()
            task.encode(source)
        except ValueError:  # the task's options do not allow it
            continue
        found[source] = answer
    return list(found.items())


def _answered(task: Task, makers: Mapping[str, Callable[[], str]]) -> Makers:
    """Sources with the answer that the task computes."""

    def pair_of(make: Callable[[], str]) -> Callable[[], Pair]:
        def pair() -> Pair:
            source = make()
            return source, str(task.answer(source))

        return pair

    return {name: pair_of(make) for name, make in makers.items()}


def symbol_patterns(task: SymbolSequences, randomness: random.Random) -> Makers:
    """Copying and reversing: what repeats leaves a model little by which to know its place."""
    choose = randomness.choice

    def length() -> int:
        return randomness.randint(task.min_length, task.max_length)

    def one_among_equals() -> list[str]:
        row = [choose(task.symbols)] * length()
        row[randomness.randrange(len(row))] = choose(task.symbols)
        return row

    def in_turn() -> list[str]:
        return [choose(task.symbols), choose(task.symbols)] * length()

    def twice_over() -> list[str]:
        return randomness.choices(task.symbols, k=max(1, length() // 2)) * 2

    def mirrored() -> list[str]:
        half = randomness.choices(task.symbols, k=max(1, length() // 2))
        return [*half, *reversed(half)]

    def counting() -> list[str]:
        first = randomness.randrange(len(task.symbols))
        return [task.symbols[(first + step) % len(task.symbols)] for step in range(length())]

    makers = {
        "one symbol again and again": lambda: [choose(task.symbols)] * length(),
        "two symbols in turn": lambda: in_turn()[: length()],
        "one symbol among equal ones": one_among_equals,
        "a passage twice over": twice_over,
        "the same from both ends": mirrored,
        "counting up": counting,
        "two symbols, at the greatest length": lambda: randomness.choices(
            randomness.sample(task.symbols, 2), k=task.max_length
        ),
    }
    return _answered(task, {name: _spaced(make) for name, make in makers.items()})


def sorting_patterns(task: Sorting, randomness: random.Random) -> Makers:
    """Sorting: equal numbers, and orders that chance hardly ever draws."""
    numbers = [int(symbol) for symbol in task.symbols]

    def drawn(among: list[int]) -> list[int]:
        return randomness.choices(among, k=task.length)

    def all_but_one() -> list[int]:
        row = [randomness.choice(numbers)] * task.length
        row[randomness.randrange(task.length)] = randomness.choice(numbers)
        return row

    makers = {
        "one number again and again": lambda: drawn([randomness.choice(numbers)]),
        "all equal but one": all_but_one,
        "two different numbers": lambda: drawn(randomness.sample(numbers, 2)),
        "no number twice": lambda: randomness.sample(numbers, task.length),
        "in order already": lambda: sorted(drawn(numbers)),
        "in descending order": lambda: sorted(drawn(numbers), reverse=True),
        "the four smallest numbers": lambda: drawn(numbers[:4]),
        "the four largest numbers": lambda: drawn(numbers[-4:]),
    }
    return _answered(task, {name: _spaced(make) for name, make in makers.items()})


def _spaced(make: Callable[[], list]) -> Callable[[], str]:
    return lambda: " ".join(map(str, make()))


def addition_patterns(task: Addition, randomness: random.Random) -> Makers:
    """Addition: carries, which one digit hands to the next, and numbers of unequal length."""

    def addend() -> int:
        return randomness.randint(0, task.largest)

    def by_place(least: int, most: int, least_ones: int) -> str:
        """A sum whose digits add up to least … most at every place, to least_ones or more at the ones."""
        first = second = 0
        for place in range(task.digits):
            low, high = (least, most) if place else (least_ones, max(most, least_ones))
            total = randomness.randint(low, min(high, 18))
            digit = randomness.randint(max(0, total - 9), min(9, total))
            first += digit * 10**place
            second += (total - digit) * 10**place
        return f"{first}+{second}"

    def uneven() -> str:
        pair = [randomness.randint(0, 9), randomness.randint(10 ** (task.digits - 1), task.largest)]
        randomness.shuffle(pair)
        return "+".join(map(str, pair))

    return _answered(
        task,
        {
            "a carry at every place": lambda: by_place(9, 18, 10),
            "one carry through nines": lambda: by_place(9, 9, 10),
            "no carry": lambda: by_place(0, 9, 0),
            "a number and itself": lambda: "{0}+{0}".format(addend()),
            "nothing added": lambda: randomness.choice(("0+{}", "{}+0")).format(addend()),
            "one digit and the most digits": uneven,
        },
    )


def parsing_patterns(task: Parsing, randomness: random.Random) -> Makers:
    """Parsing: what order alone decides, deep nesting, and brackets that nothing needs."""
    leaves = DIGITS if task.depth == 1 else (*DIGITS, *VARIABLES)

    def leaf() -> str:
        return randomness.choice(leaves)

    def sign() -> str:
        return randomness.choice(list(OPERATORS))

    def full(depth: int, write_leaf: Callable[[], str]) -> str:
        if depth == 0:
            return write_leaf()
        left, right = (full(depth - 1, write_leaf) for _ in range(2))
        return f"({left}{sign()}{right})"

    def chain() -> str:
        return sign().join(leaf() for _ in range(task.depth + 1))

    def to_the_right() -> str:
        opened = "".join(f"{leaf()}{sign()}(" for _ in range(task.depth - 1))
        return f"{opened}{leaf()}{sign()}{leaf()}" + ")" * (task.depth - 1)

    def same_leaf() -> str:
        chosen = leaf()
        return full(task.depth, lambda: chosen)[1:-1]

    makers = {
        "one sign throughout, no brackets": chain,
        "nested to the right": to_the_right,
        "a full tree, every operator in brackets": lambda: full(task.depth, leaf)[1:-1],
        "a full tree of one leaf": same_leaf,
        "brackets round the whole": lambda: f"({chain()})",
        "brackets round brackets": lambda: f"(({leaf()}{sign()}{leaf()}))",
    }
    assigned = {
        name: (lambda make=make: f"{randomness.choice(VARIABLES)}={make()}") for name, make in makers.items()
    }
    return _answered(task, assigned)


def date_patterns(task: Dates, randomness: random.Random) -> Makers:
    """Dates: every locale, those never trained on too, rare days, and ways to write that Babel has not."""
    formats = load_formats(task.locales)
    first, last = datetime.date(FIRST_YEAR, 1, 1).toordinal(), datetime.date(LAST_YEAR, 12, 31).toordinal()
    short = [format_ for format_ in formats if len(dict(format_.parts)["y"][0]) == 2]
    with_weekday = [format_ for format_ in formats if "E" in dict(format_.parts)]

    def day() -> datetime.date:
        return datetime.date.fromordinal(randomness.randint(first, last))

    def leap_day() -> datetime.date:
        return datetime.date(randomness.randrange(1972, LAST_YEAR + 1, 4), 2, 29)

    def outer_day() -> datetime.date:
        return day().replace(year=randomness.choice((FIRST_YEAR, LAST_YEAR)), day=28)

    def pair(among: list[DateFormat] | tuple[DateFormat, ...], date: datetime.date) -> Pair:
        return write_date(randomness.choice(among), date), date.isoformat()

    def in_lower_case() -> Pair:
        source, answer = pair(formats, day())
        if source == source.lower():
            raise ValueError(f"{source!r} has no capitals.")
        return source.lower(), answer

    def of_another_day() -> Pair:
        date = day()
        chosen = randomness.choice(with_weekday)
        return write_date(chosen, date, (date.weekday() + randomness.randint(1, 6)) % 7), date.isoformat()

    def written_in(locale: str) -> Callable[[], Pair]:
        own = [f for locales in LOCALES for f in load_formats(locales) if f.locale == locale]
        return lambda: pair(own, day())

    makers: dict[str, Callable[[], Pair]] = {
        "29 February": lambda: pair(formats, leap_day()),
        f"the years {FIRST_YEAR} and {LAST_YEAR}": lambda: pair(formats, outer_day()),
        "a year of two digits": lambda: pair(short, day()),
        "a weekday that is not that day's (never trained on)": of_another_day,
        "all in lower case (never trained on)": in_lower_case,
    }
    for name, locales in LOCALES.items():
        hint = "" if name == task.locales else " (never trained on)"
        makers |= {f"as written in {locale}{hint}": written_in(locale) for locale in locales}
    return makers


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


PATTERNS: Mapping[type, Callable[..., Makers]] = {
    SymbolSequences: symbol_patterns,
    Sorting: sorting_patterns,
    Addition: addition_patterns,
    Parsing: parsing_patterns,
    Dates: date_patterns,
}
