"""Language, Order: a bag of words against attention, where only the order of words decides.

Values of the boards (demos/tabs/language/word_order.js), each `to_json` of None or a dict.

    bags_board      bag {word: how often};  names: ways of telling places
                    rows [{word, places [first, second] from 0 or None, distance {name: share of the length}}]
    order_board     status "running" | "stopped" | "finished" | "error";  message: what failed
                    twins: two sequences;  examples
                    models [{name, parameters, steps, points [[step, accuracy]], answers [two classes] or [],
                    right [bool], is_done}]
"""

import contextlib
import dataclasses
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import gradio as gr

from hf_attn.experiments.word_order import Order, WordOrderSizes
from hf_attn.experiments.words.bag_of_words import (
    PLACES,
    Learned,
    compare_word_orders,
    learn_word_order,
    twins,
)
from hf_attn.experiments.words.sentences import split_words

from ...core.limits import refuse_longer
from ...jobs.job import LATE, MESSAGE_SECONDS, ending, last_moment
from ...jobs.training_job import FAILED, FINISHED, RUNNING, STOPPED
from ...session.page import LAST, LIGHT, Page, state_of
from ...snippets import views as python_lines
from ...ui import boards, formatting, notices

NAME, TITLE = "order", "Order"
LOOK_FOR = (
    "the column near 0: without positions each word's output is the same wherever it stands, as in a bag."
)
FIRST = ("dog bites man", "man bites dog")
CHIPS = (
    "dog bites man / man bites dog",
    "only I said that you left / I said that only you left",
    "the bank by the river / the river by the bank",
)
MOST_WORDS = 24
LONGEST = 300  # characters of a sentence
SIZES, SEED = WordOrderSizes(), 0
ORIGIN = ("one encoder layer, 2 heads", "untrained, seed 0", "CPU")
READY = "Naive Bayes counts letters; attention learns without and with positions, from the same examples."


@dataclass(eq=False)
class WordOrderJob:
    """A visitor's learning of which came first; nothing before the first.

    Attributes:
        models: as they stand.
        status: "running", "stopped", "finished" or "error"; message says what failed.
        wants_stop: set by the button, heeded at the next report.
        is_late: it was stopped because its time on this server was up.
        form: no settings, once it was begun; None before.
        taken: one number, how many reports it has come through.
        until: the same, where a link says when it ends.
    """

    models: list[Learned] = field(default_factory=list)
    status: str | None = None
    message: str = ""
    wants_stop: bool = False
    is_late: bool = False
    form: dict | None = None
    taken: list[int] = field(default_factory=lambda: [0])
    until: list[int] | None = None

    @property
    def done(self) -> float:
        """The share of all steps that is taken."""
        taken = sum(model.points[-1][0] for model in self.models if model.points)
        return taken / (len(PLACES) * SIZES.steps)


def read_sentence(text: str | None, which: str) -> list[str]:
    """A sentence's words.

    Raises:
        ValueError: none, or too many.
    """
    refuse_longer(f"{which} sentence", text, LONGEST)
    words = split_words(text or "")
    if not words:
        raise ValueError(f"The {which} sentence is empty: write two words or more.")
    if len(words) > MOST_WORDS:
        raise ValueError(
            f"The {which} sentence has {len(words)} words; up to {MOST_WORDS} are read: shorten it."
        )
    return words


def ask(one: str | None, other: str | None) -> list:
    """Compare two sentences: [board, error]; refused ones leave the board as it is."""
    try:
        words = read_sentence(one, "first"), read_sentence(other, "second")
        found = compare_word_orders(*words)
    except ValueError as error:
        return [gr.skip(), notices.field_error(str(error))]
    rows = [dataclasses.asdict(row) for row in found.rows]
    told = {"bag": found.bag, "names": list(PLACES), "rows": rows}
    return [boards.to_json({**told, "python": python_lines.explain_bags(*words)}), ""]


def to_value(lesson: WordOrderJob) -> str | None:
    """What the board is told of a lesson."""
    if not lesson.models:
        return None
    pair = twins(SIZES)
    truth = [Order(SIZES.length).answer(one) for one in pair]
    models = [
        dataclasses.asdict(model)
        | {"right": [given == true for given, true in zip(model.answers, truth, strict=False)]}
        for model in lesson.models
    ]
    told = {"status": lesson.status, "message": lesson.message, "examples": SIZES.examples}
    python = python_lines.explain_order(SIZES, SEED)
    return boards.to_json(told | {"twins": pair, "models": models, "python": python})


def tell(lesson: WordOrderJob) -> str:
    """One sentence on what happens or happened."""
    share = formatting.percent(min(1.0, lesson.done), 0)
    return {
        None: READY,
        RUNNING: f"Learning, {share}. Stop takes effect at once.",
        STOPPED: f"Stopped at {share}{LATE if lesson.is_late else ''}; what was measured is kept.",
        FINISHED: "Done: equal bags with opposite answers can only be told apart with positions.",
        FAILED: "Failed; the line above the curves says why.",
    }[lesson.status]


def show(lesson: WordOrderJob) -> list:
    """[board, start, stop, note] as the lesson stands."""
    is_running = lesson.status == RUNNING
    return [
        to_value(lesson),
        gr.update(value="Learning…" if is_running else "Learn", interactive=not is_running),
        gr.update(interactive=is_running),
        notices.note(tell(lesson)),
    ]


def learn(lesson: WordOrderJob) -> Iterator[list]:
    """Let them learn and show each report; nothing while one is under way."""
    if lesson.status == RUNNING:
        yield [gr.skip()] * 4
        return
    lesson.models, lesson.status, lesson.message, lesson.wants_stop = [], RUNNING, "", False
    lesson.form, lesson.taken = {}, [0]
    shown_at, until = -math.inf, last_moment()
    with ending(lesson, "Learning failed"):
        with contextlib.closing(learn_word_order(SIZES, SEED)) as moments:
            for models in moments:
                lesson.is_late = time.monotonic() > until
                lesson.wants_stop |= lesson.taken == lesson.until or lesson.is_late
                if lesson.wants_stop:
                    break
                lesson.models, lesson.taken = models, [lesson.taken[0] + 1]
                if time.monotonic() - shown_at >= MESSAGE_SECONDS:
                    yield show(lesson)
                    shown_at = time.monotonic()
        lesson.status = STOPPED if lesson.wants_stop else FINISHED
    lesson.until = None
    yield show(lesson)


def stop(lesson: WordOrderJob) -> None:
    """Ask the lesson to end at its next report."""
    lesson.wants_stop = True


def build_part(page: Page) -> None:
    """Lay the part out and connect it."""
    with gr.Row(elem_classes="hf-lead"):
        gr.HTML(notices.look_for(LOOK_FOR))
        gr.HTML(notices.origin(*ORIGIN))
    with gr.Row(elem_classes="hf-line-of-text hf-two-texts"):
        typed = {"max_lines": 1, "elem_classes": "hf-mono-input", "min_width": 0}
        one = gr.Textbox(FIRST[0], label="First sentence", elem_id="order-one", **typed)
        other = gr.Textbox(FIRST[1], label="Second sentence, the same words", elem_id="order-other", **typed)
        press = gr.Button("Compare", variant="primary", elem_id="order-compare", min_width=0)
    error = gr.HTML("", elem_classes="hf-field-error", elem_id="order-error")
    with gr.Row(elem_classes="hf-chips"):
        chips = [gr.Button(chip, size="sm", elem_classes="chip") for chip in CHIPS]
        gr.HTML(notices.note(f"up to {MOST_WORDS} words each"))
    bags = boards.build_board("bags_board", "hf-language", "bags-board")
    with gr.Row(elem_classes="hf-learn-line"):
        start = gr.Button("Learn", elem_id="order-learn", min_width=0)
        halt = gr.Button("Stop", variant="stop", interactive=False, elem_id="order-stop", min_width=0)
        said = gr.HTML(notices.note(READY), elem_id="order-note")
    board = boards.build_board("order_board", "hf-language", "order-board")
    lesson = state_of(WordOrderJob(), stop)
    answered = [bags, error]
    page.link_fields({"first": one, "second": other}, buttons=tuple(chips))
    gr.on([press.click, one.submit, other.submit, page.tab.select], ask, [one, other], answered, **LAST)
    for chip in chips:
        pair = chip.value.split(" / ")
        picked = chip.click(lambda pair=pair: pair, None, [one, other], **LIGHT, queue=False)
        picked.then(ask, [one, other], answered, **LAST)
    order = gr.Number(0, visible="hidden")  # its change starts what a link learns again
    in_turn = {"concurrency_id": "train", "concurrency_limit": page.places}
    gr.on([start.click, order.change], learn, lesson, [board, start, halt, said], **LIGHT, **in_turn)

    def open_again(_form, taken, lesson, last):
        lesson.until = taken
        return {order: last + 1}

    page.link_job("order", {}, lesson, open_again, inputs=(lesson, order), outputs=(order,))
    halt.click(stop, lesson, None, **LIGHT, queue=False)
