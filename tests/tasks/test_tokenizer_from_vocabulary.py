"""A task's tokenizer reads what the task reads, and writes what a person writes."""

import pytest
import torch
from transformers import AutoTokenizer

from hf_attn.tasks import build_task
from hf_attn.tasks.batch import SPECIAL_TOKENS
from hf_attn.tasks.tokenizers.from_vocabulary import build_tokenizer

VARIANTS = [
    build_task("copy"),
    build_task("addition"),
    build_task("addition", digits=5),
    build_task("parser", depth=4),
    build_task("sort"),
    build_task("dates"),
    build_task("recall"),
    build_task("brackets"),
    build_task("parity"),
    build_task("modular"),
]


@pytest.mark.parametrize("task", VARIANTS, ids=str)
def test_the_tokenizer_gives_the_task_s_own_ids_and_round_trips_the_text(task):
    tokenizer = build_tokenizer(task)
    batch = task.sample(torch.Generator().manual_seed(0), 200)
    for ids in batch.input_ids.tolist():
        text = task.read_source(ids)
        assert tokenizer(text)["input_ids"] == task.encode(text)
        assert tokenizer.decode(task.encode(text), skip_special_tokens=True) == text


@pytest.mark.parametrize("task", VARIANTS, ids=str)
def test_the_tokenizer_writes_targets_as_people_do(task):
    tokenizer = build_tokenizer(task)
    batch = task.sample(torch.Generator().manual_seed(1), 200)
    for labels in batch.labels.tolist():
        ids = [label for label in labels if label >= 0]
        assert tokenizer.decode(ids, skip_special_tokens=True) == task.decode(labels)


@pytest.mark.parametrize("task", VARIANTS, ids=str)
def test_special_tokens_stand_apart_from_every_symbol(task):
    tokenizer = build_tokenizer(task)
    assert tokenizer.convert_tokens_to_ids(list(SPECIAL_TOKENS)) == [0, 1, 2, 3]
    assert not set(SPECIAL_TOKENS) & set(task.symbols)
    assert len(tokenizer) == len(task.symbols) + len(SPECIAL_TOKENS) == len(set(task.tokens))


def test_a_batch_is_padded_with_the_pad_token_and_masked():
    tokenizer = build_tokenizer(build_task("copy"))
    batch = tokenizer(["7 15 2", "3"], padding=True, return_tensors="pt")
    assert batch["input_ids"][1].tolist()[2:] == [0, 0]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]


def test_a_strange_symbol_becomes_unknown_and_nothing_else_changes():
    tokenizer = build_tokenizer(build_task("addition"))
    tokens = tokenizer.convert_ids_to_tokens(tokenizer("7+9x")["input_ids"])
    assert tokens == ["0", "0", "7", "+", "0", "0", "9", "<unk>", "</s>"]


def test_saved_and_loaded_by_auto_tokenizer_it_is_the_same(tmp_path):
    for task in VARIANTS:
        tokenizer = build_tokenizer(task)
        tokenizer.save_pretrained(tmp_path)
        loaded = AutoTokenizer.from_pretrained(tmp_path, trust_remote_code=False)
        text = task.worked_example.source
        assert loaded(text)["input_ids"] == task.encode(text)
        assert loaded.decode(task.encode(text), skip_special_tokens=True) == text
        assert loaded.pad_token == "<pad>"
