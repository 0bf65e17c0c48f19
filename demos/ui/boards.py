"""Boards: pictures that a script draws from a JSON value.

Each is a `gr.HTML` whose value is `to_json(value)` and whose drawing is in the script of its tab, made of the
components in `hf_attn/viz/web`; `board_values.d.ts` says what its value holds. As an output it wants
`show_progress="hidden"`. Its template is constant: what a person typed or a model wrote goes in the value
only, because gr.HTML evaluates `{{…}}` and `${…}`.

Events. A `gr.HTML` sends any event whose quoted name stands in its `js_on_load`; in Python that is a method
of the component, and a subclass of `core.events.Event` names what was sent: `session.page` says how both are
wired.
"""

import itertools

import gradio as gr

from hf_attn.evaluation.baselines import NAME, Baseline
from hf_attn.evaluation.metrics import Evaluation
from hf_attn.tasks.synthetic.parsing import SIGNS, Node
from hf_attn.viz import web

SHOWN_SIGNS = {"*": "×", "-": "−", "/": "÷"}
encode_maps, to_json = web.encode_maps, web.to_json


def build_board(
    name: str, css_class: str, elem_id: str, *events: str, template: str | None = None
) -> gr.HTML:
    """Build a picture that JavaScript draws; its value is `to_json(value)`.

    Args:
        name: the name under which its script registered it.
        css_class: of the element that it draws in; the block around it has this class with `-block` behind.
        elem_id: of the block.
        *events: the events that it may send.
        template: constant HTML that holds the element, where there is more than that.
    """
    # gr.HTML offers the events whose quoted names it finds
    sent = ", ".join(f'"{event}"' for event in events)
    return gr.HTML(
        elem_id=elem_id,
        elem_classes=[f"{css_class}-block"],
        html_template=template or f'<div class="{css_class} hf-board"></div>',
        js_on_load=f'hfAttn.mount("{name}", {{ id: "{elem_id}", element, props, watch, trigger }}); '
        f"// sends: {sent}",
        apply_default_css=False,
    )


def wrong_symbols(symbols, verdict) -> list[bool]:
    """Which symbols are wrong, counted from the last: a verdict may add leading zeros."""
    flags = list(verdict.wrong)[-len(symbols) :] if symbols else []
    return [False] * (len(symbols) - len(flags)) + flags


def read_tree(written: Node | None, expected: Node | None) -> dict | None:
    """The tree as the board draws it: what was written, with the right label wherever another stands."""
    if written is None and expected is None:
        return None
    right = expected.children if expected else ()
    # below a missing node nothing is drawn
    pairs = itertools.zip_longest(written.children, right) if written else ()
    label = written.label if written else "–"
    sign = SIGNS.get(label)
    return {
        "label": label,
        "sign": SHOWN_SIGNS.get(sign, sign),
        "children": [read_tree(*pair) for pair in pairs],
        "wrong": expected is None or label != expected.label,
        "expected": expected.label if expected else "nothing",
    }


def drop_repeated_predictions(frames: list[dict]) -> list[dict]:
    """The frames, with predictions only where they change: the board keeps the last ones."""
    shorter, last = [], None
    for frame in frames:
        is_new = frame["predictions"] is not last
        last = frame["predictions"]
        shorter.append(frame if is_new else {name: frame[name] for name in frame if name != "predictions"})
    return shorter


def describe_held_out(evaluation: Evaluation | None) -> dict | None:
    """What was measured once, on held-out examples; None before."""
    if evaluation is None:
        return None
    score = evaluation.overall
    interval = [score.interval.low, score.interval.high]
    return {"share": score.exact_match, "interval": interval, "examples": score.examples}


def describe_baseline(baseline: Baseline | None) -> dict | None:
    """The baseline as the boards draw it: a level over the whole run."""
    if baseline is None:
        return None
    score = baseline.score
    figures = {"held_out": score.exact_match, "interval": [score.interval.low, score.interval.high]}
    return {"name": NAME, "parameters": baseline.parameters, "seconds": baseline.seconds, **figures}
