"""Requests that no page sends: to the app's handlers, by name, with any values."""

import contextlib
import functools
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.support.browser import find_free_port, running

ROOT = Path(__file__).parents[2]
DEEP = "lists that lie 950 deep in lists"  # sent as such


@contextlib.contextmanager
def serve_logged(log: Path, env: dict, *options: str, host: str = "127.0.0.1") -> Iterator[str]:
    """Run the app with these variables and options, what it complains of in a file, and give its address."""
    port = find_free_port()
    command = [sys.executable, "app.py", "--host", host, "--port", str(port), "--device", "cpu", *options]
    with log.open("wb") as complaints, running(command, cwd=ROOT, env=env, stderr=complaints):
        yield f"http://127.0.0.1:{port}"


class Caller:
    """Somebody who sends a server what they like.

    Attributes:
        address: of the server.
        config: what the page is made of; empty where the server does not say.
    """

    def __init__(self, address: str):
        self.address, self.config = address, {}
        status, text = self.get("/config")
        if status == 200:
            self.config = json.loads(text)
        self.components = {part["id"]: part["props"] for part in self.config.get("components", ())}

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        """(status, text) of an address."""
        return self._open(urllib.request.Request(self.address + path, headers=named(headers)))

    def post(self, path: str, body: object, **headers: str) -> tuple[int, str]:
        """(status, text) of an answer to JSON."""
        given = {"Content-Type": "application/json", **named(headers)}
        text = json.dumps(body).replace(json.dumps(DEEP), "[" * 950 + "]" * 950)
        return self._open(urllib.request.Request(self.address + path, text.encode(), given))

    def handlers(self, *, queued: bool) -> list[dict]:
        """Gradio's description of every handler."""
        return [fn for fn in self.config["dependencies"] if fn["backend_fn"] and fn["queue"] == queued]

    def find(self, name: str) -> dict:
        """The handler of that name."""
        return next(fn for fn in self.config["dependencies"] if fn["api_name"] == name)

    def open_other(self, name: str) -> str:
        """What Explore says under its field of a folder or Hub id; nothing where it opens it."""
        handler = next(
            fn
            for fn in self.config["dependencies"]
            if [self.components[part].get("elem_id") for part in fn["inputs"]][1:] == ["explore-other"]
        )
        done, outputs = self.call(handler, [None, name])
        assert done, outputs
        return outputs[1]

    @functools.cached_property
    def endpoints(self) -> dict:
        """What the server says of its named endpoints."""
        return json.loads(self.get("/gradio_api/info")[1])["named_endpoints"]

    def arguments_of(self, name: str, **given: object) -> list:
        """The values of a named endpoint, in order: what is given, else its defaults."""
        parts = self.endpoints[f"/{name}"]["parameters"]
        return [given.get(part["parameter_name"], part.get("parameter_default")) for part in parts]

    def values_of(self, handler: dict) -> list:
        """What a page that was just opened sends a handler."""
        return [self.components[part].get("value") for part in handler["inputs"]]

    def call(self, handler: dict, values: list, event: object = None) -> tuple[bool, object]:
        """(whether it was done, its outputs or the sentence) of a handler, by the queue where it waits."""
        if handler["queue"]:
            return self.end_of(self.messages(handler, values, "hand", event))
        body = {"data": values, "event_data": event, "fn_index": handler["id"], "session_hash": "hand"}
        status, text = self.post("/gradio_api/run/predict", body)
        answer = json.loads(text)
        return status == 200, answer["data"] if status == 200 else answer["error"]

    def messages(self, handler: dict, values: list, session: str, event: object = None) -> Iterator[dict]:
        """What the queue says of a call, until its end."""
        body = {"data": values, "event_data": event, "fn_index": handler["id"], "session_hash": session}
        status, text = self.post("/gradio_api/queue/join", body)
        if status != 200:
            yield {"msg": "process_completed", "success": False, "output": {"error": text}}
            return
        address = f"{self.address}/gradio_api/queue/data?session_hash={session}"
        with urllib.request.urlopen(address, timeout=600) as lines:
            for line in lines:
                if line.startswith(b"data:"):
                    yield json.loads(line.removeprefix(b"data:"))

    @staticmethod
    def end_of(messages: Iterator[dict]) -> tuple[bool, object]:
        """(whether a call was done, its outputs or the sentence)."""
        for message in messages:
            if message["msg"] == "process_completed":
                done = message["success"]
                return done, message["output"]["data"] if done else message["output"]["error"]
        return False, "nothing"

    def _open(self, request: urllib.request.Request) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


def named(headers: dict[str, str]) -> dict[str, str]:
    """Keyword arguments as headers: x_forwarded_host is X-Forwarded-Host."""
    return {name.replace("_", "-").title(): value for name, value in headers.items()}
