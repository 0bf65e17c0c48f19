"""What tasks share whose sources are symbols with spaces between: "7 15 2 3"."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import NoReturn

from hf_attn.tasks.base import Task


def spaced(make: Callable[[], Sequence]) -> Callable[[], str]:
    """Make a source of symbols with spaces between."""
    return lambda: " ".join(map(str, make()))


class SpacedTask(Task):
    """A task that reads symbols with spaces between, and refuses those it does not know."""

    @property
    def source_symbols(self) -> tuple[str, ...]:
        """The symbols that a source may hold."""
        return self.symbols

    @property
    @abstractmethod
    def allowed(self) -> str:
        """What a source is made of, in words, with its limits."""

    @abstractmethod
    def check_source(self, symbols: Sequence[str]) -> None:
        """ValueError where known symbols make no source of this task."""

    def split_source(self, text: str) -> list[str]:
        """Read symbols with spaces between."""
        symbols = text.split()
        known = frozenset(self.source_symbols)
        for place, symbol in enumerate(symbols, 1):
            if symbol not in known:
                self.refuse(f"{symbol!r} (number {place}) is not a symbol of {self.name}")
        self.check_source(symbols)
        return symbols

    def refuse(self, fault: str) -> NoReturn:
        """Say what is wrong with a source, what is allowed, and give an example."""
        raise ValueError(f"{fault}: write {self.allowed}, for example {self.worked_example.source!r}.")

    def join_source(self, symbols: Sequence[str]) -> str:
        """Symbols with spaces between."""
        return " ".join(symbols)

    def size_of(self, source: str) -> int:
        """Number of symbols."""
        return len(source.split())
