"""The input of Try and Explore: a checkpoint, a text, examples to click; and when the tab answers it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import gradio as gr
import torch

from hf_attn.tasks import Task
from hf_attn.tasks.base import CLASSES, SEQUENCE, TEXT

from ..ui import formatting, notices
from .catalog import NONE_YET, LoadedModel, ModelCatalog, newest_choices
from .page import LAST, LIGHT, NOW, Page, change_of, clear_on_edit, state_of, with_value
from .session import Session

CHIPS = 4
SHORT = 60  # characters of an example


@dataclass(eq=False)
class AnsweredInput:
    """What a visitor's tab has answered.

    Attributes:
        request: the newest; a late answer to an older one is dropped.
        weights: (checkpoint, step) that answered; None before the first.
    """

    request: object = None
    weights: tuple | None = None


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
    answered: gr.State

    @property
    def filled(self) -> list:
        """The outputs of `choose_checkpoint`."""
        return [self.text, self.error, self.hint, *self.chips]


def examples_of(task: Task | None) -> list[str]:
    """The worked example and up to three held-out ones, each of another size or class where possible."""
    if task is None:
        return []
    worked = task.worked_example.source
    try:
        return list(dict.fromkeys([worked, *EXAMPLES[task.kind](task)]))[:CHIPS]
    except ValueError:  # the data are not on this machine
        return [worked]


def held_out_of(task: Task) -> list[str]:
    """Held-out inputs, of as many sizes as there are."""
    held_out = [task.read_source(row) for row in task.held_out(60).input_ids.tolist()]
    found = {task.size_of(task.worked_example.source): task.worked_example.source}
    for source in sorted(held_out, key=len):
        found.setdefault(task.size_of(source), source)
    others = [source for source in found.values() if source != task.worked_example.source]
    others += [source for source in held_out if source not in others and len(source) < SHORT]
    return others[:: max(1, len(others) // (CHIPS - 1))] if len(found) > CHIPS else others


def one_of_each_class(task: Task) -> list[str]:
    batch = task.held_out(200)
    found: dict[int, str] = {}
    for ids, label in zip(batch.input_ids.tolist(), batch.labels.tolist(), strict=True):
        source = task.read_source(ids)
        if 12 < len(source) < SHORT:
            found.setdefault(label, source)
    return list(found.values())


def beginnings(task: Task) -> list[str]:
    texts = [task.decode([index for index in row if index >= 0]) for row in task.held_out(40).labels.tolist()]
    return [" ".join(text.split()[:3]) for text in texts if len(text.split()) > 3 and text[0].isupper()]


EXAMPLES = {SEQUENCE: held_out_of, CLASSES: one_of_each_class, TEXT: beginnings}


def hint_of(task: Task | None) -> str:
    if task is None:
        return notices.note("any text")
    return notices.note(
        f"{task.notation}, for example {formatting.shorten(task.worked_example.source, SHORT)}"
    )


def refresh_choices(catalog: ModelCatalog, session: Session, chosen: str | None, seen: str | None) -> list:
    """The tab was opened: [checkpoint, seen]."""
    choices, value, newest = newest_choices(catalog, session, chosen, seen)
    return [gr.update(choices=choices, value=value), newest]


def weights_of(session: Session, chosen: str | None) -> tuple:
    """(checkpoint, the step of its weights if it is a run)."""
    run = session.runs.get(chosen)
    return chosen, run.step if run is not None else None


def updated(given: dict, changes: dict) -> dict:
    """Inputs by component, after these updates of components."""
    skip = gr.skip()
    return {one: change_of(changes.get(one, skip)).get("value", value) for one, value in given.items()}


def watched_of(session: Session, chosen: str) -> list[str]:
    """The example that Train watched in this run, if it is short enough for a button."""
    run = session.runs.get(chosen)
    watched = run.probe.source if run is not None and run.probe is not None else ""
    return [watched] if 0 < len(watched) < SHORT else []


def choose_checkpoint(catalog: ModelCatalog, session: Session, chosen: str | None, text: str) -> list:
    """[text, error, hint, chips…] for another checkpoint; an input that it can read stays."""
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
    """The known alignment of each written token with the input; None where the task has none."""
    if opened.task is None or not written:
        return None
    return opened.task.alignment(source, opened.task.decode(written))


def as_ids(opened: LoadedModel, ids: list[int]) -> torch.Tensor:
    """A tensor [1, S] on the model's device."""
    return torch.tensor([ids], device=next(opened.model.parameters()).device)


def build_model_input(look_for: str, name: str) -> tuple[ModelInput, gr.HTML]:
    """Lay out look-for and origin, then checkpoint, input and examples: (components, origin)."""
    # origin and hint are filled when the tab is opened
    look_for_line, origin = notices.build_lead(look_for, "", f"{name}-origin")
    with gr.Row(elem_classes="hf-ask") as row:
        chosen = gr.Dropdown([], label="Checkpoint", elem_id=f"{name}-checkpoint", min_width=0)
        typed = {"elem_id": f"{name}-text", "elem_classes": "hf-mono-input", "min_width": 0}
        text = gr.Textbox("", label="Input", max_lines=1, **typed)
        error = notices.build_error_line(f"{name}-error")
    with gr.Row(elem_classes="hf-chips"):
        chips = [gr.Button("", visible=False, size="sm", elem_classes="chip") for _ in range(CHIPS)]
        hint = gr.HTML("")
    states = gr.State(None), state_of(AnsweredInput())
    return ModelInput(look_for_line, row, chosen, text, error, chips, hint, *states), origin


@dataclass(frozen=True, eq=False)
class InputEvents:
    """The handlers of a tab with a model input: they keep its fields in step, and answer.

    A tab answers once when it is opened, and again only where there is something new: another checkpoint,
    or a run that has learned since. Only the handlers that answer read and write `AnsweredInput`.

    Attributes:
        page: gives session, catalog and the events after which there is something new.
        parts: the components.
        compute: the tab's handler, from `inputs` to `outputs`.
        on_model_change: what else another checkpoint changes: (handler, some of the inputs, its outputs).
        fields: what a link carries, {name: component}, all of them inputs.
    """

    page: Page
    parts: ModelInput
    compute: Callable[..., list]
    inputs: list
    outputs: list
    on_model_change: tuple[Callable[..., list], list, list]
    fields: dict

    @property
    def always(self) -> tuple:
        """(handler, inputs, outputs) for buttons: answer."""
        return self.answer, [self.parts.answered, *self.inputs], self.outputs

    @property
    def if_new(self) -> tuple:
        """(handler, inputs, outputs) for events after which there may be something new."""
        return self.answer_if_new, [self.parts.answered, *self.inputs], self.all_outputs

    @property
    def all_outputs(self) -> list:
        return list(dict.fromkeys([*self.parts.filled, *self.on_model_change[2], *self.outputs]))

    def answer(self, answered: AnsweredInput, *values) -> dict:
        return self._answer(answered, self._by_component(values))

    def answer_if_new(self, answered: AnsweredInput, *values) -> Iterator[dict]:
        """The tab was opened or a checkpoint chosen: fill its fields, then answer, where anything is new."""
        values = self._by_component(values)
        chosen = values[self.parts.chosen]
        if answered.weights == weights_of(values[self.page.session], chosen):
            yield {self.parts.error: gr.skip()}
            return
        changes = self._choose(values) if answered.weights is None or answered.weights[0] != chosen else {}
        yield changes or {self.parts.error: gr.skip()}
        yield self._answer(answered, updated(values, changes))

    def restore(self, linked: dict, answered: AnsweredInput, *values) -> dict:
        """Open the tab with the values of a link; ValueError where its checkpoint is not there."""
        wanted = {component: linked[name] for name, component in self.fields.items()}
        values, parts, catalog = self._by_component(values) | wanted, self.parts, self.page.catalog
        session, chosen = values[self.page.session], values[parts.chosen]
        if chosen not in [value for _, value in catalog.choices(session)]:
            try:
                chosen = values[parts.chosen] = catalog.take(session, str(chosen or "").strip())
            except (ValueError, OSError) as error:
                raise ValueError(f"The checkpoint of this link cannot be opened. {error}") from error
        changes = self._choose(values)
        for component, value in wanted.items():
            changes[component] = with_value(value, changes.get(component))
        changes[parts.chosen] = gr.update(choices=catalog.choices(session), value=chosen)
        changes[parts.seen] = refresh_choices(catalog, session, chosen, None)[1]
        return changes | self._answer(answered, values)

    def _by_component(self, values: tuple) -> dict:
        return dict(zip(self.inputs, values, strict=True))

    def _choose(self, values: dict) -> dict:
        """Updates for another checkpoint: {component: update}."""
        change, read, changed = self.on_model_change
        changes = dict(zip(changed, change(*(values[part] for part in read)), strict=True))
        read = [values[part] for part in (self.page.session, self.parts.chosen, self.parts.text)]
        return changes | dict(
            zip(self.parts.filled, choose_checkpoint(self.page.catalog, *read), strict=True)
        )

    def _answer(self, answered: AnsweredInput, values: dict) -> dict:
        request = answered.request = object()
        answered.weights = weights_of(values[self.page.session], values[self.parts.chosen])
        results = dict(zip(self.outputs, self.compute(*values.values()), strict=True))
        is_newest = answered.request is request
        return results if is_newest else dict.fromkeys(self.outputs, gr.skip())


def wire_answer(event: Callable, answering: tuple, waiting: tuple[str, str] | None) -> None:
    """Let an event answer; `waiting` is JavaScript that shows the waiting, and that ends it.

    Gradio runs an event's listeners in their order, so the waiting message is registered first.
    """
    begin, end = waiting or (None, None)
    if begin:
        event(None, js=begin, **LIGHT)
    answered = event(*answering, **LAST)
    if end:
        answered.then(None, js=end, **LIGHT)


def wire_model_input(
    page: Page,
    parts: ModelInput,
    compute,
    inputs: list,
    outputs: list,
    on_model_change,
    own=None,
    waiting=None,
) -> InputEvents:
    """Connect a tab's model input; `own` fields of the tab are in its links too, {name: component}."""
    fields = {"checkpoint": parts.chosen, "text": parts.text, **(own or {})}
    events = InputEvents(page, parts, compute, inputs, outputs, on_model_change, fields)
    seen, chosen = parts.seen, parts.chosen

    def refresh(session, chosen, seen):
        return refresh_choices(page.catalog, session, chosen, seen)

    def offer(session):
        return gr.update(choices=page.catalog.choices(session))

    opened = page.tab.select(refresh, [page.session, chosen, seen], [chosen, seen], **NOW)
    opened.then(*events.if_new, **LAST)
    for ended in page.run_ended:
        ended.then(offer, page.session, chosen, **NOW)
    wire_answer(chosen.input, events.if_new, waiting)
    wire_answer(parts.text.submit, events.always, waiting)
    clear_on_edit(parts.text, parts.error)
    for chip in parts.chips:
        picked = chip.click(lambda example: example, chip, parts.text, **NOW)
        wire_answer(picked.then, events.always, waiting)
    page.link_fields(
        fields,
        varying=("checkpoint",),
        weights="checkpoint",
        restore=events.restore,
        inputs=(parts.answered, *inputs),
        outputs=(chosen, seen, *events.all_outputs),
        buttons=tuple(parts.chips),
    )
    return events
