"""Wrong versions of the code, a line each (`tests/support/mutants.py`): for every one a test fails."""

import contextlib
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.mutants import MUTANTS

ROOT = Path(__file__).parents[2]
COPIED = ("hf_attn", "demos", "tests", "benchmarks", "docs", "pyproject.toml")
LINKED = ("model_cards", "README.md", "CONTRIBUTING.md", "app.py", "constraints.txt")


@contextlib.contextmanager
def start_runner():
    """Give a process that tries mutants in a copy of the repository."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
            skipped = {"ignore": shutil.ignore_patterns("node_modules", "__pycache__"), "symlinks": True}
            copy(ROOT / name, f"{folder}/{name}", **(skipped if copy is shutil.copytree else {}))
        for name in LINKED:
            Path(folder, name).symlink_to(ROOT / name)
        command = [sys.executable, "-W", "ignore", "-m", "tests.support.mutant_runner"]
        quiet = {"OMP_NUM_THREADS": "1", "GRADIO_ANALYTICS_ENABLED": "False", "PYTHONPATH": folder}
        quiet |= {"PYTEST_DEBUG_TEMPROOT": folder}  # no other pytest removes what it made there
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, cwd=folder, env=os.environ | quiet, text=True, **pipes) as process:
            yield process


def is_killed(mutant, process=None):
    """Whether a test fails in a copy of the repository with this one line, by default in a new process."""
    if process is None:
        with start_runner() as started:
            return is_killed(mutant, started)
    process.stdin.write(json.dumps(mutant) + "\n")
    process.stdin.flush()
    code, said = json.loads(process.stdout.readline())
    assert code in (0, 1), said
    return code == 1


def test_every_mutant_changes_one_line_that_is_there():
    for mutant in MUTANTS:
        found = (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.right)
        assert found == 1, f"{mutant.file} has {mutant.right!r} {found} times"
        assert mutant.wrong != mutant.right


def test_the_gate_collects_every_test_that_kills_a_mutant(request):
    config = request.config
    chosen = config.option.keyword or config.option.deselect or getattr(config.option, "lf", False)
    if chosen or [Path(path).name for path in config.args] != config.getini("testpaths"):
        pytest.skip("only the whole gate collects them all")
    collected = {
        name for item in request.session.items for name in (item.nodeid, item.nodeid.partition("[")[0])
    }
    assert {mutant.killed_by for mutant in MUTANTS} - collected == set()


def test_the_first_mutant_is_killed():
    assert is_killed(MUTANTS[0])


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_every_mutant_is_killed():
    """All of them in two processes."""
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        runners = queue.SimpleQueue()
        for _ in range(2):
            runners.put(stack.enter_context(start_runner()))

        def lives(mutant):
            process = runners.get()
            try:
                return not is_killed(mutant, process)
            finally:
                runners.put(process)

        assert lives(MUTANTS[0]._replace(wrong=MUTANTS[0].right)), "what is right is not killed"
        living = list(pool.map(lives, MUTANTS))
    assert [str(mutant) for mutant, lived in zip(MUTANTS, living, strict=True) if lived] == []
