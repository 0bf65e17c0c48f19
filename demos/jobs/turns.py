"""Background work: visitors take turns, and every question goes first."""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator

PATIENCE_SECONDS = 2.0  # from then on a turn is taken although questions are being answered


class Turns:
    """Turns of background work, in the order in which they were asked for; one at a time.

    A turn begins while no visitor's question is being answered, or once it has waited two seconds for that.
    It should be short: a question that comes meanwhile does not wait for its end, but shares the processor
    with it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._line: deque[object] = deque()  # of those that wait or work, who works first
        self._questions = 0

    @contextlib.contextmanager
    def question(self) -> Iterator[None]:
        """Let no turn begin while a visitor's question is being answered."""
        with self._changed:
            self._questions += 1
        try:
            yield
        finally:
            with self._changed:
                self._questions -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for one's turn, and have it."""
        mine = object()
        with self._changed:
            self._line.append(mine)
            while self._line[0] is not mine:
                self._changed.wait(0.1)
            waits_until = time.monotonic() + PATIENCE_SECONDS
            while self._questions and time.monotonic() < waits_until:
                self._changed.wait(0.1)
        try:
            yield
        finally:
            with self._changed:
                self._line.popleft()
                self._changed.notify_all()


TURNS = Turns()  # of this server
