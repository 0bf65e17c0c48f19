"""Charts outside the app: what is drawn, and what is refused."""

import pytest

from hf_attn.viz.draw_chart import Chart, draw_chart


def test_the_same_chart_gives_the_same_bytes():
    chart = Chart("t", "x", "y", {"a": [(1, 2.0), (10, 3.0)]}, log_x=True, level=2.5, level_label="chance")
    for suffix, magic in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
        drawn = draw_chart(chart, suffix)
        assert drawn.startswith(magic)
        assert drawn == draw_chart(chart, suffix)


def test_charts_refuse_what_cannot_be_drawn():
    with pytest.raises(ValueError, match="at least one point"):
        Chart("t", "x", "y", {"a": []})
    with pytest.raises(ValueError, match="words and numbers"):
        Chart("t", "x", "y", {"a": [(1, 2.0), ("b", 2.0)]})
    with pytest.raises(ValueError, match=r"\.png, \.svg"):
        draw_chart(Chart("t", "x", "y", {"a": [(1, 2.0)]}), ".gif")
