"""What belongs to one visitor: runs, and which of them is shown. It lives in gr.State, so none meet."""

import contextlib
import itertools
import shutil
import tempfile
import threading
import time
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from demos.chance import draw_apart, draws
from demos.limits import limits_here
from demos.probing import Examples, Probe, answer_examples, choose_examples, read_map, write_samples
from demos.shared import encode_maps, said_once, shorten, tell_baseline, thin
from demos.slicing import begin_loop, has_zero_gpu
from demos.tables import Table, take_table
from hf_attn.architectures.registry import build_model
from hf_attn.evaluation.baselines import Baseline, measure_beside
from hf_attn.evaluation.metrics import Evaluation
from hf_attn.tasks import Recipe, Task
from hf_attn.tasks.base import CLASSES, TEXT
from hf_attn.training.loop import Report

RUNNING, PAUSED, STOPPED, FINISHED, FAILED = "running", "paused", "stopped", "finished", "error"
LONGEST_NAME = 40  # characters of a run's name
LARGEST_SEED = 2**31 - 1
UNSEEN = ("Cc", "Co", "Cs", "Zl", "Zp")  # kinds of characters that a name cannot have
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
class Run:
    """One model learning one task: what the page shows of it, and what the visitor wants of it.

    Attributes:
        id, name: of the run, within its visit.
        task, recipe, seed, device: what it is made of.
        own_probe: the example whose attention is drawn, where the visitor wrote one.
        pace: steps a second; None for as fast as it goes.
        status: "running", "paused", "stopped", "finished" or "error"; message says what failed.
        wants_pause, wants_stop, wanted_steps: set by the buttons, heeded between two steps.
        is_live: a handler is taking its steps (or waiting for a free place to do so).
        baseline, is_compared: what stands beside a classifier, and whether it was looked for.
        points, frames: (when, what) of the curves and of the film.
        last_step: where it ends before its recipe does, as a link says.
        film: the steps of which there is a frame, where a link says so; else whenever there is one to show.
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
        """Choose the examples, build the model and its loop, once."""
        if self.probe is None:
            self.examples, chosen = choose_examples(self.task)
            self.probe = self.own_probe or chosen
        if self.loop is None and self.model is None:
            self.model = build_model(self.task, self.recipe, self.seed)
            loop = begin_loop(self)
            self.loop = draw_apart(loop, self.seed) if draws(self.recipe) and not has_zero_gpu() else loop

    def advance(self) -> Report | None:
        """Take one step, or a slice of them, and note what it gave; None where there is none left."""
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
        """The model, between two steps."""
        self.readers += 1
        try:
            with self.lock:
                yield self.model
        finally:
            self.readers -= 1

    def take_frame(self) -> None:
        """Draw the probe's attention as it is now, once a step; of a link's film that, and where it halts."""
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
        """Answer the shown examples at this step, or let a language model write, for the step's frame."""
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
        """End curve, film and table with what was measured where the run stands, while it is looked at."""
        self.evaluation = evaluation
        self._answer()
        if self.points:
            when, point = self.points[-1]
            self.points[-1] = (when, {**point, "held_out": evaluation.overall.exact_match})

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
        """Steps are left, and what they need is still there, or was not made yet."""
        is_whole = self.loop is not None or self.model is None
        return is_whole and self.step < self.recipe.steps and self.status in (STOPPED, PAUSED)

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
            "frames": said_once(frames),
        }

    @property
    def meta(self) -> dict:
        """What does not change during a run."""
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
            "baseline": tell_baseline(self.baseline),
            **self.map,
        }


def newest_of(told: list[tuple[float, dict]]) -> list[dict]:
    """What every message repeats of (when, what)."""
    since = time.monotonic() - REPEATED_SECONDS
    recent = sum(1 for _ in itertools.takewhile(lambda item: item[0] >= since, reversed(told)))
    return [one for _, one in told[-max(recent, REPEATED) :]]


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
    pulled: dict[str, Path] = field(default_factory=dict)  # Hub id → folder
    is_over: bool = False
    when_closed: Callable[[], None] | None = None

    @property
    def run(self) -> Run | None:
        """The run that the buttons are about."""
        return self.runs.get(self.current)

    def add(
        self,
        task: Task,
        recipe: Recipe,
        seed: int,
        own_probe: Probe | None = None,
        *,
        keep: Collection[str] = (),
    ) -> tuple[Run, str]:
        """A new run, shown at once; and what had to go for it, none of `keep`, in a sentence."""
        self.begun += 1
        gone = ""
        most = limits_here().runs
        if len(self.runs) >= most:
            oldest = next(run for run in self.runs.values() if not run.is_live and run.id not in keep)
            self.forget(oldest.id)
            gone = f"{oldest.name} made room: {most} runs are kept."
        name = f"{task.name} {self.begun}"
        run = Run(f"run-{self.begun}", name, task, recipe, seed, self.device, own_probe, self.pace)
        self.runs[run.id] = run
        self.shown = self.current = run.id
        return run, gone

    def show(self, run_id: str | None) -> None:
        """Put a run on the board; the buttons are about it too unless another is under way."""
        if run_id not in self.runs:
            return
        self.shown = run_id
        if self.run is None or not self.run.is_live:
            self.current = run_id

    def forget(self, run_id: str) -> None:
        """Delete a run, stopping it first."""
        run = self.runs.pop(run_id, None)
        if run is not None:
            run.wants_stop = run.is_live  # a duel may hand it back, to go on
        newest = next(reversed(self.runs), None)
        if self.shown == run_id:
            self.shown = newest
        if self.current == run_id:
            self.current = newest

    def add_again(self, run: Run, *, other_seed: bool = False) -> tuple[Run, str]:
        """The same run once more, from the same start; or from the next seed that none of its like has."""
        like = [one.seed for one in self.runs.values() if (one.task, one.recipe) == (run.task, run.recipe)]
        seed = (max(like, default=run.seed) + 1) % (LARGEST_SEED + 1) if other_seed else run.seed
        return self.add(run.task, run.recipe, seed, run.own_probe)

    def rename(self, run_id: str, text: str) -> None:
        """Give a run another name.

        Raises:
            ValueError: nothing is left of it, it is too long, or another run has it.
        """
        seen = "".join(letter for letter in text if unicodedata.category(letter) not in UNSEEN)
        name = " ".join(seen.split())
        if run_id not in self.runs:
            return
        if not name:
            raise ValueError(f"A name has 1 to {LONGEST_NAME} characters; {self.runs[run_id].name} stays.")
        if len(name) > LONGEST_NAME:
            raise ValueError(f"This name has {len(name)} characters; {LONGEST_NAME} at most are kept.")
        if any(run.name == name for run in self.runs.values() if run.id != run_id):
            raise ValueError(f"Another run is called {name}; choose a name of its own.")
        self.runs[run_id].name = name

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
        self.table = None
        if uploaded is None:
            return
        try:
            limits_here().refuse_more("upload_bytes", Path(uploaded).stat().st_size)
        except ValueError as error:
            self.table = Table(Path(uploaded), Path(uploaded).name, fault=str(error))
        else:
            self.table = take_table(uploaded, self.new_folder("table"), columns)

    def take_over(self, other: "Visit") -> None:
        """Go on with what the same visitor's last visit has, whose page was left; that one is empty then."""
        for run in other.runs.values():
            run.wants_stop = run.is_live
            run.status = STOPPED if run.status in (RUNNING, PAUSED) else run.status
        for name in ("runs", "shown", "current", "begun", "folder", "table", "baselines", "pulled"):
            setattr(self, name, getattr(other, name))
        other.runs, other.shown, other.current, other.folder, other.table = {}, None, None, None, None
        other.pulled = {}

    def close(self) -> None:
        """The page has gone: stop what runs. What was learned stays a while for the page that comes back."""
        self.is_over = True
        for run in self.runs.values():
            run.wants_stop = run.is_live
        if self.when_closed is None:
            self.empty()
        else:
            self.when_closed()

    def empty(self) -> None:
        """Give back memory and disk."""
        for run_id in list(self.runs):
            self.forget(run_id)
        self.table = None
        self.pulled = {}
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None
