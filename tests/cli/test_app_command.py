"""`hf-attn app` before it serves: its options, and what is wrong with them in one line."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.browser import find_free_port
from tests.support.commands import in_process

ROOT = Path(__file__).parents[2]


@pytest.fixture
def taken_port():
    """A port on which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize(("arguments", "message"), [
    (["--port", "abc"], "--port abc is no whole number from 1 to 65535; give for example --port 7860."),
    (["--port", "70000"], "--port 70000 is no whole number from 1 to 65535;"),
    (["--password", ""], "--password is empty"),
    (["--password", "spring", "--mcp"], "leave one of --mcp and --password out"),
    (["--device", "abacus"], "'auto', 'cpu', 'cuda', 'mps'"),
    (["--host", "no.such.host.invalid"], "no.such.host.invalid:7860: "),
    (["--checkpoint", "/nowhere/at/all"], "There is no folder"),
])  # fmt: skip
def test_wrong_use_is_one_line_and_exit_code_2_also_where_the_environment_says_it(
    arguments, message, capsys, monkeypatch
):
    given = {"--port": "GRADIO_SERVER_PORT", "--password": "HF_ATTN_PASSWORD"}.get(arguments[0])
    if given and len(arguments) == 2:
        monkeypatch.setenv(given, arguments[1])
        code, _, errors = in_process(
            capsys, "app", *([] if "PORT" in given else ["--port", find_free_port()])
        )
        assert (code, message in errors) == (2, True)
        monkeypatch.delenv(given)
    port = [] if {"--port", "--host"} & {*arguments} else ["--port", find_free_port()]
    code, _, errors = in_process(capsys, "app", *port, *arguments)
    assert code == 2
    assert errors.startswith("hf-attn: ")
    assert errors.count("\n") == 1
    assert message in errors


def test_without_gradio_it_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    code, _, errors = in_process(capsys, "app", "--port", find_free_port())
    assert (code, errors.count("\n")) == (1, 1)
    assert "pip install 'hf-attn[app]'" in errors


def test_app_py_is_the_same_command(taken_port):
    """A process of its own, which ends before it imports what takes seconds."""
    command = [sys.executable, "app.py", "--port", str(taken_port)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, timeout=600)
    assert done.returncode == 2
    wrong = f"127.0.0.1:{taken_port}: the port is taken: stop what runs there, or choose another"
    assert done.stderr.startswith(f"hf-attn: {wrong} by --port {taken_port + 1}.")
    assert done.stderr.count("\n") == 1
