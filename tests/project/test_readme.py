"""What the README says can be done as written, and its figures are the measured ones."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

import hf_attn
from docs import command_line
from hf_attn.checkpoints.save_load import BUNDLED, list_checkpoints
from hf_attn.tasks import TASKS
from hf_attn.textbooks import DOCUMENTS
from tests.support.commands import in_process
from tests.support.matrix import rows

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


def test_the_tour_s_commands_run_as_written(place, monkeypatch, capsys):
    (commands,) = [text for language, text in BLOCKS if language == "bash"]
    monkeypatch.chdir(place)
    printed = {}
    for line in commands.strip().splitlines():
        program, *arguments = shlex.split(line)
        assert [program, *arguments[:2]] == ["python", "-m", "hf_attn"]
        code, printed[arguments[2]], errors = in_process(capsys, *arguments[2:])
        assert code == 0, (arguments, errors)
    assert "7 15 2 3 12" in printed["generate"]
    assert (place / "runs" / "map.svg").read_text().startswith("<?xml")
    assert all(name in printed["tasks"] for name in ("copy", "addition", "parser"))


PYTHON = [text for language, text in BLOCKS if language == "python"]


@pytest.mark.parametrize("code", rows(PYTHON, PYTHON[1:], lambda code: str(PYTHON.index(code))))
def test_the_tour_s_python_runs_as_written(place, monkeypatch, capsys, code):
    monkeypatch.chdir(place)
    exec(compile(code, "the tour", "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out.splitlines()
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
    lines = re.findall(r"^\| (`.*?) \|", reference.partition("## Models")[0], re.MULTILINE)
    assert {name for row in lines for name in re.findall(r"`(\w+)`", row)} == set(TASKS)


def test_the_help_of_eval_names_what_each_task_is_told_apart_by():
    (told,) = re.findall(r"Also report by size: (.*?)\.", command_line.write_page())
    assert all(task.size_name in told for task in TASKS.values()), told


def test_the_two_commands_are_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text()
    for target in [*re.findall(r"^`?make ([a-z-]+)", README, re.MULTILINE), "lint", "test-nightly", "bench"]:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_file_and_heading_that_a_page_links_to_or_names_is_there():
    ours = r"`((?:hf_attn|demos|tests|docs|benchmarks|model_cards)/[\w./*]*\w\.\w+)`"
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^):\s]+)\)", text):
            path, _, heading = target.partition("#")
            linked = page.parent / path if path else page
            assert linked.exists(), (page, target)
            assert not heading or heading in headings_of(linked), (page, target)
        for path in re.findall(ours, text):
            assert list(ROOT.glob(path)), (page, path)


def test_the_page_of_commands_is_what_their_help_says():
    assert command_line.PAGE.read_text(encoding="utf-8") == command_line.write_page(), "run `make reference`"


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
