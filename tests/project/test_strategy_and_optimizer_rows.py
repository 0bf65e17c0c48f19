"""What is added in one place is found everywhere: each `added_….py` here adds a row to a table at run time.

A process of its own imports the addition first, as if its row stood in the table; then it is the command
line, or says what the app offers.
"""

import functools
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMAND_LINE = "from hf_attn.__main__ import main; main()"
APP = """
import json
from demos.app import HEAD, build_app
from demos.session.catalog import build_catalog
from gradio.utils import get_function_description
app = build_app(build_catalog())
fields = {part["props"].get("elem_id"): part["props"] for part in app.get_config_file()["components"]}
functions = {f"/{one.api_name}": one.fn for one in app.fns.values()}
named = app.get_api_info()["named_endpoints"]
endpoints = {name: [named[name], get_function_description(functions[name])] for name in named}
print(json.dumps({"fields": fields, "endpoints": endpoints, "head": HEAD}, default=str))
"""


def run_with(addition: str, program: str, *arguments: str) -> str:
    """What a program prints in a process that has imported an addition."""
    told = subprocess.run(
        [sys.executable, "-c", f"import tests.project.{addition}\n{program}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert told.returncode == 0, told.stderr
    return told.stdout


@functools.cache
def offered_with(addition: str) -> dict:
    """The app's fields by elem_id, its endpoints by name, and its head."""
    pytest.importorskip("gradio")
    return json.loads(run_with(addition, APP).splitlines()[-1])


@pytest.mark.parametrize(
    ("addition", "command", "words"),
    [
        (
            "added_strategy",
            "generate --help",
            ("epsilon: drawn", "--epsilon", "(default: 0.05)", "0.0<=x<=1.0"),
        ),
        (
            "added_strategy",
            "generate model_cards/attn-copy '7 3 2' --strategy epsilon --epsilon 0.3 --seed 5",
            ("7 3 2", "right"),
        ),
        ("added_optimizer", "train --help", ("adamw, adafactor, sgd",)),
        (
            "added_optimizer",
            "train copy --steps 2 --set max_length=4 --set optimizer=sgd --set hidden_size=16",
            ("2 steps in",),
        ),
    ],
)
def test_the_command_line_knows_what_was_added(addition, command, words):
    told = " ".join(run_with(addition, COMMAND_LINE, *shlex.split(command)).split())
    assert [word for word in words if word not in told] == []


@pytest.mark.parametrize(
    ("addition", "field", "words"),
    [
        ("added_strategy", "try-strategy", ("epsilon",)),
        ("added_strategy", "try-epsilon", ("Least probability", '"maximum": 0.5')),
        ("added_optimizer", "field-optimizer", ("Plain SGD", "sgd")),
    ],
)
def test_the_app_s_fields_offer_what_was_added(addition, field, words):
    told = json.dumps(offered_with(addition)["fields"][field])
    assert [word for word in words if word not in told] == []


@pytest.mark.parametrize(
    ("addition", "endpoint", "words"),
    [
        ("added_strategy", "/write", ('"epsilon"', "Least probability of a token; for epsilon")),
        ("added_optimizer", "/train", ("adamw or adafactor or sgd",)),
    ],
)
def test_the_endpoints_describe_what_was_added(addition, endpoint, words):
    told = json.dumps(offered_with(addition)["endpoints"][endpoint])
    assert [word for word in words if word not in told] == []


def test_the_page_s_scripts_cut_as_what_was_added_says():
    told = offered_with("added_strategy")["head"]
    assert "({ rank, before, p, most }, { epsilon }) => p >= epsilon || rank < 1" in told
