"""Write files and folders whole or not at all; copy them."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from safetensors import SafetensorError


def write_file(path: Path, content: bytes) -> Path:
    """Write a file whole; on any error the old one stays."""
    handle, name = tempfile.mkstemp(prefix=".", suffix=".partial", dir=path.parent)
    partial = Path(name)
    try:
        os.close(handle)
        partial.write_bytes(content)
        partial.chmod(0o644)  # mkstemp makes it the owner's alone
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def copy_files(files: Mapping[str, Path], directory: Path) -> None:
    """Copy each file into a folder under its name, which may have slashes; of a link, what it leads to."""
    for name, path in files.items():
        (copy := directory / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def refuse_others(directory: Path, is_ours: Callable[[str], bool], what: str) -> None:
    """Refuse to replace a folder that holds other files than an earlier result, or that is a file or a link.

    `is_ours` says which of its files, by their names relative to it, may be replaced; `what` it is to hold,
    such as "a data set".
    """
    if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
        raise ValueError(f"{directory} is {'a link' if directory.is_symlink() else 'a file'}: name a folder.")
    inside = (path for path in directory.rglob("*") if path.is_symlink() or not path.is_dir())
    files = (path.relative_to(directory).as_posix() for path in inside)
    if others := sorted(name for name in files if not is_ours(name)):
        raise ValueError(f"{directory} holds {others[0]!r}, which is no part of {what}: name another folder.")


def clear_leftovers(target: Path) -> None:
    """Tidy up after a killed process: an old folder that it set aside goes back if nothing took its place."""
    aside = target.with_name(f".{target.name}.replaced")
    if aside.exists() and not target.exists():
        aside.rename(target)
    shutil.rmtree(aside, ignore_errors=True)


def _is_about_writing(error: Exception) -> bool:
    """Whether torch.save or safetensors met a full disk; neither raises OSError."""
    words = ("inline_container", "iostream", "PytorchStreamWriter")
    return isinstance(error, SafetensorError) or any(word in str(error) for word in words)


@contextlib.contextmanager
def atomic_directory(target: str | os.PathLike) -> Iterator[Path]:
    """Fill a temporary folder beside `target`, then put it in `target`'s place.

    Whatever happens on the way (an error, a full disk, a killed process), `target` is either the old folder
    or the whole new one. OSError where it could not be written, whatever error torch or safetensors raised.
    """
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    clear_leftovers(target)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    try:
        yield partial
        aside = target.with_name(f".{target.name}.replaced")
        if target.exists():
            target.rename(aside)
        partial.chmod(0o755)  # mkdtemp makes it the owner's alone
        partial.rename(target)
        shutil.rmtree(aside, ignore_errors=True)
    except (RuntimeError, SafetensorError) as error:
        if not _is_about_writing(error):
            raise
        raise OSError(f"{target} could not be written; is the disk full? ({error})") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
