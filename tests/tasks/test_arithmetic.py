"""Arithmetic on numbers of any length: what is drawn, split, written, checked and refused."""

import random

import pytest
import torch

from hf_attn.tasks import build_task
from hf_attn.tasks.splits import HELD_OUT
from hf_attn.tasks.synthetic.arithmetic import MOST_DIGITS

KINDS = [("add", 2), ("add", 5), ("subtract", 2), ("multiply", 2)]
every_kind = pytest.mark.parametrize(("operation", "terms"), KINDS)


def draw_sources(n: int, seed: int = 0, **options) -> list[str]:
    """Sources that training draws."""
    task = build_task("arithmetic", **options)
    return list(map(task.read_source, task.sample(torch.Generator().manual_seed(seed), n).input_ids.tolist()))


def compute(source: str) -> str:
    """What Python makes of a source; a difference is as long as its first number."""
    result = str(eval(source, {"__builtins__": {}}))
    return result.zfill(source.index("-")) if "-" in source else result


@every_kind
@pytest.mark.parametrize("digits", [1, 3, 10, 23])
def test_drawn_answers_are_python_s_and_keys_are_those_of_the_text(operation, terms, digits):
    task = build_task("arithmetic", operation=operation, terms=terms, digits=digits)
    sources, targets, keys = task.draw(torch.Generator().manual_seed(0), 300)
    lengths = set()
    for place in range(300):
        read = sources.ids[place, : sources.lengths[place]].tolist()
        source = task.join_source([task.tokens[token] for token in read])
        answer = task.decode(targets.ids[place, : targets.lengths[place]].tolist())
        assert answer == compute(source) == task.answer(source)
        assert task.key_of(source) == keys[place].tolist()
        assert task.split_source(source) == [task.tokens[token] for token in read], "without leading zeros"
        lengths |= set(map(len, source.split(task.sign)))
    assert lengths == set(range(1, digits + 1))


def test_a_sum_turned_round_is_in_the_same_split_and_none_held_out_is_drawn():
    task = build_task("arithmetic", digits=3)
    held_out = {task.read_source(row) for row in task.held_out(300).input_ids.tolist()}
    drawn = {
        task.read_source(row)
        for row in task.sample(torch.Generator().manual_seed(1), 3000).input_ids.tolist()
    }
    turned = {"+".join(reversed(source.split("+"))) for source in held_out}
    assert not (held_out | turned) & drawn
    assert {task.find_split(source) for source in turned} == {HELD_OUT}
    assert task.find_split("1000+1") is None, "nobody draws it"
    assert task.encode(" 007 + 0095") == task.encode("7+95")
    assert task.answer("000+00") == "0"


@every_kind
def test_hard_inputs_have_a_number_of_the_most_digits_and_can_be_read(operation, terms):
    task = build_task("arithmetic", operation=operation, terms=terms, digits=40)
    for name, make in task.hard_inputs(random.Random(0)).items():
        for _ in range(30):
            source = make()
            assert task.answer(source) == compute(source), name
            assert task.size_of(source) == 40


def count_carries(source: str) -> int:
    first, second = (number.zfill(200)[::-1] for number in source.split("+"))
    carry, carries = 0, 0
    for one, other in zip(first, second, strict=True):
        carry = (int(one) + int(other) + carry) // 10
        carries += carry
    return carries


def test_a_carry_chain_carries_most_of_the_way():
    makers = build_task("arithmetic", digits=200).hard_inputs(random.Random(0))
    assert min(count_carries(makers["nines"]()) for _ in range(9)) == 200
    chains = [count_carries(makers["carry chains"]()) for _ in range(40)]
    plain = [count_carries(makers["same lengths"]()) for _ in range(40)]
    drawn, easy = (draw_sources(400, digits=20, hard=share) for share in (0.5, 0.0))
    assert max(chains) > 150 > max(plain), "columns of nine hand a carry on"
    assert max(map(count_carries, drawn)) > max(map(count_carries, easy))
    assert sum(len(set(source) - {"+"}) <= 3 for source in drawn) > 40


@every_kind
def test_each_digit_needs_its_column_of_every_number_and_the_one_before(operation, terms):
    task = build_task("arithmetic", operation=operation, terms=terms)
    source = {
        "add": "+".join(["305", "42", "9", "7", "1"][:terms]),
        "subtract": "305-42",
        "multiply": "305*7",
    }[operation]
    answer = task.answer(source)
    rows = task.alignment(source, answer)
    assert len(rows) == len(answer) + 1
    assert {len(row) for row in rows} == {len(source) + 1}
    assert [source[place] for place, needed in enumerate(rows[1][:-1]) if needed == 1] == {
        "add": ["0", "4"],
        "subtract": ["0", "4"],
        "multiply": ["0", "7"],
    }[operation]
    assert rows[0][2] == 1
    assert rows[1][2] == 2
    assert rows[-1] == [0] * len(source) + [1]


@pytest.mark.parametrize(("options", "text", "sentence"), [
    ({}, "12", r"'12' has not 2 numbers: write 2 whole numbers with \+ between, for example '391\+153'"),
    ({}, "1+2+3", "has not 2 numbers"),
    ({}, "-1+2", r"'-' \(character 1\) is not allowed: write digits and \+"),
    ({}, "١+٢", "is not allowed"),
    ({}, "1 2+3", r"'1 2' has a space between its digits: write 2 whole numbers"),
    ({}, "9" * (MOST_DIGITS + 1) + "+1", "A number has 2,001 digits; 2,000 at most are read"),
    ({}, "9" * 20_000 + "+1", "characters; 10005 at most are read"),
    ({"operation": "subtract"}, "3-12", "would be below 0.*the larger first"),
    ({"operation": "multiply"}, "12*34", "has no single digit.*one of a single digit"),
])  # fmt: skip
def test_a_source_that_is_none_is_refused_with_what_is_allowed(options, text, sentence):
    with pytest.raises(ValueError, match=sentence) as refused:
        build_task("arithmetic", **options).encode(text)
    assert len(str(refused.value)) < 300
