"""Tokens are found nowhere but in the header that the Hub gets, and nothing connects unless it was asked to.

Each test has one process of its own, which does everything: importing takes seconds.
"""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("gradio")

ROOT = Path(__file__).parents[2]

SHARING = """
import json, logging, os, sys, warnings
warnings.simplefilter("ignore")
logging.basicConfig(level=logging.DEBUG)
import torch
torch.set_num_threads(1)
from hf_attn.__main__ import main

def run(*arguments):
    sys.argv = ["hf-attn", *arguments]
    try:
        main()
    except SystemExit as left:
        return left.code or 0

logged_in = os.environ.pop("HF_TOKEN")
codes = [run("push", FOLDER, "ada/by-file")]  # with the token that HF_HOME holds
os.environ["HF_TOKEN"] = logged_in
codes.append(run("pull", "ada/by-file", "pulled"))
codes.append(run("push", FOLDER, "bob/copy", "--token-from-env", "READER", "--json"))
codes.append(run("pull", "ada/nothing", "nothing", "--token-from-env", "WRONG"))

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
from pathlib import Path
from demos.session.catalog import ModelCatalog
from demos.session.session import Session
from demos.tabs.share import handlers
import hf_attn.hub.push
hf_attn.hub.push.compare_answers = lambda *_: ()  # by a fresh process, as above
session = Session(ModelCatalog((("attn-copy (bundled)", Path(FOLDER)),)), device="cpu")
for token in ("TYPED", "WRONG"):
    values = {"checkpoint": FOLDER, "repository": f"by-app-{token.lower()}", "private": True}
    print(handlers.press_push(session, values | {"token": os.environ[token]}))
    for _ in session.state(handlers.PushJob).follow():
        print(handlers.show_push(session))
print(handlers.press_pull(session, {"hub_id": "ada/by-app-typed", "token": os.environ["TYPED"]}))
for _ in session.state(handlers.PullJob).follow():
    print(handlers.show_pull(session))
json.dump(codes, open("codes.json", "w"))
"""

ALONE = """
import asyncio, os, socket, sys, warnings
warnings.simplefilter("ignore")
attempts = []

def refuse(event, arguments):
    is_local = event == "socket.connect" and isinstance(arguments[1], (str, bytes))  # of this machine
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto") and not is_local:
        attempts.append((event, arguments[1:] if event == "socket.connect" else arguments))
        raise OSError("no network here")

sys.addaudithook(refuse)
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
import torch
torch.set_num_threads(1)
import hf_attn
from hf_attn.architectures.settings import apply_settings

task, recipe = apply_settings("copy", {"max_length": 4, "steps": 2, "batch_size": 4})
model = hf_attn.build_model(task, recipe)
assert len(list(hf_attn.train(task, model, recipe)))
hf_attn.generate_answer(model, torch.tensor([task.encode("7 2")]))
folder = hf_attn.save_checkpoint("saved", model, task, {})
for checkpoint in [folder, *hf_attn.list_checkpoints(CARDS)[::4]]:
    opened = hf_attn.load_checkpoint(checkpoint)
    text = opened.task.worked_example.source
    hf_attn.generate_answer(opened.model, torch.tensor([opened.task.encode(text)]), max_new_tokens=2)

from demos import build_app
from demos.session.catalog import build_catalog

async def build():
    return build_app(build_catalog(), "cpu").get_config_file()

assert len(asyncio.run(build())["components"]) > 100
assert attempts == [], attempts
try:
    hf_attn.open_model("nobody/nothing")
except (ValueError, OSError):
    pass
assert attempts, "the hook does not see a connection"
"""


def watch_commands(seen: set[bytes], ended: threading.Event) -> None:
    """Note the command line of every process, again and again."""
    while not ended.wait(0.02):
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                seen.add(path.read_bytes())
            except OSError:  # it ended
                continue


def files_with(folder: Path, tokens: list[str]) -> list[str]:
    """The files below a folder whose bytes or names hold a token."""
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        for token in tokens
        if token in str(path) or (path.is_file() and token.encode() in path.read_bytes())
    ]


def test_a_token_is_found_nowhere_but_in_the_header_that_the_hub_gets(hub, tiny_checkpoint, tmp_path):
    typed = hub.add_user("ada")
    tokens = {"HF_TOKEN": hub.token, "READER": hub.read_token, "TYPED": typed, "WRONG": "hf_plantedwrong"}
    secrets = list(tokens.values())
    for name in ("hf", "work", "tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "hf" / "token").write_text(hub.token)
    loud = {"HF_HUB_VERBOSITY": "debug", "HF_DEBUG": "1"}
    places = {"TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": str(ROOT)}
    commands: set[bytes] = set()
    ended = threading.Event()
    watcher = threading.Thread(target=watch_commands, args=(commands, ended))
    watcher.start()
    done = subprocess.run(
        [sys.executable, "-c", f"FOLDER = {str(tiny_checkpoint)!r}\n{SHARING}"],
        cwd=tmp_path / "work",
        env=hub.environment(tmp_path) | tokens | loud | places,
        capture_output=True,
        text=True,
    )
    ended.set()
    watcher.join()
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads((tmp_path / "work" / "codes.json").read_text()) == [0, 0, 1, 1]
    assert {"ada/by-file", "ada/by-app-typed"} <= {name for _, name in hub.store.names()}
    said = done.stdout + done.stderr
    assert "DEBUG" in said, "the log was to be loud"
    assert [token for token in secrets if token in said] == []
    assert any(b"verify_worker" in line or b"hf_attn" in line for line in commands)
    assert [line for line in commands for token in secrets if token.encode() in line] == []
    assert files_with(tmp_path, secrets) == ["hf/token"]
    assert files_with(Path(tiny_checkpoint), secrets) == []
    assert [path for _, path in hub.requests for token in secrets if token in path] == []
    carried = {name.lower() for name, value in hub.headers for token in secrets if token in value}
    assert carried == {"authorization"}
    assert {value for name, value in hub.headers if name.lower() == "authorization"} <= {
        f"Bearer {token}" for token in secrets
    }


def test_nothing_connects_unless_it_was_asked_to(tmp_path):
    dropped = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    home = {"HF_HOME": str(tmp_path / "hf"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", f"CARDS = {str(ROOT / 'model_cards')!r}\n{ALONE}"],
        cwd=tmp_path,
        env=kept | home,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
