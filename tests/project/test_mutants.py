"""Wrong versions of the code, a line each (`tests/support/mutants.py`): for every one a test fails."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.mutants import MUTANTS

ROOT = Path(__file__).parents[2]
COPIED = ("hf_attn", "demos", "tests", "benchmarks", "docs", "pyproject.toml")
LINKED = ("model_cards", "README.md", "CONTRIBUTING.md", "app.py", "constraints.txt")


def is_killed(mutant, folder):
    """Whether a test fails in a copy of the repository that has this one line."""
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        skipped = {"ignore": shutil.ignore_patterns("node_modules", "__pycache__"), "symlinks": True}
        copy(ROOT / name, folder / name, **(skipped if copy is shutil.copytree else {}))
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)
    path = folder / mutant.file
    path.write_text(path.read_text(encoding="utf-8").replace(mutant.right, mutant.wrong), encoding="utf-8")
    options = ["-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", ""]
    process = subprocess.run(
        [sys.executable, "-m", "pytest", *options, mutant.killed_by],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert process.returncode in (0, 1), process.stdout[-3000:] + process.stderr[-1000:]
    return process.returncode == 1


def test_every_mutant_changes_one_line_that_is_there():
    for mutant in MUTANTS:
        text = (ROOT / mutant.file).read_text(encoding="utf-8")
        assert text.count(mutant.right) == 1, (
            f"{mutant.file} has {mutant.right!r} {text.count(mutant.right)} times"
        )
        assert mutant.wrong != mutant.right


def test_the_gate_collects_every_test_that_kills_a_mutant(request):
    config = request.config
    if [Path(path).name for path in config.args] != config.getini("testpaths"):
        pytest.skip("only the whole gate collects them all")
    collected = {
        name for item in request.session.items for name in (item.nodeid, item.nodeid.partition("[")[0])
    }
    assert {mutant.killed_by for mutant in MUTANTS} - collected == set()


def test_the_first_mutant_is_killed(tmp_path):
    assert is_killed(MUTANTS[0], tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_every_mutant_is_killed(mutant, tmp_path):
    assert is_killed(mutant, tmp_path)
