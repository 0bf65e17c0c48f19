"""One head's attention map as a file: PNG, SVG, a self-contained HTML page, NPZ, CSV."""

import csv
import functools
import io
import os
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from hf_attn.interpret.attention_maps import AttentionMaps
from hf_attn.utils.atomic_write import write_file
from hf_attn.utils.text import quote
from hf_attn.viz.web import build_page, pack_kind, read_asset

# Weight 0, 0.1, … 1: the light --hf-att-0…10 of the lens, equal steps in OKLab. A weight of exactly 0 stays
# white: it is nearly always that of a token which may not be read. The page knows the mask and hatches those.
ATTENTION_COLOURS = tuple(re.findall(r"--hf-att-\d+: (#\w+)", read_asset("core/tokens.css"))[:11])
INK, QUERY, KEY = "#161b24", "#8c1060", "#017b55"
QUERY_AXIS, KEY_AXIS = "query: reads", "key: is read"
CELLS_WITH_NUMBERS = 24  # keys up to which a weight fits into its cell
LONGEST_LABEL = 14
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with which a spreadsheet's formula begins
WIDE_FONTS = (  # those of usual systems, if they are there
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Zen Hei", "PingFang SC"),
    *("Hiragino Sans", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "Noto Emoji"),
)
Alignment = Sequence[Sequence[int]]


def choose_head(
    maps: AttentionMaps, kind: str, layer: int, head: int
) -> tuple[torch.Tensor, tuple[str, ...], tuple[str, ...]]:
    """One head's map out of all: (weights [Q, K], the queries' tokens, the keys' tokens).

    ValueError where the model has no such attention, or no such layer or head, both from 0.
    """
    if kind not in maps.kinds:
        raise ValueError(f"kind={quote(kind)}: this model has {', '.join(maps.kinds)} attention.")
    weights = getattr(maps, kind)
    for name, index, size in (("layer", layer, weights.shape[0]), ("head", head, weights.shape[1])):
        if not 0 <= index < size:
            raise ValueError(f"{name}={index} is not there: {kind} attention has {name}s 0 to {size - 1}.")
    return weights[layer, head], *maps.sides(kind)


def draw_map(
    weights: torch.Tensor | np.ndarray,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    path: str | os.PathLike,
    alignment: Alignment | None = None,
    title: str = "",
) -> Path:
    """Write one head's attention map to a file, whole or not at all.

    Args:
        weights: [Q, K] from 0 to 1; row q is what query q reads.
        query_tokens: Q labels.
        key_tokens: K labels.
        path: its suffix chooses the format: .png, .svg, .html, .npz or .csv.
        alignment: [Q][K], 1 where a query is known to need a key, 2 where indirectly; ringed. Left out where
            its shape is another, as it is for an answer of a wrong length.
        title: stands above.

    Returns:
        The path.

    Raises:
        ValueError: another suffix, or labels that do not fit the weights.
    """
    path = Path(path)
    check_suffix(path)
    grid = np.asarray(weights, dtype=np.float64)
    if grid.shape != (len(query_tokens), len(key_tokens)):
        raise ValueError(
            f"weights has shape {list(grid.shape)}, but there are {len(query_tokens)} query and "
            f"{len(key_tokens)} key tokens: give one token a row and a column."
        )
    known = None if alignment is None else np.asarray(alignment)
    if known is not None and known.shape != grid.shape:
        known = None
    content = WRITERS[path.suffix](grid, tuple(query_tokens), tuple(key_tokens), known, title)
    return write_file(path, content)


def save_maps(maps: AttentionMaps, path: str | os.PathLike) -> Path:
    """Write every layer's and head's weights and the tokens to an .npz file, whole or not at all.

    Its arrays: encoder [L, H, S, S], decoder [L, H, T, T], cross [L, H, T, S] (those that there are),
    source_tokens, target_tokens, decoder_tokens. It holds no pickles.
    """
    arrays = {
        name: np.asarray(value)
        for name in ("encoder", "decoder", "cross", "source_tokens", "target_tokens", "decoder_tokens")
        if (value := getattr(maps, name)) is not None
    }
    return write_file(Path(path), _npz(**arrays))


def check_suffix(path: str | os.PathLike) -> None:
    """Refuse a format that cannot be written."""
    if (suffix := Path(path).suffix) not in WRITERS:
        raise ValueError(
            f"{quote(str(path), 300)} ends in {quote(suffix)}; choose one of {', '.join(WRITERS)}."
        )


def colour_of(weight: float) -> str:
    """The colour of a weight from 0 to 1, between the two nearest stops.

    >>> colour_of(0), colour_of(0.1), colour_of(1)
    ('#ffffff', '#c5e5f6', '#181547')
    """
    if weight <= 0:
        return "#ffffff"
    place = min(weight, 1.0) * (len(ATTENTION_COLOURS) - 1)
    below = min(int(place), len(ATTENTION_COLOURS) - 2)
    pairs = zip(_channels(ATTENTION_COLOURS[below]), _channels(ATTENTION_COLOURS[below + 1]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (place - below)):02x}" for a, b in pairs)


def write_weight(weight: float) -> str:
    """A weight as it stands in a cell: `.46`, `0` below .005, `1` above .995.

    >>> write_weight(0.456), write_weight(0.001), write_weight(0.999)
    ('.46', '0', '1')
    """
    if weight < 0.005:
        return "0"
    return "1" if weight > 0.995 else f"{weight:.2f}".removeprefix("0")


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[place : place + 2], 16) for place in (1, 3, 5))


def _number_colour(weight: float) -> str:
    """Black or white, whichever is read better on a weight's colour (WCAG relative luminance)."""
    linear = [
        c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4
        for c in (channel / 255 for channel in _channels(colour_of(weight)))
    ]
    return "#000000" if 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.179 else "#ffffff"


def _clip(token: str) -> str:
    return token if len(token) <= LONGEST_LABEL else token[: LONGEST_LABEL - 1] + "…"


def _picture(
    suffix: str, grid: np.ndarray, queries: tuple, keys: tuple, known: np.ndarray | None, title: str
) -> bytes:
    import matplotlib
    from matplotlib.figure import Figure

    rows, columns = grid.shape
    cell = 0.42 if columns <= CELLS_WITH_NUMBERS else max(0.12, 10 / columns)  # inches
    figure = Figure(figsize=(columns * cell + 2.2, rows * cell + 2.0), layout="constrained")
    families = _find_families()
    settings: dict = {"svg.fonttype": "none", "svg.hashsalt": "hf_attn", "font.family": families}
    if suffix != "svg":  # where text stays text, the reader's own fonts draw it
        queries, keys = (tuple(_spell(token, families) for token in side) for side in (queries, keys))
        title = _spell(title, families)
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # measured only, in an SVG
        _paint(figure, grid, queries, keys, known, title)
        stream = io.BytesIO()
        date = {"Date": None} if suffix == "svg" else {}
        figure.savefig(stream, format=suffix, dpi=160, metadata=date)
    return stream.getvalue()


@functools.cache
def _find_families() -> tuple[str, ...]:
    """The fonts of a picture that are here: one for most scripts, then Chinese, Japanese and Korean ones."""
    from matplotlib import font_manager

    installed = {font.name for font in font_manager.fontManager.ttflist}
    return ("DejaVu Sans", *(name for name in WIDE_FONTS if name in installed))


@functools.cache
def _signs_of(family: str) -> frozenset[int]:
    from matplotlib import font_manager

    return frozenset(font_manager.get_font(font_manager.findfont(family)).get_charmap())


def _spell(text: str, families: tuple[str, ...]) -> str:
    """A text whose signs without a shape in any font are spelled as code points, never as empty boxes."""
    return "".join(
        sign if any(ord(sign) in _signs_of(family) for family in families) else f"<U+{ord(sign):04X}>"
        for sign in text
    )


def _paint(
    figure, grid: np.ndarray, queries: tuple, keys: tuple, known: np.ndarray | None, title: str
) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Circle

    axes = figure.add_subplot()
    ramp = LinearSegmentedColormap.from_list("attention", ATTENTION_COLOURS, N=1001)
    colours = ramp.with_extremes(bad="#ffffff")
    image = axes.imshow(np.ma.masked_less_equal(grid, 0), cmap=colours, vmin=0, vmax=1)
    if len(keys) <= CELLS_WITH_NUMBERS:
        for row, column in np.ndindex(grid.shape):
            weight = float(grid[row, column])
            if weight >= 0.05 or len(keys) <= 12:
                style = {"ha": "center", "va": "center", "fontsize": 8, "color": _number_colour(weight)}
                axes.text(column, row, write_weight(weight), **style)
    for row, column in () if known is None else np.argwhere(known > 0):
        dotted = ":" if known[row, column] > 1 else "-"  # type: ignore[index]
        edge = _number_colour(float(grid[row, column]))
        axes.add_patch(Circle((column, row), 0.44, fill=False, linestyle=dotted, linewidth=1, edgecolor=edge))
    upright = max(map(len, keys)) <= 4
    axes.set_xticks(
        range(len(keys)), map(_clip, keys), rotation=0 if upright else 45, ha="center" if upright else "left"
    )
    axes.set_yticks(range(len(queries)), map(_clip, queries))
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0, labelsize=9)
    axes.xaxis.set_label_position("top")
    axes.set_xlabel(f"{KEY_AXIS} →", color=KEY, fontweight="bold")
    axes.set_ylabel(f"← {QUERY_AXIS}", color=QUERY, fontweight="bold")
    axes.set_xticks(np.arange(-0.5, len(keys)), minor=True)
    axes.set_yticks(np.arange(-0.5, len(queries)), minor=True)
    axes.grid(which="minor", color="#ffffff", linewidth=1 if len(keys) <= CELLS_WITH_NUMBERS else 0)
    axes.tick_params(which="minor", length=0)
    axes.spines[:].set_color("#dde0e4")
    legend = "weight" if known is None else "weight; ring: known to be needed (dotted: indirectly)"
    figure.colorbar(image, ax=axes, location="bottom", shrink=0.8, aspect=30, label=legend)
    if title:
        figure.suptitle(title.replace("$", r"\$"), color=INK, fontsize=11)


def _csv(grid: np.ndarray, queries: tuple, keys: tuple, *_: object) -> bytes:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow([f"{QUERY_AXIS} ↓ / {KEY_AXIS} →", *map(_label, keys)])
    writer.writerows(
        [_label(token), *(f"{weight:.9g}" for weight in row)]
        for token, row in zip(queries, grid, strict=True)
    )
    return stream.getvalue().encode("utf-8-sig")  # spreadsheets take it for UTF-8 by its mark


def _label(token: str) -> str:
    """A token as a spreadsheet's cell: a leading = + - @ would run as a formula there."""
    return f"'{token}" if token.startswith(FORMULA) else token


def _npz(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def _npz_of_map(grid: np.ndarray, queries: tuple, keys: tuple, known: np.ndarray | None, title: str) -> bytes:
    alignment = {} if known is None else {"alignment": known}
    tokens = {"query_tokens": np.asarray(queries), "key_tokens": np.asarray(keys), "title": np.asarray(title)}
    return _npz(weights=grid.astype(np.float32), **tokens, **alignment)


def _page(grid: np.ndarray, queries: tuple, keys: tuple, known: np.ndarray | None, title: str) -> bytes:
    truth = None if known is None else known.tolist()
    kinds = {"attention": pack_kind(grid[None, None], queries, keys, truth=truth)}
    value = {"kinds": kinds, "title": title, "query": 0, "key": int(grid[0].argmax())}
    return build_page(value, title or "Attention").encode("utf-8")


WRITERS: dict[str, Callable[..., bytes]] = {
    ".png": functools.partial(_picture, "png"),
    ".svg": functools.partial(_picture, "svg"),
    ".html": _page,
    ".npz": _npz_of_map,
    ".csv": _csv,
}
