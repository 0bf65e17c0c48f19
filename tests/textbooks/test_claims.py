"""The documents' claims: what is measured, how it is judged, and that the page says so."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from hf_attn.cli.sources import NAMES, read_rows, write_page
from hf_attn.interpret.attention_maps import attention_maps
from hf_attn.textbooks import DOCUMENTS, Chance, Claim, claims_of, measure_claim
from hf_attn.textbooks.chapter_8.heads import long_examples, open_bundled, queries_and_keys
from hf_attn.textbooks.claims import CORRECTED, NOT_REPRODUCIBLE, OURS, REPRODUCED, verdict_of, write
from tests.support.commands import in_process, rows_of

ROOT = Path(__file__).parents[2]
PAGE, MEASURED = ROOT / "docs" / "sources.md", ROOT / "benchmarks" / "results" / "sources.jsonl"
# fast claims of each document, and those that need training or a clock
COUNTS = {
    "chapter-1": (30, 10),
    "attention-51": (17, 7),
    "notebook": (14, 0),
    "chapter-8": (69, 4),
    "transformers-1": (26, 6),
}


@pytest.fixture(scope="module")
def rows():
    """All fast rows, measured once."""
    return [
        measure_claim(name, claim) for name in DOCUMENTS for claim in claims_of(name) if not claim.is_full
    ]


# The verdict


@pytest.mark.parametrize(("claimed", "measured", "verdict"), [
    ("14.3667", (14.36674,), REPRODUCED),
    ("14.3667", (14.3668,), CORRECTED),
    ("<1e-6", (5e-7,), REPRODUCED),
    ("<1e-6", (1e-6,), CORRECTED),
    ("≥0.90", (0.9,), REPRODUCED),
    (">0.90", (0.9,), CORRECTED),
    ("0.70–0.90", (0.8,), REPRODUCED),
    ("0.70–0.90", (0.99,), CORRECTED),
    ("cat .2", ("cat", 0.2), REPRODUCED),
    ("cat .2", ("mat", 0.2), CORRECTED),
    ("True True", ("True", "False"), CORRECTED),
    (".1234", Chance(3, 100_000), NOT_REPRODUCIBLE),
    (".1234", Chance(500, 100_000), REPRODUCED),
    ("1", (float("nan"),), CORRECTED),
])  # fmt: skip
def test_the_verdict_follows_from_printed_and_measured_figures(claimed, measured, verdict):
    assert verdict_of(claimed, measured) == verdict


def test_measured_figures_are_written_with_the_printed_digits_and_judged_within_a_stated_tolerance():
    assert write("62,832 0.28 1e-3 <1e-6", (60_611.4, 0.24833, 0.00204, 3e-7)) == "60,611 0.25 2e-03 0.000000"
    assert write("0.00", (-1e-9,)) == "0.00"
    assert verdict_of("64.00", (64.4,), tolerance=0.5) == REPRODUCED
    assert verdict_of("64.00", (64.6,), tolerance=0.5) == CORRECTED
    with pytest.raises(ValueError, match=r"'1 2' has 2 figures and 1 were measured"):
        verdict_of("1 2", (1.0,))
    row = measure_claim("chapter-8", Claim("A sentence.", "0.00", lambda: (0.125,), "So it is.", kind=OURS))
    assert (row.claimed, row.measured, row.verdict) == (None, "0.12", None)
    row = measure_claim("chapter-8", Claim("A sentence.", "88.2", None, "No data."))
    assert (row.measured, row.verdict) == (None, NOT_REPRODUCIBLE)


@pytest.mark.parametrize(("document", "words", "claimed"), [
    ("notebook", "third one's key", "14.3668"),
    ("chapter-1", "from 512 to 64", "98,305"),
    ("chapter-8", "Its softmax", " ".join(["0.2"] * 25)),
    ("transformers-1", "Byte pair encoding", "ck pe"),
])  # fmt: skip
def test_another_printed_figure_gets_another_verdict(document, words, claimed):
    (claim,) = [claim for claim in claims_of(document) if words in claim.claim]
    assert measure_claim(document, claim).verdict == REPRODUCED
    changed = dataclasses.replace(claim, claimed=claimed)
    assert measure_claim(document, changed).verdict == CORRECTED


# The documents


def test_every_document_has_its_claims_whose_measuring_leaves_the_caller_s_randomness_alone(rows):
    assert tuple(DOCUMENTS) == NAMES
    found = {
        name: tuple(sum(claim.is_full is full for claim in claims_of(name)) for full in (False, True))
        for name in DOCUMENTS
    }
    assert found == COUNTS
    state = torch.get_rng_state()
    (claim,) = [claim for claim in claims_of("chapter-1") if "attends to most" in claim.claim]
    assert measure_claim("chapter-1", claim) in rows
    assert torch.equal(torch.get_rng_state(), state)


def test_every_row_says_in_a_sentence_what_it_claims_and_why(rows):
    for row in rows:
        assert row.claim.endswith("."), row
        assert row.why.endswith("."), row
        assert (row.measured is None) <= (row.verdict == NOT_REPRODUCIBLE), row
        assert (row.kind == OURS) == (row.verdict is None) == (row.claimed is None) == (not row.where), row
    names = [(row.document, row.claim) for row in rows]
    assert len(set(names)) == len(names)


def test_queries_and_keys_are_those_of_the_map_that_the_model_gives():
    ((source, _), *_), ((query, key), *_) = long_examples("attn-parser"), queries_and_keys()
    weights = (query @ key.transpose(1, 2) / query.shape[-1] ** 0.5).softmax(-1)
    encoder = open_bundled("attn-parser").model.get_encoder()
    torch.testing.assert_close(weights, attention_maps(encoder, source).encoder[-1], atol=1e-5, rtol=1e-4)


# What needs training


@pytest.mark.nightly
@pytest.mark.parametrize(("document", "words", "verdict"), [
    ("chapter-1", "Training accuracy", CORRECTED),
    ("chapter-1", "has not seen", CORRECTED),
    ("chapter-1", "inference example", CORRECTED),
    ("attention-51", "Sorting 8 numbers", CORRECTED),
    ("attention-51", "what of token accuracy is lost", None),
    ("attention-51", "bottleneck", CORRECTED),
    ("chapter-1", "longer than training", CORRECTED),
    ("chapter-1", "Below n = 512", CORRECTED),
    ("chapter-8", "Masking prevents leakage", REPRODUCED),
    ("chapter-8", "copies of 20 symbols", None),
    ("transformers-1", "generalise to longer", CORRECTED),
    ("transformers-1", "bag of words", REPRODUCED),
    ("transformers-1", "By the clock", None),
])  # fmt: skip
def test_what_was_found_by_training_is_what_is_measured(document, words, verdict):
    (claim,) = [claim for claim in claims_of(document) if claim.is_full and words in claim.claim]
    assert measure_claim(document, claim).verdict == verdict


# The command and its page


def test_the_page_is_what_the_command_writes(rows):
    assert PAGE.read_text(encoding="utf-8") == write_page(rows, read_rows(MEASURED)), "run `make sources`"


def test_the_rows_that_take_minutes_are_those_of_the_claims_there_are():
    kept = [(row["document"], row["claim"], row["kind"], row["where"]) for row in read_rows(MEASURED)]
    claims = ((name, claim) for name in DOCUMENTS for claim in claims_of(name) if claim.is_full)
    named = [(name, claim.claim, claim.kind, claim.where) for name, claim in claims]
    assert sorted(kept) == sorted(named), "run `make sources-full`"


def change_row(**cells):
    """The first row of those that take minutes, with other cells."""
    return json.dumps({**json.loads(MEASURED.read_text("utf-8").splitlines()[0]), **cells})


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{}",
        "3",
        '{"is_full": true}',
        "not JSON",
        "[" * 200_000,
        *(change_row(**{name: value}) for name, value in (
            ("why", None), ("claimed", 3.5), ("verdict", ["x"]), ("verdict", "wonderful"), ("why", "\ud800"),
            ("claim", "two\nlines"), ("document", "chapter-9"), ("date", None), ("is_full", False),
        )),
    ],
)  # fmt: skip
def test_rows_that_are_none_are_refused_in_a_sentence(capsys, tmp_path, line):
    (tmp_path / "rows.jsonl").write_text(f"{line}\n")
    given = ("--measured", tmp_path / "rows.jsonl", "--output", tmp_path / "page.md")
    code, _, errors = in_process(capsys, "sources", "notebook", *given)
    assert code == 2
    assert "give what `hf-attn sources --full --json` printed" in errors
    assert not (tmp_path / "page.md").exists()


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_measured(capsys, tmp_path):
    (tmp_path / "folder.md").mkdir()
    for output in (tmp_path / "folder.md", tmp_path / "nowhere" / "page.md", tmp_path / "page.html"):
        code, _, errors = in_process(capsys, "sources", "notebook", "--output", output)
        assert code == 2
        assert (
            "file that ends in .md" if output.suffix == ".html" else "in a folder that is there"
        ) in errors
    code, _, errors = in_process(capsys, "sources", "notebook", "--json", "--output", tmp_path / "page.md")
    assert code == 2
    assert "leave --json out" in errors


def test_the_command_writes_a_page_or_prints_a_table_or_a_json_line_for_each_claim(capsys, tmp_path):
    code, output, _ = in_process(capsys, "sources", "notebook", "--output", tmp_path / "page.md")
    assert (code, output) == (0, "")
    assert "\n\n14 claims: 14 reproduced." in (tmp_path / "page.md").read_text("utf-8")
    _, output, _ = in_process(capsys, "sources", "notebook")
    for word in ("claimed", "measured", "verdict", "why", "14.3667", "reproduced"):
        assert word in output
    code, output, _ = in_process(capsys, "sources", "notebook", "--json")
    printed = rows_of(output)
    assert code == 0
    assert len(printed) == COUNTS["notebook"][0]
    for row in printed:
        named = ["document", "claim", "kind", "where", "claimed", "measured", "verdict", "why", "is_full"]
        assert list(row) == ["event", *named, "date", "hardware"]
        assert (row["event"], row["document"]) == ("claim", "notebook")
        assert row["verdict"] in (REPRODUCED, CORRECTED, NOT_REPRODUCIBLE)


def test_an_unknown_document_is_refused_with_the_list_of_those_there_are(capsys):
    code, output, errors = in_process(capsys, "sources", "chapter-9")
    assert (code, output) == (2, "")
    assert errors.startswith("hf-attn: There is no document 'chapter-9'; choose one of chapter-1, ")
    assert all(name in errors for name in DOCUMENTS)
