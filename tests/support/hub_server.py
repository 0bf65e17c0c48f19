"""A small Hub on loopback: real HTTP, real bytes on disk, tokens that are checked, and trouble on demand.

    with serve_hub(tmp_path) as hub:
        api = HfApi(endpoint=hub.endpoint, token=hub.token)  # or a process with hub.environment(tmp_path)
        hub.fail("commit", 503, times=2)                     # the next two commits
        hub.repo("ada/copy").files("main")                   # what arrived: path → bytes

It speaks what huggingface_hub 2.4 asks of models, datasets and spaces: whoami, create, delete, info, tree,
paths-info, preupload, Git LFS (not Xet), commit, pull requests, branches, and ranges.
"""

import contextlib
import json
import os
import re
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote

from tests.support.hub_routes import ROUTES, Routes, User
from tests.support.hub_store import Refused, Repo, Store


@dataclass
class Trouble:
    """What is to go wrong: on which route, where in it, and how often.

    Attributes:
        route: a name of ROUTES.
        at: "request" before it is looked at, "body" after half of it came or went, "reply" when all is done
            but not yet said.
        status: to answer; None cuts the connection.
        holds: wait for `release` first, after setting `reached`.
    """

    route: str
    at: str
    times: int
    path: str = ""
    status: int | None = None
    message: str = "trouble on demand"
    headers: dict = field(default_factory=dict)
    holds: bool = False
    reached: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)


class Cut(Exception):
    """The connection ends here."""


class Hub:
    """The test Hub as a test sees it.

    Attributes:
        endpoint: its address.
        token, read_token: of the user ada; the second may only read.
        store: its repos on disk.
        requests: (route, path) of what was asked, in order.
        headers: (name, value) of all that came with them.
        serving: how many requests are being answered now.
        large_from: bytes from which a file is kept by Git LFS. A client then needs HF_HUB_DISABLE_XET=1.
    """

    def __init__(self, root: Path, large_from: int | None):
        self.store, self.large_from = Store(root / "hub"), large_from
        self.users: dict[str, User] = {}
        self.troubles: list[Trouble] = []
        self.requests: list[tuple[str, str]] = []
        self.headers: list[tuple[str, str]] = []
        self.lock, self.serving = threading.RLock(), 0
        self.token, self.read_token = self.add_user("ada"), self.add_user("ada", "read")
        self.endpoint = ""

    def add_user(self, name: str, role: str = "write") -> str:
        """A token for a user, who need not be new."""
        token = f"hf_{name}{role}{len(self.users)}secret"
        self.users[token] = User(name, role)
        return token

    def repo(self, name: str, kind: str = "model") -> Repo:
        """A repo: `.files(revision)`, `.history(revision)`, `.settings`, `.configure(gated="manual")`."""
        found = self.store.open(kind, name)
        assert found is not None, f"no {kind} {name}: {self.store.names()}"
        return found

    def fail(self, route: str, status: int, times: int = 1, **more) -> Trouble:
        """Answer the next requests with a status; also `headers={"Retry-After": "1"}`, `path="model"`."""
        return self._plan(Trouble(route, "request", times, status=status, **more))

    def cut(self, route: str, at: str = "body", times: int = 1, **more) -> Trouble:
        """Cut the connection of the next requests."""
        return self._plan(Trouble(route, at, times, **more))

    def hold(self, route: str, at: str = "body", **more) -> Trouble:
        """Let the next request wait: `.reached.wait()`, and `.release.set()`, which goes on with it."""
        return self._plan(Trouble(route, at, 1, holds=True, **more))

    def environment(self, folder: Path, token: str | None = None) -> dict[str, str]:
        """Variables for a process that talks to this Hub only, and keeps its cache in `folder`."""
        dropped = ("HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "HF_HOME", "HF_MODULES_CACHE")
        kept = {name: value for name, value in os.environ.items() if name not in dropped}
        home = {"HF_HOME": str(folder / "hf"), "HF_MODULES_CACHE": str(folder / "modules")}
        plain = {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "OMP_NUM_THREADS": "1"}
        login = {"HF_TOKEN": token} if token else {}
        return {**kept, **home, **plain, **login, "HF_ENDPOINT": self.endpoint}

    def meet(self, route: str, path: str, at: str) -> Trouble | None:
        """The trouble that is due here, if any; held until released."""
        with self.lock:
            due = [t for t in self.troubles if (t.route, t.at) == (route, at) and t.path in path and t.times]
            if not due:
                return None
            due[0].times -= 1
        due[0].reached.set()
        if due[0].holds:
            due[0].release.wait(600)
        return due[0]

    def _plan(self, trouble: Trouble) -> Trouble:
        self.troubles.append(trouble)
        return trouble


@contextlib.contextmanager
def serve_hub(root: Path, large_from: int | None = None) -> Iterator[Hub]:
    """A Hub on a free port, with its repos in `root`, as long as the block runs."""
    hub = Hub(Path(root), large_from)
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        for trouble in hub.troubles:
            trouble.release.set()
        server.shutdown()
        server.server_close()
        thread.join()


def push_folder(hub: Hub, folder: Path, repo: str = "ada/copy", **settings) -> list:
    """Reports of a push up to the commit, without the fresh process that pulls it back."""
    from hf_attn.hub.push import push_checkpoint

    settings = {"token": hub.token, "endpoint": hub.endpoint, "sleep": lambda _: None, **settings}
    reports = []
    for report in push_checkpoint(folder, repo, **settings):
        reports.append(report)
        if report.stage == "pushed":
            break
    return reports


class _Server(ThreadingHTTPServer):
    """A thread for each connection."""

    daemon_threads = True

    def handle_error(self, request, client_address) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client may go
            super().handle_error(request, client_address)


class _Handler(Routes, BaseHTTPRequestHandler):
    """One connection."""

    hub: Hub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args) -> None:  # quiet
        pass

    def do_GET(self) -> None:
        self._serve("GET")

    def do_HEAD(self) -> None:
        self._serve("GET", is_head=True)

    def do_POST(self) -> None:
        self._serve("POST")

    def do_PUT(self) -> None:
        self._serve("PUT")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def _serve(self, method: str, is_head: bool = False) -> None:
        with self.hub.lock:
            self.hub.serving += 1
        try:
            self._answer_to(method, is_head)
        finally:
            with self.hub.lock:
                self.hub.serving -= 1

    def _answer_to(self, method: str, is_head: bool) -> None:
        path, _, query = self.path.partition("?")
        self.query = {name: values[-1] for name, values in parse_qs(query).items()}
        self.is_head, self.route, self.where = is_head, "unknown", unquote(path)
        self.hub.headers += self.headers.items()
        try:
            found = self._match(method, path)
            self._meet("request")
            self.body = self._read_body()
            with self.hub.lock:
                status, content, headers = getattr(self, f"_{self.route}")(**found)
            self._meet("reply")
        except Refused as refused:
            headers = {"X-Error-Message": str(refused), **refused.headers}
            errors = [{"message": str(refused)}]
            status, content = refused.status, {"error": str(refused), "errors": errors, **refused.more}
            self.close_connection = True  # its body may be unread
        except Cut:
            self._hang_up()
            return
        self._answer(status, content, headers)

    def _match(self, method: str, path: str) -> dict:
        """Arguments of the route that fits, parts unquoted one by one: a revision may hold %2F."""
        for name, its_method, pattern in ROUTES:
            found = re.fullmatch(pattern, path) if its_method == method else None
            if found:
                self.route = name
                self.hub.requests.append((f"{name} head" if self.is_head else name, self.where))
                return {key: unquote(value) for key, value in found.groupdict().items() if value is not None}
        self.hub.requests.append(("unknown", f"{method} {self.where}"))
        raise Refused(404, f"This test Hub has no {method} {path}", "EntryNotFound")

    def _meet(self, at: str) -> None:
        trouble = self.hub.meet(self.route, self.where, at)
        if trouble is None or (trouble.holds and trouble.status is None):
            return
        if trouble.status is None:
            raise Cut
        raise Refused(trouble.status, trouble.message, headers=trouble.headers)

    def _hang_up(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _read_body(self) -> bytes:
        length = int(self.headers.get("Content-Length") or 0)
        first = self.rfile.read(length // 2)
        if length:
            self._meet("body")
        body = first + self.rfile.read(length - length // 2)
        if len(body) < length:
            raise Cut  # the client is gone: nothing of it counts
        return body

    def _answer(self, status: int, content, headers: dict) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        kind = "application/octet-stream" if isinstance(content, bytes) else "application/json"
        for name, value in {"Content-Type": kind, "Content-Length": len(body), **headers}.items():
            self.send_header(name, str(value).encode("latin-1", "replace").decode("latin-1"))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.is_head:
            return
        half = len(body) // 2 if self.route == "resolve" else 0
        self.wfile.write(body[:half])
        try:
            if half:
                self._meet("body")
            self.wfile.write(body[half:])
        except Cut:
            self._hang_up()
