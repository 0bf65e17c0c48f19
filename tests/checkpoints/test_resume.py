"""Runs that are stopped, killed or out of disk: nothing half-written, and the same weights in the end."""

import contextlib
import io
import json
import resource
import signal
import sys

import pytest

from hf_attn.__main__ import main
from hf_attn.checkpoints import run_folder
from hf_attn.checkpoints.run_folder import REPORTS, check_output, load_reports
from hf_attn.checkpoints.save_load import load_checkpoint
from hf_attn.utils.atomic_write import PREFIX
from tests.support.commands import SMALL, in_process, rows_of

LONG = ["train", "copy", *SMALL, "--steps", "80", "--set", "report_every=5", "--seed", "1"]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """The weights of a run that nothing stopped."""
    out = tmp_path_factory.mktemp("unbroken") / "out"
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
        patch.setattr(sys, "argv", ["hf-attn", *LONG, "--output-dir", str(out)])
        with pytest.raises(SystemExit) as left:
            main()
    assert not left.value.code
    return (out / "model.safetensors").read_bytes()


def test_of_a_step_that_was_reported_twice_the_later_report_counts(tmp_path):
    rows = [
        {"step": 1, "loss": 3},
        {"step": 2, "loss": 2},
        {"step": 3, "loss": 1.5},
        {"step": 2, "loss": 2.5},
    ]
    (tmp_path / REPORTS).write_text("\n".join(map(json.dumps, rows)) + '\n{"step": 3, "lo')
    assert load_reports(tmp_path) == [rows[0], rows[3], rows[2]]


def test_a_run_that_was_killed_before_its_settings_were_written_begins_anew(tmp_path):
    (tmp_path / ".lock").touch()
    left = tmp_path / f"{PREFIX}abcd0_12.partial"
    left.write_text("half of run.json")
    check_output(tmp_path)
    assert not left.exists()
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(ValueError, match="holds no checkpoint of hf_attn"):
        check_output(tmp_path)


def act_at(monkeypatch, step, act):
    """Let something happen while a run is at a step."""
    train = run_folder.train_run

    def watched(*given, **settings):
        for report in train(*given, **settings):
            yield report
            if report.step == step:
                act()

    monkeypatch.setattr(run_folder, "train_run", watched)


def test_ctrl_c_keeps_the_state_and_says_how_to_go_on(tmp_path, unbroken, capsys, monkeypatch):
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        act_at(patch, 20, lambda: signal.raise_signal(signal.SIGINT))
        code, _, errors = in_process(capsys, *LONG, "--output-dir", out, "--json")
    assert (code, errors.count("\n")) == (1, 1)
    assert f"--resume {out}" in errors
    assert (out / "training_state").is_dir()
    assert not (out / "model.safetensors").exists(), "nothing that could be taken for a checkpoint"
    _, output, _ = in_process(capsys, *LONG, "--resume", out, "--json")
    steps = [row["step"] for row in rows_of(output) if row["event"] == "report"]
    assert steps[0] > 20, "it goes on, it does not begin again"
    assert (out / "model.safetensors").read_bytes() == unbroken
    curve = [row["step"] for row in load_checkpoint(out).training["curve"]]
    assert (sorted(curve), {*range(0, 81, 5)} - {*curve}) == (curve, set()), "and where it was stopped"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_somebody_s_file_in_a_run_s_folder_is_never_lost(tmp_path, unbroken, capsys, monkeypatch):
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        act_at(patch, 20, lambda: (out / "notes.txt").write_text("mine"))
        code, _, errors = in_process(capsys, *LONG, "--output-dir", out, "--json")
    assert (code, errors.count("\n")) == (1, 1)
    assert "holds 'notes.txt', which is no part of a run of hf_attn and would be lost: move it" in errors
    assert f"--resume {out}" in errors
    code, _, errors = in_process(capsys, "eval", out)
    assert code != 0
    assert f"{out} holds a run that is not finished: `hf-attn train --resume {out}` ends it." in errors
    (out / "notes.txt").rename(tmp_path / "notes.txt")
    in_process(capsys, "train", "--resume", out)
    assert (out / "model.safetensors").read_bytes() == unbroken
    (tmp_path / "notes.txt").rename(out / "notes.txt")
    code, _, errors = in_process(capsys, *LONG, "--output-dir", out)
    assert code == 2
    assert "'notes.txt', which is no part of a checkpoint" in errors
    assert (out / "notes.txt").read_text() == "mine"


def test_resuming_takes_the_run_s_own_choices_and_no_others(tmp_path, capsys):
    from hf_attn.checkpoints.run_folder import Run, save_run
    from hf_attn.tasks import build_task

    out = tmp_path / "out"
    task = build_task("copy", max_length=4)
    save_run(out, Run(task, task.recipe, seed=7))
    for wrong in (["addition"], ["--seed", "8"], ["--steps", "9"], ["--set", "max_length=5"]):
        code, _, errors = in_process(capsys, "train", *wrong, "--resume", out)
        assert code == 2
        assert "not that of the run" in errors
    code, _, errors = in_process(capsys, "train", "copy", "--output-dir", out)
    assert code == 2
    assert f"--resume {out}" in errors
    code, _, errors = in_process(capsys, "train", "--resume", out, "--output-dir", tmp_path / "else")
    assert code == 2
    (out / "run.json").write_text("{half")
    code, _, errors = in_process(capsys, "train", "--resume", out)
    assert code == 2
    assert "run.json" in errors


@contextlib.contextmanager
def limited_files():
    """Let this process write no file as large as the weights."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_write_that_fails_is_one_line_and_leaves_no_half_file(tmp_path, capsys):
    out = tmp_path / "out"
    with limited_files():
        code, _, errors = in_process(capsys, "train", "copy", *SMALL, "--steps", 3, "--output-dir", out)
    assert code == 1
    assert errors.count("\n") == 1, errors
    assert str(out) in errors
    assert {path.name for path in out.iterdir()} <= {"run.json", "reports.jsonl", ".lock"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert in_process(capsys, "train", "--resume", out)[::2] == (0, "")
    assert load_checkpoint(out).training["steps"] == 3
