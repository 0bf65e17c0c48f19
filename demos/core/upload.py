"""A visitor's own file: taken from an upload, kept in the session's folder, and gone with it."""

import atexit
import contextlib
import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hf_attn.tasks import Task
from hf_attn.tasks.user.read_table import MOST_BYTES, choose_columns, column_names
from hf_attn.utils.atomic_write import scratch_directory
from hf_attn.utils.folder_files import read_bounded

SUFFIXES = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".json", ".md")
SESSION, TABLE = "session", "table"  # in the names of folders: own_folder()/session-…/table-…/table


@functools.cache
def own_folder() -> Path:
    """This server's folder for what visitors bring: it goes with the server, or when the next one starts."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch_directory())
        atexit.register(stack.pop_all().close)
    return folder


def count_bytes(places: Iterable[Path]) -> int:
    """The bytes of files, and of all files in folders."""
    size = 0
    for path in (path for place in places for path in (place.rglob("*") if place.is_dir() else (place,))):
        with contextlib.suppress(FileNotFoundError):  # it goes meanwhile
            size += path.stat().st_size if path.is_file() else 0
    return size


@dataclass(frozen=True)
class Table:
    """What a visitor uploaded."""

    path: Path  # the session's own copy
    name: str  # what the visitor calls it
    columns: tuple[str, ...] = ()  # their names, or numbers where they have none; none in plain text
    fault: str = ""  # why it cannot be used, in a sentence; then nothing is kept
    # built from it; what they have read is read once
    tasks: dict[Task, Task] = field(default_factory=dict, compare=False, repr=False)

    def guess_columns(self, wanted: tuple[str, ...]) -> list[str]:
        """The columns of these names; for a missing one, the first column that is left."""
        found = choose_columns(self.columns, dict.fromkeys(wanted, ""))
        return [name if name in self.columns else self.columns[0] for name in found]

    def share_task(self, task: Task) -> Task:
        """The first task on this table that equals this one."""
        return self.tasks.setdefault(task, task)


def take_table(uploaded: str | Path, folder: Path, wanted: tuple[str, ...]) -> Table:
    """Copy an upload into a folder and read its columns; `fault` says why it is no table.

    `wanted` are the names of columns that the task would like; none where it reads plain text.
    """
    name = Path(uploaded).name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    try:
        path.write_bytes(read_bounded(uploaded, MOST_BYTES, "take a part of it"))
        columns = tuple(column_names(path)) if wanted else ()
        if len(columns) < len(wanted):
            found = "has one column only" if columns else "is empty"
            raise ValueError(f"{name} {found}; write a table with columns such as {' and '.join(wanted)}.")
        return Table(path, name, columns)
    except ValueError as error:
        path.unlink(missing_ok=True)
        return Table(path, name, fault=str(error).replace(str(uploaded), name).replace(str(path), name))
