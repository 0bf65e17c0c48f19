"""The one training loop."""

import contextlib
import json
import math
import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list
from transformers import PreTrainedModel

from hf_attn.architectures.memory import check_training, count_weights
from hf_attn.architectures.optimizers import OPTIMIZERS, check_optimizer
from hf_attn.evaluation.metrics import measure_quickly
from hf_attn.generation.decoders import is_decoder_only
from hf_attn.interpret.attention_maps import AttentionMaps, attention_maps
from hf_attn.tasks.base import Task
from hf_attn.tasks.batch import IGNORED, Batch, pad_inputs
from hf_attn.tasks.recipes import Recipe
from hf_attn.training.failures import Diverged, is_device_failure, naming_device_failures
from hf_attn.training.step_graph import StepGraph, can_record
from hf_attn.utils.atomic_write import FolderKind, atomic_directory
from hf_attn.utils.folder_files import list_files, read_file
from hf_attn.utils.text import shorten

VALIDATION_SAMPLE = 200  # validation examples that a report is measured on
CONFIRMING_SAMPLE = 1000  # those that confirm a report which says that the goal is reached
PROGRESS = "progress.json"  # in a state's folder
STATE_FOLDER = FolderKind("state of a run", (PROGRESS,), lambda name: "/" not in name)
LARGEST_PROGRESS = 50_000_000  # bytes


@dataclass(frozen=True)
class Report:
    """How a run stands.

    Attributes:
        step: optimizer steps taken.
        steps: steps in all.
        loss: mean over the steps since the last report; NaN before the first step.
        learning_rate: of the last step.
        tokens_per_second: source and target tokens, over the time spent on steps.
        seconds: spent on steps since the start, over all resumptions; measuring is not counted.
        validation_exact_match: the newest measurement, on validation examples: the share written right as a
            whole, greedily; of classes named right; or, for text, of next tokens guessed.
        validation_examples: how many examples that was measured on.
        measured_at: the step of that measurement.
        maps: the probe's attention, where a probe was given.
        is_wanted: `report_every_step` was set when the step was taken, in any of several processes.
    """

    step: int
    steps: int
    loss: float
    learning_rate: float
    tokens_per_second: float
    seconds: float
    validation_exact_match: float
    validation_examples: int
    measured_at: int
    maps: AttentionMaps | None = None
    is_wanted: bool = False


class RunState:
    """What a run must know to go on, besides weights and optimizer."""

    def __init__(self, generator: torch.Generator):
        self.generator = generator
        self.step = 0
        self.seconds = 0.0
        self.tokens = 0
        self.validation = (0.0, 0, 0)  # share, examples, step

    def state_dict(self) -> dict:
        """What is saved."""
        kept = {name: getattr(self, name) for name in ("step", "seconds", "tokens", "validation")}
        return {**kept, "generator": self.generator.get_state().tolist()}

    def load_state_dict(self, state: dict) -> None:
        """Go on from what was saved."""
        self.generator.set_state(torch.tensor(state["generator"], dtype=torch.uint8))
        for name in ("step", "seconds", "tokens", "validation"):
            setattr(self, name, state[name])

    def measure(self, model: PreTrainedModel, task: Task, until: float | None) -> None:
        """Measure on validation examples; where that reaches `until`, confirm it on more of them."""
        validation = task.validation(VALIDATION_SAMPLE)
        exact = measure_quickly(model, task, validation)
        if until is not None and exact >= until:
            validation = task.validation(CONFIRMING_SAMPLE)
            exact = measure_quickly(model, task, validation)
        self.validation = (exact, len(validation), self.step)

    def report(
        self,
        model: PreTrainedModel,
        recipe: Recipe,
        loss: float,
        probe: Batch | None,
        is_wanted: bool = False,
    ) -> Report:
        """Say how the run stands."""
        return Report(
            self.step,
            recipe.steps,
            loss,
            learning_rate_at(max(0, self.step - 1), recipe),
            self.tokens / self.seconds if self.seconds else 0.0,
            self.seconds,
            *self.validation,
            attention_maps(model, probe) if probe is not None else None,
            is_wanted,
        )


def learning_rate_at(step: int, recipe: Recipe) -> float:
    """Rise over the warm-up, stay, fall to 0 over the last part: a trapezoid; the first step is 0."""
    rise = min(1.0, (step + 1) / max(1, recipe.warmup_steps))
    falling = recipe.steps * recipe.decay_fraction
    fall = min(1.0, (recipe.steps - step) / falling) if falling else 1.0
    return recipe.learning_rate * rise * fall


def share_of_batch(recipe: Recipe, accelerator: Accelerator) -> int:
    """How many of a batch's examples each process gets; ValueError where they cannot be shared evenly."""
    share, rest = divmod(recipe.batch_size, accelerator.num_processes)
    if rest:
        raise ValueError(
            f"batch_size={recipe.batch_size} cannot be shared out evenly over {accelerator.num_processes} "
            "processes: choose a multiple."
        )
    return share


def teacher_forcing_at(step: int, recipe: Recipe) -> float:
    """The share of target tokens that are given in training: from 1 in a straight line to the recipe's."""
    return 1 - (1 - recipe.teacher_forcing) * step / max(1, recipe.steps - 1)


def learning_inputs(model: PreTrainedModel, batch: Batch, teacher_forcing: float = 1.0) -> dict:
    """What `model(**…)` takes to learn from a batch; a decoder-only model reads the target behind the source.

    `teacher_forcing` is the share of target tokens that are given: only recurrent decoders take less than 1.
    """
    if teacher_forcing < 1:
        return {**batch.inputs(), "teacher_forcing_ratio": teacher_forcing}
    return batch.joined() if is_decoder_only(model) else batch.inputs()


def build_optimizer(model: torch.nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """The recipe's optimizer; ValueError where it sets what that does not use."""
    check_optimizer(recipe)
    return OPTIMIZERS[recipe.optimizer].build(model, recipe)


class Learner:
    """A model, its optimizer and this process's share of every batch."""

    def __init__(self, task: Task, model: PreTrainedModel, recipe: Recipe, accelerator: Accelerator):
        share = share_of_batch(recipe, accelerator)
        self.bare, self.recipe, self.accelerator = model, recipe, accelerator
        self.model, self.optimizer = accelerator.prepare(model, build_optimizer(model, recipe))
        self.mine = slice(accelerator.process_index * share, (accelerator.process_index + 1) * share)
        self.loss_sum, self.loss_steps = torch.zeros((), device=accelerator.device), 0
        source, target = task.max_source_tokens, task.max_target_tokens
        # ids and labels of a row, as a graph's inputs are padded
        self.widths = (source + target,) * 2 if is_decoder_only(model) else (source, target)
        self.graph: StepGraph | None = None  # of a step, on a GPU
        if can_record(model, self.optimizer, share * (source + target), accelerator):
            self.graph = StepGraph(accelerator.device)

    def learn(self, whole: Batch, step: int) -> None:
        """Take a step on a batch, of which this process computes its share."""
        self.model.train()
        batch, rate = whole[self.mine], learning_rate_at(step, self.recipe)
        labels = int((whole.labels != IGNORED).sum()) / self.accelerator.num_processes
        if self.graph is not None:
            inputs = pad_inputs(learning_inputs(self.bare, batch), *self.widths)
            numbers = {"rate": torch.tensor(rate), "labels_a_process": torch.tensor(labels)}
            self.graph.run(self.take_step, inputs | numbers)
        else:
            batch = batch.to(self.accelerator.device)
            inputs = learning_inputs(self.bare, batch, teacher_forcing_at(step, self.recipe))
            self.take_step(rate, labels, **inputs)
        self.loss_steps += 1

    def take_step(self, rate, labels_a_process, **inputs) -> None:
        """Learn from inputs on the device; a graph of this computes with tensors in place of both numbers."""
        self.optimizer.zero_grad()  # first, as a step that failed has left some
        for group in self.optimizer.param_groups:
            group.update(lr=rate, capturable=self.graph is not None)
        loss = self.model(**inputs, num_items_in_batch=labels_a_process).loss
        self.accelerator.backward(loss)
        if self.recipe.max_grad_norm:
            self.accelerator.clip_grad_norm_(self.model.parameters(), self.recipe.max_grad_norm)
        self.optimizer.step()
        self.loss_sum += loss.detach()

    def take_loss(self, step: int) -> float:
        """The mean loss since this was last asked; Diverged where it is no finite number."""
        mean = float(self.accelerator.reduce(self.loss_sum, "mean")) / self.loss_steps
        if not math.isfinite(mean):
            raise Diverged(
                f"The loss is {mean} at step {step}: training has diverged. "
                f"Choose a lower learning rate than {self.recipe.learning_rate}."
            )
        self.loss_sum.zero_()  # a graph adds to this tensor
        self.loss_steps = 0
        return mean


def train(
    task: Task,
    model: PreTrainedModel,
    recipe: Recipe | None = None,
    *,
    generator: torch.Generator | None = None,
    until: float | None = None,
    probe: Batch | None = None,
    state_dir: str | Path | None = None,
    save_every_seconds: float = 5.0,
    accelerator: Accelerator | None = None,
    report_every_step: threading.Event | None = None,
) -> Generator[Report]:
    """Teach a model a task, reporting as it goes; close the generator to stop, and what was learned stays.

    Args:
        task: gives training examples, and validation ones to measure on; held-out ones are not touched.
        model: is changed in place.
        recipe: settings; the task's own where None.
        generator: draws the examples; seed 0 where None.
        until: stop once this share of validation examples is written right as a whole; a first sign on
            VALIDATION_SAMPLE examples must be confirmed on CONFIRMING_SAMPLE.
        probe: examples whose attention every report shows.
        state_dir: where the run's state is kept, so that a stopped or killed run goes on from there to the
            same weights as an unbroken one. Resumes if the folder exists.
        save_every_seconds: how often the state is saved on the way.
        accelerator: device and processes; a batch is shared out over the processes.
        report_every_step: once set, every step is reported, so that whoever wants to stop need not wait long;
            of several processes, which must stop at the same step, only those that are reported anyway.

    Dropout draws from torch's global generator: seed it too (`torch.manual_seed`) where a recipe has dropout.

    Yields:
        A report before the first step, then every `recipe.report_every` steps, at each measurement, and after
        the last step.

    Raises:
        OSError: the state cannot be read.
        ValueError: the batch cannot be shared out evenly over the processes, or does not fit in the memory.
        Diverged: the loss is no finite number; nothing of that step is saved.
        DeviceFailed: the device's memory is full, or it does not answer.
    """
    recipe = recipe or task.recipe
    accelerator = accelerator or Accelerator()
    check_training(
        count_weights(model),
        model.config,
        share_of_batch(recipe, accelerator),
        task,
        recipe.optimizer,
        device=accelerator.device,
    )
    progress = RunState(generator or torch.Generator().manual_seed(0))
    with naming_device_failures(accelerator.device, progress.step + 1, recipe):
        learner = Learner(task, model, recipe, accelerator)
        if state_dir is not None and Path(state_dir).exists():
            load_state(accelerator, progress, state_dir)
    if progress.step in (0, recipe.steps):  # also where a run is resumed after its last step
        with naming_device_failures(accelerator.device, progress.step, recipe):
            progress.measure(model, task, until)
            latest = progress.report(model, recipe, float("nan"), probe)
        yield latest
    saved_at = time.monotonic()
    while progress.step < recipe.steps:
        with naming_device_failures(accelerator.device, progress.step + 1, recipe):
            started = time.perf_counter()
            whole = task.sample(progress.generator, recipe.batch_size)
            learner.learn(whole, progress.step)
            progress.step += 1
            progress.tokens += whole.input_ids.numel() + whole.labels.numel()
            is_last = progress.step == recipe.steps
            is_measured = is_last or progress.step % recipe.evaluate_every == 0
            is_wanted = report_every_step is not None and report_every_step.is_set()
            is_reported = is_measured or progress.step % recipe.report_every == 0
            is_reported |= is_wanted and accelerator.num_processes == 1
            loss = learner.take_loss(progress.step) if is_reported else math.nan  # a GPU is waited for
            progress.seconds += time.perf_counter() - started
            if not is_reported:
                continue
            is_due = is_last or time.monotonic() - saved_at > save_every_seconds
            is_wanted, is_due = agree(accelerator, is_wanted, is_due)
            if is_measured:
                progress.measure(model, task, until)
            latest = progress.report(model, recipe, loss, probe, is_wanted)
            if state_dir is not None and is_due:
                save_state(accelerator, progress, state_dir)
                saved_at = time.monotonic()
        try:
            yield latest
        except GeneratorExit:
            if state_dir is not None:
                save_state(accelerator, progress, state_dir)
            raise
        if until is not None and is_measured and latest.validation_exact_match >= until:
            break


def agree(accelerator: Accelerator, *flags: bool) -> tuple[bool, ...]:
    """Whether any process says so, of each flag: what all must do at the same step is asked of all."""
    if accelerator.num_processes == 1:
        return flags
    votes = torch.tensor(flags, dtype=torch.float32, device=accelerator.device)
    return tuple(bool(vote) for vote in accelerator.reduce(votes, "sum").tolist())


@contextlib.contextmanager
def storing_apart(accelerator: Accelerator) -> Iterator[None]:
    """Meanwhile every weight of recurrent cells is stored by itself, as safetensors wants it.

    On a GPU all weights of such cells lie in one storage, as cuDNN wants them: accelerate takes them for one
    weight of many names, and would save the first alone.
    """
    models = accelerator._models
    cells = [part for one in models for part in one.modules() if isinstance(part, torch.nn.RNNBase)]
    for weight in (weight for part in cells for weight in part.parameters()):
        weight.data = weight.data.clone()
    try:
        yield
    finally:
        for part in cells:
            part.flatten_parameters()


def load_state(accelerator: Accelerator, progress: RunState, state_dir: str | Path) -> None:
    """Go on from a saved state; OSError where the folder lacks something or cannot be read."""
    try:
        list_files(state_dir, lambda name: True)  # noqa: ARG005 – accelerate opens whatever it finds there
        state = json.loads(read_file(state_dir, PROGRESS, LARGEST_PROGRESS).decode("utf-8"))
        with storing_apart(accelerator):
            accelerator.load_state(str(state_dir))
        progress.load_state_dict(state)
    except Exception as error:  # whatever torch, safetensors or json make of a damaged file
        if is_device_failure(error):
            raise
        raise OSError(
            f"The run's state in {state_dir} cannot be read ({shorten(error)}). Begin the run again."
        ) from error


def save_state(accelerator: Accelerator, progress: RunState, state_dir: str | Path) -> None:
    """Put a run's state into a folder, whole or not at all; every process takes part."""
    with contextlib.ExitStack() as stack:
        folder: list[str | None] = [None]
        if accelerator.is_main_process:
            folder[0] = str(stack.enter_context(atomic_directory(state_dir, STATE_FOLDER)))
        broadcast_object_list(folder)
        with storing_apart(accelerator):
            accelerator.save_state(folder[0])
        if folder[0] is not None and accelerator.is_main_process:
            text = json.dumps(progress.state_dict())
            (Path(folder[0]) / PROGRESS).write_text(text, encoding="utf-8")
        accelerator.wait_for_everyone()
