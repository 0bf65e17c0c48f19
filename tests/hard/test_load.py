"""The quick form of `tests.hard.load`: a handful of visitors at once."""

import time
from functools import partial

import pytest

pytest.importorskip("gradio")

from tests.hard.load import FREE, Seen, Visitor, come_late, do_at_once


def test_visitors_at_once_meet_nobody_else_and_leave_their_places_free(served_app):
    seen = Seen()
    visitors = [Visitor(served_app, mark, seen) for mark in range(4)]
    until = time.monotonic() + 1.5
    do_at_once(partial(one.visit, until, 1.0 if one.mark < 2 else 0.0, (0.0, 0.1)) for one in visitors)
    assert seen.trained >= 2
    assert len(seen.light) >= 2
    assert come_late(served_app, seen) < FREE
    assert (seen.details, seen.overtaken) == ([], 0)
