"""A training job: one model that learns one task, with what the page shows of it."""

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from hf_attn.architectures.registry import build_model
from hf_attn.evaluation.baselines import Baseline
from hf_attn.evaluation.metrics import Evaluation
from hf_attn.tasks import Recipe, Task
from hf_attn.tasks.base import CLASSES, TEXT
from hf_attn.training.loop import Report

from ..ui.boards import describe_baseline, drop_repeated_predictions, encode_maps
from ..ui.formatting import shorten, thin
from .loop import begin_loop, has_zero_gpu, isolate_rng, uses_global_rng
from .probe import Examples, Probe, answer_examples, choose_examples, read_map, write_samples

RUNNING, PAUSED, STOPPED, FINISHED, FAILED = "running", "paused", "stopped", "finished", "error"
KEPT_POINTS = 2000  # of a run's curve
KEPT_FRAMES = 60  # of a run's film once it is over
REPEATED_SECONDS = 1.5  # the browser may lose messages: each repeats what is as recent as this,
REPEATED = 3  # and where steps take long so many of the newest
LONGEST_PROBE = 48  # characters of the probe in the map's title
WRITES = {  # kind of task → what the predictions are called, and their columns
    CLASSES: ("What it predicts", ("text", "class"), "{} held-out examples"),
    TEXT: ("What it writes", ("chosen by", "written"), "from nothing"),
}
ANSWERS = ("What it writes", ("source", "written"), "{} held-out examples")


@dataclass(eq=False)
class TrainingJob:
    """One model that learns one task: its state, and what the visitor's buttons want of it.

    Attributes:
        id, name: of the run, within its session.
        task, recipe, seed, device: what is trained, and where.
        own_probe: the visitor's own example whose attention is drawn, if there is one.
        pace: steps a second; None for as fast as possible.
        status: "running", "paused", "stopped", "finished" or "error"; message says what failed.
        wants_pause, wants_stop, wanted_steps: set by the buttons, read between two steps.
        is_live: whether a handler is taking its steps (or waiting for a free place).
        baseline, is_compared: a classifier's baseline, and whether it was measured.
        points, frames: (time, value) of the curves and of the film.
        last_step: where a link ends it before its recipe does.
        film: the steps of which a link wants a frame; None for a frame whenever there is one to show.
    """

    id: str
    name: str
    task: Task
    recipe: Recipe
    seed: int
    device: str = "auto"
    own_probe: Probe | None = None
    pace: float | None = None
    status: str = RUNNING
    message: str = ""
    wants_pause: bool = False
    wants_stop: bool = False
    wanted_steps: int = 0
    is_live: bool = False
    step: int = 0
    model: torch.nn.Module | None = None
    evaluation: Evaluation | None = None
    baseline: Baseline | None = None
    is_compared: bool = False
    points: list[tuple[float, dict]] = field(default_factory=list)
    frames: list[tuple[float, dict]] = field(default_factory=list)
    last_step: int | None = None
    film: frozenset[int] | None = None

    def __post_init__(self) -> None:
        self.lock = threading.Lock()  # the model is either learning or being looked at
        self.readers = 0
        self.examples: Examples | None = None  # chosen when the run begins: reading a corpus may take long
        self.probe: Probe | None = None
        self.active_seconds = 0.0
        self.loop: Iterator[Sequence[Report]] | None = None
        self.computed_on = ""  # the device that trains, in words; nothing before the first step
        self.map: dict = {}  # what the board says of the probe's map; nothing before there is a model
        self.predictions: list[dict] = []
        self.predicted_at = -1

    def begin(self) -> None:
        """Choose the examples; build the model and its loop, once."""
        if self.probe is None:
            self.examples, chosen = choose_examples(self.task)
            self.probe = self.own_probe or chosen
        if self.loop is None and self.model is None:
            self.model = build_model(self.task, self.recipe, self.seed)
            loop = begin_loop(self)
            self.loop = (
                isolate_rng(loop, self.seed) if uses_global_rng(self.recipe) and not has_zero_gpu() else loop
            )

    def advance(self) -> Report | None:
        """Take one step, or a slice of steps, and record its reports; None where no step is left."""
        while self.readers:  # a lock is not fair: whoever wants to look goes first
            time.sleep(0.001)
        started = time.monotonic()
        with self.lock:
            reports = next(self.loop, ())
            self.active_seconds += time.monotonic() - started
            if reports:
                self.evaluation = None  # was of the weights before
            for report in reports:
                self.step = report.step
                self._note(report)
        if self.wanted_steps and self.step > 0:  # the report before the first step is none
            self.wanted_steps -= 1
        return reports[-1] if reports else None

    @contextlib.contextmanager
    def looking(self) -> Iterator[torch.nn.Module]:
        """Hold the model between two steps."""
        self.readers += 1
        try:
            with self.lock:
                yield self.model
        finally:
            self.readers -= 1

    def take_frame(self) -> None:
        """Record a frame of the probe's map, at most one a step; for a link, only at its steps."""
        if self.frames and self.frames[-1][1]["step"] == self.step:
            return
        is_kept = self.film is None or self.step in self.film or self.wants_pause or self.wants_stop
        if not is_kept:
            return
        with self.lock:
            weights, self.map = read_map(self.model, self.task, self.probe)
        frame = {"step": self.step, "predictions": self.predictions}
        if weights is not None:
            frame["maps"] = [encode_maps(layer) for layer in weights]
        self.frames.append((time.monotonic(), frame))
        if len(self.frames) > 8 * KEPT_FRAMES:  # a long run keeps every other frame of its past
            self.frames = self.frames[: 4 * KEPT_FRAMES : 2] + self.frames[4 * KEPT_FRAMES :]

    def _note(self, report: Report) -> None:
        is_measured = report.measured_at == report.step
        every = max(1, report.steps // KEPT_POINTS)
        if not (is_measured or report.step % every == 0):
            return
        point = {"step": report.step, "loss": report.loss, "seconds": report.seconds}
        point["tokens_per_second"] = report.tokens_per_second
        point["held_out"] = report.held_out_exact_match if is_measured else None
        self.points.append((time.monotonic(), point))

    def answer(self) -> None:
        """Answer the shown examples at this step (a language model writes), for the step's frame."""
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
        if self.frames and self.frames[-1][1]["step"] == self.step:
            self.frames[-1] = (time.monotonic(), {**self.frames[-1][1], "predictions": self.predictions})

    def conclude(self, evaluation: Evaluation) -> None:
        """Record the final measurement in curve, film and table; the caller holds the model."""
        self.evaluation = evaluation
        self._answer()
        if self.points:
            when, point = self.points[-1]
            self.points[-1] = (when, {**point, "held_out": evaluation.overall.exact_match})

    @property
    def held_out(self) -> float | None:
        """The newest accuracy: on 1,000 examples once the run has ended, before that on the run's sample."""
        if self.evaluation is not None:
            return self.evaluation.overall.exact_match
        measured = [point["held_out"] for _, point in self.points if point["held_out"] is not None]
        return measured[-1] if measured else None

    @property
    def seconds(self) -> float:
        return self.points[-1][1]["seconds"] if self.points else 0.0

    @property
    def can_go_on(self) -> bool:
        """Whether steps are left, and the loop for them is still there or not yet made."""
        is_whole = self.loop is not None or self.model is None
        return is_whole and self.step < self.recipe.steps and self.status in (STOPPED, PAUSED)

    @property
    def weights(self) -> str:
        return f"step {self.step}" if self.step else "untrained"

    def eta_seconds(self) -> float | None:
        """Seconds left, at the pace so far."""
        left = self.recipe.steps - self.step
        if self.pace:
            return left / self.pace
        return left * self.active_seconds / self.step if self.step else None

    def to_message(self, *, whole: bool = False) -> dict:
        """The train board's value: the whole run, or only its newest points and frames."""
        if whole:
            points = thin([point for _, point in self.points], KEPT_POINTS)
            most = KEPT_FRAMES if self.film is None else len(self.frames)
            frames = thin([frame for _, frame in self.frames], most)
        else:
            points, frames = newest_of(self.points), newest_of(self.frames)
        return {
            "run": self.id,
            "status": self.status,
            "message": self.message,
            "eta_seconds": self.eta_seconds(),
            "meta": self.meta,
            "points": points,
            "frames": drop_repeated_predictions(frames),
        }

    @property
    def meta(self) -> dict:
        """The part of the message that every one repeats."""
        title, columns, note = WRITES.get(self.task.kind, ANSWERS)
        return {
            "task": self.task.name,
            "probe": shorten(self.probe.source, LONGEST_PROBE) if self.probe else "",
            "own_probe": self.own_probe is not None,
            "metric": self.task.metric,
            "total_steps": self.recipe.steps,
            "predictions_name": title,
            "predictions_columns": columns,
            "predictions_title": note.format(len(self.examples or ())),
            "baseline": describe_baseline(self.baseline),
            **self.map,
        }


def newest_of(told: list[tuple[float, dict]]) -> list[dict]:
    """The newest of (when, what), as every message repeats them."""
    since = time.monotonic() - REPEATED_SECONDS
    recent = sum(1 for _ in itertools.takewhile(lambda item: item[0] >= since, reversed(told)))
    return [one for _, one in told[-max(recent, REPEATED) :]]
