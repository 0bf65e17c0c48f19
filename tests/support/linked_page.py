"""The app's page without a browser: what each tab keeps for links, and a page that is opened by one."""

import asyncio
import json

import gradio as gr

from demos import TABS
from demos.links import codec as links
from demos.links import open_link
from demos.session.catalog import build_catalog
from demos.session.page import Page
from demos.session.session import Session

NAMES = tuple(tab.TITLE.lower() for tab in TABS if tab.TITLE != "Share")  # which pushes, and links nothing
DUEL = {"task": "Copy", "size": 5, "models": ["none", "transformer"], "parameters": "50 k"}
DUEL |= {"budget": "steps", "steps": "6", "seconds": "1", "seed": "3"}


class LinkedPage:
    """Every tab, built once, with the handlers that copy and open links.

    Attributes:
        catalog: of the bundled checkpoints.
        links: the handlers.
        kept: what a link holds of each tab.
        fields: the fields of each tab by their names in a link.
        jobs: what is trained again for a link, by its name in one.
    """

    def __init__(self):
        self.catalog = build_catalog()
        self.links = asyncio.run(self._build())  # outside an event loop Gradio opens some, never closed
        page = self.links.page
        self.kept = {name: [one for one in page.linked_fields if one.tab == name] for name in NAMES}
        self.fields = {
            name: {n: part for one in self.kept[name] for n, part in one.fields.items()} for name in NAMES
        }
        self.jobs = {one.name: one for one in page.linked_jobs}

    async def _build(self):
        with gr.Blocks() as blocks:
            page = Page(blocks, gr.State(self.session()), self.catalog)
            header = open_link.build_header([tab.TITLE.lower() for tab in TABS])
            with gr.Tabs() as page.tabs:
                for tab in TABS:
                    with gr.Tab(tab.TITLE, id=tab.TITLE.lower()) as page.tab:
                        tab.build(page)
            return open_link.Links(page, header)

    def session(self):
        return Session(self.catalog, device="cpu")

    def weights_in(self, name):
        return [one.weights for one in self.kept[name] if one.weights is not None]

    def values_of(self, name):
        """Return what a tab's fields hold when the page is built; where a checkpoint lacks, the first."""
        values = {field: part.value for field, part in self.fields[name].items()}
        first = str(self.catalog.folders[0][1])
        values |= {field: first for field in self.weights_in(name) if values[field] is None}
        return values | ({"text": "153+391"} if name in ("try", "explore") else {})

    def describe(self, name, session, boards, **changes):
        """Return the state of a tab with these boards, as Copy link describes it, and what it says."""
        values = self.values_of(name) | changes
        session.catalog = self.catalog
        return links.describe_view(self.kept[name], list(self.jobs.values()), session, values, boards)

    def state_of(self, name, session=None, **changes):
        """Return the state of a tab with a head chosen in Explore."""
        boards = {"explore-board": {"layer": 1, "head": 2, "row": 0, "key": None}}
        return self.describe(name, session or self.session(), boards, **changes)

    def read(self, text, session):
        """Return the first updates of an address, by component, and what the header is told."""
        session.catalog = self.catalog
        updates = self.links.read(session, gr.Request(query_params={"view": text}))
        return updates, self.told(updates)

    def open(self, text, session=None):
        """Open an address, and train what it needs; the last update of each component, and the header's.

        A link whose jobs take long is trained as if the visitor had wanted it.
        """
        session = session or self.session()
        changes, _ = self.read(text, session)
        changes = changes | (self.links.accept_link(session) if session.asked_link else {})
        for updates in self.links.open(session):
            changes |= updates
        return changes, self.told(changes)

    def told(self, updates):
        return json.loads(updates[self.links.board])


def value_in(update):
    return update["value"] if isinstance(update, dict) else update


def trained_by(session):
    """Let the session's current run go on to its end; returns its weights."""
    for _ in session.run.follow():
        pass
    return session.run.model.state_dict()
