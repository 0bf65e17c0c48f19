"""Visits without a browser, for the tests of the tabs."""

import contextlib
import json
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

from demos.session.session import Session
from demos.tabs.explore import ablation_panel
from demos.tabs.train import form
from demos.tabs.train.messages import show_news

COPY = {
    **dict.fromkeys(form.FIELDS),
    **{"task": "Copy", "model": "transformer", "size": 5, "preset": "small", "hidden_size": 64},
    **{"num_attention_heads": 2, "attention_size": 32, "encoder_layers": 2, "decoder_layers": 2},
    **{"num_hidden_layers": 1, "position_type": "learned", "bidirectional": True, "input_feeding": True},
    **{"optimizer": "adamw", "learning_rate": "0.005", "steps": "6", "seed": "0"},
}


def changed(**values):
    """Return the settings of a small copy run with some of them changed."""
    return {**COPY, **values}


def begun(catalog=None, **values):
    """Return a session whose run is to be followed."""
    session = Session(catalog, device="cpu")
    session.add(*form.read_form(changed(**values)))
    return session


def board_of(changes):
    """Return the train board's value among the changes of a page."""
    value = changes.get("board")
    return json.loads(value) if isinstance(value, str) else None


def follow(session):
    """Let the session's current run work; what the Train tab shows, in turn."""
    for _ in session.run.follow():
        yield show_news(session)


def finished(catalog=None, **values):
    """Return a session whose run has ended, and everything its page was sent."""
    session = begun(catalog, **values)
    return session, list(follow(session))


def follow_job(session, kind, show):
    """Let a visitor's job of this kind work; what its tab shows, in turn."""
    with contextlib.closing(session.state(kind).follow()) as moments:
        for _ in moments:
            yield show(session)


def read_boards(updates, name="board"):
    """Return the values of a board among the updates of a page, in turn."""
    values = [one.get(name) for one in updates]
    return [json.loads(value) for value in values if isinstance(value, str)]


def wait_for(thread: threading.Thread, reached: Callable[[], bool]) -> None:
    """Wait until a thread has brought something about, however long a busy machine takes."""
    while not reached():
        assert thread.is_alive(), "it ended before"
        time.sleep(0.01)


class Event:
    """What a click on a row sends."""

    def __init__(self, run):
        self.run = run


def ask_model(session, question, sent_at=0.0):
    """Ask Explore's model, as its board does; what its panels show, in turn."""
    return ablation_panel.ask_model(session, SimpleNamespace(sent_at=sent_at, **vars(question)))
