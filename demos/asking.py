"""What Try and Explore have in common: a checkpoint, an input, examples to click."""

from dataclasses import dataclass

import gradio as gr
import torch

from demos import shared
from demos.checkpoints import NONE_YET, Opened, Shelf, refresh
from demos.page import Page
from demos.visits import Visit
from hf_attn.tasks import Task
from hf_attn.tasks.base import CLASSES, SEQUENCE, TEXT

CHIPS = 4
SHORT = 60  # characters of an example
LIGHT = {"show_progress": "hidden", "api_visibility": "private"}


@dataclass
class Question:
    """The components on top of a tab; more may be put into `row`."""

    look_for: gr.HTML
    row: gr.Row
    chosen: gr.Dropdown
    text: gr.Textbox
    error: gr.HTML
    chips: list[gr.Button]
    hint: gr.HTML
    seen: gr.State


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
        return shared.note("any text")
    return shared.note(f"{task.notation}, for example {shared.shorten(task.worked_example.source, SHORT)}")


def look_again(shelf: Shelf, visit: Visit, chosen: str | None, seen: str | None) -> list:
    """The tab is opened, or a run has ended: [checkpoint, seen]."""
    choices, value, newest = refresh(shelf, visit, chosen, seen)
    return [gr.update(choices=choices, value=value), newest]


def choose(shelf: Shelf, visit: Visit, chosen: str | None, text: str) -> list:
    """Another checkpoint: [text, error, hint, chips…]; the input stays where the new model can read it."""
    hidden, text = gr.update(visible=False), text or ""
    if chosen is None:
        return ["", "", shared.note(NONE_YET), *[hidden] * CHIPS]
    try:
        with shelf.open(visit, chosen) as opened:
            task = opened.task
            chips = examples_of(task)
            try:
                opened.encode(text)
            except ValueError:
                text = chips[0] if chips else ""
    except ValueError as error:
        return ["", shared.field_error(str(error)), "", *[hidden] * CHIPS]
    shown = [gr.update(value=chip, visible=True) for chip in chips]
    return [text, "", hint_of(task), *shown, *[hidden] * (CHIPS - len(chips))]


def known_alignment(opened: Opened, source: str, written: list[int]) -> list[list[int]] | None:
    """Where each written token's answer lies in the source, as far as that is known."""
    if opened.task is None or not written:
        return None
    return opened.task.alignment(source, opened.task.decode(written))


def as_ids(opened: Opened, ids: list[int]) -> torch.Tensor:
    """[1, S] where the model is."""
    return torch.tensor([ids], device=next(opened.model.parameters()).device)


def build_question(look_for: str, name: str) -> tuple[Question, gr.HTML]:
    """Lay out look-for and origin, then checkpoint, input and examples: (components, origin)."""
    with gr.Row(elem_classes="hf-lead"):
        looked = gr.HTML(shared.look_for(look_for))
        origin = gr.HTML(shared.origin("none yet", "none", "none"), elem_id=f"{name}-origin")
    with gr.Row(elem_classes="hf-ask") as row:
        chosen = gr.Dropdown([], label="Checkpoint", elem_id=f"{name}-checkpoint", min_width=0)
        typed = {"elem_id": f"{name}-text", "elem_classes": "hf-mono-input", "min_width": 0}
        text = gr.Textbox("", label="Input", max_lines=1, **typed)
    error = gr.HTML("", elem_classes="hf-field-error", elem_id=f"{name}-error")
    with gr.Row(elem_classes="hf-chips"):
        chips = [gr.Button("", visible=False, size="sm", elem_classes="chip") for _ in range(CHIPS)]
        hint = gr.HTML(shared.note(NONE_YET))
    return Question(looked, row, chosen, text, error, chips, hint, gr.State(None)), origin


def wire_question(page: Page, question: Question, ask, asked: list, answer: list) -> None:
    """Keep checkpoints, input and examples in step, and ask anew whenever one of them changes.

    Args:
        page: gives visit, shelf and the events after which there is something new.
        question: the components.
        ask: the tab's handler; reads `asked` and fills `answer`.
        asked: its inputs.
        answer: its outputs.
    """
    visit, shelf = page.visit, page.shelf

    def look(visit, chosen, seen):
        return look_again(shelf, visit, chosen, seen)

    def pick(visit, chosen, text):
        return choose(shelf, visit, chosen, text)

    def ask_again(*given):
        if not given[asked.index(question.text)]:  # not filled yet: what fills it asks, too
            return [gr.skip()] * len(answer)
        return ask(*given)

    light, now = LIGHT, {**LIGHT, "queue": False}
    offered, reads = [question.chosen, question.seen], [visit, question.chosen, question.seen]
    page.tab.select(look, reads, offered, **now).then(ask_again, asked, answer, **light)
    for ended in page.run_ended:
        ended.then(look, reads, offered, **now)
    filled = [question.text, question.error, question.hint, *question.chips]
    changed = question.chosen.change(pick, [visit, question.chosen, question.text], filled, **now)
    changed.then(ask, asked, answer, **light)
    question.text.submit(ask, asked, answer, **light)
    for chip in question.chips:
        chip.click(lambda example: example, chip, question.text, **now).then(ask, asked, answer, **light)
