"""The user's own pairs: read whole or refused, split without leaks, written back as they came."""

import csv
import dataclasses
import re

import pytest
import torch

from hf_attn.checkpoints.save_load import load_checkpoint
from hf_attn.tasks import build_task
from hf_attn.tasks.splits import HELD_OUT, SPLITS
from tests.support.commands import in_process, rows_of

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
PAIRS = [(f"{a} and {b}", f"{NUMBERS[a]} & {NUMBERS[b]}") for a in range(10) for b in range(10)]
TINY = ["hidden_size=16", "intermediate_size=16", "encoder_layers=1", "decoder_layers=1"]
TRAIN_TINY = [part for setting in TINY for part in ("--set", setting)]


def write_csv(path, rows, header=("source", "target")):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return str(path)


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table in the working folder: a checkpoint names the file without its folder."""
    monkeypatch.chdir(tmp_path)
    return write_csv(tmp_path / "pairs.csv", PAIRS)


def test_sources_that_differ_in_capitals_and_spaces_alone_stand_in_one_split(tmp_path):
    alike = [form for source, _ in PAIRS for form in (source, source.upper(), source.replace(" ", "  "))]
    task = build_task("pairs", path=write_csv(tmp_path / "a.csv", [(form, "x") for form in alike]))
    splits = {}
    for row, split in zip(task.rows, task.splits, strict=True):
        assert splits.setdefault(" ".join(row.source.casefold().split()), split) == split
    assert set(splits.values()) == set(SPLITS)


def test_the_vocabulary_holds_nothing_that_only_held_out_rows_have(table, tmp_path):
    task = build_task("pairs", path=table)
    held_out = next(row for row, split in zip(task.rows, task.splits, strict=True) if split == HELD_OUT)
    marked = [(s, t + "€" if s == held_out.source else t) for s, t in PAIRS]
    task = build_task("pairs", path=write_csv(tmp_path / "marked.csv", marked))
    assert "€" not in task.vocabulary
    assert not task.verify(held_out.source, f"{held_out.target}<unk>").correct


@pytest.mark.parametrize("kind", ["characters", "bpe"])
def test_what_people_write_comes_back_as_they_wrote_it(tmp_path, kind):
    texts = [
        "Ärger im  Büro", "naïve café", "CamelCase", "日本語 です", "smile 🙂👍🏽",
        'say "no", no; yes|no', "a\nb",
    ]  # fmt: skip
    rows = [(f"{text} {i}", text) for i in range(12) for text in texts]
    task = build_task("pairs", path=write_csv(tmp_path / "a.csv", rows), tokenizer_kind=kind)
    assert [row[:2] for row in task.rows] == rows
    batch = task.sample(torch.Generator().manual_seed(0), 50)
    for source_ids, label_ids in zip(batch.input_ids.tolist(), batch.labels.tolist(), strict=True):
        assert (task.read_source(source_ids), task.decode(label_ids)) in rows
    for source, target in rows:
        assert task.decode(task.encode(source)) == source
        assert task.join_target(task.split_target(target)) == target
        assert task.answer(source) == target


def test_of_several_targets_for_one_source_the_first_counts_and_the_others_are_told(tmp_path):
    path = write_csv(tmp_path / "a.csv", [*PAIRS, ("1 and 2", "1 & 2"), ("3 and 4", "3 & 4"), PAIRS[0]])
    task = build_task("pairs", path=path)
    assert task.answer("1 and 2") == "one & two"
    assert task.further_targets == 2
    assert "2 further targets" in task.worked_example.story


def test_a_word_that_was_met_once_is_never_written_right(tmp_path):
    rows = [(f"say {word} number {i}", f"{word} unique{i}x") for i, word in enumerate(NUMBERS * 5)]
    task = build_task("pairs", path=write_csv(tmp_path / "a.csv", rows), tokenizer_kind="words")
    target = rows[0][1]
    assert "<unk>" in task.split_target(target)
    written = task.decode(task.ids(*task.split_target(target)))
    assert "<unk>" in written
    assert not task.verify(rows[0][0], written).correct
    assert not task.verify("another source", written, written).correct


def test_no_path_makes_a_task_to_show_and_says_what_it_lacks_once_data_are_wanted():
    task = build_task("pairs")
    assert "path=table.csv" in task.worked_example.story
    assert task.recipe.architecture == "transformer"
    with pytest.raises(ValueError, match=r"give path=table\.csv"):
        task.held_out(10)


@pytest.mark.parametrize(("rows", "options", "said"), [
    (PAIRS[:20], {}, "20 different sources; at least 30 are needed"),
    (PAIRS, {"max_length": 8}, "more than max_length=8 tokens, the longest of 14"),
    ([(f"{s} n{i}", f"{t} m{i}") for i, (s, t) in enumerate(PAIRS)], {"vocab_size": 4}, "vocab_size=4"),
    (PAIRS, {"tokenizer_kind": "letters"}, "choose one of bpe, words, characters"),
    (PAIRS, {"max_length": 1000}, "max_length=1000 must be a whole number from 2 to 512"),
    (PAIRS, {"source": "a", "target": "a"}, "must be two columns"),
    ([(f"a{i}", f"b{i}") for i in range(40)], {"tokenizer_kind": "words"}, "nothing is met twice"),
])  # fmt: skip
def test_data_from_which_nothing_can_be_learned_are_refused_in_words(tmp_path, rows, options, said):
    path = write_csv(tmp_path / "a.csv", rows)
    with pytest.raises(ValueError, match=re.escape(said)):
        build_task("pairs", path=path, **options).held_out(10)


def test_more_text_than_can_be_learned_from_is_refused_before_anything_is_learned(tmp_path):
    rows = "\n".join(f"{number},{'a word ' * 2000}" for number in range(750))
    (tmp_path / "long.csv").write_text(f"source,target\n{rows}\n")
    task = build_task("pairs", path=str(tmp_path / "long.csv"), tokenizer_kind="bpe")
    with pytest.raises(ValueError, match=r"10,501,\d+ characters of sources and targets; 10,000,000 at most"):
        _ = task.tokenizer


def test_a_trained_checkpoint_writes_without_the_table_and_judges_with_it(table, tmp_path, capsys):
    out = tmp_path / "out"
    train = ["train", "pairs", "--set", f"path={table}", *TRAIN_TINY, "--steps", "10", "--output-dir", out]
    code, output, errors = in_process(capsys, *train, "--json")
    assert code == 0, errors
    assert rows_of(output)[-1]["task"] == "pairs"
    code, output, _ = in_process(capsys, "generate", out, "1 and 2", "12 and 21", "--json")
    assert code == 0
    assert [row["correct"] for row in rows_of(output)] == [False, None]
    (tmp_path / "pairs.csv").rename(tmp_path / "moved.csv")
    code, output, _ = in_process(capsys, "generate", out, "1 and 2", "--json")
    assert code == 0
    assert rows_of(output)[0]["correct"] is None
    code, _, errors = in_process(capsys, "eval", out)
    assert code == 2
    assert "There is no file 'pairs.csv'" in errors
    assert "--set path=FILE" in errors
    assert errors.count("\n") == 1
    for command in (["eval", out], ["heads", out, "--examples", 1], ["ablate", out, "--examples", 1]):
        assert "--set path=FILE" in in_process(capsys, *command)[2]
        assert in_process(capsys, *command, "--set", "path=moved.csv")[0] == 0


def test_a_checkpoint_s_task_has_the_vocabulary_that_was_trained_whatever_the_table_holds_now(
    table, tmp_path, capsys
):
    out = tmp_path / "out"
    train = ["train", "pairs", "--set", f"path={table}", *TRAIN_TINY, "--steps", "2", "--output-dir", out]
    assert in_process(capsys, *train)[0] == 0
    trained = build_task("pairs", path=table).vocabulary
    write_csv(tmp_path / "pairs.csv", [(f"{s} Ω", t) for s, t in PAIRS])
    task = load_checkpoint(out).task_named()
    assert task.vocabulary == trained
    with pytest.raises(ValueError, match="'Ω'"):
        task.encode("1 and 2 Ω")
    assert dataclasses.replace(task, known=None).encode("1 and 2 Ω")
