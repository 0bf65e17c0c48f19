"""Explore's headline is true by its own numbers; heads are counted behind what a visitor does, in turn."""

import json
import re
import threading
import weakref

import pytest
import torch

from demos.jobs.turns import TURNS, Turns
from demos.session.catalog import build_catalog, load_once
from demos.session.session import Session
from demos.tabs.explore import count_job, head_counts, story
from demos.tabs.explore import tab as explore
from demos.tabs.explore.count_job import CountJob
from demos.tabs.explore.head_scores import ExploreState
from hf_attn.analysis.ablation import measure_changes, measure_outcomes, measure_removal
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


def test_a_second_visitor_sees_at_once_what_was_counted_for_the_first():
    session, _, state = shown(FOLDERS["attn-copy"], "7 15 2 3 12")
    count(session)
    _, _, beside = shown(FOLDERS["attn-copy"], "1 2 3")
    assert beside.counting == "finished"
    assert beside.counts is state.counts
    assert said(beside).startswith("Without head 1·2, ")


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
