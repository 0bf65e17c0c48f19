"""How much visitors may upload, each and all together; what no page takes is deleted after a while."""

import contextlib
import time
from collections import deque
from pathlib import Path

import gradio as gr
from fastapi import HTTPException
from gradio.utils import get_upload_folder
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive

from ..core.limits import limits_here
from ..core.upload import SESSION, TABLE, count_bytes, own_folder

WAITS = 600.0  # seconds that an upload waits for its page, and for which it counts against its address
BESIDE = 100_000  # bytes of a request beside its file


class UploadRefused(HTTPException):
    """An upload is too much."""


async def refuse_upload(_: Request | None, error: UploadRefused) -> PlainTextResponse:
    """Only the sentence: the page shows all that is sent."""
    return PlainTextResponse(error.detail, error.status_code)


class Uploads:
    """What a page's visitors upload: a session takes what it reads, so only the rest stays in this folder."""

    def __init__(self, app: gr.Blocks):
        self.app = app
        self.received: dict[str, deque[tuple[float, int]]] = {}  # by address: when, bytes

    def sweep(self) -> None:
        """Delete what no page took in time."""
        now = time.monotonic()
        for address, parts in list(self.received.items()):
            while parts and now - parts[0][0] > WAITS:
                parts.popleft()
            if not parts:
                del self.received[address]
        oldest = time.time() - WAITS
        for path in self.find_waiting():
            with contextlib.suppress(FileNotFoundError):  # a session takes it now
                if path.stat().st_mtime < oldest:
                    path.unlink()

    def find_waiting(self) -> list[Path]:
        """What no session has taken yet, and what came halfway: Gradio keeps it where a visitor hangs up."""
        whole = [path for path in map(Path, self.app.upload_file_set) if path.exists()]
        folder = Path(get_upload_folder())
        is_own = folder.is_relative_to(own_folder())  # else other servers may use it
        return [*whole, *(path for path in folder.glob("*") if is_own and path.is_file())]

    def count(self, address: str, receive: Receive) -> Receive:
        """The same messages of an upload, until its file, its address or all visitors together have too much.

        UploadRefused at the first message that is too much.
        """
        self.sweep()
        limits, size = limits_here(), 0

        async def count() -> Message:
            nonlocal size
            message = await receive()
            size += (more := len(message.get("body", b"")))
            parts = self.received.setdefault(address, deque())
            parts.append((time.monotonic(), more))
            try:
                limits.refuse_more("upload_bytes", max(0, size - BESIDE))
                limits.refuse_more("address_bytes", sum(part for _, part in parts))
            except ValueError as error:
                raise UploadRefused(413, str(error)) from error
            return message

        try:
            kept = own_folder().glob(f"{SESSION}-*/{TABLE}-*")
            limits.refuse_more("all_bytes", count_bytes([*self.find_waiting(), *kept]))
        except ValueError as error:
            raise UploadRefused(507, str(error)) from error
        return count
