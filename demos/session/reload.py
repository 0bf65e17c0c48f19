"""A page that is loaded again finds its runs: the session waits a while for the browser tab that left it.

Each page gets a key that nobody can guess. When it is left, the browser puts the key into the tab's own
`sessionStorage`; the page that is loaded next in that tab takes it out again. So a copy of the tab, which
copies that store, finds no key in it while the first is open. Nothing is written to disk.
"""

import secrets
import threading

import gradio as gr

from .page import NOW, Page
from .session import Session

KEPT_SECONDS = 900.0  # how long a session waits for its page
STORE = "hf-attn-visit"
TAKE = f"""(_, key) => {{
    try {{
        const left = sessionStorage.getItem("{STORE}");
        sessionStorage.removeItem("{STORE}");
        return [null, left || ""];
    }} catch {{ return [null, ""]; }}
}}"""
LEAVE = f"""key => addEventListener("pagehide", () => {{
    try {{ sessionStorage.setItem("{STORE}", key); }} catch {{ /* no store, no return */ }}
}})"""


class SessionStore:
    """The sessions of an app by their keys: of open pages, and of those that were left a short while ago."""

    def __init__(self, seconds: float = KEPT_SECONDS):
        self.seconds = seconds
        self.sessions: dict[str, Session] = {}
        self.lock = threading.Lock()

    def arrive(self, session: Session, left: str) -> str:
        """Give a page its key, and the session that was left under its previous key, `left`."""
        key = secrets.token_urlsafe(16)
        with self.lock:
            before = self.sessions.pop(left, None)
            self.sessions[key] = session
        session.when_closed = lambda: self.leave(key)
        if before is not None:
            session.take_over(before)
        return key

    def leave(self, key: str) -> None:
        """A page was closed: its session waits for some time before it is given up."""
        timer = threading.Timer(self.seconds, self.give_up, [key])
        timer.daemon = True
        timer.start()

    def give_up(self, key: str) -> None:
        with self.lock:
            session = self.sessions.pop(key, None)
        if session is not None:
            session.empty()


def wire(page: Page) -> None:
    """Let a page that is loaded again find what it had, once every tab is built."""
    waiting = SessionStore()
    key = gr.Textbox(visible="hidden", label="Key of this session")
    shows = {part: part for view in page.views for part in view.shows.values()}

    def arrive(session: Session, values: dict) -> dict:
        changes = {key: waiting.arrive(session, values["key"])}
        for view in page.views:
            job = view.find(session)
            if job is not None and job.status is not None:
                changes |= {view.shows[name]: update for name, update in view.show(session).items()}
        return changes

    page.arrived = page.connect(page.blocks.load, arrive, {"key": key}, {key: key, **shows}, js=TAKE, **NOW)
    page.arrived.then(None, key, None, js=LEAVE)
