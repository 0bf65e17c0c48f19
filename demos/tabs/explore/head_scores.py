"""Explore's measurements: roles, theory views and energies of every head; and the state of its panels."""

import copy
import itertools
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from hf_attn.analysis.head_metrics import THEORY, distance_profile, singular_values
from hf_attn.analysis.head_roles import (
    ROLES_OF_MANY,
    build_attention_mask,
    measure_even_attention,
    measure_heads,
)
from hf_attn.analysis.hopfield import hopfield_descent
from hf_attn.analysis.predictions import MASKED
from hf_attn.architectures.families import is_recurrent
from hf_attn.interpret.attention_maps import KINDS
from hf_attn.interpret.head import Head
from hf_attn.interpret.interventions import count_heads
from hf_attn.interpret.long_inputs import LongMap
from hf_attn.interpret.read_head import ReadHeads, read_head, read_heads
from hf_attn.tasks.base import CLASSES, SEQUENCE, TEXT

from ...jobs.job import FINISHED, RUNNING, STOPPED
from ...session.catalog import LoadedModel
from ...session.maps import SENT_WEIGHTS, ComputedMaps
from ...session.model_input import AnsweredInput, known_alignment
from ...snippets.views import each_head_snippet, roles_snippet, theory_snippet
from ...ui import boards, formatting
from .head_counts import EXAMPLES, HeadCounts, Place, counts_of, to_value
from .predictions import read_expected

WAITING = "waiting"  # to be counted
UNITS = {SEQUENCE: "answers", CLASSES: "texts", TEXT: "next tokens"}  # what is right or wrong
EXAMPLES_OF = {**UNITS, SEQUENCE: "inputs"}  # what was tried
NEW_WITH_INPUT = (
    *("weights", "chosen", "text", "read", "written"),
    *("long", "labels", "shown", "counts", "effects", "opened_on"),
)
# of what is shown, what the boards do not need
KEPT_HERE = (
    "units",
    "answering",
    "family",
    "at",
    "reading",
    "each_python",
    "predicts",
    "is_class",
    "is_alignment",
)
NO_ANSWER = "{} writes nothing and names no class, so there is no answer that could change."
VIEWS = {
    "entropy": "Entropy, share of its highest",
    "effective_rank": "Effective rank",
    "rank": "Rank",
    "first_tenth": "Largest tenth of σ²",
    "low_frequencies": "Low frequencies",
    "sink": "Sink",
    "distance": "Distance",
}


@dataclass(eq=False)
class ExploreState(AnsweredInput):
    """What one visitor's lens shows, and what the model was asked about it."""

    picked: dict | None = None  # what the visitor chose last in the lens: kind, layer, head, query, key
    picked_in: str | None = None  # … and of which checkpoint
    opened_on: dict | None = None  # what was shown first of this input, likewise
    removes: str = ""  # "head" or "layer": what another tab opened it with is removed at once
    id: int = 0  # counts the lens's inputs, so that a late message about an older one is dropped
    # chosen, text, read, written: checkpoint, input, its ids, and the ids written
    chosen: str | None = None
    text: str = ""
    read: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    # kind → (rows, columns) of its maps
    labels: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)
    # the maps by kind, where they are too many to be sent at once
    long: dict[str, LongMap] = field(default_factory=dict)
    shown: dict | None = None  # what does not change until the next input
    # checkpoint and weights that `compared` was measured of
    weights: tuple[str | None, str] = (None, "")
    counts: HeadCounts | None = None  # of these weights; None where there is nothing to count on
    # what becomes of this input's answer without each head that is needed: (before, after)
    effects: dict[Place, tuple[str, str]] = field(default_factory=dict)
    count_error: str = ""  # why counting ended before its time
    is_counting: bool = False
    is_stopped: bool = False  # the visitor wants no more of these weights to be counted
    # answer, compared, energies, layers, error: as in the board's value
    answer: dict | None = None
    compared: dict | None = None
    energies: dict = field(default_factory=dict)
    layers: dict | None = None
    error: str = ""
    # queries, keys and values of all of them, once one was asked for; None of a long input
    heads: ReadHeads | None = None
    # of a long input the head whose queries and keys were read last, and which one it is
    inside: tuple[tuple, Head] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)  # of what belongs to one input
    # numbers the board's values; a state that a later visit begins has another name
    turns: Iterator[int] = field(default_factory=itertools.count)
    name: str = field(default_factory=lambda: secrets.token_hex(8))

    def begin(self, new: "ExploreState") -> None:
        """Show another input, or none; what was measured of the checkpoint alone stays with it."""
        with self.lock:
            self.id += 1
            if self.weights != new.weights:
                self.compared, self.is_stopped = None, False
            for name in NEW_WITH_INPUT:
                setattr(self, name, getattr(new, name))
            self.count_error = ""
        if self.shown is not None:
            self.shown["removes"], self.removes = self.removes, ""
        self.answer, self.energies, self.error, self.heads, self.inside = None, {}, "", None, None
        self.layers = None

    def snapshot(self) -> "ExploreState":
        """The state of the input on show, which stays that when another is shown."""
        with self.lock:
            return copy.copy(self)

    @property
    def named(self) -> Place | None:
        """The head that the headline names: the costliest without which this input's answer is another.

        Where it is the same without any that is needed, the costliest; None where none is needed so far.
        """
        needed = self.counts.needed if self.counts is not None else []
        changing = (place for place in needed if len(set(self.effects.get(place, ()))) > 1)
        return next(changing, needed[0] if needed else None)

    @property
    def unnoted(self) -> list[Place]:
        """The needed heads of which it is not known yet what becomes of this input without each."""
        if self.counts is None or self.shown["no_answer"]:
            return []
        return [place for place in self.counts.needed if place not in self.effects]

    @property
    def counting(self) -> str:
        """Where counting stands, as in the board's value."""
        if self.counts is None or self.counts.why or self.count_error:
            return ""
        if self.counts.is_complete and not self.unnoted:
            return FINISHED
        if self.is_stopped:
            return STOPPED
        return RUNNING if self.is_counting else WAITING

    def head_of(self, opened: LoadedModel, kind: str, layer: int, head: int) -> Head:
        """A head's queries, keys and values; ValueError if they cannot be read."""
        given, place = (opened.model, self.read, opened.as_target(self.written)), (kind, layer, head)
        if not self.long:
            self.heads = self.heads or read_heads(*given)
            return self.heads.head(*place)
        if self.inside is None or self.inside[0] != place:  # all of them would be too many to keep
            self.inside = place, read_head(*given, kind=kind, layer=layer, head=head)
        return self.inside[1]

    def to_value(self) -> str | None:
        if self.shown is None:
            return None
        turn = (self.name, next(self.turns))  # before anything is read: what was read earlier has a lower one
        names = ("id", "error", "answer", "compared", "energies", "layers")
        python = self.answer.get("python", "") if self.answer else ""
        sent = {name: value for name, value in self.shown.items() if name not in KEPT_HERE}
        each = None
        if self.counts is not None:
            each = to_value(self.counts, self.counting, self.shown["each_python"], self.named)
            each["why"] = each["why"] or self.count_error
        return boards.to_json(
            {"turn": turn}
            | sent
            | {name: getattr(self, name) for name in names}
            | {"each": each, "python": python}
        )


def prepare(opened: LoadedModel, text: str, computed: ComputedMaps, target: str = "") -> ExploreState:
    """The state for an input and the target that was given, if any; `ExploreState.begin` shows it."""
    given = {"read": computed.read, "written": computed.written, "long": computed.long}
    new = ExploreState(chosen=opened.chosen, text=text, **given)
    new.weights = (opened.chosen, opened.weights)
    new.labels = {kind: computed.maps.sides(kind) for kind in computed.kinds}
    new.shown = {
        "source": opened.labels(computed.read),
        "heads": {kind: list(counts) for kind, counts in count_heads(opened.model).items()},
        "is_own": not target,
        "no_answer": "",
        "predictions": None,
        "can_count": opened.task is not None,
        "measured": measure(opened, text, computed) if new.labels else None,
        "removes": "",
        "typed_text": text,
        "typed_target": target,
        "units": (opened.task.units if opened.task else "") or UNITS[opened.kind],
        "examples": (opened.task.units if opened.task else "") or EXAMPLES_OF[opened.kind],
        "is_alignment": is_recurrent(opened.model.config),
        "answering": computed.answering,
        "family": "LSTM" if is_recurrent(opened.model.config) else "model",
        "is_class": opened.kind == CLASSES,
        "predicts": opened.predicts,
        "at": -1,
        "reading": [],
        "each_python": each_head_snippet(opened, EXAMPLES) if opened.task is not None else "",
    }
    new.counts = counts_of(opened)
    if opened.predicts:
        new.shown["predictions"] = read_expected(opened, text, computed.read, computed.written)
        masked = getattr(opened.tokenizer, "mask_token_id", None)
        if opened.predicts == MASKED:
            new.shown["at"] = computed.read.index(masked) if masked in computed.read else 0
    elif not opened.has_answer:
        new.shown["no_answer"] = NO_ANSWER.format(type(opened.model).__name__)
    return new


def measure(opened: LoadedModel, text: str, computed: ComputedMaps) -> dict:
    """Roles and theory views of every head on one input; {why} where it is too long."""
    maps = computed.maps
    weights = {kind: maps_of for kind in KINDS if (maps_of := getattr(maps, kind)) is not None}
    if computed.long:
        return {
            "why": f"All heads together have {formatting.count(computed.needed // 4)} weights; up to "
            f"{formatting.count(SENT_WEIGHTS)} are measured at once. Shorten the input."
        }
    alignment = known_alignment(opened, text, computed.written)
    named = maps
    if opened.tokenizer is not None:  # which may have fewer ids
        tokens_of = opened.tokenizer.convert_ids_to_tokens
        named = maps.relabel(lambda ids: [name or "" for name in tokens_of(ids)])
    masks = {kind: build_attention_mask(kind, *each.shape[-2:]) for kind, each in weights.items()}
    profiles = {kind: distance_profile(each.double(), masks[kind]) for kind, each in weights.items()}
    return {
        "roles": [[name, name, role.definition, role.even] for name, role in ROLES_OF_MANY.items()],
        "views": [[name, title, THEORY[name], ""] for name, title in VIEWS.items()],
        "trained": to_lists(measure_heads(named, alignment)),
        "even": measure_even_attention(named, alignment),
        "spectrum": {kind: singular_values(each).tolist() for kind, each in weights.items()},
        "offsets": {kind: offsets.tolist() for kind, (offsets, _) in profiles.items()},
        "profile": {kind: profile.tolist() for kind, (_, profile) in profiles.items()},
        "python": roles_snippet(opened, computed.read, computed.written, text),
        "theory": theory_snippet(opened, computed.read, computed.written, computed.kinds[0]),
    }


def to_lists(figures: dict[str, dict[str, torch.Tensor]]) -> dict:
    return {kind: {name: each.tolist() for name, each in of.items()} for kind, of in figures.items()}


def measure_energy(opened: LoadedModel, checks: ExploreState, kind: str, layer: int, head: int) -> dict:
    """Mean Hopfield energy of a head's queries before and after one update; or {why}."""
    if is_recurrent(opened.model.config):
        return {"why": "no queries and keys: the alignment comes from a score of two states"}
    try:
        read = checks.head_of(opened, kind, layer, head)
    except ValueError as error:
        return {"why": str(error)}
    if read.bias is not None:
        return {"why": "positions add to the scores, which a Hopfield network does not know"}
    before, after = hopfield_descent(read.query, read.key, beta=read.scaling, may_attend=read.may_attend)
    return {"before": float(before.nanmean()), "after": float(after.nanmean())}
