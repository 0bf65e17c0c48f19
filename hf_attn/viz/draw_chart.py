"""Charts of measurements as PNG or SVG: lines over numbers, or bars over names."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hf_attn.models.config_checks import check_choice
from hf_attn.viz.draw_map import INK

# Okabe & Ito 2008: told apart by people of every colour vision; yellow, too light on white, is left out.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
FORMATS = (".png", ".svg")


@dataclass(frozen=True)
class Chart:
    """The contents of a chart.

    `series` are points (x, y) by name: where x are numbers a line joins them; words have a bar each. A dotted
    line shows `level`, a y such as chance, and `level_label` says what it is.
    """

    title: str
    x_label: str
    y_label: str
    series: Mapping[str, Sequence[tuple[float | str, float]]]
    log_x: bool = False
    log_y: bool = False
    level: float | None = None
    level_label: str = ""

    def __post_init__(self) -> None:
        if not any(self.series.values()):
            raise ValueError("series is empty: give at least one point, {name: [(x, y)]}.")
        if len({isinstance(x, str) for points in self.series.values() for x, _ in points}) > 1:
            raise ValueError("series mixes words and numbers on the x axis: give one kind.")

    @property
    def has_bars(self) -> bool:
        """Whether x are words."""
        return any(isinstance(x, str) for points in self.series.values() for x, _ in points)


def draw_chart(chart: Chart, suffix: str) -> bytes:
    """A chart as the content of a ".png" or ".svg" file; the same chart gives the same bytes.

    ValueError for another suffix.
    """
    check_choice("suffix", suffix, FORMATS)
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    settings: dict = {"svg.fonttype": "none", "svg.hashsalt": "hf_attn", "font.family": "DejaVu Sans"}
    with matplotlib.rc_context(settings):
        axes = figure.add_subplot()
        (_paint_bars if chart.has_bars else _paint_lines)(axes, chart)
        _paint_frame(axes, chart)
        stream = io.BytesIO()
        date = {"Date": None} if suffix == ".svg" else {}
        figure.savefig(stream, format=suffix[1:], dpi=160, metadata=date)
    return stream.getvalue()


def _paint_lines(axes, chart: Chart) -> None:
    for index, (name, points) in enumerate(chart.series.items()):
        style = {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}
        axes.plot(*zip(*points, strict=True), label=name, markersize=5, linewidth=1.6, **style)


def _paint_bars(axes, chart: Chart) -> None:
    words = list(dict.fromkeys(x for points in chart.series.values() for x, _ in points))
    width = 0.8 / len(chart.series)
    for index, (name, points) in enumerate(chart.series.items()):
        places = [words.index(x) + (index - (len(chart.series) - 1) / 2) * width for x, _ in points]
        bars = axes.bar(
            places, [y for _, y in points], width, label=name, color=COLOURS[index % len(COLOURS)]
        )
        axes.bar_label(bars, fmt="{:.3g}", fontsize=8, padding=2)
    axes.set_xticks(range(len(words)), words)


def _paint_frame(axes, chart: Chart) -> None:
    if chart.log_x:
        axes.set_xscale("log")
    if chart.log_y:
        axes.set_yscale("log")
    if chart.level is not None:
        axes.axhline(chart.level, color=INK, linestyle=":", linewidth=1, label=chart.level_label or None)
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    axes.grid(axis="y", color="#dde0e4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(y=0.12)
    axes.legend(frameon=False, fontsize=9)
    axes.set_title(chart.title.replace("$", r"\$"), color=INK, fontsize=11, loc="left")
