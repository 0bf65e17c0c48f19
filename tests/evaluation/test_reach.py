"""Inputs longer than learned: what is measured is what is written, and judged by Python's integers."""

import pytest
import torch

from hf_attn import load_checkpoint
from hf_attn.architectures.registry import build_model
from hf_attn.checkpoints.save_load import BUNDLED
from hf_attn.evaluation.metrics import exact_matches, find_right, predict
from hf_attn.evaluation.reach import can_reach, find_margins, measure_least_sure, measure_reach, widen_task
from hf_attn.experiments.reach import TASKS_BY_NAME, recipe_for
from hf_attn.generation.generate import generate_answer
from hf_attn.tasks import build_task
from hf_attn.tasks.splits import HELD_OUT, SPLITS
from tests.support.commands import in_process


@pytest.fixture(scope="module")
def adder():
    """The bundled model that learned sums of at most 10 digits."""
    return load_checkpoint(BUNDLED / "attn-addition-long")


def test_sums_of_60_digits_are_right_of_a_model_that_learned_10(adder):
    scores = measure_reach(adder.model, adder.task, 60, 6)
    assert list(scores) == ["same lengths", "mixed lengths", "carry chains", "nines"]
    assert [score.exact_match for score in scores.values()] == [1.0] * 4
    assert [score.examples for score in scores.values()] == [6] * 4


def test_what_is_measured_in_one_pass_is_what_is_written(adder, monkeypatch):
    weight = adder.model.model.encoder.positions.weight
    with torch.no_grad():
        held = weight.clone()
        weight += 0.05 * torch.randn(
            weight.shape, generator=torch.Generator().manual_seed(0)
        )  # some are wrong
    try:
        scores = measure_reach(adder.model, adder.task, 25, 8)
        for kind, batch in adder.task.beyond(25, 8).items():
            written = predict(adder.model, adder.task, batch, most=28)
            assert scores[kind].exact_match == exact_matches(written, batch.labels).float().mean()
        assert 0 < sum(score.exact_match for score in scores.values()) < 4
    finally:
        with torch.no_grad():
            weight.copy_(held)


def test_those_of_which_it_is_least_sure_hold_the_wrong_ones(adder):
    task = adder.task
    weight = adder.model.model.encoder.positions.weight
    held = weight.detach().clone()
    with torch.no_grad():
        weight += 0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
        try:
            batches = task.beyond(25, 8, 3).values()
            right = torch.cat([find_right(adder.model, task, batch) for batch in batches])
            margins = torch.cat([find_margins(adder.model, batch) for batch in batches])
            (found, least) = (measure_least_sure(adder.model, task, 25, 32, kept, 3) for kept in (32, 5))
        finally:
            weight.copy_(held)
    assert 0 < right.sum() < 32
    assert torch.equal(margins > 0, right)
    assert (found.examples, found.exact_match) == (32, right.float().mean())
    assert (least.examples, least.exact_match) == (5, right[margins.argsort()[:5]].float().mean())


def test_an_answer_may_be_longer_than_any_learned(adder):
    source = f"{'9' * 120}+1"
    written = generate_answer(adder.model, torch.tensor([adder.task.encode(source)]))
    assert adder.task.decode(written.ids) == str(10**120)
    beams = generate_answer(adder.model, torch.tensor([adder.task.encode(source)]), "beam", num_beams=2)
    assert adder.task.decode(beams.ids) == str(10**120)


def test_only_models_that_count_in_the_text_reach_and_only_where_there_is_more(adder):
    assert can_reach(adder.task, adder.model.config)
    assert can_reach(build_task("copy"), adder.model.config)
    assert not can_reach(build_task("sort"), adder.model.config)
    assert not can_reach(build_task("copy"), load_checkpoint(BUNDLED / "attn-copy").model.config)
    assert not can_reach(build_task("copy"), load_checkpoint(BUNDLED / "lstm-reverse").model.config)
    with pytest.raises(ValueError, match="Task 'sort' has no inputs longer than those it learns"):
        measure_reach(adder.model, build_task("sort"), 50, 2)


@pytest.mark.parametrize(
    "task", [build_task("copy", max_length=5), build_task("sort", length=5, shortest=2)], ids=str
)
def test_longer_sequences_have_that_length_and_are_held_out(task):
    (batch,) = task.beyond(30, 7).values()
    assert (batch.labels != -100).sum(1).tolist() == [31] * 7
    keys = torch.tensor(
        [sorted(row) if task.name == "sort" else row for row in batch.input_ids[:, :-1].tolist()]
    )
    assert {SPLITS[place] for place in task.split_of(keys).tolist()} == {HELD_OUT}


@pytest.mark.parametrize("name", ["copy", "reverse", "sort", "addition"])
def test_a_model_that_can_reach_reads_what_is_longer_than_learned_and_another_refuses_it(name):
    task = TASKS_BY_NAME[name](5)
    longer = task.beyond(30, 1).popitem()[1].input_ids[0]
    source = task.read_source(longer.tolist())
    reader = widen_task(task, build_model(task, recipe_for("both_ends", 1)).config)
    assert reader.encode(source) == longer.tolist()
    assert reader.verify(source, reader.answer(source)).correct
    assert widen_task(task, build_model(task, recipe_for("t5", 1)).config) == task
    if name != "addition":  # which is read at any length
        with pytest.raises(ValueError, match=r"The input has 30 .*; this model (reads|sorts) 1 to 5"):
            task.encode(source)
        with pytest.raises(ValueError, match=r"The input has 1001 .*; this model (reads|sorts) 1 to 1000"):
            reader.encode("4 " * 1001)


def test_the_shell_prints_the_whole_of_a_long_sum(capsys):
    first, second = "1" + "0" * 98 + "7", "3" * 99
    folder = BUNDLED / "attn-addition-long"
    code, output, _ = in_process(capsys, "generate", folder, f"{first}+{second}")
    cells = [line.split("│")[2].strip() for line in output.splitlines() if line.startswith("│")]
    assert (code, "".join(cells)) == (0, str(int(first) + int(second)))
