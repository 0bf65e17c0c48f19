"""Language, Order: a bag of words against attention, where only the order of words decides.

The boards take a `BagsValue` and an `OrderValue` of `ui.board_values`.
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
from ...jobs.job import MESSAGE_SECONDS, TIME_UP, deadline, record_failure
from ...jobs.training_job import FAILED, FINISHED, RUNNING, STOPPED
from ...session.page import LAST, NOW, Page, state_of
from ...snippets.views import bags_snippet, word_order_snippet
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
        taken = sum(model.points[-1][0] for model in self.models if model.points)
        return taken / (len(PLACES) * SIZES.steps)


def read_sentence(text: str | None, which: str) -> list[str]:
    """A sentence's words; ValueError for none or too many."""
    refuse_longer(f"{which} sentence", text, LONGEST)
    words = split_words(text or "")
    if not words:
        raise ValueError(f"The {which} sentence is empty: write two words or more.")
    if len(words) > MOST_WORDS:
        raise ValueError(
            f"The {which} sentence has {len(words)} words; up to {MOST_WORDS} are read: shorten it."
        )
    return words


def compare(one: str | None, other: str | None) -> list:
    """Compare two sentences: [board, error]; refused ones leave the board as it is."""
    try:
        words = read_sentence(one, "first"), read_sentence(other, "second")
        found = compare_word_orders(*words)
    except ValueError as error:
        return [gr.skip(), notices.field_error(str(error))]
    rows = [dataclasses.asdict(row) for row in found.rows]
    value = {"bag": found.bag, "names": list(PLACES), "rows": rows}
    return [boards.to_json({**value, "python": bags_snippet(*words)}), ""]


def to_value(job: WordOrderJob) -> str | None:
    if not job.models:
        return None
    pair = twins(SIZES)
    truth = [Order(SIZES.length).answer(one) for one in pair]
    models = [
        dataclasses.asdict(model)
        | {"right": [answer == true for answer, true in zip(model.answers, truth, strict=False)]}
        for model in job.models
    ]
    value = {"status": job.status, "message": job.message, "examples": SIZES.examples}
    python = word_order_snippet(SIZES, SEED)
    return boards.to_json(value | {"twins": pair, "models": models, "python": python})


def status_message(job: WordOrderJob) -> str:
    share = formatting.percent(min(1.0, job.done), 0)
    return {
        None: READY,
        RUNNING: f"Learning, {share}. Stop takes effect at once.",
        STOPPED: f"Stopped at {share}{TIME_UP if job.is_late else ''}; what was measured is kept.",
        FINISHED: "Done: equal bags with opposite answers can only be told apart with positions.",
        FAILED: "Failed; the line above the curves says why.",
    }[job.status]


def show_job(job: WordOrderJob) -> list:
    """[board, start, stop, note]."""
    is_running = job.status == RUNNING
    return [
        to_value(job),
        gr.update(value="Learning…" if is_running else "Learn", interactive=not is_running),
        gr.update(interactive=is_running),
        notices.note(status_message(job)),
    ]


def learn(job: WordOrderJob) -> Iterator[list]:
    """Train the models and show each report; nothing while they are training."""
    if job.status == RUNNING:
        yield [gr.skip()] * 4
        return
    job.models, job.status, job.message, job.wants_stop = [], RUNNING, "", False
    job.form, job.taken = {}, [0]
    shown_at, until = -math.inf, deadline()
    with record_failure(job, "Learning failed"):
        with contextlib.closing(learn_word_order(SIZES, SEED)) as moments:
            for models in moments:
                job.is_late = time.monotonic() > until
                job.wants_stop |= job.taken == job.until or job.is_late
                if job.wants_stop:
                    break
                job.models, job.taken = models, [job.taken[0] + 1]
                if time.monotonic() - shown_at >= MESSAGE_SECONDS:
                    yield show_job(job)
                    shown_at = time.monotonic()
        job.status = STOPPED if job.wants_stop else FINISHED
    job.until = None
    yield show_job(job)


def stop(job: WordOrderJob) -> None:
    job.wants_stop = True


def build_part(page: Page) -> None:
    notices.build_lead(LOOK_FOR, notices.origin(*ORIGIN))
    with gr.Row(elem_classes="hf-line-of-text hf-two-texts"):
        typed = {"max_lines": 1, "elem_classes": "hf-mono-input", "min_width": 0}
        one = gr.Textbox(FIRST[0], label="First sentence", elem_id="order-one", **typed)
        other = gr.Textbox(FIRST[1], label="Second sentence, the same words", elem_id="order-other", **typed)
        press = gr.Button("Compare", variant="primary", elem_id="order-compare", min_width=0)
    error = notices.build_error_line("order-error")
    with gr.Row(elem_classes="hf-chips"):
        chips = [gr.Button(chip, size="sm", elem_classes="chip") for chip in CHIPS]
        gr.HTML(notices.note(f"up to {MOST_WORDS} words each"))
    bags = boards.build_board("bags_board", "hf-language", "bags-board")
    with gr.Row(elem_classes="hf-learn-line"):
        start = gr.Button("Learn", elem_id="order-learn", min_width=0)
        halt = gr.Button("Stop", variant="stop", interactive=False, elem_id="order-stop", min_width=0)
        note = gr.HTML(notices.note(READY), elem_id="order-note")
    board = boards.build_board("order_board", "hf-language", "order-board")
    job = state_of(WordOrderJob(), stop)
    answered = [bags, error]
    page.link_fields({"first": one, "second": other}, buttons=tuple(chips))
    gr.on([press.click, one.submit, other.submit, page.tab.select], compare, [one, other], answered, **LAST)
    for chip in chips:
        pair = chip.value.split(" / ")
        picked = chip.click(lambda pair=pair: pair, None, [one, other], **NOW)
        picked.then(compare, [one, other], answered, **LAST)
    order = gr.Number(0, visible="hidden")  # its change starts what a link learns again
    gr.on([start.click, order.change], learn, job, [board, start, halt, note], **page.in_turn)

    def open_again(_form, taken, job, last):
        job.until = taken
        return {order: last + 1}

    page.link_job("order", {}, job, open_again, inputs=(job, order), outputs=(order,))
    halt.click(stop, job, None, **NOW)
