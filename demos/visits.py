"""What belongs to one visitor: runs, and which of them is shown. It lives in gr.State, so none meet."""

import contextlib
import itertools
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch

from demos.probing import Example, Probe, choose_examples, read_map, read_predictions, write_samples
from demos.shared import encode_maps, name_architecture, name_model, shorten
from demos.tables import Table, take_table
from hf_attn.architectures import build_model
from hf_attn.baselines import NAME, Baseline, measure_beside
from hf_attn.evaluation import Evaluation
from hf_attn.tasks import Recipe, Task
from hf_attn.tasks.base import CLASSES, TEXT
from hf_attn.training import Report, build_accelerator, train

RUNNING, PAUSED, STOPPED, FINISHED, FAILED = "running", "paused", "stopped", "finished", "error"
KEPT_RUNS = 12
KEPT_POINTS = 2000  # of a run's curve
KEPT_FRAMES = 60  # of a run's film once it is over
REPEATED_SECONDS = 3.0  # the browser may lose messages: each repeats what is as recent as this
LONGEST_PROBE = 48  # characters of the probe in the map's title
WRITES = {  # kind of task → what the predictions are called, and their columns
    CLASSES: ("What it predicts", ("text", "class"), "{} held-out examples"),
    TEXT: ("What it writes", ("chosen by", "written"), "from nothing"),
}
ANSWERS = ("What it writes", ("source", "written"), "{} held-out examples")


@dataclass(eq=False)
class Run:
    """One model learning one task: what the page shows of it, and what the visitor wants of it.

    Attributes:
        id, name: of the run, within its visit.
        task, recipe, seed, device: what it is made of.
        pace: steps a second; None for as fast as it goes.
        status: "running", "paused", "stopped", "finished" or "error"; message says what failed.
        wants_pause, wants_stop, wanted_steps: set by the buttons, heeded between two steps.
        is_live: a handler is taking its steps (or waiting for a free place to do so).
        baseline, is_compared: what stands beside a classifier, and whether it was looked for.
        points, frames: (when, what) of the curves and of the film.
    """

    id: str
    name: str
    task: Task
    recipe: Recipe
    seed: int
    device: str = "auto"
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

    def __post_init__(self) -> None:
        self.lock = threading.Lock()  # the model is either learning or being looked at
        self.readers = 0
        self.examples: list[Example] = []  # chosen when the run begins: reading a corpus may take long
        self.probe: Probe | None = None
        self.active_seconds = 0.0
        self.loop: Iterator[Report] | None = None
        self.map: dict = {}  # what the board says of the probe's map; nothing before there is a model
        self.predictions: list[dict] = []
        self.predicted_at = -1

    def begin(self) -> None:
        """Choose the examples, build the model and its loop, once."""
        if self.probe is None:
            self.examples, self.probe = choose_examples(self.task)
        if self.loop is None and self.model is None:
            self.model = build_model(self.task, self.recipe, self.seed)
            self.accelerator = build_accelerator(self.device)
            generator = torch.Generator().manual_seed(self.seed)
            self.loop = train(
                self.task, self.model, self.recipe, generator=generator, accelerator=self.accelerator
            )

    def advance(self) -> Report | None:
        """Take one step and note what it gave; None where there is none left."""
        while self.readers:  # a lock is not fair: whoever wants to look goes first
            time.sleep(0.001)
        started = time.monotonic()
        with self.lock:
            report = next(self.loop, None)
        self.active_seconds += time.monotonic() - started
        if report is not None:
            self.step = report.step
            self._note(report)
        return report

    @contextlib.contextmanager
    def looking(self) -> Iterator[torch.nn.Module]:
        """The model, between two steps."""
        self.readers += 1
        try:
            with self.lock:
                yield self.model
        finally:
            self.readers -= 1

    def take_frame(self) -> None:
        """Draw the probe's attention as it is now, once a step."""
        if self.frames and self.frames[-1][1]["step"] == self.step:
            return
        with self.lock:
            answering, self.map = read_map(self.model, self.task, self.probe)
        frame = {"step": self.step, "predictions": self.predictions}
        if answering is not None:
            frame["maps"] = encode_maps(answering.weights[-1])
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
        if is_measured and self.predicted_at != report.step:
            self.predicted_at = report.step
            self.predictions = self._answer(report.predictions)

    def _answer(self, predictions: torch.Tensor) -> list[dict]:
        """The shown examples answered; a language model writes anew."""
        if self.task.kind != TEXT:
            return read_predictions(self.task, self.examples, predictions)
        with self.lock:
            return write_samples(self.model, self.task, self.probe)

    def conclude(self, evaluation: Evaluation, predictions: torch.Tensor) -> None:
        """End curve, film and table with what was measured where the run stands."""
        self.evaluation = evaluation
        self.predictions = self._answer(predictions)
        if self.points:
            when, point = self.points[-1]
            self.points[-1] = (when, {**point, "held_out": evaluation.overall.exact_match})
        if self.frames:
            when, frame = self.frames[-1]
            self.frames[-1] = (when, {**frame, "predictions": self.predictions})

    @property
    def held_out(self) -> float | None:
        """The newest accuracy: on 1,000 examples once the run is over, before that on the run's sample."""
        if self.evaluation is not None:
            return self.evaluation.overall.exact_match
        measured = [point["held_out"] for _, point in self.points if point["held_out"] is not None]
        return measured[-1] if measured else None

    @property
    def seconds(self) -> float:
        """Spent on steps."""
        return self.points[-1][1]["seconds"] if self.points else 0.0

    @property
    def can_go_on(self) -> bool:
        """Steps are left, and what they need is still there."""
        return self.loop is not None and self.step < self.recipe.steps and self.status in (STOPPED, PAUSED)

    @property
    def weights(self) -> str:
        """What the weights are, in words."""
        return f"step {self.step}" if self.step else "untrained"

    def eta_seconds(self) -> float | None:
        """What is left, at the pace so far."""
        left = self.recipe.steps - self.step
        if self.pace:
            return left / self.pace
        return left * self.active_seconds / self.step if self.step else None

    def to_message(self, *, whole: bool = False) -> dict:
        """What the train board is told: the whole run, or what is recent."""
        if whole:
            points = thin([point for _, point in self.points], KEPT_POINTS)
            frames = thin([frame for _, frame in self.frames], KEPT_FRAMES)
        else:
            since = time.monotonic() - REPEATED_SECONDS
            points = [p for _, p in itertools.takewhile(lambda item: item[0] >= since, reversed(self.points))]
            frames = [f for _, f in itertools.takewhile(lambda item: item[0] >= since, reversed(self.frames))]
            points, frames = points[::-1] or [p for _, p in self.points[-1:]], frames[::-1]
        return {
            "run": self.id,
            "event": "progress" if self.status in (RUNNING, PAUSED) else "end",
            "status": self.status,
            "message": self.message,
            "eta_seconds": self.eta_seconds(),
            "meta": self.meta,
            "points": points,
            "frames": said_once(frames),
        }

    @property
    def meta(self) -> dict:
        """What does not change during a run."""
        title, columns, note = WRITES.get(self.task.kind, ANSWERS)
        return {
            "task": self.task.name,
            "probe": shorten(self.probe.source, LONGEST_PROBE) if self.probe else "",
            "metric": self.task.metric,
            "total_steps": self.recipe.steps,
            "predictions_name": title,
            "predictions_columns": columns,
            "predictions_title": note.format(len(self.examples)),
            "baseline": tell_baseline(self.baseline),
            **self.map,
        }

    def to_row(self) -> dict:
        """The run's line in the table of runs."""
        curve = [[p["step"], p["held_out"]] for _, p in self.points if p["held_out"] is not None]
        return {
            "id": self.id,
            "name": self.name,
            "model": name_architecture(self.model.config) if self.model is not None else "",
            "details": name_model(self.model, self.step, self.seconds)
            if self.model is not None
            else "waiting",
            "held_out": self.held_out,
            "curve": thin(curve, 100),
            "kept": True,
        }


def tell_baseline(baseline: Baseline | None) -> dict | None:
    """The baseline as the boards draw it: a level over the whole run."""
    if baseline is None:
        return None
    score = baseline.score
    figures = {"held_out": score.exact_match, "interval": [score.interval.low, score.interval.high]}
    return {"name": NAME, "parameters": baseline.parameters, "seconds": baseline.seconds, **figures}


def said_once(frames: list[dict]) -> list[dict]:
    """The frames, with predictions only where they are new: the board shows the last ones until then."""
    said, told = [], None
    for frame in frames:
        is_new = frame["predictions"] is not told
        told = frame["predictions"]
        said.append(frame if is_new else {name: frame[name] for name in frame if name != "predictions"})
    return said


def thin(items: list, most: int) -> list:
    """At most so many, evenly chosen, the first and the last among them."""
    if len(items) <= most:
        return items
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


@dataclass(eq=False)
class Visit:
    """One visitor: the runs, newest last, the one on the board, and a folder for files that come and go."""

    runs: dict[str, Run] = field(default_factory=dict)
    shown: str | None = None
    current: str | None = None
    begun: int = 0
    device: str = "auto"
    pace: float | None = None
    folder: str | None = None
    table: Table | None = None
    baselines: dict[Task, Baseline | None] = field(default_factory=dict)
    is_over: bool = False

    @property
    def run(self) -> Run | None:
        """The run that the buttons are about."""
        return self.runs.get(self.current)

    def add(self, task: Task, recipe: Recipe, seed: int) -> tuple[Run, str]:
        """A new run, shown at once; and what had to go for it, in a sentence."""
        self.begun += 1
        gone = ""
        if len(self.runs) >= KEPT_RUNS:
            oldest = next(run for run in self.runs.values() if not run.is_live)
            self.forget(oldest.id)
            gone = f"{oldest.name} made room: {KEPT_RUNS} runs are kept."
        run = Run(
            f"run-{self.begun}", f"{task.name} {self.begun}", task, recipe, seed, self.device, self.pace
        )
        self.runs[run.id] = run
        self.shown = self.current = run.id
        return run, gone

    def forget(self, run_id: str) -> None:
        """Delete a run, stopping it first."""
        run = self.runs.pop(run_id, None)
        if run is not None:
            run.wants_stop = True
        newest = next(reversed(self.runs), None)
        if self.shown == run_id:
            self.shown = newest
        if self.current == run_id:
            self.current = newest

    def to_table(self) -> dict:
        """The value of the table of runs, newest first."""
        return {"runs": [run.to_row() for run in reversed(self.runs.values())], "current": self.shown}

    def measure_beside(self, task: Task) -> Baseline | None:
        """What stands beside a task's models, measured once a visit; a table has a task of its own."""
        if task not in self.baselines:
            self.baselines[task] = measure_beside(task)
        return self.baselines[task]

    def new_folder(self, name: str) -> Path:
        """A fresh path in the visit's own temporary folder."""
        if self.folder is None:
            self.folder = tempfile.mkdtemp(prefix="hf_attn_")
        return Path(tempfile.mkdtemp(dir=self.folder)) / name

    def take(self, uploaded: str | None, columns: tuple[str, ...]) -> None:
        """Keep an uploaded table instead of the last one, or none; runs on that one go on."""
        self.table = None if uploaded is None else take_table(uploaded, self.new_folder("table"), columns)

    def close(self) -> None:
        """The visitor has gone: stop what runs, give back memory and disk."""
        self.is_over = True
        for run_id in list(self.runs):
            self.forget(run_id)
        self.table = None
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None
