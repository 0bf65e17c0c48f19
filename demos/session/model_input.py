"""What Try and Explore have in common: a checkpoint, an input, examples to click."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import gradio as gr
import torch

from hf_attn.tasks import Task
from hf_attn.tasks.base import CLASSES, SEQUENCE, TEXT

from ..ui import formatting, notices
from .catalog import NONE_YET, LoadedModel, ModelCatalog, refresh
from .page import LAST, LIGHT, Page, change_of, clear_on_edit, state_of, with_value
from .session import Session

CHIPS = 4
SHORT = 60  # characters of an example


@dataclass(eq=False)
class Shown:
    """What a visitor's tab shows.

    Attributes:
        asked: the newest question; the answer to an older one that comes late is dropped.
        of: checkpoint, and step of its weights, that were asked; None before the first.
    """

    asked: object = None
    of: tuple | None = None


@dataclass
class ModelInput:
    """The components on top of a tab; more may be put into `row`."""

    look_for: gr.HTML
    row: gr.Row
    chosen: gr.Dropdown
    text: gr.Textbox
    error: gr.HTML
    chips: list[gr.Button]
    hint: gr.HTML
    seen: gr.State
    shown: gr.State

    @property
    def filled(self) -> list:
        """What a checkpoint fills in, in the order of `choose`."""
        return [self.text, self.error, self.hint, *self.chips]


def examples_of(task: Task | None) -> list[str]:
    """The worked example and three held-out ones, each of another size or class where there are such."""
    if task is None:
        return []
    worked = task.worked_example.source
    try:
        return list(dict.fromkeys([worked, *EXAMPLES[task.kind](task)]))[:CHIPS]
    except ValueError:  # the data are not on this machine
        return [worked]


def held_out_of(task: Task) -> list[str]:
    """Held-out sources, of as many sizes as there are."""
    held_out = [task.read_source(row) for row in task.held_out(60).input_ids.tolist()]
    found = {task.size_of(task.worked_example.source): task.worked_example.source}
    for source in sorted(held_out, key=len):
        found.setdefault(task.size_of(source), source)
    others = [source for source in found.values() if source != task.worked_example.source]
    others += [source for source in held_out if source not in others and len(source) < SHORT]
    return others[:: max(1, len(others) // (CHIPS - 1))] if len(found) > CHIPS else others


def one_of_each_class(task: Task) -> list[str]:
    """A short held-out text of each of the classes."""
    batch = task.held_out(200)
    found: dict[int, str] = {}
    for ids, label in zip(batch.input_ids.tolist(), batch.labels.tolist(), strict=True):
        source = task.read_source(ids)
        if 12 < len(source) < SHORT:
            found.setdefault(label, source)
    return list(found.values())


def beginnings(task: Task) -> list[str]:
    """How held-out passages begin."""
    texts = [task.decode([index for index in row if index >= 0]) for row in task.held_out(40).labels.tolist()]
    return [" ".join(text.split()[:3]) for text in texts if len(text.split()) > 3 and text[0].isupper()]


EXAMPLES = {SEQUENCE: held_out_of, CLASSES: one_of_each_class, TEXT: beginnings}


def hint_of(task: Task | None) -> str:
    """What may be written."""
    if task is None:
        return notices.note("any text")
    return notices.note(
        f"{task.notation}, for example {formatting.shorten(task.worked_example.source, SHORT)}"
    )


def look_again(catalog: ModelCatalog, session: Session, chosen: str | None, seen: str | None) -> list:
    """The tab is opened: [checkpoint, seen]."""
    choices, value, newest = refresh(catalog, session, chosen, seen)
    return [gr.update(choices=choices, value=value), newest]


def weights_of(session: Session, chosen: str | None) -> tuple:
    """A checkpoint, and the step at which a run's weights are."""
    run = session.runs.get(chosen)
    return chosen, run.step if run is not None else None


def updated(given: dict, changes: dict) -> dict:
    """Inputs by component, as these updates of components leave them."""
    skip = gr.skip()
    return {one: change_of(changes.get(one, skip)).get("value", value) for one, value in given.items()}


def watched_of(session: Session, chosen: str) -> list[str]:
    """The example whose attention Train drew for a run, if it is one and is short enough for a button."""
    run = session.runs.get(chosen)
    watched = run.probe.source if run is not None and run.probe is not None else ""
    return [watched] if 0 < len(watched) < SHORT else []


def choose(catalog: ModelCatalog, session: Session, chosen: str | None, text: str) -> list:
    """Another checkpoint: [text, error, hint, chips…]; the input stays where the new model can read it."""
    hidden, text = gr.update(visible=False), text or ""
    if chosen is None:
        return ["", "", notices.note(NONE_YET), *[hidden] * CHIPS]
    try:
        with catalog.open(session, chosen) as opened:
            task = opened.task
            chips = [*watched_of(session, chosen), *examples_of(task)]
            chips = list(dict.fromkeys(chips))[:CHIPS]
            try:
                opened.encode(text)
            except ValueError:
                text = chips[0] if chips else ""
    except ValueError as error:
        return ["", notices.field_error(str(error)), "", *[hidden] * CHIPS]
    shown = [gr.update(value=chip, visible=True) for chip in chips]
    return [text, "", hint_of(task), *shown, *[hidden] * (CHIPS - len(chips))]


def known_alignment(opened: LoadedModel, source: str, written: list[int]) -> list[list[int]] | None:
    """Where each written token's answer lies in the source, as far as that is known."""
    if opened.task is None or not written:
        return None
    return opened.task.alignment(source, opened.task.decode(written))


def as_ids(opened: LoadedModel, ids: list[int]) -> torch.Tensor:
    """[1, S] where the model is."""
    return torch.tensor([ids], device=next(opened.model.parameters()).device)


def build_model_input(look_for: str, name: str) -> tuple[ModelInput, gr.HTML]:
    """Lay out look-for and origin, then checkpoint, input and examples: (components, origin)."""
    with gr.Row(elem_classes="hf-lead"):
        computed = gr.HTML(notices.look_for(look_for))
        origin = gr.HTML("", elem_id=f"{name}-origin")  # said, as the hint is, when the tab is opened
    with gr.Row(elem_classes="hf-ask") as row:
        chosen = gr.Dropdown([], label="Checkpoint", elem_id=f"{name}-checkpoint", min_width=0)
        typed = {"elem_id": f"{name}-text", "elem_classes": "hf-mono-input", "min_width": 0}
        text = gr.Textbox("", label="Input", max_lines=1, **typed)
        error = gr.HTML("", elem_classes="hf-field-error", elem_id=f"{name}-error")
    with gr.Row(elem_classes="hf-chips"):
        chips = [gr.Button("", visible=False, size="sm", elem_classes="chip") for _ in range(CHIPS)]
        hint = gr.HTML("")
    states = gr.State(None), state_of(Shown())
    return ModelInput(computed, row, chosen, text, error, chips, hint, *states), origin


@dataclass(frozen=True, eq=False)
class InputEvents:
    """The handlers of a tab's question: they keep checkpoints, input and examples in step, and answer.

    A tab answers once when it is opened, and again only where there is something new: another checkpoint,
    or weights that have learned since. What is shown is read and written by the handler that answers.

    Attributes:
        page: gives session, catalog and the events after which there is something new.
        question: the components.
        ask: the tab's handler; reads `asked` and fills `answer`.
        asked: its inputs.
        answer: its outputs.
        turn: what else another checkpoint changes: (handler, its inputs, which are of `asked`, its outputs).
        others: the tab's own fields, {name in a link: component}, all of them of `asked`.
    """

    page: Page
    question: ModelInput
    ask: Callable[..., list]
    asked: list
    answer: list
    turn: tuple[Callable[..., list], list, list]
    others: dict

    @property
    def now(self) -> tuple:
        """(handler, inputs, outputs) of every button that asks."""
        return self.answer_now, [self.question.shown, *self.asked], self.answer

    @property
    def new(self) -> tuple:
        """(handler, inputs, outputs) of every event after which there may be something new."""
        return self.answer_new, [self.question.shown, *self.asked], self.filled

    @property
    def filled(self) -> list:
        """What another checkpoint changes."""
        return list(dict.fromkeys([*self.question.filled, *self.turn[2], *self.answer]))

    def answer_now(self, shown: Shown, *given) -> dict:
        """Answer what stands in the fields."""
        return self._answer(shown, self._by_component(given))

    def answer_new(self, shown: Shown, *given) -> Iterator[dict]:
        """The tab is opened, or a checkpoint chosen: what goes with it, then the answer, where it is new."""
        given = self._by_component(given)
        chosen = given[self.question.chosen]
        if shown.of == weights_of(given[self.page.session], chosen):
            yield {self.question.error: gr.skip()}
            return
        changes = self._pick(given) if shown.of is None or shown.of[0] != chosen else {}
        yield changes or {self.question.error: gr.skip()}
        yield self._answer(shown, updated(given, changes))

    def restore(self, values: dict, shown: Shown, *given) -> dict:
        """The tab is opened by a link that carries these values.

        Raises:
            ValueError: there is no such checkpoint.
        """
        wanted = {component: values[name] for name, component in self.fields.items()}
        given, question = self._by_component(given) | wanted, self.question
        session, chosen = given[self.page.session], given[question.chosen]
        choices = self.page.catalog.choices(session)
        if chosen not in [value for _, value in choices]:
            chosen = given[question.chosen] = self._take(session, chosen)
            choices = self.page.catalog.choices(session)
        changes = self._pick(given)
        for component, value in wanted.items():
            changes[component] = with_value(value, changes.get(component))
        changes[question.chosen] = gr.update(choices=choices, value=chosen)
        changes[question.seen] = look_again(self.page.catalog, session, chosen, None)[1]
        return changes | self._answer(shown, given)

    def _take(self, session: Session, name: object) -> str:
        """A folder or a Hub id that a link names is opened as one that is typed."""
        try:
            return self.page.catalog.take(session, str(name or "").strip())
        except (ValueError, OSError) as error:
            raise ValueError(f"The checkpoint of this link cannot be opened. {error}") from error

    @property
    def fields(self) -> dict:
        """{name in a link: component}."""
        return {"checkpoint": self.question.chosen, "text": self.question.text, **self.others}

    def _by_component(self, given: tuple) -> dict:
        return dict(zip(self.asked, given, strict=True))

    def _pick(self, given: dict) -> dict:
        """What goes with a checkpoint: {component: update}."""
        turn, turned_by, turned = self.turn
        changes = dict(zip(turned, turn(*(given[one] for one in turned_by)), strict=True))
        catalog, chosen, text = self.page.catalog, given[self.question.chosen], given[self.question.text]
        picked = choose(catalog, given[self.page.session], chosen, text)
        return changes | dict(zip(self.question.filled, picked, strict=True))

    def _answer(self, shown: Shown, given: dict) -> dict:
        mine = shown.asked = object()
        shown.of = weights_of(given[self.page.session], given[self.question.chosen])
        found = dict(zip(self.answer, self.ask(*given.values()), strict=True))
        return (
            found if shown.asked is mine else dict.fromkeys(self.answer, gr.skip())
        )  # asked again meanwhile


def wire_ask(asked_by: Callable, asking: tuple, waiting: tuple[str, str] | None) -> None:
    """Let an event ask; `waiting` is the JavaScript that says so, and that ends it.

    Gradio takes an event's listeners in their order, so what says that one waits comes first.
    """
    begin, end = waiting or (None, None)
    if begin:
        asked_by(None, js=begin, **LIGHT)
    answered = asked_by(*asking, **LAST)
    if end:
        answered.then(None, js=end, **LIGHT)


def wire_model_input(
    page: Page, question: ModelInput, ask, asked: list, answer: list, turn, others=None, waiting=None
) -> InputEvents:
    """Connect a tab's model input and let links carry it; arguments as for InputEvents and `wire_ask`."""
    asking = InputEvents(page, question, ask, asked, answer, turn, others or {})
    shown, seen, chosen = question.shown, question.seen, question.chosen
    now = {**LIGHT, "queue": False}

    def look(session, chosen, seen):
        return look_again(page.catalog, session, chosen, seen)

    def offer(session):
        return gr.update(choices=page.catalog.choices(session))

    page.tab.select(look, [page.session, chosen, seen], [chosen, seen], **now).then(*asking.new, **LAST)
    for ended in page.run_ended:
        ended.then(offer, page.session, chosen, **now)
    wire_ask(chosen.input, asking.new, waiting)
    wire_ask(question.text.submit, asking.now, waiting)
    clear_on_edit(question.text, question.error)
    for chip in question.chips:
        picked = chip.click(lambda example: example, chip, question.text, **now)
        wire_ask(picked.then, asking.now, waiting)
    page.link_fields(
        asking.fields,
        varying=("checkpoint",),
        weights="checkpoint",
        restore=asking.restore,
        inputs=(shown, *asked),
        outputs=(chosen, seen, *asking.filled),
        buttons=tuple(question.chips),
    )
    return asking
