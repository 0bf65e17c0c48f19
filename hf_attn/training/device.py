"""The device that a model trains on, its name, and the precision.

Training is in float32 unless accelerate is told otherwise: with ACCELERATE_MIXED_PRECISION=bf16, or
`accelerate launch --mixed_precision bf16`, forward passes multiply in bfloat16, validation too, while
weights, gradients and what is saved stay float32. "fp16" does the same in float16 on a GPU, where the loss is
scaled.
"""

import os
import platform

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState

from hf_attn.models.config_checks import check_choice
from hf_attn.utils.text import quote

PRECISION = "ACCELERATE_MIXED_PRECISION"  # the variable that accelerate reads
PRECISIONS = {"no": "", "bf16": ", bfloat16", "fp16": ", float16"}  # its values → in a device's description


def build_accelerator(device: str = "auto") -> Accelerator:
    """Choose the device to train on.

    Args:
        device: "auto" (a GPU where there is one), "cpu", "cuda" or "mps".

    Raises:
        ValueError: that device is not here, or not known, or lacks the precision that accelerate is told.
    """
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    available = {"auto": True, "cpu": True, "cuda": cuda, "mps": mps}
    here = [name for name, is_here in available.items() if is_here]
    if device not in here:
        what = "is not on this machine" if device in available else "is not known"
        which = "" if device in available else " CUDA_VISIBLE_DEVICES=1 before the command takes GPU 1 alone."
        choose = " or ".join(map(repr, here))
        raise ValueError(f"device={quote(device)} {what}; choose {choose}.{which if cuda else ''}")
    wanted_cpu = device == "cpu" or not (cuda or mps)
    check_precision(os.environ.get(PRECISION, "no"), is_cuda=cuda and not wanted_cpu)
    if PartialState._shared_state and (PartialState().device.type == "cpu") != wanted_cpu:
        AcceleratorState._reset_state(reset_partial_state=True)  # accelerate keeps one device a process
    try:  # cpu=True also where there is no other: processes then work together
        accelerator = Accelerator(cpu=wanted_cpu)
    except (AssertionError, RuntimeError, ValueError) as error:
        named = (
            ", ".join(name for name in os.environ if name.startswith("ACCELERATE_"))
            or "no ACCELERATE_ variable"
        )
        raise ValueError(f"accelerate cannot start as {named} says: {error}") from error
    accelerator.gradient_accumulation_steps = (
        1  # whatever a variable says: each step here is one of the optimizer
    )
    return accelerator


def check_precision(precision: str, *, is_cuda: bool) -> None:
    """Refuse a precision that the device does not have, or that is not known."""
    check_choice(PRECISION, precision, PRECISIONS)
    if precision == "fp16" and not is_cuda:
        raise ValueError(f"{PRECISION}='fp16' needs a CUDA GPU; choose 'bf16' or 'no', or leave it out.")
    if precision == "bf16" and is_cuda and not torch.cuda.is_bf16_supported(including_emulation=False):
        name = torch.cuda.get_device_name()
        raise ValueError(
            f"{PRECISION}='bf16': {name} has no bfloat16; choose 'fp16' or 'no', or leave it out."
        )


def describe_device(accelerator: Accelerator) -> str:
    """Return the device's name, the precision unless it is float32, and how many processes work together."""
    device, processes = accelerator.device, accelerator.num_processes
    is_cuda = device.type == "cuda"
    name = torch.cuda.get_device_name(device) if is_cuda else f"{device.type} ({platform.machine()})"
    together = f", {processes} processes" if processes > 1 else ""
    return name + PRECISIONS.get(accelerator.mixed_precision, "") + together
