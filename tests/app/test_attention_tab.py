"""The Attention tab: what is shown at once, any cell, the switches, the exercise, and wrong input."""

import asyncio
import contextlib
import dataclasses
import io
import json
import os
from types import SimpleNamespace

import pytest
import torch

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
gr = pytest.importorskip("gradio")


from demos import build_app  # noqa: E402
from demos.session.catalog import ModelCatalog, build_catalog  # noqa: E402
from demos.session.session import Session  # noqa: E402
from demos.tabs.attention import head_view  # noqa: E402
from demos.tabs.attention import tab as attention  # noqa: E402
from demos.tabs.attention.head_view import RANDOM, WORKED, Settings  # noqa: E402
from demos.ui import boards  # noqa: E402
from hf_attn.checkpoints.save_load import BUNDLED, load_checkpoint  # noqa: E402
from hf_attn.interpret.attention_maps import attention_maps  # noqa: E402
from hf_attn.textbooks import DOCUMENTS  # noqa: E402
from hf_attn.textbooks.exercises import BANKS  # noqa: E402
from hf_attn.textbooks.worked_examples import WORKED_EXAMPLES  # noqa: E402
from tests.support.native_models import build_native  # noqa: E402
from tests.support.sessions import begun, finished  # noqa: E402

CATALOG = build_catalog()
PARSER = str(BUNDLED / "attn-parser")


def view(weights, text=None, **chosen):
    """What the page shows of those settings."""
    return head_view.read_view(CATALOG, Session(), Settings(weights, text, **chosen))


def picked(row, column, head=None):
    """What the board sends of a choice."""
    return SimpleNamespace(row=row, column=column, head=head)


def outputs_of(answer):
    """The outputs by name; what stays is left out."""
    stays = gr.skip()
    named = dict(zip(attention.SCREEN, answer, strict=True))
    return {name: value for name, value in named.items() if value != stays}


def asked(name, before, **changed):
    """The outputs after one field was changed."""
    fields = {field: getattr(before.settings, field) for field in attention.FIELDS} | changed
    settings = attention.read_settings(name, *fields.values())
    return outputs_of(attention.answer(CATALOG, Session(), settings, before))


# ---------------------------------------------------------------- what is shown


def test_the_page_opens_with_a_trained_model_s_own_map_explained():
    first = head_view.read_view(CATALOG, Session(), head_view.first_settings(CATALOG))
    value = head_view.to_value(first)
    found = load_checkpoint(PARSER)
    maps = attention_maps(found.model, found.task.encode(first.settings.text), tokenizer=found.tokenizer)
    kind, layer = first.settings.place.split()
    own = getattr(maps, kind)[int(layer), first.settings.head]
    assert (torch.tensor(value["weights"]) - own).abs().max() < 1e-6
    row, column = first.cell
    assert value["truth"][row][column] == 1
    assert value["cell"]["lines"][column]["weight"] == pytest.approx(float(own[row, column]), abs=1e-6)
    assert value["notice"] == ""
    assert len(first.look_for.split()) <= 25
    assert "attn-parser" in first.origin


def test_without_checkpoints_the_page_opens_with_the_exercise():
    assert head_view.first_settings(ModelCatalog()).weights == "worked:exercise-1"

    async def build():  # outside an event loop Gradio opens some and never closes them
        return build_app(ModelCatalog(), "cpu")

    assert asyncio.run(build()).fns


@pytest.mark.parametrize("name", WORKED_EXAMPLES)
def test_a_worked_example_names_its_text_by_title_and_links_to_it(name):
    example, text = WORKED_EXAMPLES[name], DOCUMENTS[WORKED_EXAMPLES[name].document]
    origin = view(WORKED + name).origin
    assert f'<a href="{text.url}"' in origin
    assert f"“{text.title}”, {example.place}</a>" in origin


def test_everything_that_is_offered_can_be_walked_through():
    offered = head_view.choices(CATALOG, Session())
    assert not [label for label, _ in offered if "lstm" in label or "bahdanau" in label]
    for _, value in offered:
        shown = view(value)
        told = head_view.to_value(shown)
        assert told["same"]["largest"] < 1e-5, value
        assert len(shown.look_for.split()) <= 25, value
        assert boards.to_json(told) is not None


def test_a_run_of_the_visit_is_offered_and_says_that_it_is_untrained_before_its_first_step():
    session, _ = finished()
    label, value = head_view.choices(ModelCatalog(), session)[0]
    assert label == "copy 1 (this session)"
    assert head_view.read_view(ModelCatalog(), session, Settings(value)).notice == ""
    fresh = begun()
    fresh.run.begin()
    assert head_view.read_view(ModelCatalog(), fresh, Settings("run-1")).notice == head_view.UNTRAINED
    gone = attention.refresh_weights(CATALOG, Session(), value)
    assert gone["value"] == head_view.choices(CATALOG, Session())[0][1]
    session.close()


def test_what_was_pulled_or_opened_is_offered_where_it_can_be_walked_through(tiny_checkpoint, tmp_path):
    session, catalog = Session(), ModelCatalog()
    session.pulled = {"ada/attn-copy": tiny_checkpoint, "ada/lstm": BUNDLED / "lstm-reverse"}
    for part in build_native("gpt2"):
        part.save_pretrained(tmp_path / "gpt2")
    for name in (tmp_path / "gpt2", BUNDLED / "attn-parser"):
        catalog.take(session, str(name))
    offered = [value for _, value in head_view.choices(catalog, session) if "/" in value]
    assert offered == ["ada/attn-copy", PARSER]
    assert attention.refresh_weights(catalog, session, "ada/attn-copy")["choices"][0][1] == "ada/attn-copy"
    for name in offered:
        assert (
            head_view.to_value(head_view.read_view(catalog, session, Settings(name)))["same"]["largest"]
            < 1e-5
        )


def test_random_weights_say_that_the_map_means_nothing():
    assert view(RANDOM, "any words at all").notice == head_view.UNTRAINED


def test_the_same_word_in_the_other_sentence_stands_beside_it():
    beside = head_view.to_value(view(RANDOM, BANKS[1], num_heads=4, head=3))["beside"]
    assert (beside["sentence"], beside["word"], len(beside["output"])) == (BANKS[0], "bank", 4)
    assert head_view.to_value(view(RANDOM, "bank"))["beside"] is None


# ---------------------------------------------------------------- cells, heads and switches


def test_a_chosen_cell_comes_back_explained_and_a_figure_of_another_head_brings_its_head():
    before = view(f"{WORKED}notebook-heads")
    value, after, head, error = attention.pick_cell(CATALOG, Session(), before, picked(1, 4, 3))
    assert (after.settings.head, head, after.cell, error) == (3, 3, (1, 4), "")
    assert json.loads(value)["cell"]["query"][0] == pytest.approx(-1.1907, abs=5e-5)
    same = attention.pick_cell(CATALOG, Session(), after, picked(0, 0))[1]
    assert same.head is after.head


@pytest.mark.parametrize("event", [picked(9, 0), picked(0, 99), picked(0, 0, 7)])
def test_a_cell_of_a_map_that_is_gone_is_refused_and_the_board_stays(event):
    before = view(f"{WORKED}exercise-1")
    *stays, error = attention.pick_cell(CATALOG, Session(), before, event)
    assert stays == [gr.skip()] * 3
    assert "is no cell" in error or "is not there" in error


def test_an_example_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="'nope' is no worked example; choose exercise-1, "):
        view(f"{WORKED}nope")


def test_a_switch_keeps_the_cell_and_says_that_the_model_computes_something_else():
    before = dataclasses.replace(view(PARSER), cell=(1, 2))
    after = asked("scale", before, scale=False)["walked"]
    assert after.cell == (1, 2)
    assert after.notice == head_view.CHANGED
    assert not torch.equal(after.head.weights, before.head.weights)
    hidden = asked("hidden", before, hidden=[7])["walked"]
    assert (hidden.head.weights[:, 7] == 0).all()
    back = asked("hidden", hidden, hidden=[])["walked"]
    assert back.notice == ""
    assert torch.equal(back.head.weights, before.head.weights)


def test_another_map_brings_its_own_mask_and_another_text_forgets_what_was_hidden():
    before = asked("hidden", view(PARSER), hidden=[0])["walked"]
    decoder = asked("place", before, place="decoder 1")["walked"]
    assert (decoder.head.causal, decoder.head.hidden, decoder.notice) == (True, (), "")
    text = asked("text", before, text="y=4*2")["walked"]
    assert (text.head.columns, text.head.hidden) == (("y", "=", "4", "*", "2", "end"), ())


@pytest.mark.parametrize(
    ("weights", "text", "words"),
    [
        (PARSER, "x=1+?", "?"),
        (PARSER, "", "empty"),
        (RANDOM, "", "empty"),
        (RANDOM, "word " * 65, "65 words"),
    ],
)
def test_wrong_input_is_one_sentence_and_everything_else_stays(weights, text, words):
    answer = asked("text", view(weights), text=text)
    assert list(answer) == ["error"]
    assert words in answer["error"]


def test_hiding_every_token_is_refused():
    before = view(RANDOM, "two words")
    assert "leave one" in asked("hidden", before, hidden=[0, 1])["error"]


# ---------------------------------------------------------------- what is taken away


@pytest.mark.parametrize(
    ("weights", "text", "chosen"),
    [
        (PARSER, None, {}),
        (PARSER, "x=1+2", {"place": "decoder 0", "head": 2, "causal": False, "hidden": (1,)}),
        (str(BUNDLED / "attn-docstring-topics"), None, {"head": 1}),
        (RANDOM, 'a "quoted" <pad> isn\'t', {"num_heads": 4, "head": 2, "positions": False, "causal": True}),
        (f"{WORKED}notebook-heads", None, {"head": 5}),
        (f"{WORKED}padding", None, {"hidden": (), "scale": True}),
    ],
)
def test_the_copied_lines_give_the_same_numbers(weights, text, chosen, monkeypatch):
    monkeypatch.chdir(BUNDLED.parent)
    shown = view(weights, text, **chosen)
    scope, said = {}, io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(head_view.to_value(shown)["python"], scope)
    assert torch.equal(scope["head"].weights, shown.head.weights)
    assert said.getvalue().startswith(f"Explanation(row={shown.cell[0]}, column={shown.cell[1]}, query=(")


def test_figures_by_hand_are_judged_where_they_are_typed():
    blank = [[""] * 3] * 3
    event = SimpleNamespace(scores=[["1", "0", "2"], *blank[1:]], weights=blank, outputs=[["", ""]] * 3)
    value = json.loads(attention.check_figures(event))
    assert [one["is_right"] for one in value["checks"]["scores"][0]] == [True, True, False]
    assert [f"{one['computed']:.4f}" for one in value["printed"]] == ["0.2483", "0.2483", "0.5035"]
    assert [one["printed"] for one in value["printed"]] == ["0.28", "0.28", "0.44"]
    wrong = SimpleNamespace(scores=[["1"] * 9] * 9, weights=blank, outputs=blank)
    assert attention.check_figures(wrong) == gr.skip()
