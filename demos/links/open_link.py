"""Copy link, and the page that a link opens: the header's board and its handlers.

`link_board` takes a `LinkValue` of `ui/board_values.d.ts`. It sends `copy_<tab>` with `event.turn`,
`.boards`, `.locked` and `.hidden`.
"""

import contextlib
import functools
import itertools
import typing
from collections.abc import Iterator
from dataclasses import dataclass

import gradio as gr

from ..core.events import Event
from ..core.limits import limits_here
from ..jobs.job import WAITING
from ..session.page import LAST_NOW, NOW, JobSpec, LinkedFields, Page, change_of, with_value
from ..session.session import Session
from ..ui import boards, formatting, notices
from . import codec

ASSETS = ("link.css", "link_board.js")
NOTHING = "Nothing on this tab can be linked: open another tab, then copy the link."
GONE = "The sender's model could not be trained here; its settings are in the Train tab."
LONG_SECONDS = 60.0  # from here on it is asked first
LONG = "What this link shows takes about {} to train."
ELSEWHERE = "This link opens the model {!r}, which nobody opened on this page yet."
ACCEPTS = {(True, False): "Train it here", (False, True): "Fetch it", (True, True): "Fetch and train it"}
UNFETCHED = "The model of the link was not fetched: this is the tab's own."
UNTRAINED = "Nothing was trained: these are the sender's settings."


class CopyEvent(Event):
    """Copy link was pressed."""

    turn: int  # the question's number
    boards: dict[str, typing.Any]  # what each board of the tab shows
    # locked, hidden: whether the link locks the settings, and hides the answers
    locked: bool
    hidden: bool


def build_header(tabs: list[str]) -> gr.HTML:
    """Build the top of the page: brand, Copy link, and messages of links."""
    skip = '<a class="hf-skip" href="#map">Skip to the map</a>'
    template = f'{skip}{notices.BRAND}<div class="hf-link hf-board"></div>'
    events = ("open_link", "accept_link", "open_settings", *(f"copy_{tab}" for tab in tabs))
    return boards.build_board("link_board", "hf-header", "link-board", *events, template=template)


@dataclass(frozen=True, eq=False)
class Links:
    """The handlers that copy a link, and that open a page with one; their updates are by component."""

    page: Page  # all of it, built
    board: gr.HTML  # of the header

    @functools.cached_property
    def outputs(self) -> dict:
        """What a link may change; each is its own name."""
        fields, jobs = self.page.linked_fields, self.page.linked_jobs
        parts = [part for one in fields for part in (*one.fields.values(), *one.shows.values(), *one.buttons)]
        parts += [part for one in jobs for part in one.shows.values()]
        return {part: part for part in [self.board, self.page.tabs, *parts]}

    def copy(self, session: Session, tab: str, values: dict, event: CopyEvent) -> str:
        """The board's value: the link to what a tab shows, or why there is none."""
        linked = [one for one in self.page.linked_fields if one.tab == tab]
        try:
            if not linked:
                raise ValueError(NOTHING)
            state, message = codec.describe_view(linked, self.page.linked_jobs, session, values, event.boards)
            state |= {name: True for name in ("locked", "hidden") if getattr(event, name)}
            return boards.to_json({"turn": event.turn, "made": codec.write_link(state), "said": message})
        except ValueError as error:
            return boards.to_json({"turn": event.turn, "refused": str(error)})

    def read(self, session: Session, request: gr.Request) -> dict:
        """The page was loaded: read the link in its address, if there is one; `open` opens it.

        Where its jobs take long, or it names a model that is not here, it waits for an answer first.
        """
        text = request.query_params.get(codec.PARAMETER)
        if text is None or session.skips_link:
            return {}
        try:
            state = codec.read_link(text)
            linked = codec.check_state(self.page.linked_fields, state)
            if name := codec.find_unopened(linked, state, session):
                limits_here().refuse_path(name)
            seconds = sum(spec.estimate for spec in codec.check_jobs(self.page.linked_jobs, state))
            asked = (seconds > LONG_SECONDS, bool(name))
            if not any(asked):
                return self.begin(session, state)
        except ValueError as error:
            return self.say(refused=str(error))
        session.asked_link = state
        asks = [LONG.format(formatting.clock(seconds)), ELSEWHERE.format(name)]
        return self.say(asks=" ".join(itertools.compress(asks, asked)), accepts=ACCEPTS[asked])

    def accept_link(self, session: Session) -> dict:
        """The visitor wants what takes long to be trained, and what is elsewhere to be fetched."""
        state, session.asked_link = session.asked_link, None
        return {} if state is None else self.refusing(self.begin, session, state)

    def open_settings(self, session: Session) -> dict:
        """Open the settings of a link's last run, or else its tab, and train and fetch nothing."""
        state, session.asked_link = session.asked_link, None
        if state is None:
            return {}
        runs = [spec for spec in codec.check_jobs(self.page.linked_jobs, state) if spec.kind.comes_first]
        if runs:
            return self.show_form(session, runs[-1], UNTRAINED)
        linked = codec.check_state(self.page.linked_fields, state)
        if codec.find_unopened(linked, state, session):
            return {self.page.tabs: gr.Tabs(selected=state["tab"]), **self.tell(state["tab"], UNFETCHED)}
        return self.refusing(self.show_tab, session, state, [], UNTRAINED)

    def refusing(self, show, *given) -> dict:
        """What `show` gives, or why it cannot."""
        try:
            return show(*given)
        except ValueError as error:
            return self.say(refused=str(error))

    def begin(self, session: Session, state: dict) -> dict:
        """Open the tab of a link, or that of the first run which it needs; `open` trains."""
        specs = codec.check_jobs(self.page.linked_jobs, state)
        session.link = state if specs else None
        if specs and specs[0].kind.comes_first:
            return self.show_form(session, specs[0], WAITING)
        return self.show_tab(session, state, [], codec.LEARNING_AGAIN if specs else "")

    def open(self, session: Session) -> Iterator[dict]:
        """Train a link's jobs one after the other, and open what it shows."""
        state, session.link = session.link, None
        if state is None:
            return
        specs = codec.check_jobs(self.page.linked_jobs, state)
        runs, done = [spec for spec in specs if spec.kind.comes_first], []
        try:
            for spec in specs:
                if len(done) == len(runs) and runs:
                    yield self.show_result(session, state, runs, done)
                job = spec.kind.start(session, spec, done)
                if job.is_busy:
                    job.goal = spec.progress
                    if spec in runs:
                        message = codec.training_message(job, spec, len(done), len(runs))
                        yield self.show_form(session, spec, message)
                    for updates in spec.kind.follow(session, job=job):
                        yield {spec.kind.shows[name]: update for name, update in updates.items()}
                done.append(job)
            if len(specs) == len(runs):
                yield self.show_result(session, state, runs, done)
        except ValueError as error:
            yield self.say(refused=str(error))

    def show_result(self, session: Session, state: dict, runs: list[JobSpec], done: list) -> dict:
        """Open what a link shows of its runs."""
        gone = [run for run in done if run.is_closed or not run.step]
        if done[-1] in gone:
            return self.say(refused=GONE)
        ids = [None if run in gone else run.id for run in done]
        return self.show_tab(session, state, ids, codec.result_message(done, runs, gone))

    def say(self, **message) -> dict:
        return {self.board: boards.to_json({"turn": 0, **message})}

    def show_form(self, session: Session, spec: JobSpec, message: str) -> dict:
        """Open the tab of a job with its settings."""
        linked = next(one for one in self.page.linked_fields if one.tab == spec.kind.tab)
        opened = {"tab": linked.tab, "boards": {}, "locked": [], "said": message}
        opened["trains"] = session.link is not None
        return {
            **self.restore(session, linked, spec.form),
            self.page.tabs: gr.Tabs(selected=linked.tab),
            **self.say(opened=opened),
        }

    def restore(self, session: Session, linked: LinkedFields, values: dict) -> dict:
        if linked.restore is None:
            return {part: with_value(values[name]) for name, part in linked.fields.items()}
        parts = {**linked.fields, **linked.shows}
        return {parts[name]: update for name, update in linked.restore(session, values).items()}

    def tell(self, tab: str, sentence: str, *, is_lost: bool = False) -> dict:
        """Say something at the top of the page; `is_lost` where the page has only what it kept itself."""
        opened = {"tab": tab, "boards": {}, "locked": [], "said": sentence, "isLost": is_lost}
        return self.say(opened=opened)

    def read_held(self, values: list) -> dict[int, object]:
        """What the fields of a page held, by their components' ids; without what they cannot hold here."""
        fields = [(one, name) for one in self.page.linked_fields for name in one.fields]
        if len(values) != len(fields):
            return {}  # of another version of the app
        held = {}
        for (one, name), value in zip(fields, values, strict=True):
            varies = name in one.varying and name != one.weights  # the run that was chosen may be gone
            if codec.can_hold(one.fields[name], value, varies=varies):
                held[one.fields[name]._id] = value
        return held

    def restore_seen(self, session: Session) -> dict:
        """What the fields of every tab last held, where that is not what a fresh page holds."""
        changes: dict = {}
        for linked in self.page.linked_fields:
            held = {name: session.seen.get(part._id, part.value) for name, part in linked.fields.items()}
            if all(held[name] == part.value for name, part in linked.fields.items()):
                continue
            with contextlib.suppress(ValueError):  # a folder or a file is gone meanwhile
                changes |= self.restore(session, linked, held)
        return changes

    def show_tab(self, session: Session, state: dict, ids: list[str | None], message: str) -> dict:
        """Open the tab of a link with its fields; `ids` are of the runs that it names."""
        linked = codec.check_state(self.page.linked_fields, state)
        names = {codec.PLACE.format(place): run for place, run in enumerate(ids)}
        fields, changes = state.get("fields", {}), {}
        for one in linked:
            wanted = {name: fields.get(name, part.value) for name, part in one.fields.items()}
            if one.weights is not None:
                wanted[one.weights] = codec.find_weights(self.page.catalog, wanted[one.weights], names)
            changes |= self.restore(session, one, wanted)
        parts = [part for one in linked for part in (*one.fields.values(), *one.buttons)]
        is_locked, locking = state.get("locked", False), ""
        if is_locked:
            locking = f"The settings of {state['tab'].title()} are set by the link."
            disabled = {"interactive": False}
            for part in parts:
                changes[part] = gr.update(**change_of(changes.get(part, gr.skip())) | disabled)
        opened = {
            "tab": state["tab"],
            "boards": codec.rename(state.get("boards", {}), names),
            "locked": [part.elem_id for part in parts if is_locked and part.elem_id],
            "hidden": state.get("hidden", False),
            "trains": session.link is not None,
            "said": f"{message} {locking}".strip(),
        }
        return changes | {self.page.tabs: gr.Tabs(selected=state["tab"]), **self.say(opened=opened)}


def wire(page: Page, board: gr.HTML) -> None:
    """Connect the header, once every tab is built."""
    links = Links(page, board)
    page.connect(page.arrived.then, links.read, None, links.outputs, **NOW)
    page.connect(board.accept_link, links.accept_link, None, links.outputs, **NOW)
    page.connect(board.open_settings, links.open_settings, None, links.outputs, **NOW)
    # the board asks for it where there is something to train: a page without a link waits for no place
    page.connect(board.open_link, links.open, None, links.outputs, **page.in_turn)
    for tab in (child.id for child in page.tabs.children):
        reads = {
            name: part for one in page.linked_fields if one.tab == tab for name, part in one.fields.items()
        }
        answer = {"reads": reads, "shows": {"board": board}, **LAST_NOW}
        page.connect(getattr(board, f"copy_{tab}"), copying(links, tab, bool(reads)), **answer)


def copying(links: Links, tab: str, reads: bool):

    def copy(session: Session, values: dict, event: CopyEvent) -> dict:
        return {"board": links.copy(session, tab, values, event)}

    def refuse(session: Session, event: CopyEvent) -> dict:
        return copy(session, {}, event)

    return copy if reads else refuse
