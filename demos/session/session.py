"""What belongs to one visitor: runs, other jobs, and what is shown. It lives in gr.State, so none meet."""

import shutil
import tempfile
import unicodedata
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hf_attn.evaluation.baselines import Baseline, measure_beside
from hf_attn.tasks import Recipe, Task
from hf_attn.utils.optional_packages import MissingPackageError

from ..core.events import Newest, NewestEvent
from ..core.fields import LARGEST_SEED
from ..core.limits import limits_here
from ..core.upload import SESSION, TABLE, Table, count_bytes, own_folder, take_table
from ..jobs.job import Job
from ..jobs.probe import Probe
from ..jobs.training_job import TrainingJob

if TYPE_CHECKING:
    from .catalog import ModelCatalog

State = TypeVar("State")
TAKEN_OVER = (  # by a page that is loaded again
    "runs",
    "shown",
    "current",
    "begun",
    "pace",
    "folder",
    "table",
    "baselines",
    "pulled",
    "opened",
    "seen",
    "tried",
    "interrupted",
)
LONGEST_NAME = 40  # characters of a run's name
UNSEEN = ("Cc", "Co", "Cs", "Zl", "Zp")  # kinds of characters that a name cannot have


@dataclass(eq=False)
class Session:
    """One visitor: the runs, newest last, the one on the board, and a folder for files that come and go."""

    catalog: "ModelCatalog | None" = None  # the checkpoints that everybody may open
    # models in training, by id; shown: the one on the board; current: the one that buttons control
    runs: dict[str, TrainingJob] = field(default_factory=dict)
    shown: str | None = None
    current: str | None = None
    begun: int = 0
    device: str = "auto"
    pace: float | None = None
    folder: str | None = None
    table: Table | None = None
    baselines: dict[Task, Baseline | None] = field(default_factory=dict)
    link: dict | None = None  # that is being opened
    skips_link: bool = False  # the page shows what it did since the link in its address
    asked_link: dict | None = None  # that waits for the visitor's answer
    saved: tuple[tuple, Path] | None = None  # what a run was saved as, (run, step, name), and the folder
    endpoint: str | None = None  # another Hub than HF_ENDPOINT's
    # what else there is one of, by its class: a tab's state, or a job such as a duel
    states: dict[type, Any] = field(default_factory=dict)
    pulled: dict[str, Path] = field(default_factory=dict)  # Hub id → folder
    opened: dict[str, str] = field(default_factory=dict)  # folder or Hub id → its model type
    newest: dict[type, Newest] = field(default_factory=dict)  # by the kind of event
    seen: dict[int, object] = field(default_factory=dict)  # what fields last held, by their components' ids
    # ((checkpoint, step of its weights), input) → what was written and what is right, or None: it was right
    tried: dict[tuple, tuple[str, str] | None] = field(default_factory=dict)
    # runs that were under way when their page was left, and whether they were paused
    interrupted: list[tuple[TrainingJob, bool]] = field(default_factory=list)
    is_over: bool = False
    when_closed: Callable[[], None] | None = None

    @property
    def run(self) -> TrainingJob | None:
        """The run that the buttons control."""
        return self.runs.get(self.current)

    @property
    def jobs(self) -> list[Job]:
        return [one for one in (*self.runs.values(), *self.states.values()) if isinstance(one, Job)]

    def take_waiting(self) -> TrainingJob | None:
        """The run that waits to be followed, which the buttons control from now on; else the current one."""
        waiting = (run for run in self.runs.values() if run.is_busy and not run.is_live)
        run = next(waiting, self.run)
        self.current = run.id if run is not None else None
        return run

    def is_newest(self, event: NewestEvent) -> bool:
        """Whether no event of its kind was sent after this one."""
        return self.newest.setdefault(type(event), Newest()).admits(event.sent_at)

    def state(self, kind: type[State]) -> State:
        """The session's one state or job of a kind; new at its first use."""
        if kind not in self.states:
            self.states[kind] = kind()
        return self.states[kind]

    def add(
        self,
        task: Task,
        recipe: Recipe,
        seed: int,
        own_probe: Probe | None = None,
        *,
        keep: Collection[str] = (),
    ) -> TrainingJob:
        """A new run, shown at once; the oldest makes room for it where many are kept, none of `keep`."""
        self.begun += 1
        removed = ""
        most = limits_here().runs
        if len(self.runs) >= most:
            oldest = next(run for run in self.runs.values() if not run.is_live and run.id not in keep)
            self.forget(oldest.id)
            removed = f"{oldest.name} was deleted to make room: {most} runs are kept."
        name = f"{task.name} {self.begun}"
        run = TrainingJob(
            f"run-{self.begun}", name, task, recipe, seed, self.device, own_probe, pace=self.pace
        )
        run.measure_baseline, run.made_room = self.measure_beside, removed
        self.runs[run.id] = run
        self.shown = self.current = run.id
        return run

    def show(self, run_id: str | None) -> None:
        """Put a run on the board; the buttons control it too, unless another run is live."""
        if run_id not in self.runs:
            return
        self.shown = run_id
        if self.run is None or not self.run.is_live:
            self.current = run_id

    def forget(self, run_id: str) -> None:
        run = self.runs.pop(run_id, None)
        if run is not None:
            run.close()
        newest = next(reversed(self.runs), None)
        if self.shown == run_id:
            self.shown = newest
        if self.current == run_id:
            self.current = newest

    def add_again(self, run: TrainingJob, *, other_seed: bool = False) -> TrainingJob:
        """Add a copy of a run with the same seed, or with the next seed that no such run has."""
        like = [one.seed for one in self.runs.values() if (one.task, one.recipe) == (run.task, run.recipe)]
        seed = (max(like, default=run.seed) + 1) % (LARGEST_SEED + 1) if other_seed else run.seed
        return self.add(run.task, run.recipe, seed, run.own_probe)

    def rename(self, run_id: str, text: str) -> None:
        """Give a run another name; ValueError where it is empty, too long, or another run's."""
        visible = "".join(letter for letter in text if unicodedata.category(letter) not in UNSEEN)
        name = " ".join(visible.split())
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
        """The baseline of a task, measured once a session; None where there is none, or no scikit-learn."""
        if task not in self.baselines:
            try:
                self.baselines[task] = measure_beside(task)
            except MissingPackageError:
                self.baselines[task] = None
        return self.baselines[task]

    def new_folder(self, name: str) -> Path:
        if self.folder is None:
            self.folder = tempfile.mkdtemp(prefix=f"{SESSION}-", dir=own_folder())
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder)) / name

    def take(self, uploaded: str | None, columns: tuple[str, ...]) -> None:
        """Keep an uploaded table in place of the last one (None removes it); runs on that one go on."""
        self.table = None
        if uploaded is None:
            return
        path = Path(uploaded)
        try:
            self.make_room(path.stat().st_size)
            self.table = take_table(path, self.new_folder(TABLE), columns)
        except ValueError as error:
            self.table = Table(path, path.name, fault=str(error))
        except FileNotFoundError:  # it waited too long
            self.table = Table(path, path.name, fault=f"{path.name} is gone: upload it again.")

    def make_room(self, size: int) -> None:
        """Delete the tables that no run learned; ValueError where another of this size is still too much."""
        limits_here().refuse_more("upload_bytes", size)
        used = {Path(str(run.task.options.get("path") or "")).parents for run in self.runs.values()}
        folders = [] if self.folder is None else list(Path(self.folder).glob(f"{TABLE}-*"))
        kept = [folder for folder in folders if any(folder in parents for parents in used)]
        for folder in folders:
            if folder not in kept:
                shutil.rmtree(folder, ignore_errors=True)
        limits_here().refuse_more("visitor_bytes", count_bytes(kept) + size)

    def take_over(self, other: "Session") -> None:
        """Take everything from the session that this visitor's page left; that one is empty then."""
        other.interrupt()
        for name in TAKEN_OVER:
            setattr(self, name, getattr(other, name))
        self.states |= {kind: one for kind, one in other.states.items() if isinstance(one, Job)}
        other.runs, other.states, other.shown, other.current = {}, {}, None, None
        other.folder, other.table, other.pulled = None, None, {}

    def interrupt(self) -> None:
        """Stop all jobs because their page is left; runs go on when it comes back."""
        found = [(run, run.wants_pause) for run in self.runs.values() if run.is_busy]
        self.interrupted = found or self.interrupted
        self.stop()

    def stop(self) -> None:
        """Stop all jobs; what they did is kept, and runs can go on."""
        for job in self.jobs:
            job.stop()

    def close(self) -> None:
        """The page was closed: stop its runs; the session stays a while in case the page comes back."""
        self.is_over = True
        self.interrupt()
        if self.when_closed is None:
            self.empty()
        else:
            self.when_closed()

    def empty(self) -> None:
        for job in self.jobs:
            job.close()
        self.runs, self.states, self.shown, self.current = {}, {}, None, None
        self.table = None
        self.pulled = {}
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None
