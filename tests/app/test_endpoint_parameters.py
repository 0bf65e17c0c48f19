"""Every parameter of the named endpoints is taken, alone and with all others."""

import inspect

import pytest

pytest.importorskip("gradio")

from demos.server import api
from demos.session.catalog import build_catalog
from hf_attn.generation.strategies import STRATEGIES

SENT = {  # endpoint → (what it cannot do without, all else)
    "train_model": (
        {"task": "copy", "steps": 1},
        {"model": "decoder", "seed": 3, "settings": {"max_length": 4, "hidden_size": 32}},
    ),
    "attention_map": (
        {"checkpoint": "attn-copy", "text": "1 2"},
        {"target": "1 2", "kind": "cross", "layer": 0, "head": 1},
    ),
}


@pytest.fixture(scope="module")
def session():
    return api.ApiSession(build_catalog(), "cpu")


def send(session, name, required, others):
    """Call an endpoint with each parameter alone, then with all; return all that were sent."""
    endpoint = api._told(getattr(session, name))
    for given in (*({one: value} for one, value in others.items()), others):
        assert endpoint(**required, **given)
    return {*required, *others}


@pytest.mark.parametrize("name", SENT)
def test_every_parameter_is_taken(session, name):
    assert send(session, name, *SENT[name]) == set(inspect.signature(getattr(session, name)).parameters)


def test_every_parameter_of_every_strategy_is_taken(session):
    sent = set()
    for strategy, row in STRATEGIES.items():
        required = {"checkpoint": "attn-copy", "text": "1 2", "strategy": strategy}
        sent |= send(session, "write_answer", required, {one.name: one.default for one in row.used})
    assert sent == set(inspect.signature(session.write_answer).parameters)
