"""A model card as the Hub will show it: Markdown without its HTML, and no picture but the folder's own."""

import base64
import html
import re
from pathlib import Path

from markdown_it import MarkdownIt

from hf_attn.checkpoints.validate import PICTURES
from hf_attn.utils.folder_files import find_file, read_file

from ...ui import notices

CARD = "README.md"
METADATA = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
LARGEST_CARD, LARGEST_PICTURE = 5_000_000, 2_000_000  # bytes
SCROLLED = '<pre tabindex="0">'  # what scrolls can be reached by the keyboard
KINDS = {".png": "image/png", ".svg": "image/svg+xml"}


def read_card(folder: Path) -> str:
    """A folder's card, empty where it has none; ValueError where it may not be read."""
    if find_file(folder, CARD) is None:
        return ""
    return read_file(folder, CARD, LARGEST_CARD).decode("utf-8", errors="replace")


def render_card(folder: Path) -> str:
    """HTML of a folder's card; HTML in the card is shown as text.

    Nothing is loaded from elsewhere: a picture is one of the folder's own files, or its description.
    """
    text = read_card(folder)
    if not text:
        return notices.note("This checkpoint has no card.")
    metadata = METADATA.match(text)
    body = text[metadata.end() :] if metadata else text
    rendered = _renderer(folder).render(body).replace("<pre>", SCROLLED)
    block = f"{SCROLLED}{html.escape(metadata[1])}</pre>" if metadata else ""
    head = f"<details><summary>Metadata for the Hub</summary>{block}</details>"
    return f'<article class="hf-card">{head if metadata else ""}{rendered}</article>'


def _renderer(folder: Path) -> MarkdownIt:
    """Markdown with tables and without raw HTML; links open in a new tab."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")

    def image(tokens, index, *_) -> str:
        name, alt = str(tokens[index].attrGet("src")), html.escape(tokens[index].content)
        try:
            if "/" in name or not name.endswith(PICTURES):
                raise ValueError(f"{name!r} is no picture of the folder's own.")
            data = base64.b64encode(read_file(folder, name, LARGEST_PICTURE)).decode("ascii")
        except (ValueError, OSError):
            return f"<em>{alt}</em>"
        return f'<img src="data:{KINDS[Path(name).suffix]};base64,{data}" alt="{alt}">'

    def link_open(tokens, index, options, env) -> str:
        tokens[index].attrSet("target", "_blank")
        tokens[index].attrSet("rel", "noopener noreferrer nofollow")
        return markdown.renderer.renderToken(tokens, index, options, env)

    markdown.renderer.rules["image"] = image
    markdown.renderer.rules["link_open"] = link_open
    return markdown
