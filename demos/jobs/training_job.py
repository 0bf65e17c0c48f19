"""A training job: one model that learns one task, with what the page shows of it."""

import contextlib
import functools
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch

from hf_attn.analysis.ablation import Needed, find_needed
from hf_attn.architectures.registry import build_model
from hf_attn.evaluation.baselines import Baseline, measure_beside
from hf_attn.evaluation.metrics import Evaluation, evaluate, measure_quickly, pool_scores
from hf_attn.evaluation.reach import can_reach, measure_reach
from hf_attn.tasks import Recipe, Task
from hf_attn.tasks.base import CLASSES, TEXT
from hf_attn.training.loop import VALIDATION_SAMPLE, Report
from hf_attn.training.slices import SliceState

from ..ui.boards import describe_baseline, describe_held_out, drop_repeated_predictions, encode_maps
from ..ui.formatting import shorten, thin
from .job import PAUSED, RUNNING, STOPPED, Job
from .loop import IsolatedRNG, assign_gpu, begin_loop, has_zero_gpu, uses_global_rng
from .probe import (
    Examples,
    Probe,
    answer_examples,
    answer_without,
    choose_examples,
    read_map,
    read_own_probe,
    write_samples,
)

READY = "ready"  # the board's status before there is a run
KEPT_POINTS = 2000  # of a run's curve
FRAMES = 60  # of a run's film, beside that of step 0
REPEATED_SECONDS = 1.5  # the browser may lose messages: each repeats what is as recent as this,
REPEATED = 3  # and where steps take long so many of the newest
LEARNED = 0.05  # right, from which on it is asked what the answers need: fewer cannot lose as much
ASKED_INPUTS, ASKED_TEXTS = 500, 60  # held-out ones on which that is measured
WATCHED = (10, 5)  # inputs ten times as long as the longest learned are watched, so many of each kind,
REACHED = {2: 10, 5: 10, 10: 10, 20: 50}  # and at the end so many of these times the length
LONGEST_PROBE = 48  # characters of the probe in the map's title
WRITES = {  # kind of task → what the predictions are called, and their columns
    CLASSES: ("What it predicts", ("text", "class"), "{} validation examples"),
    TEXT: ("What it writes", ("chosen by", "written"), "from nothing"),
}
ANSWERS = ("What it writes", ("source", "written"), "{} validation examples")


@dataclass(eq=False)
class TrainingJob(Job):
    """One model that learns one task, with what the page shows of it."""

    id: str  # within its session, as its name
    name: str
    task: Task
    recipe: Recipe
    seed: int
    device: str = "auto"
    own_probe: Probe | None = None  # the visitor's own example whose attention is drawn, if there is one
    step: int = 0
    model: torch.nn.Module | None = None
    evaluation: Evaluation | None = None
    baseline: Baseline | None = None  # a classifier's, once it was measured
    is_compared: bool = False  # it was looked for, though there may be none
    reach: list[dict] | None = None  # how many longer inputs are right, as the board takes it
    needed: dict | None = None  # the head or layer that the answers need most, as the board takes it
    measure_baseline: Callable[[Task], Baseline | None] = measure_beside  # measures it, once a session
    made_room: str = ""  # a sentence on the run that was deleted for this one, or nothing
    points: list[tuple[float, dict]] = field(default_factory=list)  # of the curves: (time, value)
    frames: list[tuple[float, dict]] = field(default_factory=list)  # of the film, as `film_every` says
    newest_frame: tuple[float, dict] | None = None  # of the newest map, where that is at another step

    def __post_init__(self) -> None:
        self.status = RUNNING
        self.failure = f"{self.name} failed"
        self.lock = threading.Lock()  # the model is either learning or being looked at
        self.readers = 0
        self.examples: Examples | None = None  # chosen when the run begins: reading a corpus may take long
        self.probe: Probe | None = None
        self.loop: Iterator[Report | SliceState] | None = None
        self.rng: IsolatedRNG | None = None  # where the steps draw from torch's global generators
        self.device_type = ""  # torch's word for where its model is, from when its loop is made
        self.gpu = -1  # its number, where several share the jobs out; -1 for none
        self.computed_on = ""  # the device that trains, in words; nothing before the first step
        self.map: dict = {}  # what the board says of the probe's map; nothing before there is a model
        self.predictions: list[dict] = []
        self.predicted_at = -1
        self.measured_at = -1
        self.listed_at = -2  # the step whose predictions the table of runs told last

    @property
    def progress(self) -> list[int]:
        return [self.step]

    def begin(self) -> None:
        """Choose the examples; build the model and its loop, once."""
        if self.probe is None:
            self.examples, chosen = choose_examples(self.task)
            self.probe = self.own_probe or chosen
        if self.loop is None and self.model is None:
            assign_gpu(self)
            self.model = build_model(self.task, self.recipe, self.seed)
            self.loop = begin_loop(self)
            if not has_zero_gpu():
                self.rng = IsolatedRNG(self.seed) if uses_global_rng(self.recipe) else None
                self.advance()  # the report before the first step

    def advance(self) -> bool:
        """Take one step, or a slice of steps, and record its reports; False where no step is left."""
        while self.readers:  # a lock is not fair: whoever wants to look goes first
            time.sleep(0.001)
        with self.lock:
            with torch.cuda.device(self.gpu), self.rng.drawing() if self.rng else contextlib.nullcontext():
                made = next(self.loop, None)
            reports = [made] if isinstance(made, Report) else []
            if isinstance(made, SliceState):
                reports, self.computed_on = made.reports, made.device
            for report in reports:
                self.evaluation = self.needed = self.reach = None  # were of the weights before
                self.step, self.measured_at = report.step, report.measured_at
                self._note(report)
        if made is not None and self.step % self.film_every == 0:
            self.frames.append(self._draw())
        if made is None or self.step == self.recipe.steps:
            self.loop = None
        return self.loop is not None

    def fail(self, error: Exception) -> None:
        super().fail(error)
        self.loop = None

    def conclude(self) -> Iterator[None]:
        """Measure the model on 1,000 held-out examples, what its answers need, and a baseline."""
        if not self.step:
            return
        self.measure()
        yield
        if can_reach(self.task, self.model.config):
            self.measure_reach()
            yield
        self.find_needed()
        yield
        if self.task.kind == CLASSES:
            self.baseline, self.is_compared = self.measure_baseline(self.task), True
            yield

    def measure(self) -> None:
        with self.looking() as model:
            self.record(evaluate(model, self.task))

    def measure_reach(self) -> None:
        """Measure inputs longer than those learned."""
        self.reach = []
        for times, each in REACHED.items():
            if self.is_closed or times * self.task.largest_size > self.task.longest_size:
                break
            with self.looking() as model:
                self.reach = [*self.reach, describe_reach(model, self.task, times, each)]

    def find_needed(self) -> None:
        """Find what the answers need most; not to the end where the run goes on or is left."""
        has_learned = self.evaluation is not None and self.evaluation.overall.exact_match >= LEARNED
        if not self.map["kind"] or not has_learned:
            return
        examples = ASKED_TEXTS if self.task.kind == TEXT else ASKED_INPUTS
        pieces = find_needed(self.model, self.task, self.map["kind"], examples)
        needed, step = None, self.step
        while needed is None:
            if self.is_closed:
                return
            with self.looking() as model:
                if self.step != step:
                    return
                needed = next(pieces)
                if needed is not None:
                    answers = answer_without(model, self.task, self.examples, needed.without.trial)
                    self.needed = describe_needed(needed, answers)

    @contextlib.contextmanager
    def looking(self) -> Iterator[torch.nn.Module]:
        """Hold the model between two steps."""
        self.readers += 1
        try:
            with self.lock:
                yield self.model
        finally:
            self.readers -= 1

    @property
    def film_every(self) -> int:
        """Steps between two frames of the film: they follow from the recipe, so that a link's has the same.

        Where a GPU is lent for slices of a run, each slice has one.
        """
        return 1 if has_zero_gpu() else -(-self.recipe.steps // FRAMES)

    @property
    def film(self) -> list[tuple[float, dict]]:
        """(time, frame) of the film, and of the map that stands where the run does."""
        if self.newest_frame is None or self.newest_frame[1]["step"] != self.step:
            return self.frames
        return [*self.frames, self.newest_frame]

    def prepare_message(self) -> None:
        """Draw the map at this step, where the film has no new one."""
        newest = self.frames[-1] if self.frames else None
        if self.model is None or (newest and newest[1]["step"] == self.step):
            return
        is_fresh = newest is not None and time.monotonic() - newest[0] < self.message_seconds
        if not is_fresh or self.status != RUNNING:
            self.newest_frame = self._draw()

    def look_untrained(self) -> None:
        """Make what the board shows before the first step, of a run that may never begin."""
        self.examples, chosen = choose_examples(self.task)
        self.probe = self.own_probe or chosen
        self.model = build_model(self.task, self.recipe, self.seed)
        self._answer()
        right = measure_quickly(self.model, self.task, self.task.validation(VALIDATION_SAMPLE))
        first = {"step": 0, "loss": None, "seconds": 0.0, "tokens_per_second": 0, "validation": right}
        self.points.append((time.monotonic(), first))
        self.frames.append(self._draw())

    def _draw(self) -> tuple[float, dict]:
        with self.lock:
            weights, self.map = read_map(self.model, self.task, self.probe)
        frame = {"step": self.step, "predictions": self.predictions}
        if weights is not None:
            frame["maps"] = [encode_maps(layer) for layer in weights]
        return time.monotonic(), frame

    def _note(self, report: Report) -> None:
        is_measured = report.measured_at == report.step
        every = max(1, report.steps // KEPT_POINTS)
        if not (is_measured or report.step % every == 0):
            return
        point = {"step": report.step, "loss": report.loss, "seconds": report.seconds}
        point["tokens_per_second"] = report.tokens_per_second
        point["validation"] = report.validation_exact_match if is_measured else None
        if is_measured and can_reach(self.task, self.model.config):
            beyond = describe_reach(self.model, self.task, *WATCHED)
            point["beyond"] = beyond["right"] / beyond["examples"]
        self.points.append((time.monotonic(), point))

    def catch_up(self) -> None:
        """Answer the shown examples (a language model writes) where the accuracy was measured anew."""
        if self.measured_at > self.predicted_at:
            with self.lock:
                self._answer()

    def _answer(self) -> None:
        if self.predicted_at == self.step:
            return
        self.predicted_at = self.step
        if self.task.kind == TEXT:
            self.predictions = write_samples(self.model, self.task, self.probe)
        else:
            self.predictions = answer_examples(self.model, self.task, self.examples)
        new = {"predictions": self.predictions}
        if self.frames and self.frames[-1][1]["step"] == self.step:
            self.frames[-1] = (time.monotonic(), self.frames[-1][1] | new)
        elif self.newest_frame is not None and self.newest_frame[1]["step"] == self.step:
            self.newest_frame = (time.monotonic(), self.newest_frame[1] | new)

    def record(self, evaluation: Evaluation) -> None:
        """Record the measurement on held-out examples; the caller holds the model."""
        self.evaluation = evaluation
        self._answer()

    @property
    def validation(self) -> float | None:
        """The newest accuracy on validation examples."""
        measured = [point["validation"] for _, point in self.points if point["validation"] is not None]
        return measured[-1] if measured else None

    @property
    def seconds(self) -> float:
        return self.points[-1][1]["seconds"] if self.points else 0.0

    @property
    def can_go_on(self) -> bool:
        """Whether steps are left, and the loop for them is still there or not yet made."""
        is_whole = self.loop is not None or self.model is None
        return is_whole and self.step < self.recipe.steps and self.status in (STOPPED, PAUSED)

    def prepare_again(self, *, is_paused: bool = False) -> None:
        """Let a stopped run be followed again from where it stands."""
        self.status, self.goal, self.wants_pause = PAUSED if is_paused else RUNNING, None, is_paused

    @property
    def weights(self) -> str:
        return f"step {self.step}" if self.step else "untrained"

    def eta_seconds(self) -> float | None:
        left = self.recipe.steps - self.step
        if self.pace:
            return left / self.pace
        return left * self.worked_seconds / self.step if self.step else None

    def to_message(self, *, whole: bool = False) -> dict:
        """The train board's value: the whole run, or only its newest points and frames."""
        if whole:
            points = thin([point for _, point in self.points], KEPT_POINTS)
            frames = [frame for _, frame in self.film]
        else:
            points, frames = newest_of(self.points), newest_of(self.film)
        title, columns, note = WRITES.get(self.task.kind, ANSWERS)
        if self.task.is_reversed:
            title += ", the last digit first"
        meta = {
            "task": self.task.name,
            "purpose": self.task.purpose,
            "kind_of_task": self.task.kind,
            "probe": shorten(self.probe.source, LONGEST_PROBE) if self.probe else "",
            "own_probe": self.own_probe is not None,
            "metric": self.task.metric,
            "total_steps": self.recipe.steps,
            "predictions_name": title,
            "predictions_columns": columns,
            "predictions_title": note.format(len(self.examples or ())),
            "baseline": describe_baseline(self.baseline),
            "needed": self.needed,
            "reach": self.reach,
            "beyond": describe_beyond(self.task) if self.task.longest_size else None,
            **self.map,
        }
        return {
            "run": self.id,
            "status": self.status,
            "message": self.message,
            "eta_seconds": self.eta_seconds(),
            "meta": meta,
            "points": points,
            "frames": drop_repeated_predictions(frames),
            "film_every": self.film_every,
            "held_out": describe_held_out(self.evaluation),
        }


def describe_reach(model, task: Task, times: int, each: int) -> dict:
    """How many inputs are right that are so many times as long as any learned: `each` of every kind."""
    size = min(times * task.largest_size, task.longest_size)
    whole = pool_scores(list(measure_reach(model, task, size, each).values()))
    return {"size": size, "right": round(whole.exact_match * whole.examples), "examples": whole.examples}


def describe_beyond(task: Task) -> dict:
    """The largest size that is learned, the longer one that is watched, and what both are counted in."""
    learned = task.largest_size
    return {"learned": learned, "watched": WATCHED[0] * learned, "unit": task.size_unit}


def describe_needed(needed: Needed, answers: list[dict] | None) -> dict:
    """What the answers need most, as the board takes it: `head` counts from 1, 0 for the whole layer."""
    (removed,) = needed.without.trial.interventions
    left = needed.without
    return {
        "layer": removed.layer + 1,
        "head": 0 if removed.head is None else removed.head + 1,
        "whole": needed.whole.exact_match,
        "left": left.exact_match,
        "interval": [left.interval.low, left.interval.high],
        "examples": left.examples,
        "predictions": answers,
    }


@functools.lru_cache(maxsize=32)
def _look_untrained(task: Task, architecture: str, model: tuple, seed: int, own_source: str) -> dict:
    recipe, probe = Recipe(dict(model), architecture), read_own_probe(task, own_source)
    job = TrainingJob("untrained", "untrained", task, recipe, seed, "cpu", probe)
    job.look_untrained()
    return job.to_message(whole=True)


def show_untrained(task: Task, recipe: Recipe, seed: int, own_source: str = "") -> dict:
    """The train board's value before a run: the untrained model's map and answers, one for all visitors."""
    is_shared = not getattr(task, "path", None)  # a visitor's own file is not kept
    look = _look_untrained if is_shared else _look_untrained.__wrapped__
    value = look(task, recipe.architecture, tuple(recipe.model.items()), seed, own_source.strip())
    return {**value, "status": READY, "meta": {**value["meta"], "total_steps": recipe.steps}}


def newest_of(recorded: list[tuple[float, dict]]) -> list[dict]:
    """The newest of (when, what), as every message repeats them."""
    since = time.monotonic() - REPEATED_SECONDS
    recent = sum(1 for _ in itertools.takewhile(lambda item: item[0] >= since, reversed(recorded)))
    return [one for _, one in recorded[-max(recent, REPEATED) :]]
