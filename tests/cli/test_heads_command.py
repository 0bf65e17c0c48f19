"""`hf-attn heads`: every head's figures as a table and as JSON, of held-out examples and of one text."""

import shutil

import pytest

from hf_attn.analysis.head_metrics import THEORY
from hf_attn.analysis.head_roles import ROLES, measure_head_roles
from hf_attn.checkpoints.save_load import load_checkpoint
from tests.support.commands import in_process, rows_of


def heads_of(capsys, *arguments):
    code, output, errors = in_process(capsys, "heads", *arguments, "--json")
    assert (code, errors) == (0, ""), errors
    return rows_of(output)


def test_json_has_a_line_for_each_head_with_what_python_measures(capsys, tiny_checkpoint):
    rows = heads_of(capsys, tiny_checkpoint, "--examples", 5)
    places = [(row["kind"], row["layer"], row["head"]) for row in rows]
    assert places == [
        (kind, layer, head)
        for kind, layers in (("encoder", 1), ("decoder", 2), ("cross", 2))
        for layer in range(layers)
        for head in range(2)
    ]
    checkpoint = load_checkpoint(tiny_checkpoint)
    found = measure_head_roles(checkpoint.model, checkpoint.task, examples=5)
    for row in rows:
        assert (row["event"], row["task"], row["examples"]) == ("head", "copy", 5)
        for name in (*ROLES, *THEORY):
            if name not in found.trained[row["kind"]]:
                assert name not in row, "only cross-attention has a known answer here"
                continue
            for figures, printed in ((found.trained, row), (found.untrained, row["untrained"])):
                figure = float(figures[row["kind"]][name][row["layer"], row["head"]])
                assert printed[name] == (None if figure != figure else pytest.approx(figure))
            assert name in row["even"]


def test_the_table_shows_trained_untrained_and_chance_and_says_what_columns_mean(capsys, tiny_checkpoint):
    code, output, _ = in_process(capsys, "heads", tiny_checkpoint, "--examples", 3)
    assert code == 0
    assert max(map(len, output.splitlines())) <= 120
    assert "…" not in output
    for words in ("cross attention, mean of 3 held-out examples", "layer·head", "align", "untrained", "even"):
        assert words in " ".join(output.split())
    lines = [line for line in output.splitlines() if line.startswith("│")]
    assert len(lines) == 2 * (2 + 4 + 4) + 3
    for name in ("diagonal", "alignment"):
        assert ROLES[name].definition in output
    _, output, _ = in_process(capsys, "heads", tiny_checkpoint, "--examples", 2, "--no-untrained")
    assert "untrained" not in output


@pytest.mark.parametrize(("arguments", "words"), [
    (["1 2", "--examples", 3], "--examples 3 is for held-out examples, and TEXT is one: give either"),
    (["1 2 three"], "three"),
    (["--task", "sort"], "its symbols are not those"),
    (["--examples", 0], "--help tells more"),
])  # fmt: skip
def test_wrong_use_is_one_line_and_exit_code_2(capsys, tiny_checkpoint, arguments, words):
    code, output, errors = in_process(capsys, "heads", tiny_checkpoint, *arguments)
    assert (code, output, errors.count("\n")) == (2, "", 1)
    assert words in errors


def test_a_folder_without_a_checkpoint_and_a_model_without_attention_are_refused(capsys, tmp_path):
    code, _, errors = in_process(capsys, "heads", tmp_path / "none")
    assert code == 2
    assert str(tmp_path / "none") in errors
    silent = shutil.copytree("model_cards/lstm-reverse", tmp_path / "lstm")
    for text in ([], ["1 2 3"]):
        code, _, errors = in_process(capsys, "heads", silent, *text)
        assert code == 2
        assert "no attention to measure: it reads step by step" in errors
