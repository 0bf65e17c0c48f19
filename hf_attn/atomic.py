"""Folders that appear whole or not at all."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError


def clear_leftovers(target: Path) -> None:
    """Undo what a killed process left: put a set-aside folder back where nothing took its place."""
    aside = target.with_name(f".{target.name}.replaced")
    if aside.exists() and not target.exists():
        aside.rename(target)
    shutil.rmtree(aside, ignore_errors=True)


def _is_about_writing(error: Exception) -> bool:
    """Whether torch.save or safetensors met a full disk, which neither of them calls OSError."""
    words = ("inline_container", "iostream", "PytorchStreamWriter")
    return isinstance(error, SafetensorError) or any(word in str(error) for word in words)


@contextlib.contextmanager
def atomic_directory(target: str | os.PathLike) -> Iterator[Path]:
    """Fill a folder beside `target`, then put it in `target`'s place.

    Whatever happens on the way (an error, a full disk, a killed process), `target` is either what it was or
    the new folder whole.

    Yields:
        The folder to fill.

    Raises:
        OSError: it could not be written, whatever torch and safetensors called it.
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
