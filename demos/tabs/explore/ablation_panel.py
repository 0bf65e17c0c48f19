"""Ask the model: what a lens shows, changed, and what the answer and the held-out accuracy make of it.

`checks_board` takes a `ChecksValue` of `ui/board_values.d.ts`.
"""

import logging
from collections.abc import Iterator

import gradio as gr

from hf_attn.analysis.ablation import Trial, measure_outcomes
from hf_attn.analysis.head_roles import measure_head_roles

from ...core.events import Event, Kind, NewestEvent, Place
from ...jobs.job import RUNNING
from ...session.catalog import LoadedModel
from ...session.page import EACH, LIGHT, NOW, JobView, Page
from ...session.session import Session
from ...snippets.views import held_out_roles_snippet, trial_snippet
from ...ui import boards
from .count_job import CountJob, press_count, show_checks, stop_counting
from .head_counts import EXAMPLES, counts_of, read_outcome
from .head_scores import ExploreState, measure_energy, to_lists
from .layers import read_layers
from .predictions import count_decided
from .questions import AblationQuestion, build_trial, compare
from .story import tell_change

ROLE_EXAMPLES = 100  # held-out examples whose maps are measured
COUNTING = 8  # visitors for whom heads are counted at once; they take turns


class AskEvent(NewestEvent, AblationQuestion):
    """A question about what is shown."""


class DescendEvent(Event):
    """A head whose energies are asked for."""

    kind: Kind
    layer: Place
    head: Place


def ask_model(session: Session, event: AskEvent) -> Iterator[dict]:
    """Answer a question on this input, then on held-out examples."""
    state = session.state(ExploreState)
    number = state.id

    def is_wanted() -> bool:
        return number == state.id and session.is_newest(event)

    if not is_wanted():
        yield {}
        return
    state.error = ""
    try:
        with session.catalog.open(session, state.chosen) as opened:
            answer = compare(opened, state, event)
            trial, can_count = build_trial(event), "why" not in answer["held_out"]
            answer["python"] = trial_snippet(opened, state.read, state.written, trial, EXAMPLES * can_count)
            if can_count and counts_of(opened).knows(trial):
                answer["held_out"] = measure_held_out(opened, trial)
            answer["verdict"] = tell_change(state, answer)
        if is_wanted():
            state.answer = answer
    except ValueError as error:
        state.error = str(error) if is_wanted() else state.error
        yield show_checks(session)
        return
    yield show_checks(session)
    is_asked = event.by_kind or "status" in answer["held_out"]
    if not can_count or not is_asked or not is_wanted():
        return
    try:
        with session.catalog.open(session, state.chosen) as opened:
            kinds = count_decided(opened, trial) if event.by_kind else None
            answer["held_out"] = measure_held_out(opened, trial) | {"kinds": kinds}
    except ValueError as error:  # an edge that shorter examples do not have, data that are not here
        answer["held_out"] = {"why": str(error)}
    if is_wanted():
        answer["verdict"] = tell_change(state, answer)
        yield show_checks(session)


def measure_held_out(opened: LoadedModel, trial: Trial) -> dict:
    """The share that is right, whole and changed."""
    if trial.has_places:  # which short examples may not have
        whole, left = measure_outcomes(opened.model, opened.task, [trial], EXAMPLES)
    else:
        counts = counts_of(opened)
        whole, left = counts.measure(opened, Trial()), counts.measure(opened, trial)
    return {"examples": left.examples, "whole": whole.exact_match, **read_outcome(left), "kinds": None}


def compare_roles(session: Session) -> Iterator[dict]:
    """Measure head roles on held-out examples, beside the same model untrained."""
    state = session.state(ExploreState)
    if state.shown is None or (state.compared is not None and state.compared.get("status") == RUNNING):
        yield {}
        return
    weights, state.compared = state.weights, {"status": RUNNING}
    yield show_checks(session)
    try:
        with session.catalog.open(session, state.chosen) as opened:
            found = measure_head_roles(opened.model, opened.task, ROLE_EXAMPLES)
            python = held_out_roles_snippet(opened, ROLE_EXAMPLES)
        compared = {
            "examples": found.examples,
            "trained": to_lists(found.trained),
            "untrained": to_lists(found.untrained),
            "even": found.even,
            "python": python,
        }
    except Exception as error:  # shown on the board; the page goes on
        logging.getLogger(__name__).exception("measuring the roles failed")
        compared = {"why": str(error)}
    if state.weights == weights:
        state.compared = compared
        yield show_checks(session)


def descend(session: Session, event: DescendEvent) -> dict:
    """Measure the Hopfield energies of the head on show, once."""
    state, (kind, layer, head) = session.state(ExploreState), (event.kind, event.layer, event.head)
    place = f"{kind}.{layer}.{head}"
    heads = state.shown["heads"].get(kind, []) if state.shown is not None else []
    is_there = event.layer < len(heads) and event.head < heads[event.layer]
    if not is_there or kind not in state.labels or place in state.energies:
        return {}
    try:
        with session.catalog.open(session, state.chosen) as opened:
            state.energies[place] = measure_energy(opened, state, kind, layer, head)
    except ValueError as error:
        state.error = str(error)
    return show_checks(session)


def build_part(page: Page, headline: gr.HTML) -> gr.HTML:
    """Lay the panels out below the lens and connect them; the lens sends them what is chosen."""
    events = ("ask_model", "count_heads", "stop_counting", "compare_roles", "descend", "read_layers")
    counted = f'data-examples="{EXAMPLES}" data-role-examples="{ROLE_EXAMPLES}"'
    template = f'<div class="hf-checks hf-board" {counted}></div>'
    board = boards.build_board("checks_board", "hf-checks", "checks-board", *events, template=template)
    shown = {"checks": board, "headline": headline}
    measuring = {**LIGHT, "concurrency_id": "checks", "concurrency_limit": page.places}
    page.connect(board.ask_model, ask_model, None, shown, **EACH)
    view = JobView(kind=CountJob, show=show_checks, shows=shown)
    counting = {"concurrency_id": "counting", "concurrency_limit": COUNTING}
    pressed = page.connect(board.count_heads, press_count, None, shown, **NOW)
    page.follow(pressed.then, view, **counting)
    page.connect(board.stop_counting, stop_counting, None, shown, **NOW)
    page.connect(board.compare_roles, compare_roles, None, shown, **measuring)
    page.connect(board.descend, descend, None, shown, **LIGHT, trigger_mode="multiple")
    page.connect(board.read_layers, read_layers, None, shown, **measuring)
    return board
