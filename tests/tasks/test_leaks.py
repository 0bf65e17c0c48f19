"""Nothing held out, and nothing that validates, is learned from: told without the tasks' own keys.

Two examples give each other away where a person sees the same: other capitals, accents, spaces or leading
zeros, operands the other way round, another order where order does not matter, another way to write a day.
"""

import datetime
import re
import unicodedata
from collections import defaultdict

import pytest
import torch

from hf_attn.tasks import TASKS, build_task
from hf_attn.tasks.base import TEXT
from hf_attn.tasks.batch import IGNORED, PAD
from hf_attn.tasks.splits import HELD_OUT, SPLITS, TRAINING, VALIDATION, fold_text
from hf_attn.tasks.text.corpus import CorpusTask
from tests.support.matrix import rows

DRAWN = [name for name, task in TASKS.items() if not issubclass(task, CorpusTask)]
OWN = {"csv", "pairs"}  # their data are the user's; `text` has some of its own


def as_written(text):
    """A text without what is a matter of taste."""
    plain = "".join(sign for sign in unicodedata.normalize("NFKD", text) if not unicodedata.combining(sign))
    numbers = re.sub(r"\d+", lambda found: str(int(found[0])) if found[0].isascii() else found[0], plain)
    return tuple(numbers.casefold().split())


def as_sum(text):
    return tuple(sorted(int(number) for number in text.split("+")))


def as_heap(text):
    return tuple(sorted(map(int, text.split())))


def as_question(text):
    *pairs, asked = text.split()
    return frozenset(zip(pairs[::2], pairs[1::2], strict=True)), asked


def as_day(text):
    return datetime.date.fromisoformat(build_task("dates").answer(text))


SEEN_AS = {"addition": as_sum, "modular": as_sum, "sort": as_heap, "recall": as_question, "dates": as_day}


def sources_in(task, batch):
    if task.kind == TEXT:
        return [task.decode([index for index in row if index != IGNORED]) for row in batch.labels.tolist()]
    return [task.read_source([index for index in row if index != PAD]) for row in batch.input_ids.tolist()]


def leaks(parts):
    """What stands in two splits: (split, other) → how many."""
    pairs = [(VALIDATION, TRAINING), (HELD_OUT, TRAINING), (HELD_OUT, VALIDATION)]
    return {pair: shared for pair in pairs if (shared := len(parts[pair[0]] & parts[pair[1]]))}


@pytest.mark.parametrize("name", rows(DRAWN, ["copy", "addition", "modular", "sort", "recall", "dates"]))
def test_what_is_drawn_gives_nothing_of_another_split_away(name):
    task = build_task(name)
    seen_as = SEEN_AS.get(name, as_written)
    generator = torch.Generator().manual_seed(0)
    batches = {
        TRAINING: [task.sample(generator, 4000) for _ in range(5)],
        VALIDATION: [task.validation(1000)],
        HELD_OUT: [task.held_out(1000)],
    }
    parts = {
        split: {seen_as(source) for batch in some for source in sources_in(task, batch)}
        for split, some in batches.items()
    }
    assert min(map(len, parts.values())) >= 100
    assert leaks(parts) == {}


@pytest.mark.parametrize("name", rows(sorted(TASKS.keys() - {*DRAWN} - OWN), ["phrases"]))
def test_what_is_read_gives_nothing_of_another_split_away(name):
    pytest.importorskip("babel")
    task = build_task(name)
    parts = defaultdict(set)
    for row, split in zip(task.rows, task.splits, strict=True):
        parts[split].add(as_written(row.target if task.kind == TEXT else row.source))
    assert min(map(len, parts.values())) >= 100
    assert leaks(parts) == {}


LINES = [f"Ligne {number} : café" for number in range(60)]


@pytest.mark.parametrize("name", ["csv", "pairs", "text"])
def test_a_table_of_ones_own_gives_nothing_of_another_split_away(name, tmp_path):
    alike = [text.upper() for text in LINES], [re.sub(r"(\d+)", r"00\1", text) for text in LINES]
    alike += ([text.replace("é", "e") for text in LINES], [text.replace(" ", "   ") for text in LINES])
    texts = [text for written in zip(LINES, *alike, strict=True) for text in written]
    path = tmp_path / ("lines.txt" if name == "text" else "table.csv")
    if name == "text":
        path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    else:
        lines = [f"{text},{'even' if len(text) % 2 else 'odd'}" for text in texts]
        path.write_text("\n".join(["text,label", *lines]) + "\n", encoding="utf-8")
    task = build_task(name, path=str(path))
    parts = defaultdict(set)
    for row, split in zip(task.rows, task.splits, strict=True):
        parts[split].add(as_written(row.target if task.kind == TEXT else row.source))
    assert set(parts) == set(SPLITS)
    assert leaks(parts) == {}


def test_only_leading_zeros_are_taken_from_a_number():
    assert fold_text("007 05") == fold_text("7 5")
    texts = ("105", "15", "1005", "150", "0", "")
    assert len({fold_text(text) for text in texts}) == len(texts)


@pytest.mark.parametrize("name", rows(DRAWN, ["copy", "addition", "modular", "dates"]))
def test_the_split_of_a_source_is_found_from_what_a_person_writes(name):
    task = build_task(name)
    drawn = {TRAINING: task.sample(torch.Generator().manual_seed(5), 60)}
    drawn |= {VALIDATION: task.validation(60), HELD_OUT: task.held_out(60)}
    for split, batch in drawn.items():
        assert {task.find_split(source) for source in sources_in(task, batch)} == {split}


def test_the_split_of_a_text_is_that_of_its_row_however_it_is_written():
    pytest.importorskip("babel")
    task = build_task("phrases")
    for split in SPLITS:
        rows = (row for row, its in zip(task.rows, task.splits, strict=True) if its == split)
        source = next(row.source for row in rows if row.source.isascii())
        assert task.find_split(f"  {source.upper()} ") == split
    assert task.find_split("a phrase that nobody says") is None
    with pytest.raises(ValueError, match="has no data"):
        build_task("csv").find_split("no table is here")
