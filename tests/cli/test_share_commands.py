"""From a run to the Hub and back on the command line, and by transformers' own ways to push."""

import json
import shutil
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from hf_attn.checkpoints.save_load import load_checkpoint
from tests.support.commands import SMALL, in_process, rows_of
from tests.support.hub_server import serve_hub

# One process for all of it, since importing takes seconds: what each command printed comes back as JSON.
SESSION = """
import contextlib, io, json, sys, warnings
import torch
torch.set_num_threads(1)
from hf_attn.__main__ import main

def run(*arguments):
    sys.argv = ["hf-attn", *arguments]
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            main()
        except SystemExit as left:
            return [left.code or 0, output.getvalue(), errors.getvalue()]

said = {}
train = ["train", "copy", "--steps", "3", *%(small)r, "--output-dir", "attn-copy"]
said["train"] = run(*train)
said["push"] = run("push", "attn-copy", "ada/copy")
said["pull"] = run("pull", "ada/copy", "pulled")
said["private"] = run("pull", "ada/copy", "other", "--token-from-env", "BOB")

import hf_attn
from safetensors.torch import save_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, Trainer, TrainingArguments
model = AutoModelForSeq2SeqLM.from_pretrained("ada/copy")
tokenizer = AutoTokenizer.from_pretrained("ada/copy")
save_file(model.state_dict(), "plain.safetensors")
model.push_to_hub("ada/plain", private=True)
tokenizer.push_to_hub("ada/plain")
said["plain"] = run("pull", "ada/plain", "plain", "--json")

arguments = TrainingArguments(
    "trained", hub_model_id="ada/trained", push_to_hub=True, hub_private_repo=True, save_strategy="no",
    max_steps=2, per_device_train_batch_size=2, use_cpu=True, report_to=[], disable_tqdm=True,
)
examples = [{"input_ids": [5, 6, 2], "labels": [5, 6, 2]}] * 4
trainer = Trainer(model, arguments, train_dataset=examples, processing_class=tokenizer)
trainer.train()
trainer.push_to_hub()
said["trained"] = run("pull", "ada/trained", "trained-pulled", "--json")
save_file(model.state_dict(), "trained.safetensors")
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """(the Hub, the folder that was worked in, what each command said)."""
    folder = tmp_path_factory.mktemp("session")
    with serve_hub(folder) as hub:
        environment = {**hub.environment(folder, hub.token), "BOB": hub.add_user("bob")}
        done = subprocess.run(
            [sys.executable, "-c", SESSION % {"small": SMALL}],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert hub.token not in done.stdout + done.stderr
        yield hub, folder, json.loads(done.stdout.splitlines()[-1])


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.nightly
def test_train_push_and_pull_end_in_the_same_folder_verified_in_a_fresh_process(session):
    hub, folder, said = session
    assert [said[name][0] for name in ("train", "push", "pull")] == [0, 0, 0]
    pushed = hub.repo("ada/copy").files()
    assert pushed == {name: data for name, data in bytes_of(folder / "attn-copy").items() if name in pushed}
    assert bytes_of(folder / "pulled") == pushed
    assert load_checkpoint(folder / "pulled").task == load_checkpoint(folder / "attn-copy").task
    _, output, errors = said["push"]
    assert output.splitlines() == [
        f"Pushed attn-copy to {hub.endpoint}/ada/copy (private, {len(pushed)} files sent).",
        "Verified: pulled into an empty cache, it answers as the folder does.",
    ]
    stages = [line.split()[0] for line in errors.splitlines()]
    assert stages == ["checking", "connecting", "creating", "comparing", "uploading", "pushed", "verifying"]
    assert [path for route, path in hub.requests if route == "resolve" and path.endswith("attention.py")]
    code, output, errors = said["private"]  # by somebody else's token
    assert (code, output) == (1, "")
    refusal = (
        "There is no repo ada/copy, or this token may not see it (404). The Hub says: Repository not found"
    )
    assert errors.splitlines()[-1] == f"hf-attn: {refusal}"
    assert not (folder / "other").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["plain", "trained"])
def test_what_transformers_pushes_itself_loads_here(session, name):
    _, folder, said = session
    code, output, errors = said[name]
    assert code == 0, errors
    result = rows_of(output)[-1]
    assert result["verified"]
    assert "training_args.bin" not in result["files"]
    pulled = folder / result["path"]
    assert "modeling_attn_seq2seq.py" in bytes_of(pulled)
    weights = load_checkpoint(pulled).model.state_dict()
    for parameter, tensor in load_file(folder / f"{name}.safetensors").items():
        assert torch.equal(weights[parameter], tensor), parameter


# Without a process of its own


def test_json_lines_tell_progress_and_result(tiny_checkpoint, tmp_path, monkeypatch, capsys):
    with serve_hub(tmp_path) as hub:
        store = hub.store.create("model", "ada/copy", "ada", private=False)
        changes = {path.name: hub.store.keep(path.read_bytes()) for path in tiny_checkpoint.iterdir()}
        store.add_commit("refs/heads/main", store.resolve("main"), "by anybody", "ada", changes)
        where = ["ada/copy", tmp_path / "pulled", "--endpoint", hub.endpoint, "--json"]
        code, output, _ = in_process(capsys, "pull", *where)
    assert code == 0
    *progress, result = rows_of(output)
    assert {row["event"] for row in progress} == {"progress"}
    assert set(progress[0]) == {"event", "stage", "message", "done", "total"}
    assert set(result) >= {"event", "repo_id", "path", "commit", "files", "left_out", "size", "verified"}
    assert result["path"] == str(tmp_path / "pulled")


@pytest.mark.parametrize(("arguments", "code", "words"), [
    ("push nowhere ada/copy", 2, "There is no folder 'nowhere'"),
    ("push CHECKPOINT ada/copy/again", 2, "OWNER/NAME"),
    ("push CHECKPOINT", 2, "REPO_ID"),
    ("push CHECKPOINT ada/copy --revision v1 --create-pr", 2, "a pull request goes to main"),
    ("push CHECKPOINT ada/copy --token-from-env NOBODY", 2, "NOBODY"),
    ("push CHECKPOINT ada/copy --token-from-env READER", 1, "may only read"),
    ("push CHECKPOINT bob/copy --token-from-env WRITER", 1, "(403)"),
    ("pull ada/copy/again x", 2, "OWNER/NAME"),
    ("pull ada/copy CHECKPOINT/config.json", 2, "is a file"),
    ("pull ada/nothing x --token-from-env READER", 1, "There is no repo ada/nothing"),
])  # fmt: skip
def test_what_goes_wrong_is_one_line_without_the_token(
    tiny_checkpoint, tmp_path, monkeypatch, capsys, arguments, code, words
):
    monkeypatch.chdir(tmp_path)
    checkpoint = shutil.copytree(tiny_checkpoint, tmp_path / "attn-copy")
    with serve_hub(tmp_path) as hub:
        monkeypatch.setenv("READER", hub.read_token)
        monkeypatch.setenv("WRITER", hub.token)
        given = [word.replace("CHECKPOINT", str(checkpoint)) for word in arguments.split()]
        left, output, errors = in_process(capsys, *given, "--endpoint", hub.endpoint)
    assert left == code
    assert output == ""
    last = errors.splitlines()[-1]
    assert last.startswith("hf-attn: ")
    assert words in last
    assert "Traceback" not in errors
    assert hub.token not in errors
    assert hub.read_token not in errors
