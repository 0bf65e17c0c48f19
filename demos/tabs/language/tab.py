"""Language: tokens, order, n-grams and word vectors, a part each behind one choice."""

import gradio as gr

from ...session.page import Page
from ...ui import notices
from . import ngrams, tokens, word_order, word_vectors

TITLE = "Language"
ASSETS = ("language.css", "word_bars.js", "tokens.js", "word_order.js", "ngrams.js", "word_vectors.js")
PARTS = (tokens, word_order, ngrams, word_vectors)
ELSEWHERE = "Try classifies texts, with their maps and the effect of removing each word."


def build(page: Page) -> None:
    """Lay the tab out; language.css alone decides which part is seen, so that nothing is lost."""
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
