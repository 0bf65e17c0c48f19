"""Why a run cannot go on, in sentences: its loss is no number, or its device failed."""

import contextlib
import traceback
from collections.abc import Iterator

import torch

from hf_attn.tasks.recipes import Recipe
from hf_attn.utils.hardware import is_memory_full
from hf_attn.utils.text import shorten


class RunFailed(Exception):
    """A run cannot go on; the message says why, and what to do."""


class Diverged(RunFailed, ArithmeticError):
    """The loss is no number any more."""


class DeviceFailed(RunFailed, OSError):
    """The device has no memory left, or does not answer any more."""


@contextlib.contextmanager
def naming_device_failures(device: torch.device, step: int, recipe: Recipe) -> Iterator[None]:
    """Raise DeviceFailed where the device's memory is full, or it does not answer, at this step of a run."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_device_failure(error):
            raise
        failure = f"Device '{device.type}' failed at step {step} ({shorten(error)})."
        advice = "What was saved before stays: resume from it, or begin again on device 'cpu'."
        if is_memory_full(error):
            traceback.clear_frames(error.__traceback__)  # they hold what filled the memory
            failure = f"The memory of device '{device.type}' is full at step {step}."
            advice = f"The model keeps what it learned before. Choose {_halve(recipe)}."
        raise DeviceFailed(f"{failure} {advice}") from None


def is_device_failure(error: Exception) -> bool:
    """Whether an error says that a device's memory is full, or that it does not answer."""
    return isinstance(error, torch.AcceleratorError) or is_memory_full(error)


def _halve(recipe: Recipe) -> str:
    """Settings that take about half the memory, in words."""
    sizes = {"batch_size": recipe.batch_size, "hidden_size": recipe.model.get("hidden_size")}
    halves = [f"{name}={size // 2}" for name, size in sizes.items() if isinstance(size, int) and size > 1]
    return " or ".join(halves) or "a shorter length"
