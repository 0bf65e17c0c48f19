"""A visitor's position encodings, trained on short examples in turn and measured on longer ones."""

import statistics
import threading
from dataclasses import dataclass, field

from hf_attn.experiments.length_generalization import ADDITION, LengthTest, LengthTestReport, run_length_test
from hf_attn.models.positions import POSITION_TYPES

from ...jobs.job import ReportedJob

# label → what is learned, and at which sizes it is measured
LENGTH_TESTS = {
    "Copy": LengthTest("copy", 10, (2, 4, 6, 8, 10, 11, 12, 14, 16, 20)),
    "Reversal": LengthTest("reverse", 10, (2, 4, 6, 8, 10, 11, 12, 14, 16, 20)),
    "Addition": LengthTest(ADDITION, 2, (1, 2, 3, 4)),
}
ROUNDS = 3  # measurements of each encoding while it learns
EXAMPLES = 100  # of each size


@dataclass(eq=False)
class LengthTestJob(ReportedJob):
    """Up to four position encodings on one task; empty before the first."""

    number: int = 0  # which of this visitor; 0 before the first
    test: LengthTest | None = None  # what is learned and measured
    types: tuple[str, ...] = ()  # names in POSITION_TYPES, in the order in which they learn
    seed: int = 0  # of weights and examples
    device: str = "cpu"  # where they learn
    moments: dict[str, LengthTestReport] = field(default_factory=dict)  # how each stands that has begun
    # set when it is stopped: there is a report after each step then
    hurries: threading.Event = field(default_factory=threading.Event)

    message_seconds = 0.25
    failure = "The run failed"

    def configure(self, form: dict, test: LengthTest, types: tuple[str, ...], seed: int, device: str) -> None:
        """Take the place of the last one; nothing is computed yet."""
        self.prepare(form)
        self.number += 1
        self.test, self.types, self.seed, self.device = test, types, seed, device
        self.moments, self.hurries = {}, threading.Event()

    def begin(self) -> None:
        how = {"seed": self.seed, "rounds": ROUNDS, "examples": EXAMPLES, "device": self.device}
        how["report_every_step"] = self.hurries
        self.reports = (
            (name, moment) for name in self.types for moment in run_length_test(self.test, name, **how)
        )

    def take(self, report: tuple[str, LengthTestReport]) -> None:
        name, moment = report
        self.moments[name] = moment

    def stop(self) -> None:
        self.hurries.set()
        super().stop()

    @property
    def done(self) -> float:
        """The share of all steps that is taken."""
        steps = [moment.step / moment.steps for moment in self.moments.values()]
        return sum(steps) / len(self.types) if self.types else 0.0

    def to_message(self) -> dict | None:
        """What the board is told: everything, each time."""
        if self.test is None:
            return None
        task = self.test.learned()
        unit = "digits" if self.test.task == ADDITION else "symbols"
        return {
            "run": self.number,
            "status": self.status,
            "message": self.message,
            "done": self.done,
            "task": self.test.task,
            "metric": task.metric,
            "size_name": task.size_name,
            "how": f"trained on up to {self.test.trained} {unit}, 95 % intervals",
            "trained": self.test.trained,
            "tested": list(self.test.tested),
            "encodings": [describe_encoding(self, name) for name in self.types],
        }


def describe_encoding(job: LengthTestJob, position_type: str) -> dict:
    moment = job.moments.get(position_type)
    scores = dict(moment.scores) if moment else {}
    trained = job.test.trained
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
