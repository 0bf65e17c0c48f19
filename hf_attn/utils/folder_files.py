"""Safe reading of folders and paths that somebody gave: regular files only, up to a number of bytes.

Whatever opens, packs, pushes or pulls a file goes through here. A folder may come from anybody: a link in it
could lead to any file of this machine, and a named pipe or a device could be read for ever.
"""

import errno
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

MODEL_FILES = Path(__file__).parents[1] / "models"
LONGEST_LINK = 1_000  # bytes of a link's target
_CACHED_REPO = re.compile(r"(models|datasets|spaces)--.+")
_SHARED_BLOB = re.compile(r"[0-9a-f]{64}")
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def list_files(folder: str | Path, wanted: Callable[[str], bool]) -> dict[str, Path]:
    """List the files at the top of a folder that may be read (`find_file`) and have a wanted name.

    Files of other names are never opened. ValueError: something with a wanted name may not be read.

    Returns:
        Name → where the file lies, all links followed; sorted by name, without folders.
    """
    found = {name: find_file(folder, name) for name in sorted(os.listdir(folder)) if wanted(name)}
    return {name: path for name, path in found.items() if path is not None}


def find_file(folder: str | Path, name: str) -> Path | None:
    """Find where a file of a folder lies, if it may be read; None if it is missing or a folder.

    The folder may itself be a link. The file may be a regular one, or a link to one where the link leads

    - inside the folder;
    - from a snapshot in a cache of the Hub to that repository's own blobs, as huggingface_hub makes them;
    - to `hf_attn/models/attention.py` from `attention.py`, and likewise for every model file: it stands for
      the installed file, also where git wrote the link as text.

    Raises:
        ValueError: it is a link that leads elsewhere or nowhere, a named pipe, a socket or a device. The
            sentence tells where a link leads only if to model files: whoever made the folder should learn
            nothing about other files of this machine.
    """
    path = Path(folder) / name
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if (code := _find_linked_code(path)) is not None:
        return code
    remedy = "put a copy of the file in its place, or take it away."
    try:
        root, real = Path(folder).resolve(), path.resolve()
    except (OSError, RuntimeError):  # links in a circle
        raise ValueError(f"{path} is a link in a circle: {remedy}") from None
    if not real.is_relative_to(root) and not _is_cached(root, name, real):
        raise ValueError(f"{path} is a link that leads out of its folder, and is not read: {remedy}")
    try:
        mode = real.lstat().st_mode
    except FileNotFoundError:
        raise ValueError(f"{path} is a link to a file that is not there: {remedy}") from None
    if stat.S_ISDIR(mode):
        return None
    if not stat.S_ISREG(mode):
        raise ValueError(f"{path} is {_name_kind(mode)}, and only files are read: {remedy}")
    return real


def read_file(folder: str | Path, name: str, most: int, remedy: str = "make it smaller") -> bytes:
    """Read a file of a folder: `find_file`, then `read_bounded`; FileNotFoundError where it is missing."""
    path = Path(folder) / name
    if (real := find_file(folder, name)) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return _read(real, path, most, remedy)


def read_bounded(path: str | Path, most: int, remedy: str = "make it smaller") -> bytes:
    """Read a file that a person named, wherever it lies; links are followed.

    Raises:
        OSError: it is missing or cannot be read.
        ValueError: it is no regular file, or has more than `most` bytes, whatever size is reported.
    """
    return _read(Path(path), Path(path), most, remedy)


def _read(path: Path, shown: Path, most: int, remedy: str) -> bytes:
    try:
        _refuse_other_kinds(shown, path.stat().st_mode)  # before it is opened: some devices act on that
    except ValueError as error:
        if "null byte" not in str(error):  # no file can be called that
            raise
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(shown)) from None
    flags = (getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"))
    with open(os.open(path, os.O_RDONLY | sum(flags)), "rb") as file:
        status = os.fstat(file.fileno())  # of what was opened, whatever was put in its place meanwhile
        _refuse_other_kinds(shown, status.st_mode)
        content = b"" if status.st_size > most else file.read(most + 1)
    if status.st_size > most or len(content) > most:
        size = f"{status.st_size / 2**20:,.0f} MB" if status.st_size > most else "more than it says"
        raise ValueError(f"{shown} has {size}; {most / 2**20:,.0f} MB at most are read: {remedy}.")
    return content


def _refuse_other_kinds(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise ValueError(f"{path} is a folder; give the file in it.")
    if not stat.S_ISREG(mode):
        raise ValueError(f"{path} is {_name_kind(mode)}, and only files are read: give a file.")


def _name_kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "no file")


def _find_linked_code(path: Path) -> Path | None:
    """The installed model file that a link stands for, as the bundled checkpoints have them.

        model_cards/attn-copy/attention.py → ../../hf_attn/models/attention.py

    Where links are not allowed, as on Windows, git writes a file with the link's target as its content.
    """
    installed = MODEL_FILES / path.name
    is_link = path.is_symlink()
    if path.suffix != ".py" or not installed.is_file():
        return None
    if not is_link and (not path.is_file() or path.stat().st_size > LONGEST_LINK):
        return None
    target = os.readlink(path) if is_link else path.read_bytes().decode("utf-8", "replace")
    if Path(target).parts[-3:] != (*MODEL_FILES.parts[-2:], path.name):
        return None
    if is_link and not path.is_file():
        raise ValueError(
            f"{path} is a link to {target}, and there is no such file: copy the folder again with what its "
            "links lead to (cp -rL), or delete the link, since hf_attn loads its models with its own code."
        )
    return installed


def _is_cached(root: Path, name: str, real: Path) -> bool:
    """Whether a link leads from a snapshot of huggingface_hub's cache to a blob of the same repository.

        models--owner--name/snapshots/COMMIT/config.json → ../../blobs/ETAG

    Since huggingface_hub 2 a blob may itself be a link to the cache's shared store, `blobs/ab/ab12…`, whose
    files are named by a hash of 64 digits.
    """
    repo, path = root.parent.parent, root / name
    if root.parent.name != "snapshots" or not _CACHED_REPO.fullmatch(repo.name) or not path.is_symlink():
        return False
    blob = Path(os.path.normpath(path.parent / os.readlink(path)))
    if blob.parent != repo / "blobs":
        return False
    shared = repo.parent / "blobs" / real.name[:2] / real.name
    return real == blob or (real == shared and _SHARED_BLOB.fullmatch(real.name) is not None)
