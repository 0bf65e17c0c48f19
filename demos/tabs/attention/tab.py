"""Attention: any cell of any map, number by number; the texts' worked examples; an exercise by hand.

Its boards take an `AttentionValue`, a `HandValue` and a `RolesValue` of `ui/board_values.d.ts`.
"""

import dataclasses
import html
from dataclasses import dataclass

import gradio as gr

from hf_attn.checkpoints.save_load import BUNDLED
from hf_attn.interpret.random_head import HEADS
from hf_attn.textbooks import DOCUMENTS
from hf_attn.textbooks.exercises import BANKS, check_hand_exercise, separate_query_key_value
from hf_attn.textbooks.worked_examples import WORKED_EXAMPLES, exercise_1

from ...core.events import Event, Place
from ...core.limits import refuse_longer
from ...session.catalog import ENGLISH
from ...session.model_input import OFFER
from ...session.page import EACH_NOW, LAST, LAST_NOW, LIGHT, NOW, Page
from ...session.session import Session
from ...snippets.views import exercise_snippet, qkv_steps_snippet
from ...ui import boards, formatting, notices
from . import head_view, story
from .head_view import RANDOM, WORKED, HeadView, Settings

TITLE = "Attention"
ASSETS = (
    "attention.css",
    "arithmetic.js",
    "textbook_figures.js",
    "attention_board.js",
    "hand_board.js",
    "qkv_steps.js",
)
LONGEST = 1000  # characters
TAKE_AWAY = "Take a head away\nA head is one such map. Is it needed?"
LOOK_ELSEWHERE = "Explore a trained model\nThese weights learned nothing."
LONGEST_LABEL = 24  # characters of the input on the button of the examples
TYPED = "Sentence or input"
OWN_SENTENCE = " To read a sentence of your own, choose “random weights, any sentence” under Weights."
GIVEN = "The example's own sentence; random weights read yours"
FORGOTTEN = {  # what was changed → what no longer holds then
    "weights": ("text", "place", "head", "scale", "causal", "hidden", "without"),
    "text": ("hidden", "without"),
    "place": ("head", "scale", "causal", "hidden"),
    "num_heads": ("head",),
}
TRAINED = {  # bundled checkpoint → what it does
    "attn-parser": "parse an expression",
    "attn-addition": "add two numbers",
    "attn-copy": "copy",
    "attn-sort": "sort",
    "attn-dates": "rewrite a date",
    "attn-docstring-topics": "name a topic",
}
SENTENCES = {
    "the cat … it was tired": "the cat sat on the mat because it was tired . the tired",
    "the cat … it was soft": "the cat sat on the mat because it was soft . the soft",
    "fisherman's bank": "the fisherman sat at the bank and watched the",
    "clerk's bank": "the clerk sat at the bank and watched the",
}


def list_examples() -> dict[str, dict[str, Settings]]:
    """Examples by group: trained models, the English one, then the texts by their titles."""
    groups: dict[str, dict[str, Settings]] = {
        "Trained models": {
            label: Settings(str(BUNDLED / name))
            for name, label in TRAINED.items()
            if (BUNDLED / name).is_dir()
        },
        "English": {text: Settings(str(BUNDLED / ENGLISH), sentence) for text, sentence in SENTENCES.items()},
    }
    if not (BUNDLED / ENGLISH).is_dir():
        del groups["English"]
    groups["A sentence with random weights"] = {
        "river bank": Settings(RANDOM, BANKS[0]),
        "cash bank": Settings(RANDOM, BANKS[1]),
    }
    for name, example in WORKED_EXAMPLES.items():
        group = groups.setdefault(f"“{DOCUMENTS[example.document].title}”", {})
        group[example.title] = Settings(WORKED + name)
    return groups


EXAMPLES = list_examples()
# the sentence's button is a part of its text
SWAP = "element.addEventListener('click', event => event.target.closest('button') && trigger(\"swap\"))"
FOCUS_SWAP = "() => document.querySelector('#attention-headline button')?.focus()"
UNFOLD = "() => document.querySelector('#attention-board .hf-unfold').click()"
NOTHING_WRITTEN = {"scores": [[""] * 3] * 3, "weights": [[""] * 3] * 3, "outputs": [[""] * 2] * 3}
KINDS = {"cross": "answer reads input", "encoder": "input reads itself", "decoder": "answer reads itself"}
# waits for the Train tab to be there, then presses its button, unless something else is set or under way
START_COPY = """() => {
    const begin = (left) => {
        const press = document.querySelector('#train');
        const task = document.querySelector('#field-task input');
        if (!press || !task) return left && setTimeout(() => begin(left - 1), 50);
        if (press.textContent.trim() === 'Train' && task.value === 'Copy') press.click();
    };
    begin(100);
}"""


@dataclass(eq=False)
class AttentionState:
    """What a visitor looks at."""

    id: int = 0  # counts the maps that were shown, so that a late question about an older one is dropped
    view: HeadView | None = None  # the newest; None while it is the one with which every page opens


class PickEvent(Event):
    """Another cell of the map that is shown (`id`); a head of None is the same as before."""

    id: int
    row: Place
    column: Place
    head: Place | None = None


class CheckEvent(Event):
    """Figures of the exercise by hand, as they were typed: three rows of each."""

    scores: list[list[str]]
    weights: list[list[str]]
    outputs: list[list[str]]


def controls(view: HeadView) -> dict[str, dict]:
    """What the fields hold, as keyword arguments of their components."""
    settings, head = view.settings, view.head
    is_random, places = settings.weights == RANDOM, view.read.places if view.read else ()
    is_square = len(head.rows) == len(head.columns) and not (settings.place or "").startswith("cross")
    return {
        "weights": {"value": settings.weights},
        "text": {
            "value": settings.text,
            "interactive": settings.example is None,
            "label": TYPED if settings.example is None else GIVEN,
        },
        "place": {
            "choices": [(describe_map(place), place) for place in places],
            "value": settings.place if places else None,
            "visible": len(places) > 1,
        },
        "head": {
            "choices": [(str(index + 1), index) for index in range(view.num_heads)],
            "value": settings.head,
            "visible": view.num_heads > 1,
        },
        "num_heads": {"value": settings.num_heads, "visible": is_random},
        "scale": {"value": settings.scale, "label": f"Scale by √{head.key.shape[1]}"},
        "causal": {"value": settings.causal, "interactive": is_square},
        "positions": {"value": settings.positions, "visible": is_random},
        "hidden": {"choices": head_view.labels_of(head), "value": list(settings.hidden)},
        "without": {
            "choices": head_view.labels_of(head)[1:],
            "value": settings.without,
            "visible": False,
        },
    }


def describe_map(place: str) -> str:
    """A map of a checkpoint in words: answer reads input, layer 2."""
    kind, layer = place.split()
    return f"{KINDS[kind]}, layer {int(layer) + 1}"


def describe_steps(view: HeadView) -> dict[str, dict]:
    """What the steps of the path hold, as keyword arguments of their buttons."""
    row, column = view.cell
    weight = float(view.head.weights[view.cell]) if view.head.may_attend[row, column] else 0.0
    is_sentence = view.read is not None and view.read.is_sentence
    place = story.find_most_read(view.head, row) if view.settings.without is None else view.settings.without
    is_trained = view.settings.weights != head_view.RANDOM and view.settings.example is None
    title, line = "Take a word away", f"“{view.head.rows[row]}” reads no word before it: choose a later one."
    if place is not None:
        line = f"Without “{formatting.shorten(view.head.columns[place], LONGEST_LABEL)}”, what comes next?"
    if view.without is not None:
        title, line = "Put it back", f"“{view.head.columns[place]}” stands in the sentence again."
    return {
        "unfold": {"value": f"Read one number\n{weight:.3f}: from dot product to softmax."},
        "away": {"value": TAKE_AWAY if is_trained else LOOK_ELSEWHERE, "visible": not is_sentence},
        "word": {"value": f"{title}\n{line}", "visible": is_sentence, "interactive": place is not None},
    }


def view_of(session: Session) -> HeadView:
    return session.state(AttentionState).view or head_view.first_view(session.catalog)


def show_view(session: Session, view: HeadView) -> dict:
    """Updates that show another map; ValueError where it does not have the view's cell."""
    value, state = head_view.to_value(view), session.state(AttentionState)
    state.id, state.view = state.id + 1, view
    lines = {"headline": notices.headline(view.headline), "origin": view.origin, "error": ""}
    shown = formatting.shorten(name_input(view), LONGEST_LABEL)
    lines |= {"offer": gr.update(visible=False), "example": gr.update(label=f"Example: {shown}", open=False)}
    fields = {name: gr.update(**change) for name, change in (controls(view) | describe_steps(view)).items()}
    return {"board": boards.to_json({"id": state.id, **value}), **lines, **fields}


def name_input(view: HeadView) -> str:
    """What the button of the examples names: the input, or the title of a textbook's example."""
    return view.title if view.settings.example else view.settings.text or view.title


def answer(session: Session, settings: Settings, before: HeadView | None = None) -> dict:
    """Updates for these settings; of wrong input only an error.

    On a map of the same tokens as the view `before`, its cell stays chosen.
    """
    try:
        refuse_longer("text", settings.text, LONGEST)
        view = head_view.keep_cell(head_view.read_view(session, settings, before), before)
        return show_view(session, view)
    except ValueError as error:
        text = settings.text or ""
        is_own = settings.weights != RANDOM and " " in text.strip() and len(text) <= LONGEST
        hint = OWN_SENTENCE if is_own else ""
        reader = session.catalog.find_reader(settings.weights, text)
        offer = gr.update(visible=reader is not None)
        return {"error": notices.field_error(f"{error}{hint}"), "offer": offer}


def take_offer(session: Session, values: dict[str, object]) -> dict:
    """Read the sentence with the model that can."""
    text = values["text"] or ""
    reader = session.catalog.find_reader(values["weights"], text)
    return {} if reader is None else answer(session, Settings(reader, text))


def swap_word(session: Session) -> dict:
    """Put the word in place that the sentence offers."""
    view = view_of(session)
    return answer(session, Settings(view.settings.weights, view.read.swap[1])) if view.read.swap else {}


def take_word(session: Session) -> dict:
    """Take away the word that the chosen one reads most, or put it back."""
    view = view_of(session)
    place = story.find_most_read(view.head, view.cell[0]) if view.settings.without is None else None
    return answer(session, dataclasses.replace(view.settings, without=place), view)


def read_settings(values: dict[str, object], changed: str = "") -> Settings:
    """The settings of the fields; those that depend on the changed one are reset."""
    read = {**values, "text": values["text"] or "", "hidden": tuple(values["hidden"] or ())}
    return Settings(**read | dict.fromkeys(FORGOTTEN.get(changed, ())))


def changing(field: str):
    """The handler of a changed field: the map then."""

    def change_field(session: Session, values: dict[str, object]) -> dict:
        if field == "weights" and values[field] == view_of(session).settings.weights:
            return {}  # to Gradio a list that was left has changed
        return answer(session, read_settings(values, field), view_of(session))

    return change_field


def pick_cell(session: Session, event: PickEvent) -> dict:
    """Only the cell's arithmetic, or another head's map; nothing of a map that is gone since the click."""
    state, view = session.state(AttentionState), view_of(session)
    if event.id != state.id:
        return {}
    head, cell = view.settings.head if event.head is None else event.head, (event.row, event.column)
    try:
        if head >= view.num_heads:
            raise ValueError(f"head={head!r} is not there: heads are 0 to {view.num_heads - 1}.")
        if head != view.settings.head:
            view = head_view.read_view(session, dataclasses.replace(view.settings, head=head), view)
            return show_view(session, dataclasses.replace(view, cell=cell))
        view = dataclasses.replace(view, cell=cell)
        found, state.view = head_view.explain_cell(view), view
        steps = {name: gr.update(**change) for name, change in describe_steps(view).items()}
        return {"board": boards.to_json({"id": state.id, "cell": found}), "error": "", **steps}
    except ValueError as error:
        return {"error": notices.field_error(str(error))}


def opening(settings: Settings):
    """The handler of an example."""
    return lambda session: answer(session, settings)


def refresh_weights(session: Session, values: dict[str, object]) -> dict:
    found = head_view.choices(session)
    is_there = values["weights"] in {value for _, value in found}
    return {"weights": gr.update(choices=found, **({} if is_there else {"value": found[0][1]}))}


def open_link(session: Session, values: dict[str, object]) -> dict:
    """Updates for a link's values; ValueError where they name what is not here."""
    offered, head = head_view.choices(session), values["head"]
    if values["weights"] not in [value for _, value in offered]:
        raise ValueError(f"This link shows {values['weights']!r}, which this app does not have.")
    view = head_view.read_view(session, read_settings(values))
    if head is not None and not 0 <= head < view.num_heads:
        raise ValueError(f"This link shows head {head + 1}; this map has {view.num_heads} heads.")
    return show_view(session, view) | {"weights": gr.update(choices=offered, value=values["weights"])}


def open_train(_session: Session) -> dict:
    return {"tabs": gr.Tabs(selected="train")}


def show_hand(checks: dict | None = None, written: dict | None = None) -> str:
    """The exercise board's value; `written` is what was checked."""
    head = exercise_1()
    figures = WORKED_EXAMPLES["exercise-1"].compare(WORKED_EXAMPLES["exercise-1"].printed[2])[6:]
    pairs = zip(figures, head.weights[2].tolist(), strict=True)
    return boards.to_json(
        {
            "names": head.rows,
            "query": head.query.tolist(),
            "key": head.key.tolist(),
            "value": head.value.tolist(),
            "printed": [{"printed": figure.printed, "computed": weight} for figure, weight in pairs],
            "checks": checks,
            "python": exercise_snippet(written or NOTHING_WRITTEN),
        }
    )


def check_figures(_session: Session, event: CheckEvent) -> dict:
    """Check the typed figures of the exercise; anything but rows of text is ignored."""
    written = {name: getattr(event, name) for name in ("scores", "weights", "outputs")}
    try:
        judged = check_hand_exercise(written)
    except ValueError:  # the board itself sends [3][3] or [3][2]
        return {}
    checks = {
        name: [[dataclasses.asdict(one) for one in line] for line in lines] for name, lines in judged.items()
    }
    return {"hand": show_hand(checks, written)}


def show_roles() -> str:
    roles = separate_query_key_value()
    steps = [
        {
            "title": role.title,
            "equation": role.equation,
            "weights": role.head.weights.tolist(),
            "scores": role.head.scores.tolist(),
            "asymmetry": role.asymmetry,
        }
        for role in roles
    ]
    python = qkv_steps_snippet()
    return boards.to_json({"words": roles[0].head.rows, "steps": steps, "python": python})


def build_examples(page: Page, first: HeadView, look: dict) -> dict:
    """Lay out the menu of examples: an own input, then all others."""
    parts: dict = {"chips": {}}
    label = f"Example: {formatting.shorten(name_input(first), LONGEST_LABEL)}"
    with gr.Accordion(label, open=False, elem_id="attention-example", elem_classes="hf-menu") as parts[
        "example"
    ]:
        with gr.Row(elem_classes="hf-ask"):
            offered = head_view.choices(Session(page.catalog))
            parts["weights"] = gr.Dropdown(offered, label="Weights", **look["weights"])
            parts["text"] = gr.Textbox(elem_classes="hf-mono-input", max_lines=1, **look["text"])
            parts["show"] = gr.Button("Show", elem_id="attention-show", min_width=0)
            parts["error"] = notices.build_error_line("attention-error")
            parts["offer"] = gr.Button(OFFER, visible=False, elem_id="attention-offer", elem_classes="offer")
        for group, examples in EXAMPLES.items():
            gr.HTML(f"<h3>{html.escape(group)}</h3>")
            with gr.Row(elem_classes="hf-chips"):
                for name, settings in examples.items():
                    parts["chips"][gr.Button(name, size="sm", elem_classes="chip")] = settings
    return parts


def build_switches(look: dict) -> dict:
    """Lay out what changes the mechanism."""
    fields = {}
    with (
        gr.Accordion(
            "Change the mechanism", open=False, elem_id="attention-mechanism", elem_classes="hf-fold"
        ),
        gr.Row(elem_classes="hf-switches"),
    ):
        fields["place"] = gr.Dropdown(label="Map", **look["place"])
        heads = {"choices": [(str(number), number) for number in HEADS], "elem_classes": "seg"}
        fields["num_heads"] = gr.Radio(label="Number of heads", **heads, **look["num_heads"])
        fields["head"] = gr.Radio(label="Head shown", elem_classes="seg", **look["head"])
        fields["scale"] = gr.Checkbox(elem_classes="switch", **look["scale"])
        fields["causal"] = gr.Checkbox(label="Causal mask", elem_classes="switch", **look["causal"])
        fields["positions"] = gr.Checkbox(label="Sinusoids", elem_classes="switch", **look["positions"])
        fields["hidden"] = gr.Dropdown(label="Hidden as padding", multiselect=True, **look["hidden"])
        fields["without"] = gr.Dropdown(label="Word taken away", **look["without"])
    return fields


def build_path(first: HeadView) -> dict[str, gr.Button]:
    """Lay out the three steps that lead on; the third is about a head, or a word of a sentence."""
    steps = {
        "train": {
            "value": "Watch one learn\nA tiny model, from guessing to right.",
            "variant": "primary",
        },
        "unfold": {},
        "away": {},
        "word": {},
    }
    with gr.Row(elem_classes="hf-path"):
        return {
            name: gr.Button(
                elem_id=f"attention-{name}", min_width=0, **step | describe_steps(first).get(name, {})
            )
            for name, step in steps.items()
        }


def build(page: Page) -> None:
    first = head_view.first_view(page.catalog)
    look = {
        name: {"elem_id": f"attention-{name.replace('_', '-')}", "min_width": 0, **shown}
        for name, shown in controls(first).items()
    }
    with gr.Row(elem_classes="hf-tell"):
        headline = gr.HTML(notices.headline(first.headline), elem_id="attention-headline", js_on_load=SWAP)
        with gr.Column(min_width=0):
            parts = build_examples(page, first, look)
            origin = gr.HTML(first.origin, elem_id="attention-origin")
    board = boards.build_board("attention_board", "hf-attention", "attention-board", "pick")
    fields = {"weights": parts["weights"], "text": parts["text"], **build_switches(look)}
    path = build_path(first)
    hand = boards.build_board("hand_board", "hf-hand", "hand-board", "check")
    roles = boards.build_board("roles_board", "hf-roles", "roles-board")
    board.value, hand.value = boards.to_json({"id": 0, **head_view.to_value(first)}), show_hand()
    roles.value = show_roles()
    lines = {name: parts[name] for name in ("error", "offer", "example")}
    lines |= {"board": board, "headline": headline, "origin": origin}
    lines |= {name: path[name] for name in ("unfold", "away", "word")}
    shown = lines | fields
    for name, field in fields.items():
        changed = [parts["show"].click, field.submit] if name == "text" else field.input
        page.connect(changed, changing(name), fields, shown, **LAST)
    for chip, settings in parts["chips"].items():
        page.connect(chip.click, opening(settings), None, shown, **LAST)
    page.connect(parts["offer"].click, take_offer, fields, shown, **LAST)
    page.connect(path["word"].click, take_word, None, shown, **LAST)
    swapped = page.connect(headline.swap, swap_word, None, shown, **LAST)
    swapped.then(None, js=FOCUS_SWAP, **LIGHT)
    page.connect(board.pick, pick_cell, None, shown, **EACH_NOW)
    page.connect(hand.check, check_figures, None, {"hand": hand}, **LAST_NOW)
    weights = {"weights": fields["weights"]}
    page.connect(page.tab.select, refresh_weights, weights, weights, **NOW)
    page.link_fields(
        fields,
        restore=open_link,
        shows=lines,
        varying=("weights", "place", "head", "hidden", "without"),
        weights="weights",
        buttons=(*parts["chips"], parts["show"], parts["offer"]),
    )
    opened = page.connect(path["train"].click, open_train, None, {"tabs": page.tab.parent}, **NOW)
    opened.then(None, None, None, js=START_COPY)
    path["unfold"].click(None, js=UNFOLD, **LIGHT)
    page.ways_to_explore.append((path["away"].click, fields, lambda _, values: values))
