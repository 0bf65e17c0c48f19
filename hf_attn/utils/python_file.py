"""The one class that a Python file of one's own defines, and what goes wrong in it."""

import contextlib
import functools
import importlib.util
import inspect
import linecache
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import TypeVar

from hf_attn.utils.folder_files import read_bounded
from hf_attn.utils.text import quote, shorten

PACKAGE = Path(__file__).parents[1]
LARGEST_FILE = 5 * 2**20  # bytes
SECONDS = 60.0  # for running a file, and for a call of its code: a million examples take a few
Base = TypeVar("Base")


class OwnCodeError(Exception):
    """Code of a file of one's own failed, ended the process or ran too long; the message names its line."""


class _Inside(threading.local):
    is_own = False  # whether this thread runs code of a file


_inside = _Inside()


class _TooLong(BaseException):  # no Exception, which the file may catch
    pass


def load_class(path: Path, base: type[Base], what: str) -> type[Base]:
    """Run a Python file and return the one subclass of `base` in it: run only what you trust.

    It may take SECONDS. `what` is the class in a word, "task" or "attention". ValueError: the file is not
    there, cannot be run, or does not define exactly one.
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
        with time_limit(SECONDS):
            spec.loader.exec_module(module)
    except BaseException as error:  # whatever the file does
        if isinstance(error, KeyboardInterrupt):
            raise
        del sys.modules[name]
        if before is not None:  # what was loaded from it before is still in use
            sys.modules[name] = before
        raise ValueError(f"{path} cannot be run: {_describe(error, path)}.") from error
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


def explain_methods(cls: type, path: Path) -> None:
    """Let methods and properties that a file defines for a class run in `explained` for `seconds_allowed`."""

    def explain(function: Callable) -> Callable:
        @functools.wraps(function)
        def run(*given, **named):
            if _inside.is_own:  # a method that calls another
                return function(*given, **named)
            with explained(path, cls.seconds_allowed, "; seconds_allowed of its class allows more"):
                return function(*given, **named)

        return run

    for owner in cls.__mro__:
        for name, value in list(vars(owner).items()) if owner.__module__ == cls.__module__ else ():
            if isinstance(value, property) and value.fget is not None:
                setattr(owner, name, property(explain(value.fget)))
            elif isinstance(value, functools.cached_property):
                setattr(owner, name, explained_once := functools.cached_property(explain(value.func)))
                explained_once.__set_name__(owner, name)
            elif (function := _function_of(value)) and Path(function.__code__.co_filename) == path.absolute():
                wrap_method(owner, name, explain)


def _function_of(value: object) -> FunctionType | None:
    """The function of a method, also of a static or a class's."""
    function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    return function if isinstance(function, FunctionType) else None


def wrap_method(owner: type, name: str, wrap: Callable[[Callable], Callable]) -> None:
    """Put what `wrap` makes of a method in its place, as a method of the same kind."""
    value = vars(owner)[name]
    is_bound = isinstance(value, staticmethod | classmethod)
    setattr(owner, name, type(value)(wrap(value.__func__)) if is_bound else wrap(value))


@contextlib.contextmanager
def explained(path: Path, seconds: float = SECONDS, remedy: str = "") -> Iterator[None]:
    """Run code of a file: OwnCodeError with its line where it fails, ends the process or takes too long.

    A ValueError that the file itself raises, or asks a method of ours to raise, is a refusal, and stays one;
    errors of other code stay too.
    """
    before, _inside.is_own = _inside.is_own, True
    try:
        with time_limit(seconds, remedy):
            yield
    except BaseException as error:
        frame = _find_frame(error, path)
        if frame is None or isinstance(error, KeyboardInterrupt):
            raise
        last = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
        is_refusal = (frame.line or "").startswith("raise ") or last.is_relative_to(PACKAGE)
        if isinstance(error, ValueError) and is_refusal:
            raise
        raise OwnCodeError(f"{path}: {frame.name} failed: {_describe(error, path)}.") from error
    finally:
        _inside.is_own = before


@contextlib.contextmanager
def time_limit(seconds: float, remedy: str = "") -> Iterator[None]:
    """Stop what takes longer, where the system can: in the main thread, outside Windows."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(_number: int, _frame: object) -> None:
        raise _TooLong(f"it takes more than {seconds:g} seconds{remedy}")

    handler, timer = signal.signal(signal.SIGALRM, stop), signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)


def _find_frame(error: BaseException, path: Path) -> traceback.FrameSummary | None:
    """The innermost line of the file that led to an error."""
    linecache.checkcache(str(path))
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame for frame in reversed(frames) if Path(frame.filename) == path.absolute()), None)


def _describe(error: BaseException, path: Path) -> str:
    frame = _find_frame(error, path)
    kind = "" if isinstance(error, _TooLong) else f"{type(error).__name__}: "
    place = "" if frame is None else f" (line {frame.lineno}: {shorten(frame.line, 100)})"
    try:
        said = shorten(error).rstrip(".")
    except Exception:  # the file's own error may not even say what it is
        said = "an error that cannot be shown"
    return f"{kind}{said}{place}"
