"""The Positions tab: every encoding as numbers, and what the boards are told."""

import html
import json
import re

import pytest
import torch

from demos.jobs.job import FINISHED
from demos.session.session import Session
from demos.tabs.positions import length_test
from demos.tabs.positions import tab as positions
from demos.tabs.positions.length_test import LengthTestJob
from hf_attn.analysis.position_encodings import (
    PositionSettings,
    measure_order_sensitivity,
    view_position_encoding,
)
from hf_attn.experiments.length_generalization import LengthTest
from hf_attn.models.positions import POSITION_TYPES
from tests.support.matrix import rows
from tests.support.position_checks import INVARIANT_TO_SHIFTS
from tests.support.sessions import follow_job, read_boards

WORDS = ["the", "cat", "sat", "on", "the", "mat"]
SMALL = PositionSettings(length=12, width=16, trained=12, clip=3)
FORM = {
    **{"type": "sinusoidal", "length": "12", "width": "16", "trained": "12", "heads": "2", "theta": "10000"},
    **{"clip": "3", "seed": "0", "sentence": "the cat sat on the mat"},
}
# those whose pictures are drawn in different ways
WAYS = rows(POSITION_TYPES, ("none", "sinusoidal", "learned", "rotary", "relative", "alibi", "index"))
TINY = LengthTest("copy", 3, (3, 4), steps=4)
RUN = {"task": "Copy", "types": ["learned", "alibi"], "run_seed": "0"}


# ---------------------------------------------------------------- what is drawn


@pytest.mark.parametrize("position_type", WAYS)
def test_every_way_comes_with_tables_that_fit_one_another(position_type):
    pictures = view_position_encoding(position_type, SMALL)
    assert bool(pictures) == (position_type != "none")
    for picture in pictures:
        rows = len(picture.rows)
        assert picture.values.shape[0] == rows
        assert picture.similarity.shape == (rows, rows)
        assert picture.waves.shape[0] == len(picture.points)
        assert picture.values.isfinite().all()


def test_the_cosines_of_sinusoids_are_the_document_s_and_not_monotone():
    (picture,) = view_position_encoding("sinusoidal", PositionSettings(length=50, width=32))
    found = {place: round(float(picture.similarity[0, place]), 3) for place in (1, 15, 20, 25, 49)}
    assert found == {1: 0.957, 15: 0.525, 20: 0.654, 25: 0.605, 49: 0.348}


def test_a_relative_way_has_one_number_a_distance_and_its_softmax_beside_it():
    for picture in view_position_encoding("alibi", SMALL):
        distances = torch.tensor([[column - row for column in picture.rows] for row in picture.rows])
        slope = float(picture.values[1, 0])
        assert torch.allclose(picture.values, slope * distances.abs(), atol=1e-6)
        assert torch.allclose(picture.similarity.sum(-1), torch.ones(12))
        assert picture.points == tuple(range(-11, 12))


def test_rotary_angles_are_the_place_times_a_falling_frequency():
    (picture,) = view_position_encoding("rotary", PositionSettings(length=12, width=16, heads=2, theta=100.0))
    wanted = torch.arange(12).unsqueeze(1) * 100.0 ** (-torch.arange(0, 8, 2) / 8)
    assert torch.allclose(torch.cos(picture.values), torch.cos(wanted), atol=1e-5)
    assert torch.allclose(torch.sin(picture.values), torch.sin(wanted), atol=1e-5)


@pytest.mark.parametrize("position_type", WAYS)
def test_words_moved_about_are_noticed_by_every_way_but_none_and_index(position_type):
    order = measure_order_sensitivity(position_type, SMALL, WORDS)
    assert order.without < positions.ROUNDING
    is_noticed = position_type not in ("none", "index")  # LayerNorm takes an added index off again
    assert (order.with_positions > positions.ROUNDING) == is_noticed
    does_not_see = position_type in INVARIANT_TO_SHIFTS | {"index", "coupled", "abacus"}  # these see the text
    assert (order.shifted < positions.ROUNDING) == does_not_see
    assert order == measure_order_sensitivity(position_type, SMALL, WORDS)


# ---------------------------------------------------------------- one way


@pytest.mark.parametrize("position_type", WAYS)
def test_the_board_is_told_each_way_whole_and_the_sentence_says_what_its_figures_say(position_type):
    view = positions.show_view(Session(), FORM | {"type": position_type})
    value = json.loads(view["board"])
    assert {view[f"{field}_error"] for field in positions.VIEW_ERRORS} == {""}
    assert value["title"] == POSITION_TYPES[position_type].title
    assert value["order"]["words"] == WORDS
    assert ("untrained" in view["origin"]) == value["untrained"]
    said, order = html.unescape(re.sub("<[^>]+>", "", view["told"])), value["order"]
    assert ("Without position encodings, reordering the words does not change" in said) == (
        order["without"] < positions.ROUNDING
    )
    changes = f"With “{POSITION_TYPES[position_type].title}” it changes it" in said
    assert changes == (position_type != "none" and order["with_positions"] >= positions.ROUNDING)
    shown = positions.choose_type(Session(), {"type": position_type})
    assert list(shown) == list(positions.NUMBERS)
    assert [name for name, update in shown.items() if update["visible"]] == [
        name for name in positions.NUMBERS if name in positions.fields_of(position_type)
    ]


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"type": "rotary", "theta": "inf"}, "theta", "a number from 2"),
        (
            {"type": "learned", "length": "13"},
            "length",
            "this model has 12 positions that it was trained for",
        ),
        (
            {"type": "alibi", "width": "9"},
            "width",
            "9 dimensions cannot be shared by 2 heads: choose a number of",
        ),
        ({"sentence": "alone"}, "sentence", "has 1 word: write 2 to 24"),
    ],
)
def test_a_wrong_field_is_one_sentence_under_it_and_leaves_the_picture(changes, field, words):
    view = positions.show_view(Session(), FORM | changes)
    errors = {name: view[f"{name}_error"] for name in positions.VIEW_ERRORS}
    assert "board" not in view
    assert words in errors.pop(field)
    assert set(errors.values()) == {""}


# ---------------------------------------------------------------- beyond the trained length


def begun(monkeypatch, test=TINY, types=("learned", "alibi")):
    """A session whose length test is to be followed, and the test."""
    monkeypatch.setitem(length_test.LENGTH_TESTS, "Copy", test)
    session = Session(device="cpu")
    positions.press_start(session, RUN | {"types": list(types)})
    return session, session.state(LengthTestJob)


def follow(session):
    """Let the session's length test work; what the tab shows, in turn."""
    return follow_job(session, LengthTestJob, positions.show_test)


def test_ways_learn_in_turn_and_one_that_cannot_go_beyond_says_so(monkeypatch):
    session, job = begun(monkeypatch)
    last = read_boards(follow(session), "curves")[-1]
    learned, alibi = last["encodings"]
    assert (job.status, last["done"], last["trained"]) == (FINISHED, 1.0, 3)
    assert [score["size"] for score in learned["scores"]] == [3, 4]
    assert (learned["refuses"], learned["beyond"], learned["scores"][1]["right"]) == (True, None, None)
    assert not alibi["refuses"]
    assert alibi["scores"][1]["low"] <= alibi["beyond"] <= alibi["scores"][1]["high"]


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"types": []}, "types", "choose one to four"),
        ({"types": list(POSITION_TYPES)[:5]}, "types", "5 are chosen"),
        ({"run_seed": "first"}, "run_seed", "“first” is not a number. Enter a whole number"),
    ],
)
def test_a_run_that_cannot_be_is_refused_under_its_field(changes, field, words):
    session = Session()
    errors = positions.press_start(session, RUN | changes)
    assert set(errors) == {f"{name}_error" for name in positions.RUN_ERRORS}
    assert session.state(LengthTestJob).status is None
    assert words in errors.pop(f"{field}_error")
    assert set(errors.values()) == {""}
