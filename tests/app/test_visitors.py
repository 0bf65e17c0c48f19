"""Who may come to a server is decided once, at its launch: strangers everywhere but at home."""

import asyncio
import urllib.error
import urllib.request

import gradio as gr
import pytest
from huggingface_hub import constants, get_token
from huggingface_hub.utils import build_hf_headers

from demos import launch
from demos.core import limits
from demos.core.limits import HOME, PUBLIC, TRUSTED, choose_limits, is_loopback
from demos.server import input_guard
from demos.server.gate import Gate, find_foreign
from tests.support.browser import find_free_port
from tests.support.raw_requests import Caller, serve_logged

FOREIGN = "http://evil.example"


# ---------------------------------------------------------------- whose limits


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


def test_a_server_that_listens_for_others_has_public_limits_and_asks_for_its_password(monkeypatch):
    """What these limits let strangers do is asked of a Space, in test_space_server.py."""
    monkeypatch.delenv("SPACE_ID", raising=False)
    monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "")
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", False)
    monkeypatch.setattr(limits, "_launched", [])
    port = find_free_port()

    async def begin():
        return launch.start("0.0.0.0", port, device="cpu", password="an öpen secret")

    page, where = asyncio.run(begin())
    caller = Caller(f"http://127.0.0.1:{port}")
    assert caller.get("/config")[0] == 401
    for typed, status in (("wrong", 400), ("an öpen secret", 200)):
        form = f"username=anyone&password={typed}".replace(" ", "+").replace("ö", "%C3%B6")
        assert log_in(caller, form) == status
    page.close()
    assert limits.limits_here() == PUBLIC
    assert page.max_file_size == PUBLIC.upload_bytes
    assert "Visitors are strangers" in where


def log_in(caller, form):
    try:
        return urllib.request.urlopen(f"{caller.address}/login", form.encode(), timeout=600).status
    except urllib.error.HTTPError as error:
        return error.code


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


@pytest.mark.nightly  # the password that a launch is given is asked for above
def test_the_password_of_the_environment_is_asked_for(hub, tmp_path):
    env = {**hub.environment(tmp_path), "HF_ATTN_PASSWORD": "an öpen secret"}
    with serve_logged(tmp_path / "log", env) as address:
        assert Caller(address).config == {}
