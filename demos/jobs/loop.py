"""A run's loop: step by step in this process, or in slices where a Space lends its GPU for seconds."""

import importlib.util
import os
import threading
from collections.abc import Callable, Iterator, Sequence

import torch

from hf_attn.training.device import build_accelerator, describe_device
from hf_attn.training.loop import Report, train
from hf_attn.training.slices import SliceState, train_in_slices, train_slice

SLICE_SECONDS = 4.0  # of steps: Stop waits for as long, and each slice asks for the GPU anew
LENT_SECONDS = 20  # what a slice asks for: its model is built and measured in them too


def has_zero_gpu() -> bool:
    """Whether this is a Space with ZeroGPU, and the package that asks for its GPU is here."""
    is_on = os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")  # as the package reads it
    return is_on and importlib.util.find_spec("spaces") is not None


def lend_gpu(function: Callable) -> Callable:
    """The function in a worker that has the GPU while it runs; the function itself where there is no ZeroGPU.

    Arguments and what it returns are pickled on the way.
    """
    if not has_zero_gpu():
        return function
    import spaces

    return spaces.GPU(duration=LENT_SECONDS)(function)


@lend_gpu
def take_slice(state: SliceState, steps: int | None) -> SliceState:
    """Train on for SLICE_SECONDS, or for so many steps where that is less."""
    return train_slice(state, steps, SLICE_SECONDS)


def begin_loop(run) -> Iterator[Sequence[Report]]:
    """The loop of a run with a fresh model: reports, after which the model holds the weights of the last."""
    if has_zero_gpu():
        run.accelerator = build_accelerator("cpu")  # where the model stays; its worker finds the GPU
        return follow_slices(run, take_slice)
    run.accelerator = build_accelerator(run.device)
    run.computed_on = describe_device(run.accelerator)
    return follow_steps(run)


def follow_steps(run) -> Iterator[Sequence[Report]]:
    """Learn here, a step at a time, whatever the recipe says of reports: between two it can be stopped."""
    (each_step := threading.Event()).set()
    how = {"generator": torch.Generator().manual_seed(run.seed), "accelerator": run.accelerator}
    for report in train(run.task, run.model, run.recipe, report_every_step=each_step, **how):
        yield (report,)


def follow_slices(run, take: Callable[[SliceState, int | None], SliceState]) -> Iterator[Sequence[Report]]:
    """Learn in slices that are computed elsewhere, to the run's last step; of one while it is watched."""

    def take_next(state: SliceState) -> SliceState:
        left = None if run.last_step is None else run.last_step - state.step
        return take(state, 1 if run.wants_pause or run.pace else left)

    for state in train_in_slices(run.model, SliceState(run.task, run.recipe, run.seed), take_next):
        run.computed_on = state.device
        yield state.reports
