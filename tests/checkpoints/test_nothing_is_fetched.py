"""What a checkpoint's file names is not fetched or read unasked."""

import json
from dataclasses import replace

import pytest

from hf_attn.architectures.registry import build_model
from hf_attn.checkpoints.save_load import load_checkpoint, save_checkpoint
from hf_attn.hub.external_models import open_model
from hf_attn.tasks import build_task
from tests.support.commands import in_process

ROWS = [(f"{word} {i}", label) for i in range(20) for word, label in (("fine", "good"), ("dull", "bad"))]
FETCHED = "somebody/films"


@pytest.fixture(scope="module", params=["csv", "pairs"])
def made(request, tmp_path_factory):
    """A checkpoint that learned from a table."""
    root = tmp_path_factory.mktemp("fetching")
    table = root / "table.csv"
    table.write_text("\n".join(f"{text},{label}" for text, label in ROWS))
    task = build_task(request.param, path=str(table))
    sizes = {"hidden_size": 16, "intermediate_size": 16}
    recipe = replace(task.recipe, model={**task.recipe.model, **sizes})
    return save_checkpoint(root / "attn-films", build_model(task, recipe, 0), task, {"model": "transformer"})


@pytest.fixture
def folder(made):
    """The same, as a stranger may have made it: it says that it learned from a data set."""
    path = made / "training.json"
    training = json.loads(path.read_text())
    training["task"]["options"] |= {"path": "", "dataset": FETCHED}
    path.write_text(json.dumps(training))
    return made


def test_opening_measuring_and_writing_fetch_nothing(folder, connections, capsys):
    for opened in (load_checkpoint(folder), open_model(folder)):
        assert opened.task.worked_example
        assert opened.task.look_up("fine 1") is None
        with pytest.raises(ValueError, match=r"not fetched unasked: .* say --set dataset=somebody/films"):
            opened.task.held_out(1)
    for command in ("eval", "cards", "heads"):
        code, _, errors = in_process(capsys, command, folder)
        assert code in (1, 2)
        assert f"--set dataset={FETCHED}" in errors
    code, written, _ = in_process(capsys, "generate", folder, "fine 1", "--json")
    assert code == 0
    assert json.loads(written)["correct"] is None
    assert connections == []


def test_what_is_asked_for_is_fetched(folder, connections, capsys, monkeypatch):
    pytest.importorskip("datasets")
    monkeypatch.setattr("time.sleep", lambda _: None)  # between tries
    code, _, errors = in_process(capsys, "eval", folder, "--set", f"dataset={FETCHED}")
    assert code == 2
    assert f"dataset='{FETCHED}' cannot be read" in errors
    assert connections
