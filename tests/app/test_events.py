"""What an event holds: values by the names that its class gives, of their types."""

import re

import gradio as gr
import pytest

from demos.core.events import RunEvent
from demos.tabs.explore.ablation_panel import AskEvent
from demos.tabs.train.tab import CompareEvent, RenameEvent


def test_an_event_has_the_values_that_its_class_names_and_defaults_for_the_others():
    assert RunEvent(None, {"run": "run-1", "more": 1}).run == "run-1"
    asked = AskEvent(None, {"what": "edge", "query": 2, "key": None})
    assert (asked.what, asked.how, asked.query, asked.key, asked.seed) == ("edge", "remove", 2, None, 0)
    assert RenameEvent(None, {"run": "run-1", "name": "Ada"}).name == "Ada"


@pytest.mark.parametrize(
    ("event", "data", "words"),
    [
        (RunEvent, None, "lacks its value “run”"),
        (RunEvent, {"run": 3}, "“run” cannot be taken"),
        (RunEvent, [1], "cannot be taken"),
        (CompareEvent, {"runs": ["a", 1]}, "“runs.1” cannot be taken"),
        (AskEvent, {"what": "all"}, "“what” cannot be taken"),
        (AskEvent, {"what": "head", "layer": -1}, "“layer” cannot be taken"),
        (AskEvent, {"what": "head", "layer": True}, "“layer” cannot be taken"),
        (AskEvent, {"what": "head", "seed": 2**31}, "“seed” cannot be taken"),
    ],
)
def test_what_is_missing_or_of_another_type_is_named(event, data, words):
    with pytest.raises(gr.Error, match=re.escape(words)):
        event(None, data)
