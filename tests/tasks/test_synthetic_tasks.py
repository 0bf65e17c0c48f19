"""Reversing, sorting, parity, sums on a clock, brackets, recall: what only they promise."""

from collections import Counter

import pytest
import torch

from hf_attn.tasks import build_task
from hf_attn.tasks.splits import HELD_OUT, SPLITS, TRAINING, VALIDATION


def draw(task, n, seed=0):
    return task.sample(torch.Generator().manual_seed(seed), n)


def sources_of(task, batch):
    return [task.read_source(row) for row in batch.input_ids.tolist()]


def read_places(rows, symbols, needed=1):
    """Which source symbols each row of an alignment names."""
    return [[s for s, need in zip(symbols, row, strict=True) if need == needed] for row in rows]


@pytest.mark.parametrize(("name", "options", "source", "answer"), [
    ("reverse", {}, "7 15 2 3", "3 2 15 7"),
    ("reverse", {}, "19", "19"),
    ("sort", {}, "9 4 17 12 4 19 2 8", "2 4 4 8 9 12 17 19"),
    ("sort", {"length": 3, "smallest": 0, "largest": 99}, "10 9 99", "9 10 99"),
    ("parity", {}, "1 0 1 1", "odd"),
    ("parity", {}, "0 0", "even"),
    ("modular", {}, "45 + 29", "21"),
    ("modular", {"modulus": 5}, "4 + 4", "3"),
    ("brackets", {}, "([]{()", "})"),
    ("brackets", {}, "( [ {", "}])"),
    ("brackets", {}, "()", ""),
    ("recall", {}, "a 3 b 7 c 1 b", "7"),
])  # fmt: skip
def test_answers_worked_out_by_hand(name, options, source, answer):
    task = build_task(name, **options)
    assert task.answer(source) == answer
    assert task.verify(source, answer).correct


@pytest.mark.parametrize("name", ["reverse", "sort", "parity", "modular", "brackets", "recall"])
def test_one_symbol_changed_left_out_or_added_makes_an_answer_wrong(name):
    task = build_task(name)
    sources = [source for source in sources_of(task, draw(task, 100)) if task.answer(source)]
    for source in sources:
        right = task.split_target(task.answer(source))
        other = next(symbol for symbol in task.symbols if symbol != right[0])
        for written in ([other, *right[1:]], right[:-1], [*right, right[-1]]):
            assert not task.verify(source, task.join_target(written)).correct, (source, written)


def test_reversing_reads_the_other_diagonal():
    rows = build_task("reverse").alignment("7 15 2", "2 15 7")
    assert rows == [[0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]]


def test_sorting_draws_every_count_from_shortest_to_length_alike():
    task = build_task("sort", length=12, shortest=3)
    counts = Counter(map(task.size_of, sources_of(task, draw(task, 10_000))))
    assert set(counts) == set(range(3, 13))
    assert max(abs(count - 1000) for count in counts.values()) < 200
    assert task.verify("9 4 17", "4 9 17").correct
    with pytest.raises(ValueError, match="13 numbers; this model sorts 3 to 12: write whole numbers from 2"):
        task.encode("4 " * 13)


@pytest.mark.parametrize("shortest", [0, 1])
def test_all_orders_of_held_out_numbers_are_held_out(shortest):
    task = build_task("sort", length=3, smallest=1, largest=9, shortest=shortest)
    held = {tuple(sorted(source.split())) for source in sources_of(task, task.held_out(200))}
    trained = {tuple(sorted(source.split())) for source in sources_of(task, draw(task, 20_000))}
    assert held
    assert not held & trained


def test_parity_needs_every_one_a_clock_both_numbers_and_sorting_equal_numbers_in_their_order():
    assert build_task("parity").alignment("1 0 1 1", "odd") == [[1, 0, 1, 1, 0], [0, 0, 0, 0, 1]]
    assert build_task("modular").alignment("45 + 29", "21") == [[1, 0, 1, 0], [0, 0, 0, 1]]
    rows = build_task("sort", length=4).alignment("9 4 17 4", "4 4 9 17")
    assert [row.index(1) for row in rows] == [1, 3, 0, 2, 4]


def test_each_closing_bracket_needs_the_one_that_it_closes():
    task = build_task("brackets")
    assert [row.index(1) for row in task.alignment("([]{()", "})")] == [3, 0, 6]
    for source in sources_of(task, draw(task, 200)):
        target = task.answer(source)
        openers = read_places(task.alignment(source, target), [*source, "</s>"])
        pairs = ["".join((opener[0], closer)) for opener, closer in zip(openers, target, strict=False)]
        assert set(pairs) <= {"()", "[]", "{}"}


def test_recall_needs_the_value_first_and_both_places_of_the_key():
    rows = build_task("recall").alignment("a 3 b 7 c 1 b", "7")
    assert rows[0] == [0, 0, 2, 1, 0, 0, 2, 0]
    assert rows[1] == [0] * 8  # one symbol is always written: the end follows from nothing that is read


@pytest.mark.parametrize("share", [0.1, 0.4, 0.75])
def test_modular_sums_are_split_by_their_training_share_and_the_rest_in_halves(share):
    task = build_task("modular", train_share=share)
    numbers = torch.arange(task.modulus)
    shares = torch.bincount(task.split_of(torch.cartesian_prod(numbers, numbers) + 1), minlength=3)
    shares = shares / shares.sum()
    assert shares[SPLITS.index(TRAINING)] == pytest.approx(share, abs=0.03)
    for split in (VALIDATION, HELD_OUT):
        assert shares[SPLITS.index(split)] == pytest.approx((1 - share) / 2, abs=0.03)
