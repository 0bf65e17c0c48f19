"""The look of the app: its theme, and every style and script as one piece of `<head>`.

Nothing comes from another server. Light and dark: Gradio puts the class `dark` on `<body>` (the reader's
system setting, or `?__theme=dark`); every colour is a variable of tokens.css, and every canvas draws itself
again when that class changes.

Classes of layout: `gr.Row(elem_classes="hf-lead")` around look-for and origin,
`gr.Row(elem_classes="hf-work")` around a settings column (`gr.Column(elem_classes="hf-panel")`) and a column
with the board; those of Gradio's own components stand in gradio.css.
"""

from collections.abc import Iterable
from pathlib import Path

import gradio as gr

from hf_attn.viz import web

FOLDER = Path(__file__).parent
ASSETS = ("gradio.css", "app.css", "answers.js", "hide_answers.js", "fields.js")  # of the page as a whole
# names of installed fonts: Gradio's own themes would ask Google for theirs
FONT = ["Inter", "system-ui", "sans-serif"]
FONT_MONO = ["ui-monospace", "monospace"]
THEME = gr.themes.Base(font=FONT, font_mono=FONT_MONO)


def build_head(assets: Iterable[Path], script: str) -> str:
    """Every style and script of the app as one piece of `<head>`.

    `assets` are the tabs' own, loaded in this order after the canvas components and the page's; `script` is
    what they take from tables in Python. What a view saved as one page takes with it is marked; the style of
    such a page is not used here.
    """
    files = [*(FOLDER / name for name in ASSETS), *assets]
    styles = [file.read_text("utf-8") for file in files if file.suffix == ".css"]
    scripts = [file for file in files if file.suffix == ".js"]
    pieces = (
        ('style data-hf="canvas"', map(web.read_asset, web.STYLES)),
        ('style data-hf="canvas" media="not all"', [web.read_asset("export/page.css")]),
        ("style", styles),
        ('script data-hf="canvas"', [web.join_scripts(web.list_scripts())]),
        ("script", [web.join_scripts(scripts), script]),
    )
    return "\n".join("<{}>\n{}\n</{}>".format(tag, "\n".join(lines), tag.split()[0]) for tag, lines in pieces)
