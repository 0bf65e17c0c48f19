"""Visits without a browser, for the tests of the tabs."""

import json

from demos import form, train
from demos.visits import Visit

COPY = ("Copy", 5, "small", 64, 2, 2, 2, "learned", "0.005", "6", "0")


def changed(**values):
    """Return the settings of a small copy run with some of them changed."""
    return tuple(values.get(name, value) for name, value in zip(form.FIELDS, COPY, strict=True))


def begun(**values):
    """Return a visit whose run is to be followed."""
    visit = Visit(device="cpu")
    visit.add(*form.read_form(*changed(**values)))
    return visit


def board_of(outputs):
    """Return the train board's value among the outputs."""
    value = outputs[train.SCREEN.index("board")]
    return json.loads(value) if isinstance(value, str) else None


def finished(**values):
    """Return a visit whose run has ended, and everything its page was sent."""
    visit = begun(**values)
    return visit, list(train.follow(visit))


class Event:
    """What a click on a row sends."""

    def __init__(self, run):
        self.run = run
