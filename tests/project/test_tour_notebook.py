"""The notebook of the tour: every cell runs, in order, in one process of its own, and shows the lens."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tour.ipynb"

# What a notebook does with a cell: run it, and show what its last line gives.
RUNNER = """
import ast, json, sys
namespace, shown = {"__name__": "__main__"}, []
for source in json.load(sys.stdin):
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), namespace)
    value = None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)
    shown.append(None if value is None else value._repr_html_())
json.dump(shown, open(sys.argv[1], "w"))
"""


def read_cells():
    """Return the cells as (kind, source)."""
    return [
        (cell["cell_type"], "".join(cell["source"])) for cell in json.loads(NOTEBOOK.read_text())["cells"]
    ]


@pytest.mark.nightly
def test_every_cell_of_the_tour_runs_and_shows_the_lens(tmp_path):
    sources = [source for kind, source in read_cells() if kind == "code"]
    shown = tmp_path / "shown.json"
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", RUNNER, shown],
        input=json.dumps(sources),
        cwd=NOTEBOOK.parent,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "PYTHONPATH": str(NOTEBOOK.parent.parent),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    pieces = [piece for piece in json.loads(shown.read_text()) if piece]
    assert len(pieces) == 3
    assert all("<iframe" in piece and "explore_board" in piece for piece in pieces)
    assert "sdpa" in done.stdout
    assert "Shorten the input, or raise max_bytes" in done.stdout


def test_the_tour_is_kept_without_outputs_and_every_cell_is_plain_python():
    notebook = json.loads(NOTEBOOK.read_text())
    assert (notebook["nbformat"], len({cell["id"] for cell in notebook["cells"]})) == (
        4,
        len(notebook["cells"]),
    )
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            ast.parse("".join(cell["source"]))
