"""The Language tab: what is asked of each part, and what the boards are told."""

import json

import gradio as gr
import pytest
import torch

from demos.jobs.job import FINISHED, STOPPED
from demos.jobs.training_job import TrainingJob
from demos.session.session import Session
from demos.tabs.language import ngrams as language_ngrams
from demos.tabs.language import tokens as language_tokens
from demos.tabs.language import word_order, word_vectors
from demos.tabs.language.ngrams import CountingJob
from demos.tabs.language.word_order import WordOrderJob
from demos.tabs.language.word_vectors import KEPT, WordVectorsJob
from hf_attn.architectures.registry import build_model
from hf_attn.experiments.word_order import WordOrderSizes
from hf_attn.tasks import Recipe
from hf_attn.tasks.text.language import Language
from tests.support.sessions import follow_job

EVIL = "<img src=x onerror=window.bad=1> {{value}} ${value}"


def told(value):
    """A board's value; None where it stays as it was."""
    return json.loads(value) if isinstance(value, str) else None


# ---------------------------------------------------------------- tokens


def test_a_text_is_cut_in_four_ways_and_every_shown_token_has_its_row():
    shown = language_tokens.segment(Session(), {"tokens": language_tokens.FIRST})
    value = told(shown["board"])
    assert shown["error"] == ""
    assert set(value["kinds"]) == {"characters", "words", "bytes", "bpe"}
    assert value["steps"][0]["merge"] is None
    assert [step["merge"] for step in value["steps"][1:3]] == [["p", "e"], ["c", "k"]]
    for kind in value["kinds"].values():
        assert {str(place) for place in kind["ids"]} == set(kind["rows"]) == set(kind["vocabulary"])
        assert kind["difference"] < 1e-6
    for step in value["steps"]:
        assert {str(place) for place in step["ids"]} <= set(value["kinds"]["bpe"]["rows"])
        assert max(step["ids"]) < step["size"]


def test_what_a_person_types_stays_data():
    board = language_tokens.segment(Session(), {"tokens": EVIL})["board"]
    assert "<img" not in board
    assert told(board)["text"] == EVIL


# ---------------------------------------------------------------- order


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ("", "a b", "The first sentence is empty"),
        ("a b", "word " * 25, "The second sentence has 25 words; up to 24"),
        ("a b", "a c", "only the second has c"),
    ],
)
def test_sentences_that_cannot_be_compared_are_refused_in_words(one, other, words):
    shown = word_order.compare(Session(), {"first": one, "second": other})
    assert set(shown) == {"error"}
    assert words in shown["error"]


def learn_order(session):
    """Press Learn; what the tab shows, in turn."""
    word_order.press_learn(session)
    return follow_job(session, WordOrderJob, word_order.show_job)


def test_the_order_is_learned_with_progress_and_can_be_stopped(monkeypatch):
    monkeypatch.setattr(word_order, "SIZES", WordOrderSizes(length=6, steps=20, examples=200))
    session = Session()
    lesson = session.state(WordOrderJob)
    values = [value for shown in learn_order(session) if (value := told(shown["board"]))]
    assert lesson.status == FINISHED
    assert len(values) >= 2
    assert [len(model["right"]) for model in values[-1]["models"]] == [2, 2, 2]
    assert sum(values[-1]["models"][0]["right"]) == 1  # of twins, naive Bayes names one right

    moments = learn_order(session)
    next(moments), next(moments), next(moments)
    reports = lesson.reports
    assert list(learn_order(session)) == []  # one at a time
    assert lesson.reports is reports
    assert lesson.models
    lesson.stop()
    *_, last = moments
    assert lesson.status == STOPPED
    assert "what was measured is kept" in last["note"]
    moments = learn_order(session)
    next(moments)
    moments.close()  # the page is closed
    assert lesson.status == STOPPED


# ---------------------------------------------------------------- n-grams


def counted(text=language_ngrams.FIRST, prompt="the boat", session=None):
    """The session that counted a text of its own, and everything that its page was sent."""
    session = session or Session()
    asked = {"source": language_ngrams.OWN, "counted": text, "prompt": prompt}
    pressed = language_ngrams.press_count(session, asked)
    return session, [pressed, *follow_job(session, CountingJob, language_ngrams.show_job)]


def test_a_text_is_counted_table_by_table_and_asked_for_its_next_words():
    session, outputs = counted()
    notes = ["Reading", "Reading", "Reading", "unigrams", "bigrams", "trigrams", "held out"]
    assert len(outputs) == 7  # pressed, reading, read, three tables, the end
    for shown, words in zip(outputs, notes, strict=True):
        assert words in shown["note"]
    value = told(outputs[-1]["board"])
    assert [table["name"] for table in value["tables"]] == ["unigram", "bigram", "trigram"]
    assert [len(one["context"]) for one in value["following"]] == [0, 1, 2]
    assert value["model"] is None
    assert value["growth"]["cells"][2][1] == value["tables"][2]["cells"]
    again = language_ngrams.continue_text(session, {"prompt": "the old bank"})
    assert again["prompt_error"] == ""
    assert told(again["board"])["following"][1]["context"] == ["bank"]


@pytest.mark.parametrize(
    ("text", "prompt", "line", "words"),
    [
        ("One sentence.", "", "text_error", "has 1 sentence; at least 10"),
        ("a. " * 7000, "", "text_error", "characters; up to 20"),
        (language_ngrams.FIRST, "x" * 201, "prompt_error", "has 201 characters; up to 200"),
    ],
)
def test_what_cannot_be_counted_is_refused_under_its_field_and_the_tables_stay(text, prompt, line, words):
    session, _ = counted()
    tables = session.state(CountingJob).tables
    _, outputs = counted(text, prompt, session)
    assert not any(told(shown.get("board")) for shown in outputs)
    assert words in outputs[-1][line].replace("\u202f", "")
    assert session.state(CountingJob).tables is tables
    assert told(language_ngrams.continue_text(session, {"prompt": "the"})["board"])["tables"]


def test_a_language_model_of_this_visit_stands_beside_the_tables(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(f"the boat number {n} waits by the river" for n in range(60)), encoding="utf-8")
    task = Language(window=16, path=str(path))
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16, "num_hidden_layers": 1}
    recipe = Recipe(sizes, architecture="decoder", steps=1)
    run = TrainingJob("run-1", "text 1", task, recipe, 0, "cpu")
    run.model, run.step = build_model(task, recipe), 1
    session = Session()
    session.runs[run.id] = run
    _, outputs = counted(prompt="the", session=session)
    model = told(outputs[-1]["board"])["model"]
    assert model["name"] == "attention (text 1, step 1)"
    with torch.no_grad():
        chances = run.model(torch.tensor([task.encode("the")])).logits[0, -1].softmax(dim=0)
    assert model["words"][0][1] == pytest.approx(float(chances.max()), abs=1e-6)
    _, outputs = counted(prompt="日本", session=session)  # characters that it has never met
    assert told(outputs[-1]["board"])["model"] is None


# ---------------------------------------------------------------- neighbours


FORM = {"vectors_source": word_vectors.COMPOSED, "vectors_kind": "CBOW", "vectors_text": ""}
FORM |= dict(zip(KEPT[3:], word_vectors.ASKED[word_vectors.COMPOSED], strict=True))


def asked(*words):
    """The fields of the word, and of the sum."""
    return dict(zip(KEPT[3:], words, strict=True))


def train(session, **changes):
    """Press Train vectors; what the tab shows, in turn."""
    pressed = word_vectors.press_train(session, FORM | changes)
    assert pressed["text_error"] == ""
    return follow_job(session, WordVectorsJob, word_vectors.show_followed)


@pytest.fixture(scope="module")
def learned():
    """A visitor with vectors of the countries, and everything the page was sent."""
    session = Session()
    return session, list(train(session))


def test_vectors_are_learned_with_progress_and_asked(learned):
    session, outputs = learned
    values = [value for shown in outputs if (value := told(shown["board"]))]
    assert session.state(WordVectorsJob).status == FINISHED
    assert told(outputs[0]["board"]) is None
    last = values[-1]
    assert [point[0] for point in last["losses"]] == sorted(point[0] for point in last["losses"])
    assert last["near"]["word"] == "rome"
    assert last["analogy"]["right"]["word"] == "rome"
    assert last["share"] > 0.5
    bold = [point["word"] for point in last["plane"]["points"] if point["asked"]]
    assert set(bold) >= {"paris", "france", "italy", "rome"}
    first = last["plane"]["arrows"][0]
    assert first == {"from": 0, "to": 1, "asked": True}
    assert [outputs[1][name] for name in KEPT[3:]] == ["rome", "paris", "france", "italy"]
    assert "Done" in outputs[-1]["note"]


def test_vectors_that_are_stopped_while_they_wait_are_not_said_to_be_of_use():
    session = Session()
    word_vectors.press_train(session, FORM)
    session.state(WordVectorsJob).stop()
    shown = word_vectors.show_job(session)
    assert session.state(WordVectorsJob).status == STOPPED
    assert "can be used" not in shown["note"]
    assert "press Train vectors first" in word_vectors.look_up(session, FORM)["word_error"]


def test_an_unknown_word_is_refused_under_its_field_and_the_board_stays(learned):
    session, _ = learned
    shown = word_vectors.look_up(session, asked("romme", "paris", "france", "italy"))
    assert told(shown["board"]) is None
    assert shown["board"] == gr.skip()
    assert "did you mean rome" in shown["word_error"]
    assert shown["sum_error"] == ""
    shown = word_vectors.look_up(session, asked("rome", "paris", "", "italy"))
    assert shown["board"] == gr.skip()
    assert "A word is missing" in shown["sum_error"]
    shown = word_vectors.look_up(session, asked("oslo", "oslo", "norway", "japan"))
    assert told(shown["board"])["analogy"]["right"]["word"] == "tokyo"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Nothing is written"),
        ("one two " * 9, "Only 2 different"),
        ("a" * 100_001, "up to 100"),
        (
            ". ".join(["one", "two", "six", "ten", "a", "b", "c", "d", "e", "f", "g", "h"] * 3),
            "stands beside",
        ),
    ],
)
def test_an_own_text_that_will_not_do_is_refused_and_the_vectors_stay(learned, text, words):
    session, _ = learned
    report = session.state(WordVectorsJob).report
    own = {"vectors_source": word_vectors.OWN, "vectors_text": text}
    shown = word_vectors.press_train(session, FORM | own)
    assert set(shown) == {"text_error"}
    assert words in shown["text_error"]
    assert session.state(WordVectorsJob).report is report
    assert list(follow_job(session, WordVectorsJob, word_vectors.show_job)) == []
