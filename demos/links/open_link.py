"""Copy link, and the page that a link opens: the header's board and its handlers.

`link_board` takes a `LinkValue` of `ui.board_values`. It sends `copy_<tab>` with `event.turn`, `.boards`,
`.locked` and `.hidden`.
"""

import typing
from dataclasses import dataclass

import gradio as gr

from ..core.events import Event
from ..session.page import NOW, LinkedFields, Page, change_of, with_value
from ..tabs.train import replay
from ..ui import boards, notices
from . import codec

ASSETS = ("link.css", "link_board.js")
TRAIN = "train"
NOTHING = "Nothing on this tab can be linked: open another tab, then copy the link."
GONE = "The sender's model could not be trained here; its settings are in the Train tab."


class CopyEvent(Event):
    """Copy link was pressed.

    Attributes:
        turn: the question's number.
        boards: what each board of the tab shows.
        locked, hidden: whether the link locks the settings, and hides the answers.
    """

    turn: int
    boards: dict[str, typing.Any]
    locked: bool
    hidden: bool


def build_header(tabs: list[str]) -> gr.HTML:
    """Build the top of the page: brand, Copy link, and messages of links."""
    template = f'{notices.BRAND}<div class="hf-link hf-board"></div>'
    events = tuple(f"copy_{tab}" for tab in tabs)
    return boards.build_board("link_board", "hf-header", "link-board", *events, template=template)


def copy_link(page: Page, linked: list[LinkedFields], values: dict, event: CopyEvent) -> str:
    """The board's value: the link to what a tab shows, or why there is none; `values` is by component."""
    try:
        if not linked:
            raise ValueError(NOTHING)
        fields = {name: values[part] for one in linked for name, part in one.fields.items()}
        jobs = codec.describe_jobs(page.linked_jobs, linked[0].tab, values)
        view = (linked, page.catalog, values[page.session], fields, event.boards, jobs)
        state, message = codec.describe_view(*view)
        state |= {name: True for name in ("locked", "hidden") if getattr(event, name)}
        return boards.to_json({"turn": event.turn, "made": codec.write_link(state), "said": message})
    except ValueError as error:
        return boards.to_json({"turn": event.turn, "refused": str(error)})


def lock(changes: dict, linked: list[LinkedFields]) -> dict:
    """Disable every field of a tab, and the buttons that change them, in these updates."""
    parts = [part for one in linked for part in (*one.fields.values(), *one.buttons)]
    locked = {
        part: gr.update(**change_of(changes.get(part, gr.skip())) | {"interactive": False}) for part in parts
    }
    return changes | locked


@dataclass(frozen=True, eq=False)
class Opening:
    """The handlers that open a page with a link.

    Attributes:
        page: all of it, built.
        board: of the header.
        pending: gr.State of the link whose runs are being trained, {state, ids}, ids of those that are
            there or under way; None where there is none.
    """

    page: Page
    board: gr.HTML
    pending: gr.State

    @property
    def inputs(self) -> list:
        read = [part for one in (*self.page.linked_fields, *self.page.linked_jobs) for part in one.inputs]
        return list(dict.fromkeys([self.page.session, self.page.order, self.pending, *read]))

    @property
    def outputs(self) -> list:
        parts = [
            part
            for one in self.page.linked_fields
            for part in (*one.fields.values(), *one.outputs, *one.buttons)
        ]
        parts += [part for one in self.page.linked_jobs for part in one.outputs]
        return list(dict.fromkeys([self.board, self.page.tabs, self.page.order, self.pending, *parts]))

    def open_page(self, request: gr.Request, *values) -> dict:
        """The page was loaded: open the link in its address, if there is one."""
        text = request.query_params.get(codec.PARAMETER)
        if text is None:
            return {self.board: gr.skip()}
        values = dict(zip(self.inputs, values, strict=True))
        try:
            return self._bring(codec.read_link(text), [], values)
        except ValueError as error:
            return self._say({"refused": str(error)})

    def go_on(self, *values) -> dict:
        """A run has ended: if it was a link's, train its next run, or open what the link shows."""
        values = dict(zip(self.inputs, values, strict=True))
        pending = values[self.pending]
        if pending is None:
            return {self.board: gr.skip()}
        run = values[self.page.session].runs.get(pending["ids"][-1])
        if run is not None and run.is_live:
            return {self.board: gr.skip()}
        over = {self.pending: None}
        try:
            return over | self._bring(pending["state"], pending["ids"], values)
        except ValueError as error:
            return over | self._say({"refused": str(error)})

    def _bring(self, state: dict, ids: list[str], values: dict) -> dict:
        """Train the first missing run of a link, else open what it shows; `ids` are already there."""
        linked, session = codec.check_state(self.page.linked_fields, state), values[self.page.session]
        wanted = replay.linked_runs(state)
        for place, spec in enumerate(wanted[len(ids) :], len(ids) + 1):
            run = replay.find_equal_run(session, spec, ids)
            if run is None:
                message = codec.training_message(spec, place, len(wanted))
                return self._train(spec, state, ids, values, message)
            ids = [*ids, run.id]
        found = [(session.runs.get(run_id), spec) for run_id, spec in zip(ids, wanted, strict=True)]
        trained = [(run, spec) for run, spec in found if run is not None and run.step]
        if wanted and (not trained or trained[-1][1] is not wanted[-1]):
            return self._say({"refused": GONE})
        missing = codec.missing_runs_message(len(wanted) - len(trained))
        return self._show(linked, state, trained, values, missing)

    def _say(self, message: dict) -> dict:
        return {self.board: boards.to_json({"turn": 0, **message})}

    def _train(self, spec: replay.RunSpec, state: dict, ids: list[str], values: dict, message: str) -> dict:
        """Train one of the link's runs in the Train tab; `go_on` does the rest."""
        linked = next(one for one in self.page.linked_fields if one.tab == TRAIN)
        changes = linked.restore(spec.fields, *(values[part] for part in linked.inputs))
        run, removed = replay.add_linked_run(values[self.page.session], spec, ids)
        message = f"{message} {removed}".strip()
        return changes | {
            self.page.tabs: gr.Tabs(selected=TRAIN),
            self.page.order: values[self.page.order] + 1,
            self.pending: {"state": state, "ids": [*ids, run.id]},
            **self._say({"opened": {"tab": TRAIN, "boards": {}, "locked": [], "said": message}}),
        }

    def _show(
        self, linked: list[LinkedFields], state: dict, trained: list, values: dict, missing: str
    ) -> dict:
        """Open the tab of a link with its fields; `trained` has its runs, the shown one last."""
        tab, fields, changes, shown = state["tab"], state.get("values", {}), {}, state.get("boards", {})
        messages = [codec.steps_message(run, spec.steps) for run, spec in trained]
        run_id = trained[-1][0].id if trained else None
        if tab == TRAIN:
            values[self.page.session].show(run_id)
        if table := shown.get(replay.TABLE):
            shown = shown | {replay.TABLE: table | {"laid": [run.id for run, _ in trained[:-1]]}}
        jobs = codec.check_jobs(self.page.linked_jobs, state)
        for one in linked:
            wanted = {name: fields.get(name, part.value) for name, part in one.fields.items()}
            if one.weights is not None:
                wanted[one.weights] = codec.find_weights(self.page.catalog, wanted[one.weights], run_id)
            if one.restore is None:
                changes |= {part: with_value(wanted[name]) for name, part in one.fields.items()}
            else:
                changes |= one.restore(wanted, *(values[part] for part in one.inputs))
        for job, form, taken in jobs:
            changes |= job.replay(form, taken, *(values[part] for part in job.inputs))
        parts = [part for one in linked for part in (*one.fields.values(), *one.buttons)]
        is_locked = state.get("locked", False)
        opened = {
            "tab": tab,
            "boards": shown,
            "locked": [part.elem_id for part in parts if is_locked and part.elem_id],
            "hidden": state.get("hidden", False),
            "said": " ".join(filter(None, [*messages, missing, codec.opened_message(state, tab.title())])),
        }
        changes = lock(changes, linked) if is_locked else changes
        return changes | {self.page.tabs: gr.Tabs(selected=tab)} | self._say({"opened": opened})


def wire(page: Page, board: gr.HTML) -> None:
    """Connect the header, once every tab is built."""
    opening = Opening(page, board, gr.State(None))
    page.arrived.then(opening.open_page, opening.inputs, opening.outputs, **NOW)
    for ended in page.run_ended:
        ended.then(opening.go_on, opening.inputs, opening.outputs, **NOW)
    for tab in (child.id for child in page.tabs.children):
        linked = [one for one in page.linked_fields if one.tab == tab]
        states = [one.state for one in page.linked_jobs if one.tab == tab]
        read = [page.session, *states, *(part for one in linked for part in one.fields.values())]

        def copy(event: CopyEvent, *values, linked=linked, read=tuple(read)):
            return copy_link(page, linked, dict(zip(read, values, strict=True)), event)

        getattr(board, f"copy_{tab}")(copy, read, board, **NOW, trigger_mode="always_last")
