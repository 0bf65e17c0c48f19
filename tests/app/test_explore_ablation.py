"""Ask the model: what is taken away changes the answer shown, and every figure is the package's own."""

import itertools
import json
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

from demos.jobs.job import FINISHED
from demos.session.catalog import build_catalog, load_once
from demos.session.session import Session
from demos.tabs.explore import ablation_panel, count_job, head_counts
from demos.tabs.explore import tab as explore
from demos.tabs.explore.ablation_panel import AblationQuestion
from demos.tabs.explore.count_job import CountJob
from demos.tabs.explore.head_scores import VIEWS, ExploreState
from hf_attn.analysis.ablation import list_trials, measure_outcomes
from hf_attn.analysis.head_metrics import singular_values
from hf_attn.analysis.head_roles import (
    ROLES,
    ROLES_OF_MANY,
    measure_even_attention,
    measure_heads,
)
from hf_attn.analysis.hopfield import hopfield_descent
from hf_attn.interpret.attention_maps import attention_maps
from hf_attn.interpret.read_head import read_head
from tests.support.addition_head import SUM, find_needed_head, symbols_of
from tests.support.sessions import ask_model, finished, follow_job

CATALOG = build_catalog()


def folder(name):
    return next(str(path) for _, path in CATALOG.folders if path.name == name)


@pytest.fixture(scope="module")
def needed():
    return find_needed_head()


def show(session, name, text, target="", **asked):
    """Show an input in the lens of a session; returns the updates."""
    chosen = name if name in (None, "run-1") else folder(name)
    return explore.show_input(session, {"checkpoint": chosen, "text": text, "target": target, **asked})


def looking_at(name, text, target=""):
    """Return a session whose lens shows an input, and its state."""
    session = Session(CATALOG, device="cpu")
    assert show(session, name, text, target)["error"] == ""
    return session, session.state(ExploreState)


def values_of(updates):
    """What the panels' board is given, in turn."""
    return [json.loads(update["checks"]) for update in updates]


def asked(name, text, pick):
    """Return what the board shows first, and what it shows last."""
    session, _ = looking_at(name, text)
    values = values_of(ask_model(session, pick))
    return values[0], values[-1]


def test_a_removed_head_changes_the_answer_shown_and_the_figures_are_the_packages(needed, uncounted):
    pick, change = needed
    first, last = asked("attn-addition", SUM, pick)
    answer = last["answer"]
    assert first["answer"]["held_out"] == {"status": "running"}
    assert first["answer"]["after"] == answer["after"]
    assert answer["what"] == f"Without layer {pick.layer + 1}, head {pick.head + 1} of cross-attention"
    assert answer["option"] == f"--remove cross.{pick.layer}.{pick.head}"
    before, after = answer["before"], answer["after"]
    assert (before["symbols"], after["symbols"]) == (symbols_of(change.before), symbols_of(change.after))
    assert (before["correct"], after["correct"]) == (True, False)
    kept = [a == b for a, b in zip(before["symbols"], after["symbols"], strict=False)]
    assert [not changed for changed in after["changed"]][: len(kept)] == kept
    assert answer["differ"] >= kept.count(False) > 0
    assert [row[1] for row in answer["moved"]] == pytest.approx(change.total_variation, abs=1e-6)
    assert [row[2] for row in answer["moved"]] == pytest.approx(change.divergence, abs=1e-6)
    found = load_once(folder("attn-addition"))
    whole, left = measure_outcomes(found.model, found.task, [change.trial], head_counts.EXAMPLES)
    held_out = answer["held_out"]
    assert (held_out["examples"], held_out["whole"]) == (head_counts.EXAMPLES, whole.exact_match)
    assert (held_out["left"], held_out["error"]) == (left.exact_match, left.standard_error)


def without_each_head(session):
    """Remove each head; what the page shows, in turn."""
    count_job.press_count(session)
    yield from follow_job(session, CountJob, count_job.show_checks)


@pytest.fixture
def uncounted(monkeypatch):
    """Nothing was counted of any model yet."""
    monkeypatch.setattr(head_counts, "_KEPT", weakref.WeakKeyDictionary())


def test_each_head_taken_away_leaves_what_the_package_measures_and_stop_keeps_what_is_counted(uncounted):
    session, state = looking_at("attn-addition", SUM)
    moments, job = without_each_head(session), session.state(CountJob)
    next(moments), next(moments)
    assert json.loads(state.to_value())["each"]["status"] == "running"
    count_job.press_count(session)
    assert job.is_busy, "it is under way already"
    while len(state.counts.rows) < 3:
        job.advance()
    count_job.stop_counting(session)
    *_, stopped = values_of(moments)
    assert stopped["each"]["status"] == "stopped"
    assert len(stopped["each"]["rows"]) == 3
    show(session, "attn-addition", "7+8")
    value = json.loads(state.to_value())["each"]
    assert (value["status"], value["rows"]) == ("stopped", stopped["each"]["rows"]), "another input counts on"
    *_, last = values_of(without_each_head(session))
    found = load_once(folder("attn-addition"))
    trials = [trial for trial in list_trials(found.model) if trial.interventions[0].head is not None]
    whole, *outcomes = measure_outcomes(found.model, found.task, trials, head_counts.EXAMPLES)
    each = last["each"]
    assert (each["status"], each["done"], each["of"]) == ("finished", len(trials), len(trials))
    assert each["whole"] == whole.exact_match
    counted = {(row["kind"], row["layer"], row["head"]): (row["left"], row["error"]) for row in each["rows"]}
    wanted = {head_counts.place_of(one.trial): (one.exact_match, one.standard_error) for one in outcomes}
    assert counted == wanted
    assert [row["kind"] for row in each["rows"]] == ["cross"] * 8 + ["encoder"] * 4 + ["decoder"] * 8


def test_roles_and_theory_views_of_the_input_are_those_of_hf_attn_heads():
    session, state = looking_at("attn-addition", SUM)
    measured = json.loads(state.to_value())["measured"]
    assert [row[0] for row in measured["roles"]] == list(ROLES_OF_MANY)
    found = load_once(folder("attn-addition"))
    source = torch.tensor([found.task.encode(SUM)])
    maps = attention_maps(found.model, source, tokenizer=found.tokenizer)
    known = found.task.alignment(SUM, "544")
    heads, even = measure_heads(maps, known), measure_even_attention(maps, known)
    for kind in ("encoder", "decoder", "cross"):
        for name in (*ROLES, *VIEWS):
            if name not in heads[kind]:
                assert name not in measured["trained"][kind]
                continue
            rows = torch.tensor(
                [[float("nan") if x is None else x for x in row] for row in measured["trained"][kind][name]]
            )
            torch.testing.assert_close(rows, heads[kind][name].float(), equal_nan=True)
            wanted = even[kind][name]
            assert measured["even"][kind][name] == (None if wanted != wanted else pytest.approx(wanted))
        spectrum = torch.tensor(measured["spectrum"][kind])
        torch.testing.assert_close(spectrum, singular_values(getattr(maps, kind)).float())
    event = SimpleNamespace(kind="encoder", layer=0, head=2)
    (value,) = values_of([ablation_panel.descend(session, event)])
    assert ablation_panel.descend(session, event) == {}, "once"
    head = read_head(found.model, source, kind="encoder", layer=0, head=2)
    before, after = hopfield_descent(head.query, head.key).mean(-1).tolist()
    assert value["energies"]["encoder.0.2"] == {
        "before": pytest.approx(before),
        "after": pytest.approx(after),
    }
    assert after < before


@pytest.mark.parametrize(
    ("pick", "words"),
    [
        (AblationQuestion("edge", kind="cross"), "No cell is chosen"),
        (AblationQuestion("edge", kind="decoder", query=1, key=3), "The chosen cell is masked"),
        (AblationQuestion("token", token=99), "the source has tokens 0 to 7"),
        (AblationQuestion("head", kind="cross", layer=7), "layer=7 is not there"),
        (AblationQuestion("word"), "choose nothing, head, layer, edge, token"),
    ],
)
def test_a_question_that_cannot_be_put_is_answered_in_words(pick, words):
    _, last = asked("attn-addition", SUM, pick)
    assert words in last["error"]
    assert last["answer"] is None


def test_an_edge_a_token_and_permuted_weights_are_told_as_the_lens_names_them():
    _, edge = asked(
        "attn-addition", SUM, AblationQuestion("edge", kind="cross", layer=1, head=1, query=1, key=0)
    )
    assert edge["answer"]["what"] == "Without 5 reads 1 1, in layer 2, head 2 of cross-attention"
    assert edge["answer"]["option"] == "--remove cross.1.1.1.0"
    _, token = asked("attn-addition", SUM, AblationQuestion("token", token=0))
    assert token["answer"]["what"] == "Without the input's token 1 1"
    assert "Held-out examples have other tokens" in token["answer"]["held_out"]["why"]
    _, permuted = asked("attn-addition", SUM, AblationQuestion("layer", "permute", kind="encoder", seed=3))
    assert permuted["answer"]["what"] == (
        "With permuted weights (seed 3) in the encoder self-attention of layer 1"
    )
    assert permuted["answer"]["option"] == "--permute encoder.0 --seed 3"


def test_a_recurrent_models_one_alignment_can_be_taken_away_and_has_no_queries_and_keys():
    _, last = asked("bahdanau-reverse", "7 15 2 3 12", AblationQuestion("head", kind="cross"))
    assert last["answer"]["what"] == "Without the alignment"
    assert (last["answer"]["before"]["correct"], last["answer"]["after"]["correct"]) == (True, False)
    assert last["answer"]["held_out"]["left"] < 0.1
    session, _ = looking_at("bahdanau-reverse", "7 15 2 3 12")
    (value,) = values_of([ablation_panel.descend(session, SimpleNamespace(kind="cross", layer=0, head=0))])
    energies = value["energies"]
    assert "no queries and keys" in energies["cross.0.0"]["why"]


def test_another_input_starts_afresh_and_what_comes_late_is_not_shown(needed, uncounted):
    session, state = looking_at("attn-addition", SUM)
    list(without_each_head(session))
    moments = ask_model(session, needed[0])
    next(moments)
    show(session, "attn-addition", "7+8")
    assert list(moments) == []
    value = json.loads(state.to_value())
    assert value["answer"] is None
    assert value["each"]["status"] == "finished", "it is of the same weights"
    show(session, "attn-sort", "9 4 17 12 4 19 2 8")
    assert json.loads(state.to_value())["each"]["done"] == 0
    assert show(session, None, "")["board"] is None
    assert state.to_value() is None


def test_of_two_questions_the_newest_is_answered_in_whatever_order_they_are_begun(needed):
    session, state = looking_at("attn-addition", SUM)
    older = ask_model(session, AblationQuestion("head", kind="encoder"), sent_at=1.0)
    (newest, *_) = values_of(ask_model(session, needed[0], sent_at=2.0))
    assert list(older) == [{}]
    assert state.answer["asked"][2:] == [needed[0].kind, needed[0].layer, needed[0].head]
    assert newest["answer"]["asked"] == state.answer["asked"]


def test_each_head_is_taken_away_by_whatever_threads_come_by_and_the_run_goes_on():
    session, _ = finished(CATALOG)
    run = session.run
    assert show(session, run.id, "1 2 3")["error"] == ""
    told = without_each_head(session)
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        for worker in itertools.cycle((one, other)):  # as a server's threads take a generator's turns
            if worker.submit(next, told, "over").result() == "over":
                break
    assert session.state(ExploreState).counting == FINISHED
    assert not run.lock.locked()
