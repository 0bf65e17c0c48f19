"""The app's page without a browser: what each tab keeps for links, and a page that is opened by one."""

import asyncio
import copy
import json
import os

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"

import gradio as gr

from demos import TABS
from demos.links import codec as links
from demos.links import open_link
from demos.session.catalog import build_catalog
from demos.session.page import Page
from demos.session.session import Session
from demos.tabs.train import tab as train

CATALOG = build_catalog()
NAMES = ("attention", "train", "try", "explore", "duel", "positions", "language")
DUEL = {"task": "Copy", "size": 5, "models": ["none", "transformer"], "parameters": "50 k"}
DUEL |= {"budget": "steps", "steps": "6", "seconds": "1", "seed": "3"}


async def build_page():  # outside an event loop Gradio opens some and never closes them
    """Return the handlers that open links, for every tab."""
    with gr.Blocks() as blocks:
        page = Page(blocks, gr.State(Session(device="cpu")), CATALOG)
        header = open_link.build_header([tab.TITLE.lower() for tab in TABS])
        with gr.Tabs() as page.tabs:
            for tab in TABS:
                with gr.Tab(tab.TITLE, id=tab.TITLE.lower()) as page.tab:
                    tab.build(page)
        return open_link.Opening(page, header, gr.State(None))


OPENING = asyncio.run(build_page())
KEPT = {name: [one for one in OPENING.page.linked_fields if one.tab == name] for name in NAMES}
LEARNED = {one.name: one for one in OPENING.page.linked_jobs}
FIELDS = {name: {n: part for one in KEPT[name] for n, part in one.fields.items()} for name in NAMES}


def weights_in(name):
    return [one.weights for one in KEPT[name] if one.weights is not None]


def values_of(name):
    """Return what the fields of a tab hold when the page is built; where a checkpoint lacks, the first."""
    values = {field: part.value for field, part in FIELDS[name].items()}
    values |= {field: str(CATALOG.folders[0][1]) for field in weights_in(name) if values[field] is None}
    return values | ({"text": "153+391"} if name in ("try", "explore") else {})


def state_of(name, session=None, **changes):
    """Return the state of a tab as Copy link describes it."""
    boards = {"explore-board": {"layer": 1, "head": 2, "row": 0, "key": None}}
    state, said = links.describe_view(
        KEPT[name], CATALOG, session or Session(), values_of(name) | changes, boards
    )
    return state, said


def opened(text, session=None, **states):
    """Return the updates with which a page opens at an address, by component, and what the header is told.

    Args:
        text: of the address.
        session: of whom it opens.
        **states: what learns there, by its name in a link; else fresh ones.
    """
    held = {LEARNED[name].state: state for name, state in states.items()}
    held[OPENING.page.session] = session or Session(device="cpu")
    given = [held[one] if one in held else copy.deepcopy(one.value) for one in OPENING.inputs]
    updates = OPENING.open_page(gr.Request(query_params={"view": text}), *given)
    return updates, json.loads(updates[OPENING.board])


def gone_on(updates, session):
    """Return the updates after the run has ended that `updates` began, and what the header is told."""
    given = {one: copy.deepcopy(one.value) for one in OPENING.inputs if one is not OPENING.page.session}
    given |= {OPENING.page.session: session, OPENING.pending: updates[OPENING.pending]}
    then = OPENING.go_on(*(given[one] for one in OPENING.inputs))
    return then, json.loads(then[OPENING.board])


def value_in(update):
    return update["value"] if isinstance(update, dict) else update


def trained_by(session):
    """Let the session's current run go on to its end; returns its weights."""
    for _ in train.follow(session):
        pass
    return session.run.model.state_dict()
