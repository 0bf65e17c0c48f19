"""Attention: any cell of any map, number by number; the texts' worked examples; an exercise by hand.

Its boards take an `AttentionValue`, a `HandValue` and a `RolesValue` of `ui.board_values`.
"""

import dataclasses

import gradio as gr

from hf_attn.interpret.random_head import HEADS
from hf_attn.textbooks.exercises import BANKS, check_hand_exercise, separate_query_key_value
from hf_attn.textbooks.worked_examples import WORKED_EXAMPLES, exercise_1

from ...core.events import Event, Place
from ...core.limits import refuse_longer
from ...session.catalog import ModelCatalog
from ...session.page import LAST, NOW, Page, state_of
from ...session.session import Session
from ...snippets.views import exercise_snippet, qkv_steps_snippet
from ...ui import boards, notices
from . import head_view
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
TYPED = "Sentence or input"
OWN_SENTENCE = " To read a sentence of your own, choose “random weights, any sentence” under Weights."
GIVEN = "The example's own sentence; random weights read yours"
FIELDS = ("weights", "text", "place", "head", "num_heads", "scale", "causal", "positions", "hidden")
SCREEN = ("board", "walked", "error", "look_for", "origin", *FIELDS)
FORGOTTEN = {  # what was changed → what no longer holds then
    "weights": ("text", "place", "head", "scale", "causal", "hidden"),
    "text": ("hidden",),
    "place": ("head", "scale", "causal", "hidden"),
    "num_heads": ("head",),
}
CHIPS = (
    ("river bank", Settings(RANDOM, BANKS[0])),
    ("cash bank", Settings(RANDOM, BANKS[1])),
    *((example.title, Settings(WORKED + name)) for name, example in WORKED_EXAMPLES.items()),
)
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


class PickEvent(Event):
    """Another cell; a head of None is the same as before."""

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
    is_random, places = settings.weights == RANDOM, view.places
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
    }


def describe_map(place: str) -> str:
    """A map of a checkpoint in words: answer reads input, layer 2."""
    kind, layer = place.split()
    return f"{KINDS[kind]}, layer {int(layer) + 1}"


def show_view(view: HeadView) -> list:
    """Outputs in the order of SCREEN."""
    lines = [boards.to_json(head_view.to_value(view)), view, ""]
    lines += [notices.look_for(view.look_for), view.origin]
    return [*lines, *(gr.update(**change) for change in controls(view).values())]


def answer(
    catalog: ModelCatalog, session: Session, settings: Settings, before: HeadView | None = None
) -> list:
    """Outputs in the order of SCREEN for these settings; of wrong input only an error.

    On a map of the same tokens as the view `before`, its cell stays chosen.
    """
    try:
        refuse_longer("text", settings.text, LONGEST)
        view = head_view.read_view(catalog, session, settings)
        if before is not None and tokens_of(before) == tokens_of(view):
            view = dataclasses.replace(view, cell=before.cell)
        return show_view(view)
    except ValueError as error:
        stays = {name: gr.skip() for name in SCREEN}
        hint = "" if settings.weights == RANDOM or " " not in settings.text.strip() else OWN_SENTENCE
        return list({**stays, "error": notices.field_error(f"{error}{hint}")}.values())


def tokens_of(view: HeadView) -> tuple:
    return view.head.rows, view.head.columns


def read_settings(changed: str, *fields) -> Settings:
    """The settings of the fields (in the order of FIELDS); those that depend on the changed one are reset."""
    values = dict(zip(FIELDS, fields, strict=True))
    values["hidden"] = tuple(values["hidden"] or ())
    values["text"] = values["text"] or ""
    return Settings(**{**values, **dict.fromkeys(FORGOTTEN.get(changed, ()))})


def pick_cell(catalog: ModelCatalog, session: Session, view: HeadView, event: PickEvent) -> list:
    """[board, view, head, error] for another cell or head, which may be gone since the click."""
    head = view.settings.head if event.head is None else event.head
    try:
        if head >= view.num_heads:
            raise ValueError(f"head={head!r} is not there: heads are 0 to {view.num_heads - 1}.")
        if head != view.settings.head:
            view = head_view.read_view(catalog, session, dataclasses.replace(view.settings, head=head))
        view = dataclasses.replace(view, cell=(event.row, event.column))
        return [boards.to_json(head_view.to_value(view)), view, head, ""]
    except ValueError as error:
        return [*[gr.skip()] * 3, notices.field_error(str(error))]


def refresh_weights(catalog: ModelCatalog, session: Session, weights: str) -> dict:
    found = head_view.choices(catalog, session)
    is_there = weights in {value for _, value in found}
    return gr.update(choices=found, **({} if is_there else {"value": found[0][1]}))


def restore_view(catalog: ModelCatalog, session: Session, values: dict) -> list:
    """Outputs in the order of SCREEN for a link's values; ValueError where they name what is not here."""
    offered = head_view.choices(catalog, session)
    if values["weights"] not in [value for _, value in offered]:
        raise ValueError(f"This link shows {values['weights']!r}, which this app does not have.")
    view = head_view.read_view(catalog, session, read_settings("", *(values[name] for name in FIELDS)))
    if values["head"] is not None and not 0 <= values["head"] < view.num_heads:
        raise ValueError(f"This link shows head {values['head'] + 1}; this map has {view.num_heads} heads.")
    shown = dict(zip(SCREEN, show_view(view), strict=True))
    shown["weights"] = gr.update(choices=offered, value=values["weights"])
    return list(shown.values())


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


def check_figures(event: CheckEvent) -> str | dict:
    """Check the typed figures of the exercise; anything but rows of text is ignored."""
    written = {name: getattr(event, name) for name in ("scores", "weights", "outputs")}
    try:
        judged = check_hand_exercise(written)
    except IndexError:  # the board itself sends [3][3] or [3][2]
        return gr.skip()
    return show_hand(
        {
            name: [[dataclasses.asdict(one) for one in line] for line in lines]
            for name, lines in judged.items()
        },
        written,
    )


def show_roles() -> str:
    """The value of the board with the steps to query, key and value."""
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


def build_fields(catalog: ModelCatalog, first: HeadView) -> tuple[dict, gr.Button, gr.Button, gr.HTML, list]:
    """Lay the settings out: (fields, show, train, error, chips)."""
    look = {
        name: {"elem_id": f"attention-{name.replace('_', '-')}", "min_width": 0, **shown}
        for name, shown in controls(first).items()
    }
    fields = {}
    with gr.Row(elem_classes="hf-ask hf-attention-ask"):
        offered = head_view.choices(catalog, Session())
        fields["weights"] = gr.Dropdown(offered, label="Weights", **look["weights"])
        typed = {"elem_classes": "hf-mono-input", "max_lines": 1}
        fields["text"] = gr.Textbox(**typed, **look["text"])
        error = notices.build_error_line("attention-error")
        show = gr.Button("Show", elem_id="attention-show", min_width=0)
        train = gr.Button("Train a copy model", variant="primary", elem_id="attention-train", min_width=0)
    with gr.Row(elem_classes="hf-chips"):
        chips = [gr.Button(label, size="sm", elem_classes="chip") for label, _ in CHIPS]
    with gr.Row(elem_classes="hf-switches"):
        fields["scale"] = gr.Checkbox(elem_classes="switch", **look["scale"])
        fields["causal"] = gr.Checkbox(label="Causal mask", elem_classes="switch", **look["causal"])
        fields["positions"] = gr.Checkbox(label="Sinusoids", elem_classes="switch", **look["positions"])
        fields["hidden"] = gr.Dropdown(label="Hidden as padding", multiselect=True, **look["hidden"])
        fields["place"] = gr.Dropdown(label="Map", **look["place"])
        heads = {"choices": [(str(number), number) for number in HEADS], "elem_classes": "seg"}
        fields["num_heads"] = gr.Radio(label="Number of heads", **heads, **look["num_heads"])
        fields["head"] = gr.Radio(label="Head shown", elem_classes="seg", **look["head"])
    return {name: fields[name] for name in FIELDS}, show, train, error, chips


def attention_board() -> gr.HTML:
    template = '<div class="hf-attention hf-board"></div>@children'
    return boards.build_board("attention_board", "hf-attention", "attention-board", "pick", template=template)


def build(page: Page) -> None:
    catalog = page.catalog
    first = head_view.read_view(catalog, Session(), head_view.first_settings(catalog))
    look_for, origin = notices.build_lead(first.look_for, first.origin, "attention-origin")
    fields, show, train, error, chips = build_fields(catalog, first)
    with attention_board() as board:
        hand = boards.build_board("hand_board", "hf-hand", "hand-board", "check")
    roles = boards.build_board("roles_board", "hf-roles", "roles-board")
    board.value, hand.value = boards.to_json(head_view.to_value(first)), show_hand()
    roles.value = show_roles()
    view = state_of(first)
    session, named = page.session, [fields[name] for name in FIELDS]
    outputs = [board, view, error, look_for, origin, *named]

    def choose_cell(session, view, event: PickEvent):
        return pick_cell(catalog, session, view, event)

    def changed(name: str):
        return lambda session, view, *values: answer(catalog, session, read_settings(name, *values), view)

    for name in ("weights", "place", "num_heads", "scale", "causal", "positions", "hidden", "head"):
        fields[name].input(changed(name), [session, view, *named], outputs, **LAST)
    typed = [show.click, fields["text"].submit]
    gr.on(typed, changed("text"), [session, view, *named], outputs, **LAST)
    for chip, (_, settings) in zip(chips, CHIPS, strict=True):
        chip.click(
            lambda session, settings=settings: answer(catalog, session, settings), session, outputs, **LAST
        )
    picked = [board, view, fields["head"], error]
    board.pick(choose_cell, [session, view], picked, **NOW, trigger_mode="multiple")
    hand.check(check_figures, None, hand, **NOW, trigger_mode="always_last")
    page.tab.select(
        lambda session, weights: refresh_weights(catalog, session, weights),
        [session, fields["weights"]],
        fields["weights"],
        **NOW,
    )
    page.link_fields(
        fields,
        varying=("weights", "place", "head", "hidden"),
        weights="weights",
        restore=lambda values, session: dict(
            zip(outputs, restore_view(catalog, session, values), strict=True)
        ),
        inputs=(session,),
        outputs=tuple(outputs),
        buttons=(*chips, show),
    )
    train.click(lambda: gr.Tabs(selected="train"), None, page.tab.parent, **NOW).then(
        None, None, None, js=START_COPY
    )
