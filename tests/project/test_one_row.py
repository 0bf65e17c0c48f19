"""A new thing is one file and one row: the fixtures `added_*.py` beside this are added as one would add them.

Each is then found in the command line, learns there and is opened again, and stands on the app's page and in
its endpoints, without another line. CONTRIBUTING.md names the two places of each.
"""

import asyncio
import json
import os
import subprocess
import sys

import pytest

from hf_attn.architectures.families import FAMILIES
from hf_attn.evaluation.failure_search import make_hard_inputs
from hf_attn.models.positions import POSITION_TYPES
from hf_attn.models.score_functions import SCORE_FUNCTIONS
from hf_attn.tasks import TASKS, build_task
from tests.project import added_score
from tests.project.added_position import KerplePositions
from tests.project.added_score import CosineScore
from tests.project.added_task import Swapping
from tests.support.commands import in_process

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"

SMALL = {"max_length": 4, "hidden_size": 16, "steps": 3}
SET = [word for name, value in SMALL.items() if name != "steps" for word in ("--set", f"{name}={value}")]


@pytest.fixture
def endpoints():
    """The app's endpoints, and a session of them."""
    pytest.importorskip("gradio")
    from demos.server import api
    from demos.session.catalog import ModelCatalog

    return api, api.ApiSession(ModelCatalog(), "cpu")


@pytest.fixture
def added(monkeypatch, endpoints):  # after the app is imported, so that no list is copied at import
    """The rows that a newcomer writes."""
    monkeypatch.setitem(TASKS, Swapping.name, Swapping)
    monkeypatch.setitem(POSITION_TYPES, "kerple", KerplePositions)
    monkeypatch.setitem(SCORE_FUNCTIONS, "cosine", CosineScore)
    monkeypatch.setitem(FAMILIES["recurrent"].variants, "cosine", added_score.VARIANT)


def parts_of_the_page():
    """What the app's page is made of: id → settings."""
    pytest.importorskip("gradio")
    from demos.app import build_app
    from demos.session.catalog import ModelCatalog

    async def build():  # outside an event loop Gradio opens some and never closes them
        return build_app(ModelCatalog(), "cpu")

    parts = (part["props"] for part in asyncio.run(build()).get_config_file()["components"])
    return {props["elem_id"]: props for props in parts if props.get("elem_id")}


def train(capsys, folder, *words):
    """Train three steps on the command line, and measure what was saved: the held-out result."""
    code, _, errors = in_process(capsys, "train", *words, "--steps", 3, *SET, "--output-dir", folder)
    assert code == 0, errors
    code, output, errors = in_process(capsys, "eval", folder, "--json")
    assert code == 0, errors
    return json.loads(output.splitlines()[-1])


def test_a_task_is_one_file_and_one_row(added, endpoints, tmp_path, capsys):
    _, output, _ = in_process(capsys, "tasks")
    assert "15 7 3 2" in output
    assert train(capsys, tmp_path / "run", "swap")["task"] == "swap"
    assert "Swapping" in (tmp_path / "run" / "README.md").read_text()
    assert "one symbol again and again" in make_hard_inputs(build_task("swap"))

    page = parts_of_the_page()
    for field in ("field-task", "duel-task"):
        assert ("Swapping", "Swapping") in page[field]["choices"]
    api, session = endpoints
    assert api.list_tasks()[-1]["name"] == "swap"
    told = session.train_model("swap", steps=2, settings={"max_length": 4, "hidden_size": 16})
    assert session.write_answer(told["checkpoint"], "1 2 3")["correct"] is False


def test_a_position_encoding_is_one_class_and_one_row(added, endpoints, tmp_path, capsys):
    from demos.tabs.positions import tab as positions

    _, _, errors = in_process(capsys, "train", "copy", "--set", "position_type=unknown")
    assert "kerple" in errors
    assert train(capsys, tmp_path / "run", "copy", "--set", "position_type=kerple")["task"] == "copy"
    assert json.loads((tmp_path / "run" / "config.json").read_text())["position_type"] == "kerple"

    page = parts_of_the_page()
    assert ("KERPLE", "kerple") in page["field-position_type"]["choices"]
    for field in ("positions-type", "positions-types"):
        assert ("KERPLE", "kerple") in page[field]["choices"]
    values = {name: page[f"positions-{name}"]["value"] for name in positions.LABELS} | {"type": "kerple"}
    board = json.loads(positions.show_view(None, values)["board"])
    assert (board["title"], board["equation"]) == (KerplePositions.title, KerplePositions.equation)
    assert [picture["name"] for picture in board["pictures"]] == ["head 1", "head 2"]
    told = endpoints[1].train_model("copy", settings=SMALL | {"position_type": "kerple"})
    assert told["steps"] == 3


def test_a_score_function_is_one_class_and_its_rows(added, endpoints, tmp_path, capsys):
    from demos.tabs.train import form

    with_row = (
        "import sys; sys.argv[0] = 'hf-attn'\n"  # the command line's help comes without torch
        "from hf_attn.architectures.families import FAMILIES, Variant\n"
        "FAMILIES['recurrent'].variants['cosine'] = Variant('Cosine', {'score_function': 'cosine'})\n"
        "from hf_attn.__main__ import main\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", with_row, "train", "--help"], capture_output=True, text=True, check=True
    )
    assert "|concat|cosine|" in done.stdout
    assert train(capsys, tmp_path / "run", "copy", "--model", "cosine")["task"] == "copy"
    assert added_score.VARIANT.title in (tmp_path / "run" / "README.md").read_text()
    _, _, errors = in_process(
        capsys, "train", "copy", "--model", "cosine", "--set", "encoder_hidden_size=24", *SET
    )
    assert "score_function='cosine' needs decoder states" in errors

    assert ("LSTM, cosine (Graves)", "cosine") in parts_of_the_page()["field-model"]["choices"]
    assert "attention_size" not in form.fields_of("copy", "cosine")
    api, session = endpoints
    assert all("cosine" in row["models"] for row in api.list_tasks() if row["name"] == "copy")
    assert session.train_model("copy", "cosine", settings=SMALL)["steps"] == 3


def test_a_tab_is_one_folder_and_one_row(monkeypatch):
    pytest.importorskip("gradio")
    import demos.app
    from tests.project import added_tab

    monkeypatch.setattr(demos.app, "TABS", (*demos.app.TABS, added_tab))
    page = parts_of_the_page()
    assert page["tab-notes"]["label"] == "Notes"
    assert page["notes"]["label"] == "Your notes"
    assert "copy_notes" in json.dumps(page["link-board"]), "Copy link knows it"
