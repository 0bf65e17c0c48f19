"""What the README says can be done as written, and its figures are the measured ones."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import hf_attn
from docs import command_line
from hf_attn.checkpoints.save_load import BUNDLED, list_checkpoints
from hf_attn.tasks import TASKS
from hf_attn.textbooks import DOCUMENTS
from tests.support.commands import in_process

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "benchmarks" / "README.md"])
BLOCKS = re.findall(r"<!-- tested: tour -->\n```(\w+)\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder from which the checkpoints are found as from the repository's root."""
    folder = tmp_path_factory.mktemp("tour")
    (folder / "model_cards").symlink_to(ROOT / "model_cards")
    return folder


def headings_of(page):
    """Return the headings of a page as GitHub's links name them."""
    titles = re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def run(place, *command, **given):
    result = subprocess.run(
        command, cwd=place, capture_output=True, text=True, timeout=600, check=False, **given
    )
    assert result.returncode == 0, (command, result.stderr[-2000:])
    return result.stdout


def test_the_tour_s_commands_run_as_written(place, monkeypatch, capsys):
    (commands,) = [text for language, text in BLOCKS if language == "bash"]
    first, *others = [shlex.split(line) for line in commands.strip().splitlines()]
    assert first[0] == "python"
    printed = {first[3]: run(place, sys.executable, *first[1:])}
    monkeypatch.chdir(place)
    for program, *arguments in others:
        assert [program, *arguments[:2]] == first[:3]
        code, printed[arguments[2]], errors = in_process(capsys, *arguments[2:])
        assert code == 0, (arguments, errors)
    assert "7 15 2 3 12" in printed["generate"]
    assert (place / "runs" / "map.svg").read_text().startswith("<?xml")
    assert all(name in printed["tasks"] for name in ("copy", "addition", "parser"))


PYTHON = [text for language, text in BLOCKS if language == "python"]
RUNNER = """
import contextlib, io, json, sys
for code in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, {"__name__": "__main__"})
    print(json.dumps(printed.getvalue()))
"""


@pytest.fixture(scope="module")
def printed_by(place):
    """What each block of Python prints, one after the other in a fresh process: importing takes seconds."""
    printed = run(place, sys.executable, "-c", RUNNER, input=json.dumps(PYTHON))
    return dict(zip(PYTHON, printed.splitlines(), strict=True))


@pytest.mark.parametrize("code", PYTHON)
def test_the_tour_s_python_runs_as_written(printed_by, code):
    printed = json.loads(printed_by[code]).splitlines()
    said = re.findall(r"print\(.*\)  # ([0-9]+)$", code, re.MULTILINE)
    assert printed
    assert printed[-1:] == said or not said


def test_the_tour_has_what_it_is_said_to_have():
    assert [language for language, _ in BLOCKS] == ["bash", "python", "python"]
    assert README.count("\n") <= 180


def test_every_bundled_checkpoint_is_counted_and_every_task_has_a_row():
    bundled, reference = len(list_checkpoints(BUNDLED)), (ROOT / "docs" / "reference.md").read_text("utf-8")
    assert bundled == 11
    assert "the eleven bundled checkpoints" in README
    assert "Eleven are bundled in" in reference
    rows = re.findall(r"^\| (`.*?) \|", reference.partition("## Models")[0], re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(TASKS)


def test_the_help_of_eval_names_what_each_task_is_told_apart_by():
    (told,) = re.findall(r"Also report by size: (.*?)\.", command_line.write_page())
    assert all(task.size_name in told for task in TASKS.values()), told


def test_the_two_commands_are_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text()
    for target in [*re.findall(r"^`?make ([a-z-]+)", README, re.MULTILINE), "lint", "test-nightly", "bench"]:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_and_heading_that_a_page_links_to_is_there(page):
    for target in re.findall(r"\]\(([^):\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, heading = target.partition("#")
        linked = page.parent / path if path else page
        assert linked.exists(), target
        if heading:
            assert heading in headings_of(linked), target


def test_the_page_of_commands_is_what_their_help_says():
    assert command_line.PAGE.read_text(encoding="utf-8") == command_line.write_page(), "run `make reference`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_of_ours_that_a_page_names_is_there(page):
    text = page.read_text(encoding="utf-8")
    for path in re.findall(r"`((?:hf_attn|demos|tests|docs|benchmarks|model_cards)/[\w./*]*\w\.\w+)`", text):
        assert list(ROOT.glob(path)), path


def test_the_citation_is_of_this_version_and_the_changelog_has_a_place_for_changes():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == hf_attn.__version__
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    versions = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert versions[0] == "Unreleased"


def test_the_readme_names_every_page_and_the_five_texts_as_the_claims_do():
    pages = {page.name for page in (ROOT / "docs").iterdir() if page.suffix in (".md", ".ipynb")}
    assert pages == set(re.findall(r"\[docs/([^\]]+)\]", README))
    for text in DOCUMENTS.values():
        assert f"“{text.title}”" in README
        assert text.url is None or f"]({text.url})" in README
