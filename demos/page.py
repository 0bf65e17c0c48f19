"""What the tabs of one page share while they are built."""

from dataclasses import dataclass, field

import gradio as gr

from demos.checkpoints import Shelf


@dataclass
class Page:
    """The page under construction.

    Attributes:
        blocks: the gr.Blocks.
        visit: gr.State of the visitor's Visit.
        shelf: checkpoints that everybody may open.
        device: what they train on, in words.
        places: how many runs train at once.
        tab: the gr.Tab being built.
        run_ended: events after which a visitor's runs have changed.
    """

    blocks: gr.Blocks
    visit: gr.State
    shelf: Shelf
    device: str = "CPU, float32"
    places: int = 2
    tab: gr.Tab | None = None
    run_ended: list = field(default_factory=list)
