"""The machine: its processor's name, and whether an error says that its memory is full."""

import platform
from pathlib import Path

# what torch, its allocators and the libraries of its devices (CUDA, MPS, XPU) say where memory is full
NO_MEMORY = (
    *("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory", "bad_alloc"),
    *("alloc_failed", "allocation_failed", "out_of_device_memory", "out_of_host_memory"),
    "invalid buffer size",
)


def name_processor() -> str:
    """The processor's name: from Linux where it tells, else what Python knows."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def is_memory_full(error: BaseException) -> bool:
    """Whether an error says that the memory, of the processor or of a device, is full."""
    is_told = isinstance(error, RuntimeError) and any(words in str(error).lower() for words in NO_MEMORY)
    return is_told or isinstance(error, MemoryError)
