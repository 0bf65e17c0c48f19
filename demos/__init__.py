"""The app: one module a tab. A new tab is a file here and an entry in TABS."""

import os

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # read when gradio is imported

import weakref

import gradio as gr

from demos import attention, duel, explore, language, positions, shared, train, trying
from demos.checkpoints import Shelf
from demos.page import Page
from demos.visits import Visit
from hf_attn.training import build_accelerator

TABS = (attention, train, trying, explore, duel, positions, language)
HOUR = 3600


def name_device(device: str) -> str:
    """Say what runs will train on."""
    kind = build_accelerator(device).device.type
    return f"{shared.DEVICES.get(kind, kind)}, float32"


def build_app(shelf: Shelf, device: str = "auto") -> gr.Blocks:
    """Build the page.

    Args:
        shelf: checkpoints that everybody may open.
        device: where runs train: "auto", "cpu", "cuda" or "mps".
    """
    here: weakref.WeakValueDictionary[str, Visit] = weakref.WeakValueDictionary()  # of this app's open pages

    def arrive(visit: Visit, request: gr.Request) -> Visit:
        here[request.session_hash] = visit
        return visit

    def leave(request: gr.Request) -> None:
        if (visit := here.pop(request.session_hash, None)) is not None:
            visit.close()

    places = 4 if name_device(device).startswith("GPU") else 2
    with gr.Blocks(title="hf_attn", delete_cache=(HOUR, HOUR), analytics_enabled=False) as app:
        visit = gr.State(Visit(device=device), time_to_live=12 * HOUR, delete_callback=Visit.close)
        page = Page(app, visit, shelf, name_device(device), places)
        gr.HTML(shared.header())
        with gr.Tabs():
            for tab in TABS:
                with gr.Tab(tab.TITLE, id=tab.TITLE.lower()) as page.tab:
                    tab.build(page)
        app.load(arrive, visit, visit, show_progress="hidden", api_visibility="private")
        app.unload(leave)
    return app.queue(max_size=40, default_concurrency_limit=4)
