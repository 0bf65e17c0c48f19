"""A run's loop: step by step in this process, or in slices where a Space lends its GPU for seconds."""

import contextlib
import importlib.util
import os
import threading
import weakref
from collections.abc import Callable, Iterator

import torch

from hf_attn.architectures.registry import drawing_weights
from hf_attn.tasks import Recipe
from hf_attn.training.device import build_accelerator, describe_device
from hf_attn.training.loop import Report, train
from hf_attn.training.slices import SliceState, train_in_slices, train_slice

from .job import UNDER_WAY

SLICE_SECONDS = 4.0  # of steps: Stop waits for as long, and each slice asks for the GPU anew
LENT_SECONDS = 20  # what a slice asks for: its model is built and measured in them too
_BEGUN: weakref.WeakSet = weakref.WeakSet()  # runs of all visitors
_CHOOSING = threading.Lock()


def assign_gpu(run) -> None:
    """Give a run the GPU with the fewest runs under way; -1, which no GPU is, where it takes none."""
    with _CHOOSING:
        taken = [other.gpu for other in _BEGUN if other.status in UNDER_WAY]
        gpus = () if run.device == "cpu" else range(torch.cuda.device_count())
        run.gpu = min(gpus, key=taken.count, default=-1)
        _BEGUN.add(run)


def has_zero_gpu() -> bool:
    """Whether this is a Space with ZeroGPU, and the package that asks for its GPU is installed."""
    is_on = os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")  # as the package reads it
    return is_on and importlib.util.find_spec("spaces") is not None


def lend_gpu(function: Callable) -> Callable:
    """The function in a worker that has the GPU while it runs; itself where there is no ZeroGPU.

    Its arguments and result are pickled on the way.
    """
    if not has_zero_gpu():
        return function
    import spaces

    return spaces.GPU(duration=LENT_SECONDS)(function)


@lend_gpu
def take_slice(state: SliceState, steps: int | None) -> SliceState:
    """Train for SLICE_SECONDS, or for so many steps where that is less."""
    return train_slice(state, steps, SLICE_SECONDS)


def begin_loop(run) -> Iterator[Report | SliceState]:
    """The loop of a run with a fresh model; at each report the model holds that step's weights."""
    if has_zero_gpu():
        run.device_type = "cpu"  # where the model stays; its worker finds the GPU
        return begin_slices(run, take_slice)
    accelerator = build_accelerator(run.device)
    run.device_type = accelerator.device.type
    with torch.cuda.device(run.gpu):
        run.computed_on = describe_device(accelerator)
    (each_step := threading.Event()).set()  # so that it can be stopped at any
    how = {"generator": torch.Generator().manual_seed(run.seed), "accelerator": accelerator}
    return train(run.task, run.model, run.recipe, report_every_step=each_step, **how)


def begin_slices(run, take: Callable[[SliceState, int | None], SliceState]) -> Iterator[SliceState]:
    """A loop of slices that a worker computes, of one step each while the run is watched."""

    def take_next(state: SliceState) -> SliceState:
        left = None if run.goal is None else run.goal[0] - state.step
        return take(state, 1 if run.wants_pause or run.pace else left)

    return train_in_slices(run.model, SliceState(run.task, run.recipe, run.seed), take_next)


def uses_global_rng(recipe: Recipe) -> bool:
    """Whether a model with this recipe uses torch's global generators while it learns."""
    drawing = ("dropout", "crowd_noise", "position_offset")
    return recipe.teacher_forcing < 1 or any(
        share for name, share in recipe.model.items() if name.endswith(drawing)
    )


class IsolatedRNG:
    """Random numbers of a run's own, however many other runs learn between its steps.

    They begin with `torch.manual_seed(seed)`, as the Python lines do that give the same run. While one such
    run takes a step (`with numbers.drawing():`), no other takes one.
    """

    def __init__(self, seed: int):
        self.seed = seed
        self.states: list = []

    @contextlib.contextmanager
    def drawing(self) -> Iterator[None]:
        # (get, set) of torch's generators: CPU, GPUs, and an Apple GPU where there is one
        global_rngs = [(torch.get_rng_state, torch.set_rng_state)]
        global_rngs.append((torch.cuda.get_rng_state_all, torch.cuda.set_rng_state_all))
        if torch.backends.mps.is_available():
            global_rngs.append((torch.mps.get_rng_state, torch.mps.set_rng_state))
        with drawing_weights(self.seed):
            for (_, put), state in zip(global_rngs, self.states, strict=False):  # none before the first step
                put(state)
            yield
            self.states = [get() for get, _ in global_rngs]
