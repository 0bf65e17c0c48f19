"""The device that a model trains on, its name, and the precision.

Training is in float32 unless accelerate is told otherwise: with ACCELERATE_MIXED_PRECISION=bf16, or
`accelerate launch --mixed_precision bf16`, forward passes multiply in bfloat16, validation too, while
weights, gradients and what is saved stay float32. "fp16" does the same in float16 on a GPU, where the loss is
scaled; on a processor it changes nothing.
"""

import platform

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState

from hf_attn.models.config_checks import check_choice


def build_accelerator(device: str = "auto") -> Accelerator:
    """Choose the device to train on.

    Args:
        device: "auto" (a GPU where there is one), "cpu", "cuda" or "mps".

    Raises:
        ValueError: that device is not here, or not known.
    """
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    available = {"cuda": cuda, "mps": mps, "cpu": True, "auto": True}
    check_choice("device", device, available)
    if not available[device]:
        raise ValueError(f"device={device!r} is not on this machine; choose 'auto' or 'cpu'.")
    wanted_cpu = device == "cpu" or not (cuda or mps)
    if PartialState._shared_state and (PartialState().device.type == "cpu") != wanted_cpu:
        AcceleratorState._reset_state(reset_partial_state=True)  # accelerate keeps one device a process
    return Accelerator(cpu=wanted_cpu)  # cpu=True also where there is no other: processes then work together


def describe_device(accelerator: Accelerator) -> str:
    """Return the device's name, and the number of processes where there are several."""
    processes = f", {accelerator.num_processes} processes" if accelerator.num_processes > 1 else ""
    if accelerator.device.type == "cuda":
        return torch.cuda.get_device_name(accelerator.device) + processes
    return f"{accelerator.device.type} ({platform.machine()}){processes}"
