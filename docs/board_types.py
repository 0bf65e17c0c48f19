"""Write `tests/web/board_values.d.ts`: the boards' values as TypeScript's checker reads them, in `Board`.

make board-types
"""

import json
import types
import typing
from collections.abc import Iterable
from pathlib import Path

from typing_extensions import get_type_hints, is_typeddict

from demos.ui import board_values
from hf_attn.viz import board_values as lens_values

PAGE = Path(__file__).parents[1] / "tests" / "web" / "board_values.d.ts"
HEAD = """\
/* What each board draws. Written by `make board-types` from hf_attn/viz/board_values.py and
   demos/ui/board_values.py, which say what the keys mean: change those. */
declare namespace Board {
"""
PLAIN = {
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
    object: "unknown",
}


def in_typescript(hint) -> str:
    """Return a type of Python in TypeScript's words."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.NotRequired:
        return in_typescript(parts[0])
    if origin is typing.Literal:
        return " | ".join(map(json.dumps, parts))
    if origin in (typing.Union, types.UnionType):
        return " | ".join(dict.fromkeys(map(in_typescript, parts)))
    if origin is list:
        return f"Array<{in_typescript(parts[0])}>"
    if origin is tuple:
        return f"[{', '.join(map(in_typescript, parts))}]"
    if origin is dict:
        return f"Record<{', '.join(map(in_typescript, parts))}>"
    if hint is type(None):
        return "null"
    return hint.__name__ if is_typeddict(hint) else PLAIN[hint]


def list_values() -> Iterable[type]:
    """List every TypedDict of a board's value, once."""
    found = {**vars(lens_values), **vars(board_values)}
    return [one for name, one in found.items() if is_typeddict(one) and not name.startswith("_")]


def describe(value: type) -> str:
    """Write one TypedDict as an interface."""
    keys = get_type_hints(value, include_extras=True)
    lines = [
        f"    {name}{'' if name in value.__required_keys__ else '?'}: {in_typescript(hint)};"
        for name, hint in keys.items()
    ]
    return "\n".join([f"  interface {value.__name__} {{", *lines, "  }", ""])


def write_types() -> str:
    """Write the whole file."""
    boards = [f"    {name}: {in_typescript(value)};" for name, value in board_values.BOARDS.items()]
    table = "\n".join(["  interface Values {", *boards, "  }", ""])
    return HEAD + "\n".join([*map(describe, list_values()), table]) + "}\n"


if __name__ == "__main__":
    PAGE.write_text(write_types(), encoding="utf-8")
