"""What a reader pastes imports from `hf_attn` itself, so that the rooms inside may move."""

import ast
import importlib
import json
import re
from pathlib import Path

import pytest

import hf_attn
from tests.support.public_face import find_private_imports

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("benchmarks/*.md"),
        *ROOT.glob("model_cards/**/README.md"),
    ]
)
BLOCK = re.compile(r"^```(?:python|py)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def read_blocks():
    """Return every fenced block of Python of the pages, by the page's name and the block's number."""
    return {
        f"{page.relative_to(ROOT)}-{number}": code
        for page in PAGES
        for number, code in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
    }


def read_cells():
    """Return the notebooks' cells of Python by the notebook's name and the cell's id."""
    return {
        f"{notebook.name}-{cell['id']}": "".join(cell["source"])
        for notebook in sorted(ROOT.glob("docs/*.ipynb"))
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "code"
    }


def test_lines_of_pages_cards_and_notebooks_import_from_the_public_face():
    lines = read_blocks() | read_cells()
    assert {name: found for name, code in lines.items() if (found := find_private_imports(code))} == {}


def test_no_text_of_the_package_or_the_app_prints_an_import_of_a_path_inside():
    for file in [*ROOT.glob("hf_attn/**/*.py"), *ROOT.glob("demos/**/*.py"), *ROOT.glob("demos/**/*.js")]:
        text = file.read_text(encoding="utf-8")
        texts = [text]
        if file.suffix == ".py":
            tree = ast.walk(ast.parse(text))
            texts = [str(node.value) for node in tree if isinstance(node, ast.Constant)]
        assert not [each for each in texts if re.search(r"(from|import) hf_attn\.\w", each)], file


def test_names_in_the_prose_of_the_readers_pages_are_public():
    for page in PAGES:
        if page.name != "CONTRIBUTING.md":  # which maps the rooms
            for name in re.findall(r"`hf_attn\.(\w+)", page.read_text(encoding="utf-8")):
                assert name in hf_attn.__all__, (page, name)


def test_every_public_name_is_there_and_they_are_listed_in_order():
    names = [name for name in hf_attn.__all__ if name != "__version__"]
    assert names == sorted(names)
    for name in names:
        assert getattr(hf_attn, name) is getattr(importlib.import_module(hf_attn._HOMES[name]), name)


@pytest.mark.parametrize(("code", "found"), [
    ("from hf_attn.tasks import build_task", ["hf_attn.tasks"]),
    ("import hf_attn.tasks.base as base", ["hf_attn.tasks.base"]),
    ("from hf_attn import tasks, train", ["tasks"]),
    ("import hf_attn\nhf_attn.training.loop.train()", ["training"]),
    ("import hf_attn\nhf_attn.train()\nfrom hf_attn import Task", []),
])  # fmt: skip
def test_lines_that_reach_inside_are_found(code, found):
    assert find_private_imports(code) == found
