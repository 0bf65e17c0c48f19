"""A server as in a Space: what strangers may do there, and events that no page sends.

Each of those ends in a sentence to the caller and at most one line in the log.
"""

import urllib.request

import pytest

from demos.core.limits import HOME, PUBLIC
from tests.support.matrix import rows
from tests.support.raw_requests import DEEP, Caller, serve_logged

REFUSED = "opens no files of its own"
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
CALLS = {f"event {name}": (list, event) for name, event in EVENTS.items()}
CALLS |= {f"values {name}": (change, {}) for name, change in VALUES.items()}
LONGEST_SENTENCE, LONGEST_LINE = 300, 400


@pytest.fixture(scope="module")
def served_space(hub, tmp_path_factory):
    """A server as in a Space, started by somebody whose token may read a private model, and its log."""
    folder = tmp_path_factory.mktemp("space")
    quiet = {"HF_HUB_DISABLE_PROGRESS_BARS": "1"}  # of weights that are loaded while it is asked
    env = {**hub.environment(folder, hub.token), "SPACE_ID": "ada/attn", **quiet}
    with serve_logged(folder / "log", env, host="0.0.0.0") as address:
        yield Caller(address), folder / "log"


@pytest.fixture(
    scope="module",
    params=[
        "space",
        pytest.param("host", marks=pytest.mark.nightly),
        pytest.param("password-less trust", marks=pytest.mark.nightly),
    ],
)
def served_away(request, hub, tmp_path_factory):
    """A server to which others come, and which it is."""
    if request.param == "space":
        yield request.getfixturevalue("served_space")[0], "space"
        return
    folder = tmp_path_factory.mktemp("away")
    options, host = {"host": ([], "0.0.0.0"), "password-less trust": (["--trust-visitors"], "127.0.0.1")}[
        request.param
    ]
    with serve_logged(folder / "log", hub.environment(folder, hub.token), *options, host=host) as address:
        yield Caller(address), request.param


def test_away_from_home_neither_folders_nor_the_owner_s_token_open_anything(served_away, hub):
    caller, _ = served_away
    assert REFUSED in caller.open_other(str(hub.folder))
    assert "There is no repo ada/bert" in caller.open_other("ada/bert")


def test_a_header_gives_no_stranger_the_rights_of_home(served_away, hub):
    caller, _ = served_away
    claims = {
        "x_forwarded_for": "127.0.0.1",
        "x_real_ip": "127.0.0.1",
        "host": "localhost",
        "forwarded": "for=::1",
    }
    handler = caller.find("train")
    body = {
        "data": ["copy", "", PUBLIC.steps + 1, 0, None],
        "fn_index": handler["id"],
        "session_hash": "claims",
    }
    assert caller.post("/gradio_api/queue/join", body, **claims)[0] == 200
    assert REFUSED in caller.open_other(str(hub.folder))


def test_strangers_train_within_public_limits_and_who_is_trusted_within_those_of_home(served_away):
    caller, kind = served_away
    steps = PUBLIC.steps + 1 if kind != "password-less trust" else HOME.steps + 1
    done, said = caller.call(caller.find("train"), ["copy", "", steps, 0, None])
    assert not done
    most = PUBLIC.steps if kind != "password-less trust" else HOME.steps
    assert f"{most:,}".replace(",", "\u202f") in said.replace("\u00a0", "\u202f")


def test_a_space_alone_lets_others_pages_show_it(served_away):
    caller, kind = served_away
    policy = urllib.request.urlopen(caller.address, timeout=600).headers["content-security-policy"]
    assert policy.endswith("frame-ancestors https:" if kind == "space" else "frame-ancestors 'self'")
    sources = {source for part in policy.split("; ")[:-1] for source in part.split()[1:]}
    assert sources <= {"'self'", "'none'", "'unsafe-inline'", "'unsafe-eval'", "data:", "blob:"}


# ---------------------------------------------------------------- events that no page sends


def complaints_of(caller, log, handler, values, event, where):
    """What is wrong with how an event ended; nothing where all is well."""
    before = log.stat().st_size
    done, said = caller.call(handler, values, event)
    written = log.read_text()[before:]
    if not done and not (isinstance(said, str) and 0 < len(said) <= LONGEST_SENTENCE):
        yield f"{where}: {said!r}"
    if (done and written) or len(written) > LONGEST_LINE or written.count("\n") > 1:
        yield f"{where}: in the log: {written[:300]}"


@pytest.mark.parametrize(
    "name",
    rows(
        CALLS,
        (
            *("event none", "event too deep", "event of other types", "event numbers beyond all"),
            *("values one too few", "values objects", "values a file of the server's"),
        ),
    ),
)
def test_whatever_is_sent_to_a_handler_ends_in_a_sentence_and_at_most_one_line(served_space, name):
    caller, log = served_space
    handlers = caller.handlers(queued=False)
    assert len(handlers) > 50
    complaints = []
    for handler in handlers:
        change, event = CALLS[name]
        values = change(caller.values_of(handler))
        complaints += complaints_of(caller, log, handler, values, event, handler["api_name"])
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
