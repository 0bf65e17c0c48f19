"""The app's page without a browser: what each tab keeps for links, and a page that is opened by one."""

import asyncio
import copy
import json

import gradio as gr

from demos import TABS
from demos.links import codec as links
from demos.links import open_link
from demos.session.catalog import build_catalog
from demos.session.page import Page
from demos.session.session import Session
from demos.tabs.train import tab as train

NAMES = tuple(tab.TITLE.lower() for tab in TABS if tab.TITLE != "Share")  # which pushes, and links nothing
DUEL = {"task": "Copy", "size": 5, "models": ["none", "transformer"], "parameters": "50 k"}
DUEL |= {"budget": "steps", "steps": "6", "seconds": "1", "seed": "3"}


class LinkedPage:
    """Every tab, built once, with the handlers that open links.

    Attributes:
        catalog: of the bundled checkpoints.
        opening: the handlers.
        kept: what a link holds of each tab.
        fields: the fields of each tab by their names in a link.
        jobs: what is trained again for a link, by its name in one.
    """

    def __init__(self):
        self.catalog = build_catalog()
        self.opening = asyncio.run(
            self._build()
        )  # outside an event loop Gradio opens some and never closes them
        fields, jobs = self.opening.page.linked_fields, self.opening.page.linked_jobs
        self.kept = {name: [one for one in fields if one.tab == name] for name in NAMES}
        self.fields = {
            name: {n: part for one in self.kept[name] for n, part in one.fields.items()} for name in NAMES
        }
        self.jobs = {one.name: one for one in jobs}

    async def _build(self):  # outside an event loop Gradio opens some and never closes them
        with gr.Blocks() as blocks:
            page = Page(blocks, gr.State(Session(self.catalog, device="cpu")), self.catalog)
            header = open_link.build_header([tab.TITLE.lower() for tab in TABS])
            with gr.Tabs() as page.tabs:
                for tab in TABS:
                    with gr.Tab(tab.TITLE, id=tab.TITLE.lower()) as page.tab:
                        tab.build(page)
            return open_link.Opening(page, header, gr.State(None))

    def weights_in(self, name):
        return [one.weights for one in self.kept[name] if one.weights is not None]

    def values_of(self, name):
        """Return what a tab's fields hold when the page is built; where a checkpoint lacks, the first."""
        values = {field: part.value for field, part in self.fields[name].items()}
        first = str(self.catalog.folders[0][1])
        values |= {field: first for field in self.weights_in(name) if values[field] is None}
        return values | ({"text": "153+391"} if name in ("try", "explore") else {})

    def describe(self, name, session, boards, learned=None, **changes):
        """Return the state of a tab with these boards, as Copy link describes it, and what it says."""
        values = self.values_of(name) | changes
        return links.describe_view(self.kept[name], self.catalog, session, values, boards, learned)

    def state_of(self, name, session=None, **changes):
        """Return the state of a tab with a head chosen in Explore."""
        boards = {"explore-board": {"layer": 1, "head": 2, "row": 0, "key": None}}
        return self.describe(name, session or Session(), boards, **changes)

    def open(self, text, session=None, **states):
        """Return the updates with which an address opens, by component, and what the header is told.

        Args:
            text: of the address.
            session: of whom it opens.
            **states: what learns there, by its name in a link; else fresh ones.
        """
        held = {self.jobs[name].state: state for name, state in states.items()}
        held[self.opening.page.session] = session = session or Session(device="cpu")
        session.catalog = self.catalog
        given = [held[one] if one in held else copy.deepcopy(one.value) for one in self.opening.inputs]
        updates = self.opening.open_page(gr.Request(query_params={"view": text}), *given)
        return updates, json.loads(updates[self.opening.board])

    def go_on(self, updates, session):
        """Return the updates after the run has ended that `updates` began, and what the header is told."""
        opening = self.opening
        given = {one: copy.deepcopy(one.value) for one in opening.inputs if one is not opening.page.session}
        given |= {opening.page.session: session, opening.pending: updates[opening.pending]}
        then = opening.go_on(*(given[one] for one in opening.inputs))
        return then, json.loads(then[opening.board])


def value_in(update):
    return update["value"] if isinstance(update, dict) else update


def trained_by(session):
    """Let the session's current run go on to its end; returns its weights."""
    for _ in train.follow(session):
        pass
    return session.run.model.state_dict()
