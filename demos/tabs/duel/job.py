"""A visitor's duel: the runs that learn in turns, and what the duel board shows of them."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from hf_attn.architectures.registry import find_architecture
from hf_attn.evaluation.baselines import Baseline, measure_beside
from hf_attn.evaluation.metrics import Score, find_right, score_answers
from hf_attn.tasks import Recipe, Task
from hf_attn.tasks.batch import PAD
from hf_attn.training.duel import Budget, count_parameters, next_in_turn, plan_duel, pool_sizes
from hf_attn.training.failures import RunFailed
from hf_attn.training.loop import VALIDATION_SAMPLE

from ...jobs.job import FAILED, RUNNING, Job
from ...jobs.probe import Examples, Probe, take_row
from ...jobs.training_job import LONGEST_PROBE, TrainingJob
from ...ui.boards import describe_baseline, describe_held_out
from ...ui.formatting import shorten

PROBE_TOKENS = 13  # about: three maps of that size stand side by side
SIZE_GROUPS = 8  # of the accuracy by size
TOO_EARLY = 0.03  # of a budget: first steps are slow


@dataclass(eq=False)
class DuelJob(Job):
    """Two to four runs on one task, each with the same budget; empty before the first."""

    number: int = 0  # which duel of this visitor; 0 before the first
    runs: list[TrainingJob] = field(default_factory=list)  # that learn in turns
    parameters: dict[str, int] = field(default_factory=dict)  # of each run's model, by the run's id
    seconds: dict[str, float] = field(default_factory=dict)  # that each run has spent on steps
    budget: Budget | None = None  # what each run may spend
    # of each run's last measurement, how its validation answers of each size score; until it is measured
    sizes: dict[str, dict[int, Score]] = field(default_factory=dict)
    baseline: Baseline | None = None  # what stands beside classifiers, once all are measured
    measure_baseline: Callable[[Task], Baseline | None] = measure_beside  # measures it, once a session

    message_seconds = 0.3  # each draws the map of every contestant
    failure = "The duel failed"

    def configure(
        self, form: dict, task: Task, contestants: dict[str, Recipe], budget: Budget, seed: int, device: str
    ) -> None:
        """Take the place of the last duel; nothing is computed yet."""
        self.prepare(form)
        self.number += 1
        examples, probe = choose_probe(task)
        runs = []
        for place, (name, recipe) in enumerate(contestants.items()):
            title = f"{task.name} {name} {self.number}"
            run = TrainingJob(f"duel-{self.number}-{place + 1}", title, task, recipe, seed, device)
            run.examples, run.probe = examples, probe
            runs.append(run)
        counts = {run.id: count_parameters(task, run.recipe) for run in runs}
        # all at once: whoever follows the last duel may show it meanwhile
        self.budget, self.baseline, self.seconds, self.sizes = budget, None, {}, {}
        self.runs, self.parameters = runs, counts

    def begin(self) -> None:
        """Fit the recipes to the budget, so that Stop waits for one step; `advance` builds the models."""
        planned = plan_duel(self.runs[0].task, {run.id: run.recipe for run in self.runs}, self.budget)
        for run in self.runs:
            run.recipe = dataclasses.replace(planned[run.id], report_every=1)
            run.is_live = True

    def advance(self) -> bool:
        """Build the next model, or let the run take a step that has used the least of its budget."""
        unbuilt = next((run for run in self.runs if run.model is None), None)
        if unbuilt is not None:
            unbuilt.begin()
            unbuilt.catch_up()
            return True
        run = next_in_turn({run: self.reached(run) for run in self.runs})
        if run is None:
            return False
        try:
            run.advance()
            self.seconds[run.id] = run.seconds
            run.catch_up()
            if run.points[-1][1]["validation"] is not None:  # it was just measured
                self.sizes[run.id] = score_sizes(run)
        except RunFailed as error:  # the others go on
            run.fail(error)
        if self.goal is not None:
            return any(run.status != FAILED and run.step < run.recipe.steps for run in self.runs)
        return any(self.spent(run) < 1 for run in self.runs)

    def prepare_message(self) -> None:
        for run in self.runs:
            run.prepare_message()

    def release(self) -> None:
        """The runs stand as the duel does, and can be kept."""
        for run in self.runs:
            run.is_live = False
            run.status = self.status if run.status == RUNNING else run.status

    def conclude(self) -> Iterator[None]:
        """Measure each run on 1,000 held-out examples."""
        number = self.number
        for run in list(self.runs):
            if self.number != number:  # another duel has begun
                return
            if run.step and run.status != FAILED and run.evaluation is None:
                run.measure()
                yield
        if self.number == number and self.is_measured:
            self.baseline = self.measure_baseline(self.runs[0].task)
            yield

    def find(self, run_id: str) -> TrainingJob | None:
        return next((run for run in self.runs if run.id == run_id), None)

    @property
    def progress(self) -> list[int]:
        """The step of each run; a failed run has all of them, so that it fails again for a link."""
        return [run.recipe.steps if run.status == FAILED else run.step for run in self.runs]

    @property
    def seconds_allowed(self) -> float:
        return super().seconds_allowed * len(self.runs)

    def spent(self, run: TrainingJob) -> float:
        """The share of its budget that a run has used; 1 if it failed."""
        if run.status == FAILED or (run.step and run.step == run.recipe.steps):
            return 1.0
        return min(1.0, self.budget.spent(run.step, self.seconds.get(run.id, 0.0)))

    def reached(self, run: TrainingJob) -> float:
        """The share of its goal that a run has reached: of its budget, or of a link's steps."""
        if self.goal is None or run.status == FAILED or run.step == run.recipe.steps:
            return self.spent(run)
        goal = self.goal[self.runs.index(run)]
        return min(1.0, run.step / goal) if goal else 1.0

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

    def to_message(self, kept: set[str]) -> dict | None:
        """The whole value of the duel board; `kept` has the ids of runs that the visitor has kept."""
        runs, counts = self.runs, self.parameters
        if not runs:
            return None
        task, probe = runs[0].task, runs[0].probe
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
                    **describe_contestant(run, self.sizes.get(run.id, {})),
                    "parameters": counts[run.id],
                    "seconds": self.seconds.get(run.id, 0.0),
                    "spent": self.spent(run),
                    "kept": run.id in kept,
                }
                for run in runs
            ],
        }


def choose_probe(task: Task) -> tuple[Examples, Probe]:
    """(examples to answer, the probe): one validation example of a good size for a map, as both."""
    batch = task.validation(VALIDATION_SAMPLE)
    rows = [[index for index in row if index != PAD] for row in batch.input_ids.tolist()]

    def unlike(place: int) -> int:
        repeated = len(rows[place]) - len(set(rows[place]))  # which of two equals is read cannot be seen
        return 2 * abs(len(rows[place]) - PROBE_TOKENS) + repeated

    place = min(range(len(rows)), key=unlike)
    source = task.read_source(rows[place])
    answer = task.decode(batch.labels.view(len(batch), -1)[place].tolist())
    examples = Examples(batch[place : place + 1], [source], [answer])
    return examples, Probe(take_row(batch, place), source, answer)


def score_sizes(run: TrainingJob) -> dict[int, Score]:
    """How the answers to validation examples of each size score, guessed in one pass."""
    batch = run.task.validation(VALIDATION_SAMPLE)
    device = next(run.model.parameters()).device
    right = find_right(run.model, run.task, batch.to(device)).tolist()
    found: dict[int, list[bool]] = {}
    for ids, is_right in zip(batch.input_ids.tolist(), right, strict=True):
        found.setdefault(run.task.size_of(run.task.read_source(ids)), []).append(is_right)
    return {size: score_answers(found[size]) for size in sorted(found)}


def describe_contestant(run: TrainingJob, sizes: dict[int, Score]) -> dict:
    points = measured_points(run)
    return {
        "id": run.id,
        "name": find_architecture(run.task, run.recipe.architecture).title,
        "model": run.recipe.architecture,
        "status": run.status,
        "message": run.message,
        "step": run.step,
        "steps": run.recipe.steps,
        "validation": run.validation,
        "held_out": describe_held_out(run.evaluation),
        "loss": points[-1]["loss"] if points else None,
        "points": points,
        "sizes": size_scores(run.evaluation.by_size if run.evaluation else sizes),
        "map": describe_map(run),
        "written": run.predictions[0] if run.predictions else None,
    }


def measured_points(run: TrainingJob) -> list[dict]:
    """The run at each measurement, with the mean loss since the one before."""
    points, losses = [], []
    for _, point in run.points:
        losses.append(point["loss"])
        if point["validation"] is not None:
            known = [loss for loss in losses if math.isfinite(loss)]
            loss = sum(known) / len(known) if known else None
            points.append({name: point[name] for name in ("step", "seconds", "validation")} | {"loss": loss})
            losses = []
    return points


def size_scores(by_size: Mapping[int, Score]) -> list[dict]:
    """Accuracy by size with its interval, neighbouring sizes pooled."""
    pooled = pool_sizes(by_size, SIZE_GROUPS) if by_size else {}
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
    if not run.film or not run.map.get("heads"):
        return None
    _, frame = run.film[-1]
    names = ("heads", "rows", "cols", "truth", "layer")
    source = run.probe.batch.input_ids.shape[1]  # a decoder's map goes on over the answer
    newest = {"maps": frame["maps"][-1], "step": frame["step"], "source": source}
    return {**newest, **{name: run.map[name] for name in names}}
