"""The Language tab: what is asked of each part, what the boards are told, and once in a real browser."""

import json
import os

import pytest
import torch

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
gr = pytest.importorskip("gradio")

from demos.jobs.training_job import FAILED, FINISHED, RUNNING, STOPPED, TrainingJob  # noqa: E402
from demos.session.session import Session  # noqa: E402
from demos.tabs.language import ngrams as language_ngrams  # noqa: E402
from demos.tabs.language import tab as language  # noqa: E402
from demos.tabs.language import tokens as language_tokens  # noqa: E402
from demos.tabs.language import word_order, word_vectors  # noqa: E402
from hf_attn.architectures.registry import build_model  # noqa: E402
from hf_attn.experiments.word_order import WordOrderSizes  # noqa: E402
from hf_attn.tasks import Recipe  # noqa: E402
from hf_attn.tasks.text.language import Language  # noqa: E402

EVIL = "<img src=x onerror=window.bad=1> {{value}} ${value}"


def told(value):
    """A board's value; None where it stays as it was."""
    return json.loads(value) if isinstance(value, str) else None


def test_every_part_says_in_a_short_sentence_what_to_look_for():
    for part in language.PARTS:
        assert len(part.LOOK_FOR.split()) <= 25, part.TITLE


# ---------------------------------------------------------------- tokens


def test_a_text_is_cut_in_four_ways_and_every_shown_token_has_its_row():
    board, error = language_tokens.segment(language_tokens.FIRST)
    value = told(board)
    assert error == ""
    assert set(value["kinds"]) == {"characters", "words", "bytes", "bpe"}
    assert value["steps"][0]["merge"] is None
    assert [step["merge"] for step in value["steps"][1:3]] == [["p", "e"], ["c", "k"]]
    for kind in value["kinds"].values():
        assert {str(place) for place in kind["ids"]} == set(kind["rows"]) == set(kind["vocabulary"])
        assert kind["difference"] < 1e-6
    for step in value["steps"]:
        assert {str(place) for place in step["ids"]} <= set(value["kinds"]["bpe"]["rows"])
        assert max(step["ids"]) < step["size"]


@pytest.mark.parametrize(
    ("text", "words"),
    [("  ", "Nothing is written"), ("x" * 401, "has 401 characters; up to 400"), (None, "Nothing")],
)
def test_a_text_that_cannot_be_cut_is_refused_in_words_and_the_board_stays(text, words):
    board, error = language_tokens.segment(text)
    assert told(board) is None
    assert words in error


def test_what_a_person_types_stays_data():
    board, _ = language_tokens.segment(EVIL)
    assert "<img" not in board
    assert told(board)["text"] == EVIL


# ---------------------------------------------------------------- order


def test_two_orders_of_the_same_words_are_compared():
    board, error = word_order.compare("Dog bites man!", "man bites dog")
    value = told(board)
    assert error == ""
    assert value["bag"] == {"dog": 1, "bites": 1, "man": 1}
    without, with_ = value["names"]
    assert value["rows"][-1]["distance"][without] < 1e-9 < value["rows"][-1]["distance"][with_]


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ("", "a b", "The first sentence is empty"),
        ("a b", "word " * 25, "The second sentence has 25 words; up to 24"),
        ("a b", "a c", "only the second has c"),
    ],
)
def test_sentences_that_cannot_be_compared_are_refused_in_words(one, other, words):
    board, error = word_order.compare(one, other)
    assert told(board) is None
    assert words in error


def test_the_order_is_learned_with_progress_and_can_be_stopped(monkeypatch):
    monkeypatch.setattr(word_order, "SIZES", WordOrderSizes(length=6, steps=20, examples=200))
    lesson = word_order.WordOrderJob()
    outputs = list(word_order.learn(lesson))
    values = [told(values[0]) for values in outputs]
    assert lesson.status == FINISHED
    assert len(values) >= 2
    assert [len(model["right"]) for model in values[-1]["models"]] == [2, 2, 2]
    assert sum(values[-1]["models"][0]["right"]) == 1  # of twins, naive Bayes names one right

    moments = word_order.learn(lesson)
    next(moments)
    assert next(word_order.learn(lesson)) == [gr.skip()] * 4  # one at a time
    word_order.stop(lesson)
    *_, last = moments
    assert lesson.status == STOPPED
    assert "what was measured is kept" in last[3]
    moments = word_order.learn(lesson)
    next(moments)
    moments.close()  # the page is closed
    assert lesson.status == STOPPED


def test_a_failure_is_told_on_the_board(monkeypatch, caplog):
    def broken(sizes, seed):
        yield []
        raise RuntimeError("no memory")

    monkeypatch.setattr(word_order, "learn_word_order", broken)
    lesson = word_order.WordOrderJob()
    list(word_order.learn(lesson))
    assert (lesson.status, lesson.message) == (FAILED, "Learning failed: no memory")
    assert "RuntimeError" in caplog.text


# ---------------------------------------------------------------- n-grams


def counted(text=language_ngrams.FIRST, prompt="the boat", session=None, counting=None):
    """Everything that counting a text of one's own sends."""
    counting = counting or language_ngrams.CountingJob()
    asked = (session or Session(), counting, language_ngrams.OWN, text, prompt)
    return counting, list(language_ngrams.count(*asked))


def test_a_text_is_counted_table_by_table_and_asked_for_its_next_words():
    counting, outputs = counted()
    assert len(outputs) == 5  # reading, three tables, the end
    value = told(outputs[-1][0])
    assert [table["name"] for table in value["tables"]] == ["unigram", "bigram", "trigram"]
    assert [len(one["context"]) for one in value["following"]] == [0, 1, 2]
    assert value["model"] is None
    assert value["growth"]["cells"][2][1] == value["tables"][2]["cells"]
    again, error = language_ngrams.continue_text(Session(), counting, "the old bank")
    assert error == ""
    assert told(again)["following"][1]["context"] == ["bank"]


@pytest.mark.parametrize(
    ("text", "prompt", "place", "words"),
    [
        ("One sentence.", "", 1, "has 1 sentence; at least 10"),
        ("a. " * 7000, "", 1, "characters; up to 20"),
        (language_ngrams.FIRST, "x" * 201, 2, "has 201 characters; up to 200"),
    ],
)
def test_what_cannot_be_counted_is_refused_under_its_field_and_the_tables_stay(text, prompt, place, words):
    counting, _ = counted()
    tables = counting.tables
    _, outputs = counted(text, prompt, counting=counting)
    assert told(outputs[-1][0]) is None
    assert words in outputs[-1][place].replace("\u202f", "")
    assert counting.tables is tables


def test_a_beginning_before_anything_is_counted_says_what_to_press():
    board, error = language_ngrams.continue_text(Session(), language_ngrams.CountingJob(), "the")
    assert told(board) is None
    assert "press Count first" in error


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
    model = told(outputs[-1][0])["model"]
    assert model["name"] == "attention (text 1, step 1)"
    with torch.no_grad():
        chances = run.model(torch.tensor([task.encode("the")])).logits[0, -1].softmax(dim=0)
    assert model["words"][0][1] == pytest.approx(float(chances.max()), abs=1e-6)
    _, outputs = counted(prompt="日本", session=session)  # characters that it has never met
    assert told(outputs[-1][0])["model"] is None


# ---------------------------------------------------------------- neighbours


@pytest.fixture(scope="module")
def learned():
    """A visitor's vectors of the countries, and everything its page was sent."""
    lesson = word_vectors.WordVectorsJob()
    asked = word_vectors.ASKED[word_vectors.COMPOSED]
    return lesson, list(word_vectors.train(lesson, word_vectors.COMPOSED, "CBOW", "", *asked))


def test_vectors_are_learned_with_progress_and_asked(learned):
    lesson, outputs = learned
    values = [told(values[0]) for values in outputs]
    assert lesson.status == FINISHED
    assert values[0]["near"] is None
    last = values[-1]
    assert [point[0] for point in last["losses"]] == sorted(point[0] for point in last["losses"])
    assert last["near"]["word"] == "rome"
    assert last["analogy"]["right"]["word"] == "rome"
    assert last["share"] > 0.5
    asked = [point["word"] for point in last["plane"]["points"] if point["asked"]]
    assert set(asked) >= {"paris", "france", "italy", "rome"}
    first = last["plane"]["arrows"][0]
    assert first == {"from": 0, "to": 1, "asked": True}
    assert outputs[0][-4:] == ["rome", "paris", "france", "italy"]
    assert "Done" in outputs[-1][3]


def test_an_unknown_word_is_refused_under_its_field_and_the_board_stays(learned):
    lesson, _ = learned
    board, *_, word_error, sum_error, _ = word_vectors.look_up(lesson, "romme", "paris", "france", "italy")
    assert told(board) is None
    assert "did you mean rome" in word_error
    assert sum_error == ""
    board, *_, word_error, sum_error, _ = word_vectors.look_up(lesson, "rome", "paris", "", "italy")
    assert told(board) is None
    assert "A word is missing" in sum_error
    board, *_ = word_vectors.look_up(lesson, "oslo", "oslo", "norway", "japan")
    assert told(board)["analogy"]["right"]["word"] == "tokyo"


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
    lesson, _ = learned
    report = lesson.report
    (outputs,) = word_vectors.train(lesson, word_vectors.OWN, "CBOW", text, *lesson.words)
    assert told(outputs[0]) is None
    assert words in outputs[4]
    assert lesson.report is report


def test_an_own_text_is_asked_for_words_that_it_has():
    lesson = word_vectors.WordVectorsJob()
    text = "\n".join(
        f"{a} {b} {c}"
        for a in ("ax", "bx", "cx")
        for b in ("dx", "ex", "fx")
        for c in ("gx", "hx", "ix", "jx")
    )
    outputs = word_vectors.train(
        lesson, word_vectors.OWN, "skip-gram", text, "rome", "paris", "france", "italy"
    )
    first = next(outputs)
    assert set(first[-4:]) <= set(lesson.report.vectors.words)
    assert lesson.status == RUNNING
    word_vectors.stop(lesson)
    *_, last = outputs
    assert lesson.status == STOPPED
    assert lesson.share is None
    assert "the vectors can be used" in last[3]
    assert told(last[0])["plane"]["points"]


def test_words_before_there_are_vectors_say_what_to_press():
    board, *_, word_error, _, _ = word_vectors.look_up(word_vectors.WordVectorsJob(), "rome", "a", "b", "c")
    assert told(board) is None
    assert "press Train vectors first" in word_error
