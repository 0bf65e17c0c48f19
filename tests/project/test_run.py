"""A set of tests survives a flake, tells of it, and fails where a failure stays or too many are unsteady."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.run import MOST_UNSTEADY, ROOT, file_name

FLAKY = """
import subprocess, sys
from pathlib import Path

def test_{number}():
    subprocess.run([sys.executable, "-S", "-c", ""])
    met = Path(__file__).with_name("met {number}")
    was_met = met.exists()
    met.touch()
    assert was_met
"""
BROKEN = """
import subprocess, sys

def test_broken():
    subprocess.run([sys.executable, "-S", "-c", ""])
    assert False
"""
KILLED = """
import os, signal

def test_that_kills_its_worker():
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)

def test_behind_it():
    assert False
"""
WITHOUT_A_PROCESS = "import pathlib\n\ndef test_alone():\n    assert False\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for tests, which pytest finds below the repository only where it is named."""
    monkeypatch.setenv("HF_ATTN_UNSTEADY", str(tmp_path))
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        yield Path(folder)


def run_set(folder: Path, *texts: str) -> tuple[int, str]:
    """Run files as a set of their own: (exit code, what was said)."""
    for number, text in enumerate(texts):
        (folder / f"test_{number}.py").write_text(text)
    files = map(str, sorted(folder.glob("test_*.py")))
    command = [sys.executable, "-m", "tests.run", "gate", "-p", "tests.conftest", "-n", "1", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_what_passes_the_second_time_is_told_as_unsteady_with_its_first_failure_kept(folder, tmp_path):
    code, said = run_set(folder, FLAKY.format(number=1))
    assert code == 0, said
    (test,) = [line.split()[1].removesuffix(":") for line in said.splitlines() if line.startswith("UNSTEADY")]
    assert "assert was_met" in (tmp_path / f"{file_name(test)}.txt").read_text()
    assert "failed 1, of them unsteady 1" in said
    assert "s of the processor" in said


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("texts", "told"),
    [
        ([FLAKY.format(number=1), BROKEN], "failed 2, of them unsteady 1"),
        ([FLAKY.format(number=1), WITHOUT_A_PROCESS], "failed 2, of them unsteady 0"),
        ([FLAKY.format(number=1), "import nothing_here"], "failed 1, of them unsteady 0"),
        ([FLAKY.format(number=1), KILLED], "of them unsteady 0"),
        ([FLAKY.format(number=n) for n in range(MOST_UNSTEADY + 1)], "failed 3, of them unsteady 3"),
    ],
    ids=["fails twice", "without a process", "no module", "lost tests", "too many"],
)
def test_a_set_fails_where_a_failure_stays_or_too_many_are_unsteady(texts, told, folder):
    code, said = run_set(folder, *texts)
    assert code == 1
    assert told in said
