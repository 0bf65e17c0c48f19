"""Functions whose keyword arguments come from a table, as typer, pydantic and Gradio read them."""

import inspect
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any


def name_keywords(function: Callable, annotations: Mapping[str, Any]) -> None:
    """Let a function's `**keywords` be seen as named parameters of these types, None where not given."""
    signature = inspect.signature(function)
    own = [one for one in signature.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
    named = [
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation)
        for name, annotation in annotations.items()
    ]
    function.__signature__ = signature.replace(parameters=[*own, *named])  # type: ignore[attr-defined]
    function.__annotations__ |= annotations
