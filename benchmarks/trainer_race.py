"""Seconds of training to 99 % right: ours, beside Bart of the same size with transformers' Seq2SeqTrainer.

    python -m benchmarks.trainer_race [--seeds 3] [--tasks T …] [--threads N] [--quick]

Bart's learning rate, schedule, number of steps and dropout are searched first, on a seed that is not
reported: each choice may run until it is slower than the best before it. Ours and the best choice then take
turns, seed by seed. Both are judged as in `time_to_accuracy`, on validation examples.
"""

import dataclasses
import itertools
import tempfile
from collections.abc import Callable, Iterator
from time import perf_counter

import torch
from transformers import PrinterCallback, Seq2SeqTrainer, Seq2SeqTrainingArguments, TrainerCallback

from benchmarks.peers import DOCUMENT, DocumentSettings, build_bart
from benchmarks.report import build_arguments, environment, record, show
from benchmarks.time_to_accuracy import (
    MEASURE_EVERY,
    OURS,
    QUICK_EVERY,
    QUICK_LIMIT,
    TARGET,
    Measurement,
    Outcome,
    arm_row,
    cells,
    measure,
    measure_ours,
    race,
    race_arms,
    tell,
    warm_up,
)
from hf_attn.tasks import Batch, Task, build_task
from hf_attn.tasks.batch import PAD

TRAINER, SEARCH, GOAL = "Bart, Seq2SeqTrainer", "Bart, search", 3
SEARCH_SEED = 100
LIMIT = 1200.0  # seconds that a reported run of the Trainer may train
FIRST_LIMIT = 240.0  # seconds that the first choice of a search may train
DROPOUTS = (0.0, 0.1)  # the second is Bart's own
SCHEDULES = ("linear", "cosine", "constant_with_warmup")
RATES = {"copy": (1e-3, 3e-3, 6e-3), "parser": (1e-3, 2e-3, 4e-3), "addition": (3e-4, 6e-4, 1.2e-3)}
BART_EVERY = {"copy": 10, "parser": 5, "addition": 20}  # steps between two measurements
STEPS = {"copy": (200, 400, 800), "parser": (50, 100, 200), "addition": (400, 800)}


@dataclasses.dataclass(frozen=True)
class Choice:
    """What is searched. A constant rate hangs on no number of steps: it has as many as it takes."""

    steps: int
    learning_rate: float
    schedule: str
    dropout: float


def list_choices(name: str) -> Iterator[Choice]:
    """The grid, short runs first: what they take bounds the long ones."""
    for steps, dropout, schedule, rate in itertools.product(STEPS[name], DROPOUTS, SCHEDULES, RATES[name]):
        if schedule != "constant_with_warmup" or steps == max(STEPS[name]):
            yield Choice(steps, rate, schedule, dropout)


class Judge(TrainerCallback):
    """Measures every few steps, beside the clock, and stops the run at the target or the limit."""

    def __init__(self, task: Task, every: int, limit: float):
        self.task, self.every, self.limit = task, every, limit
        self.seconds, self.last = 0.0, None

    def on_train_begin(self, args, state, control, **kwargs) -> None:  # noqa: ARG002
        self.started = perf_counter()

    def on_step_end(self, args, state, control, model=None, **kwargs) -> None:  # noqa: ARG002
        if state.global_step % self.every and state.global_step < state.max_steps:
            return
        self.seconds += perf_counter() - self.started

        def write(batch: Batch) -> torch.Tensor:
            most = self.task.max_target_tokens
            with torch.inference_mode():
                ids = model.generate(
                    batch.input_ids, attention_mask=batch.attention_mask, max_new_tokens=most, do_sample=False
                )[:, 1:]
            return torch.nn.functional.pad(ids, (0, most - ids.shape[1]), value=PAD)

        model.eval()
        self.last = Measurement(state.global_step, self.seconds, measure(write, self.task), write)
        model.train()
        control.should_training_stop = self.last.exact_match >= TARGET or self.seconds >= self.limit
        self.started = perf_counter()


@dataclasses.dataclass(frozen=True)
class Batches:
    """As many batches as the Trainer takes steps, drawn as they are needed."""

    task: Task
    batch_size: int
    steps: int
    seed: int

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[dict]:
        generator = torch.Generator().manual_seed(self.seed)
        for _ in range(self.steps):
            yield {**self.task.sample(generator, self.batch_size).inputs(), "use_cache": False}


class SamplingTrainer(Seq2SeqTrainer):
    """Seq2SeqTrainer on whole batches, so that it waits for no collator."""

    def get_train_dataloader(self) -> Batches:
        return self.train_dataset


def train_bart(
    task: Task, settings: DocumentSettings, choice: Choice, seed: int, every: int, limit: float
) -> Outcome:
    """Train Bart by the Trainer until the target, the limit or the last step."""
    torch.manual_seed(seed)
    model = build_bart(task, settings, choice.dropout)
    judge = Judge(task, every, limit)
    with tempfile.TemporaryDirectory() as folder:
        arguments = Seq2SeqTrainingArguments(
            folder,
            max_steps=choice.steps,
            per_device_train_batch_size=settings.batch_size,
            learning_rate=choice.learning_rate,
            lr_scheduler_type=choice.schedule,
            warmup_steps=min(50, choice.steps // 10),
            optim="adamw_torch_fused",
            use_cpu=True,
            seed=seed,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        batches = Batches(task, settings.batch_size, choice.steps, seed)
        trainer = SamplingTrainer(model, arguments, train_dataset=batches, callbacks=[judge])
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return Outcome(judge.last.exact_match >= TARGET, judge.last)


def search(
    name: str, task: Task, every: int, choices: list[Choice], limit: float
) -> tuple[list[dict], Choice]:
    """A row for each choice, and that which came to the target first, or nearest to it."""
    rows = []
    for choice in choices:
        outcome = train_bart(task, DOCUMENT[name], choice, SEARCH_SEED, every, limit)
        tell(name, f"{SEARCH} {choice}", SEARCH_SEED, outcome)
        row = arm_row(name, SEARCH, [outcome]) | {"seeds": [SEARCH_SEED], "limit": limit}
        rows.append(row | {"choice": dataclasses.asdict(choice)})
        if outcome.reached:
            limit = min(limit, outcome.last.seconds)

    def merit(place: int) -> tuple[bool, float]:
        row = rows[place]
        is_there = row["reached"][0]
        return not is_there, row["median_seconds"] if is_there else -row["exact_match"][0]

    return rows, choices[min(range(len(rows)), key=merit)]


def compare(name: str, seeds: int, quick: bool) -> list[dict]:
    """The search's rows, then ours and the best choice's."""
    settings = DOCUMENT[name]
    task = build_task(name, **settings.task_options)
    ours_every, peer_every = QUICK_EVERY if quick else (MEASURE_EVERY[name][0], BART_EVERY[name])
    choices = list(list_choices(name))
    limit, longest = (QUICK_LIMIT, QUICK_LIMIT) if quick else (FIRST_LIMIT, LIMIT)
    recipe = task.recipes["document"]
    warm_up(task, recipe)
    rows, best = search(name, task, peer_every, choices[:2] if quick else choices, limit)
    arms: dict[str, Callable[[int], Outcome]] = {
        OURS: lambda seed: race(measure_ours(task, recipe, seed, ours_every)),
        TRAINER: lambda seed: train_bart(task, settings, best, seed, peer_every, longest),
    }
    ours, peer = race_arms(name, task, arms, seeds, longest, GOAL)
    return [*rows, ours, peer | {"choice": dataclasses.asdict(best)}]


def main() -> None:
    parser = build_arguments(__doc__.splitlines()[0].replace("%", "%%"), list(DOCUMENT))
    parser.add_argument("--seeds", type=int, default=3, help="runs of each arm (default: %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    around = {"script": "trainer_race", "quick": arguments.quick, **environment()}
    lines = []
    for name in ["parser"] if arguments.quick else arguments.tasks:
        measured = compare(name, 1 if arguments.quick else arguments.seeds, arguments.quick)
        record(arguments.output / "trainer_race.jsonl", measured, around)
        lines += [row for row in measured if row["arm"] != SEARCH]
    columns = ["task", "arm", "median s to 99 %", "range", "steps", "of ours", "held out", "wanted"]
    show("Seconds to 99 %, beside the Trainer", columns, [cells(line) for line in lines], around)


if __name__ == "__main__":
    main()
