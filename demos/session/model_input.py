"""The input of Try and Explore: a checkpoint, a text, examples to click; and when the tab answers it."""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import gradio as gr
import torch
from gradio.components import Component

from hf_attn.analysis.predictions import MASKED
from hf_attn.tasks import Task
from hf_attn.tasks.base import CLASSES, SEQUENCE, TEXT
from hf_attn.tasks.splits import HELD_OUT, TRAINING, VALIDATION

from ..core.events import Newest
from ..ui import formatting, notices
from .catalog import NONE_YET, LoadedModel
from .page import LAST, LIGHT, NOW, Page, change_of, clear_on_edit, with_value
from .session import Session

CHIPS = ("chip_1", "chip_2", "chip_3", "chip_4")
FOLLOWUPS = ("next_1", "next_2")  # what may be tried next with the text
SHORT = 60  # characters of an example
SPLIT_NAMES = {
    TRAINING: "training may draw this input",
    VALIDATION: "a validation input, which training never draws",
    HELD_OUT: "a held-out input, which training never draws",
    None: "an input of no split that is known here",
}
NUMBERS = itertools.count()  # of events that ask
OFFER = "Read it with the English model"
Handler = Callable[[Session, dict], dict]


@dataclass(eq=False)
class AnsweredInput:
    """What a visitor's tab has answered; each tab has a class of its own."""

    asked: Newest = field(default_factory=Newest)
    answered: tuple | None = None  # (checkpoint, step of its weights) that answered; None before the first
    seen: str | None = None  # the newest run when the checkpoints were last offered

    def is_newest(self, values: dict) -> bool:
        """Whether no question was asked after this one, by when the page says."""
        return self.asked.admits(values.get("asked", self.asked.sent_at))


def examples_of(task: Task | None) -> list[str]:
    """The worked example and up to three held-out ones, each of another size or class where possible."""
    if task is None:
        return []
    worked = task.worked_example.source
    try:
        return list(dict.fromkeys([worked, *EXAMPLES[task.kind](task)]))[: len(CHIPS)]
    except ValueError:  # the data are not on this machine
        return [worked]


def name_split(task: Task | None, source: str) -> str:
    """Which split an input is of, in words; nothing where none is asked for or the task has no such input."""
    if task is None or task.kind == TEXT:
        return ""
    try:
        if task.longest_size and task.size_of(source) > task.largest_size:
            return "longer than any that training draws"
        return SPLIT_NAMES[task.find_split(source)]
    except ValueError:  # it cannot be read, or the data are not here
        return ""


def held_out_of(task: Task) -> list[str]:
    """Held-out inputs, of as many sizes as there are."""
    held_out = [task.read_source(row) for row in task.held_out(60).input_ids.tolist()]
    found = {task.size_of(task.worked_example.source): task.worked_example.source}
    for source in sorted(held_out, key=len):
        found.setdefault(task.size_of(source), source)
    others = [source for source in found.values() if source != task.worked_example.source]
    others += [source for source in held_out if source not in others and len(source) < SHORT]
    return others[:: max(1, len(others) // (len(CHIPS) - 1))] if len(found) > len(CHIPS) else others


def one_of_each_class(task: Task) -> list[str]:
    batch = task.held_out(200)
    found: dict[int, str] = {}
    for ids, label in zip(batch.input_ids.tolist(), batch.labels.tolist(), strict=True):
        source = task.read_source(ids)
        if 12 < len(source) < SHORT:
            found.setdefault(label, source)
    return list(found.values())


EXAMPLES = {SEQUENCE: held_out_of, CLASSES: one_of_each_class, TEXT: lambda task: task.beginnings()}


def refresh_choices(session: Session, chosen: str | None, seen: str | None) -> tuple[dict, str | None]:
    """(update of the checkpoints, the newest run): a run that was not `seen` is chosen at once."""
    choices = session.catalog.choices(session)
    values = [value for _, value in choices]
    newest = next((value for value in values if value in session.runs), None)
    if newest not in (seen, None):
        chosen = newest
    elif chosen not in values:
        chosen = next(iter(values), None)
    return gr.update(choices=choices, value=chosen), newest


def weights_of(session: Session, chosen: str | None) -> tuple:
    """(checkpoint, the step of its weights if it is a run)."""
    run = session.runs.get(chosen)
    return chosen, run.step if run is not None else None


def suits(opened: LoadedModel, text: str) -> bool:
    """Whether a text that was written for another checkpoint can stay for this one."""
    try:
        opened.encode(text)
    except ValueError:
        return False
    if opened.task is None:  # sums and symbols are not what others' models were trained on
        if opened.tokenizer is None:
            return True
        mask = opened.tokenizer.mask_token if opened.predicts == MASKED else None
        if not all(sign in opened.tokenizer.get_vocab() for sign in re.findall(r"\[\w+\]|<\w+>", text)):
            return False  # of another model's tokenizer
        has_words = any(len(word) > 1 and word.isalpha() for word in text.split())
        return has_words and (mask is None or mask in text)
    return opened.task.suits(text)


def choose_checkpoint(session: Session, chosen: str | None, text: str | None) -> dict:
    """Text, error, hint and chips for another checkpoint; an input that it can read stays."""
    updates = {"text": "", "error": "", "hint": "", **dict.fromkeys(CHIPS, gr.update(visible=False))}
    if chosen is None:
        return updates | {"hint": notices.note(NONE_YET)}
    text = text or ""
    try:
        with session.catalog.open(session, chosen) as opened:
            task, examples = opened.task, examples_of(opened.task)
            has_tokenizer = opened.tokenizer is not None
            watched = opened.run.probe.source if opened.run is not None and opened.run.probe else ""
            if 0 < len(watched) < SHORT:
                examples = list(dict.fromkeys([watched, *examples]))[: len(CHIPS)]
            if not suits(opened, text):
                text = examples[0] if examples else opened.example
    except ValueError as error:
        return updates | {"error": notices.field_error(str(error))}
    shown = zip(CHIPS, examples, strict=False)
    chips = {name: gr.update(value=example, visible=True) for name, example in shown}
    hint = "any text" if has_tokenizer else "ids: this model came without a tokenizer"
    if task is not None:
        hint = f"{task.notation}, for example {formatting.shorten(task.worked_example.source, SHORT)}"
    return updates | {"text": text, "hint": notices.note(hint), **chips}


def offer_more(session: Session, chosen: str | None, text: str, *, is_wrong: bool) -> dict:
    """Chips with what may be tried next, and where a text was not read, the model that would read it."""
    opened = session.catalog.glance(session, chosen)
    followups = opened.task.followups(text) if opened and opened.task and not is_wrong else {}
    names = [*followups, *[None] * len(FOLLOWUPS)]
    shown = {
        chip: gr.update(value=name or "", visible=name is not None)
        for chip, name in zip(FOLLOWUPS, names, strict=False)
    }
    reader = session.catalog.find_reader(chosen, text) if is_wrong else None
    return shown | {"offer": gr.update(visible=reader is not None)}


def known_alignment(opened: LoadedModel, source: str, written: list[int]) -> list[list[int]] | None:
    """The known alignment of each written token with the input; None where the task has none."""
    if opened.task is None or not (written or opened.predicts):
        return None
    if not written:  # each word of a text, and the one behind it
        return opened.task.alignment("", opened.task.join_target(opened.task.split_source(source)))
    return opened.reader.alignment(source, opened.reader.decode(written))


def as_ids(opened: LoadedModel, ids: list[int]) -> torch.Tensor:
    """A tensor [1, S] on the model's device."""
    return torch.tensor([ids], device=next(opened.model.parameters()).device)


def build_model_input(sentence: list[notices.Part], name: str) -> tuple[gr.Row, dict[str, Component]]:
    """Lay out sentence and origin, then checkpoint, input and examples: (row for more, parts by name)."""
    # origin and hint are filled when the tab is opened
    parts: dict = {}
    parts["headline"], parts["origin"] = notices.build_lead(sentence, "", f"{name}-origin")
    with gr.Row(elem_classes="hf-ask") as row:
        parts["checkpoint"] = build_checkpoint(name)
        parts |= build_text(name)
    return row, parts | build_chips()


def build_checkpoint(name: str) -> gr.Dropdown:
    return gr.Dropdown([], label="Checkpoint", elem_id=f"{name}-checkpoint", min_width=0)


def build_text(name: str, **look) -> dict[str, Component]:
    """Lay out the input, what is wrong with it, and who else could read it."""
    typed = {"elem_id": f"{name}-text", "elem_classes": "hf-mono-input", "min_width": 0}
    return {
        "text": gr.Textbox("", label="Input", max_lines=1, **typed, **look),
        "error": notices.build_error_line(f"{name}-error"),
        "offer": gr.Button(OFFER, visible=False, elem_id=f"{name}-offer", elem_classes="offer"),
    }


def build_chips() -> dict[str, Component]:
    """Lay out the examples, and what an input may be."""
    parts: dict = {}
    with gr.Row(elem_classes="hf-chips"):
        for chip in FOLLOWUPS:
            parts[chip] = gr.Button("", visible=False, size="sm", elem_classes=["chip", "next"])
        for chip in CHIPS:
            parts[chip] = gr.Button("", visible=False, size="sm", elem_classes="chip")
        parts["hint"] = gr.HTML("")
    return parts | {"asked": gr.Number(0, visible=False)}


@dataclass(frozen=True, eq=False)
class InputEvents:
    """The handlers of a tab with a model input: they keep its fields in step, and answer.

    A tab answers once when it is opened, and again only where there is something new: another checkpoint,
    or a run that has learned since.
    """

    page: Page  # that is being built
    state: type[AnsweredInput]  # the class of what the tab has answered
    compute: Handler  # the tab's answer to the values of its fields
    change_model: Handler  # what else another checkpoint changes
    parts: dict[str, Component]  # of `build_model_input`
    own: dict[str, Component]  # fields of the tab that are read, and carried by its links, too, by name
    more: dict[str, Component]  # what else is updated, by name
    waiting: str  # JavaScript, a function of whether an answer is on its way: it fades the one that is shown
    others: tuple[
        Component, ...
    ] = ()  # what else changes the fields; disabled with them by a link that locks

    @property
    def fields(self) -> dict[str, Component]:
        return {name: self.parts[name] for name in ("checkpoint", "text")} | self.own

    @property
    def shows(self) -> dict[str, Component]:
        return self.parts | self.own | self.more

    def answer(self, session: Session, values: dict) -> dict:
        state = session.state(self.state)
        if not state.is_newest(values):
            return {}
        state.answered = weights_of(session, values["checkpoint"])
        updates = self.compute(session, values)
        if not state.is_newest(values):
            return {}
        is_wrong = bool(updates.get("error"))
        return updates | offer_more(session, values["checkpoint"], values["text"] or "", is_wrong=is_wrong)

    def open_tab(self, session: Session, values: dict) -> Iterator[dict]:
        """The tab was opened: offer the checkpoints there are, then answer where anything is new."""
        yield from self._ask(session, values, offers=True, if_new=True)

    def answer_if_new(self, session: Session, values: dict) -> Iterator[dict]:
        """A checkpoint was chosen: answer where anything is new."""
        yield from self._ask(session, values, if_new=True)

    def ask(self, session: Session, values: dict) -> Iterator[dict]:
        """An answer was asked for."""
        yield from self._ask(session, values)

    def _ask(
        self, session: Session, values: dict, *, offers: bool = False, if_new: bool = False
    ) -> Iterator[dict]:
        """Fill the fields where the last answer was another checkpoint's, then answer."""
        state, updates = session.state(self.state), {}
        is_empty = values["checkpoint"] is None  # asked before an opened tab has its checkpoints and its text
        if offers or is_empty:
            update, state.seen = refresh_choices(session, values["checkpoint"], state.seen)
            updates, values = {"checkpoint": update}, values | {"checkpoint": update["value"]}
        answered, chosen = state.answered, values["checkpoint"]
        if if_new and answered == weights_of(session, chosen):
            yield updates
            return
        if is_empty or answered is None or answered[0] != chosen:
            updates |= self._choose(session, values)
        if not state.is_newest(values):  # the newer question fills the fields
            yield offer_checkpoints(session) if offers else {}
            return
        yield updates
        changed = {name: change_of(updates.get(name, {})).get("value", values[name]) for name in values}
        yield self.answer(session, changed)
        yield {}  # Gradio sends the last message twice, the second time perhaps after a newer answer

    def restore(self, session: Session, values: dict) -> dict:
        """Open the tab with the values of a link; ValueError where its checkpoint is not there."""
        state, chosen = session.state(self.state), values["checkpoint"]
        if chosen not in [value for _, value in session.catalog.choices(session)]:
            try:
                chosen = session.catalog.take(session, str(chosen or "").strip())
            except (ValueError, OSError) as error:
                raise ValueError(f"The checkpoint of this link cannot be opened. {error}") from error
        values = values | {"checkpoint": chosen}
        updates = self._choose(session, values)
        updates |= {name: with_value(value, updates.get(name)) for name, value in values.items()}
        update, state.seen = refresh_choices(session, chosen, None)
        updates["checkpoint"] = update | {"value": chosen}
        return updates | self.answer(
            session, values | {"asked": state.asked.sent_at + 1}
        )  # after all questions

    def _choose(self, session: Session, values: dict) -> dict:
        filled = choose_checkpoint(session, values["checkpoint"], values["text"])
        return self.change_model(session, values) | filled

    def _connect(self, event, handler: Callable) -> None:
        """Let a handler answer; the answer before it fades until the event that asked last is answered."""
        last, number = f"hfAttn.{self.page.tab.id}AskedBy", next(NUMBERS)
        begin = f"{last} = {number}, ({self.waiting})(true)"
        js = f"(...values) => ({begin}, [...values.slice(0, -1), hfAttn.sentAt()])"
        reads = self.fields | {"asked": self.parts["asked"]}
        answered = self.page.connect(event, handler, reads, self.shows, js=js, **LAST)
        for ended in (answered.then, answered.failure):  # after an error Gradio runs `failure` alone
            ended(None, js=f"() => {{ if ({last} === {number}) ({self.waiting})(false); }}", **LIGHT)

    def wire(self, event, *, if_new: bool = False) -> None:
        """Let an event, or several in a list, answer, always or only if there is something new."""
        self._connect(event, self.answer_if_new if if_new else self.ask)

    def wire_input(self) -> None:
        """Connect checkpoint, text and examples, and let links carry the fields."""
        page, fields = self.page, self.fields
        checkpoint, text, chips = fields["checkpoint"], fields["text"], [self.parts[name] for name in CHIPS]
        chosen = {"checkpoint": checkpoint}
        self._connect(page.tab.select, self.open_tab)
        for ended in page.run_ended:
            page.connect(ended.then, offer_checkpoints, None, chosen, **NOW)
        self.wire(checkpoint.input, if_new=True)
        self.wire(text.submit)
        clear_on_edit(text, self.parts["error"])
        asked = {"checkpoint": checkpoint, "text": text}
        offered = page.connect(self.parts["offer"].click, take_offer, asked, chosen, **NOW)
        self.wire(offered.then, if_new=True)
        for name in FOLLOWUPS:
            part = self.parts[name]
            self.wire(
                page.connect(
                    part.click, take_followup, asked | {"followup": part}, {"text": text}, **NOW
                ).then
            )
        for chip in chips:
            taken = page.connect(chip.click, lambda _, values: values, {"text": chip}, {"text": text}, **NOW)
            self.wire(taken.then)
        page.link_fields(
            fields,
            varying=("checkpoint",),
            weights="checkpoint",
            opens=True,
            restore=self.restore,
            shows={name: part for name, part in self.shows.items() if name not in fields},
            buttons=(*chips, *(self.parts[name] for name in (*FOLLOWUPS, "offer")), *self.others),
        )


def take_offer(session: Session, values: dict) -> dict:
    """Choose the model that reads the text."""
    reader = session.catalog.find_reader(values["checkpoint"], values["text"] or "")
    return {} if reader is None else {"checkpoint": reader}


def take_followup(session: Session, values: dict) -> dict:
    """The text as a chip changes it."""
    opened = session.catalog.glance(session, values["checkpoint"])
    followups = opened.task.followups(values["text"] or "") if opened and opened.task else {}
    return {"text": followups[values["followup"]]} if values["followup"] in followups else {}


def offer_checkpoints(session: Session) -> dict:
    return {"checkpoint": gr.update(choices=session.catalog.choices(session))}
