"""The one class that a Python file of one's own defines."""

import importlib.util
import inspect
import sys
from pathlib import Path
from typing import TypeVar

from hf_attn.utils.folder_files import read_bounded
from hf_attn.utils.text import quote, shorten

LARGEST_FILE = 5 * 2**20  # bytes
Base = TypeVar("Base")


def load_class(path: Path, base: type[Base], what: str) -> type[Base]:
    """Run a Python file and return the one subclass of `base` in it: run only what you trust.

    `what` is the class in a word, "task" or "attention". ValueError: the file is not there, cannot be run, or
    does not define exactly one.
    """
    try:
        read_bounded(path, LARGEST_FILE)
    except OSError as error:
        raise ValueError(f"There is no {what} file {quote(str(path), 300)}.") from error
    name = f"hf_attn_{what}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is no Python file; its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module  # where dataclasses look up what annotations name
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever the file does
        del sys.modules[name]
        if before is not None:  # what was loaded from it before is still in use
            sys.modules[name] = before
        reason = shorten(error).rstrip(".")
        raise ValueError(f"{path} cannot be run: {type(error).__name__}: {reason}.") from error
    found = {
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, base) and value.__module__ == name
    }
    if len(found) != 1:
        names = ", ".join(sorted(one.__name__ for one in found)) or "none"
        raise ValueError(
            f"{path} must define exactly one subclass of hf_attn.{base.__name__}; it defines {names}."
        )
    return found.pop()
