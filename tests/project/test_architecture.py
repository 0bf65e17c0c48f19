"""The house stands as designed: imports go one way, budgets hold, models and app stay what they are."""

import ast
import functools
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
WRITTEN = (".py", ".js", ".css", ".html", ".ts")
CANVAS = [path for path in (ROOT / "hf_attn" / "viz" / "web").rglob("*") if path.suffix in WRITTEN]
APP = [path for path in (ROOT / "demos").rglob("*") if path.suffix in WRITTEN]
LONGEST_FUNCTION, LONGEST_LOOP, LONGEST_BUILD = 60, 120, 90
MOST_AT_THE_ROOT, MOST_IN_A_PACKAGE = 5, 12


def python_files():
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.py"], cwd=ROOT, capture_output=True, text=True
    )
    return [ROOT / name for name in names.stdout.split()]


@functools.cache
def nodes_of(path):
    return tuple(ast.walk(ast.parse(path.read_text())))


def imported_modules(path):
    """Absolute names of what a file imports, at any depth of nesting."""
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_models_import_only_torch_transformers_and_their_siblings():
    allowed = {"torch", "transformers", "huggingface_hub", "math", "collections", "typing", "dataclasses"}
    for path in (ROOT / "hf_attn" / "models").glob("*.py"):
        for name in imported_modules(path):
            assert name.split(".")[0] in allowed, f"{path.name} imports {name}"


def test_model_files_are_flat_so_that_the_hub_can_load_them():
    for path in (ROOT / "hf_attn" / "models").glob("*.py"):
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom) and node.level:
                assert node.level == 1, f"{path.name}:{node.lineno} reaches out of its folder"
                assert node.module, f"{path.name}:{node.lineno}: write `from .sibling import (Name,)`"
                assert "." not in node.module, f"{path.name}:{node.lineno} reaches into a folder"
        assert "from __future__" not in path.read_text()


def test_the_app_computes_nothing_itself():
    for path in (ROOT / "demos").rglob("*.py"):
        names = {name.split(".")[0] for name in imported_modules(path)}
        assert "transformers" not in names, path
        assert "accelerate" not in names, path


def test_packages_are_small_enough_to_look_through():
    """`hf_attn/models` is flat by need: its files travel with every checkpoint."""
    for root in ("hf_attn", "demos"):
        assert len(list((ROOT / root).glob("*.py"))) <= MOST_AT_THE_ROOT, root
        folders = {path.parent for path in (ROOT / root).rglob("*.py")} - {ROOT / "hf_attn" / "models"}
        sizes = {str(folder.relative_to(ROOT)): len(list(folder.glob("*.py"))) for folder in folders}
        over = {name: size for name, size in sizes.items() if size > MOST_IN_A_PACKAGE}
        assert not over, f"{over}: {MOST_IN_A_PACKAGE} files at most"


def test_functions_keep_their_budgets():
    """Of lines in a body; its signature and docstring do not count."""
    over = []
    for path in python_files():
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef):
                limit = {"train": LONGEST_LOOP, "build": LONGEST_BUILD}.get(node.name, LONGEST_FUNCTION)
                first = node.body[1:] if ast.get_docstring(node) is not None else node.body
                size = node.end_lineno - first[0].lineno + 1 if first else 0
                if size > limit:
                    over.append(f"{path.name}:{node.lineno} {node.name}: {size} lines, {limit} allowed")
    assert not over, "\n".join(over)


def test_the_attention_class_is_short_and_branches_little():
    tree = ast.parse((ROOT / "hf_attn" / "models" / "attention.py").read_text())
    (attention,) = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "MultiHeadAttention"]
    assert attention.end_lineno - attention.lineno + 1 <= 90, "docstrings included"
    branches = [n for n in ast.walk(attention) if isinstance(n, (ast.If, ast.IfExp))]
    assert len(branches) <= 6


def test_nothing_comes_from_another_server():
    for path in [*APP, *CANVAS]:
        outside = re.findall(r"(?:src|href|url\(|import)\s*[=(\"']+\s*https?://[^\s\"')]+", path.read_text())
        assert not outside, (path.name, outside)


def test_the_weights_stay_small():
    folders = [path for path in (ROOT / "model_cards").glob("*") if path.is_dir()]
    sizes = {path.name: sum(f.stat().st_size for f in path.rglob("*") if f.is_file()) for path in folders}
    assert folders, "make checkpoints builds them"
    assert max(sizes.values()) <= 8e6, sizes
    assert sum(sizes.values()) <= 25e6, sizes


def test_the_code_beside_the_weights_are_links_to_the_package_s():
    beside = list((ROOT / "model_cards").glob("*/*.py"))
    assert beside
    for link in beside:
        assert link.is_symlink(), f"{link} is a copy: ln -sf ../../hf_attn/models/{link.name} {link}"
        assert link.readlink() == Path("../../hf_attn/models") / link.name
        assert link.is_file()
