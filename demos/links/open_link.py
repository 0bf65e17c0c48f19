"""Copy link, and the page that a link opens: the header's board and its handlers.

Value of `link_board` (demos/links/link_board.js): `to_json` of None or one of

    {turn, made, said}      the text for the address, and what is to be known of it; turn is the question's
    {turn, refused}         why there is no link, or why one was not opened (turn 0)
    {turn 0, opened}        {tab, boards, locked [ids of fields], hidden, said}: what a link asks of the page

It sends `copy_<tab>` with `event.turn`, `.boards`, `.locked` and `.hidden`.
"""

import typing
from dataclasses import dataclass

import gradio as gr

from ..core.events import Event
from ..session.page import LIGHT, LinkedFields, Page, change_of, with_value
from ..tabs.train import replay
from ..ui import boards, notices
from . import codec as links

ASSETS = ("link.css", "link_board.js")
TRAIN = "train"
NOTHING = "A link shows another tab: open the one that it is to show, then copy."
GONE = "The sender's model could not be trained here; the settings stand in Train."


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
    """Build the top of the page: the brand, Copy link, and what a link says."""
    template = f'{notices.BRAND}<div class="hf-link hf-board"></div>'
    events = tuple(f"copy_{tab}" for tab in tabs)
    return boards.build_board("link_board", "hf-header", "link-board", *events, template=template)


def copy_link(page: Page, kept: list[LinkedFields], given: dict, event: CopyEvent) -> str:
    """The link to what a tab shows, or why there is none: the board's value; `given` is by component."""
    try:
        if not kept:
            raise ValueError(NOTHING)
        values = {name: given[part] for one in kept for name, part in one.fields.items()}
        learned = links.tell_learned(page.linked_jobs, kept[0].tab, given)
        session = given[page.session]
        state, said = links.describe_view(kept, page.catalog, session, values, event.boards, learned)
        state |= {name: True for name in ("locked", "hidden") if getattr(event, name)}
        return boards.to_json({"turn": event.turn, "made": links.write_link(state), "said": said})
    except ValueError as error:
        return boards.to_json({"turn": event.turn, "refused": str(error)})


def lock(changes: dict, kept: list[LinkedFields]) -> dict:
    """The updates with every field of a tab, and what changes them, disabled."""
    parts = [part for one in kept for part in (*one.fields.values(), *one.buttons)]
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
        """What the handlers read."""
        read = [part for one in (*self.page.linked_fields, *self.page.linked_jobs) for part in one.inputs]
        return list(dict.fromkeys([self.page.session, self.page.order, self.pending, *read]))

    @property
    def outputs(self) -> list:
        """What they may change."""
        parts = [
            part
            for one in self.page.linked_fields
            for part in (*one.fields.values(), *one.outputs, *one.buttons)
        ]
        parts += [part for one in self.page.linked_jobs for part in one.outputs]
        return list(dict.fromkeys([self.board, self.page.tabs, self.page.order, self.pending, *parts]))

    def open_page(self, request: gr.Request, *given) -> dict:
        """The page is opened: with what the address says, or as always."""
        text = request.query_params.get(links.PARAMETER)
        if text is None:
            return {self.board: gr.skip()}
        given = dict(zip(self.inputs, given, strict=True))
        try:
            return self._bring(links.read_link(text), [], given)
        except ValueError as error:
            return self._tell({"refused": str(error)})

    def go_on(self, *given) -> dict:
        """A run has ended: if it was a link's, its next is trained, or what the link shows is opened."""
        given = dict(zip(self.inputs, given, strict=True))
        pending = given[self.pending]
        if pending is None:
            return {self.board: gr.skip()}
        run = given[self.page.session].runs.get(pending["ids"][-1])
        if run is not None and run.is_live:
            return {self.board: gr.skip()}
        over = {self.pending: None}
        try:
            return over | self._bring(pending["state"], pending["ids"], given)
        except ValueError as error:
            return over | self._tell({"refused": str(error)})

    def _bring(self, state: dict, ids: list[str], given: dict) -> dict:
        """Open what a link shows, or train the next of its runs; those with these ids are there."""
        kept, session = links.check_state(self.page.linked_fields, state), given[self.page.session]
        wanted = replay.runs_of(state)
        for place, again in enumerate(wanted[len(ids) :], len(ids) + 1):
            run = replay.find_again(session, again, ids)
            if run is None:
                return self._train(again, state, ids, given, links.say_training(again, place, len(wanted)))
            ids = [*ids, run.id]
        there = [
            (session.runs[one], again) for one, again in zip(ids, wanted, strict=True) if one in session.runs
        ]
        there = [(run, again) for run, again in there if run.step]
        if wanted and (not there or there[-1][1] is not wanted[-1]):
            return self._tell({"refused": GONE})
        return self._show(kept, state, there, given, links.say_missing(len(wanted) - len(there)))

    def _tell(self, said: dict) -> dict:
        return {self.board: boards.to_json({"turn": 0, **said})}

    def _train(self, again: replay.RunSpec, state: dict, ids: list[str], given: dict, said: str) -> dict:
        """Train a run of the sender's in the Train tab; what the link shows follows."""
        kept = next(one for one in self.page.linked_fields if one.tab == TRAIN)
        changes = kept.restore(again.fields, *(given[one] for one in kept.inputs))
        run, gone = replay.add_again(given[self.page.session], again, ids)
        said = f"{said} {gone}".strip()
        return changes | {
            self.page.tabs: gr.Tabs(selected=TRAIN),
            self.page.order: given[self.page.order] + 1,
            self.pending: {"state": state, "ids": [*ids, run.id]},
            **self._tell({"opened": {"tab": TRAIN, "boards": {}, "locked": [], "said": said}}),
        }

    def _show(self, found: list[LinkedFields], state: dict, there: list, given: dict, missing: str) -> dict:
        """Open the tab of a link with its fields as they were; `there` has its runs, the shown one last."""
        tab, values, changes = state["tab"], state.get("values", {}), {}
        boards, short = state.get("boards", {}), [links.say_steps(run, again.steps) for run, again in there]
        run_id = there[-1][0].id if there else None
        if tab == TRAIN:
            given[self.page.session].show(run_id)
        if table := boards.get(replay.TABLE):
            boards = boards | {replay.TABLE: table | {"laid": [run.id for run, _ in there[:-1]]}}
        learned = links.check_learned(self.page.linked_jobs, state)
        for one in found:
            own = {name: values.get(name, part.value) for name, part in one.fields.items()}
            if one.weights is not None:
                own[one.weights] = links.find_weights(self.page.catalog, own[one.weights], run_id)
            if one.restore is None:
                changes |= {part: with_value(own[name]) for name, part in one.fields.items()}
            else:
                changes |= one.restore(own, *(given[part] for part in one.inputs))
        for one, form, taken in learned:
            changes |= one.again(form, taken, *(given[part] for part in one.inputs))
        is_locked = state.get("locked", False)
        parts = [part for one in found for part in (*one.fields.values(), *one.buttons)]
        fields = [part.elem_id for part in parts if part.elem_id]
        opened = {
            "tab": tab,
            "boards": boards,
            "locked": fields if is_locked else [],
            "hidden": state.get("hidden", False),
            "said": " ".join(filter(None, [*short, missing, links.say_open(state, tab.title())])),
        }
        changes = lock(changes, found) if is_locked else changes
        return changes | {self.page.tabs: gr.Tabs(selected=tab)} | self._tell({"opened": opened})


def wire(page: Page, board: gr.HTML) -> None:
    """Connect the header, once every tab is built."""
    opening = Opening(page, board, gr.State(None))
    now = {**LIGHT, "queue": False}
    page.arrived.then(opening.open_page, opening.inputs, opening.outputs, **now)
    for ended in page.run_ended:
        ended.then(opening.go_on, opening.inputs, opening.outputs, **now)
    for tab in (child.id for child in page.tabs.children):
        kept = [one for one in page.linked_fields if one.tab == tab]
        states = [one.state for one in page.linked_jobs if one.tab == tab]
        read = [page.session, *states, *(part for one in kept for part in one.fields.values())]

        def copy(event: CopyEvent, *given, kept=kept, read=tuple(read)):
            return copy_link(page, kept, dict(zip(read, given, strict=True)), event)

        getattr(board, f"copy_{tab}")(copy, read, board, **now, trigger_mode="always_last")
