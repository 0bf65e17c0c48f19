"""A cache on disk for rows that take seconds to build."""

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path

from hf_attn.utils.atomic_write import FolderKind, atomic_directory
from hf_attn.utils.folder_files import read_file

CACHE_VARIABLE = "HF_ATTN_CACHE"
CONTENT = "content.json"
LARGEST = 500_000_000  # bytes
ROWS = FolderKind("cache of rows", (CONTENT,), (CONTENT,).__contains__)


def cache_directory() -> Path:
    """The cache's folder: HF_ATTN_CACHE, or ~/.cache/hf_attn."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named) if named else Path.home() / ".cache" / "hf_attn"


def cached_rows(name: str, build: Callable[[], list[list[str]]]) -> list[list[str]]:
    """Rows of text from the cache, or built and stored there under a name with everything they depend on.

    A damaged cache is rebuilt; where nothing can be written, the rows are built each time.
    """
    folder = cache_directory() / name
    with contextlib.suppress(OSError, ValueError, RecursionError):
        rows = json.loads(read_file(folder, CONTENT, LARGEST).decode("utf-8"))
        if isinstance(rows, list) and rows:
            return rows
    rows = build()
    with contextlib.suppress(OSError, ValueError), atomic_directory(folder, ROWS) as partial:
        (partial / CONTENT).write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    return rows
