"""What the tabs of one page share while they are built."""

from collections.abc import Callable
from dataclasses import dataclass, field

import gradio as gr
from gradio.components import Component

from ..core.limits import limits_here
from .catalog import ModelCatalog
from .session import Session

# Of an event of the page alone. Gradio tells whatever an event shows its progress on of every message, of any
# event, for as long as the page is open: hundreds of components, had they not been taken out.
LIGHT = {"show_progress": "hidden", "show_progress_on": (), "api_visibility": "private"}
LAST = {**LIGHT, "trigger_mode": "always_last"}  # else what is asked while one is answered is dropped


def state_of(value: object, on_delete: Callable | None = None) -> gr.State:
    """What a tab remembers of each visitor, as long as a session is kept; `on_delete` is told of its end."""
    return gr.State(value, time_to_live=limits_here().session_seconds, delete_callback=on_delete)


def change_of(update) -> dict:
    """The properties that an update of a component changes."""
    if not isinstance(update, dict):
        return {"value": update}
    return {name: value for name, value in update.items() if name != "__type__"}


def with_value(value: object, update: dict | None = None) -> dict:
    """An update of a component with this value instead of its own."""
    return gr.update(**change_of(update or {}) | {"value": value})


def clear_on_edit(field: gr.Textbox, error: gr.HTML) -> None:
    """Let what is wrong with a field go as soon as it is typed in: it is of the text before."""
    field.input(None, None, error, js="() => ''", **LIGHT)


@dataclass(frozen=True)
class LinkedFields:
    """What a link carries of a tab, and how the tab opens with it; `links.codec` makes and reads the links.

    Attributes:
        tab: its id.
        fields: {name in the link: component}.
        varying: names of fields whose choices hang on others; `restore` says whether a value is one of them.
        weights: the name of the field that holds a checkpoint; None where none does.
        restore: (values by name, *inputs) → {component: update}, where the tab answers at once; ValueError
            says why it cannot. None: the fields are set, no more.
        inputs: what it reads beside the values.
        outputs: what it may change beside the fields.
        buttons: what else changes the fields; disabled with them where a link locks the settings.
        stays: (session) → what the tab shows and no link carries, in a sentence; None where it carries all.
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
    """What a tab learns on a board of its own, and how a link has it learned again.

    Attributes:
        tab: its id.
        name: in the link.
        fields: the settings from which it is learned, {name: component}.
        state: gr.State of what learns. Its `form` holds the settings with which it was begun, None before;
            its `taken`, a few whole numbers, how far it has come.
        again: (form, taken, *inputs) → {component: update}, which begins it, to end where the sender's
            stood; ValueError says why it cannot.
        varying: names of fields whose choices hang on others.
        inputs: what `again` reads beside them.
        outputs: what it may change.
        count: how many numbers say how far; None where `again` looks at it.
    """

    tab: str
    name: str
    fields: dict[str, Component]
    state: gr.State
    again: Callable[..., dict]
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
        said: what Train says of the current run.
        order: counts the runs to follow; where it changes, the session's current run is trained.
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
    said: gr.HTML | None = None
    order: gr.Number | None = None
    arrived: gr.events.Dependency | None = None
    run_ended: list = field(default_factory=list)
    linked_fields: list[LinkedFields] = field(default_factory=list)
    linked_jobs: list[ReplayableJob] = field(default_factory=list)

    def link_fields(self, fields: dict[str, Component], **how) -> None:
        """Let links carry these fields of the tab being built; `how` as in LinkedFields."""
        for name, component in fields.items():
            component.elem_id = component.elem_id or f"{self.tab.id}-{name}"
        self.linked_fields.append(LinkedFields(self.tab.id, fields, **how))

    def link_job(self, name: str, fields: dict[str, Component], state: gr.State, again, **how) -> None:
        """Let links replay what the tab being built learns by itself; `how` as in ReplayableJob."""
        self.linked_jobs.append(ReplayableJob(self.tab.id, name, fields, state, again, **how))
