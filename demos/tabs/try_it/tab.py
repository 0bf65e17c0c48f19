"""Try: give a checkpoint an input of your own, choose how it writes, see what each symbol was chosen from."""

import json
from collections.abc import Mapping

import gradio as gr

from hf_attn.generation.generate import generate_answer
from hf_attn.generation.strategies import STRATEGIES, TEMPERATURE, Parameter, list_parameters
from hf_attn.tasks.base import CLASSES, SEQUENCE, TEXT

from ...core.fields import LARGEST_SEED, FieldError, blame, read_number
from ...session.catalog import LoadedModel
from ...session.model_input import AnsweredInput, InputEvents, as_ids, build_model_input, name_split
from ...session.page import LAST_NOW, LIGHT, NOW, Page
from ...session.session import Session
from ...snippets.views import answer_snippet
from ...ui import boards, formatting, notices
from .answer_view import LONGEST_SAID, AnswerView
from .challenge import build_challenge, remember, show_tried, take_broken, take_hard_input

TITLE = "Try"
ASSETS = ("try.css", "word_removal.js", "distribution.js", "beam_tree.js", "try_panels.js", "try_board.js")
BEGIN: list[notices.Part] = ["Choose a model, write an input, and press Write."]
# The board and the sentence fade.
WAITING = """on => document.querySelectorAll('#try-board .hf-try, .hf-lead:has(#try-origin)').forEach(
part => {
  part.classList.toggle('hf-waiting', on);
  part.ariaBusy = on;
})"""
CERTAIN = 0.995  # from here on a probability is shown as 100 %
DRAWS = 5  # answers that are drawn with seeds that follow one another


class TryState(AnsweredInput):
    """What a visitor's Try has answered."""


def sliders() -> dict[str, Parameter]:
    """The parameters that have a slider, by name; the temperature is the last."""
    return {name: row for name, row in list_parameters().items() if row.slider is not None}


def first_settings() -> dict[str, float]:
    return {"seed": 0} | {name: row.slider.start for name, row in sliders().items()}


def read_setting(name: str, given: object) -> float:
    """A number within its limits; FieldError begins with the label, as one line is for all settings."""
    row = list_parameters()[name]
    low, high = (row.slider.low, row.slider.high) if row.slider else (row.low, min(row.high, LARGEST_SEED))
    with blame(name, lambda sentence: f"{row.label}: {sentence}"):
        return read_number(
            name, given, low, high, whole=row.kind is int, example=first_settings().get(name, row.default)
        )


def read_settings(strategy: str, given: Mapping[str, object]) -> dict:
    """What a strategy uses of what is given; the rest may be anything."""
    if strategy not in STRATEGIES:
        quoted, known = formatting.shorten(str(strategy), 20), ", ".join(STRATEGIES)
        raise FieldError("strategy", f"“{quoted}” is not a strategy. Choose one of {known}.")
    used = (row.name for row in STRATEGIES[strategy].used if row.name in given)
    return {name: read_setting(name, given[name]) for name in used}


def show_answers(opened: LoadedModel, source: str, strategy: str, settings: dict, temperature: float) -> dict:
    """Everything that the board shows: the answer, other beams or draws, what each step chose from.

    `settings` are what the strategy uses; the board shows a temperature also where it uses none.
    """
    ids = opened.encode(source)
    board, asked = AnswerView(opened, source), as_ids(opened, ids)
    if opened.kind == CLASSES:
        value = board.show_generation(generate_answer(opened.model, asked)) | {
            "removal": board.show_removal()
        }
    else:
        how = settings | {"max_new_tokens": opened.most_own(len(ids))}
        first = generate_answer(opened.model, asked, strategy, **how)
        if STRATEGIES[strategy].samples:
            board.map_weights //= DRAWS
        value = board.show_beams(first.beams) if first.beams else board.show_generation(first)
        if STRATEGIES[strategy].samples:
            seeds = [(settings["seed"] + turn) % (LARGEST_SEED + 1) for turn in range(DRAWS)]
            draws = [
                generate_answer(opened.model, asked, strategy, **how | {"seed": seed}) for seed in seeds[1:]
            ]
            value |= {"seeds": seeds, "others": [board.show_generation(draw) for draw in draws]}
        value["how"] = {"strategy": strategy, "temperature": temperature} | settings
    if opened.task is not None and opened.task.is_reversed:
        value["order"] = "the last digit first"
    split = name_split(opened.task, source)
    return value | {"distributions": board.distributions.to_value(), "source": source, "split": split}


def tell_answer(value: dict, kind: str) -> list[notices.Part]:
    """The screen's sentence: what was written, whether it is right, and where the model was least sure."""
    lowest = min(value["written"], key=lambda one: one["probability"], default=None)
    if kind == CLASSES:
        return tell_class(value["written"][0], value["removal"])
    text = value.get("text") or " ".join(one["token"] for one in value["written"])
    cut = formatting.shorten if kind == TEXT else formatting.shorten_middle
    written = ("code", cut(text, LONGEST_SAID))
    if lowest is None:
        return ["The model writes nothing."]
    told = ["The model writes ", written, *notices.VERDICTS[value["correct"]], "."]
    if lowest["probability"] >= CERTAIN:
        return [*told, " Each symbol has at least 99.5", formatting.NARROW, "% of the probability."]
    share = ("b", formatting.percent(lowest["probability"], 0))
    return [*told, f" It is least sure of “{lowest['token'].strip() or lowest['token']}”: ", share, "."]


def tell_class(named: dict, removal: dict) -> list[notices.Part]:
    """The sentence of a classifier: the class, and the word whose removal costs it most."""
    share = formatting.percent(named["probability"], 0)
    word = max(removal["words"], key=lambda one: one["drop"])
    told = [
        "The model says ",
        ("b", named["token"]),
        f", {share}. Without ",
        ("code", word["word"]),
        " it says ",
    ]
    if word["turns"]:
        return [*told, ("b", word["turns"]), "."]
    return [*told, f"the same, {formatting.percent(word['left'], 0)}."]


def write(session: Session, values: dict[str, object]) -> dict:
    """Let the checkpoint write; wrong input leaves the board as it is.

    `values` has checkpoint and text, and may have the strategy and settings, by their short names.
    """
    chosen, text = values["checkpoint"], (values["text"] or "").strip()
    if chosen is None:
        begin = {"headline": notices.headline(BEGIN), "origin": notices.NOTHING}
        return {"board": None, "error": "", "wrong": ""} | begin
    given = {name: values[row.short] for name, row in list_parameters().items() if row.short in values}
    given = first_settings() | given
    try:
        with session.catalog.open(session, chosen) as opened:
            if not opened.has_answer:
                raise ValueError("This model writes nothing and names no class: look at it in Explore.")
            strategy = values.get("strategy", "greedy")
            settings = read_settings(strategy, given)
            temperature = read_setting("temperature", given["temperature"])
            value = show_answers(opened, text, strategy, settings, temperature)
            python = answer_snippet(opened, text, value.get("how", {}))
            board = boards.to_json(value | {"chosen": chosen, "python": python})
            told = notices.headline(tell_answer(value, opened.kind))
            if opened.kind == SEQUENCE and not STRATEGIES[strategy].samples:  # which may be wrong by chance
                remember(session, chosen, text, value)
            shown = {"board": board, "headline": told, "error": "", "origin": opened.origin, "wrong": ""}
            return shown | show_tried(session, chosen, opened)
    except FieldError as error:
        return {"error": "", "wrong": notices.field_error(str(error))}
    except ValueError as error:
        return {"error": notices.field_error(str(error)), "wrong": ""}


def draw_again(_session: Session, values: dict[str, object]) -> dict:
    """Another draw: the seed behind this one; one that is wrong stays, to be told."""
    try:
        return {"seed": str((int(read_setting("seed", values["seed"])) + 1) % (LARGEST_SEED + 1))}
    except FieldError:
        return {}


def show_settings(strategy: str, kind: str = SEQUENCE) -> dict[str, dict]:
    """Which sliders, the seed and the next draw are shown; none for a classifier."""
    row = STRATEGIES[strategy]
    shown = {one.short: one in (*row.parameters, TEMPERATURE) for one in sliders().values()}
    shown |= {"seed": row.samples, "again": row.samples}
    return {name: gr.update(visible=is_used and kind != CLASSES) for name, is_used in shown.items()}


def choose_model(session: Session, values: dict[str, object]) -> dict:
    """Button and settings for another checkpoint; a classifier has no way to choose."""
    opened = session.catalog.glance(session, values["checkpoint"])
    kind = opened.kind if opened else SEQUENCE
    return {
        "write": "Read" if kind == CLASSES else "Write",
        "strategy": gr.update(visible=kind != CLASSES),
        **show_settings(values["strategy"], kind),
        **show_tried(session, values["checkpoint"], opened),
    }


def build_script() -> str:
    """hfAttn.strategies of distribution.js: what its row says of each strategy."""
    lines = []
    for name, row in STRATEGIES.items():
        own = {one.name: [one.short, 0 if one.kind is int else 2] for one in row.parameters}
        told = {"title": row.title.lower(), "samples": row.samples, "own": own}
        keeps = f"({{ rank, before, p, most }}, {{ {', '.join(own)} }}) => {row.keeps}"
        cut = keeps if row.keeps else "null"
        lines.append(f"  {json.dumps(name)}: Object.assign({json.dumps(told)}, {{ keeps: {cut} }}),\n")
    return f"(window.hfAttn ||= {{}}).strategies = {{\n{''.join(lines)}}};"


def try_board(elem_id: str) -> gr.HTML:
    """Build the picture of one answer, which takes a `TryValue`: symbols, tree, distributions, beams, map."""
    return boards.build_board("try_board", "hf-try", elem_id, "rewrite")


def build(page: Page) -> None:
    row, parts = build_model_input(BEGIN, "try")
    with row:
        write_button = gr.Button("Write", variant="primary", elem_id="try-write", min_width=0)
        radio = {"elem_classes": "seg", "elem_id": "try-strategy"}
        titles = [(row.title, name) for name, row in STRATEGIES.items()]
        strategy = gr.Radio(titles, value="greedy", label="Choose each symbol by", **radio)
    challenge = build_challenge()
    with gr.Row(elem_classes="hf-how"):
        shown = show_settings("greedy")
        how = {}
        for one in sliders().values():
            look = {"step": one.slider.step, "label": one.label, "min_width": 160}
            look |= {"elem_id": f"try-{one.name.replace('_', '-')}", "visible": shown[one.short]["visible"]}
            how[one.short] = gr.Slider(one.slider.low, one.slider.high, one.slider.start, **look)
        drawn = [strategy, *how.values()]
        how["seed"] = seed = gr.Textbox(
            "0", label="Seed", max_lines=1, elem_id="try-seed", visible=False, min_width=80
        )
        again = gr.Button("Another draw", elem_id="try-again", visible=False, min_width=0)
    wrong = notices.build_error_line("try-how-error")
    board, chosen, settings = try_board("try-board"), {"strategy": strategy}, how | {"again": again}
    more = {"board": board, "wrong": wrong, "write": write_button, "again": again} | challenge
    others = (challenge["hard"], challenge["broken"])
    events = InputEvents(page, TryState, write, choose_model, parts, chosen | how, more, WAITING, others)
    events.wire_input()
    asked, text = {"checkpoint": parts["checkpoint"]}, {"text": parts["text"]}
    events.wire(page.connect(others[0].click, take_hard_input, asked, text, **NOW).then)
    events.wire(page.connect(others[1].input, take_broken, {"broken": others[1]}, text, **NOW).then)
    events.wire(write_button.click)
    events.wire(board.rewrite)
    shown = page.connect(
        strategy.input, lambda _, values: show_settings(values["strategy"]), chosen, settings, **LAST_NOW
    )
    events.wire(shown.then)
    events.wire([part.release for part in drawn[1:]] + [seed.submit])
    events.wire(page.connect(again.click, draw_again, {"seed": seed}, {"seed": seed}, **LAST_NOW).then)
    # the board draws the chosen step anew while a slider moves; what was written waits for its release
    named = ", ".join(["strategy", *sliders()])
    redraw = (
        f"({named}) => document.dispatchEvent(new CustomEvent('hf-try-how', {{ detail: {{ {named} }} }}))"
    )
    gr.on([part.input for part in drawn[1:]], None, drawn, None, js=redraw, **LIGHT)
