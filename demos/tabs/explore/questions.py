"""A question about what the lens shows: what is changed, and what becomes of this input's answer."""

import typing
from collections.abc import Sequence
from dataclasses import dataclass

from hf_attn.analysis.ablation import Trial, measure_changes
from hf_attn.architectures.families import is_recurrent
from hf_attn.generation.decoders import is_decoder_only
from hf_attn.interpret.interventions import Intervention
from hf_attn.tasks.base import CLASSES

from ...core.events import Kind, Place, Seed
from ...jobs.job import RUNNING
from ...session.catalog import LoadedModel
from ...session.model_input import as_ids
from .head_scores import ExploreState
from .predictions import compare_expected

WHATS = ("nothing", "head", "layer", "edge", "token")
KINDS = {"encoder": "encoder self-attention", "decoder": "decoder self-attention", "cross": "cross-attention"}
CHANGED = {
    "remove": "Without {}",
    "uniform": "With uniform weights in {}",
    "permute": "With permuted weights (seed {seed}) in {}",
}


@dataclass(frozen=True)
class AblationQuestion:
    """What a question is about; places count from 0."""

    what: typing.Literal["nothing", "head", "layer", "edge", "token"]
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
    by_kind: bool = False  # whether held-out words are counted by what decides them, which takes longer


def build_trial(pick: AblationQuestion) -> Trial:
    """The question as hf_attn takes it; ValueError where no cell or token is chosen, or it is masked."""
    if pick.what not in WHATS:
        raise ValueError(f"{pick.what!r} cannot be changed; choose {', '.join(WHATS)}.")
    if pick.what == "nothing":
        return Trial()
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
    if pick.what == "nothing":
        return "Whole model"
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
    """The options of `hf-attn ablate` that ask the same; none where nothing is changed."""
    if trial == Trial():
        return ""
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
        "asked": [pick.what, pick.how, pick.kind, pick.layer, pick.head],
        "verdict": "",
        "option": ablate_option(trial, pick.seed) if opened.task is not None else "",  # it needs a task
        "is_shorter": bool(trial.without),
        "held_out": refuse_counting(opened, trial) or {"status": RUNNING},
    }


def read_answer(opened: LoadedModel, text: str, ids: tuple[int, ...]) -> dict:
    """An answer's symbols, and whether the task accepts it."""
    is_class = opened.kind == CLASSES
    opened.encode(text)  # names its words
    symbols = [opened.class_names()[ids[0]]] if is_class else opened.labels(ids)
    correct = opened.reader.verify(text, opened.reader.decode(list(ids))).correct if opened.reader else None
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
