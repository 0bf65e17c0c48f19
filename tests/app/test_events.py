"""Events that no page sends: each ends in a sentence to the caller and at most one line in the log."""

import os
import re

import pytest

pytest.importorskip("gradio")

import gradio as gr

from demos.core.events import RunEvent
from demos.tabs.explore.ablation_panel import AskEvent
from demos.tabs.train.tab import CompareEvent, RenameEvent
from tests.support.raw_requests import DEEP, Caller, serve_logged

NAMES = (
    "run",
    "row",
    "column",
    "head",
    "scores",
    "weights",
    "outputs",
    "turn",
    "id",
    "kind",
    "layer",
    "query",
    "key",
)
NAMES += ("name", "runs", "boards", "locked", "hidden", "what", "how", "token", "seed")
FILE = {"meta": {"_type": "gradio.FileData"}}
EVENTS = {
    "none": None,
    "empty": {},
    "a list": [1],
    "a text": "x",
    "too deep": {"run": DEEP, "row": DEEP},
    "of other types": {name: {"a": [1]} for name in NAMES},
    "numbers beyond all": dict.fromkeys(NAMES, 10**400),
    "below nothing": dict.fromkeys(NAMES, -1),
    "long texts": dict.fromkeys(NAMES, "x" * 3000),
    "a file of the server's": {"run": {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}},
}
VALUES = {  # of what a page would send, what is sent
    "one too few": lambda values: values[:-1],
    "none": lambda values: [],
    "two more": lambda values: [*values, 1, 2],
    "nulls": lambda values: [None] * len(values),
    "objects": lambda values: [{"a": 1}] * len(values),
    "long texts": lambda values: ["x" * 5000] * len(values),
    "a file of the server's": lambda values: [FILE | {"path": "/etc/passwd"}] * len(values),
    "a file of another's": lambda values: [FILE | {"path": "http://127.0.0.1:9/x"}] * len(values),
    "half a file": lambda values: [{"path": "/etc/passwd"}] * len(values),
}
LONGEST_SENTENCE, LONGEST_LINE = 300, 400


@pytest.fixture(scope="module")
def served_space(tmp_path_factory):
    """A server as in a Space, and its log."""
    log = tmp_path_factory.mktemp("space") / "log"
    env = {**os.environ, "SPACE_ID": "ada/attn", "HF_HUB_OFFLINE": "1"}
    with serve_logged(log, env) as address:
        yield Caller(address), log


def complaints_of(caller, log, handler, values, event, where):
    """What is wrong with how an event ended; nothing where all is well."""
    before = log.stat().st_size
    done, said = caller.call(handler, values, event)
    written = log.read_text()[before:]
    if not done and not (isinstance(said, str) and 0 < len(said) <= LONGEST_SENTENCE):
        yield f"{where}: {said!r}"
    if (done and written) or len(written) > LONGEST_LINE or written.count("\n") > 1:
        yield f"{where}: in the log: {written[:300]}"


def test_whatever_is_sent_to_a_handler_ends_in_a_sentence_and_at_most_one_line(served_space):
    caller, log = served_space
    handlers = caller.handlers(queued=False)
    assert len(handlers) > 50
    complaints = []
    for handler in handlers:
        values = caller.values_of(handler)
        calls = [(values, event, f"event {name}") for name, event in EVENTS.items()]
        calls += [(change(values), {}, f"values {name}") for name, change in VALUES.items()]
        for given, event, name in calls:
            where = f"{handler['api_name']}, {name}"
            complaints += complaints_of(caller, log, handler, given, event, where)
    assert complaints == []


def test_what_was_sent_is_quoted_as_text_where_a_page_shows_it_and_as_it_was_to_clients(served_space):
    caller, _ = served_space
    quoted = 0
    for handler in caller.handlers(queued=False):
        values = ["<img src=x>" for _ in handler["inputs"]]
        done, said = caller.call(handler, values, {})
        if not done and "img" in said:
            quoted += 1
            assert ("&lt;img" in said) == ("<img" not in said) == (handler["api_visibility"] != "public")
    assert quoted > 10
    done, said = caller.call(caller.find("write"), caller.arguments_of("write", checkpoint="<b>", text="1"))
    assert not done
    assert "<b>" in said


def test_the_same_holds_for_handlers_that_wait_their_turn(served_space):
    caller, log = served_space
    handlers = caller.handlers(queued=True)
    assert len(handlers) > 50
    complaints = []
    for handler in handlers:
        values = caller.values_of(handler)
        for given, event, name in ((values[:-1], {}, "too few"), (values, EVENTS["too deep"], "too deep")):
            if values or event:
                where = f"{handler['api_name']}, {name}"
                complaints += complaints_of(caller, log, handler, given, event, where)
    assert complaints == []


@pytest.mark.parametrize(
    "body",
    [
        {"data": [], "fn_index": 99_999},
        {"data": "x" * 5000, "fn_index": "x" * 5000},
        {"data": [DEEP], "fn_index": [DEEP]},
        [DEEP],
        {},
    ],
    ids=["no such handler", "texts", "lists", "a list", "nothing"],
)
@pytest.mark.parametrize("path", ["/gradio_api/run/predict", "/gradio_api/queue/join", "/gradio_api/call/x"])
def test_a_request_for_no_handler_is_refused_in_a_sentence_and_one_line(served_space, path, body):
    caller, log = served_space
    before = log.stat().st_size
    status, text = caller.post(path, body)
    assert status >= 400
    assert 0 < len(text) < 500
    written = log.read_text()[before:]
    assert written.count("\n") <= 1
    assert len(written) < LONGEST_LINE


@pytest.mark.parametrize(
    "session", ["\ud800", "x" * 100_000, "a b", "", 7], ids=["surrogate", "long", "space", "empty", "number"]
)
@pytest.mark.parametrize("queued", [True, False])
def test_a_session_of_a_strange_name_is_refused_and_spoils_nobody_s_log(served_space, session, queued):
    caller, log = served_space
    handler = caller.handlers(queued=queued)[0]
    body = {"data": caller.values_of(handler), "fn_index": handler["id"], "session_hash": session}
    path = "/gradio_api/queue/join" if queued else "/gradio_api/run/predict"
    assert caller.post(path, body)[0] >= 400
    before = log.stat().st_size
    caller.call(caller.find("checkpoints"), [])
    caller.call(caller.find("train"), ["no such task", "", 1, 0, None])
    assert log.read_text()[before:].count("\n") <= 1


def test_nobody_passes_those_who_wait(served_space):
    caller, _ = served_space
    for path in ("/gradio_api/run/train", "/gradio_api/api/train"):
        assert caller.post(path, {"data": ["copy", "", 1, 0, None]})[0] == 404


def test_after_all_that_the_server_still_answers(served_space):
    caller, log = served_space
    done, (names,) = caller.call(caller.find("checkpoints"), [])
    assert done
    assert "attn-copy" in names
    assert "Traceback" not in log.read_text()
    assert log.stat().st_size < 600_000


# ---------------------------------------------------------------- what an event holds


def test_an_event_has_the_values_that_its_class_names_and_defaults_for_the_others():
    assert RunEvent(None, {"run": "run-1", "more": 1}).run == "run-1"
    asked = AskEvent(None, {"what": "edge", "query": 2, "key": None})
    assert (asked.what, asked.how, asked.query, asked.key, asked.seed) == ("edge", "remove", 2, None, 0)
    assert RenameEvent(None, {"run": "run-1", "name": "Ada"}).name == "Ada"


@pytest.mark.parametrize(
    ("event", "data", "words"),
    [
        (RunEvent, None, "lacks its value “run”"),
        (RunEvent, {"run": 3}, "“run” cannot be taken"),
        (RunEvent, [1], "cannot be taken"),
        (CompareEvent, {"runs": ["a", 1]}, "“runs.1” cannot be taken"),
        (AskEvent, {"what": "all"}, "“what” cannot be taken"),
        (AskEvent, {"what": "head", "layer": -1}, "“layer” cannot be taken"),
        (AskEvent, {"what": "head", "layer": True}, "“layer” cannot be taken"),
        (AskEvent, {"what": "head", "seed": 2**31}, "“seed” cannot be taken"),
    ],
)
def test_what_is_missing_or_of_another_type_is_named(event, data, words):
    with pytest.raises(gr.Error, match=re.escape(words)):
        event(None, data)
