"""A new thing is one file and one row: the fixtures `added_*.py` beside this are added as one would add them.

One process has their rows in its tables. What is new is then found in the command line, learns there and is
opened again, and stands on the app's page and in its endpoints, without another line. CONTRIBUTING.md names
the two places of each.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALL = "--steps 2 --set max_length=4 --set hidden_size=16"
COMMANDS = {  # in this order; what each says
    "generate --help": ("epsilon: Epsilon", "--epsilon", "(default: 0.05)", "0.0<=x<=1.0"),
    "generate model_cards/attn-copy '7 3 2' --strategy epsilon --epsilon 0.3 --seed 5": ("7 3 2", "right"),
    "train --help": ("adamw, adafactor, muon, sgd", "|concat|cosine|"),
    f"train copy --set optimizer=sgd {SMALL}": ("2 steps in",),
    "tasks": ("15 7 3 2",),
    f"train swap {SMALL} --output-dir swap": ("2 steps in",),
    "eval swap --json": ('"task": "swap"',),
    f"train copy {SMALL} --set position_type=kerple --output-dir kerple": ("2 steps in",),
    "eval kerple --json": ('"task": "copy"',),
    "train copy --set position_type=unknown": ("kerple",),
    f"train copy {SMALL} --model cosine --output-dir cosine": ("2 steps in",),
    "eval cosine --json": ('"task": "copy"',),
    "train copy --model cosine --set encoder_hidden_size=24": (
        "score_function='cosine' needs decoder states",
    ),
}
PROGRAM = """
import contextlib, io, json, shlex, sys
import tests.project.added_optimizer, tests.project.added_strategy
from hf_attn.architectures.families import FAMILIES
from hf_attn.models.positions import POSITION_TYPES
from hf_attn.models.score_functions import SCORE_FUNCTIONS
from hf_attn.tasks import TASKS, build_task
from tests.project import added_position, added_score, added_tab, added_task
TASKS["swap"], POSITION_TYPES["kerple"] = added_task.Swapping, added_position.KerplePositions
SCORE_FUNCTIONS["cosine"] = added_score.CosineScore
FAMILIES["recurrent"].variants["cosine"] = added_score.VARIANT
from hf_attn.__main__ import main

def run(command):
    sys.argv = ["hf-attn", *shlex.split(command)]
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(output):
        with contextlib.suppress(SystemExit):
            main()
    return output.getvalue()

told = {"printed": {command: run(command) for command in json.loads(sys.argv[1])}}

import demos.app
from demos.server import api
from demos.session.catalog import ModelCatalog
from demos.tabs.positions import tab as positions
from demos.tabs.train import form
from gradio.utils import get_function_description
from hf_attn.evaluation.failure_search import make_hard_inputs
demos.app.TABS = (*demos.app.TABS, added_tab)
app = demos.app.build_app(ModelCatalog(), "cpu")
fields = {part["props"].get("elem_id"): part["props"] for part in app.get_config_file()["components"]}
functions = {f"/{one.api_name}": one.fn for one in app.fns.values()}
named = app.get_api_info()["named_endpoints"]
told["endpoints"] = {name: [named[name], get_function_description(functions[name])] for name in named}
values = {name: fields[f"positions-{name}"]["value"] for name in positions.LABELS} | {"type": "kerple"}
told |= {"fields": fields, "head": demos.app.HEAD, "board": positions.show_view(None, values)["board"]}
told |= {"hard": list(make_hard_inputs(build_task("swap"))), "form": list(form.fields_of("copy", "cosine"))}
session, small = api.ApiSession(ModelCatalog(), "cpu"), {"max_length": 4, "hidden_size": 16}
trained = session.train_model("swap", steps=2, settings=small)
told["answer"] = session.write_answer(trained["checkpoint"], "1 2 3")
told["tasks"] = {row["name"]: row for row in api.list_tasks()}
told["steps"] = [
    session.train_model("copy", *model, settings=small | {"steps": 3} | more)["steps"]
    for model, more in (((), {"position_type": "kerple"}), (("cosine",), {}))
]
print(json.dumps(told, default=str))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder from which the bundled checkpoints are found as from the repository's root."""
    folder = tmp_path_factory.mktemp("added")
    (folder / "model_cards").symlink_to(ROOT / "model_cards")
    return folder


@pytest.fixture(scope="module")
def told(place) -> dict:
    """What each command prints; the app's fields by elem_id, its endpoints by name, and what they answer."""
    pytest.importorskip("gradio")
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, json.dumps(list(COMMANDS))]
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "GRADIO_ANALYTICS_ENABLED": "False",
        "COLUMNS": "110",
    }
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line_knows_what_was_added(told, command):
    printed = " ".join(told["printed"][command].split())
    assert [word for word in COMMANDS[command] if word not in printed] == [], printed


def test_what_was_added_is_saved_with_its_names(told, place):
    assert "Swapping" in (place / "swap" / "README.md").read_text()
    assert "LSTM, cosine attention (Graves)" in (place / "cosine" / "README.md").read_text()
    assert json.loads((place / "kerple" / "config.json").read_text())["position_type"] == "kerple"


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("try-strategy", ("epsilon",)),
        ("try-epsilon", ("Least probability", '"maximum": 0.5')),
        ("field-optimizer", ("Plain SGD", "sgd")),
        ("field-task", ('"Swapping"',)),
        ("duel-task", ('"Swapping"',)),
        ("field-position_type", ('["KERPLE", "kerple"]',)),
        ("positions-type", ('["KERPLE", "kerple"]',)),
        ("positions-types", ('["KERPLE", "kerple"]',)),
        ("field-model", ('["LSTM, cosine (Graves)", "cosine"]',)),
        ("tab-notes", ('"label": "Notes"',)),
        ("notes", ('"label": "Your notes"',)),
        ("link-board", ("copy_notes",)),  # Copy link knows it
    ],
)
def test_the_app_s_fields_offer_what_was_added(told, field, words):
    shown = json.dumps(told["fields"][field])
    assert [word for word in words if word not in shown] == []


def test_the_app_draws_reads_and_trains_what_was_added(told):
    board = json.loads(told["board"])
    assert (board["title"], board["equation"][:15]) == ("KERPLE", "e_ij = q_i · k_")
    assert [picture["name"] for picture in board["pictures"]] == ["head 1", "head 2"]
    assert "({ rank, before, p, most }, { epsilon }) => p >= epsilon || rank < 1" in told["head"]
    assert "attention_size" not in told["form"]
    assert "one symbol again and again" in told["hard"]
    assert (told["answer"]["correct"], told["steps"]) == (False, [3, 3])
    assert "cosine" in told["tasks"]["copy"]["models"]
    assert "swap" in told["tasks"]


@pytest.mark.parametrize(("endpoint", "words"), [
    ("/write", ('"epsilon"', "Least probability of a token; for epsilon")),
    ("/train", ("adamw or adafactor or muon or sgd",)),
])  # fmt: skip
def test_the_endpoints_describe_what_was_added(told, endpoint, words):
    described = json.dumps(told["endpoints"][endpoint])
    assert [word for word in words if word not in described] == []
