"""A push or a pull: its news as they come, what stops it at once, and how the board shows it.

`share_board` takes a `ShareValue` of `ui/board_values.d.ts`.
"""

import contextlib
import json
import math
import os
import queue
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import gradio as gr

from hf_attn.hub.client import Progress, in_megabytes, join_names
from hf_attn.hub.pull import Pulled
from hf_attn.hub.push import Pushed

from ...jobs.job import FAILED, ReportedJob
from ...ui import boards

LOOK_EVERY = 0.2  # seconds between two looks at whether it is to stop
USE = re.compile(r"^## Use\n+```python\n(.*?)```", re.DOTALL | re.MULTILINE)
CHECKPOINT_LINE = re.compile(r"^checkpoint = .*$", re.MULTILINE)


@dataclass(eq=False)
class Transfer(ReportedJob):
    """A push or a pull; nothing before the first."""

    # what it does; each gives its Progress, the last one what the board shows in the end
    steps: Iterator[Progress | dict] | None = None
    # what it did so far, one entry a stage, the newest last
    news: list[Progress] = field(default_factory=list)
    result: dict = field(default_factory=dict)  # of one that is done
    fault: Exception | None = None  # what failed
    # set when it is stopped: it takes no further step then
    ending: threading.Event = field(default_factory=threading.Event)

    message_seconds = 0.0
    seconds_allowed = math.inf

    def start(self, steps: Callable[[threading.Event], Iterator[Progress | dict]]) -> None:
        """Take the place of the last one; `steps` gets its `ending`, to wait for instead of sleeping."""
        self.prepare({})
        self.ending = threading.Event()
        self.steps, self.news, self.result, self.fault = steps(self.ending), [], {}, None

    def begin(self) -> None:
        self.reports = self._take_steps()

    def _take_steps(self) -> Iterator[Progress | dict | None]:
        """Yield the steps, and None now and then in between. A step may raise.

        A step may take long, so a thread takes it; one that is under way when it stops ends by itself, also
        where another transfer has begun since.
        """
        arrived: queue.SimpleQueue = queue.SimpleQueue()
        steps, ending = self.steps, self.ending

        def work() -> None:
            try:
                with contextlib.closing(steps):
                    for step in steps:
                        arrived.put((step, None))
                        if ending.is_set():
                            return
                arrived.put((None, StopIteration()))
            except Exception as error:  # raised again where it is shown or logged
                arrived.put((None, error))

        threading.Thread(target=work, daemon=True).start()
        while True:
            try:
                step, ended = arrived.get(timeout=LOOK_EVERY)
            except queue.Empty:
                yield None
                continue
            if isinstance(ended, StopIteration):
                return
            if ended is not None:
                raise ended
            yield step

    def advance(self) -> bool:
        """Take one step; none follows the result, so that it cannot be stopped any more."""
        return super().advance() and not self.result

    def take(self, report: Progress | dict | None) -> None:
        if isinstance(report, Progress):
            if self.news and self.news[-1].stage == report.stage:
                self.news.pop()
            self.news.append(report)
        elif report is not None:
            self.result = report

    def stop(self) -> None:
        self.ending.set()
        super().stop()

    def release(self) -> None:
        super().release()
        self.ending.set()

    def fail(self, error: Exception) -> None:
        self.fault = error
        if isinstance(error, ValueError | OSError):  # what the Hub or the disk refuses: nobody's bug
            self.status, self.message = FAILED, str(error)
        else:
            super().fail(error)

    def reached(self, stage: str) -> bool:
        return any(step.stage == stage for step in self.news)

    def to_value(self, message: str = "") -> str | None:
        """The board's value, with a message on how it ended."""
        if self.status is None:
            return None
        now = self.news[-1] if self.news else Progress("", "")
        steps = [{"stage": step.stage, "message": step.message} for step in self.news]
        value = {"status": self.status, "steps": steps, "message": message, "done": now.done}
        return boards.to_json({**value, "total": now.total, **self.result})


def describe_push(pushed: Pushed, card: str) -> dict:
    audience = "only its owner (private)" if pushed.private else "everybody (public)"
    sent = f"{len(pushed.sent)} files, {in_megabytes(pushed.size)}" if pushed.sent else "nothing had changed"
    facts = {
        "seen by": audience,
        "commit": pushed.commit[:10],
        "sent": sent,
        "removed there": join_names(pushed.removed),
        "left here": join_names(pushed.left_out),
    }
    title = "Pushed and verified" if pushed.verified else "Pushed, but not verified"
    code = load_lines(card, pushed.repo_id, is_private=pushed.private) + embed_lines()
    return {"result": describe_end(pushed, title, pushed.url, facts), "code": code}


def describe_pull(pulled: Pulled, url: str, card: str) -> dict:
    got = f"{len(pulled.files)} files, {in_megabytes(pulled.size)}"
    facts = {"commit": pulled.commit[:10], "downloaded": got, "left there": join_names(pulled.left_out)}
    title = "Pulled and checked" if pulled.verified else "Pulled, but it answers differently"
    return {"result": describe_end(pulled, title, url, facts), "code": load_lines(card, pulled.repo_id)}


def describe_end(end: Pushed | Pulled, title: str, url: str, facts: dict[str, str]) -> dict:
    known = [(name, fact) for name, fact in {"repository": end.repo_id, **facts}.items() if fact]
    verified = {"verified": end.verified, "differences": end.differences}
    return {"title": title, "url": url, "facts": known, **verified}


def load_lines(card: str, repo_id: str, *, is_private: bool = False) -> list[dict]:
    """The card's own lines that load the model, with its id on the Hub; none where the card has none."""
    found = USE.search(card)
    if found is None:
        return []
    lines = CHECKPOINT_LINE.sub(lambda _: f"checkpoint = {json.dumps(repo_id)}", found[1], count=1).strip()
    login = " (private: log in first in a terminal, hf auth login)" if is_private else ""
    return [{"title": f"Load it with transformers{login}", "text": lines}]


def embed_lines() -> list[dict]:
    """The line that shows this app in another page, where a Space runs it."""
    host = os.environ.get("SPACE_HOST", "")
    if not re.fullmatch(r"[\w.-]+", host):
        return []
    address = f"https://{host}"
    line = f'<iframe src="{address}" title="hf_attn" width="100%" height="900"></iframe>'
    return [{"title": "Show this app in a page", "text": line}]


def share_board(elem_id: str, title: str, empty: str) -> gr.HTML:
    template = f'<div class="hf-share hf-board" data-title="{title}" data-empty="{empty}"></div>'
    return boards.build_board("share_board", "hf-share", elem_id, template=template)
