"""Taking a run's steps while somebody watches: pace, pause, single steps, stop."""

import contextlib
import logging
import math
import time
from collections.abc import Iterator
from typing import Any

from hf_attn.evaluation.metrics import evaluate
from hf_attn.training.loop import Diverged

from ..core.limits import limits_here
from .training_job import FAILED, FINISHED, PAUSED, RUNNING, STOPPED, TrainingJob

MESSAGE_SECONDS = 0.12  # between two messages: the browser has no way to say that it cannot follow
NAP_SECONDS = 0.05
SIGN_OF_LIFE_SECONDS = 1.0  # while paused: only at a yield is it noticed that the page was closed

STARTING = "Starting…"
WAITING = "Waiting for a free place: others are training here. This one starts by itself."
TIME_UP = ", at the time limit of this server"


def deadline() -> float:
    """When a job that begins now has used its time, by `time.monotonic`."""
    return time.monotonic() + limits_here().run_seconds


@contextlib.contextmanager
def record_failure(thing: Any, failed: str) -> Iterator[None]:
    """Record in a job's `status` and `message` that the `with` block failed, or the page was closed.

    A closed page (GeneratorExit at a yield) has stopped it. The message begins with `failed`, unless the loss
    diverged; other visitors' jobs go on.
    """
    try:
        yield
    except GeneratorExit:
        thing.status = STOPPED
        raise
    except Diverged as error:
        thing.status, thing.message = FAILED, str(error)
    except ValueError as error:  # settings that do not go together: nobody's bug
        thing.status, thing.message = FAILED, f"{failed}: {error}"
    except Exception as error:
        logging.getLogger(__name__).exception(failed)
        thing.status, thing.message = FAILED, f"{failed}: {error}"


def drive(run: TrainingJob) -> Iterator[None]:
    """Take steps until the run is over or stopped; yield at once, and when there is something to show.

    However it ends (also when the page is closed, which raises GeneratorExit at a yield), the weights are
    kept and the run can go on later.
    """
    run.is_live, run.message = True, ""
    run.status = PAUSED if run.wants_pause else RUNNING
    try:
        with record_failure(run, f"{run.name} failed"):
            yield
            run.begin()
            yield from _steps(run)
        if run.status == FAILED:
            run.loop = None
    finally:
        run.is_live = run.wants_stop = run.wants_pause = False
        run.wanted_steps = 0


def _steps(run: TrainingJob) -> Iterator[None]:
    shown_at = next_at = -math.inf
    until = deadline()
    while True:
        if time.monotonic() > until:
            run.wants_stop, run.message = True, "The time limit of this server is reached: Resume goes on."
        if run.wants_stop:
            run.status = STOPPED
            break
        if run.wants_pause and not run.wanted_steps:
            yield from _rest(run)
            continue
        run.status = PAUSED if run.wants_pause else RUNNING
        if run.pace and not run.wants_pause and (early := next_at - time.monotonic()) > 0:
            time.sleep(min(early, NAP_SECONDS))
            continue
        next_at = max(next_at, time.monotonic() - NAP_SECONDS) + 1 / run.pace if run.pace else -math.inf
        report = run.advance()
        if run.film is not None:
            run.take_frame()
        if report is None or run.step == run.recipe.steps:
            run.status, run.loop = FINISHED, None
            break
        if time.monotonic() - shown_at >= MESSAGE_SECONDS:
            run.take_frame()
            yield
            shown_at = time.monotonic()
        if report.measured_at > run.predicted_at:  # behind the message: both would keep one waiting
            run.answer()
    run.take_frame()


def _rest(run: TrainingJob) -> Iterator[None]:
    """Wait until the pause ends or a step or a stop is asked for; show the run first."""
    run.status = PAUSED
    if run.model is not None and run.points:
        run.take_frame()
    yield
    began = shown_at = time.monotonic()
    while run.wants_pause and not run.wanted_steps and not run.wants_stop:
        time.sleep(NAP_SECONDS)
        now = time.monotonic()
        if now - began > limits_here().pause_seconds:  # the place is given back; the run can go on
            run.wants_stop = True
        if now - shown_at > SIGN_OF_LIFE_SECONDS:
            shown_at = now
            yield


def measure_run(run: TrainingJob) -> None:
    """Let the model answer 1,000 held-out examples, for the board, the table and the card."""
    with run.looking() as model:
        run.conclude(evaluate(model, run.task))
