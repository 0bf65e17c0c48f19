"""Running text: passages end where documents do, nothing leaks, and a prompt is left open to go on."""

import math
import re
from collections import Counter
from dataclasses import replace

import pytest
import torch

from hf_attn.architectures.registry import build_model
from hf_attn.architectures.settings import apply_settings
from hf_attn.evaluation.metrics import evaluate, group_interval, groups_of_tokens
from hf_attn.generation.generate import generate_answer
from hf_attn.tasks import build_task
from hf_attn.tasks.batch import END, IGNORED, START
from hf_attn.tasks.splits import SPLITS
from hf_attn.training.loop import train
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


def test_the_model_learns_every_token_of_a_passage_from_those_before_it(task):
    joined = task.sample(torch.Generator().manual_seed(0), 8).joined()
    assert (joined["labels"][:, 0] == IGNORED).all()
    learned = joined["labels"] != IGNORED
    assert torch.equal(joined["input_ids"][learned], joined["labels"][learned])


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


def test_prompt_and_what_is_written_fit_into_the_places_that_are_learned(task):
    model = build_model(task, task.recipe)
    prompt = "The cat"[: task.max_source_tokens - 1]
    written = generate_answer(
        model, torch.tensor([task.encode(prompt)]), max_new_tokens=task.max_target_tokens
    )
    assert task.max_source_tokens + task.max_target_tokens == task.window + 1
    assert model.config.max_position_embeddings == task.window + 1, "<s> and a passage"
    assert len(written.ids) <= task.max_target_tokens


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
    (b"", {}, "0 lines with text"),
    (b"%PDF-1.7", {}, "a PDF, not a text; save it as plain text in UTF-8"),
    ("Müller\n".encode("latin-1") * 50, {}, "line 1: the byte 0xfc is not UTF-8; save it as plain text"),
    (b"a\n" * 50, {"window": 8}, "window=8 must be a whole number from 16 to 1,024"),
    (b"a\n" * 50, {"vocab_size": 3}, "vocab_size=3"),
    (b"a\n" * 50, {"tokenizer_kind": "syllables"}, "choose one of bpe, words, characters"),
])  # fmt: skip
def test_what_is_no_text_to_learn_from_is_refused_in_words(tmp_path, content, options, said):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(said)):
        build_task("text", path=str(tmp_path / "a.txt"), **options).held_out(1)


def bits_of_counts(task, order):
    """Bits per token of held-out passages by counts of training ones, each count raised by one."""
    sample = task.encoded.targets.rows(task.rows_of("training"))
    pairs, singles = Counter(), Counter()
    for row, length in zip(sample.ids.tolist(), sample.lengths.tolist(), strict=True):
        before = [START, *row[: length - 1]] if order == 2 else [None] * length
        pairs.update(zip(before, row[:length], strict=True))
        singles.update(before)
    bits, tokens = 0.0, 0
    for row in task.held_out(10_000).labels.tolist():
        row = [index for index in row if index != IGNORED]
        before = [START, *row[:-1]] if order == 2 else [None] * len(row)
        for place, index in zip(before, row, strict=True):
            bits -= math.log2((pairs[place, index] + 1) / (singles[place] + len(task.vocabulary)))
        tokens += len(row)
    return bits / tokens


@pytest.mark.nightly
def test_seconds_of_training_beat_the_counts_of_characters_and_of_their_pairs(book):
    task, recipe = apply_settings(
        "text", {"path": str(book), "window": 32, **TINY, "steps": 60, "learning_rate": 0.01}
    )
    model = build_model(task, recipe)
    for _ in train(task, model, recipe):
        pass
    overall = evaluate(model, task).overall
    assert sum(n for _, n in overall.tally.values()) == overall.examples
    assert overall.interval == group_interval(overall.tally)
    assert overall.over == f"{task.splits.count('held-out')} texts"
    measures = overall.measures
    assert measures["perplexity"] == pytest.approx(2 ** measures["bits_per_token"])
    assert measures["bits_per_token"] < bits_of_counts(task, 2) < bits_of_counts(task, 1)


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
