"""The app's boards on a page without a server, and what a map looks like there."""

import contextlib
import re

import numpy as np

from demos.app import HEAD
from hf_attn.viz import web
from tests.support.browser import PATIENCE, listen

MOUNT = """([id, name, css, value]) => {
  const element = document.createElement("div");
  element.id = id;
  element.className = `${css}-block`;
  element.innerHTML = `<div class="${css} hf-board"></div>`;
  document.querySelector("main").append(element);
  const props = { value: JSON.stringify(value) };
  const watch = (_, changed) => {
    element.send = sent => { props.value = JSON.stringify(sent); changed(); };
  };
  hfAttn.mount(name, { id, element, props, watch, trigger: () => {} });
}"""


@contextlib.contextmanager
def open_board_page(chromium):
    """Give the page, with the app's one button; afterwards no script has failed."""
    page = chromium.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page.set_default_timeout(PATIENCE)
    complaints = listen(page)
    page.set_content(f"{HEAD}<body class='gradio-container'><button class=train></button><main></main>")
    yield page
    page.close()
    assert complaints == []


def mount(page, id, name, css, value):
    """Draw a board of this id and return where; `send` of that element gives it another value."""
    page.evaluate(MOUNT, [id, name, css, value])
    return page.locator(f"#{id}")


CELL_POINT = """(canvas, [rows, cols, row, col, at]) => {
  const host = canvas.parentElement, theme = hfAttn.themeOf(host), labels = { rows, cols, maxCell: 60 };
  const box = hfAttn.heatmapPaint.layout(canvas.getContext("2d"), host.clientWidth, theme, labels);
  return { x: box.x0 + (col + at) * box.w, y: box.y0 + (row + at) * box.h };
}"""
COLOUR = """(canvas, at) => {
  const [x, y] = [at.x * devicePixelRatio, at.y * devicePixelRatio];
  return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data].slice(0, 3);
}"""


def cell_point(canvas, labels, row, col, at=0.5):
    """Return where a cell lies in a map of these (rows, columns); at 0.5 is its middle, 0.15 its corner."""
    return canvas.evaluate(CELL_POINT, [*labels, row, col, at])


def colour_at(canvas, labels, row, col):
    """Return the colour in the corner of a cell as [r, g, b]."""
    return canvas.evaluate(COLOUR, cell_point(canvas, labels, row, col, 0.15))


def scale_colour(weight, theme="light"):
    """Return the colour of a weight by the stops in tokens.css, as [r, g, b]."""
    css = web.read_asset("core/tokens.css").split(".dark {")
    stops = dict(re.findall(r"--hf-att-(\d+): #(\w{6})", css[0] if theme == "light" else css[1]))
    rgb = np.array([[int(stops[str(i)][k : k + 2], 16) for k in (0, 2, 4)] for i in range(11)])
    return [float(np.interp(10 * weight, range(11), rgb[:, k])) for k in range(3)]
