"""Examples that are read: split so that nothing leaks, the same everywhere; a checkpoint needs no data."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from hf_attn.tasks.base import WorkedExample
from hf_attn.tasks.splits import (
    HELD_OUT,
    SPLITS,
    TRAINING,
    VALIDATION,
    split_by_group,
    split_within_targets,
    stable_hash,
)
from hf_attn.tasks.text.corpus import CorpusTask, Row
from hf_attn.tasks.tokenizers.from_vocabulary import build_tokenizer
from hf_attn.utils.disk_cache import cached_rows


@dataclass(frozen=True)
class Numbers(CorpusTask):
    """Numbers in words, German for English; every row stands there twice, and a group has two rows."""

    count: int = 200
    is_there: bool = True

    name = "numbers"
    title = "Numbers"
    notation = "a number"
    metric = "every token right"
    recipes: ClassVar = {}
    worked_example = WorkedExample("number 7", "Nummer 7", "")

    def read_rows(self):
        if not self.is_there:
            raise ValueError("There is no file.")
        for number in range(self.count):
            yield Row(f"number {number}", f"Nummer {number}", str(number // 2))
            yield Row(f"number {number}", f"Nummer {number}", str(number // 2))


def sources(task, batch):
    return [task.read_source(row) for row in batch.input_ids.tolist()]


def test_the_split_is_the_same_everywhere():
    """Written down once; another machine, version or order must find the same."""
    assert stable_hash("attention") % 1000 == 481
    groups = "abcdefghij"
    shuffled = dict(zip(groups[::-1], split_by_group(groups[::-1]), strict=True))
    assert [shuffled[group] for group in groups] == split_by_group(groups)


def test_training_never_sees_a_held_out_or_validating_text():
    task = Numbers()
    kept_out = set(sources(task, task.held_out(1000)) + sources(task, task.validation(1000)))
    seen = set(sources(task, task.sample(torch.Generator().manual_seed(0), 3000)))
    assert kept_out
    assert not kept_out & seen
    assert len(kept_out | seen) == 200, "and all of them are met"


def test_the_tokenizer_learns_from_training_rows_only():
    @dataclass(frozen=True)
    class Marked(Numbers):
        """Held-out rows hold a letter that training has not."""

        def read_rows(self):
            rows = list(super().read_rows())
            for row, split in zip(rows, split_by_group(row.group for row in rows), strict=True):
                yield row if split == TRAINING else row._replace(source=row.source + " ø")

    assert not any("ø" in token for token in Marked().vocabulary)
    assert any("Nummer" in token for token in Marked().vocabulary)


def test_a_checkpoint_s_task_needs_no_data_until_examples_are_asked_for():
    task = Numbers()
    restored = Numbers(is_there=False).restore(task.tokenizer, ())
    assert restored.vocabulary == task.vocabulary
    assert restored.encode("number 12") == task.encode("number 12")
    assert restored.max_position_embeddings == task.max_position_embeddings
    with pytest.raises(ValueError, match="There is no file"):
        restored.held_out(1)
    with pytest.raises(ValueError, match=r"tokens; this model reads \d+: shorten it"):
        task.encode("number " * 100)
    with pytest.raises(ValueError, match="too few"):
        Numbers(2).validation(1)


def test_a_restored_tokenizer_forgets_how_it_padded():
    task = Numbers()
    tokenizer = build_tokenizer(task)
    tokenizer(["number 1"], padding="max_length", truncation=True, max_length=2)
    batch = task.batch_of(["number", "number 1"], ["Nummer", "Nummer 1"])
    assert batch.attention_mask[0].sum() < batch.attention_mask[1].sum()
    assert len(task.encode("number 1")) > 2
    restored = task.restore(tokenizer, ())
    for text in ("number", "number 1"):
        assert restored.encode(text) == task.encode(text)


def test_every_class_has_its_share_in_every_split_and_groups_stay_whole():
    rows = [(name, f"{name} {i // 4}") for name, n in (("a", 400), ("b", 80)) for i in range(n)]
    splits = split_within_targets(rows)
    assert sorted(split_within_targets([("rare", f"text {i}") for i in range(3)])) == sorted(SPLITS)
    counts = Counter((target, split) for (target, _), split in zip(rows, splits, strict=True))
    assert counts["a", HELD_OUT] == counts["a", VALIDATION] == 40
    assert counts["b", HELD_OUT] == counts["b", VALIDATION] == 8
    assert len({(group, split) for (_, group), split in zip(rows, splits, strict=True)}) == 120


def test_a_class_of_large_groups_holds_the_smallest_out():
    rows = [("x", group) for group, n in (("p", 50), ("q", 30), ("r", 40)) for _ in range(n)]
    splits = dict(zip([group for _, group in rows], split_within_targets(rows), strict=True))
    assert splits == {"q": HELD_OUT, "r": VALIDATION, "p": TRAINING}


def test_a_large_group_trains_where_smaller_ones_can_be_held_out():
    for i in range(20):
        groups = [f"large {i}"] * 20 + [f"small {i} {row // 5}" for row in range(100)]
        splits = dict(zip(groups, split_within_targets([("x", group) for group in groups]), strict=True))
        assert splits[f"large {i}"] == TRAINING


def test_what_was_read_is_kept_and_a_damaged_cache_is_built_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ATTN_CACHE", str(tmp_path / "cache"))
    built = []

    def build():
        built.append(1)
        return [["a", "ö"]]

    assert cached_rows("rows", build) == cached_rows("rows", build) == [["a", "ö"]]
    assert len(built) == 1
    (tmp_path / "cache" / "rows" / "content.json").write_text('[["a"')
    assert cached_rows("rows", build) == [["a", "ö"]]
    assert len(built) == 2


def test_where_nothing_can_be_kept_rows_are_read_each_time(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("HF_ATTN_CACHE", str(tmp_path / "file"))
    assert cached_rows("rows", lambda: [["a"]]) == [["a"]]
