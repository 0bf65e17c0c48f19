"""A visitor's duel: the runs that learn in turns, and what the duel board is told of them."""

import dataclasses
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hf_attn.architectures.registry import find_architecture
from hf_attn.evaluation.baselines import Baseline
from hf_attn.tasks import Recipe, Task
from hf_attn.tasks.batch import PAD
from hf_attn.training.duel import Budget, count_parameters, next_in_turn, plan_duel, pool_sizes
from hf_attn.training.loop import HELD_OUT_SAMPLE, Diverged

from ...core.limits import limits_here
from ...jobs.job import measure_run, record_failure
from ...jobs.probe import Examples, Probe, take_row
from ...jobs.training_job import FAILED, FINISHED, LONGEST_PROBE, RUNNING, STOPPED, TrainingJob
from ...ui.boards import describe_baseline
from ...ui.formatting import shorten

MESSAGE_SECONDS = 0.3  # between two messages: each draws the map of every contestant
PROBE_TOKENS = 13  # about: three maps of that size stand side by side
SIZE_GROUPS = 8  # of the accuracy by size
TOO_EARLY = 0.03  # of a budget: first steps are slow


@dataclass(eq=False)
class DuelJob:
    """Two to four runs on one task, each with the same budget; empty before the first.

    Attributes:
        number: which duel of this visitor; 0 before the first.
        parameters, seconds: how large each run's model is, and what it has spent on steps; by the run's id.
        budget: what each run may spend.
        status: "running", "stopped", "finished" or "error"; message says what failed.
        stop: set by the button, heeded between two steps.
        is_live: a handler is taking steps.
        baseline: what stands beside classifiers, once all are measured.
        form: the settings from which it was begun; None before.
        until: the step at which each run ends, where a link says so.
    """

    number: int = 0
    runs: list[TrainingJob] = field(default_factory=list)
    parameters: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    budget: Budget | None = None
    status: str | None = None
    message: str = ""
    stop: threading.Event | None = None
    is_live: bool = False
    baseline: Baseline | None = None
    form: dict[str, object] | None = None
    until: list[int] | None = None

    def configure(
        self, task: Task, contestants: dict[str, Recipe], budget: Budget, seed: int, device: str
    ) -> None:
        """Take the place of the last duel; nothing is computed yet."""
        self.number += 1
        self.budget, self.status, self.message, self.baseline = budget, RUNNING, "", None
        self.until = None
        self.stop = threading.Event()
        examples, probe = choose_probe(task)
        self.runs = []
        for place, (name, recipe) in enumerate(contestants.items()):
            title = f"{task.name} {name} {self.number}"
            run = TrainingJob(f"duel-{self.number}-{place + 1}", title, task, recipe, seed, device)
            run.examples, run.probe = examples, probe
            self.runs.append(run)
        self.seconds = {}
        self.parameters = {run.id: count_parameters(task, run.recipe) for run in self.runs}

    def find(self, run_id: str) -> TrainingJob | None:
        return next((run for run in self.runs if run.id == run_id), None)

    def spent(self, run: TrainingJob) -> float:
        """The share of its budget that a run has used; 1 if it failed."""
        if run.status == FAILED or (run.step and run.step == run.recipe.steps):
            return 1.0
        return min(1.0, self.budget.spent(run.step, self.seconds.get(run.id, 0.0)))

    def reached(self, run: TrainingJob) -> float:
        """The share of its goal that a run has reached: of its budget, or of a link's steps."""
        if self._has_had_its_time(run):
            return 1.0
        if self.until is None or run.status == FAILED:
            return self.spent(run)
        most = self.until[self.runs.index(run)]
        is_over = bool(run.step) and run.step == run.recipe.steps
        return 1.0 if run.step >= most or is_over else run.step / most

    def _has_had_its_time(self, run: TrainingJob) -> bool:
        return self.seconds.get(run.id, 0.0) >= limits_here().run_seconds

    @property
    def is_late(self) -> bool:
        """Whether a run used up its time on this server before its budget."""
        return any(self._has_had_its_time(run) and self.spent(run) < 1 for run in self.runs)

    @property
    def is_cut(self) -> bool:
        """Whether a link ends it before its budget of steps."""
        return bool(self.until and self.budget.steps and min(self.until) < self.budget.steps)

    @property
    def taken(self) -> list[int]:
        """The step of each run, for a link; a failed run gets all steps, so that it fails again."""
        return [run.recipe.steps if run.status == FAILED else run.step for run in self.runs]

    @property
    def done(self) -> float:
        return self._mean(self.spent)

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds to the end; None while too little is known."""
        share = self._mean(self.reached)
        return sum(self.seconds.values()) * (1 / share - 1) if share > TOO_EARLY else None

    def _mean(self, share: Callable[[TrainingJob], float]) -> float:
        return sum(map(share, self.runs)) / len(self.runs) if self.runs else 0.0

    @property
    def is_measured(self) -> bool:
        """Whether every run that learned something is measured."""
        return all(run.evaluation is not None for run in self.runs if run.step and run.status != FAILED)

    def close(self) -> None:
        if self.stop is not None:
            self.stop.set()
        self.runs = []

    def to_message(self, kept: set[str]) -> dict | None:
        """The whole value of the duel board; `kept` has the ids of runs that the visitor has kept."""
        if not self.runs:
            return None
        task, probe = self.runs[0].task, self.runs[0].probe
        return {
            "duel": self.number,
            "status": self.status,
            "message": self.message,
            "done": self.done,
            "measured": self.is_measured,
            "task": task.name,
            "metric": task.metric,
            "size_name": task.size_name,
            "budget": dataclasses.asdict(self.budget),
            "probe": shorten(probe.source, LONGEST_PROBE),
            "answer": shorten(probe.answer, LONGEST_PROBE),
            "baseline": describe_baseline(self.baseline),
            "contestants": [
                {
                    **describe_contestant(run),
                    "parameters": self.parameters[run.id],
                    "seconds": self.seconds.get(run.id, 0.0),
                    "spent": self.spent(run),
                    "kept": run.id in kept,
                }
                for run in self.runs
            ],
        }


def choose_probe(task: Task) -> tuple[Examples, Probe]:
    """(examples to answer, the probe): one held-out example of a good size for a map, as both."""
    batch = task.held_out(HELD_OUT_SAMPLE)
    rows = [[index for index in row if index != PAD] for row in batch.input_ids.tolist()]

    def unlike(place: int) -> int:
        repeated = len(rows[place]) - len(set(rows[place]))  # which of two equals is read cannot be seen
        return 2 * abs(len(rows[place]) - PROBE_TOKENS) + repeated

    place = min(range(len(rows)), key=unlike)
    source = task.read_source(rows[place])
    answer = task.decode(batch.labels.view(len(batch), -1)[place].tolist())
    examples = Examples(batch[place : place + 1], [source], [answer])
    return examples, Probe(take_row(batch, place), source, answer)


def drive_duel(duel: DuelJob) -> Iterator[None]:
    """Take steps in turns until every budget is spent or the visitor stops; yield what there is to show.

    However it ends (also when the page is closed, which raises GeneratorExit at a yield), the weights stay.
    """
    duel.is_live = True
    try:
        with record_failure(duel, "The duel failed"):
            yield from _begin(duel)
            yield from _turns(duel)
            is_cut = duel.stop.is_set() or duel.is_cut or duel.is_late
            duel.status = STOPPED if is_cut else FINISHED
    finally:
        duel.is_live = False
        for run in duel.runs:
            run.is_live = False
            run.status = duel.status if run.status == RUNNING else run.status


def _begin(duel: DuelJob) -> Iterator[None]:
    """Fit the recipes to the budget, and build the models one by one."""
    planned = plan_duel(duel.runs[0].task, {run.id: run.recipe for run in duel.runs}, duel.budget)
    for run in duel.runs:
        run.recipe = dataclasses.replace(planned[run.id], report_every=1)  # so that Stop waits for one step
        run.is_live = True
        if duel.stop.is_set():
            return
        run.begin()
        run.advance()  # the report before the first step
        run.answer()
        run.take_frame()
        yield


def _turns(duel: DuelJob) -> Iterator[None]:
    shown_at = time.monotonic()
    while not duel.stop.is_set():
        run = next_in_turn({run: duel.reached(run) for run in duel.runs})
        if run is None:
            break
        try:
            if (report := run.advance()) is not None:
                duel.seconds[run.id] = report.seconds
                if report.measured_at > run.predicted_at:
                    run.answer()
        except Diverged as error:  # the others go on
            run.status, run.loop, run.message = FAILED, None, str(error)
        if time.monotonic() - shown_at >= MESSAGE_SECONDS:
            _take_frames(duel)
            yield
            shown_at = time.monotonic()
    _take_frames(duel)


def _take_frames(duel: DuelJob) -> None:
    for run in duel.runs:
        if run.model is not None:
            run.take_frame()


def measure_duel(duel: DuelJob) -> Iterator[None]:
    """Measure each run on 1,000 held-out examples; yield after each."""
    number = duel.number
    for run in list(duel.runs):
        if duel.number != number:  # another duel has begun
            return
        if run.step and run.status != FAILED and run.evaluation is None:
            measure_run(run)
            yield


def describe_contestant(run: TrainingJob) -> dict:
    points = measured_points(run)
    score = run.evaluation.overall if run.evaluation else None
    return {
        "id": run.id,
        "name": name_contestant(run),
        "model": run.recipe.architecture,
        "status": run.status,
        "message": run.message,
        "step": run.step,
        "steps": run.recipe.steps,
        "held_out": run.held_out,
        "loss": points[-1]["loss"] if points else None,
        "interval": [score.interval.low, score.interval.high] if score else None,
        "examples": score.examples if score else HELD_OUT_SAMPLE,
        "points": points,
        "sizes": size_scores(run),
        "map": describe_map(run),
        "written": run.predictions[0] if run.predictions else None,
    }


def name_contestant(run: TrainingJob) -> str:
    return find_architecture(run.task, run.recipe.architecture).title


def measured_points(run: TrainingJob) -> list[dict]:
    """The run at each measurement, with the mean loss since the one before."""
    points, losses = [], []
    for _, point in run.points:
        losses.append(point["loss"])
        if point["held_out"] is not None:
            known = [loss for loss in losses if math.isfinite(loss)]
            loss = sum(known) / len(known) if known else None
            points.append({name: point[name] for name in ("step", "seconds", "held_out")} | {"loss": loss})
            losses = []
    return points


def size_scores(run: TrainingJob) -> list[dict]:
    """Accuracy by size with its interval, neighbouring sizes pooled; empty before it is measured."""
    pooled = pool_sizes(run.evaluation.by_size, SIZE_GROUPS) if run.evaluation else {}
    return [
        {
            "from": smallest,
            "to": largest,
            "examples": score.examples,
            "held_out": score.exact_match,
            "low": score.interval.low,
            "high": score.interval.high,
        }
        for (smallest, largest), score in pooled.items()
    ]


def describe_map(run: TrainingJob) -> dict | None:
    """The probe's newest map, over the source's columns only; None without attention."""
    if not run.frames or not run.map.get("heads"):
        return None
    _, frame = run.frames[-1]
    names = ("heads", "rows", "cols", "truth", "layer")
    source = run.probe.batch.input_ids.shape[1]  # a decoder's map goes on over the answer
    newest = {"maps": frame["maps"][-1], "step": frame["step"], "source": source}
    return {**newest, **{name: run.map[name] for name in names}}
