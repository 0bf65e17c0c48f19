"""A visitor's position encodings, trained on short examples in turn and measured on longer ones."""

import contextlib
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from hf_attn.experiments.length_generalization import ADDITION, LengthTest, LengthTestReport, run_length_test
from hf_attn.models.positions import POSITION_TYPES

from ...jobs.job import deadline, record_failure
from ...jobs.training_job import FINISHED, RUNNING, STOPPED

MESSAGE_SECONDS = 0.25  # between two messages
# label → what is learned, and at which sizes it is measured
GROWTHS = {
    "Copy": LengthTest("copy", 10, (2, 4, 6, 8, 10, 11, 12, 14, 16, 20)),
    "Reversal": LengthTest("reverse", 10, (2, 4, 6, 8, 10, 11, 12, 14, 16, 20)),
    "Addition": LengthTest(ADDITION, 2, (1, 2, 3, 4)),
}
ROUNDS = 3  # measurements of each encoding while it learns
EXAMPLES = 100  # of each size


@dataclass(eq=False)
class LengthTestJob:
    """Up to four position encodings on one task; empty before the first.

    Attributes:
        number: which of this visitor; 0 before the first.
        growth: what is learned and measured.
        types: names in POSITION_TYPES, in the order in which they learn.
        seed: of weights and examples.
        device: where they learn.
        moments: how each stands that has begun.
        status: "running", "stopped", "finished" or "error"; message says what failed.
        stop: set by the button, heeded after some steps.
        is_late: it was stopped because its time on this server was up.
        is_live: a handler is taking steps.
        form: the settings from which it was begun; None before.
        taken: one number, how many moments it has come through.
        until: the same, where a link says when it ends.
    """

    number: int = 0
    growth: LengthTest | None = None
    types: tuple[str, ...] = ()
    seed: int = 0
    device: str = "cpu"
    moments: dict[str, LengthTestReport] = field(default_factory=dict)
    status: str | None = None
    message: str = ""
    stop: threading.Event | None = None
    is_late: bool = False
    is_live: bool = False
    form: dict[str, object] | None = None
    taken: list[int] = field(default_factory=lambda: [0])
    until: list[int] | None = None

    def configure(self, growth: LengthTest, types: tuple[str, ...], seed: int, device: str) -> None:
        """Take the place of the last one; nothing is computed yet."""
        self.number += 1
        self.growth, self.types, self.seed, self.device = growth, types, seed, device
        self.moments, self.status, self.message = {}, RUNNING, ""
        self.taken, self.until, self.is_late = [0], None, False
        self.stop = threading.Event()

    @property
    def done(self) -> float:
        """The share of all steps that is taken."""
        steps = [moment.step / moment.steps for moment in self.moments.values()]
        return sum(steps) / len(self.types) if self.types else 0.0

    def close(self) -> None:
        """The visitor has gone: stop what runs."""
        if self.stop is not None:
            self.stop.set()

    def to_message(self) -> dict | None:
        """What the board is told: everything, each time."""
        if self.growth is None:
            return None
        task = self.growth.learned()
        unit = "digits" if self.growth.task == ADDITION else "symbols"
        return {
            "run": self.number,
            "status": self.status,
            "message": self.message,
            "done": self.done,
            "task": self.growth.task,
            "metric": task.metric,
            "size_name": task.size_name,
            "how": f"trained on up to {self.growth.trained} {unit}, 95 % intervals",
            "trained": self.growth.trained,
            "tested": list(self.growth.tested),
            "encodings": [describe_encoding(self, name) for name in self.types],
        }


def describe_encoding(growing: LengthTestJob, position_type: str) -> dict:
    """One encoding as the board shows it."""
    moment = growing.moments.get(position_type)
    scores = dict(moment.scores) if moment else {}
    trained = growing.growth.trained
    known = {size: score.exact_match for size, score in scores.items() if score is not None}
    inside = [share for size, share in known.items() if size <= trained]
    beyond = [share for size, share in known.items() if size > trained]
    return {
        "type": position_type,
        "title": POSITION_TYPES[position_type].title,
        "step": moment.step if moment else None,
        "steps": moment.steps if moment else None,
        "loss": moment.loss if moment else None,
        "inside": statistics.fmean(inside) if inside else None,
        "beyond": statistics.fmean(beyond) if beyond else None,
        "refuses": any(score is None for score in scores.values()),
        "scores": [
            {
                "size": size,
                "right": score.exact_match if score else None,
                "low": score.interval.low if score else None,
                "high": score.interval.high if score else None,
            }
            for size, score in sorted(scores.items())
        ],
    }


def drive(growing: LengthTestJob) -> Iterator[None]:
    """Let each encoding learn in turn until all have, or the visitor stops; yield what there is to show.

    However it ends (also when the page is closed, which raises GeneratorExit at a yield), what was measured
    stays.
    """
    growing.is_live = True
    try:
        with record_failure(growing, "The run failed"):
            yield from _learn(growing)
            growing.status = STOPPED if growing.stop.is_set() else FINISHED
    finally:
        growing.is_live = False


def _learn(growing: LengthTestJob) -> Iterator[None]:
    shown_at, until = time.monotonic(), deadline()
    for position_type in growing.types:
        moments = run_length_test(
            growing.growth,
            position_type,
            seed=growing.seed,
            rounds=ROUNDS,
            examples=EXAMPLES,
            device=growing.device,
            report_every_step=growing.stop,
        )
        with contextlib.closing(moments):
            for moment in moments:
                growing.is_late = time.monotonic() > until
                if growing.taken == growing.until or growing.is_late:
                    growing.stop.set()
                if growing.stop.is_set():
                    return
                growing.moments[position_type] = moment
                growing.taken = [growing.taken[0] + 1]
                if time.monotonic() - shown_at >= MESSAGE_SECONDS:
                    yield
                    shown_at = time.monotonic()
