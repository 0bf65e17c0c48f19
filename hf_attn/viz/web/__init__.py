"""The canvas components: what draws a map, a curve or a tree, in the app and in a page of its own.

Each script is an ES module, described at its top; `join_scripts` makes one script of them. Nothing comes from
another server. `read_asset` gives a file's text; the app's own boards lie beside its tabs. `encode_maps`
and `to_json` make the value of a board, `build_page` a whole page that holds the lens and its value.
"""

import base64
import functools
import html
import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from hf_attn import __version__
from hf_attn.models.config_checks import check_choice

FOLDER = Path(__file__).parent
STYLES = ("core/tokens.css", "core/canvas.css")
TYPE_IMPORT = re.compile(r"^/\*\* @import .*\*/\n", re.MULTILINE)  # for the checker alone
IMPORT = re.compile(r'^import (\{[^}]*\}) from "([^"]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (\{[^}]*\});\n", re.MULTILINE)
THEMES = ("auto", "light", "dark")


def read_asset(name: str) -> str:
    """Return the text of a style or a script."""
    return (FOLDER / name).read_text(encoding="utf-8")


def list_scripts() -> list[Path]:
    """List the modules of the components, in any order."""
    return sorted(FOLDER.glob("*/*.js"))


def join_scripts(files: Iterable[Path]) -> str:
    """Join ES modules into one script, each after those that it imports.

    A saved page can fetch nothing, and Gradio takes one text for the head of its page. So each module becomes
    a block, which takes what it imports from the global `hfAttn` and puts there what it exports.

    Args:
        files: modules that import by relative paths, never in a circle. What they import and is not among
            them must have been loaded before.
    """
    waiting = {file.resolve(): file.read_text("utf-8") for file in files}
    pieces = [f'"use strict";\nwindow.hfAttn ||= {{}};\nhfAttn.version = "{__version__}";']

    def add(file: Path) -> None:
        if (text := waiting.pop(file, None)) is None:
            return
        for _, path in IMPORT.findall(text):
            add((file.parent / path).resolve())
        text = TYPE_IMPORT.sub("", text)
        text = IMPORT.sub(lambda found: f"const {found[1].replace(' as ', ': ')} = hfAttn;\n", text)
        pieces.append("{\n" + EXPORT.sub(r"Object.assign(hfAttn, \1);\n", text) + "}")

    for file in list(waiting):
        add(file)
    return "\n".join(pieces)


def encode_maps(weights) -> str:
    """Pack weights between 0 and 1 for a board: little-endian uint16 in base64, weight = v / 65535.

    Args:
        weights: array or CPU tensor of any shape; send the shape beside it.
    """
    array = np.nan_to_num(np.asarray(weights, dtype=np.float64), nan=0.0)
    return base64.b64encode(np.round(np.clip(array, 0, 1) * 65535).astype("<u2").tobytes()).decode("ascii")


def pack_kind(weights, rows: Iterable[str], cols: Iterable[str], **more) -> dict[str, Any]:
    """Pack the maps of one kind of attention for the lens.

    Args:
        weights: [L, H, Q, K].
        rows: labels of Q.
        cols: labels of K.
        **more: of `LensKind` in board_values.d.ts; None is left out.
    """
    options = {name: value for name, value in more.items() if value is not None}
    packed = {
        "maps": encode_maps(weights),
        "shape": list(weights.shape),
        "rows": list(rows),
        "cols": list(cols),
    }
    return packed | options


def to_json(value) -> str | None:
    """Return the value of a board as text that a page passes on untouched; NaN and infinity become null.

    `<` is escaped: no page takes data for markup then, and gr.HTML, which warns of `<script`, is quiet.
    """
    if value is None:
        return None
    dump = functools.partial(json.dumps, ensure_ascii=False, allow_nan=False, default=_plain)
    try:
        text = dump(value)
    except ValueError:  # NaN or infinity; looking for them in each value would take longer than all the rest
        text = dump(_finite(value))
    return text.replace("<", "\\u003c")


def _plain(number):
    if isinstance(number, np.floating | np.integer | np.bool_):
        return float(number) if isinstance(number, np.floating) else number.item()
    kind = type(number).__name__
    raise TypeError(f"a board takes texts, numbers, lists and dicts, no {kind}: give .tolist() of an array.")


def _finite(value):
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    is_number = isinstance(value, float | np.floating)
    return None if is_number and not math.isfinite(value) else value


def build_page(value: dict[str, Any], title: str, theme: str = "auto") -> str:
    """Build one HTML page with the lens that holds its styles, scripts and data, and requests nothing.

    Args:
        value: of the lens, a `LensValue` of board_values.d.ts.
        title: of the page.
        theme: "light", "dark", or "auto" for what the reader's system is set to.

    Raises:
        ValueError: another theme.
    """
    check_choice("theme", theme, THEMES)
    parts = {
        "TITLE": html.escape(title),
        "THEME": theme,
        "STYLES": "\n".join(map(read_asset, (*STYLES, "export/page.css"))),
        "SCRIPTS": join_scripts(list_scripts()),
        "VALUE": to_json(value),
    }
    pieces = read_asset("export/page.html").split("%%")  # text, name of a part, text, …
    return "".join(str(parts[piece]) if place % 2 else piece for place, piece in enumerate(pieces))
