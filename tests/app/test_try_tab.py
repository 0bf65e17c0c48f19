"""The Try tab: what each symbol was chosen from, beams and draws with their maps, and what it refuses."""

import base64
import html
import json
import math
import re
from random import Random

import numpy as np
import pytest
import torch

from demos.session.catalog import build_catalog, load_once
from demos.session.model_input import examples_of
from demos.session.session import Session
from demos.tabs.try_it import answer_view, challenge
from demos.tabs.try_it import tab as trying
from demos.ui import boards, formatting
from hf_attn.evaluation.failure_search import make_hard_inputs
from hf_attn.generation.generate import generate_answer, temper
from hf_attn.generation.strategies import STRATEGIES, list_parameters
from hf_attn.interpret.attention_maps import attention_maps
from hf_attn.tasks.base import CLASSES
from tests.support.matrix import rows

CATALOG = build_catalog()
VISIT = Session(CATALOG, device="cpu")
SUM = "999+999"


def folder(name):
    return next(str(path) for _, path in CATALOG.folders if path.name == name)


def write(text, name="attn-addition", **how):
    """Return the updates by name."""
    given = {list_parameters()[one].short if one in list_parameters() else one: how[one] for one in how}
    return trying.write(VISIT, {"checkpoint": folder(name), "text": text, **given})


def asked(text, name="attn-addition", **how):
    """Return the board's value."""
    updates = write(text, name, **how)
    assert (updates["error"], updates["wrong"]) == ("", "")
    return json.loads(updates["board"])


def model_of(name="attn-addition", text=SUM):
    """Return a bundled model, its task and a source."""
    found = load_once(folder(name))
    return found.model, found.task, torch.tensor([found.task.encode(text)])


@pytest.mark.parametrize(
    "name",
    rows(
        [path.name for _, path in CATALOG.folders], ("attn-addition", "attn-docstring-topics", "attn-parser")
    ),
)
def test_the_sentence_of_a_checkpoint_is_true_by_its_own_figures(name):
    text = examples_of(load_once(folder(name)).task)[0]
    updates = write(text, name)
    value, said = json.loads(updates["board"]), plain(updates["headline"])
    model, task, source = model_of(name, text)
    choices = generate_answer(model, source, max_new_tokens=len(value["written"])).choices
    lowest = min(float(choice.probabilities[choice.token]) for choice in choices)
    if task.kind == CLASSES:
        removal = value["removal"]
        most = max(removal["words"], key=lambda one: one["drop"])
        assert f"says {value['written'][0]['token']}, {100 * lowest:.0f}" in said
        assert f"Without {most['word']} it says {most['turns'] or 'the same'}" in said
        return
    assert ("which is right" in said) == (value["correct"] is True)
    assert ("which is wrong" in said) == (value["correct"] is False)
    if lowest < trying.CERTAIN:
        assert f": {100 * lowest:.0f}\u202f%" in said, "it names the lowest probability"
    else:
        assert "at least 99.5" in said


def test_a_link_that_hides_the_answers_hides_the_verdict_of_the_sentence():
    assert "<em>, which is right</em>" in write(SUM)["headline"]


def plain(markup):
    """The words of a line of HTML."""
    return html.unescape(re.sub("<[^>]+>", "", markup))


def all_answers(value):
    return [value, *value.get("others", [])]


@pytest.fixture(scope="module")
def beamed():
    return asked(SUM, strategy="beam", num_beams=4)


def test_each_symbol_comes_with_all_that_it_was_chosen_from():
    model, _, source = model_of()
    value = asked(SUM)
    generation = generate_answer(model, source, max_new_tokens=5)
    for step, choice, written in zip(value["steps"], generation.choices, value["written"], strict=True):
        sent = value["distributions"][step]
        order = choice.probabilities.argsort(descending=True, stable=True)
        assert sent["log_p"] == pytest.approx(choice.probabilities[order].log().tolist(), abs=1e-4)
        assert len(sent["names"]) == model.config.vocab_size
        assert "more" not in sent
        assert written["probability"] == float(choice.probabilities[choice.token])


def test_of_a_large_vocabulary_the_rest_is_summed_for_every_temperature():
    logits = torch.randn(answer_view.SENT + 900, generator=torch.Generator().manual_seed(0)).double()
    sent = answer_view.Distributions(lambda ids: [str(index) for index in ids])
    sent.add(logits.softmax(-1))
    (value,) = sent.to_value()
    assert (len(value["names"]), value["more"]) == (answer_view.SENT, 900)
    for warmth, rest in zip(answer_view.TEMPERATURES[1:], value["weights"][1:], strict=True):
        named = sum(math.exp((log_p - value["log_p"][0]) / warmth) for log_p in value["log_p"])
        expected = temper(logits, warmth).sort(descending=True).values[answer_view.SENT :].sum()
        assert rest / (named + rest) == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_answer_of_every_strategy_has_the_map_that_the_model_gives_it(strategy):
    model, task, source = model_of()
    how = {"num_beams": 3, "temperature": 1.8, "top_p": 0.95, "min_p": 0.02, "top_k": 3, "seed": 3}
    value = asked(SUM, strategy=strategy, **how)
    for one in all_answers(value):
        labels = [written["token"] for written in one["written"]]
        assert one["map"]["rows"] == labels
        assert len(one["steps"]) == len(one["wrong"]) == len(labels)
        ids = task.ids(*("</s>" if label == "end" else label for label in labels))
        expected = attention_maps(model, source, target=torch.tensor([ids])).answering.weights
        assert one["map"]["maps"] == boards.encode_maps(expected)
        total = sum(math.log(written["probability"]) for written in one["written"])
        assert one["log_probability"] == pytest.approx(total, abs=1e-3)


def way_to(beams, place):
    """Return the nodes from the first symbol to one of them; places count from 1."""
    node = beams["nodes"][place - 1]
    return [*(way_to(beams, node["parent"]) if node["parent"] else []), node]


def test_the_beam_tree_holds_the_answers_and_of_the_dropped_the_likeliest_two_a_step(beamed):
    beams, distributions = beamed["beams"], beamed["distributions"]
    for end, one in zip(beams["ends"], all_answers(beamed), strict=True):
        way = way_to(beams, end)
        assert [node["token"] for node in way] == [written["token"] for written in one["written"]]
        assert [node["step"] for node in way] == one["steps"]
        assert way[-1]["score"] == pytest.approx(one["log_probability"], abs=1e-4)
    dropped = [0] * 5
    for place, node in enumerate(beams["nodes"], start=1):
        assert node["parent"] < place
        offered = distributions[node["step"]]
        log_p = dict(zip(offered["names"], offered["log_p"], strict=True))[node["token"]]
        assert math.log(node["p"]) == pytest.approx(log_p, abs=1e-3)
        dropped[len(way_to(beams, place)) - 1] += node["fate"] == "dropped"
    assert max(dropped) == answer_view.DROPPED


def test_the_same_seed_draws_the_same_and_the_next_seeds_stand_beside_it():
    how = {"strategy": "nucleus", "temperature": 2.0, "top_p": 1.0}
    first, again, third = (asked("7 15 2 3 12", "lstm-reverse", seed=seed, **how) for seed in (0, "0", 2))
    assert first == again
    assert first["seeds"] == [0, 1, 2, 3, 4]
    assert first["others"][1]["written"] == third["written"]
    assert len({tuple(w["token"] for w in one["written"]) for one in all_answers(first)}) > 1
    assert all(isinstance(one["correct"], bool) for one in all_answers(first))
    assert trying.draw_again(VISIT, {"seed": "3"}) == {"seed": "4"}
    assert trying.draw_again(VISIT, {"seed": str(trying.LARGEST_SEED)}) == {"seed": "0"}
    assert trying.draw_again(VISIT, {"seed": "three"}) == {}, "what is wrong is told, not replaced"


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"seed": "three"}, "Seed: “three” is not a number. Enter a whole number from 0 to"),
        ({"seed": "9" * 5000}, "Seed: “9999999999999999999…” is out of range"),
        ({"seed": "<b>1</b>"}, "Seed: “&lt;b&gt;1&lt;/b&gt;” is not"),
        ({"temperature": 2.1}, "“2.1” is out of range. Enter a number from 0 to 2, for example 1."),
        ({"strategy": "beam", "num_beams": 99}, "“99” is out of range. Enter a whole number from 2 to 8,"),
        ({"strategy": "best"}, "“best” is not a strategy. Choose one of greedy, beam, "),
    ],
)
def test_a_setting_that_will_not_do_is_a_sentence_beside_it_and_the_board_stays(setting, words):
    how = {"strategy": "nucleus", **setting}
    updates = write(SUM, **how)
    wrong = updates.pop("wrong")
    assert words in wrong.replace(formatting.NARROW, " ")
    assert len(wrong) < 200
    assert updates == {"error": ""}


@pytest.mark.parametrize(
    "name",
    rows(
        ("attn-addition-long", "attn-copy", "attn-parser", "lstm-reverse", "attn-dates"),
        ("attn-addition-long", "attn-parser"),
    ),
)
def test_a_hard_input_is_one_that_the_model_reads_and_a_long_one_where_it_reaches(name):
    opened = load_once(folder(name))
    found = {challenge.find_hard_input(opened.task, opened.model.config, Random(seed)) for seed in range(60)}
    assert len(found) > 4
    assert None not in found
    for source in found:
        assert opened.task.encode(source)
        if name == "attn-addition-long":
            assert opened.task.size_of(source) == 20 * opened.task.digits


def test_what_it_got_wrong_stays_in_the_visitor_s_list_and_outlives_the_page():
    session, name = Session(CATALOG, device="cpu"), folder("lstm-reverse")

    def give(text, strategy="greedy"):
        return trying.write(session, {"checkpoint": name, "text": text, "strategy": strategy})

    wrong = next(
        source
        for source, answer in make_hard_inputs(load_once(name).task)["one symbol again and again"]
        if json.loads(write(source, "lstm-reverse")["board"])["text"] != answer
    )
    updates = give("7 15 2")
    assert (
        plain(updates["tried"]) == "It was given 1 input here and was wrong on none (draws are not counted)."
    )
    assert updates["broken"]["visible"] is False
    updates = give(wrong)
    assert plain(updates["tried"]) == "It was given 2 inputs here and was wrong on 1 (draws are not counted)."
    ((line, value),) = updates["broken"]["choices"]
    assert (value, line.count("→"), ", not " in line) == (wrong, 1, True)
    assert challenge.take_broken(session, {"broken": value}) == {"text": wrong}
    give("3 3 9", "top-k")  # what is drawn may be wrong by chance
    updates = give("7 15 2", "beam")
    assert plain(updates["tried"]) == "It was given 2 inputs here and was wrong on 1 (draws are not counted)."
    give(wrong)
    again, other = Session(CATALOG, device="cpu"), folder("attn-copy")
    again.take_over(session)
    shown = challenge.show_tried(again, name, load_once(name))
    assert plain(shown["tried"]) == "It was given 2 inputs here and was wrong on 1 (draws are not counted)."
    assert challenge.show_tried(again, other, load_once(other))["tried"] == ""
    for number in range(challenge.MOST_KEPT):
        challenge.remember(again, other, str(number), {"correct": True, "text": "", "answer": ""})
    shown = challenge.show_tried(again, name, load_once(name))
    assert plain(shown["tried"]) == "It was given 1 input here and was wrong on 1 (draws are not counted).", (
        "what was wrong stays longest"
    )


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("944+45", "a held-out input, which training never draws"),
        ("153+391", "training may draw this input"),
    ],
)
def test_try_says_which_split_an_input_is_of(source, said):
    assert asked(source)["split"] == said


def test_of_a_long_answer_s_map_a_window_is_sent_around_the_step_that_is_shown_first(monkeypatch):
    text = "+".join(["4" * 150, "5" * 149 + "6"])
    whole = json.loads(write(text, "attn-addition-long")["board"])["map"]
    assert "from" not in whole
    monkeypatch.setattr(answer_view, "MAP_WEIGHTS", 4 * 128 * 128)
    for strategy, size in (("greedy", 128), ("beam", 64)):
        value = json.loads(write(text, "attn-addition-long", strategy=strategy)["board"])
        sure, cut = [one["probability"] for one in value["written"]], value["map"]
        (layers, heads, rows, columns), (first, left) = whole["shape"], cut["from"]
        assert cut["shape"] == [layers, heads, size, size]
        assert 0 <= sure.index(min(sure)) - first < size
        down, across = slice(first, first + size), slice(left, left + size)
        assert (cut["rows"], cut["cols"]) == (whole["rows"][down], whole["cols"][across])
        assert cut["truth"] == [row[across] for row in whole["truth"][down]]
        assert f"symbols {first + 1} to {first + size} of the answer" in cut["title"]
        weights = weights_in(whole["maps"]).reshape(layers, heads, rows, columns)
        assert (weights_in(cut["maps"]).reshape(cut["shape"]) == weights[:, :, down, across]).all()
        step = weights_in(cut["maps"]).reshape(cut["shape"])[-1, :, sure.index(min(sure)) - first]
        assert step.sum() > 0.1 * 65535, "what that step reads most stands in the window"


def weights_in(packed):
    return np.frombuffer(base64.b64decode(packed), "<u2")
