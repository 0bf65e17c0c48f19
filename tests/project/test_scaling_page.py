"""docs/scaling.md does what it says: processes share a run, and weights."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from hf_attn import AttnSeq2SeqForConditionalGeneration, build_model, build_task, save_checkpoint
from tests.support.checks import assert_close
from tests.support.commands import in_process

PAGE = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text(encoding="utf-8")
(SCRIPT,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
LAUNCHES = re.findall(r"^(python -m torch.*|accelerate .*)$", PAGE, re.MULTILINE)
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def launch(command, folder, *more):
    """What a command of the page prints, run in a folder."""
    program, *arguments = command.split()
    module = [] if program == "python" else ["-m", "accelerate.commands.launch"]
    arguments = arguments[1:] if module else arguments
    ended = subprocess.run(
        [sys.executable, *module, *arguments, *more],
        cwd=folder,
        env=ONE_THREAD,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended.stdout


def learn_alone():
    """The script's losses and weights, in this process and without FSDP."""
    task = build_task("copy", max_length=5)
    model = build_model(task, task.recipe, seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    generator, losses = torch.Generator().manual_seed(0), []
    for _ in range(10):
        batch = task.sample(generator, 32)
        loss = model(**batch.inputs(), num_items_in_batch=int((batch.labels >= 0).sum())).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, model.state_dict()


@pytest.mark.nightly
def test_weights_shared_out_over_two_processes_learn_as_whole_ones_and_are_saved_whole(tmp_path):
    (tmp_path / "fsdp.py").write_text(SCRIPT)
    printed = launch(LAUNCHES[-1], tmp_path)
    found = re.findall(r"step \d+, (\d+) processes, loss ([\d.]+)", printed)
    losses, weights = learn_alone()
    assert {processes for processes, _ in found} == {"2"}
    assert [float(loss) for _, loss in found] == pytest.approx(losses, abs=1e-4)
    assert "held out: " in printed
    saved = AttnSeq2SeqForConditionalGeneration.from_pretrained(tmp_path / "runs" / "sharded")
    for name, weight in saved.state_dict().items():
        assert_close(weight, weights[name], tolerance=1e-4)


def test_what_the_page_saves_for_our_commands_is_read_by_them(tmp_path, monkeypatch, capsys):
    (saving,) = re.findall(r"`(save_checkpoint\(.*?\))`", PAGE)
    task = build_task("copy", max_length=5)
    model = build_model(task, task.recipe, seed=0)
    monkeypatch.chdir(tmp_path)
    eval(saving, {"save_checkpoint": save_checkpoint, "task": task, "whole_model": model})
    code, printed, errors = in_process(capsys, "eval", "runs/sharded", "--examples", "4", "--json")
    assert (code, '"task": "copy"' in printed) == (0, True), errors


@pytest.mark.nightly  # test_standard_tools.py has two processes by torch's launcher
@pytest.mark.parametrize("command", LAUNCHES[:-1])
def test_each_launcher_of_the_page_starts_two_processes(command, tmp_path):
    short = ["--steps", "2", "--device", "cpu"]
    assert "2 processes" in launch(command.replace("runs/copy-2", str(tmp_path / "run")), tmp_path, *short)
