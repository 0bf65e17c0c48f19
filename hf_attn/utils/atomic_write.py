"""Write files and folders whole or not at all, also where the power fails; copy them.

What is being written has a passing name and is locked by its writer, from whom the system takes the lock when
it dies. So the next writer can tell what a killed one left, and removes that alone. Machines that share a
disk may not see each other's locks, so the name says which one writes: what another left goes a day later,
and its scratch folders, which may be in use for longer, stay.
"""

import contextlib
import ctypes
import math
import os
import platform
import re
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError

from hf_attn.utils.text import quote

if sys.platform == "win32":  # it has no such locks: there leftovers stay
    fcntl = None
else:
    import fcntl

MACHINE = f"{zlib.crc32(platform.node().encode()):08x}"
PREFIX, SUFFIX = f".hf_attn.{MACHINE}.", ".partial"
LEFTOVER = re.compile(r"\.hf_attn\.([0-9a-f]{8})\.[a-z0-9_]{8}\.partial")  # as tempfile ends it
LEFT_BY_SYSTEMS = frozenset((".DS_Store", "Thumbs.db", "desktop.ini"))
DAY = 86_400.0
FOLDER_OF_CALLER, SWAP = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


def write_file(path: Path, content: bytes) -> Path:
    """Write a file whole; on any error the old one stays."""
    with _make_partial(path.parent, is_folder=False) as partial:
        partial.write_bytes(content)
        partial.chmod(0o644)  # tempfile makes it the owner's alone
        _flush(partial)
        partial.replace(path)
        _flush(path.parent)
    return path


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """A folder for a while; what killed processes of this machine left of theirs is removed first."""
    with _make_partial(Path(tempfile.gettempdir()), is_folder=True, oldest=math.inf) as folder:
        yield folder


@contextlib.contextmanager
def _make_partial(parent: Path, *, is_folder: bool, oldest: float = DAY) -> Iterator[Path]:
    """Make an empty file or folder that is locked; whatever is left under its name is removed at the end."""
    _remove_leftovers(parent, oldest)
    while True:
        if is_folder:
            path = Path(tempfile.mkdtemp(SUFFIX, PREFIX, parent))
        else:
            handle, name = tempfile.mkstemp(SUFFIX, PREFIX, parent)
            os.close(handle)
            path = Path(name)
        lock = _take_lock(path, waits=True)
        if path.exists():
            break
        _release_lock(lock)  # another process took it for a leftover before it was locked
    try:
        yield path
    finally:
        _remove(path)
        _release_lock(lock)


def _take_lock(path: Path, *, waits: bool) -> int | None:
    """Lock a file or folder and return its handle; None where another process holds it, or none can."""
    if fcntl is None:
        return None
    handle = None
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        fcntl.flock(handle, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        _release_lock(handle)
        return None
    return handle


def _release_lock(handle: int | None) -> None:
    if handle is not None:
        os.close(handle)


def _remove_leftovers(folder: Path, oldest: float = DAY) -> None:
    """Remove what writers that are gone left in a folder; nobody else's files, and none of live writers.

    A writer on another machine is taken for gone where what it wrote is older than `oldest` seconds.
    """
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if _is_leftover(path, oldest) and (lock := _take_lock(path, waits=False)) is not None:
                with contextlib.suppress(OSError):  # others may have no right to
                    _remove(path)
                _release_lock(lock)


def _is_leftover(path: Path, oldest: float) -> bool:
    """Whether this may be what a killed writer left; nobody writes it any more if it can be locked."""
    found = LEFTOVER.fullmatch(path.name)
    return found is not None and (found[1] == MACHINE or time.time() - path.lstat().st_mtime > oldest)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Wait until the disk holds a file's bytes, or a folder's names: a rename may else come before them."""
    if path.is_dir():
        with contextlib.suppress(OSError):  # some systems flush no folders
            _flush_handle(path, os.O_RDONLY)
    else:
        _flush_handle(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)


def _flush_handle(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _swap(one: Path, other: Path) -> bool:
    """Let two folders change names at once; False where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    names = (FOLDER_OF_CALLER, os.fsencode(one), FOLDER_OF_CALLER, os.fsencode(other), SWAP)
    with contextlib.suppress(AttributeError):  # a C library of before 2018
        return ctypes.CDLL(None).renameat2(*names) == 0
    return False


def copy_files(files: Mapping[str, Path], directory: Path) -> None:
    """Copy each file into a folder under its name, which may have slashes; of a link, what it leads to."""
    for name, path in files.items():
        (copy := directory / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


@dataclass(frozen=True)
class FolderKind:
    """What a folder that is written whole is to hold; an earlier one of its kind may be replaced.

    Attributes:
        name: such as "data set".
        needed: files that each has, by their names relative to it.
        is_part: whether a file may be in one, likewise.
    """

    name: str
    needed: tuple[str, ...]
    is_part: Callable[[str], bool]


def refuse_others(directory: Path, kind: FolderKind) -> None:
    """Refuse to replace what is no earlier folder of its kind, or holds anything else; a file or a link, too.

    A folder without any file is as good as none; files that systems leave everywhere do not count.
    `atomic_directory` looks itself: this is for a look before what takes long.
    """
    if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
        raise ValueError(f"{directory} is {'a link' if directory.is_symlink() else 'a file'}: name a folder.")
    files = (path for path in directory.rglob("*") if path.is_symlink() or not path.is_dir())
    names = (path.relative_to(directory).as_posix() for path in files if not _is_left_by_system(path))
    if (first := next(names, None)) is None:
        return
    if not all((directory / name).is_file() for name in kind.needed):
        raise ValueError(f"{directory} is not empty and holds no {kind.name}: name another folder.")
    if others := sorted(name for name in (first, *names) if not kind.is_part(name)):
        lost = f"{others[0]!r}, which is no part of a {kind.name} and would be lost"
        raise ValueError(f"{directory} holds {lost}: move it, or name another folder.")


def _is_left_by_system(path: Path) -> bool:
    """Whether a file manager or a killed writer left a file."""
    return path.name in LEFT_BY_SYSTEMS or any(map(LEFTOVER.fullmatch, path.parts))


def check_target(target: str | os.PathLike) -> Path:
    """The whole path of a folder that is to be written.

    ValueError for a name that no folder can have, and where the process works in the folder or in one of it.
    """
    try:
        possible = b"\0" not in os.fsencode(target)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise ValueError(f"{quote(str(target))} is no name of a folder: leave out what is no character.")
    path = Path(os.path.abspath(target))
    with contextlib.suppress(FileNotFoundError):  # where that was deleted
        if Path.cwd().is_relative_to(path):
            raise ValueError(f"{target} is the working folder, or holds it: name a folder inside.")
    return path


def clear_leftovers(target: Path) -> None:
    """Tidy up beside a folder after killed processes.

    What they were writing is removed. An old folder that one set aside goes back if nothing took its place.
    """
    _remove_leftovers(target.parent)
    aside = target.with_name(f".{target.name}.replaced")
    if aside.exists() and not target.exists():
        aside.rename(target)
    shutil.rmtree(aside, ignore_errors=True)


def _is_about_writing(error: Exception) -> bool:
    """Whether torch.save or safetensors met a full disk; neither raises OSError."""
    words = ("inline_container", "iostream", "PytorchStreamWriter")
    return isinstance(error, SafetensorError) or any(word in str(error) for word in words)


@contextlib.contextmanager
def atomic_directory(target: str | os.PathLike, kind: FolderKind) -> Iterator[Path]:
    """Fill a temporary folder beside `target`, then put it in `target`'s place.

    Whatever happens on the way (an error, a full disk, a killed process), `target` is either the old folder
    or the whole new one. OSError where it could not be written, whatever error torch or safetensors raised;
    ValueError where it is not of the kind, and so is not replaced, and for a name that no folder can have.
    """
    target = check_target(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    clear_leftovers(target)
    refuse_others(target, kind)
    with _make_partial(target.parent, is_folder=True) as partial:
        try:
            yield partial
        except (RuntimeError, SafetensorError) as error:
            if not _is_about_writing(error):
                raise
            raise OSError(f"{target} could not be written; is the disk full? ({error})") from error
        partial.chmod(0o755)  # tempfile makes it the owner's alone
        for path in [*partial.rglob("*"), partial]:
            if not path.is_symlink():
                _flush(path)
        _put_in_place(partial, target)
        _flush(target.parent)


def _put_in_place(partial: Path, target: Path) -> None:
    """Give a new folder the name of the old one, if there is one; what is then `partial` is to be removed."""
    if not target.exists():
        partial.rename(target)
    elif not _swap(partial, target):
        aside = target.with_name(f".{target.name}.replaced")
        target.rename(aside)
        partial.rename(target)
        shutil.rmtree(aside, ignore_errors=True)
