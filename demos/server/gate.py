"""Before Gradio: who may ask at all, how much, and what becomes of a request that nobody expected.

At home the browser is the only way in for others: any page that it shows can send requests to this machine
(other sites' scripts), or have its own name lead here (DNS rebinding). Both give themselves away by the
headers `Origin` and `Host`, which a script cannot set.

Every answer tells the browser where what a page holds may come from, and go: this server alone, so that a
script which came in with somebody's text could neither load another nor send anything out.
"""

import ipaddress
import logging
import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from fastapi import HTTPException
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..core.limits import is_space
from ..ui.formatting import in_one_line, shorten
from .uploads import UploadRefused, Uploads, refuse_upload

MOST_BYTES = 10_000_000  # of a request that uploads no file; a link's has some thousand
UPLOAD = "/gradio_api/upload"  # which has limits of its own
FOREIGN = (
    "This app answers its own machine alone, and this request came {}. Open it by http://127.0.0.1 or "
    "http://localhost; to let others in, start it with --host, --share or --password."
)
# Gradio writes its settings into a script of the page, and builds the functions of `js=` from text.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' data: blob:; "
    "worker-src 'self' blob:; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors {}"
)
LOG = logging.getLogger(__name__)


def is_own_name(host: str, names: Sequence[str] = ()) -> bool:
    """Whether a `Host` header means this machine: localhost, a loopback address, or one of the names."""
    if not re.fullmatch(r"[\w.:\[\]-]+", host, re.ASCII):
        return False
    try:
        name = (urlsplit(f"//{host}").hostname or "").lower()
        if name == "localhost" or name.endswith(".localhost") or name in names:
            return True
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def find_foreign(headers: Sequence[tuple[bytes, bytes]], names: Sequence[str] = ()) -> str:
    """Why a request does not come from this machine's own pages; empty where it does."""
    hosts, origins = (
        [value.decode("latin-1").strip() for name, value in headers if name.lower() == wanted]
        for wanted in (b"host", b"origin")
    )
    if len(hosts) != 1 or not is_own_name(hosts[0], names):
        return f"for {shorten(', '.join(hosts) or 'no host', 60)}"
    try:
        are_own = all(urlsplit(origin).netloc.lower() == hosts[0].lower() for origin in origins)
    except ValueError:
        are_own = False
    return "" if are_own else f"from a page of {shorten(', '.join(origins), 60)}"


class Gate:
    """ASGI middleware around the whole app: at home it refuses requests from elsewhere.

    `names` are what this machine is called beside localhost; `uploads` counts what is uploaded. A Space is
    made to be shown in others' pages, the Hub's first; no other server lets itself be framed.
    """

    def __init__(
        self, app: ASGIApp, *, is_home: bool, names: Sequence[str] = (), uploads: Uploads | None = None
    ):
        self.app, self.is_home, self.names, self.uploads = app, is_home, names, uploads
        self.policy = POLICY.format("https:" if is_space() else "'self'")

    def guard(self, message: Message) -> Message:
        """Let an answer tell the browser what its page may do."""
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["content-security-policy"] = self.policy
            headers["x-content-type-options"] = "nosniff"
        return message

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        has_begun = False

        async def note_beginning(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(self.guard(message))

        async def answer(status: int, sentence: str) -> None:
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008, "reason": sentence[:120]})
            elif not has_begun:
                await JSONResponse({"error": sentence}, status)(scope, receive, note_beginning)

        if self.is_home and (foreign := find_foreign(scope["headers"], self.names)):
            LOG.warning("refused a request %s", foreign)
            await answer(403, FOREIGN.format(foreign))
            return
        is_upload = scope["path"].rstrip("/").endswith(UPLOAD)
        try:
            if is_upload and self.uploads is not None:
                counted = await self.uploads.count((scope.get("client") or ("",))[0], receive)
            else:
                counted = counting(receive)
            await self.app(scope, counted, note_beginning)
        except UploadRefused as error:
            await (await refuse_upload(None, error))(scope, receive, note_beginning)
        except Exception as error:  # of a handler of ours none comes so far: see input_guard
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(frame.filename).name}:{frame.lineno}"
            failure = f"{type(error).__name__}: {in_one_line(error)}"
            LOG.error("%s failed at %s: %s", shorten(scope["path"], 60), place, failure)
            await answer(500, "No page or client of the app sends this: see /gradio_api/info.")


def counting(receive: Receive) -> Receive:
    """The same messages, until they hold too many bytes."""
    left = MOST_BYTES

    async def count() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise HTTPException(413, f"This request is larger than {MOST_BYTES // 10**6} MB.")
        return message

    return count


def refuse_body(_request, error: RequestValidationError) -> JSONResponse:
    """Refuse a request whose body does not fit its address, without quoting it."""
    wrong = error.errors()[0]
    where = ".".join(str(part) for part in wrong["loc"])
    return JSONResponse({"error": in_one_line(f"{where}: {wrong['msg']}")}, 422)
