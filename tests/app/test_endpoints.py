"""A server at home: scripts and agents do without the page what a visitor does on it; others do nothing."""

import json
import re
import zipfile
from pathlib import Path
from unittest.mock import Mock

import gradio as gr
import pytest
import torch
from gradio_client import Client
from gradio_client.exceptions import AppError

from demos.jobs.training_job import TrainingJob
from demos.server import api as endpoints
from demos.server.gate import MOST_BYTES
from demos.session.catalog import ModelCatalog
from hf_attn.checkpoints.save_load import load_checkpoint
from hf_attn.interpret.attention_maps import attention_maps
from hf_attn.training.failures import Diverged
from tests.support.raw_requests import Caller, serve_logged
from tests.support.sessions import begun

ROOT = Path(__file__).parents[2]
OWN, FOREIGN = "http://127.0.0.1", "http://evil.example"
NAMED = {"/tasks", "/checkpoints", "/train", "/write", "/attention_map", "/download"}


@pytest.fixture(scope="module")
def served_home(hub, tmp_path_factory):
    """A server for its own machine and for agents, its owner's token, and its log."""
    folder = tmp_path_factory.mktemp("home")
    with serve_logged(folder / "log", hub.environment(folder, hub.token), "--mcp") as address:
        yield Caller(address), folder / "log"


@pytest.fixture(scope="module")
def client(served_home):
    return Client(served_home[0].address, verbose=False)


@pytest.fixture(scope="module")
def run(client):
    return client.predict("copy", steps=60, settings={"max_length": 5}, api_name="/train")


def test_only_what_is_meant_for_scripts_is_named_and_everything_is_described(client):
    told = client.view_api(return_format="dict")
    assert set(told["named_endpoints"]) == NAMED
    assert not told["unnamed_endpoints"]
    for name, endpoint in told["named_endpoints"].items():
        assert endpoint["description"], name
        for argument in endpoint["parameters"]:
            assert argument["python_type"]["type"] not in ("Any", ""), (name, argument["parameter_name"])


def test_a_run_is_trained_measured_and_answers(client, run):
    assert run["steps"] == 60
    assert run["interval"][0] <= run["held_out_exact_match"] <= run["interval"][1]
    answer = client.predict(run["checkpoint"], "7 3 2", api_name="/write")
    assert [symbol["symbol"] for symbol in answer["symbols"]][-1] == "end"
    assert answer["correct"] == (answer["prediction"] == "7 3 2")


def test_the_map_is_the_model_s_own(client):
    found = client.predict("attn-addition", "153+391", layer=1, head=2, api_name="/attention_map")
    checkpoint = load_checkpoint(ROOT / "model_cards" / "attn-addition")
    maps = attention_maps(checkpoint.model, torch.tensor([checkpoint.task.encode("153+391")]))
    assert found["weights"] == maps.cross[1, 2].tolist()
    assert (found["kind"], found["answer"]) == ("cross", "544")
    assert (len(found["queries"]), len(found["keys"])) == tuple(maps.cross.shape[2:])


def test_a_run_is_downloaded_as_a_checkpoint_that_loads(client, run, tmp_path):
    with zipfile.ZipFile(client.predict(run["checkpoint"], api_name="/download")) as packed:
        packed.extractall(tmp_path)
    (folder,) = tmp_path.iterdir()
    assert load_checkpoint(folder).training["steps"] == 60


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("/write", ("nowhere", "1"), "checkpoint='nowhere' is not here"),
        ("/write", ("attn-copy", "7 x"), "'x' \\(number 2\\) is not a symbol of copy"),
        ("/write", ("../model_cards/attn-copy", "7"), "is not here"),
        ("/train", ("juggling",), "juggling"),
        ("/train", ("csv",), "needs a file"),
        ("/train", ("text", "", 5, 0, {"path": "/etc/passwd"}), "no files and data sets of others"),
        ("/train", ("copy", "", 10**8), "steps are too many: up to 20"),
        ("/train", ("copy", "", 5, 0, {"batch_size": 10**4}), "examples are too many: up to 8"),
        ("/train", ("copy", "", 5, 0, {"hidden_size": 8192}), "parameters are too many: up to 50"),
        (
            "/train",
            ("copy", "", 5, 0, {"encoder_layers": 10**5}),
            "100\u202f000 layers are too many: up to 100",
        ),
        ("/train", ("copy", "", 5, 0, {"num_symbols": 10**9}), "num_symbols=1000000000 must be a whole"),
        ("/train", ("copy", "additive", 5, 0, {"num_layers": 101}), "101 layers are too many: up to 100"),
        ("/train", ("copy", "", 5, -1), "seed=-1: give a whole number from 0"),
        ("/train", ("copy", "", 2.7), "steps=2.7 is not allowed: give a valid integer"),
        ("/train", (None,), "task=None is not allowed: give a valid string"),
        (
            "/write",
            ("attn-copy", "1 2 3", "beam", 10**6),
            "Beams: “1000000” is out of range. Enter a whole number from 2 to 8",
        ),
        (
            "/write",
            ("attn-copy", "1 2", "nucleus", None, None, 5),
            "top_k=5 is not used by strategy='nucleus'",
        ),
        ("/write", ("attn-copy", None), "text=None is not allowed: give a valid string"),
        ("/write", (["a"], "1 2"), "checkpoint=\\['a'\\] is not allowed"),
        ("/write", ("attn-copy", "1 2", "luck"), "strategy='luck' is not allowed: give 'greedy', 'beam'"),
        ("/attention_map", ("attn-copy", "1 2", None), "target=None is not allowed"),
        ("/write", ("attn-docstring-topics", "sum of a tensor", "beam"), "strategy='beam'"),
        ("/train", ("copy", "", 5, 0, {"max_lenght": 5}), "max_lenght"),
        ("/attention_map", ("lstm-reverse", "1 2"), "has no attention"),
        ("/attention_map", ("attn-copy", "1 2", "", "answering", 99), "layer=99: this model has layers 0 to"),
        ("/download", ("attn-copy",), "is bundled with the app"),
    ],
)
def test_a_refusal_is_one_sentence(client, name, given, words):
    with pytest.raises(AppError, match=words) as refused:
        client.predict(*given, api_name=name)
    assert "Traceback" not in str(refused.value)


def test_a_failed_run_is_a_sentence_and_a_bug_keeps_its_traceback(monkeypatch):
    def fail(run):
        raise Diverged("The loss is nan at step 3.")

    train = endpoints._told(endpoints.ApiSession(ModelCatalog(), "cpu").train_model)
    monkeypatch.setattr(TrainingJob, "begin", fail)
    with pytest.raises(gr.Error, match="The loss is nan at step 3"):
        train("copy", steps=5)
    with pytest.raises(gr.Error, match="unexpected keyword argument 'stepz'"):
        train("copy", stepz=5)
    for bug in (TypeError("a bug"), RuntimeError("a bug")):
        monkeypatch.setattr(endpoints, "_read_recipe", Mock(side_effect=bug))
        with pytest.raises(type(bug), match="a bug"):
            train("copy")


def test_a_run_is_kept_for_an_hour_also_where_nobody_trains_another(monkeypatch):
    api_session, session = endpoints.ApiSession(ModelCatalog(), "cpu"), begun()
    name = api_session.keep(session)
    assert api_session.find(name) == (session, "run-1")
    monkeypatch.setattr(endpoints, "KEPT_SECONDS", 0.0)
    with pytest.raises(ValueError, match="is not here: give the run's name"):
        api_session.find(name)
    assert session.is_over
    assert api_session.kept == {}


def test_the_lines_of_the_page_for_agents_work_as_pasted(served_home, capsys):
    page = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"<!-- tested: agents -->\n```python\n(.*?)```", page, re.DOTALL)
    exec(code.replace("http://127.0.0.1:7860", served_home[0].address), {})
    assert "7 3 2" in capsys.readouterr().out


def test_an_mcp_client_lists_the_same_as_tools_and_calls_one(served_home):
    pytest.importorskip("mcp")
    import anyio
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async def talk(address):
        async with (
            streamable_http_client(f"{address}/gradio_api/mcp/") as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            tools = (await session.list_tools()).tools
            asked = {"checkpoint": "attn-copy", "text": "7 3 2"}
            said = await session.call_tool("write_answer", asked)
            return tools, said.content[0].text

    tools, said = anyio.run(talk, served_home[0].address)
    assert len(tools) == len(NAMED)
    assert all(tool.description for tool in tools)
    assert "'prediction': '7 3 2', 'correct': True" in said


# ---------------------------------------------------------------- who may come


def test_at_home_folders_and_the_own_token_s_models_open(served_home, hub):
    caller, _ = served_home
    assert caller.open_other(str(hub.folder)) == ""
    assert caller.open_other("ada/bert") == ""


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


def test_a_request_too_large_to_be_one_is_not_read_to_its_end(served_home):
    caller, _ = served_home
    status, _ = caller.post("/gradio_api/run/predict", {"data": ["x" * (MOST_BYTES + 1)], "fn_index": 0})
    assert status == 413
