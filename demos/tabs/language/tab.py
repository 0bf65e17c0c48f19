"""Language: tokens, order, n-grams and word vectors, a part each behind one choice."""

import gradio as gr

from ...session.page import Page
from ...ui import notices
from . import ngrams as language_ngrams
from . import tokens as language_tokens
from . import word_order, word_vectors

TITLE = "Language"
ASSETS = ("language.css", "language_board.js", "tokens.js", "word_order.js", "ngrams.js", "word_vectors.js")
PARTS = (language_tokens, word_order, language_ngrams, word_vectors)
ELSEWHERE = "Text is classified in Try, with its map and with what happens when a word is removed."


def build(page: Page) -> None:
    """Lay the tab out; which part is seen is decided by language.css alone, so that nothing is lost."""
    names = [part.TITLE for part in PARTS]
    with gr.Column(elem_classes="hf-parts"):
        with gr.Row(elem_classes="hf-part-choice"):
            part_shown = gr.Radio(
                names,
                value=names[0],
                show_label=False,
                interactive=True,  # no handler reads it, which Gradio takes for a display
                elem_classes="seg",
                elem_id="language-part",
                min_width=0,
            )
            gr.HTML(notices.note(ELSEWHERE))
        page.link_fields({"part": part_shown})
        for part in PARTS:
            with gr.Column(elem_classes="hf-part", elem_id=f"language-{part.NAME}", min_width=0):
                part.build_part(page)
