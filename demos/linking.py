"""Copy link, and the page that a link opens: the header's board and its handlers.

Value of `link_board` (demos/assets/link_board.js): `to_json` of None or one of

    {turn, made, said}      the text for the address, and what is to be known of it; turn is the question's
    {turn, refused}         why there is no link, or why one was not opened (turn 0)
    {turn 0, opened}        {tab, boards, locked [ids of fields], hidden, said}: what a link asks of the page

It sends `copy_<tab>` with `event.turn`, `.boards`, `.locked` and `.hidden`.
"""

from dataclasses import dataclass

import gradio as gr

from demos import links, rerunning, shared
from demos.page import LIGHT, Kept, Page, change_of, with_value

TRAIN = "train"
NOTHING = "A link shows another tab: open the one that it is to show, then copy."
GONE = "The sender's model could not be trained here; the settings stand in Train."


def build_header(tabs: list[str]) -> gr.HTML:
    """Build the top of the page: the brand, Copy link, and what a link says."""
    template = f'{shared.BRAND}<div class="hf-link hf-board"></div>'
    events = tuple(f"copy_{tab}" for tab in tabs)
    return shared.board("link_board", "hf-header", "link-board", template, events)


def copy_link(page: Page, kept: list[Kept], given: dict, event) -> str:
    """The link to what a tab shows, or why there is none: the board's value; `given` is by component."""
    try:
        if not kept:
            raise ValueError(NOTHING)
        values = {name: given[part] for one in kept for name, part in one.fields.items()}
        learned = links.tell_learned(page.learned, kept[0].tab, given)
        visit = given[page.visit]
        state, said = links.describe_view(kept, page.shelf, visit, values, event.boards, learned)
        state |= {name: True for name in ("locked", "hidden") if getattr(event, name)}
        return shared.to_json({"turn": event.turn, "made": links.write_link(state), "said": said})
    except ValueError as error:
        return shared.to_json({"turn": event.turn, "refused": str(error)})


def lock(changes: dict, kept: list[Kept]) -> dict:
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
        pending: gr.State of the link whose run is being trained; None where none is.
    """

    page: Page
    board: gr.HTML
    pending: gr.State

    @property
    def inputs(self) -> list:
        """What the handlers read."""
        read = [part for one in (*self.page.kept, *self.page.learned) for part in one.inputs]
        return list(dict.fromkeys([self.page.visit, self.page.order, self.pending, *read]))

    @property
    def outputs(self) -> list:
        """What they may change."""
        parts = [
            part for one in self.page.kept for part in (*one.fields.values(), *one.outputs, *one.buttons)
        ]
        parts += [part for one in self.page.learned for part in one.outputs]
        return list(dict.fromkeys([self.board, self.page.tabs, self.page.order, self.pending, *parts]))

    def open_page(self, request: gr.Request, *given) -> dict:
        """The page is opened: with what the address says, or as always."""
        text = request.query_params.get(links.PARAMETER)
        if text is None:
            return {self.board: gr.skip()}
        given = dict(zip(self.inputs, given, strict=True))
        try:
            state = links.read_link(text)
            kept = links.check_state(self.page.kept, state)
            if "run" not in state:
                return self._show(kept, state, None, given)
            fields, steps = rerunning.check_run(state["run"])
            film = rerunning.film_of(state.get("boards", {}))
            run = rerunning.find_again(given[self.page.visit], fields, steps, film)
            if run is not None:
                return self._show(kept, state, run.id, given)
            return self._train(fields, steps, film, state, given)
        except ValueError as error:
            return self._tell({"refused": str(error)})

    def go_on(self, *given) -> dict:
        """A run has ended: if it was a link's, what the link shows is opened."""
        given = dict(zip(self.inputs, given, strict=True))
        state = given[self.pending]
        if state is None:
            return {self.board: gr.skip()}
        run = given[self.page.visit].runs.get(state["run"]["id"])
        if run is not None and run.is_live:
            return {self.board: gr.skip()}
        over = {self.pending: None}
        if run is None or not run.step:
            return self._tell({"refused": GONE}) | over
        try:
            kept = links.check_state(self.page.kept, state)
            short = links.say_steps(run.step, state["run"]["steps"])
            return self._show(kept, state, run.id, given, short) | over
        except ValueError as error:
            return self._tell({"refused": str(error)}) | over

    def _tell(self, said: dict) -> dict:
        return {self.board: shared.to_json({"turn": 0, **said})}

    def _train(self, fields: dict, steps: int, film: frozenset | None, state: dict, given: dict) -> dict:
        """Train the sender's run in the Train tab; what the link shows follows."""
        kept = next(one for one in self.page.kept if one.tab == TRAIN)
        changes = kept.restore(fields, *(given[one] for one in kept.inputs))
        run = rerunning.add_again(given[self.page.visit], fields, steps, film)
        said = links.say_training(run.task.name, steps)
        return changes | {
            self.page.tabs: gr.Tabs(selected=TRAIN),
            self.page.order: given[self.page.order] + 1,
            self.pending: {**state, "run": {"id": run.id, "steps": steps}},
            **self._tell({"opened": {"tab": TRAIN, "boards": {}, "locked": [], "said": said}}),
        }

    def _show(
        self, found: list[Kept], state: dict, run_id: str | None, given: dict, before: str = ""
    ) -> dict:
        """Open the tab of a link with its fields as they were."""
        tab, values, changes = state["tab"], state.get("values", {}), {}
        learned = links.check_learned(self.page.learned, state)
        for one in found:
            own = {name: values.get(name, part.value) for name, part in one.fields.items()}
            if one.weights is not None:
                own[one.weights] = links.find_weights(self.page.shelf, own[one.weights], run_id)
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
            "boards": state.get("boards", {}),
            "locked": fields if is_locked else [],
            "hidden": state.get("hidden", False),
            "said": f"{before} {links.say_open(state, tab.title())}".strip(),
        }
        changes = lock(changes, found) if is_locked else changes
        return changes | {self.page.tabs: gr.Tabs(selected=tab)} | self._tell({"opened": opened})


def wire(page: Page, board: gr.HTML) -> None:
    """Connect the header, once every tab is built."""
    opening = Opening(page, board, gr.State(None))
    now = {**LIGHT, "queue": False}
    page.blocks.load(opening.open_page, opening.inputs, opening.outputs, **now)
    for ended in page.run_ended:
        ended.then(opening.go_on, opening.inputs, opening.outputs, **now)
    for tab in (child.id for child in page.tabs.children):
        kept = [one for one in page.kept if one.tab == tab]
        states = [one.state for one in page.learned if one.tab == tab]
        read = [page.visit, *states, *(part for one in kept for part in one.fields.values())]

        def copy(event: gr.EventData, *given, kept=kept, read=tuple(read)):
            return copy_link(page, kept, dict(zip(read, given, strict=True)), event)

        getattr(board, f"copy_{tab}")(copy, read, board, **now, trigger_mode="always_last")
