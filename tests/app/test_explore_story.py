"""Explore's headline is true by its own numbers; heads are counted behind what a visitor does, in turn."""

import dataclasses
import json
import re
import threading
import weakref
from types import SimpleNamespace

import pytest
import torch

from demos.jobs.turns import TURNS, Turns
from demos.session.catalog import build_catalog, load_once
from demos.session.session import Session
from demos.tabs.explore import count_job, head_counts, story
from demos.tabs.explore import tab as explore
from demos.tabs.explore.count_job import CountJob
from demos.tabs.explore.head_scores import ExploreState
from demos.ui import formatting
from hf_attn.analysis.ablation import Trial, measure_changes, measure_outcomes, measure_removal
from hf_attn.evaluation.metrics import evaluate
from hf_attn.tasks.base import CLASSES, SEQUENCE
from tests.support.matrix import rows
from tests.support.sessions import begun, finished, follow_job, wait_for

CATALOG = build_catalog()
FOLDERS = {path.name: str(path) for _, path in CATALOG.folders}


@pytest.fixture(autouse=True)
def uncounted(monkeypatch):
    """Nothing was counted of any model yet."""
    monkeypatch.setattr(head_counts, "_KEPT", weakref.WeakKeyDictionary())


def shown(chosen, text, session=None):
    """Return a session whose lens shows an input, what the lens was sent, and the state."""
    session = session or Session(CATALOG, device="cpu")
    updates = explore.show_input(session, {"checkpoint": chosen, "text": text, "target": ""})
    assert updates["error"] == ""
    return session, json.loads(updates["board"]), session.state(ExploreState)


def count(session):
    count_job.press_count(session)
    return list(follow_job(session, CountJob, count_job.show_checks))


def said(state):
    return "".join(part if isinstance(part, str) else part[1] for part in story.tell(state))


def number(text):
    return int(text.replace("\u202f", ""))


def whole_percent(share):
    return int(100 * share + 0.5)


def check_needed(sentence, state, model, task):
    """A sentence on a head: the package measures the same of this input, and of held-out ones."""
    place = state.named
    trial = head_counts.removal(place)
    whole, left = measure_outcomes(model, task, [trial], head_counts.EXAMPLES)
    assert whole.exact_match - left.exact_match >= head_counts.NEEDED
    name = "its attention" if state.shown["is_alignment"] else f"head {place[1] + 1}·{place[2] + 1}"
    assert sentence.startswith(f"Without {name}, ")
    if found := re.search(r"from (\d+)\D+ to (\d+)", sentence):
        assert [number(one) for one in found.groups()] == [
            whole_percent(one.exact_match) for one in (whole, left)
        ]
        assert whole.exact_match < story.SURE
    else:
        wrong = 100 - whole_percent(left.exact_match)
        few = "half of the" if 45 <= wrong <= 55 else f"{wrong} of 100"
        assert (few if left.exact_match else " and all ") in sentence
        assert whole.exact_match >= story.SURE
    if task.kind == SEQUENCE:
        source = torch.tensor([task.encode(state.text)])
        (change,) = measure_changes(model, source, [trial])
        assert ("keeps its answer" in sentence) == (not change.is_other_answer)
        if change.is_other_answer and len(task.decode(list(change.after))) < story.LONGEST:
            assert f"{state.text} becomes {task.decode(list(change.after))}" in sentence


# a head that is needed, no attention, a class, and a model that knows all answers
@pytest.mark.parametrize(
    "name", rows(FOLDERS, ("attn-addition", "lstm-reverse", "attn-docstring-topics", "attn-copy"))
)
def test_the_headline_is_true_by_its_own_numbers_of_each_bundled_checkpoint(name):
    found = load_once(FOLDERS[name])
    text = found.task.worked_example.source
    session, _, state = shown(FOLDERS[name], text)
    count(session)
    sentence, counts = said(state), state.counts
    assert counts.is_complete
    if not state.labels:
        evaluation = evaluate(found.model, found.task, n=head_counts.SIZED)
        for share, size in re.findall(r"(\d+)\D{1,3}%?[^%]*?at \w+ (\d+)", sentence):
            assert whole_percent(evaluation.by_size[int(size)].exact_match) == int(share)
        assert "There is no map to look at." in sentence
    elif state.named is not None:
        check_needed(sentence, state, found.model, found.task)
    elif found.task.kind == CLASSES:
        removal = measure_removal(found.model, found.tokenizer, text)
        said_class, share = re.match(r"It says (.+), (\d+)", sentence).groups()
        assert said_class == found.model.config.id2label[removal.predicted]
        assert int(share) == whole_percent(removal.probabilities[removal.predicted])
        assert max(row.drop for row in counts.rows.values()) < head_counts.NEEDED
    else:
        lowest = min(row.exact_match for row in counts.rows.values())
        assert f"at least {int(100 * lowest + 1e-9)}" in sentence


def test_while_heads_are_counted_the_sentence_says_what_is_known_so_far():
    session, _, state = shown(FOLDERS["attn-copy"], "7 15 2 3 12")
    assert said(state) == "Which head do its answers need? 0 of 12 heads are counted."
    count_job.press_count(session)
    moments = follow_job(session, CountJob, count_job.show_checks)
    next(moments), next(moments)
    job = session.state(CountJob)
    while len(state.counts.rows) < 1:
        job.advance()
    (row,) = state.counts.rows.values()
    assert row.drop < head_counts.NEEDED, "the test needs a head that is not"
    left = f"at least {int(100 * row.exact_match + 1e-9)}"
    assert said(state).startswith("No head is needed so far, 1 of 12 counted: without any one of them")
    assert left in said(state)
    list(moments)
    assert said(state).startswith("Without head 1·2, ")


def test_a_run_stopped_before_its_first_step_says_that_no_head_can_be_needed():
    session = begun(CATALOG)
    moments = session.run.follow()
    for _ in moments:
        session.run.stop()
    assert session.run.step == 0
    _, _, state = shown("run-1", "1 2 3", session)
    count(session)
    assert re.fullmatch(r"It gets \d\D%? ?right, so no head can be needed: train it first\.", said(state)), (
        said(state)
    )


def test_a_run_that_is_training_is_not_counted_and_says_so():
    session = begun(CATALOG)
    moments = session.run.follow()
    next(moments), next(moments)
    _, _, state = shown("run-1", "1 2 3", session)
    assert said(state) == head_counts.STILL_TRAINING
    assert json.loads(state.to_value())["each"]["status"] == "", "the page does not ask"
    session.run.stop()
    list(moments)
    _, _, state = shown("run-1", "1 2 3", session)
    count(session)
    assert state.counting == "finished"


def test_a_run_that_learns_on_while_its_heads_are_counted_is_not_counted_on():
    session, _ = finished(CATALOG)
    _, _, state = shown("run-1", "1 2 3", session)
    count_job.press_count(session)
    moments = follow_job(session, CountJob, count_job.show_checks)
    next(moments), next(moments)
    session.run.step += 1
    *_, last = moments
    assert state.count_error == count_job.LEARNED_SINCE
    assert json.loads(last["checks"])["each"]["status"] == "", "the page does not ask again"


def test_it_opens_on_the_head_that_is_needed_and_does_not_jump_when_a_costlier_one_is_counted():
    session, lens, state = shown(FOLDERS["attn-addition"], "153+391")
    first = (lens["kind"], lens["layer"], lens["head"])
    assert first == ("cross", 1, 1), "the costliest of a few validation examples"
    moments = count(session)
    assert all("board" not in updates for updates in moments), (
        "the lens is sent nothing while heads are counted"
    )
    assert state.opened_on["head"] == first[2]
    _, again, _ = shown(FOLDERS["attn-addition"], "153+391", session)
    assert (again["kind"], again["layer"], again["head"]) == state.named
    before, after = state.effects[state.named]
    assert before != after, "of this input the answer is another without it"


def test_the_chosen_cell_of_the_first_head_is_its_strongest():
    _, lens, state = shown(FOLDERS["attn-sort"], "9 4 17 12 4 19 2 8")
    with CATALOG.open(Session(CATALOG, device="cpu"), FOLDERS["attn-sort"]) as opened:
        weights = getattr(explore.compute_maps(opened, state.text, "").maps, lens["kind"])
    weights = weights[lens["layer"], lens["head"]]
    first = 1 if lens["kind"] == "decoder" else 0
    assert weights[lens["query"], lens["key"]] == weights[first:].max()


def test_what_was_picked_stays_with_another_input_and_not_with_another_model():
    session, _, _ = shown(FOLDERS["attn-addition"], "153+391")
    picked = {"kind": "encoder", "layer": 0, "head": 3, "query": None, "key": None}
    explore.keep_pick(session, SimpleNamespace(**picked))
    _, lens, _ = shown(FOLDERS["attn-addition"], "7+8", session)
    assert (lens["kind"], lens["head"]) == ("encoder", 3)
    _, lens, _ = shown(FOLDERS["attn-copy"], "7 15 2", session)
    assert lens["kind"] == "cross"


def test_a_second_visitor_sees_at_once_what_was_counted_for_the_first():
    session, _, state = shown(FOLDERS["attn-copy"], "7 15 2 3 12")
    count(session)
    _, _, beside = shown(FOLDERS["attn-copy"], "1 2 3")
    assert beside.counting == "finished"
    assert beside.counts is state.counts
    assert said(beside).startswith("Without head 1·2, ")


def test_what_another_visitor_counts_meanwhile_is_told_of_this_input_too():
    session, _, beside = shown(FOLDERS["attn-copy"], "1 2 3")
    other = Session(CATALOG, device="cpu")
    shown(FOLDERS["attn-copy"], "7 15 2 3 12", other)
    count(other)
    assert beside.counts.is_complete
    assert beside.counting == "waiting"
    count(session)
    assert beside.counting == "finished"
    assert set(beside.counts.needed) == set(beside.effects)


def test_an_input_that_is_shown_while_heads_are_counted_keeps_its_own_answers(monkeypatch):
    session, _, state = shown(FOLDERS["attn-copy"], "7 15 2 3 12")
    real, switched = head_counts.HeadCounts.count_piece, []

    def switch_then_count(counts, opened):
        if not switched:
            switched.append(shown(FOLDERS["attn-sort"], "9 4 17 12 4 19 2 8", session))
        real(counts, opened)

    monkeypatch.setattr(head_counts.HeadCounts, "count_piece", switch_then_count)
    count(session)
    assert (state.text, state.count_error, state.counting) == ("9 4 17 12 4 19 2 8", "", "finished")
    with CATALOG.open(session, FOLDERS["attn-sort"]) as opened:
        assert state.counts is head_counts.counts_of(opened)
        places = list(state.effects)
        assert state.effects == story.find_effects(opened, state, places)


def test_a_page_that_is_closed_counts_no_more():
    session, _, state = shown(FOLDERS["attn-copy"], "7 15 2 3 12")
    count_job.press_count(session)
    moments = follow_job(session, CountJob, count_job.show_checks)
    next(moments), next(moments)
    session.is_over = True
    session.interrupt()
    list(moments)
    assert not state.counts.is_complete
    assert not state.is_counting


def test_of_more_heads_than_are_counted_some_are_and_the_number_is_told(monkeypatch):
    monkeypatch.setattr(head_counts, "MOST_HEADS", 5)
    session, _, state = shown(FOLDERS["attn-copy"], "7 15 2 3 12")
    count(session)
    each = json.loads(state.to_value())["each"]
    assert (each["done"], each["of"], each["heads"], each["status"]) == (5, 5, 12, "finished")
    state.counts.rows = {
        place: row for place, row in state.counts.rows.items() if row.drop < head_counts.NEEDED
    }
    state.counts.places = list(state.counts.rows)
    assert re.search(r"No single head of \d counted \(it has 12\) is needed", said(state))


def test_where_no_head_is_needed_the_sentence_names_the_share_that_is_lowest():
    session, _, state = shown(FOLDERS["attn-copy"], "7 15 2 3 12")
    count(session)
    for place in state.counts.needed:
        state.counts.rows[place] = dataclasses.replace(state.counts.rows[place], drop=0.04, exact_match=0.96)
    lowest = f"without any one of them at least 96{formatting.NARROW}% stay right. Remove a layer."
    assert said(state) == f"No single head is needed: {lowest}"


def test_the_whole_model_is_measured_before_any_head():
    found = load_once(FOLDERS["attn-copy"])
    answered = head_counts.AnsweredExamples(found.model, found.task, found.task.held_out(8))
    with pytest.raises(ValueError, match="The whole model comes first"):
        answered.score(head_counts.removal(("cross", 0, 0)), [torch.ones(8, dtype=torch.bool)])
    assert answered.measure(found.model, Trial()).examples == 8


# ---------------------------------------------------------------- turns


def test_nothing_is_counted_while_a_question_is_being_answered():
    session, _, state = shown(FOLDERS["attn-copy"], "7 15 2 3 12")
    count_job.press_count(session)
    moments = follow_job(session, CountJob, count_job.show_checks)
    next(moments)
    visitor = Session(CATALOG, device="cpu")
    counted = threading.Thread(target=lambda: list(moments))
    with CATALOG.open(visitor, FOLDERS["attn-sort"]):  # somebody's question, about any model
        counted.start()
        wait_for(counted, lambda: bool(TURNS._line))
        counted.join(0.5)  # long enough for several pieces
        assert (state.counts.whole, state.counts.begun) == (None, [])
    counted.join()
    assert state.counts.is_complete


def test_a_question_does_not_wait_for_a_turn():
    turns, order = Turns(), []
    with turns.turn():
        with turns.question():
            order.append("question")
        order.append("turn")
    assert order == ["question", "turn"]


def test_turns_are_taken_in_the_order_in_which_they_were_asked_for():
    turns, taken = Turns(), []

    def work(name):
        for _ in range(3):
            with turns.turn():
                taken.append(name)
                wait_for(
                    threading.main_thread(),
                    lambda: len(turns._line) > 1 or taken.count("b" if name == "a" else "a") == 3,
                )

    with turns.question():  # until both stand in line
        threads = [threading.Thread(target=work, args=name) for name in "ab"]
        for place, thread in enumerate(threads):
            thread.start()
            wait_for(thread, lambda: len(turns._line) > place)  # noqa: B023 - called at once
    for thread in threads:
        thread.join()
    assert taken == ["a", "b"] * 3


def test_a_server_full_of_questions_still_counts(monkeypatch):
    monkeypatch.setattr("demos.jobs.turns.PATIENCE_SECONDS", 0.01)
    turns = Turns()
    with turns.question(), turns.turn():
        pass
