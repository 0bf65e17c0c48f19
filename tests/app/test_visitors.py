"""Who may come to a server is decided once, at its launch: strangers everywhere but at home."""

import asyncio
import json
import urllib.error
import urllib.request

import pytest

pytest.importorskip("gradio")

import gradio as gr
from huggingface_hub import HfApi, constants, get_token
from huggingface_hub.utils import build_hf_headers

from demos import launch
from demos.core import limits
from demos.core.limits import HOME, PUBLIC, TRUSTED, choose_limits, is_loopback
from demos.server import input_guard
from demos.server.gate import MOST_BYTES, Gate, find_foreign
from tests.support.browser import find_free_port
from tests.support.hub_server import serve_hub
from tests.support.native_models import build_native
from tests.support.raw_requests import Caller, serve_logged

OWN, FOREIGN = "http://127.0.0.1", "http://evil.example"
TOO_LONG = {"task": "copy", "steps": PUBLIC.steps + 1}


# ---------------------------------------------------------------- whose limits
REFUSED = "opens no files of its own"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
def test_on_loopback_one_is_alone_unless_others_are_let_in(host, monkeypatch):
    monkeypatch.delenv("SPACE_ID", raising=False)
    assert choose_limits(host, share=False) == HOME
    assert choose_limits(host, share=True) == PUBLIC
    assert choose_limits(host, share=False, has_password=True) == PUBLIC
    assert (
        choose_limits(host, share=False, trusts=True)
        == choose_limits(host, share=True, trusts=True)
        == TRUSTED
    )
    monkeypatch.setenv("SPACE_ID", "ada/attn")
    assert choose_limits(host, share=False) == PUBLIC


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "", "no.such.host.invalid", "0"])
def test_on_any_other_address_visitors_are_strangers(host):
    assert not is_loopback(host)
    assert choose_limits(host, share=False) == PUBLIC
    assert choose_limits(host, share=False, trusts=True) == TRUSTED


def test_who_is_trusted_gets_as_much_as_at_home_but_neither_folders_nor_token():
    assert (TRUSTED.steps, TRUSTED.run_seconds, TRUSTED.parameters) == (
        HOME.steps,
        HOME.run_seconds,
        HOME.parameters,
    )
    assert not TRUSTED.takes_paths
    assert (HOME.own_token, TRUSTED.own_token, PUBLIC.own_token) == (None, False, False)


def test_a_token_that_visitors_may_not_use_is_forgotten(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_owner")
    monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "")
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", False)
    monkeypatch.setattr(limits, "_launched", [])
    assert build_hf_headers()["authorization"] == "Bearer hf_owner"
    limits.decide_limits(HOME)
    assert build_hf_headers()["authorization"] == "Bearer hf_owner"
    limits.decide_limits(TRUSTED)
    assert "authorization" not in build_hf_headers()
    assert get_token() != "hf_owner"


@pytest.mark.parametrize("options", [{"share": True}, {"server_name": "0.0.0.0"}])
def test_a_page_with_the_limits_of_home_is_launched_for_nobody_else(options, monkeypatch):
    monkeypatch.setattr(limits, "_launched", [HOME])
    with pytest.raises(ValueError, match="has home's limits"):
        asyncio.run(build_page()).launch(**options, prevent_thread_lock=True, quiet=True)


def test_a_server_that_listens_for_others_has_public_limits(monkeypatch):
    """What these let strangers do is asked of a Space, below; the launched process of its own is slow."""
    monkeypatch.delenv("SPACE_ID", raising=False)
    monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "")
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", False)
    monkeypatch.setattr(limits, "_launched", [])

    async def begin():
        return launch.start("0.0.0.0", find_free_port(), device="cpu")

    page, where = asyncio.run(begin())
    page.close()
    assert limits.limits_here() == PUBLIC
    assert page.max_file_size == PUBLIC.upload_bytes
    assert "Visitors are strangers" in where


async def build_page():  # outside an event loop Gradio opens some and never closes them
    with input_guard.GuardedBlocks() as page:
        gr.Textbox()
    return page


# ---------------------------------------------------------------- the gate


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:7860", None),
        ("localhost:7860", "http://localhost:7860"),
        ("[::1]:7860", "http://[::1]:7860"),
        ("attn.localhost", "http://attn.localhost"),
        ("LOCALHOST:1", "http://localhost:1"),
    ],
)
def test_this_machine_s_own_pages_pass(host, origin):
    assert find_foreign(headers_of(host, origin)) == ""


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("evil.example", None),
        ("evil.example:7860", "http://evil.example:7860"),
        ("127.0.0.1.evil.example", None),
        ("localhost.evil.example", None),
        ("127.0.0.1@evil.example", None),
        ("2130706433", None),
        ("", None),
        ("[", None),
        ("127.0.0.1:7860", "http://evil.example"),
        ("127.0.0.1:7860", "null"),
        ("127.0.0.1:7860", "http://localhost:7860"),
        ("127.0.0.1:7860", "http://127.0.0.1:8080"),
        ("127.0.0.1:7860", "http://["),
        ("192.0.2.1:7860", None),
    ],
)
def test_other_sites_scripts_and_names_that_lead_here_do_not(host, origin):
    assert find_foreign(headers_of(host, origin))


def test_two_hosts_or_none_are_foreign():
    one = (b"host", b"localhost")
    assert find_foreign([one, one])
    assert find_foreign([])


def headers_of(host, origin):
    return [(b"host", host.encode()), *([(b"origin", origin.encode())] if origin is not None else [])]


def test_a_web_socket_of_a_foreign_page_is_closed_before_the_app_hears_of_it():
    async def app(*_):
        raise AssertionError("heard of it")

    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "websocket", "path": "/", "headers": headers_of("localhost", FOREIGN)}
    asyncio.run(Gate(app, is_home=True)(scope, None, send))
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_what_the_gate_refuses_tells_the_browser_too_what_a_page_may_do():
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "path": "/", "headers": headers_of("localhost", FOREIGN)}
    asyncio.run(Gate(None, is_home=True)(scope, None, send))
    assert sent[0]["status"] == 403
    assert b"content-security-policy" in dict(sent[0]["headers"])


# ---------------------------------------------------------------- real servers


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A Hub with a private BERT that only its owner's token may read."""
    root = tmp_path_factory.mktemp("hub")
    with serve_hub(root) as hub:
        model, tokenizer = build_native("bert")
        for part in (model, tokenizer):
            part.save_pretrained(root / "bert")
        api = HfApi(endpoint=hub.endpoint, token=hub.token)
        api.create_repo("ada/bert", private=True)
        api.upload_folder(repo_id="ada/bert", folder_path=root / "bert")
        hub.folder = root / "bert"
        yield hub


def open_other(caller, name):
    """What Explore says under its field of a folder or Hub id; nothing where it opens it."""
    handler = next(
        fn
        for fn in caller.config["dependencies"]
        if [caller.components[part].get("elem_id") for part in fn["inputs"]][1:] == ["explore-other"]
    )
    done, outputs = caller.call(handler, [None, name])
    assert done, outputs
    return outputs[1]


@pytest.fixture(scope="module")
def served_home(hub, tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    with serve_logged(folder / "log", hub.environment(folder, hub.token)) as address:
        yield Caller(address), folder / "log"


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("host", marks=pytest.mark.nightly),
        "space",
        pytest.param("password-less trust", marks=pytest.mark.nightly),
    ],
)
def served_away(request, hub, tmp_path_factory):
    """A server to which others come, started by somebody whose token may read the private model."""
    folder = tmp_path_factory.mktemp("away")
    env = hub.environment(folder, hub.token)
    given = {
        "host": (env, [], "0.0.0.0"),
        "space": ({**env, "SPACE_ID": "ada/attn"}, [], "0.0.0.0"),
        "password-less trust": (env, ["--trust-visitors"], "127.0.0.1"),
    }
    env, options, host = given[request.param]
    with serve_logged(folder / "log", env, *options, host=host) as address:
        yield Caller(address), request.param


def test_at_home_folders_and_the_own_token_s_models_open(served_home, hub):
    caller, _ = served_home
    assert open_other(caller, str(hub.folder)) == ""
    assert open_other(caller, "ada/bert") == ""


def test_at_home_a_foreign_page_is_refused_whatever_a_proxy_says(served_home):
    caller, log = served_home
    port = caller.address.rpartition(":")[2]
    forwarded = {
        "x_forwarded_host": f"localhost:{port}",
        "x_forwarded_for": "127.0.0.1",
        "forwarded": "for=::1",
    }
    for headers in ({"host": "evil.example"}, {"host": "evil.example", **forwarded}, {"origin": FOREIGN}):
        status, text = caller.get("/config", **headers)
        assert status == 403
        assert "answers its own machine alone" in json.loads(text)["error"]
    assert caller.get("/config", origin=f"{OWN}:{port}")[0] == 200
    assert "from a page of http://evil.example" in log.read_text()


def test_away_from_home_neither_folders_nor_the_owner_s_token_open_anything(served_away, hub):
    caller, _ = served_away
    assert REFUSED in open_other(caller, str(hub.folder))
    assert "There is no repo ada/bert" in open_other(caller, "ada/bert")


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
    assert REFUSED in open_other(caller, str(hub.folder))


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


def test_with_a_password_nobody_comes_in_without_it(hub, tmp_path):
    env = {**hub.environment(tmp_path), "HF_ATTN_PASSWORD": "an öpen secret"}
    with serve_logged(tmp_path / "log", env) as address:
        caller = Caller(address)
        assert caller.config == {}
        assert caller.get("/config")[0] == 401
        for typed, status in (("wrong", 400), ("an öpen secret", 200)):
            form = f"username=anyone&password={typed}".replace(" ", "+").replace("ö", "%C3%B6")
            assert log_in(caller, form) == status


def log_in(caller, form):
    try:
        return urllib.request.urlopen(f"{caller.address}/login", form.encode(), timeout=600).status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_request_too_large_to_be_one_is_not_read_to_its_end(served_home):
    caller, _ = served_home
    status, _ = caller.post("/gradio_api/run/predict", {"data": ["x" * (MOST_BYTES + 1)], "fn_index": 0})
    assert status == 413
