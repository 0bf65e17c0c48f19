"""What the tabs of one page share while they are built."""

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import gradio as gr
from gradio.components import Component

from ..core.limits import limits_here
from .catalog import ModelCatalog
from .session import Session

# How events are wired: without a progress bar, as Gradio sends every message of any event to every component
# that may show progress, hundreds of them; the last of several at once wins; without waiting in the queue.
LIGHT = {"show_progress": "hidden", "show_progress_on": (), "api_visibility": "private"}
LAST = {**LIGHT, "trigger_mode": "always_last"}
NOW = {**LIGHT, "queue": False}


def state_of(value: object, on_delete: Callable | None = None) -> gr.State:
    """State of a visitor's tab, kept as long as the session; `on_delete` is called with it at the end."""
    return gr.State(value, time_to_live=limits_here().session_seconds, delete_callback=on_delete)


def change_of(update) -> dict:
    """The properties that an update changes."""
    if not isinstance(update, dict):
        return {"value": update}
    return {name: value for name, value in update.items() if name != "__type__"}


def with_value(value: object, update: dict | None = None) -> dict:
    return gr.update(**change_of(update or {}) | {"value": value})


def by_name(handler: Callable, reads: Mapping[str, Component], shows: Mapping[str, Component]) -> Callable:
    """A handler of values and updates by name, as Gradio calls one: with values and components in order.

    Args:
        handler: as in `Page.connect`.
        reads, shows: its inputs and outputs by name.
    """
    first = 1 + bool(reads)
    special = list(inspect.signature(handler).parameters.values())[first:]

    def ask(session: Session, *received):
        values, more = received[: len(reads)], received[len(reads) :]
        return handler(session, *([dict(zip(reads, values, strict=True))] if reads else []), *more)

    def place(updates: Mapping[str, object] | None):
        if not shows:
            return None
        placed = {shows[name]: update for name, update in (updates or {}).items()}
        return placed or {next(iter(shows.values())): gr.skip()}

    def answer(*received):
        return place(ask(*received))

    def answer_in_turn(*received):
        for updates in ask(*received):
            yield place(updates)

    function = answer_in_turn if inspect.isgeneratorfunction(handler) else answer
    named = [inspect.Parameter(f"value_{n}", inspect.Parameter.POSITIONAL_ONLY) for n in range(1 + len(reads))]
    positional = [one.replace(kind=inspect.Parameter.POSITIONAL_ONLY) for one in special]
    function.__signature__ = inspect.Signature([*named, *positional])
    function.__name__ = getattr(handler, "__name__", "answer")
    hints = typing.get_type_hints(handler)
    function.__annotations__ = {one.name: hints[one.name] for one in special if one.name in hints}
    return function


def clear_on_edit(field: gr.Textbox, error: gr.HTML) -> None:
    """Clear a field's error as soon as its text is edited."""
    field.input(None, None, error, js="() => ''", **LIGHT)


@dataclass(frozen=True)
class LinkedFields:
    """What a link carries of a tab, and how the tab opens with it; `links.codec` makes and reads the links.

    Attributes:
        tab: its id.
        fields: {name in the link: component}.
        varying: names of fields whose choices depend on others; `restore` checks their values.
        weights: the name of the field that holds a checkpoint; None where none does.
        restore: (values by name, *inputs) → {component: update} opens the tab; ValueError says why it cannot.
            None where the fields are only set.
        inputs: what it reads beside the values.
        outputs: what it may change beside the fields.
        buttons: what else changes the fields; disabled with them where a link locks the settings.
        stays: (session) → a sentence on what the link does not carry, or nothing; None where it carries all.
    """

    tab: str
    fields: dict[str, Component]
    varying: tuple[str, ...] = ()
    weights: str | None = None
    restore: Callable[..., dict] | None = None
    inputs: tuple = ()
    outputs: tuple = ()
    buttons: tuple = ()
    stays: Callable[[Session], str] | None = None


@dataclass(frozen=True, eq=False)
class ReplayableJob:
    """A job on a tab's own board, and how a link runs it again.

    Attributes:
        tab: its id.
        name: in the link.
        fields: its settings, {name: component}.
        state: gr.State of the job: its `form` holds the settings with which it began, None before; its
            `taken`, a few whole numbers, how far it has come.
        replay: (form, taken, *inputs) → {component: update} starts it, to end where the sender's stood;
            ValueError says why it cannot.
        varying: names of fields whose choices depend on others.
        inputs: what `replay` reads beside them.
        outputs: what it may change.
        count: how many numbers `taken` has; None where `replay` checks it.
    """

    tab: str
    name: str
    fields: dict[str, Component]
    state: gr.State
    replay: Callable[..., dict]
    varying: tuple[str, ...] = ()
    inputs: tuple = ()
    outputs: tuple = ()
    count: int | None = 1


@dataclass
class Page:
    """The page under construction.

    Attributes:
        blocks: the gr.Blocks.
        session: gr.State of the visitor's Session.
        catalog: checkpoints that everybody may open.
        device: what they train on, in words.
        places: how many runs train at once.
        tab: the gr.Tab being built.
        tabs: of the page.
        runs: the table of runs.
        note: Train's line about the current run.
        order: counts the runs to train; when it changes, Train's long handler starts.
        arrived: the event after which a page that is loaded again has what its visitor had.
        run_ended: events after which a visitor's runs have changed.
        linked_fields: what links carry of the tabs.
        linked_jobs: what links have learned again.
    """

    blocks: gr.Blocks
    session: gr.State
    catalog: ModelCatalog
    device: str = "CPU, float32"
    places: int = 2
    tab: gr.Tab | None = None
    tabs: gr.Tabs | None = None
    runs: gr.HTML | None = None
    note: gr.HTML | None = None
    order: gr.Number | None = None
    arrived: gr.events.Dependency | None = None
    run_ended: list = field(default_factory=list)
    linked_fields: list[LinkedFields] = field(default_factory=list)
    linked_jobs: list[ReplayableJob] = field(default_factory=list)

    @property
    def in_turn(self) -> dict:
        """How a handler that trains is wired: so many run at once, the others wait."""
        return {**LIGHT, "concurrency_id": "train", "concurrency_limit": self.places}

    def connect(
        self,
        events,
        handler: Callable,
        reads: Mapping[str, Component] | None = None,
        shows: Mapping[str, Component] | None = None,
        **how,
    ) -> gr.events.Dependency:
        """Let a handler answer an event; how handlers reach session and fields in every tab.

        Args:
            events: one, such as `button.click` or `before.then`, or several in a list.
            handler: (session, values) → {name: update}, or a generator of them; (session) where nothing is
                read. What it does not name stays. Parameters behind these are Gradio's own, by their types:
                an Event, gr.Request, gr.OAuthProfile.
            reads: {name: component}, which `values` holds.
            shows: {name: component}, which it may change.
            **how: as Gradio's own, such as NOW and LAST.
        """
        reads, shows = reads or {}, shows or {}
        function = by_name(handler, reads, shows)
        given = {"inputs": [self.session, *reads.values()], "outputs": list(shows.values()), **how}
        return gr.on(events, function, **given) if isinstance(events, list) else events(function, **given)

    def link_fields(self, fields: dict[str, Component], *, shows=None, **how) -> None:
        """Let links carry these fields of the tab being built; `how` as in LinkedFields."""
        if shows is not None:
            parts, restore = {**fields, **shows}, how["restore"]
            how["restore"] = lambda values, session: {
                parts[name]: update for name, update in restore(session, values).items()
            }
            how |= {"inputs": (self.session,), "outputs": tuple(shows.values())}
        for name, component in fields.items():
            component.elem_id = component.elem_id or f"{self.tab.id}-{name}"
        self.linked_fields.append(LinkedFields(self.tab.id, fields, **how))

    def link_job(self, name: str, fields: dict[str, Component], state: gr.State, replay, **how) -> None:
        """Let links replay a job of the tab being built; `how` as in ReplayableJob."""
        self.linked_jobs.append(ReplayableJob(self.tab.id, name, fields, state, replay, **how))
