"""Ask the model: what a lens shows, changed, and what the answer and the held-out accuracy make of it.

`checks_board` takes a `ChecksValue` of `ui/board_values.d.ts`.
"""

import logging
import math
import typing
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field

import gradio as gr

from hf_attn.analysis.ablation import Outcome, Trial, list_trials, measure_changes, measure_outcomes
from hf_attn.analysis.head_roles import measure_head_roles
from hf_attn.architectures.families import is_recurrent
from hf_attn.generation.decoders import is_decoder_only
from hf_attn.interpret.interventions import Intervention
from hf_attn.tasks.base import CLASSES

from ...core.events import Event, Kind, Place, Seed
from ...jobs.job import FINISHED, RUNNING, STOPPED, ReportedJob
from ...session.catalog import LoadedModel
from ...session.model_input import as_ids
from ...session.page import LAST, LIGHT, JobView, Page
from ...session.session import Session
from ...snippets.views import each_head_snippet, held_out_roles_snippet, trial_snippet
from ...ui import boards
from .head_scores import ExploreState, measure_energy, to_lists
from .layers import read_layers
from .predictions import compare_expected, count_decided

EXAMPLES = 200  # held-out examples that are answered with and without
ROLE_EXAMPLES = 100  # … and whose maps are measured
WHATS = ("head", "layer", "edge", "token")
KINDS = {"encoder": "encoder self-attention", "decoder": "decoder self-attention", "cross": "cross-attention"}
CHANGED = {
    "remove": "Without {}",
    "uniform": "With uniform weights in {}",
    "permute": "With permuted weights (seed {seed}) in {}",
}


@dataclass(frozen=True)
class AblationQuestion:
    """What a question is about; places count from 0."""

    what: typing.Literal["head", "layer", "edge", "token"]
    # "remove", "uniform" or "permute"; an edge and a token can only be removed
    how: typing.Literal["remove", "uniform", "permute"] = "remove"
    # kind, layer, head: of the lens
    kind: Kind = "cross"
    layer: Place = 0
    head: Place = 0
    # query, key: of the cell chosen there; None without one
    query: Place | None = None
    key: Place | None = None
    token: Place | None = None  # place in the input; None without one
    seed: Seed = 0  # of the permutation


class AskEvent(Event, AblationQuestion):
    """A question about what is shown."""


class DescendEvent(Event):
    """A head whose energies are asked for."""

    kind: Kind
    layer: Place
    head: Place


def build_trial(pick: AblationQuestion) -> Trial:
    """The question as hf_attn takes it; ValueError where no cell or token is chosen, or it is masked."""
    if pick.what not in WHATS:
        raise ValueError(f"{pick.what!r} cannot be changed; choose {', '.join(WHATS)}.")
    if pick.what == "token":
        if pick.token is None:
            raise ValueError("No token is chosen: choose one of the input's, then ask.")
        return Trial(without=(pick.token,))
    if pick.what == "edge":
        if pick.query is None or pick.key is None:
            raise ValueError("No cell is chosen: choose one in the map of one head, then ask.")
        if pick.kind == "decoder" and pick.key > pick.query:
            raise ValueError("The chosen cell is masked: nothing is read there, so nothing can be removed.")
        return Trial((Intervention("remove", pick.kind, pick.layer, pick.head, pick.query, pick.key),))
    head = pick.head if pick.what == "head" else None
    return Trial((Intervention(pick.how, pick.kind, pick.layer, head, seed=pick.seed),))


def describe_trial(pick: AblationQuestion, checks: ExploreState, *, is_alignment: bool) -> str:
    """The question in words; layers, heads and places count from 1."""
    if pick.what == "token":
        return f"Without the input's token {name_token(checks.shown['source'], pick.token)}"
    place = f"layer {pick.layer + 1}, head {pick.head + 1} of {KINDS[pick.kind]}"
    if is_alignment:
        place = "the alignment"
    elif pick.what == "layer":
        place = f"the {KINDS[pick.kind]} of layer {pick.layer + 1}"
    if pick.what == "edge":
        rows, columns = checks.labels[pick.kind]
        place = f"{name_token(rows, pick.query)} reads {name_token(columns, pick.key)}, in {place}"
    how = "remove" if pick.what == "edge" else pick.how
    return CHANGED[how].format(place, seed=pick.seed)


def ablate_option(trial: Trial, seed: int) -> str:
    """The options of `hf-attn ablate` that ask the same."""
    if trial.without:
        return f"--token {trial.without[0]}"
    action, place = str(trial.interventions[0]).split(" ")
    return f"--{action} {place}" + (f" --seed {seed}" if action == "permute" else "")


def name_token(labels: Sequence[str], place: int) -> str:
    """A token as the lens names it: spaces shown, with its place where it occurs twice."""
    label = labels[place].replace(" ", "␣")
    return label if labels.count(labels[place]) == 1 else f"{label} {place + 1}"


def compare(opened: LoadedModel, checks: ExploreState, pick: AblationQuestion) -> dict:
    """The answer with and without, symbol by symbol; ValueError where the question does not fit the input."""
    if checks.shown["no_answer"]:
        raise ValueError(checks.shown["no_answer"])
    trial = build_trial(pick)
    if opened.predicts:
        return compare_expected(opened, checks.read, checks.written, trial) | describe(opened, checks, pick)
    most = opened.most_own(len(checks.read)) if opened.model.can_generate() else None
    (change,) = measure_changes(opened.model, as_ids(opened, checks.read), [trial], most)
    before, after = (read_answer(opened, checks.text, ids) for ids in (change.before, change.after))
    after["changed"] = [
        place >= len(change.before) or index != change.before[place]
        for place, index in enumerate(change.after)
    ]
    missing = max(0, len(change.before) - len(change.after))
    moved = zip(before["symbols"], change.total_variation, change.divergence, strict=True)
    return describe(opened, checks, pick) | {
        "before": before,
        "after": after,
        "moved": [list(row) for row in moved],
        "differ": sum(after["changed"]) + missing,
        "places": None,
    }


def describe(opened: LoadedModel, checks: ExploreState, pick: AblationQuestion) -> dict:
    """What a question was, in words, and whether it can be put to held-out examples."""
    trial = build_trial(pick)
    return {
        "what": describe_trial(pick, checks, is_alignment=is_recurrent(opened.model.config)),
        "option": ablate_option(trial, pick.seed) if opened.task is not None else "",  # it needs a task
        "is_shorter": bool(trial.without),
        "held_out": refuse_counting(opened, trial) or {"status": RUNNING},
    }


def read_answer(opened: LoadedModel, text: str, ids: tuple[int, ...]) -> dict:
    """An answer's symbols, and whether the task accepts it."""
    is_class = opened.kind == CLASSES
    opened.encode(text)  # names its words
    symbols = [opened.class_names()[ids[0]]] if is_class else opened.labels(ids)
    correct = opened.task.verify(text, opened.task.decode(list(ids))).correct if opened.task else None
    return {"symbols": symbols, "changed": [False] * len(symbols), "correct": correct}


def refuse_counting(opened: LoadedModel, trial: Trial) -> dict | None:
    """Why a question cannot be put to held-out examples; None where it can."""
    if opened.task is None:
        return {"why": "This checkpoint names no task, so there are no held-out examples."}
    if trial.without:
        return {"why": "Held-out examples have other tokens, so this is asked of one input only."}
    if trial.has_places and is_decoder_only(opened.model):
        return {"why": "Held-out examples differ in length, so an edge is removed for this input only."}
    return None


def read_outcome(outcome: Outcome) -> dict:
    interval = {"low": outcome.interval.low, "high": outcome.interval.high}
    return {"left": outcome.exact_match, **interval, "drop": outcome.drop, "error": outcome.standard_error}


def ask_model(session: Session, event: AskEvent) -> Iterator[dict]:
    """Answer a question on this input, then on held-out examples."""
    state = session.state(ExploreState)
    number, state.error = state.id, ""
    try:
        with session.catalog.open(session, state.chosen) as opened:
            answer = state.answer = compare(opened, state, event)
            counted = 0 if "why" in answer["held_out"] else EXAMPLES
            answer["python"] = trial_snippet(opened, state.read, state.written, build_trial(event), counted)
    except ValueError as error:
        state.error = str(error)
        yield {"checks": state.to_value()}
        return
    yield {"checks": state.to_value()}
    if "why" in answer["held_out"] or number != state.id:
        return
    try:
        with session.catalog.open(session, state.chosen) as opened:
            trial = build_trial(event)
            whole, left = measure_outcomes(opened.model, opened.task, [trial], EXAMPLES)
            kinds = count_decided(opened, trial)
        figures = {"examples": left.examples, "whole": whole.exact_match, **read_outcome(left)}
        answer["held_out"] = figures | {"kinds": kinds}
    except ValueError as error:  # an edge that shorter examples do not have, data that are not here
        answer["held_out"] = {"why": str(error)}
    if number == state.id:
        yield {"checks": state.to_value()}


@dataclass(eq=False)
class EachHeadJob(ReportedJob):
    """Each head of the model on show, removed in turn: `each` is what came of it, as in the board's value."""

    each: dict = field(default_factory=dict)
    state: ExploreState | None = None

    failure = "Without each head"
    seconds_allowed = math.inf

    def take(self, report: Outcome) -> None:
        """Record one outcome: the whole model's first, then one a head."""
        self.each["examples"] = report.examples
        if not report.trial.interventions:
            self.each["whole"] = report.exact_match
            return
        (removed,) = report.trial.interventions
        place = {"kind": removed.kind, "layer": removed.layer, "head": removed.head}
        self.each["rows"].append(place | read_outcome(report))
        self.each["done"] += 1

    def fail(self, error: Exception) -> None:
        super().fail(error)
        self.state.error = self.message

    def release(self) -> None:
        super().release()
        is_whole = self.status == FINISHED and self.each["done"] == self.each["of"]
        self.each["status"] = FINISHED if is_whole else STOPPED

    def start(self, session: Session) -> None:
        """Take the place of the last one."""
        self.prepare({})
        self.state = session.state(ExploreState)
        self.each = self.state.each = {"status": RUNNING, "done": 0, "of": 0, "rows": []}
        self.reports = self._remove_each(session)

    def _remove_each(self, session: Session) -> Generator[Outcome]:
        """What is left without each head, as long as the same weights are on show."""
        state, weights = self.state, self.state.weights
        with session.catalog.open(session, state.chosen) as opened:
            heads = [trial for trial in list_trials(opened.model) if trial.interventions[0].head is not None]
            self.each["of"] = len(heads)
            self.each["python"] = each_head_snippet(opened, EXAMPLES)
            for outcome in measure_outcomes(opened.model, opened.task, heads, EXAMPLES):
                if state.weights != weights:
                    return
                yield outcome


def press_each_head(session: Session) -> dict:
    """Remove each head in turn; one at a time."""
    job = session.state(EachHeadJob)
    if session.state(ExploreState).shown is not None and not job.is_busy:
        job.start(session)
    return show_checks(session)


def show_checks(session: Session) -> dict:
    return {"checks": session.state(ExploreState).to_value()}


def compare_roles(session: Session) -> Iterator[dict]:
    """Measure head roles on held-out examples, beside the same model untrained."""
    state = session.state(ExploreState)
    if state.shown is None or (state.compared is not None and state.compared.get("status") == RUNNING):
        yield {}
        return
    weights, state.compared = state.weights, {"status": RUNNING}
    yield {"checks": state.to_value()}
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
        yield {"checks": state.to_value()}


def descend(session: Session, event: DescendEvent) -> dict:
    """Measure the Hopfield energies of the head on show, once."""
    state, (kind, layer, head) = session.state(ExploreState), (event.kind, event.layer, event.head)
    place = f"{kind}.{layer}.{head}"
    if state.shown is None or kind not in state.labels or place in state.energies:
        return {}
    try:
        with session.catalog.open(session, state.chosen) as opened:
            state.energies[place] = measure_energy(opened, state, kind, layer, head)
    except ValueError as error:
        state.error = str(error)
    return {"checks": state.to_value()}


def build_part(page: Page) -> gr.HTML:
    """Lay the panels out below the lens and connect them; the lens sends them what is chosen."""
    events = ("ask_model", "each_head", "stop_heads", "compare_roles", "descend", "read_layers")
    counted = f'data-examples="{EXAMPLES}" data-role-examples="{ROLE_EXAMPLES}"'
    template = f'<div class="hf-checks hf-board" {counted}></div>'
    board = boards.build_board("checks_board", "hf-checks", "checks-board", *events, template=template)
    shown = {"checks": board}
    counting = {**LIGHT, "concurrency_id": "checks", "concurrency_limit": page.places}
    page.connect(board.ask_model, ask_model, None, shown, **LAST)
    view = JobView(kind=EachHeadJob, show=show_checks, shows=shown)
    page.drive(view, board.each_head, press_each_head, None, board.stop_heads, concurrency_id="checks")
    page.connect(board.compare_roles, compare_roles, None, shown, **counting)
    page.connect(board.descend, descend, None, shown, **LIGHT, trigger_mode="multiple")
    page.connect(board.read_layers, read_layers, None, shown, **counting)
    return board
