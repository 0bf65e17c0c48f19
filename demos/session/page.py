"""What the tabs of one page share while they are built."""

import contextlib
import inspect
import operator
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

import gradio as gr
from gradio.components import Component

from ..core.limits import limits_here
from ..jobs.job import Job
from ..jobs.training_job import TrainingJob
from ..ui import notices
from .catalog import ModelCatalog
from .session import Session

# How events are wired: without a progress bar, as Gradio sends every message of any event to every component
# that may show progress, hundreds of them; the last of several at once wins; without waiting in the queue.
LIGHT = {"show_progress": "hidden", "show_progress_on": (), "api_visibility": "private"}
LAST = {**LIGHT, "trigger_mode": "always_last"}
NOW = {**LIGHT, "queue": False}
LAST_NOW = {**NOW, "trigger_mode": "always_last"}
EACH = {**LIGHT, "trigger_mode": "multiple"}
EACH_NOW = {**NOW, "trigger_mode": "multiple"}  # Gradio drops an event while its last one is being answered
LINE_SECONDS = 2.0  # between two looks at how many jobs are before a visitor's
Parts = Mapping[str, Component]  # components by their names in a tab


def state_of(value: object, on_delete: Callable | None = None) -> gr.State:
    """State of a visitor's tab, kept as long as the session; `on_delete` is called with it at the end."""
    return gr.State(value, time_to_live=limits_here().session_seconds, delete_callback=on_delete)


def change_of(update) -> dict:
    if not isinstance(update, dict):
        return {"value": update}
    return {name: value for name, value in update.items() if name != "__type__"}


def with_value(value: object, update: dict | None = None) -> dict:
    return gr.update(**change_of(update or {}) | {"value": value})


def by_name(handler: Callable, reads: Parts, shows: Parts) -> Callable:
    """A handler as `Page.connect` takes it, as Gradio calls one: with values and components in order."""
    more = list(inspect.signature(handler).parameters.values())[1 + bool(reads) :]
    special = [one for one in more if one.kind != one.KEYWORD_ONLY]

    def call(session: Session, *received):
        values, more = received[: len(reads)], received[len(reads) :]
        session.seen |= {part._id: value for part, value in zip(reads.values(), values, strict=True)}
        return handler(session, *([dict(zip(reads, values, strict=True))] if reads else []), *more)

    def by_component(updates: Mapping[str, object] | None):
        if not shows:
            return None
        placed = {shows[name]: update for name, update in (updates or {}).items()}
        return placed or {next(iter(shows.values())): gr.skip()}

    def answer(*received):
        return by_component(call(*received))

    def answer_in_turn(*received):
        updates = None
        for updates in call(*received):
            yield by_component(updates)
        if updates is None:  # of a generator that yields nothing, Gradio clears every output
            yield by_component({})

    function = answer_in_turn if inspect.isgeneratorfunction(handler) else answer
    kind = inspect.Parameter.POSITIONAL_ONLY
    given = [inspect.Parameter(f"value_{place}", kind) for place in range(1 + len(reads))]
    function.__signature__ = inspect.Signature([*given, *(one.replace(kind=kind) for one in special)])
    function.__name__ = getattr(handler, "__name__", "answer")
    hints = typing.get_type_hints(handler)
    function.__annotations__ = {one.name: hints[one.name] for one in special if one.name in hints}
    return function


def count_ahead(app: gr.Blocks, concurrency_id: str, visitor: str, events: Collection[int]) -> int | None:
    """How many jobs wait before the visitor's of these events; None where none of those waits."""
    waiting = app._queue.event_queue_per_concurrency_id.get(concurrency_id)  # none before the first job
    line = waiting.queue if waiting else []
    asked = [event.session_hash == visitor and event.fn._id in events for event in line]
    return asked.index(True) if any(asked) else None


def say_place(ahead: int) -> str:
    """Where a job that waits stands in line, in a sentence."""
    before = f"{ahead} before this one" if ahead else "this one is next"
    return f"Waiting for a free place, {before}: others are training here. It starts by itself."


def clear_on_edit(field: gr.Textbox, error: gr.HTML) -> None:
    """Clear a field's error as soon as its text is edited."""
    field.input(None, None, error, js="() => ''", **LIGHT)


@dataclass(frozen=True)
class LinkedFields:
    """What a link carries of a tab, and how the tab opens with it; `links.codec` makes and reads links."""

    tab: str  # its id
    fields: dict[str, Component]  # {name in the link: component}
    shows: Parts = field(default_factory=dict)  # what else `restore` may change
    # names of fields whose choices depend on others; `restore` checks their values
    varying: tuple[str, ...] = ()
    weights: str | None = None  # the name of the field that holds a checkpoint; None where none does
    opens: bool = False  # whether `restore` opens a folder or Hub id in that field: it is asked for first
    # (session, values by name) → {name: update} opens the tab; ValueError says why it cannot. None where the
    # fields are only set.
    restore: Callable[[Session, dict], dict] | None = None
    buttons: tuple = ()  # what else changes the fields; disabled with them where a link locks the settings
    # (session) → a sentence on what the link does not carry, or nothing; None where it carries all
    stays: Callable[[Session], str] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class JobView:
    """A kind of job, as a tab shows it."""

    show: Callable[[Session], dict]  # (session) → {name: update}, as the job stands
    shows: Parts
    kind: type[Job]  # its class; a session has one such job

    def find(self, session: Session) -> Job | None:
        """The visitor's job; of training jobs, of which there are many, the one that the buttons control."""
        return session.run if self.kind is TrainingJob else session.state(self.kind)

    def stop(self, session: Session) -> dict:
        """Stop after the piece of work that is being done; what still waits for a place is stopped here."""
        job = self.find(session)
        if job is None:
            return {}
        job.stop()
        return {} if job.is_live else self.show(session)

    def follow(self, session: Session, *, job: Job | None = None) -> Iterator[dict]:
        """Let the visitor's job work; {name: update} whenever there is something new to show."""
        if job is None:
            job = session.take_waiting() if self.kind is TrainingJob else self.find(session)
        shown: dict = {}
        if job is None or session.is_over:
            return
        with contextlib.closing(job.follow()) as moments:
            for _ in moments:
                if session.is_over:
                    return
                now = self.show(session)
                if news := {name: update for name, update in now.items() if shown.get(name) != update}:
                    yield news
                shown |= now


@dataclass(frozen=True, eq=False, kw_only=True)
class LinkedJob(JobView):
    """A kind of job that a link can do again."""

    tab: str  # its id
    name: str  # in the link
    fields: Parts  # its settings
    # (session, spec, jobs of the same link) → a job that is to be followed, or one that stands there already;
    # ValueError says why there is none
    start: Callable[[Session, "JobSpec", list[Job]], Job]
    varying: tuple[str, ...] = ()  # names of fields whose choices depend on others
    # (job) → {form, progress, …} for a link; ValueError says why none carries it
    describe: Callable[[Job], dict] = operator.methodcaller("describe")
    # (form) → the form, complete; ValueError where it is wrong. None: each field checks its own.
    check: Callable[[dict], dict] | None = None
    comes_first: bool = False  # its tab is opened for it, and the link's only when it is done


@dataclass(frozen=True)
class JobSpec:
    """A job as a link carries it."""

    kind: LinkedJob  # how it is started and shown
    form: dict[str, object]  # its settings by name
    progress: list[int]  # how far the sender's had come
    name: str = ""  # what the sender called it; may be empty
    seconds: float = 0.0  # what its work took there

    @property
    def estimate(self) -> float:
        """Seconds that it may take, a hundred steps each where the link says nothing, or less."""
        return max(self.seconds, sum(self.progress) / 100)


class ShownHead(typing.TypedDict):
    """A head that another tab shows, as it is opened in Explore."""

    weights: str  # the checkpoint or the run
    text: str
    place: str  # kind and layer from 0, "cross 1"; empty where no head can be shown there
    head: int | None  # from 0; None for all heads of the layer


@dataclass
class Page:
    """The page under construction."""

    blocks: gr.Blocks
    session: gr.State  # of the visitor's Session
    catalog: ModelCatalog  # checkpoints that everybody may open
    device: str = "CPU, float32"  # what they train on, in words
    places: int = 2  # how many runs train at once
    tab: gr.Tab | None = None  # being built
    tabs: gr.Tabs | None = None  # of the page
    runs: tuple[gr.HTML, ...] = ()  # the boards in which a run is shared
    note: gr.HTML | None = None  # Train's line about the current run
    # what opens Explore on a head, already removed: (event, fields, (session, values) → a ShownHead)
    ways_to_explore: list[tuple] = field(default_factory=list)
    # the event after which a page that is loaded again has what its visitor had
    arrived: gr.events.Dependency | None = None
    run_ended: list = field(default_factory=list)  # events after which a visitor's runs have changed
    linked_fields: list[LinkedFields] = field(default_factory=list)  # what links carry of the tabs
    linked_jobs: list[LinkedJob] = field(default_factory=list)  # kinds of jobs, which links do again
    views: list[JobView] = field(default_factory=list)  # of all kinds of jobs
    followers: dict[JobView, list[int]] = field(default_factory=dict)  # numbers of the events of `follow`
    # each ticks while its job waits for a place
    timers: dict[JobView, gr.Timer] = field(default_factory=dict)

    @property
    def in_turn(self) -> dict:
        """How a handler that trains is wired: so many run at once, the others wait."""
        return {**LIGHT, "concurrency_id": "train", "concurrency_limit": self.places}

    def connect(
        self, events, handler: Callable, reads: Parts | None = None, shows: Parts | None = None, **how
    ) -> gr.events.Dependency:
        """Let a handler answer an event; how handlers reach session and fields in every tab.

        Args:
            events: one, such as `button.click` or `before.then`, or several in a list.
            handler: (session, values) → {name: update}, or a generator of them; (session) where nothing is
                read. What it does not name stays. Parameters behind these are Gradio's own, by their types:
                an Event, gr.Request, gr.OAuthToken.
            reads: {name: component}, which `values` holds.
            shows: {name: component}, which it may change.
            **how: as Gradio's own, such as NOW and LAST.
        """
        reads, shows = reads or {}, shows or {}
        function = by_name(handler, reads, shows)
        given = {"inputs": [self.session, *reads.values()], "outputs": list(shows.values()), **how}
        return gr.on(events, function, **given) if isinstance(events, list) else events(function, **given)

    def link_fields(self, fields: dict[str, Component], **how) -> None:
        """Let links carry these fields of the tab being built; `how` as in LinkedFields."""
        for name, component in fields.items():
            component.elem_id = component.elem_id or f"{self.tab.id}-{name}"
        self.linked_fields.append(LinkedFields(self.tab.id, fields, **how))

    def link_job(self, name: str, **how) -> LinkedJob:
        """Let links do a kind of job of the tab being built again; `how` as in LinkedJob."""
        self.linked_jobs.append(LinkedJob(tab=self.tab.id, name=name, **how))
        return self.linked_jobs[-1]

    def follow(self, event, view: JobView, **how) -> gr.events.Dependency:
        """Let a job work behind the event that prepared it, in its turn, and keep the page up to date."""
        self.views += [view] if view not in self.views else []
        how = {**self.in_turn, "trigger_mode": "always_last", **how}
        following = self.connect(event, view.follow, None, view.shows, **how)
        if "note" in view.shows:
            self.show_place(event, view, following, how["concurrency_id"])
        return following

    def show_place(self, event, view: JobView, following: gr.events.Dependency, concurrency_id: str) -> None:
        """Say behind the event how many jobs are before the one that `following` works on, while it waits."""
        self.followers.setdefault(view, []).append(following["id"])

        def look(session: Session, request: gr.Request) -> dict:
            job = view.find(session)
            if job is None or job.is_settled:  # also where it was stopped while it waited
                return {"timer": gr.Timer(active=False), "note": view.show(session)["note"]}
            ahead = count_ahead(self.blocks, concurrency_id, request.session_hash, self.followers[view])
            if ahead is None:
                return {}  # what `follow` sends is newer than a note made here, and may arrive before it
            return {"note": notices.note(say_place(ahead))}

        if view not in self.timers:
            timer = self.timers[view] = gr.Timer(LINE_SECONDS, active=False)
            self.connect(timer.tick, look, None, {"timer": timer, "note": view.shows["note"]}, **NOW)
        ticking = {"timer": self.timers[view]}
        self.connect(event, lambda _: {"timer": gr.Timer(active=True)}, None, ticking, **NOW)

    def drive(self, view: JobView, start, press: Callable, reads, stop, more=None, **how) -> None:
        """Let events start a job, and one stop it; `how` as in `follow`.

        `press` is the handler that prepares the job, as in `connect`: it may change `more` beside the view's.
        """
        pressed = self.connect(start, press, reads, {**view.shows, **(more or {})}, **NOW)
        self.follow(pressed.then, view, **how)
        self.connect(stop, view.stop, None, view.shows, **NOW)
