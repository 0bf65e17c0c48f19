"""What took seconds to read is kept on disk, whole or not at all."""

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path

from hf_attn.utils.atomic_write import atomic_directory
from hf_attn.utils.folder_files import read_file

CACHE_VARIABLE = "HF_ATTN_CACHE"
CONTENT = "content.json"
LARGEST = 500_000_000  # bytes


def cache_directory() -> Path:
    """Where it is kept: the folder that HF_ATTN_CACHE names, or ~/.cache/hf_attn."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named) if named else Path.home() / ".cache" / "hf_attn"


def cached_rows(name: str, build: Callable[[], list[list[str]]]) -> list[list[str]]:
    """Rows of text from the cache, or built and kept there.

    A damaged cache is built anew; where nothing can be written, the rows are built each time.

    Args:
        name: of the cache's folder; whatever the rows depend on must be in it.
        build: gives the rows.
    """
    folder = cache_directory() / name
    with contextlib.suppress(OSError, ValueError):
        rows = json.loads(read_file(folder, CONTENT, LARGEST).decode("utf-8"))
        if isinstance(rows, list) and rows:
            return rows
    rows = build()
    with contextlib.suppress(OSError), atomic_directory(folder) as partial:
        (partial / CONTENT).write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    return rows
