"""A tab as one adds it: this as `tab.py` in a folder of `demos/tabs/`, and an entry in TABS."""

import gradio as gr

TITLE = "Notes"
ASSETS = ()


def build(page):
    """Lay the tab out: a field that links carry."""
    page.link_fields({"note": gr.Textbox("What did you see?", label="Your notes", elem_id="notes")})
