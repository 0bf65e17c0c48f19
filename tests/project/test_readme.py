"""What the README says can be done as written, and its figures are the measured ones."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import in_process

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"<!-- tested: tour -->\n```(\w+)\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder from which the checkpoints are found as from the repository's root."""
    folder = tmp_path_factory.mktemp("tour")
    (folder / "model_cards").symlink_to(ROOT / "model_cards")
    return folder


def run(place, *command):
    result = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120, check=False)
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


@pytest.mark.parametrize("code", [text for language, text in BLOCKS if language == "python"])
def test_the_tour_s_python_runs_as_written(place, code):
    printed = run(place, sys.executable, "-c", code).splitlines()
    said = re.findall(r"print\(.*\)  # ([0-9]+)$", code, re.MULTILINE)
    assert printed
    assert printed[-1:] == said or not said


def test_the_tour_has_what_it_is_said_to_have():
    assert [language for language, _ in BLOCKS] == ["bash", "python", "python"]
    assert README.count("\n") <= 250


def test_the_two_commands_are_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text()
    for target in [*re.findall(r"^`?make ([a-z-]+)", README, re.MULTILINE), "lint", "test-slow", "bench"]:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_what_it_says_of_a_checkpoint_is_what_was_measured():
    text = " ".join(README.split())
    said = re.search(r"right on ([\d,]+) of ([\d,]+) held-out sequences, is right on (\d+) %", text).groups()
    training = json.loads((ROOT / "model_cards" / "bahdanau-reverse" / "training.json").read_text())
    results = training["results"]
    right = round(results["exact_match"] * results["examples"])
    worst = min(pattern["exact_match"] for pattern in training["search"]["patterns"].values())
    assert said == (f"{right:,}", f"{results['examples']:,}", f"{100 * worst:.0f}")


def test_every_picture_and_file_the_readme_names_is_there():
    for path in re.findall(r"\]\(([^):]+)\)", README):
        assert (ROOT / path).exists(), path
