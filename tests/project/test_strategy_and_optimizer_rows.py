"""What is added in one place is found everywhere: each `added_….py` here adds a row to a table at run time.

A process of its own imports the additions first, as if their rows stood in the tables; then it is the command
line, and says what the app offers.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMANDS = {
    "generate --help": ("epsilon: Epsilon", "--epsilon", "(default: 0.05)", "0.0<=x<=1.0"),
    "generate model_cards/attn-copy '7 3 2' --strategy epsilon --epsilon 0.3 --seed 5": ("7 3 2", "right"),
    "train --help": ("adamw, adafactor, muon, sgd",),
    "train copy --steps 2 --set max_length=4 --set optimizer=sgd --set hidden_size=16": ("2 steps in",),
}
PROGRAM = """
import contextlib, io, json, shlex, sys
import tests.project.added_optimizer, tests.project.added_strategy
from hf_attn.__main__ import main

def run(command):
    sys.argv = ["hf-attn", *shlex.split(command)]
    with contextlib.redirect_stdout(io.StringIO()) as output:
        try:
            main()
        except SystemExit as left:
            assert not left.code, command
    return output.getvalue()

printed = {command: run(command) for command in json.loads(sys.argv[1])}

from demos.app import HEAD, build_app
from demos.session.catalog import build_catalog
from gradio.utils import get_function_description
app = build_app(build_catalog())
fields = {part["props"].get("elem_id"): part["props"] for part in app.get_config_file()["components"]}
functions = {f"/{one.api_name}": one.fn for one in app.fns.values()}
named = app.get_api_info()["named_endpoints"]
endpoints = {name: [named[name], get_function_description(functions[name])] for name in named}
told = {"printed": printed, "fields": fields, "endpoints": endpoints, "head": HEAD}
print(json.dumps(told, default=str))
"""


@pytest.fixture(scope="module")
def told() -> dict:
    """What each command prints; the app's fields by elem_id, its endpoints by name, and its head."""
    pytest.importorskip("gradio")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(list(COMMANDS))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line_knows_what_was_added(told, command):
    printed = " ".join(told["printed"][command].split())
    assert [word for word in COMMANDS[command] if word not in printed] == []


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("try-strategy", ("epsilon",)),
        ("try-epsilon", ("Least probability", '"maximum": 0.5')),
        ("field-optimizer", ("Plain SGD", "sgd")),
    ],
)
def test_the_app_s_fields_offer_what_was_added(told, field, words):
    shown = json.dumps(told["fields"][field])
    assert [word for word in words if word not in shown] == []


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("/write", ('"epsilon"', "Least probability of a token; for epsilon")),
        ("/train", ("adamw or adafactor or muon or sgd",)),
    ],
)
def test_the_endpoints_describe_what_was_added(told, endpoint, words):
    described = json.dumps(told["endpoints"][endpoint])
    assert [word for word in words if word not in described] == []


def test_the_page_s_scripts_cut_as_what_was_added_says(told):
    assert "({ rank, before, p, most }, { epsilon }) => p >= epsilon || rank < 1" in told["head"]
