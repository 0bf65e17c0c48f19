"""A task's tokenizer reads what the task reads, and writes what a person writes."""

import pytest
import torch
from transformers import AutoTokenizer

from hf_attn.tasks import build_task
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
def test_the_tokenizer_gives_the_task_s_own_ids_and_writes_text_as_people_do_also_once_saved(task, tmp_path):
    tokenizer = build_tokenizer(task)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path, trust_remote_code=False)
    assert loaded.pad_token == "<pad>"
    batch = task.sample(torch.Generator().manual_seed(0), 200)
    for ids, labels in zip(batch.input_ids.tolist(), batch.labels.tolist(), strict=True):
        text, target = task.read_source(ids), [label for label in labels if label >= 0]
        assert tokenizer(text)["input_ids"] == loaded(text)["input_ids"] == task.encode(text)
        assert tokenizer.decode(task.encode(text), skip_special_tokens=True) == text
        assert loaded.decode(target, skip_special_tokens=True) == task.decode(labels)


def test_a_strange_symbol_becomes_unknown_and_nothing_else_changes():
    tokenizer = build_tokenizer(build_task("addition"))
    tokens = tokenizer.convert_ids_to_tokens(tokenizer("7+9x")["input_ids"])
    assert tokens == ["0", "0", "7", "+", "0", "0", "9", "<unk>", "</s>"]
