"""The page: every tab in order. A new tab is a folder in `tabs/` and an entry in TABS."""

import weakref
from pathlib import Path

import gradio as gr
import torch

from hf_attn.training.device import build_accelerator
from hf_attn.utils.freed_memory import give_freed_memory_back_soon

from .jobs.loop import has_zero_gpu
from .links import open_link
from .server import api, input_guard
from .session import reload
from .session.catalog import ModelCatalog
from .session.page import LIGHT, Page, state_of
from .session.session import Session
from .tabs.attention import tab as attention
from .tabs.duel import tab as duel
from .tabs.explore import tab as explore
from .tabs.language import tab as language
from .tabs.positions import tab as positions
from .tabs.share import tab as share
from .tabs.train import tab as train
from .tabs.try_it import tab as try_it
from .ui import formatting, theme

TABS = (attention, train, try_it, explore, duel, positions, language, share)
HEAD = theme.build_head(
    (Path(part.__file__).parent / name for part in (*TABS, open_link) for name in part.ASSETS),
    try_it.build_script(),
)
HOUR = 3600
GPU_PLACES = 4  # runs at once on a GPU; elsewhere two
# Between two looks at what is to be done: Gradio's own 1,000 a second take 5 % of a core, and the GIL.
LOOK_SECONDS = 0.01


def read_device(device: str) -> tuple[str, int]:
    """(the device that jobs train on, in words; how many train at once)."""
    if has_zero_gpu():
        return "GPU, lent a slice at a time, float32", GPU_PLACES
    kind = build_accelerator(device).device.type
    gpus = torch.cuda.device_count() if kind == "cuda" else 0
    return f"{formatting.DEVICES.get(kind, kind)}, float32", GPU_PLACES * gpus or 2


def build_app(catalog: ModelCatalog, device: str = "auto") -> gr.Blocks:
    """Build the page with these checkpoints; runs train on `device`: "auto", "cpu", "cuda" or "mps"."""
    here = weakref.WeakValueDictionary[str, Session]()  # of this app's open pages

    def arrive(session: Session, request: gr.Request) -> Session:
        here[request.session_hash] = session
        return session

    def leave(request: gr.Request) -> None:
        if (session := here.pop(request.session_hash, None)) is not None:
            session.close()
        app.uploads.sweep()
        endpoints.leave(request.session_hash)
        app.forget_left(reload.KEPT_SECONDS)
        give_freed_memory_back_soon()

    device_name, places = read_device(device)
    with input_guard.GuardedBlocks(
        title="hf_attn", delete_cache=(HOUR, HOUR), analytics_enabled=False
    ) as app:
        app.space_id = None  # with it a page asks the Hub for a header, and Google for the header's fonts
        session = state_of(Session(catalog, device=device), Session.close)
        page = Page(app, session, catalog, device_name, places)
        endpoints = api.build(page, device)  # first, so that no handler of a tab has taken their names
        header = open_link.build_header([tab.TITLE.lower() for tab in TABS])
        with gr.Tabs() as page.tabs:
            for tab in TABS:
                name = tab.TITLE.lower()
                with gr.Tab(tab.TITLE, id=name, elem_id=f"tab-{name}") as page.tab:
                    tab.build(page)
        reload.wire(page, open_link.Links(page, header))
        open_link.wire(page, header)
        app.load(arrive, session, session, **LIGHT)
        app.unload(leave)
    app.queue(max_size=40, default_concurrency_limit=4, api_open=False)  # nobody passes those who wait
    app._queue.sleep_when_free = LOOK_SECONDS
    input_guard.guard_queue(app._queue)
    return app
