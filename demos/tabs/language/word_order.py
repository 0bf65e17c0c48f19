"""Language, Order: a bag of words against attention, where only the order of words decides.

The boards take a `BagsValue` and an `OrderValue` of `ui/board_values.d.ts`.
"""

import dataclasses
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
from ...jobs.job import FAILED, FINISHED, RUNNING, STOPPED, TIME_UP, ReportedJob
from ...session.page import LAST, Page
from ...session.session import Session
from ...snippets.views import bags_snippet, word_order_snippet
from ...ui import boards, formatting, notices

NAME, TITLE = "order", "Order"
BEGIN: list[notices.Part] = ["Write two sentences of the same words, and press Compare."]
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
class WordOrderJob(ReportedJob):
    """A visitor's learning of which came first; nothing before the first. `models` are as they stand."""

    models: list[Learned] = field(default_factory=list)

    failure = "Learning failed"

    def begin(self) -> None:
        self.models, self.reports = [], learn_word_order(SIZES, SEED)

    def take(self, report: list[Learned]) -> None:
        self.models = report

    @property
    def done(self) -> float:
        steps = sum(model.points[-1][0] for model in self.models if model.points)
        return steps / (len(PLACES) * SIZES.steps)


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


def tell_distances(rows: list[dict]) -> list[notices.Part]:
    """The screen's sentence: how far the outputs of both sentences are apart, without and with positions."""
    without, with_them = (max(row["distance"][name] for row in rows) for name in PLACES)
    return [
        "Without positions attention reads both sentences as the same bag of words: the outputs differ by ",
        ("b", formatting.power(without) if without else "0"),
        " at most. With positions by ",
        ("b", f"{with_them:.2f}"),
        ".",
    ]


def compare(_: Session, values: dict) -> dict:
    """Compare two sentences; refused ones leave the board as it is."""
    try:
        words = read_sentence(values["first"], "first"), read_sentence(values["second"], "second")
        found = compare_word_orders(*words)
    except ValueError as error:
        return {"error": notices.field_error(str(error))}
    rows = [dataclasses.asdict(row) for row in found.rows]
    value = {"bag": found.bag, "names": list(PLACES), "rows": rows}
    told = notices.headline(tell_distances(rows))
    return {"bags": boards.to_json({**value, "python": bags_snippet(*words)}), "told": told, "error": ""}


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


def show_job(session: Session) -> dict:
    job = session.state(WordOrderJob)
    is_running = job.status == RUNNING
    return {
        "board": to_value(job),
        "start": gr.update(value="Learning…" if is_running else "Learn", interactive=not is_running),
        "stop": gr.update(interactive=is_running),
        "note": notices.note(status_message(job)),
    }


def start_job(session: Session, *_) -> WordOrderJob:
    """Let the models learn anew; there are no settings."""
    job = session.state(WordOrderJob)
    job.prepare({})
    job.models = []
    return job


def press_learn(session: Session) -> dict:
    """Train the models; nothing while they are training."""
    if not session.state(WordOrderJob).is_busy:
        start_job(session)
    return show_job(session)


def pick_pair(pair: str):
    first, second = pair.split(" / ")
    values = {"first": first, "second": second}
    return lambda session: values | compare(session, values)


def build_part(page: Page) -> None:
    told, _ = notices.build_lead(BEGIN, notices.origin(*ORIGIN))
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
    typed = {"first": one, "second": other}
    compared = {"bags": bags, "told": told, "error": error}
    page.link_fields(typed, buttons=tuple(chips))
    asked_by = [press.click, one.submit, other.submit, page.tab.select]
    page.connect(asked_by, compare, typed, compared, **LAST)
    for chip in chips:
        page.connect(chip.click, pick_pair(chip.value), None, {**typed, **compared}, **LAST)
    shown = {"board": board, "start": start, "stop": halt, "note": note}
    look = {"kind": WordOrderJob, "show": show_job, "shows": shown}
    view = page.link_job("order", **look, fields={}, start=start_job)
    page.drive(view, start.click, press_learn, None, halt.click)
