"""A push or a pull under way: its news as they come, what stops it at once, and how the board tells it.

`share_board` takes a `ShareValue` of `ui.board_values`.
"""

import contextlib
import json
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

from ...ui import boards

LOOK_EVERY = 0.2  # seconds between two looks at whether it is to stop
USE = re.compile(r"^## Use\n+```python\n(.*?)```", re.DOTALL | re.MULTILINE)
CHECKPOINT_LINE = re.compile(r"^checkpoint = .*$", re.MULTILINE)


@dataclass(eq=False)
class Transfer:
    """One push or pull.

    Attributes:
        news: what it did so far, one entry a stage, the newest last.
        ending: set to stop it; it takes no further step then.
    """

    news: list[Progress] = field(default_factory=list)
    ending: threading.Event = field(default_factory=threading.Event)

    def take_steps(self, steps: Iterator) -> Iterator:
        """Yield the steps, and None now and then in between; stop at once when asked. A step may raise.

        A step may take long, so a thread takes it; one that is under way when it stops ends by itself.
        """
        arrived: queue.SimpleQueue = queue.SimpleQueue()

        def work() -> None:
            try:
                with contextlib.closing(steps):
                    for step in steps:
                        arrived.put((step, None))
                        if self.ending.is_set():
                            return
                arrived.put((None, StopIteration()))
            except Exception as error:  # raised again where it is shown or logged
                arrived.put((None, error))

        threading.Thread(target=work, daemon=True).start()
        try:
            while not self.ending.is_set():
                try:
                    step, ended = arrived.get(timeout=LOOK_EVERY)
                except queue.Empty:
                    yield None
                    continue
                if isinstance(ended, StopIteration):
                    return
                if ended is not None:
                    raise ended
                if isinstance(step, Progress):
                    self._note(step)
                yield step
        finally:
            self.ending.set()

    def values(
        self, steps: Iterator[Progress | dict], why_stopped: Callable[["Transfer"], str]
    ) -> Iterator[str]:
        """The board's value at each news of the steps; the last one has their result. A step may raise.

        `why_stopped` says what it means that the visitor stopped it.
        """
        result = None
        for step in self.take_steps(steps):
            if isinstance(step, Progress):
                yield self.to_value()
            elif step is not None:
                result = step
        yield (
            self.to_value("stopped", why_stopped(self)) if result is None else self.to_value("done", **result)
        )

    def sleep(self, seconds: float) -> None:
        """Wait so long, or until it is stopped."""
        self.ending.wait(seconds)

    def reached(self, stage: str) -> bool:
        return any(step.stage == stage for step in self.news)

    def to_value(self, status: str = "running", message: str = "", **more) -> str:
        """The board's value."""
        now = self.news[-1] if self.news else Progress("", "")
        steps = [{"stage": step.stage, "message": step.message} for step in self.news]
        value = {"status": status, "steps": steps, "message": message, "done": now.done, "total": now.total}
        return boards.to_json({**value, **more})

    def _note(self, step: Progress) -> None:
        if self.news and self.news[-1].stage == step.stage:
            self.news.pop()
        self.news.append(step)


def describe_push(pushed: Pushed, card: str) -> dict:
    """What the board shows of a finished push, with lines that load the model."""
    audience = "only its owner (private)" if pushed.private else "everybody (public)"
    sent = f"{len(pushed.sent)} files, {in_megabytes(pushed.size)}" if pushed.sent else "nothing had changed"
    facts = [
        ("repository", pushed.repo_id),
        ("seen by", audience),
        ("commit", pushed.commit[:10]),
        ("sent", sent),
    ]
    facts += [("removed there", join_names(pushed.removed))] if pushed.removed else []
    facts += [("left here", join_names(pushed.left_out))] if pushed.left_out else []
    title = "Pushed and verified" if pushed.verified else "Pushed, but not verified"
    result = {"title": title, "verified": pushed.verified, "url": pushed.url, "facts": facts}
    code = load_lines(card, pushed.repo_id, is_private=pushed.private) + embed_lines()
    return {"result": {**result, "differences": pushed.differences}, "code": code}


def describe_pull(pulled: Pulled, url: str, card: str) -> dict:
    """What the board shows of a finished pull, with lines that load the model."""
    got = f"{len(pulled.files)} files, {in_megabytes(pulled.size)}"
    facts = [("repository", pulled.repo_id), ("commit", pulled.commit[:10]), ("downloaded", got)]
    facts += [("left there", join_names(pulled.left_out))] if pulled.left_out else []
    title = "Pulled and checked" if pulled.verified else "Pulled, but it answers differently"
    result = {"title": title, "verified": pulled.verified, "url": url, "facts": facts}
    code = load_lines(card, pulled.repo_id)
    return {"result": {**result, "differences": pulled.differences}, "code": code}


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
