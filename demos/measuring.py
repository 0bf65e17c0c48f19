"""What a lens shows, measured: roles, theory views and energies of every head, and what was asked of it."""

import dataclasses
from dataclasses import dataclass, field

import torch

from demos import shared
from demos.asking import as_ids
from demos.checkpoints import Opened
from hf_attn.hopfield import hopfield_descent
from hf_attn.inspection import AttentionMaps, is_recurrent
from hf_attn.interventions import count_heads
from hf_attn.roles import ROLES, build_mask, measure_even, measure_heads
from hf_attn.theory import THEORY, distance_profile, singular_values
from hf_attn.walkthrough import walk_model

MOST_WEIGHTS = 2**20  # of an input whose every head is measured at once
KINDS = ("encoder", "decoder", "cross")
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
class Checks:
    """What one visitor's lens shows, and what the model was asked about it.

    Attributes:
        turn: number of the lens's input.
        chosen, text, read, written: checkpoint, input, its ids, and the ids written.
        labels: kind → (rows, columns) of its maps.
        shown: what does not change until the next input.
        of: checkpoint and weights that `each` and `compared` were measured of.
        answer, each, compared, energies, error: as in the board's value.
        wants_stop: set by the button, heeded between two heads.
    """

    turn: int = 0
    chosen: str | None = None
    text: str = ""
    read: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    labels: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict)
    shown: dict | None = None
    of: tuple[str | None, str] = (None, "")
    answer: dict | None = None
    each: dict | None = None
    compared: dict | None = None
    energies: dict = field(default_factory=dict)
    error: str = ""
    wants_stop: bool = False

    def begin(
        self,
        opened: Opened,
        chosen: str,
        text: str,
        read: list[int],
        written: list[int],
        maps: AttentionMaps,
        alignment: list[list[int]] | None,
        *,
        is_own: bool,
    ) -> None:
        """Another input is shown; what was measured of the checkpoint alone stays with it."""
        self.turn += 1
        if self.of != (chosen, opened.weights):
            self.each = self.compared = None
            self.wants_stop = True
        self.of = (chosen, opened.weights)
        self.chosen, self.text, self.read, self.written = chosen, text, read, written
        self.answer, self.energies, self.error = None, {}, ""
        sides = {
            "encoder": (maps.source_tokens, maps.source_tokens),
            "decoder": (maps.target_tokens, maps.decoder_tokens),
            "cross": (maps.target_tokens, maps.source_tokens),
        }
        self.labels = {
            kind: (opened.labels(rows), opened.labels(columns))
            for kind, (rows, columns) in sides.items()
            if getattr(maps, kind) is not None
        }
        self.shown = {
            "source": opened.labels(read),
            "heads": {kind: list(counts) for kind, counts in count_heads(opened.model).items()},
            "is_own": is_own,
            "can_count": opened.task is not None,
            "measured": measure(opened, maps, alignment) if self.labels else None,
        }

    def clear(self) -> None:
        """Nothing is shown any more."""
        self.turn += 1
        self.chosen = self.shown = None
        self.of, self.wants_stop = (None, ""), True

    def to_value(self) -> str | None:
        """What the board is told."""
        if self.shown is None:
            return None
        names = ("turn", "error", "answer", "each", "compared", "energies")
        return shared.to_json({**self.shown, **{name: getattr(self, name) for name in names}})


def measure(opened: Opened, maps: AttentionMaps, alignment: list[list[int]] | None) -> dict:
    """Roles and theory views of every head on one input; {why} where it is too long."""
    weights = {kind: maps_of for kind in KINDS if (maps_of := getattr(maps, kind)) is not None}
    cells = sum(each.numel() for each in weights.values())
    if cells > MOST_WEIGHTS:
        return {
            "why": f"All heads together have {shared.count(cells)} weights; up to "
            f"{shared.count(MOST_WEIGHTS)} are measured at once. Shorten the input."
        }
    sides = ("source_tokens", "target_tokens", "decoder_tokens")
    names = {
        side: tuple(opened.tokenizer.convert_ids_to_tokens([int(index) for index in getattr(maps, side)]))
        for side in sides
    }
    named = dataclasses.replace(maps, **names)
    masks = {kind: build_mask(kind, *each.shape[-2:]) for kind, each in weights.items()}
    profiles = {kind: distance_profile(each.double(), masks[kind]) for kind, each in weights.items()}
    return {
        "roles": [[name, name, role.definition, role.even] for name, role in ROLES.items()],
        "views": [[name, title, THEORY[name], ""] for name, title in VIEWS.items()],
        "trained": to_lists(measure_heads(named, alignment)),
        "even": measure_even(named, alignment),
        "spectrum": {kind: singular_values(each).tolist() for kind, each in weights.items()},
        "offsets": {kind: offsets.tolist() for kind, (offsets, _) in profiles.items()},
        "profile": {kind: profile.tolist() for kind, (_, profile) in profiles.items()},
    }


def to_lists(figures: dict[str, dict[str, torch.Tensor]]) -> dict:
    """Kind → name → [layers][heads]."""
    return {kind: {name: each.tolist() for name, each in of.items()} for kind, of in figures.items()}


def measure_energy(opened: Opened, checks: Checks, kind: str, layer: int, head: int) -> dict:
    """Hopfield energy of a head's queries among its keys before and after one update, the mean; or {why}."""
    if is_recurrent(opened.model.config):
        return {"why": "no queries and keys: the alignment comes from a score of two states"}
    written = as_ids(opened, checks.written) if checks.written else None
    try:
        read = walk_model(
            opened.model, as_ids(opened, checks.read), written, kind=kind, layer=layer, head=head
        )
    except (ValueError, AttributeError) as error:  # an outsider's attention is laid out otherwise
        return {"why": f"queries and keys cannot be read here: {error}"}
    if read.bias is not None:
        return {"why": "positions add to the scores, which a Hopfield network does not know"}
    before, after = hopfield_descent(read.query, read.key, beta=read.scaling, may_attend=read.may_attend)
    return {"before": float(before.nanmean()), "after": float(after.nanmean())}
