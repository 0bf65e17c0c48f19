"""Training in slices: a function takes a run's whole state and returns it some steps later.

Where a run may not stay in one process (a Space with ZeroGPU lends its GPU to a worker for seconds), the
state travels as bytes: those that `training.train` keeps in a folder to go on from. So any number of slices
ends with the weights of an unbroken run.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import torch
from safetensors.torch import load
from transformers import PreTrainedModel

from hf_attn.architectures.registry import build_model
from hf_attn.tasks import Recipe, Task
from hf_attn.training.device import build_accelerator, describe_device
from hf_attn.training.failures import RunFailed
from hf_attn.training.loop import Report, train
from hf_attn.utils.atomic_write import scratch_directory

WEIGHTS = "model.safetensors"  # in a state's folder, by accelerate


@dataclass(frozen=True)
class SliceState:
    """A run between two slices; it can be pickled.

    Attributes:
        task, recipe, seed: what the run is made of.
        files: of the state's folder: name → bytes; none before the first slice.
        step: steps taken.
        reports: of the newest slice.
        device: what that slice was computed on, in words.
        fault: why no slice can follow, in a sentence.
    """

    task: Task
    recipe: Recipe
    seed: int
    files: dict[str, bytes] = field(default_factory=dict, repr=False)
    step: int = 0
    reports: tuple[Report, ...] = ()
    device: str = ""
    fault: str = ""

    @property
    def is_over(self) -> bool:
        """Whether all steps are taken, or a fault forbids more."""
        return bool(self.fault) or self.step >= self.recipe.steps


def train_slice(
    state: SliceState, steps: int | None = None, seconds: float = math.inf, device: str = "auto"
) -> SliceState:
    """Continue training from a state and return the new state; nothing else is changed.

    Args:
        state: where the run stands.
        steps: at most so many; as many as are left where None.
        seconds: begin no step later than this.
        device: "auto", "cpu", "cuda" or "mps".

    Dropout draws from torch's global generator, which this seeds and leaves where the slice ends.
    """
    until_step = state.recipe.steps if steps is None else min(state.recipe.steps, state.step + steps)
    until_time = time.monotonic() + seconds
    torch.manual_seed(state.seed)  # a later slice finds the generators' states among the files
    accelerator = build_accelerator(device)
    model = build_model(state.task, state.recipe, state.seed)
    reports, fault = [], ""
    with scratch_directory() as scratch:
        folder = scratch / "state"
        if state.files:
            folder.mkdir()
            for name, content in state.files.items():
                (folder / name).write_bytes(content)
        loop = train(
            state.task,
            model,
            replace(state.recipe, report_every=1),  # so that a slice may end at any step
            generator=torch.Generator().manual_seed(state.seed),
            state_dir=folder,
            save_every_seconds=math.inf,  # closing the loop saves
            accelerator=accelerator,
        )
        try:
            with contextlib.closing(loop):  # type: ignore[type-var]
                for report in loop:
                    reports.append(report)
                    if report.step >= until_step or (report.step and time.monotonic() >= until_time):
                        break
        except RunFailed as error:
            fault = str(error)
        files = {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else {}
    step = reports[-1].step if reports else state.step
    return replace(
        state,
        files=files,
        step=step,
        reports=tuple(reports),
        device=describe_device(accelerator),
        fault=fault,
    )


def train_in_slices(
    model: PreTrainedModel, state: SliceState, take_slice: Callable[[SliceState], SliceState]
) -> Iterator[SliceState]:
    """Train a local model by slices that are computed elsewhere.

    Args:
        model: takes the weights of each slice.
        state: where the run begins.
        take_slice: computes one, as `train_slice` does.

    Yields:
        The state after each slice.

    Raises:
        RunFailed: the loss is no finite number, or the device failed; the model keeps the weights of the
            slice before.
    """
    while not state.is_over:
        state = take_slice(state)
        if state.fault:
            raise RunFailed(state.fault)
        read_weights(model, state)
        yield state


def read_weights(model: PreTrainedModel, state: SliceState) -> None:
    """Load a state's weights into a model; tied weights are stored once."""
    missing, unknown = model.load_state_dict(load(state.files[WEIGHTS]), strict=False)
    if unknown or set(missing) - set(model.all_tied_weights_keys):
        raise ValueError(
            f"The slice's weights are not this model's: {(missing + unknown)[0]!r} does not fit."
        )
