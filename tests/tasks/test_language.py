"""Running text: passages end where documents do, nothing leaks, and a prompt is left open to go on."""

import re
from collections import Counter
from dataclasses import replace

import pytest
import torch

from hf_attn.architectures.settings import apply_settings
from hf_attn.evaluation.metrics import groups_of_tokens
from hf_attn.tasks import build_task
from hf_attn.tasks.batch import END, IGNORED, START
from hf_attn.tasks.splits import SPLITS
from tests.support.commands import in_process, rows_of

ANIMALS = ("cat", "dog", "hen", "cow", "pig", "fox", "owl", "bee", "ant", "eel")
VERBS = ("sees", "hears", "likes", "meets", "helps", "finds")
STORIES = [
    f"The {a} {verb} the {b}. Now the {b} {verb} the {a}."
    for a in ANIMALS
    for verb in VERBS
    for b in ANIMALS
    if a != b
]
TINY = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text("\n\n".join(STORIES), encoding="utf-8")
    return path


@pytest.fixture
def task(book):
    return build_task("text", path=str(book), window=32)


def passages_of(task, batch):
    return {task.decode(row) for row in batch.labels.tolist()}


def test_a_batch_is_a_start_token_and_passages_that_close_only_where_a_document_ends(task):
    batch = task.sample(torch.Generator().manual_seed(0), 300)
    assert batch.input_ids.tolist() == [[START]] * 300
    text = "\n\n".join(STORIES)
    for row in batch.labels.tolist():
        passage = task.decode(row)
        tokens = [index for index in row if index != IGNORED]
        assert passage in text
        assert (END in tokens) == (len(tokens) < task.window or tokens[-1] == END)
        assert (END in tokens) == any(story.endswith(passage) for story in STORIES)


def test_whole_documents_are_held_out_and_none_of_them_trains(task):
    trained = passages_of(task, task.sample(torch.Generator().manual_seed(0), 20_000))
    held_out, validation = (
        passages_of(task, task.held_out(10_000)),
        passages_of(task, task.validation(10_000)),
    )
    assert not held_out & (trained | validation)
    assert not validation & trained
    splits = dict(zip((row.target for row in task.rows), task.splits, strict=True))
    assert {split: list(splits.values()).count(split) for split in SPLITS} == {
        "training": 432,
        "validation": 54,
        "held-out": 54,
    }


def test_every_token_of_a_passage_is_in_the_group_of_its_document(task):
    batch = task.held_out(10_000)
    groups = groups_of_tokens(task, batch)
    assert len(groups) == int((batch.labels != IGNORED).sum())
    counts = Counter()
    for row, split in zip(task.rows, task.splits, strict=True):
        if split == "held-out":
            counts[row.group] = 1 + len(task.tokens_of(row.target))  # and the end
    for group, count in Counter(groups).items():
        assert count <= counts[group], "passages that two documents have count once"
    assert set(groups) == set(counts)
    wide = replace(batch, labels=torch.nn.functional.pad(batch.labels, (0, 5), value=IGNORED))
    assert groups_of_tokens(task, wide) == groups
    assert task.groups_name == "texts"
    assert build_task("text").groups_name == "modules"


def test_a_prompt_begins_with_the_start_token_and_is_left_open(task):
    ids = task.encode("The cat")
    assert ids[0] == START
    assert END not in ids
    assert task.tokenizer("The cat")["input_ids"] == ids
    assert task.read_source(ids) == "The cat"
    assert task.decode([*ids[1:], END, START]) == "The cat"
    batch = task.batch_of(["The", "The cat"], [" dog sees", " likes"])
    joined = batch.joined()
    assert [task.decode(row[row != 0]) for row in joined["input_ids"]] == [
        "<s>The dog sees",
        "<s>The cat likes",
    ]


def test_blank_lines_part_documents_and_without_enough_of_them_lines_do(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("\r\n".join(f"line {i}\r\nof two\r\n" for i in range(40)), encoding="utf-8", newline="")
    assert build_task("text", path=str(path)).rows[0].target == "line 0\nof two"
    path.write_text("".join(f"name{i}\n" for i in range(40)), encoding="utf-8")
    assert build_task("text", path=str(path)).rows[0].target == "name0"


def test_a_prompt_with_characters_never_met_is_refused_and_the_character_named(task, tmp_path):
    with pytest.raises(ValueError, match=re.escape("'Z' (character 5) is not in the text")):
        task.encode("The Zoo")
    with pytest.raises(ValueError, match=re.escape("'�' (character 5)")):
        task.encode("The \ud800")
    with pytest.raises(ValueError, match="'é'"):
        build_task("text", path=task.path, tokenizer_kind="bpe").encode("The é")
    with pytest.raises(ValueError, match="empty"):
        task.encode("  ")
    with pytest.raises(ValueError, match="shorten it"):
        task.encode("The cat sees the dog.")


@pytest.mark.parametrize(("content", "options", "said"), [
    (b"one line\n", {}, "1 lines with text; at least 30 are needed"),
    (b"%PDF-1.7", {}, "a PDF, not a text; save it as plain text in UTF-8"),
    ("Müller\n".encode("latin-1") * 50, {}, "line 1: the byte 0xfc is not UTF-8; save it as plain text"),
    (b"a\n" * 50, {"window": 8}, "window=8 must be a whole number from 16 to 1,024"),
    (b"a\n" * 50, {"tokenizer_kind": "syllables"}, "choose one of bpe, words, characters"),
])  # fmt: skip
def test_what_is_no_text_to_learn_from_is_refused_in_words(tmp_path, content, options, said):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(said)):
        build_task("text", path=str(tmp_path / "a.txt"), **options).held_out(1)


def test_the_command_line_trains_measures_and_goes_on_from_a_prompt(book, tmp_path, capsys):
    out = tmp_path / "out"
    small = [part for name, value in TINY.items() for part in ("--set", f"{name}={value}")]
    train = ["train", "text", "--set", f"path={book}", "--set", "window=32", *small, "--steps", "30"]
    code, _, errors = in_process(capsys, *train, "--output-dir", out)
    assert code == 0, errors
    code, output, _ = in_process(capsys, "eval", out, "--set", f"path={book}", "--json")
    assert code == 0
    assert rows_of(output)[0]["perplexity"] > 1
    for strategy in ("greedy", "nucleus", "beam"):
        code, output, errors = in_process(capsys, "generate", out, "The ", "--strategy", strategy, "--json")
        assert code == 0, errors
        row = rows_of(output)[0]
        assert row["correct"] is None
        assert 0 < len(row["tokens"]) <= 24
    code, _, errors = in_process(capsys, "generate", out, "The Zoo")
    assert code == 2
    assert "'Z' (character 5)" in errors
    book.unlink()
    assert in_process(capsys, "generate", out, "The ")[0] == 0, "writing needs no text"


def test_no_other_architecture_learns_running_text():
    with pytest.raises(ValueError, match="choose decoder"):
        apply_settings("text", {}, "transformer")
