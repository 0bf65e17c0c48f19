"""The documents' claims: what is measured, how it is judged, and that the page says so."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from hf_attn.cli.sources import NAMES, read_rows, write_page
from hf_attn.interpret.attention_maps import attention_maps
from hf_attn.textbooks import DOCUMENTS, Chance, Claim, claims_of, measure_claim
from hf_attn.textbooks.chapter_1 import training as chapter_1_training
from hf_attn.textbooks.chapter_8.heads import long_examples, open_bundled, queries_and_keys
from hf_attn.textbooks.claims import CORRECTED, NOT_REPRODUCIBLE, OURS, REPRODUCED, verdict_of, write
from hf_attn.textbooks.learn_ai_51 import training as learn_ai_51_training
from hf_attn.textbooks.notebook import printed_numbers
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


def find(rows, document, words):
    (found,) = [row for row in rows if row.document == document and words in row.claim]
    return found


# The verdict


@pytest.mark.parametrize(
    ("claimed", "measured", "verdict"),
    [
        ("14.3667", (14.36674,), REPRODUCED),
        ("14.3667", (14.3668,), CORRECTED),
        ("98,304", (98_304,), REPRODUCED),
        ("98,304", (98_305,), CORRECTED),
        ("2.2317e-09", (2.23173e-9,), REPRODUCED),
        ("2.2317e-09", (2.2319e-9,), CORRECTED),
        ("<1e-6", (5e-7,), REPRODUCED),
        ("<1e-6", (1e-6,), CORRECTED),
        ("<409,600", (33_472,), REPRODUCED),
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
    ],
)
def test_the_verdict_follows_from_printed_and_measured_figures(claimed, measured, verdict):
    assert verdict_of(claimed, measured) == verdict


def test_a_stated_tolerance_takes_the_place_of_the_printed_digits():
    assert verdict_of("64.00", (64.4,), tolerance=0.5) == REPRODUCED
    assert verdict_of("64.00", (64.6,), tolerance=0.5) == CORRECTED


def test_figures_that_are_not_as_many_as_claimed_are_refused_in_words():
    with pytest.raises(ValueError, match=r"'1 2' has 2 figures and 1 were measured"):
        verdict_of("1 2", (1.0,))


def test_measured_figures_are_written_with_the_printed_digits():
    assert write("62,832 0.28 1e-3 <1e-6", (60_611.4, 0.24833, 0.00204, 3e-7)) == "60,611 0.25 2e-03 0.000000"
    assert write("0.00", (-1e-9,)) == "0.00"


def test_what_no_document_claims_is_measured_and_not_judged():
    row = measure_claim("chapter-8", Claim("A sentence.", "0.00", lambda: (0.125,), "So it is.", kind=OURS))
    assert (row.claimed, row.measured, row.verdict) == (None, "0.12", None)


def test_a_claim_with_nothing_to_compute_is_not_reproducible():
    row = measure_claim("chapter-8", Claim("A sentence.", "88.2", None, "No data."))
    assert (row.measured, row.verdict) == (None, NOT_REPRODUCIBLE)


@pytest.mark.parametrize(
    ("document", "words", "claimed"),
    [
        ("notebook", "third one's key", "14.3668"),
        ("chapter-1", "from 512 to 64", "98,305"),
        ("chapter-8", "Its softmax", " ".join(["0.2"] * 25)),
        ("transformers-1", "Byte pair encoding", "ck pe"),
    ],
)
def test_another_printed_figure_gets_another_verdict(document, words, claimed):
    (claim,) = [claim for claim in claims_of(document) if words in claim.claim]
    assert measure_claim(document, claim).verdict == REPRODUCED
    changed = dataclasses.replace(claim, claimed=claimed)
    assert measure_claim(document, changed).verdict == CORRECTED


def test_measuring_leaves_the_callers_randomness_alone_and_repeats_itself():
    torch.manual_seed(7)
    wanted = torch.rand(3)
    torch.manual_seed(7)
    claim = next(claim for claim in claims_of("chapter-1") if "attends to most" in claim.claim)
    first = measure_claim("chapter-1", claim)
    assert torch.equal(torch.rand(3), wanted)
    assert measure_claim("chapter-1", claim) == first


# The documents


def test_every_document_has_its_claims():
    found = {
        name: tuple(sum(claim.is_full is full for claim in claims_of(name)) for full in (False, True))
        for name in DOCUMENTS
    }
    assert found == COUNTS


def test_every_row_says_in_a_sentence_what_it_claims_and_why(rows):
    for row in rows:
        assert row.claim.endswith("."), row
        assert row.why.endswith("."), row
        assert (row.measured is None) <= (row.verdict == NOT_REPRODUCIBLE), row
        assert (row.kind == OURS) == (row.verdict is None) == (row.claimed is None) == (not row.where), row
    names = [(row.document, row.claim) for row in rows]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("document", "words", "measured", "verdict"),
    [
        (
            "chapter-1",
            "attends to most",
            "the 0.266 The 0.217 sat 0.242 cat 0.211 mat 0.207 sat 0.194",
            CORRECTED,
        ),
        ("chapter-1", "as its code prints", "1,050,624", CORRECTED),
        ("chapter-1", "without biases", "1,048,576", REPRODUCED),
        ("chapter-1", "text classifier has", "3,350,274", CORRECTED),
        ("chapter-1", "the RNN has fewer", "3,086,850 2,823,682", CORRECTED),
        ("chapter-1", "longest period", "60,611", CORRECTED),
        ("chapter-1", "“dimension 256”", "628", CORRECTED),
        ("chapter-1", "dominates", "1.5", CORRECTED),
        ("chapter-1", "the two factors", "3.0 2.0", REPRODUCED),
        ("chapter-1", "plain RNN's O(nd²)", "2.5", CORRECTED),
        ("chapter-1", "Against an LSTM", "2.5", None),
        ("chapter-1", "weight of “it” on cat and mat", "0.17", None),
        ("chapter-1", "Head 1 attends", "0.306", CORRECTED),
        ("chapter-1", "specific words", "0.09 1.00", None),
        ("attention-51", "Bahdanau's score", "16,448 0 16,384 32,896", None),
        ("attention-51", "Luong's dot", "0 1 2", REPRODUCED),
        ("attention-51", "decoder with attention", "2×800 2×10", REPRODUCED),
        ("attention-51", "be permuted", "0.01 0.00 0.82", CORRECTED),
        ("attention-51", "one head of 64", "12,480 12,480 16,640", None),
        ("attention-51", "position 49 is not", "0.957 0.348", REPRODUCED),
        ("attention-51", "from “cat” to “it”", "6", CORRECTED),
        ("notebook", "third one's key", "14.3667", REPRODUCED),
        ("chapter-8", "by the code printed above", "5.001 4.374", CORRECTED),
        ("chapter-8", "by their arithmetic", "0.803 1.101", REPRODUCED),
        ("chapter-8", "“I” and “love”", "1.9 1.6 1.8", REPRODUCED),
        ("chapter-8", "periods of the first", "6.28 628.32 60611.48", CORRECTED),
        ("chapter-8", "constant token", "0.000000 False True", None),
        ("chapter-8", "continuous Hopfield", "True False False", CORRECTED),
        ("chapter-8", "is ∂L/∂z", "1 -2", REPRODUCED),
        ("chapter-8", "torch's for |z|²", "2 4", CORRECTED),
        ("chapter-8", "batch normalisation", "0.000000 2.1", REPRODUCED),
        ("chapter-8", "first Transformer", "64", REPRODUCED),
        ("chapter-8", "BERT-base, GPT-2", "0.11 1.6 0.22 175", CORRECTED),
        ("chapter-8", "18 to 36 layers", "26 42 46", CORRECTED),
        ("chapter-8", "26, 42 and 46 layers", "2.6 9.2 27.2", None),
        ("chapter-8", "310 + 98", "408", REPRODUCED),
        ("chapter-8", "what it reads", "False False", CORRECTED),
        ("chapter-8", "Performer is O(n log n)", "1.00", REPRODUCED),
        ("chapter-8", "Reformer is O(n log n)", "1.00", REPRODUCED),
        ("chapter-8", "sixth epoch", None, NOT_REPRODUCIBLE),
        ("chapter-8", "greatest I(X; Y)", None, NOT_REPRODUCIBLE),
        ("chapter-8", "GLUE", None, NOT_REPRODUCIBLE),
        ("chapter-8", "Quantum", None, NOT_REPRODUCIBLE),
        ("chapter-8", "curvature", None, NOT_REPRODUCIBLE),
        (
            "transformers-1",
            "nn.MultiheadAttention: outputs",
            "0.000000 0.000000 0.000000 0.000000",
            None,
        ),
        ("transformers-1", "average_attn_weights", "False True", CORRECTED),
        ("transformers-1", "index i", "255", CORRECTED),
        ("transformers-1", "Byte pair encoding", "pe ck", REPRODUCED),
        ("transformers-1", "rank of Rome", "1 1", REPRODUCED),
    ],
)
def test_what_was_found_on_reading_the_documents_is_what_is_measured(
    rows, document, words, measured, verdict
):
    row = find(rows, document, words)
    assert (row.measured, row.verdict) == (measured, verdict)


def test_the_third_row_of_exercise_1_differs_and_its_outputs_hold(rows):
    weights = find(rows, "chapter-1", "three rows of weights")
    assert weights.measured.split()[6:] == ["0.25", "0.25", "0.50"]
    assert weights.verdict == CORRECTED
    third = find(rows, "chapter-1", "third row of weights")
    assert (third.measured, third.verdict) == ("0.2483 0.2483 0.5035", CORRECTED)
    assert find(rows, "chapter-1", "Exercise 1: the outputs").verdict == REPRODUCED


def test_the_demonstration_s_lowest_weight_hardly_ever_comes_out(rows):
    row = find(rows, "chapter-1", "demonstration")
    hits, _, draws, _ = row.measured.split()
    assert int(hits) <= 1e-3 * int(draws.replace(",", ""))
    assert row.verdict == NOT_REPRODUCIBLE


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        ("rank of at most", CORRECTED),
        ("its first singular values", CORRECTED),
        ("Low frequencies hold", CORRECTED),
        ("is in its low frequencies", None),
        ("Deep layers compress", REPRODUCED),
        ("trained heads", CORRECTED),
        ("kernel is asymmetric", REPRODUCED),
        ("minimises an energy", CORRECTED),
    ],
)
def test_what_is_claimed_of_trained_maps_is_measured_on_trained_maps(rows, words, verdict):
    assert find(rows, "chapter-8", words).verdict == verdict


def test_one_update_lowers_every_trained_query_s_energy_and_is_not_its_minimum(rows):
    rising, left = find(rows, "chapter-8", "minimises an energy").measured.split()
    assert rising == "0"
    assert 0.05 < float(left) < 0.5


def test_queries_and_keys_are_those_of_the_map_that_the_model_gives():
    ((source, _), *_), ((query, key), *_) = long_examples("attn-parser"), queries_and_keys()
    weights = (query @ key.transpose(1, 2) / query.shape[-1] ** 0.5).softmax(-1)
    encoder = open_bundled("attn-parser").model.get_encoder()
    torch.testing.assert_close(weights, attention_maps(encoder, source).encoder[-1], atol=1e-5, rtol=1e-4)


def test_the_help_names_every_document():
    assert tuple(DOCUMENTS) == NAMES


def test_all_of_the_notebook_is_reproduced_once_its_missing_cells_have_drawn(rows):
    assert {row.verdict for row in rows if row.document == "notebook"} == {REPRODUCED}
    printed_alone = printed_numbers.many_heads(0)["query"][3, :4]
    assert [round(float(number), 4) for number in printed_alone] == [1.0933, -2.7744, -1.0884, -3.5698]
    read = printed_numbers.read_by_heads()
    assert not ((read >= 0) & (read < 1)).all(), "torch.rand could not be what the heads read"


# What needs training


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("document", "words", "verdict"),
    [
        ("chapter-1", "Training accuracy", CORRECTED),
        ("chapter-1", "has not seen", CORRECTED),
        ("chapter-1", "inference example", CORRECTED),
        ("attention-51", "Sorting 8 numbers", CORRECTED),
        ("attention-51", "what of token accuracy is lost", CORRECTED),
        ("attention-51", "bottleneck", CORRECTED),
        ("chapter-1", "longer than training", CORRECTED),
        ("chapter-1", "Below n = 512", CORRECTED),
        ("chapter-8", "Masking prevents leakage", REPRODUCED),
        ("chapter-8", "copies of 20 symbols", None),
        ("transformers-1", "generalise to longer", CORRECTED),
        ("transformers-1", "bag of words", REPRODUCED),
        ("transformers-1", "By the clock", None),
    ],
)
def test_what_was_found_by_training_is_what_is_measured(document, words, verdict):
    (claim,) = [claim for claim in claims_of(document) if claim.is_full and words in claim.claim]
    assert measure_claim(document, claim).verdict == verdict


@pytest.mark.nightly
def test_the_documents_own_trainings_follow_from_their_seeds():
    coins = chapter_1_training.train_on_coins()
    assert coins.accuracies == pytest.approx([53.4, 50.9, 53.8, 70.0, 84.3], abs=0.5)
    assert coins.positive == pytest.approx(0.9897, abs=2e-3)
    assert coins.unseen == pytest.approx(50, abs=4)
    assert learn_ai_51_training.sorted_by_epoch() == pytest.approx((0.996, 1.0), abs=5e-3)
    assert learn_ai_51_training.starts() == pytest.approx((0.529, 0.664), abs=0.01)


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
    for output in (tmp_path / "folder.md", tmp_path / "nowhere" / "page.md"):
        code, _, errors = in_process(capsys, "sources", "notebook", "--output", output)
        assert code == 2
        assert "in a folder that is there" in errors
    code, _, errors = in_process(capsys, "sources", "notebook", "--json", "--output", tmp_path / "page.md")
    assert code == 2
    assert "leave --json out" in errors


def test_the_command_prints_a_json_line_for_each_claim_of_a_document(capsys):
    code, output, _ = in_process(capsys, "sources", "notebook", "--json")
    printed = rows_of(output)
    assert code == 0
    assert len(printed) == COUNTS["notebook"][0]
    for row in printed:
        named = ["document", "claim", "kind", "where", "claimed", "measured", "verdict", "why", "is_full"]
        assert list(row) == ["event", *named, "date", "hardware"]
        assert (row["event"], row["document"]) == ("claim", "notebook")
        assert row["verdict"] in (REPRODUCED, CORRECTED, NOT_REPRODUCIBLE)


def test_the_command_prints_a_table_for_people(capsys):
    code, output, _ = in_process(capsys, "sources", "notebook")
    assert code == 0
    for word in ("claimed", "measured", "verdict", "why", "14.3667", "reproduced"):
        assert word in output


def test_an_unknown_document_is_refused_with_the_list_of_those_there_are(capsys):
    code, output, errors = in_process(capsys, "sources", "chapter-9")
    assert (code, output) == (2, "")
    assert errors.startswith("hf-attn: There is no document 'chapter-9'; choose one of chapter-1, ")
    assert all(name in errors for name in DOCUMENTS)


def test_a_page_that_is_not_markdown_is_refused(capsys, tmp_path):
    code, _, errors = in_process(capsys, "sources", "notebook", "--output", tmp_path / "page.html")
    assert code == 2
    assert "must be a file that ends in .md" in errors


def test_the_command_writes_a_page_of_one_document(capsys, tmp_path):
    code, output, _ = in_process(capsys, "sources", "notebook", "--output", tmp_path / "page.md")
    assert (code, output) == (0, "")
    page = (tmp_path / "page.md").read_text("utf-8")
    assert (
        "## notebook: “Foundations of Self-Attention and Multi-Head Attention”\n\n14 claims: 14 reproduced."
        in page
    )
