"""Try to break a model: inputs that are hard for it, and the visitor's own list of those it got wrong."""

import random
from collections.abc import Mapping

import gradio as gr
from gradio.components import Component

from hf_attn.evaluation.reach import can_reach
from hf_attn.tasks import Task

from ...session.catalog import LoadedModel
from ...session.model_input import weights_of
from ...session.session import Session
from ...ui import formatting, notices

TIMES = 20  # as long as any learned: a hard input of a model that reaches beyond
LONGEST = 200  # … but no longer than this, of which a map can be sent
DRAWN = 20  # hard inputs that are made until the task's options allow one
MOST_KEPT = 100  # inputs of one visitor that are remembered
SHORT = 24  # characters of an input and of an answer in the list


def build_challenge() -> dict[str, Component]:
    """Lay out the button, how often the model was wrong, and the list."""
    with gr.Row(elem_classes="hf-chips", elem_id="try-challenge"):
        look = {"size": "sm", "elem_classes": ["chip", "next"], "elem_id": "try-hard"}
        hard = gr.Button("Try to break it", visible=False, **look)
        tried = gr.HTML("", elem_id="try-tried")
        look = {"label": "It was wrong on", "elem_id": "try-broken", "min_width": 160}
        broken = gr.Dropdown([], visible=False, **look)
    return {"hard": hard, "tried": tried, "broken": broken}


def find_hard_input(task: Task, config, randomness: random.Random) -> str | None:
    """An input on which models stumble, a long one where this model reaches; None where the task has none."""
    if can_reach(task, config):
        size = max(task.largest_size + 1, min(TIMES * task.largest_size, LONGEST))
        size = min(size, task.longest_size)
        kinds = task.beyond(size, 1, randomness.randrange(2**31))
        return task.read_source(randomness.choice(list(kinds.values())).input_ids[0].tolist())
    makers = list(task.hard_inputs(randomness).values())
    for _ in range(DRAWN if makers else 0):
        try:
            made = randomness.choice(makers)()
            source = made if isinstance(made, str) else made[0]
            task.encode(source)
        except ValueError:  # the task's options do not allow it
            continue
        return source
    return None


def take_hard_input(session: Session, values: dict) -> dict:
    """The text of another hard input; what is written there stays where there is none."""
    opened = session.catalog.glance(session, values["checkpoint"])
    if opened is None or opened.task is None:
        return {}
    found = find_hard_input(opened.task, opened.model.config, random.Random())
    return {} if found is None else {"text": found}


def take_broken(_session: Session, values: dict) -> dict:
    """An input of the list once more."""
    return {"text": values["broken"]} if values["broken"] else {}


def remember(session: Session, chosen: str, source: str, value: Mapping) -> None:
    """Keep what became of an input of these weights, where anybody knows what is right."""
    if value["correct"] is None:
        return
    key, wrong = (weights_of(session, chosen), source), (value["text"], value["answer"])
    session.tried.pop(key, None)  # the newest stands last
    session.tried[key] = None if value["correct"] else wrong
    while len(session.tried) > MOST_KEPT:  # the oldest that was right goes first
        right = (key for key, wrong in session.tried.items() if wrong is None)
        del session.tried[next(right, next(iter(session.tried)))]


def show_tried(session: Session, chosen: str | None, opened: LoadedModel | None) -> dict:
    """Updates for the button, the line and the list."""
    task = opened.task if opened else None
    weights = weights_of(session, chosen)
    tried = {source: wrong for (key, source), wrong in session.tried.items() if key == weights}
    broken = {source: wrong for source, wrong in tried.items() if wrong is not None}
    sentences = []
    if task is not None and can_reach(task, opened.model.config):
        sentences.append(f"It learned at most {task.largest_size} {task.size_unit}.")
    if tried:
        inputs = "1 input" if len(tried) == 1 else f"{len(tried)} inputs"
        sentences.append(
            f"It was given {inputs} here and was wrong on {len(broken) or 'none'} (draws are not counted)."
        )
    choices = [(name_wrong(source, *wrong), source) for source, wrong in reversed(broken.items())]
    return {
        "hard": gr.update(visible=task is not None and bool(task.hard_inputs(random.Random(0)))),
        "tried": notices.note(" ".join(sentences)) if sentences else "",
        "broken": gr.update(choices=choices, value=None, visible=bool(broken)),
    }


def name_wrong(source: str, written: str, answer: str) -> str:
    """A line of the list: "99+1 → 90, not 100"."""
    source, written, answer = (formatting.shorten(text, SHORT) for text in (source, written, answer))
    return f"{source} → {written or 'nothing'}, not {answer}"
