"""Try: give a checkpoint an input of your own, choose how it writes, see what each symbol was chosen from."""

import json
from collections.abc import Mapping

import gradio as gr

from hf_attn.generation.generate import generate_answer
from hf_attn.generation.strategies import STRATEGIES, TEMPERATURE, Parameter, list_parameters
from hf_attn.tasks.base import CLASSES, SEQUENCE

from ...core.fields import LARGEST_SEED, FieldError, read_number
from ...session.catalog import LoadedModel, ModelCatalog
from ...session.model_input import as_ids, build_model_input, wire_model_input
from ...session.page import LAST, LIGHT, NOW, Page
from ...session.session import Session
from ...snippets.views import answer_snippet
from ...ui import boards, formatting, notices
from .answer_view import AnswerView

TITLE = "Try"
ASSETS = ("try.css", "word_removal.js", "distribution.js", "beam_tree.js", "try_panels.js", "try_board.js")
LOOK_FOR = (
    "the symbol with the lowest probability: there the model wavers, and sampling may write something else."
)
LOOK_FOR_CLASS = (
    "the word whose removal costs most: an attention map says what is read, taking it out says what counts."
)
DRAWS = 5  # answers that are drawn with seeds that follow one another


def sliders() -> dict[str, Parameter]:
    """The parameters that have a slider, by name; the temperature is the last."""
    return {name: row for name, row in list_parameters().items() if row.slider is not None}


def first_settings() -> dict[str, float]:
    """What the fields hold at first."""
    return {"seed": 0} | {name: row.slider.start for name, row in sliders().items()}


def read_setting(name: str, given: object) -> float:
    """A number within its limits; FieldError begins with the label, as one line is for all settings."""
    row = list_parameters()[name]
    low, high = (row.slider.low, row.slider.high) if row.slider else (row.low, min(row.high, LARGEST_SEED))
    try:
        return read_number(name, given, low, high, whole=row.kind is int, example=first_settings()[name])
    except FieldError as error:
        raise FieldError(name, f"{row.label}: {error}") from error


def read_settings(strategy: str, given: Mapping[str, object]) -> dict:
    """What a strategy uses of what is given; the rest may be anything."""
    if strategy not in STRATEGIES:
        raise FieldError("strategy", f"There is no strategy called {formatting.shorten(str(strategy), 20)}.")
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
        value = board.show_beams(first.beams) if first.beams else board.show_generation(first)
        if STRATEGIES[strategy].samples:
            seeds = [(settings["seed"] + turn) % (LARGEST_SEED + 1) for turn in range(DRAWS)]
            draws = [
                generate_answer(opened.model, asked, strategy, **how | {"seed": seed}) for seed in seeds[1:]
            ]
            value |= {"seeds": seeds, "others": [board.show_generation(draw) for draw in draws]}
        value["how"] = {"strategy": strategy, "temperature": temperature} | settings
    return value | {"distributions": board.distributions.to_value(), "source": source}


def ask(
    catalog: ModelCatalog,
    session: Session,
    chosen: str | None,
    text: str,
    strategy: str = "greedy",
    **given: object,
) -> list:
    """Let the checkpoint write: [board, error, origin, what is wrong with a setting].

    `given` are the settings as the fields hold them. Wrong input leaves the board as it is.
    """
    if chosen is None:
        return [None, "", notices.origin("none yet", "none", "none"), ""]
    text = (text or "").strip()
    try:
        with catalog.open(session, chosen) as opened:
            if not opened.has_answer:
                raise ValueError("This model writes nothing and names no class: look at it in Explore.")
            given = first_settings() | given
            settings = read_settings(strategy, given)
            temperature = read_setting("temperature", given["temperature"])
            value = show_answers(opened, text, strategy, settings, temperature)
            python = answer_snippet(session, chosen, opened, text, value.get("how", {}))
            return [boards.to_json(value | {"chosen": chosen, "python": python}), "", opened.origin, ""]
    except FieldError as error:
        return [gr.skip(), "", gr.skip(), notices.field_error(str(error))]
    except ValueError as error:
        return [gr.skip(), notices.field_error(str(error)), gr.skip(), ""]


def next_seed(seed: object) -> str:
    """Another draw: the seed behind this one; one that is wrong stays, to be told."""
    try:
        return str((int(read_setting("seed", seed)) + 1) % (LARGEST_SEED + 1))
    except FieldError:
        return str(seed)


def show_settings(strategy: str, kind: str = SEQUENCE) -> list[dict]:
    """Which sliders, the seed and the next draw are shown; none for a classifier."""
    row = STRATEGIES[strategy]
    uses = [parameter in (*row.parameters, TEMPERATURE) for parameter in sliders().values()]
    return [gr.update(visible=shown and kind != CLASSES) for shown in (*uses, row.samples, row.samples)]


def choose(catalog: ModelCatalog, session: Session, chosen: str | None, strategy: str) -> list:
    """Another checkpoint: [button, strategy, look-for, settings…]; a classifier has no way to choose."""
    kind = catalog.kind(session, chosen)
    button = "Read" if kind == CLASSES else "Write"
    look_for = notices.look_for(LOOK_FOR_CLASS if kind == CLASSES else LOOK_FOR)
    return [button, gr.update(visible=kind != CLASSES), look_for, *show_settings(strategy, kind)]


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


def build_slider(row: Parameter, **look) -> gr.Slider:
    """A setting within its limits."""
    look |= {"step": row.slider.step, "label": row.label, "elem_id": f"try-{row.name.replace('_', '-')}"}
    return gr.Slider(row.slider.low, row.slider.high, row.slider.start, min_width=160, **look)


def try_board(elem_id: str) -> gr.HTML:
    """Build the picture of one answer, which takes a `TryValue`: symbols, tree, distributions, beams, map."""
    return boards.build_board("try_board", "hf-try", elem_id, "rewrite")


def build(page: Page) -> None:
    """Lay the tab out and connect it."""
    question, origin = build_model_input(LOOK_FOR, "try")
    with question.row:
        write_button = gr.Button("Write", variant="primary", elem_id="try-write", min_width=0)
        radio = {"elem_classes": "seg", "elem_id": "try-strategy"}
        strategy = gr.Radio(list(STRATEGIES), value="greedy", label="Choose each symbol by", **radio)
    with gr.Row(elem_classes="hf-how"):
        shown = show_settings("greedy")
        how = {
            name: build_slider(row, visible=look["visible"])
            for (name, row), look in zip(sliders().items(), shown, strict=False)
        }
        drawn = [strategy, *how.values()]
        how["seed"] = seed = gr.Textbox(
            "0", label="Seed", max_lines=1, elem_id="try-seed", visible=False, min_width=80
        )
        again = gr.Button("Another draw", elem_id="try-again", visible=False, min_width=0)
    wrong = gr.HTML("", elem_classes="hf-field-error", elem_id="try-how-error")
    board = try_board("try-board")
    catalog = page.catalog

    def answer(session, chosen, text, strategy, *values):
        return ask(catalog, session, chosen, text, strategy, **dict(zip(how, values, strict=True)))

    def turn(*chosen):
        return choose(catalog, *chosen)

    asked = [page.session, question.chosen, question.text, strategy, *how.values()]
    answered = [board, question.error, origin, wrong]
    settings = [*how.values(), again]
    turned = [write_button, strategy, question.look_for, *settings]
    other = (turn, [page.session, question.chosen, strategy], turned)
    others = {"strategy": strategy, **{list_parameters()[name].short: part for name, part in how.items()}}
    asking = wire_model_input(page, question, answer, asked, answered, other, others).always
    write_button.click(*asking, **LAST)
    board.rewrite(*asking, **LAST)
    strategy.input(show_settings, strategy, settings, **NOW).then(*asking, **LAST)
    gr.on([part.release for part in drawn[1:]] + [seed.submit], *asking, **LAST)
    again.click(next_seed, seed, seed, **NOW).then(*asking, **LAST)
    # the board draws the chosen step anew while a slider moves; what was written waits for its release
    named = ", ".join(["strategy", *sliders()])
    redraw = (
        f"({named}) => document.dispatchEvent(new CustomEvent('hf-try-how', {{ detail: {{ {named} }} }}))"
    )
    gr.on([part.input for part in drawn[1:]], None, drawn, None, js=redraw, **LIGHT)
