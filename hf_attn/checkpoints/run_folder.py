"""The folder of a training run: its settings, state and reports.

    OUT/run.json          task, recipe, seed: enough to begin again
    OUT/training_state/   weights, optimizer, generators, step: enough to go on
    OUT/reports.jsonl     one report a line

At the end the checkpoint folder takes OUT's place.
"""

import contextlib
import dataclasses
import json
import math
import os
import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from accelerate import Accelerator
from filelock import AcquireReturnProxy, FileLock, Timeout
from transformers import PreTrainedModel

from hf_attn.architectures.settings import apply_settings
from hf_attn.checkpoints.save_load import save_checkpoint
from hf_attn.checkpoints.training_record import build_training_record
from hf_attn.checkpoints.validate import CHECKPOINT, LARGEST_JSON, RUN
from hf_attn.evaluation.baselines import Baseline
from hf_attn.evaluation.metrics import Evaluation, evaluate
from hf_attn.models.config_checks import bounded, check_bounds
from hf_attn.tasks import TASKS, Recipe, Task, build_task
from hf_attn.training.device import describe_device
from hf_attn.training.loop import Report, train
from hf_attn.utils.atomic_write import FolderKind, check_target, clear_leftovers, refuse_others, write_file
from hf_attn.utils.folder_files import list_files, read_file

STATE, REPORTS, LOCK = "training_state", "reports.jsonl", ".lock"
# a folder whose place the checkpoint takes; an earlier one may be in it until then
UNFINISHED = FolderKind(
    "run of hf_attn",
    (RUN,),
    lambda name: CHECKPOINT.is_part(name) or name.partition("/")[0] in (RUN, STATE, REPORTS, LOCK),
)
LARGEST_REPORTS = 500_000_000  # bytes: a million lines have 250 million


@dataclass(frozen=True)
class Run:
    """The settings of a training run.

    It stops at the validation accuracy `until`; None takes every step. The device is "auto", "cpu", "cuda" or
    "mps"; `threads` are torch's on the processor.
    """

    task: Task
    recipe: Recipe
    seed: int = bounded(0, 0, 2**63 - 1)
    until: float | None = bounded(None, 0.0, 1.0)
    device: str = "auto"
    threads: int = bounded(1, 1, 1_024)

    def __post_init__(self) -> None:
        check_bounds(self)

    def is_over(self, report: Report) -> bool:
        """Whether a report is the run's last: no step is left, or the accuracy is reached."""
        if report.step == report.steps:
            return True
        is_fresh = report.measured_at == report.step
        return self.until is not None and is_fresh and report.validation_exact_match >= self.until


def report_row(report: Report) -> dict:
    """The figures of a report as JSON can hold them: null where there is no number, or none was measured."""
    names = (
        "step",
        "steps",
        "loss",
        "learning_rate",
        "tokens_per_second",
        "seconds",
        "validation_exact_match",
        "validation_examples",
    )
    row = {name: getattr(report, name) for name in names}
    if report.measured_at != report.step:
        row |= {"validation_exact_match": math.nan, "validation_examples": math.nan}
    return {name: value if math.isfinite(value) else None for name, value in row.items()}


def check_output(directory: Path) -> None:
    """Refuse an output folder that a new run must not replace, for an unfinished run or other files in it."""
    _tidy(directory)
    if (directory / RUN).exists():
        raise ValueError(
            f"--output-dir {directory} holds a run that is not finished: go on with --resume {directory}, "
            "or delete the folder."
        )
    if not (directory.is_dir() and os.listdir(directory) == [LOCK]):  # of a run that was killed at its start
        refuse_others(directory, CHECKPOINT)


def _tidy(directory: Path) -> None:
    """Look whether a run's folder can be written, and remove what killed processes left in it."""
    directory = check_target(directory)
    clear_leftovers(directory)
    clear_leftovers(directory / STATE)


def is_finished(directory: Path) -> bool:
    """Whether the folder is a whole checkpoint of ours, with no run under way."""
    is_whole = all((directory / name).is_file() for name in CHECKPOINT.needed)
    return is_whole and not (directory / RUN).exists()


def save_run(directory: Path, run: Run) -> None:
    """Start a run's folder with its settings."""
    directory.mkdir(parents=True, exist_ok=True)
    content = {
        "task": {"name": run.task.name, "options": run.task.options},
        "recipe": dataclasses.asdict(run.recipe),
        **{name: getattr(run, name) for name in ("seed", "until", "device", "threads")},
    }
    write_file(directory / RUN, json.dumps(content, indent=2).encode("utf-8"))


def load_run(directory: Path, own_task: type[Task] | None = None) -> Run:
    """Read the settings of the run in a folder; `own_task` is its task where it is none of TASKS.

    Raises:
        ValueError: there is no unfinished run, run.json cannot be read, or its task is not known.
    """
    _tidy(directory)
    if not directory.is_dir():
        raise ValueError(f"--resume {directory}: there is no such folder.")
    if is_finished(directory):
        raise ValueError(f"--resume {directory}: that run is finished; train again with --output-dir.")
    if not (directory / RUN).exists():
        raise ValueError(f"--resume {directory}: there is no {RUN} in it, so no run can go on there.")
    try:
        check_run_files(directory)
        content = json.loads(read_file(directory, RUN, LARGEST_JSON).decode("utf-8"))
        recipe = {**content["recipe"], "betas": tuple(content["recipe"]["betas"])}
        name = content["task"]["name"]
        task = TASKS.get(name, own_task)
        if task is None or task.name != name:
            raise ValueError(f"its task {name!r} is from your own file: hf-attn train FILE.py --resume …")
        return Run(
            build_task(task, **content["task"]["options"]),
            Recipe(**recipe),
            **{name: content[name] for name in ("seed", "until", "device", "threads")},
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"--resume {directory}: {RUN} cannot be read ({error}).") from error


def check_run_files(directory: Path) -> None:
    """Refuse links or devices in the place of a run's files, which a run reads and writes."""
    list_files(directory, (RUN, STATE, REPORTS, LOCK).__contains__)


def load_reports(directory: Path) -> list[dict]:
    """The run's reports in the order of steps; of a step that was reported twice, the later one."""
    rows: dict[int, dict] = {}
    # a killed process may leave half a line
    for line in read_file(directory, REPORTS, LARGEST_REPORTS).decode("utf-8").splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
            row = json.loads(line)
            rows[row["step"]] = row
    return [rows[step] for step in sorted(rows)]


def train_run(
    run: Run,
    model: PreTrainedModel,
    accelerator: Accelerator,
    directory: Path | None = None,
    save_every_seconds: float = 30.0,
    report_every_step: threading.Event | None = None,
) -> Generator[Report]:
    """Train, and write the run's folder. Close the generator to stop; another call resumes there.

    Without a directory nothing is written. The state is saved every so many seconds; once `report_every_step`
    is set, every step is reported.
    """
    own = directory if accelerator.is_main_process else None  # which this process writes
    loop = train(
        run.task,
        model,
        run.recipe,
        generator=torch.Generator().manual_seed(run.seed),
        until=run.until,
        state_dir=None if directory is None else directory / STATE,
        save_every_seconds=save_every_seconds,
        accelerator=accelerator,
        report_every_step=report_every_step,
    )
    with contextlib.closing(loop), _lock(own) if own else contextlib.nullcontext():
        if own:
            save_run(own, run)
        for report in loop:
            if own:
                with (own / REPORTS).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(report_row(report)) + "\n")
            yield report


def _lock(directory: Path) -> AcquireReturnProxy:
    directory.mkdir(parents=True, exist_ok=True)
    check_run_files(directory)
    try:
        return FileLock(directory / LOCK).acquire(timeout=0)
    except Timeout as error:
        raise BlockingIOError(f"Another process is training in {directory}: stop it first.") from error


def finish_run(
    run: Run,
    model: PreTrainedModel,
    accelerator: Accelerator,
    directory: Path,
    baseline: Baseline | None = None,
) -> Evaluation:
    """Measure the model on held-out examples, and replace the run's folder by the checkpoint.

    ValueError where the folder holds anything else; the run stays as it is, and can be resumed.
    """
    refuse_others(directory, UNFINISHED)
    evaluation = evaluate(model, run.task)
    record = build_training_record(
        run.task,
        run.recipe,
        evaluation,
        seed=run.seed,
        until=run.until,
        reports=load_reports(directory),
        device=describe_device(accelerator),
        threads=run.threads,
        baseline=baseline,
    )
    save_checkpoint(directory, model, run.task, record, replaces=UNFINISHED)
    return evaluation


def refuse_changes(
    run: Run,
    resume: Path,
    task: str | None,
    model: str | None,
    settings: Mapping,
    seed: int | None,
    attention: str | None = None,
) -> None:
    """Refuse options beside --resume that differ from the run's own."""
    settings = dict(settings)
    same = {
        "TASK": task in (None, run.task.name),
        "--model": model in (None, run.recipe.architecture),
        "--attention": attention in (None, run.recipe.model.get("attention_type")),
        "--seed": seed in (None, run.seed),
        "--steps": settings.pop("steps", run.recipe.steps) == run.recipe.steps,
    }
    if settings:
        steps = {"steps": run.recipe.steps}
        chosen = apply_settings(type(run.task), {**settings, **steps}, run.recipe.architecture)
        same["--set"] = chosen == (run.task, run.recipe)
    if other := [name for name, is_same in same.items() if not is_same]:
        raise ValueError(
            f"{other[0]} is not that of the run in {resume}; leave it out to go on with that run."
        )
