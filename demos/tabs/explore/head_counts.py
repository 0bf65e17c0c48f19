"""How often a model is right without each head: counted in the background, a small piece at a time.

A count is of one model with one step's weights: every input of it, and every visitor of a bundled one, sees
the same.
"""

import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from hf_attn.analysis.ablation import AnsweredExamples, Outcome, Trial
from hf_attn.evaluation.metrics import evaluate
from hf_attn.interpret.attention_maps import OFFERED
from hf_attn.interpret.interventions import Intervention, count_heads

from ...session.catalog import LoadedModel
from ...ui import formatting

SIZED = 500  # held-out examples of a model without heads, told apart by size
EXAMPLES = 200  # held-out examples that are answered with and without
MOST_HEADS = 240  # of a model that are counted; of more, as many, evenly chosen
LOOKED_AT = 16  # validation examples on which the head that is shown first is chosen
LOOKED_AT_HEADS = 16  # … of at most so many heads
NEEDED = 0.05  # a head that costs as much is needed
STILL_TRAINING = "This run is still training: its heads are counted once it has stopped. Press Show then."

Place = tuple[str, int, int]  # kind, layer and head, from 0


def removal(place: Place) -> Trial:
    return Trial((Intervention("remove", *place),))


def place_of(trial: Trial) -> Place | None:
    """The head that a trial removes; None where it does anything else."""
    gone = trial.interventions[0] if len(trial.interventions) == 1 else None
    if gone is None or gone.layer is None or gone.head is None:
        return None
    place = gone.kind, gone.layer, gone.head
    return place if trial == removal(place) else None


def list_places(model) -> list[Place]:
    """Every head: first those in which the answer reads the input, then the input's, then the answer's."""
    counts = count_heads(model)
    return [
        (kind, layer, head)
        for kind in OFFERED
        for layer, heads in enumerate(counts.get(kind, ()))
        for head in range(heads)
    ]


@dataclass(eq=False)
class HeadCounts:
    """What was counted of one model with these weights."""

    weights: str
    of: int  # heads that the model has
    places: list[Place]  # that are counted, in this order
    rows: dict[Place, Outcome] = field(default_factory=dict)
    whole: Outcome | None = None
    first: Place | None = None  # the costliest of the answering kind, on a few validation examples
    why: str = ""  # it cannot be counted
    sizes: dict = field(default_factory=dict)  # of a model without heads: size of the input → score
    size_name: str = "size"
    answered: AnsweredExamples | None = None
    begun: list[torch.Tensor] = field(default_factory=list)  # of what is being counted, part by part
    is_looked_for: bool = False  # whether `first` is known, though it may be none
    lock: threading.Lock = field(default_factory=threading.Lock)  # of `begun` and `rows`

    @property
    def is_complete(self) -> bool:
        return self.whole is not None and all(place in self.rows for place in self.places)

    @property
    def needed(self) -> list[Place]:
        """The heads that are needed, so far; the costliest first."""
        rows = dict(self.rows)  # another visitor's turn may add one meanwhile
        found = [place for place, row in rows.items() if row.drop >= NEEDED]
        return sorted(found, key=lambda place: -rows[place].drop)

    def answer_examples(self, opened: LoadedModel) -> AnsweredExamples:
        if self.answered is None:
            self.answered = AnsweredExamples(opened.model, opened.task, opened.task.held_out(EXAMPLES))
        return self.answered

    def count_piece(self, opened: LoadedModel) -> None:
        """Count what is next on the next part of the examples: the whole model, then one head after another.

        Of a model without heads, how often it is right by the size of the input.
        """
        if not self.places and not self.sizes:
            self.size_name = opened.task.size_name
            self.sizes = dict(evaluate(opened.model, opened.task, n=SIZED).by_size)
            return
        with self.lock:
            answered, trial = self.answer_examples(opened), Trial()
            if self.whole is not None:
                trial = removal(next(place for place in self.places if place not in self.rows))
            self.begun.append(answered.judge(opened.model, trial, len(self.begun)))
            if len(self.begun) == len(answered.parts):
                judged, self.begun = self.begun, []
                self.keep(answered.score(trial, judged))

    def keep(self, outcome: Outcome) -> None:
        if outcome.trial == Trial():
            self.whole = outcome
        elif (place := place_of(outcome.trial)) in self.places:
            self.rows[place] = outcome

    def knows(self, trial: Trial) -> bool:
        """Whether a trial need not be measured any more."""
        return self.whole is not None and (trial == Trial() or place_of(trial) in self.rows)

    def measure(self, opened: LoadedModel, trial: Trial) -> Outcome:
        """A trial's outcome, as it was counted where it was."""
        if trial == Trial() and self.whole is not None:
            return self.whole
        if (place := place_of(trial)) in self.rows:
            return self.rows[place]
        outcome = self.answer_examples(opened).measure(opened.model, trial)
        with self.lock:
            self.begun = []  # what was begun may be this
            self.keep(outcome)
        return outcome


_KEPT: "weakref.WeakKeyDictionary[torch.nn.Module, HeadCounts]" = weakref.WeakKeyDictionary()
_KEEPING = threading.Lock()


def counts_of(opened: LoadedModel) -> HeadCounts | None:
    """What was counted of a model's weights so far; None where it has no examples to count on."""
    if opened.task is None:
        return None
    with _KEEPING:
        found = _KEPT.get(opened.model)
        if found is None or found.weights != opened.weights:
            places = list_places(opened.model)
            found = HeadCounts(opened.weights, len(places), formatting.thin(places, MOST_HEADS))
            _KEPT[opened.model] = found
    if opened.run is not None and opened.run.is_busy:
        return HeadCounts(opened.weights, found.of, [], why=STILL_TRAINING)
    return found


def choose_head(opened: LoadedModel, counts: HeadCounts | None, kind: str | None) -> Place | None:
    """Where none is counted yet, the head that is shown first: the costliest of a few validation examples.

    Among the heads of this kind; None where nothing is known of any.
    """
    if counts is None or kind is None or counts.why:
        return None
    if not counts.is_looked_for:
        counts.first = find_costliest(opened, [place for place in counts.places if place[0] == kind])
        counts.is_looked_for = True
    return counts.first


def find_costliest(opened: LoadedModel, places: Sequence[Place]) -> Place | None:
    """The head without which the fewest of a few validation examples are right; None where none costs."""
    if not places:
        return None
    tried = formatting.thin(list(places), LOOKED_AT_HEADS)
    try:
        answered = AnsweredExamples(opened.model, opened.task, opened.task.validation(LOOKED_AT))
    except ValueError:  # the data are not on this machine
        return None
    drops = {place: answered.measure(opened.model, removal(place)).drop for place in tried}
    place = max(drops, key=drops.__getitem__)
    return place if drops[place] > 0 else None


def read_outcome(outcome: Outcome) -> dict:
    interval = {"low": outcome.interval.low, "high": outcome.interval.high}
    return {"left": outcome.exact_match, **interval, "drop": outcome.drop, "error": outcome.standard_error}


def to_value(counts: HeadCounts, status: str, python: str, named: Place | None) -> dict:
    """The count as the boards have it."""
    rows = [
        {"kind": kind, "layer": layer, "head": head, **read_outcome(counts.rows[kind, layer, head])}
        for kind, layer, head in list(counts.rows)
    ]
    return {
        "status": status,
        "done": len(rows),
        "of": len(counts.places),
        "heads": counts.of,
        "rows": rows,
        "examples": counts.whole.examples if counts.whole else None,
        "whole": counts.whole.exact_match if counts.whole else None,
        "named": list(named) if named else None,
        "why": counts.why,
        "python": python,
    }
