"""The doors of the app: every handler of the page and every named endpoint, sent what no field would send."""

import asyncio
import contextlib
import functools
import json
import os
from dataclasses import dataclass
from unittest.mock import patch

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"

import gradio as gr
from gradio import components
from gradio.components.api_component import Api
from gradio.state_holder import SessionState
from hypothesis import strategies as st
from starlette.requests import Request

from demos import build_app
from demos.server import api, input_guard
from demos.session.catalog import ModelCatalog, build_catalog
from demos.session.session import Session
from tests.hard.fuzz_draws import MARKUP, Door, Unexpected, one_of, texts, values

LONGEST_SAID = 400  # characters of what a visitor is told
BUNDLED = ("attn-copy", "attn-docstring-topics", "bahdanau-reverse")
ARGUMENTS = {  # of endpoints, by place; the others hold their defaults
    "train_model": ("copy", "", 1),
    "download": BUNDLED[:1],
    "write_answer": (BUNDLED[0], "7 3 2"),
    "attention_map": (BUNDLED[0], "7 3 2"),
}
UNSENDABLE = "1" * 5000  # a number that JSON is not read with
MOST_ANSWERS = 3  # of a handler that goes on answering


def as_json(value: object) -> str:
    """What a board of the page sends."""
    try:
        return json.dumps(value)
    except ValueError:
        return UNSENDABLE


sendable = values.filter(lambda value: as_json(value) != UNSENDABLE)
places = st.integers(-1, 5)
wholes = st.integers(-1, 70) | st.sampled_from([2**31, 2**53, -1, 0])
figures = st.lists(st.lists(texts, max_size=3), max_size=3)
EVENT = {  # what boards send, by name
    **dict.fromkeys(("id", "turn", "row", "column", "layer", "head", "query", "key", "token"), places),
    **dict.fromkeys(("scores", "weights", "outputs"), figures),
    **dict.fromkeys(("task", "run", "name", "changed", "text", "target"), texts),
    **dict.fromkeys(("locked", "hidden", "by_kind"), st.booleans()),
    "place": places,
    "kind": one_of(["encoder", "decoder", "cross"]),
    "what": one_of(["nothing", "head", "layer", "edge", "token"]),
    "how": one_of(["remove", "uniform", "permute"]),
    "runs": st.lists(texts, max_size=3),
    "boards": st.dictionaries(texts, sendable, max_size=2),
    "sent_at": st.floats(0, 1e12),
}
events = st.fixed_dictionaries({}, optional=EVENT) | st.fixed_dictionaries(EVENT) | sendable


@dataclass(frozen=True)
class Sent:
    """What is sent for an input: what the page holds, what the field can hold, or anything."""

    how: str
    text: str
    number: float
    choice: int
    anything: object


sent = st.builds(
    Sent,
    st.sampled_from(["held"] * 6 + ["fitting"] * 3 + ["anything"]),
    texts | st.sampled_from(["7 3 2", "153+391", "the time flies", "12", "0.5"]) | values.map(as_json),
    wholes | st.floats(0, 2),
    st.integers(0, 30),
    sendable,
)
calls = st.lists(
    st.tuples(st.integers(0, 10**6), st.lists(sent, min_size=1, max_size=6), events), min_size=1, max_size=3
)


@functools.cache
def find_app():
    folders = [folder for folder in build_catalog().folders if folder[1].name in BUNDLED]

    async def build():  # outside an event loop Gradio opens some and never closes them
        return build_app(ModelCatalog(tuple(folders)), "cpu")

    return asyncio.run(build())


@functools.cache
def list_handlers(is_named: bool) -> list:
    handlers = [fn for fn in find_app().fns.values() if fn.fn is not None]
    named = [fn for fn in handlers if isinstance(fn.api_name, str) and fn.api_visibility == "public"]
    return [fn for fn in handlers if (fn in named) == is_named]


@functools.cache
def find_state():
    return SessionState(find_app())  # takes long


def value_for(handler, place: int, given: Sent):
    """What is sent for an input of a handler."""
    part = handler.inputs[place]
    if part.stateful:
        return None
    if given.how == "anything":
        return given.anything
    is_held = given.how == "held"
    if isinstance(part, Api):
        known = ARGUMENTS.get(handler.name, ())
        return given.text if not is_held else known[place] if place < len(known) else part.value
    if is_held:
        return part.value
    if choices := getattr(part, "choices", None):
        return choices[given.choice % len(choices)][1]
    if isinstance(part, components.Number | components.Slider):
        return given.number
    return given.choice % 2 == 0 if isinstance(part, components.Checkbox) else given.text


def check_answer(outputs, answers) -> None:
    """AssertionError where markup of the input would be markup in the page."""
    for part, answer in zip(outputs, answers, strict=True):
        said = answer.get("value") if isinstance(answer, dict) else answer
        is_page = isinstance(part, components.HTML) and part.html_template == "${value}"
        if isinstance(said, str) and (is_page or isinstance(part, components.Markdown)):
            assert MARKUP not in said, f"markup in {part.elem_id}"
    json.dumps([answer for part, answer in zip(outputs, answers, strict=True) if not part.stateful])


async def call_handler(handler, state, given, event, query: str) -> None:
    inputs = [value_for(handler, place, given[place % len(given)]) for place in range(len(handler.inputs))]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": query.encode()}
    more = {"event_data": gr.EventData(None, event), "request": gr.Request(Request(scope))}
    iterator = None
    for _ in range(MOST_ANSWERS):
        answer = await find_app().process_api(handler, inputs, state, iterator=iterator, **more)
        check_answer(handler.outputs, answer["data"])
        iterator = answer["iterator"]
        if iterator is None or not answer["is_generating"]:
            return
    await iterator.aclose()


def visit(is_named: bool, asked: list[tuple], query: str) -> None:
    """One visitor's calls, one after another; a refusal is a ValueError.

    Nothing of the visit is kept: what the app keeps for a while would look as if memory grew.
    """
    state, handlers = find_state(), list_handlers(is_named)
    state.state_data.clear()
    refused = None
    try:
        for place, given, event in asked:
            handler = handlers[place % len(handlers)]
            try:
                with patch.object(api, "MOST_RUNS", 1):
                    asyncio.run(call_handler(handler, state, given, event, query))
            except gr.Error as error:
                refused = str(error.message)
                if error.__cause__ is not None and refused == input_guard.FAILED:
                    raise Unexpected(handler.name) from error.__cause__
                assert is_named or MARKUP not in refused, f"markup in a refusal of {handler.name}"
                assert len(refused) <= LONGEST_SAID, f"{handler.name} refused in {len(refused)} characters"
    finally:
        for value in list(state.state_data.values()):
            if isinstance(value, Session):
                with contextlib.suppress(FileNotFoundError):
                    value.close()
                    value.empty()
        state.state_data.clear()
    if refused is not None:
        raise ValueError(refused)


queries = texts.map(lambda text: text[:3000].encode("utf-8", "replace").decode())
DOORS = {
    "the page": Door(lambda asked, query: visit(False, asked, query), (calls, queries), (), 12),
    "endpoints": Door(lambda asked: visit(True, asked, ""), (calls,), (), 2),
}
