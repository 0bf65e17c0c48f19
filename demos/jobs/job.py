"""A job: anything that takes time in the app. What it does differs; how it is driven does not."""

import logging
import math
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from hf_attn.training.failures import RunFailed
from hf_attn.utils.freed_memory import give_freed_memory_back_soon

from ..core.limits import limits_here

RUNNING, PAUSED, STOPPED, FINISHED, FAILED = "running", "paused", "stopped", "finished", "error"
UNDER_WAY = (RUNNING, PAUSED)
END = object()  # of a job's reports
NAP_SECONDS = 0.05
SIGN_OF_LIFE_SECONDS = 1.0  # while paused: only at a yield is it noticed that the page was closed

MESSAGE_SECONDS = 0.12  # between two messages: the browser has no way to say that it cannot follow
STARTING = "Starting…"
WAITING = "Waiting for a free place: others are training here. This one starts by itself."
TIME_UP = ", at the time limit of this server"


@dataclass(eq=False, kw_only=True)
class Job:
    """Work that a visitor starts, watches, pauses and stops, and that a link can do again.

    A subclass says what the work is (`begin`, `advance`), where it stands (`progress`), and what follows it
    (`conclude`). Buttons set what is wanted; `follow` heeds it between two pieces of work.
    """

    # None before the first, then "running" (also while it waits for a place), "paused", "stopped", "finished"
    # or "error"; message says what failed
    status: str | None = None
    message: str = ""
    # the settings with which it was begun, by their names in a link; None before
    form: dict[str, object] | None = None
    goal: list[int] | None = None  # the progress at which a link's ends, before all of its work is done
    pace: float | None = None  # pieces of work a second; None for as fast as possible
    wants_pause: bool = False  # a button was pressed, as are the next two
    wants_stop: bool = False
    wanted_steps: int = 0
    is_live: bool = False  # its work is being done, or waits for the end of a pause
    is_late: bool = False  # it was stopped because its time on this server was up
    is_closed: bool = False  # nobody watches any more
    is_concluding: bool = False  # what came of it is being measured
    worked_seconds: float = 0.0  # what its work has taken so far

    message_seconds = MESSAGE_SECONDS
    failure = "The job failed"  # how its message begins where something goes wrong

    def begin(self) -> None:
        """Make what the work needs; called each time that it is followed."""

    def advance(self) -> bool:
        """Do one piece of the work; False where none is left."""
        raise NotImplementedError

    def prepare_message(self) -> None:
        """Make what only a message needs."""

    def catch_up(self) -> None:
        """Do what a message need not wait for, behind it."""

    def release(self) -> None:
        """Let go of what only the work needed; called however it ends."""

    def conclude(self) -> Iterator[None]:
        """Measure what came of it; yield when there is something to show."""
        yield from ()

    @property
    def progress(self) -> list[int]:
        """How far it has come, in whole numbers that do not depend on the clock."""
        raise NotImplementedError

    def describe(self) -> dict:
        """The job for a link; ValueError where a link cannot carry it."""
        seconds = round(self.worked_seconds, 1)
        return {"form": dict(self.form or {}), "progress": self.progress, "seconds": seconds}

    @property
    def seconds_allowed(self) -> float:
        return limits_here().run_seconds

    @property
    def is_at_goal(self) -> bool:
        return self.goal is not None and all(
            now >= goal for now, goal in zip(self.progress, self.goal, strict=True)
        )

    @property
    def is_busy(self) -> bool:
        """Whether it works, or waits for a place."""
        return self.is_live or self.status in UNDER_WAY

    @property
    def is_settled(self) -> bool:
        """Whether nothing more comes of it: neither work nor a measurement of what came of it."""
        return not (self.is_busy or self.is_concluding)

    def prepare(self, form: dict[str, object]) -> None:
        """Begin anew with these settings: `follow` does the work. ValueError while it is busy."""
        if self.is_busy:
            raise ValueError("This is still under way here: stop it first.")
        self.form, self.goal, self.status, self.message = form, None, RUNNING, ""
        self.worked_seconds = 0.0
        self.wants_pause = self.wants_stop = self.is_late = self.is_closed = False

    def stop(self) -> None:
        """Stop after the piece of work that is being done; at once where none is."""
        self.wants_stop = self.is_live
        if not self.is_live and self.is_busy:
            self.status, self.wants_pause, self.wanted_steps = STOPPED, False, 0

    def close(self) -> None:
        """Nobody watches any more: stop, and measure nothing."""
        self.is_closed = True
        self.stop()

    def follow(self) -> Iterator[None]:
        """Do the work; yield at once, then when there is something to show, and at its end.

        However it ends (also when the page is closed, which raises GeneratorExit at a yield), what was done
        is kept. Nothing happens where it is followed already, or is not to be done.
        """
        if self.is_live or self.is_closed or self.status not in UNDER_WAY:
            return
        self.is_live, self.is_late, self.message = True, False, ""
        self.status = PAUSED if self.wants_pause else RUNNING
        self._next_at, self._paused_at = -math.inf, None
        try:
            yield
            self.begin()
            yield
            self._began = self._shown_at = time.monotonic()
            self.catch_up()
            while not self._is_at_end():
                if self._rests():
                    if self._is_due(SIGN_OF_LIFE_SECONDS):
                        yield
                        self._shown_at = time.monotonic()
                elif self._work() and self._is_due(self.message_seconds):
                    self.prepare_message()
                    yield
                    self._shown_at = time.monotonic()
                self.catch_up()
            self.prepare_message()
            self.is_concluding = True
        except GeneratorExit:
            self.status = STOPPED
            raise
        except Exception as error:
            self.fail(error)
        finally:
            self.release()
            self.is_live = self.wants_stop = self.wants_pause = False
            self.wanted_steps = 0
        try:
            yield
            if self.is_concluding and not self.is_closed:
                yield from self.conclude()
        finally:
            self.is_concluding = False
            give_freed_memory_back_soon()

    def _is_at_end(self) -> bool:
        """Whether no piece of work follows; the status says why."""
        self.is_late = time.monotonic() - self._began > self.seconds_allowed
        if self.status != FINISHED and (self.wants_stop or self.is_late or self.is_at_goal):
            self.status = STOPPED
        return self.status in (STOPPED, FINISHED)

    def _is_due(self, seconds: float) -> bool:
        return time.monotonic() - self._shown_at >= seconds

    def _rests(self) -> bool:
        """Wait a moment where it is paused, or too early at its pace; False where it is to work."""
        now = time.monotonic()
        if not self.wants_pause or self.wanted_steps:
            self.status, self._paused_at = PAUSED if self.wants_pause else RUNNING, None
            is_early = bool(self.pace) and not self.wants_pause and now < self._next_at
            if is_early:
                time.sleep(min(self._next_at - now, NAP_SECONDS))
            return is_early
        if self._paused_at is None:
            self.status, self._paused_at, self._shown_at = PAUSED, now, -math.inf
            self.prepare_message()
        if now - self._paused_at > limits_here().pause_seconds:  # the place is given back; it can go on
            self.wants_stop = True
        time.sleep(NAP_SECONDS)
        return True

    def _work(self) -> bool:
        """Do one piece; whether another may follow."""
        began = time.monotonic()
        self._next_at = max(self._next_at, began - NAP_SECONDS) + 1 / self.pace if self.pace else -math.inf
        has_more = self.advance()
        self.worked_seconds += time.monotonic() - began
        self.wanted_steps = max(0, self.wanted_steps - 1)
        if not has_more:
            self.status = FINISHED
        return has_more

    def fail(self, error: Exception) -> None:
        """Say why it failed; other jobs go on."""
        expected = isinstance(error, ValueError | RunFailed)  # settings that do not go together: nobody's bug
        if not expected:
            logging.getLogger(__name__).exception(self.failure)
        self.status = FAILED
        self.message = str(error) if isinstance(error, RunFailed) else f"{self.failure}: {error}"


@dataclass(eq=False, kw_only=True)
class ReportedJob(Job):
    """A job whose work is a generator: one report a piece."""

    reports: Generator | None = None  # what is left of them; None where none were begun
    taken: int = 0  # how many came
    # a report came behind the goal: with none there, the job is finished and not stopped
    is_at_goal: bool = False

    def prepare(self, form: dict[str, object]) -> None:
        super().prepare(form)
        self.reports, self.taken, self.is_at_goal = None, 0, False

    @property
    def progress(self) -> list[int]:
        return [self.taken]

    def advance(self) -> bool:
        report = next(self.reports, END)
        if report is END:
            return False
        if self.goal is not None and self.progress >= self.goal:
            self.is_at_goal = True
        else:
            self.taken += 1
            self.take(report)
        return True

    def take(self, report) -> None:
        """Keep what a report says."""
        raise NotImplementedError

    def release(self) -> None:
        if self.reports is not None:
            self.reports.close()
        self.reports = None
