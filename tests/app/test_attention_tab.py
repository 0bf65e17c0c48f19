"""The Attention tab: what is shown at once, any cell, the switches, the exercise, and wrong input."""

import asyncio
import contextlib
import io
import json
from types import SimpleNamespace

import pytest
import torch

from demos import build_app
from demos.session.catalog import ModelCatalog, build_catalog
from demos.session.session import Session
from demos.tabs.attention import head_view
from demos.tabs.attention import tab as attention
from demos.tabs.attention.head_view import RANDOM, WORKED, Settings
from demos.tabs.attention.tab import AttentionState
from demos.ui import boards
from hf_attn.checkpoints.save_load import BUNDLED, load_checkpoint
from hf_attn.interpret.attention_maps import attention_maps
from hf_attn.tasks.base import CLASSES, TEXT
from tests.support.matrix import rows
from tests.support.sessions import begun, finished

CATALOG = build_catalog()
PARSER = str(BUNDLED / "attn-parser")
SHOWN = ("attn-addition", "attn-parser", "attn-docstring-topics", "attn-sentences")
READABLE = [path for _, path in CATALOG.folders if head_view.is_readable(Session(CATALOG), str(path))]


def view(weights, text=None, **chosen):
    """What the page shows of those settings."""
    return head_view.read_view(Session(CATALOG), Settings(weights, text, **chosen))


def looking_at(shown):
    """A session with that on show, and its state."""
    session = Session(CATALOG)
    attention.show_view(session, shown)
    return session, session.state(AttentionState)


def picked(row, column, head=None, number=1):
    """What the board sends of a choice."""
    return SimpleNamespace(id=number, row=row, column=column, head=head)


def change(session, name, **changed):
    """The updates after one field was changed."""
    fields = vars(attention.view_of(session).settings) | changed
    return attention.changing(name)(session, fields)


# ---------------------------------------------------------------- what is shown


def sentence_of(view):
    """The screen's sentence as a person reads it."""
    return "".join(part if isinstance(part, str) else part[1] for part in view.headline)


@torch.no_grad()
@pytest.mark.parametrize(
    "folder", rows(READABLE, [BUNDLED / name for name in SHOWN], name=lambda folder: folder.name)
)
def test_a_checkpoint_s_sentence_is_true_by_its_own_figures(folder):
    shown, found = view(str(folder)), load_checkpoint(folder)
    sentence, text, task, model = sentence_of(shown), shown.settings.text, found.task, found.model.eval()
    kind, layer = shown.settings.place.split()
    maps = getattr(attention_maps(model, task.encode(text), tokenizer=found.tokenizer), kind)
    weight = float(maps[int(layer), shown.settings.head][shown.cell])
    assert f"{100 * weight:.0f}\u202f% of the weight" in sentence
    assert ("several tokens" in sentence) == (weight < 0.5)
    ids = torch.tensor([task.encode(text)])
    if task.kind == CLASSES:
        p, name = model(ids).logits[0].softmax(-1).max(-1)
        assert f"says {model.config.id2label[int(name)]}, {100 * float(p):.0f}" in sentence
    elif task.kind == TEXT:
        p, name = model(ids).logits[0, -1].softmax(-1).max(-1)
        assert f"{found.tokenizer.convert_ids_to_tokens(int(name))}, {100 * float(p):.0f}" in sentence
    else:
        written = task.decode(model.generate(ids, max_new_tokens=30)[0, 1:].tolist())
        is_right = task.verify(text, written).correct
        assert is_right == ("wrong" not in sentence)
        assert task.name == "parser" or written in sentence


ENGLISH = str(BUNDLED / "attn-sentences")
TIRED = "the cat sat on the mat because it was tired . the tired"


@torch.no_grad()
def test_a_word_taken_away_leaves_what_the_model_guesses_of_the_shorter_sentence():
    session, state = looking_at(view(ENGLISH, TIRED))
    updates = attention.take_word(session)
    place = state.view.settings.without
    assert state.view.head.columns[place] == "cat", "the most read word"
    found = load_checkpoint(BUNDLED / "attn-sentences")
    ids = found.task.encode(TIRED)
    p = found.model.eval()(torch.tensor([ids[:place] + ids[place + 1 :]])).logits[0, -1].softmax(-1)
    likeliest = json.loads(updates["board"])["result"]["likeliest"]
    shown = {name: (whole, without) for name, whole, without in likeliest["without"]["rows"][-1]}
    name = found.tokenizer.convert_ids_to_tokens(int(p.argmax()))
    assert shown[name][1] == pytest.approx(float(p.max()), abs=1e-5)
    assert shown["cat"][0] == pytest.approx(likeliest["rows"][-1][0][1], abs=1e-6)
    assert f"Without “cat”: {name}, {100 * float(p.max()):.0f}" in sentence_of(state.view)
    assert likeliest["without"]["rows"][place] is None
    assert updates["word"]["value"].startswith("Put it back")
    back = attention.take_word(session)
    assert "without" not in json.loads(back["board"])["result"]["likeliest"]
    assert back["word"]["value"].startswith("Take a word away\nWithout “cat”")


def test_one_changed_word_moves_what_is_looked_at():
    session, state = looking_at(view(ENGLISH, TIRED))
    assert sentence_of(state.view).endswith("Change the word: soft")
    attention.swap_word(session)
    assert state.view.head.columns[state.view.cell[1]] == "mat"
    assert "guesses the next word: mat" in sentence_of(state.view)
    assert sentence_of(state.view).endswith("Change the word: tired")


def test_without_checkpoints_the_page_opens_with_the_exercise():
    assert head_view.first_view(ModelCatalog()).settings.weights == "worked:exercise-1"

    async def build():  # outside an event loop Gradio opens some and never closes them
        return build_app(ModelCatalog(), "cpu")

    assert asyncio.run(build()).fns


def test_everything_that_is_offered_can_be_walked_through():
    offered = head_view.choices(Session(CATALOG))
    assert not [label for label, _ in offered if "lstm" in label or "bahdanau" in label]
    for _, value in offered:
        shown = view(value)
        told = head_view.to_value(shown)
        assert told["same"]["largest"] < 1e-5, value
        assert len(sentence_of(shown)) <= 190, value
        assert boards.to_json({"id": 0, **told}) is not None


def test_a_run_of_the_visit_is_offered_and_says_that_it_is_untrained_before_its_first_step():
    session, _ = finished(ModelCatalog())
    label, value = head_view.choices(session)[0]
    assert label == "copy 1 (this session)"
    trained = head_view.read_view(session, Settings(value))
    assert trained.notice == ""
    session.run.step += 1
    assert head_view.read_view(session, Settings(value), trained).read is not trained.read, "it has learned"
    fresh = begun(ModelCatalog())
    fresh.run.begin()
    assert head_view.read_view(fresh, Settings("run-1")).notice == head_view.UNTRAINED
    there = Session(CATALOG)
    gone = attention.refresh_weights(there, {"weights": value})["weights"]
    assert gone["value"] == head_view.choices(there)[0][1]
    session.close()


# ---------------------------------------------------------------- cells, heads and switches


def test_a_chosen_cell_comes_back_alone_and_a_figure_of_another_head_brings_its_map():
    session, state = looking_at(view(f"{WORKED}notebook-heads"))
    updates = attention.pick_cell(session, picked(1, 4, 3))
    assert (updates["head"]["value"], updates["error"], state.id) == (3, "", 2)
    value, after = json.loads(updates["board"]), state.view
    assert (value["id"], value["cell"]["row"], value["cell"]["column"]) == (2, 1, 4)
    assert value["cell"]["query"][0] == pytest.approx(-1.1907, abs=5e-5)
    updates = attention.pick_cell(session, picked(0, 0, number=2))
    assert list(updates) == ["board", "error", "unfold", "away", "word"]
    weight = float(after.head.weights[0, 0])
    assert f"{weight:.3f}: from dot product" in updates["unfold"]["value"], "the step names the chosen cell's"
    told = json.loads(updates["board"])
    assert list(told) == ["id", "cell"]
    assert (told["id"], told["cell"]["row"], told["cell"]["column"]) == (2, 0, 0)
    assert told["cell"]["python"].endswith("print(head.explain(0, 0))")
    assert state.view.head is after.head
    assert attention.pick_cell(session, picked(1, 1, number=1)) == {}, "of the map before"


@pytest.mark.parametrize("event", [picked(9, 0), picked(0, 99), picked(0, 0, 7)])
def test_a_cell_that_the_map_does_not_have_is_refused_and_the_board_stays(event):
    session, state = looking_at(view(f"{WORKED}exercise-1"))
    before = state.view
    updates = attention.pick_cell(session, event)
    assert list(updates) == ["error"]
    assert "is no cell" in updates["error"] or "is not there" in updates["error"]
    assert (state.id, state.view) == (1, before)


def test_an_example_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="'nope' is no worked example; choose exercise-1, "):
        view(f"{WORKED}nope")


@pytest.mark.parametrize(
    ("weights", "text", "words"),
    [
        (PARSER, "x=1+?", "?"),
        (PARSER, "", "empty"),
        (RANDOM, "word " * 65, "65 words"),
    ],
)
def test_wrong_input_is_one_sentence_and_everything_else_stays(weights, text, words):
    session, _ = looking_at(view(weights))
    updates = change(session, "text", text=text)
    assert list(updates) == ["error", "offer"]
    assert words in updates["error"]


def test_hiding_every_token_is_refused():
    session, _ = looking_at(view(RANDOM, "two words"))
    assert "leave one" in change(session, "hidden", hidden=[0, 1])["error"]


# ---------------------------------------------------------------- what is taken away


@pytest.mark.parametrize(
    ("weights", "text", "chosen"),
    [
        (PARSER, "x=1+2", {"place": "decoder 0", "head": 2, "causal": False, "hidden": (1,)}),
        (RANDOM, 'a "quoted" <pad> isn\'t', {"num_heads": 4, "head": 2, "positions": False, "causal": True}),
        (f"{WORKED}notebook-heads", None, {"head": 5}),
    ],
)
def test_the_copied_lines_give_the_same_numbers(weights, text, chosen, monkeypatch):
    monkeypatch.chdir(BUNDLED.parent)
    shown = view(weights, text, **chosen)
    scope, said = {}, io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(head_view.to_value(shown)["cell"]["python"], scope)
    assert torch.equal(scope["head"].weights, shown.head.weights)
    assert said.getvalue().startswith(f"Explanation(row={shown.cell[0]}, column={shown.cell[1]}, query=(")


def test_figures_by_hand_are_judged_where_they_are_typed():
    blank = [[""] * 3] * 3
    event = SimpleNamespace(scores=[["1", "0", "2"], *blank[1:]], weights=blank, outputs=[["", ""]] * 3)
    value = json.loads(attention.check_figures(Session(), event)["hand"])
    assert [one["is_right"] for one in value["checks"]["scores"][0]] == [True, True, False]
    assert [f"{one['computed']:.4f}" for one in value["printed"]] == ["0.2483", "0.2483", "0.5035"]
    assert [one["printed"] for one in value["printed"]] == ["0.28", "0.28", "0.44"]
    wrong = SimpleNamespace(scores=[["1"] * 9] * 9, weights=blank, outputs=blank)
    assert attention.check_figures(Session(), wrong) == {}
