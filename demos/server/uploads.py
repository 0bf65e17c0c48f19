"""How much visitors may upload, each and all together; what no page takes is deleted after a while."""

import asyncio
import contextlib
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import gradio as gr
from fastapi import HTTPException
from gradio.utils import get_upload_folder
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive

from ..core.limits import limits_here
from ..core.upload import SESSION, TABLE, count_bytes, own_folder

# Seconds that an upload is there for pages, and counts against its address: limits.py says so too.
WAITS = 600.0
LOOK_SECONDS = 5.0  # between two looks at what has waited long enough
BESIDE = 100_000  # bytes of a request beside its file: boundaries, a name; a browser sends some hundred
SMALLEST = 100_000  # bytes that each file counts for at least, since it takes time to look after it
FILE = b"content-disposition"  # each in a request has one


class UploadRefused(HTTPException):
    """An upload is too much."""


async def refuse_upload(_: Request | None, error: UploadRefused) -> PlainTextResponse:
    """Only the sentence: the page shows all that is sent."""
    return PlainTextResponse(error.detail, error.status_code)


@dataclass
class Received:
    """What came from an address within WAITS."""

    parts: deque[tuple[float, int]] = field(default_factory=deque)  # when, bytes
    size: int = 0  # of them all

    def add(self, now: float, size: int) -> None:
        self.parts.append((now, size))
        self.size += size

    def forget(self, now: float) -> None:
        while self.parts and now - self.parts[0][0] > WAITS:
            self.size -= self.parts.popleft()[1]


class Uploads:
    """What a page's visitors upload: a session copies what it reads, and the rest goes after a while.

    Gradio keeps equal files of all visitors once, so no session deletes one.
    """

    def __init__(self, app: gr.Blocks):
        self.app = app
        self.received: dict[str, Received] = {}  # by address
        self.lock = threading.Lock()  # of `received`
        self.looked_at = -LOOK_SECONDS

    def sweep(self) -> None:
        """Delete what has waited long enough."""
        self.looked_at = time.monotonic()
        with self.lock:
            for address, received in list(self.received.items()):
                received.forget(time.monotonic())
                if not received.parts:
                    del self.received[address]
        oldest = time.time() - WAITS
        for path in self.find_waiting():
            with contextlib.suppress(FileNotFoundError):  # another sweep was first
                if path.stat().st_mtime < oldest:
                    path.unlink()
                    self.app.upload_file_set.discard(str(path))

    def find_waiting(self) -> list[Path]:
        """What was uploaded, and what came halfway: Gradio keeps it where a visitor hangs up.

        Of what is gone Gradio's set forgets the name.
        """
        names = self.app.upload_file_set  # to which Gradio adds meanwhile
        names.difference_update([name for name in list(names) if not Path(name).exists()])
        whole = [Path(name) for name in list(names)]
        folder = Path(get_upload_folder())
        is_own = folder.is_relative_to(own_folder())  # else other servers may use it
        return [*whole, *(path for path in folder.glob("*") if is_own and path.is_file())]

    def count_all(self) -> int:
        """The bytes of all visitors' uploads, those that sessions keep too."""
        if time.monotonic() - self.looked_at > LOOK_SECONDS:
            self.sweep()
        waiting, kept = self.find_waiting(), own_folder().glob(f"{SESSION}-*/{TABLE}-*")
        return count_bytes([*waiting, *kept]) + SMALLEST * len(waiting)

    async def count(self, address: str, receive: Receive) -> Receive:
        """The same messages of an upload, until its file, its address or all visitors together have too much.

        UploadRefused at the first message that is too much.
        """
        limits, size, seen = limits_here(), 0, b""

        async def pass_on() -> Message:
            nonlocal size, seen
            message = await receive()
            body = message.get("body", b"")
            size += len(body)
            seen = seen[1 - len(FILE) :] + body.lower()
            more = len(body) + SMALLEST * seen.count(FILE)
            with self.lock:
                received = self.received.setdefault(address, Received())
                received.add(time.monotonic(), more)
            refuse("upload_bytes", max(0, size - BESIDE))
            refuse("address_bytes", received.size)
            return message

        def refuse(what: str, amount: int) -> None:
            try:
                limits.refuse_more(what, amount)
            except ValueError as error:
                raise UploadRefused(413, str(error)) from error

        refuse("all_bytes", await asyncio.to_thread(self.count_all))
        return pass_on
