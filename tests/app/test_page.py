"""The page as a whole, without a browser: its tabs, its events, and its queue while nobody asks."""

import asyncio
import json

import gradio as gr
from gradio.state_holder import StateHolder

from demos.app import LOOK_SECONDS, TABS, build_app
from demos.session.catalog import ModelCatalog
from demos.session.session import Session
from demos.tabs.language import ngrams

EMPTY = ModelCatalog()


def build():
    """The page; outside an event loop Gradio opens some and never closes them."""

    async def build_inside():
        return build_app(EMPTY, "cpu")

    return asyncio.run(build_inside())


def test_the_page_has_its_tabs_and_trains_in_turn():
    app = build()
    assert {"Train", "Try", "Explore"} <= {tab.TITLE for tab in TABS}
    turns = [fn for fn in app.fns.values() if fn.concurrency_id == "train"]
    assert {fn.concurrency_limit for fn in turns} == {2}
    own = [fn for fn in app.fns.values() if fn.api_visibility == "private" and fn.outputs]
    assert len(own) > 100
    named = [fn.name for fn in own if fn.show_progress_on is None]
    assert not named, "their outputs would be told of every message of every event"


def test_of_a_page_that_was_left_nothing_stays_and_of_an_open_one_no_descriptions():
    app, holder = build(), StateHolder()
    holder.set_blocks(app)
    assert list(holder["open"].components) == []
    assert app.get_config_file()["components"]
    holder["left"].is_closed = True
    app.forget_left(60.0)
    assert set(holder.session_data) == {"open", "left"}
    app.forget_left(0.0)
    assert set(holder.session_data) == set(holder.time_last_used) == {"open"}


def test_a_page_that_is_loaded_again_shows_the_jobs_that_it_had():
    app = build()
    arrive = next(fn for fn in app.fns.values() if fn.name == "arrive" and len(fn.outputs) > 10)
    key, board = arrive.outputs[0], next(part for part in arrive.outputs if part.elem_id == "ngrams-board")
    session, back, stranger = (Session(EMPTY, device="cpu") for _ in range(3))
    left = json.dumps({"key": arrive.fn(session, "")[key], "tab": "language"})
    values = {"source": ngrams.OWN, "counted": ngrams.FIRST, "prompt": "the boat"}
    ngrams.press_count(session, values)
    assert list(session.state(ngrams.CountingJob).follow())
    session.close()
    session.seen[next(part for part in arrive.outputs if part.elem_id == "field-seed")._id] = "7"
    shown = arrive.fn(back, left)
    assert '"trigram"' in shown[board]
    seen = {part.elem_id: update for part, update in shown.items()}
    assert seen["field-seed"]["value"] == "7"
    tabs = next(update for update in shown.values() if isinstance(update, gr.Tabs))
    assert tabs.selected == "language"
    assert list(arrive.fn(stranger, "nobody")) == [key]
    lost = arrive.fn(Session(EMPTY, device="cpu"), json.dumps({"key": "gone", "tab": "x"}))
    assert "The server was started anew" in next(value for value in lost.values() if "said" in value)


def test_who_trains_is_left_alone_by_a_queue_that_has_nothing_to_do():
    """Each time that Gradio's queue looks whether there is something, it takes the GIL."""
    looks, own = [], 0.05

    async def watch():
        loop = asyncio.get_running_loop()
        later = loop.call_later
        loop.call_later = lambda *call, **more: looks.append(call[0]) or later(*call, **more)
        queue = build_app(EMPTY, "cpu")._queue
        looks.clear()
        begun = loop.time()
        waiting = asyncio.create_task(queue.start_processing())
        while len(looks) - looks.count(own) < 20:
            await asyncio.sleep(own)
        waiting.cancel()
        return loop.time() - begun

    seconds = asyncio.run(watch())
    assert len(looks) - looks.count(own) <= 1 + seconds / LOOK_SECONDS
