"""A page that is loaded again finds what it had: the session waits a while for the browser tab that left it.

Its tab is open again, its fields hold what they held, and a run that was under way goes on.

Each page gets a key that nobody can guess. When it is left, the browser puts the key into the tab's own
`sessionStorage`; the page that is loaded next in that tab takes it out again, and puts it back where it is
left before it has a key of its own. So a copy of the tab, which copies that store, finds no key in it while
the first is open. Nothing is written to disk.

Where the server was started anew, or the page was away for too long, no session waits. Then the page has what
it kept itself: what its fields held, from here, and what its boards showed, from link_board.js.

A link in the address says what is shown, but not to a page without a session that was past its link already:
`window.hfAttnIsPast` of link_board.js says so of any but a lesson's.
"""

import json
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import gradio as gr

from hf_attn.utils.freed_memory import give_freed_memory_back_soon

from ..jobs.training_job import TrainingJob
from .page import LIGHT, NOW, Page
from .session import Session

KEPT_SECONDS = 900.0  # how long a session waits for its page
MOST_LEFT = 40  # sessions that wait: a class, whose pages are all loaded again at once
NAP_SECONDS = 0.05
LOOK_SECONDS = 5.0  # between two looks at who has waited long enough
LOST = (
    "The server was started anew, or this page was away for long: its settings and what was drawn to its "
    "end are still here, but its runs and uploads are gone, so train again to go on."
)
STORE = "hf-attn-visit"
LONGEST_HELD = 200_000  # characters of what all fields hold; more is not kept
HOLD = "(...values) => { window.hfAttnHeld = values; return []; }"
TAKE = f"""(_, key) => {{
    let left = null;
    try {{
        left = JSON.parse(sessionStorage.getItem("{STORE}"));
        sessionStorage.removeItem("{STORE}");
    }} catch {{ /* no store, or nothing that a page left */ }}
    const past = Boolean(left?.past) && left.address === location.search;
    addEventListener("pagehide", () => {{ // without an answer yet, what was left before is left again
        const panels = [...document.querySelectorAll("[role=tabpanel][id^=tab-]")];
        const open = panels.find(one => one.offsetParent)?.id.slice("tab-".length);
        const own = window.hfAttnKey;
        const all = window.hfAttnHeld || left?.held || [];
        const held = JSON.stringify(all).length > {LONGEST_HELD} ? [] : all;
        const tab = own ? open : left?.tab || open;
        const isPast = own ? window.hfAttnIsPast : past;
        const leaves = {{ key: own || left?.key, tab, held, past: isPast, address: location.search }};
        try {{
            sessionStorage.setItem("{STORE}", JSON.stringify(leaves));
        }} catch {{ /* no store, no return */ }}
    }});
    const linked = new URLSearchParams(location.search).has("view");
    return [null, JSON.stringify({{ ...left, linked, past }})];
}}"""
KNOW = "(_, key) => { window.hfAttnKey = key; return [null, key]; }"


class SessionStore:
    """The sessions of an app by their keys: of open pages, and of those that were left a short while ago."""

    def __init__(self, seconds: float = KEPT_SECONDS):
        self.seconds = seconds
        self.sessions: dict[str, Session] = {}
        self.unheard: dict[str, str] = {}  # previous keys of pages that do not know theirs yet → those
        self.left: dict[str, float] = {}  # keys of those that wait → until when, who waits longest first
        self.is_watched = False
        self.lock = threading.Lock()

    def arrive(self, session: Session, left: str) -> tuple[str, bool]:
        """(a page's key, whether a session was left under its previous key, `left`), which it takes over.

        The previous key leads there until the page has heard of its own: it may be loaded again before.
        """
        key = secrets.token_urlsafe(16)
        with self.lock:
            last = self.unheard.pop(left, left)
            before = self.sessions.pop(last, None)
            self.left.pop(last, None)
            self.sessions[key] = session
            if before is not None:
                self.unheard[left] = key
        session.when_closed = lambda: self.leave(key)
        if before is not None:
            session.take_over(before)
        return key, before is not None

    def hear(self, key: str) -> None:
        """A page knows its key, so no other leads to its session."""
        with self.lock:
            self.unheard = {old: new for old, new in self.unheard.items() if new != key}

    def leave(self, key: str) -> None:
        """A page was closed: its session waits for some time, or until too many others do."""
        with self.lock:
            if key not in self.sessions:  # its page was loaded again before it said that it was left
                return
            self.left[key] = time.monotonic() + self.seconds
            too_many = list(self.left)[:-MOST_LEFT]
            if not self.is_watched:
                self.is_watched = True
                threading.Thread(target=self.watch, daemon=True).start()
        for one in too_many:
            self.give_up(one)

    def watch(self) -> None:
        """Give each session up when its time has come, until none waits."""
        is_done = False
        while not is_done:
            time.sleep(LOOK_SECONDS)
            with self.lock:
                due = [key for key, until in self.left.items() if until < time.monotonic()]
                is_done = not self.left
                self.is_watched = not is_done
            for key in due:
                self.give_up(key)

    def give_up(self, key: str) -> None:
        with self.lock:
            session = self.sessions.pop(key, None)
            self.left.pop(key, None)
        self.hear(key)
        if session is not None:
            session.empty()
        give_freed_memory_back_soon()


@dataclass(frozen=True)
class LeftPage:
    """The page that was left, as the browser kept it."""

    key: str = ""  # empty where none was left
    tab: str = ""  # that was open
    is_linked: bool = False  # whether the address has a link
    is_past: bool = False  # whether that was open already, and is no lesson
    held: list = field(default_factory=list)  # by the fields, in their order

    @classmethod
    def read(cls, text: str) -> "LeftPage":
        """Of what a browser sends; an empty one where that is odd."""
        try:
            left = json.loads(text)
            held = left.get("held")
            facts = str(left.get("tab") or ""), bool(left.get("linked")), bool(left.get("past"))
            return cls(str(left.get("key") or ""), *facts, held if isinstance(held, list) else [])
        except (ValueError, AttributeError, RecursionError):
            return cls()


def go_on(session: Session) -> Iterator[TrainingJob]:
    """Runs that were under way when their page was left, each once its old page is done with it."""
    while session.interrupted:
        run, is_paused = session.interrupted.pop(0)
        while run.is_live or run.is_concluding:
            time.sleep(NAP_SECONDS)
        if run.can_go_on:
            run.prepare_again(is_paused=is_paused)
            yield run


def show_jobs(page: Page, session: Session) -> dict:
    """What every job shows that the visitor has begun."""
    changes: dict = {}
    for view in page.views:
        job = view.find(session)
        if job is not None and job.status is not None:
            changes |= {view.shows[name]: update for name, update in view.show(session).items()}
    return changes


def wire(page: Page, links) -> None:
    """Let a page that is loaded again find what it had, once every tab is built; `links` are open_link's."""
    waiting = SessionStore()
    key = gr.Textbox(visible="hidden", label="Key of this session")
    going = gr.Textbox(visible="hidden", label="Run that goes on")  # so that no other page waits for a place
    shows = {part: part for view in page.views for part in view.shows.values()} | links.outputs
    names = {tab.id for tab in page.tabs.children}

    def arrive(session: Session, values: dict) -> dict:
        left = LeftPage.read(values["key"] or "")
        own, is_back = waiting.arrive(session, left.key)
        is_lost = bool(left.key) and not is_back
        session.skips_link = is_lost and left.is_past
        changes: dict = {key: own}
        if session.interrupted:
            changes[going] = own
        if not left.is_linked or session.skips_link:
            session.seen |= links.read_held(left.held)
            changes |= links.restore_seen(session)
            changes |= {page.tabs: gr.Tabs(selected=left.tab)} if left.tab in names else {}
            changes |= links.tell(left.tab, LOST, is_lost=True) if is_lost else {}
        return changes | show_jobs(page, session)

    page.arrived = page.connect(
        page.blocks.load, arrive, {"key": key}, {key: key, going: going, **shows}, js=TAKE, **NOW
    )

    def hear(_session: Session, values: dict) -> dict:
        waiting.hear(values["key"])
        return {}

    page.connect(page.arrived.then, hear, {"key": key}, {}, js=KNOW, **NOW)
    fields = [part for one in page.linked_fields for part in one.fields.values()]
    gr.on([part.change for part in fields], None, fields, None, js=HOLD, **LIGHT)
    runs = next(view for view in page.views if view.kind is TrainingJob)

    def resume(session: Session) -> Iterator[dict]:
        for run in go_on(session):
            yield from runs.follow(session, job=run)

    followed = page.connect(going.change, resume, None, runs.shows, **page.in_turn)
    page.show_place(going.change, runs, followed, page.in_turn["concurrency_id"])
