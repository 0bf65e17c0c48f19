"""Every measured figure of README and docs stands in benchmarks/results/, and nowhere else."""

import re

import pytest

from docs import figures

ROOT = figures.ROOT
GENERATED = {"sources.md", "command_line.md", "licences.md"}
HAND_WRITTEN = [page for page in ROOT.glob("docs/*.md") if page.name not in GENERATED]
HAND_WRITTEN += [ROOT / "README.md", ROOT / "benchmarks" / "README.md"]
PAGES = [ROOT / page for page in figures.PAGES]
# numbers that are shares, factors, times or have a decimal point: what measuring gives
FIGURE = re.compile(
    r"(?<![\w.-])(?:\d[\d,.]*\s?(?:%|×|(?:ms|s|[MG]B|points|percent|seconds|times)\b)|\d*\.\d+)"
)
NOT_MEASURED = {
    "README.md": {"6.31", "3.12", "3.11", "2.0", "2 GB"},  # versions, and what is installed
    "docs/scaling.md": {"2.13"},  # of torch
    "docs/reference.md": {"95 %", "2,000 times"},  # what an interval is
    # printed by the five texts, and a word of what is always so
    "docs/experiments.md": {".202", ".338", ".507", ".745", "8.76 ms", "12.34 ms"}
    | {"88.2", "89.7", "87.9", "90.1", "90.3"},
    "benchmarks/README.md": {"99 %"},  # the target
}


def written_by_hand(page: str) -> str:
    """What stands outside of the blocks, without code and addresses."""
    page = figures.BLOCK.sub("", page)
    page = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    page = re.sub(r"`[^`]*`", "", page)
    return re.sub(r"\]\([^)]*\)", "]", page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_says_is_what_was_measured(page):
    text = page.read_text(encoding="utf-8")
    assert figures.BLOCK.search(text)
    assert text == figures.fill(text), "make figures"


@pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in HAND_WRITTEN])
def test_no_measured_figure_is_written_by_hand(page):
    found = set(FIGURE.findall(written_by_hand((ROOT / page).read_text(encoding="utf-8"))))
    assert found - NOT_MEASURED.get(page, set()) == set()


def test_fewer_than_three_seeds_are_no_median():
    with pytest.raises(ValueError, match="2 values are no median over 3 seeds"):
        figures.spread([1.0, 2.0], "{:.1f}")


def test_a_median_that_was_not_reached_is_a_lower_bound():
    line = {
        "median_seconds": 202.0,
        "is_lower_bound": True,
        "seconds": {"range": [200.0, 210.0]},
        "exact_match": [0.95, 0.99],
        "reached": [False, True],
        "ratio_to_ours": 107.3,
    }
    assert figures.write_seconds(line) == "over 202 (stopped at 95.0 %)"
    assert figures.write_ratio(line) == "≥107×"
