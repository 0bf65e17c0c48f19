"""What a figure was measured on."""

import platform
from pathlib import Path


def name_processor() -> str:
    """The processor's name: from Linux where it tells, else what Python knows."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
