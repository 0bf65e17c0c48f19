"""Change a model's attention while it runs: remove a head, layer or edge, even out weights, shuffle them.

A map says what was read, not what mattered (Jain & Wallace 2019, arXiv:1902.10186): that shows in how the
answer changes when attention is changed. Heads are taken away as by Michel et al. 2019
(arXiv:1905.10650), edges as by Geva et al. 2023 (arXiv:2304.14767).
"""

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from transformers import PreTrainedModel

from hf_attn.architectures.families import is_recurrent
from hf_attn.interpret.attention_maps import KINDS, find_attentions
from hf_attn.interpret.head import read_mask
from hf_attn.interpret.plain_attention import active_wrappers, wrapping_attention
from hf_attn.utils.text import quote

ACTIONS = ("remove", "uniform", "permute")
PLURALS = {"layer": "layers", "head": "heads", "query": "queries", "key": "keys"}
GRAMMAR = "KIND[.LAYER[.HEAD[.QUERY.KEY]]], for example cross.1.0 or cross.1.0.3.5, with all for every one"


@dataclass(frozen=True)
class Intervention:
    """One change of attention weights A, [heads, queries, keys]. What is None stands for every one.

        remove       A_ij = 0 for all keys j: what the head gives is 0
        remove, key  A_ik = 0, then A_ij / Σ_m A_im: the rest of the row is shared out again, to sum to 1
        uniform      A_ij = 1 / (number of keys that i may attend)
        permute      A_ij = A_iπ(j), π drawn for each row among the keys that it may attend

    Attributes:
        action: "remove", "uniform" or "permute".
        kind: "encoder", "decoder" or "cross", as in AttentionMaps.
        layer: from 0.
        head: from 0; of a recurrent model's one alignment, 0.
        query: row of the map; while an answer is written, counted from its first token.
        key: column of the map, to remove an edge. Padding counts where it stands before the tokens.
        seed: of the permutations; a batch whose rows share one intervention draws them for each row.

    Raises:
        ValueError: an unknown action or kind, a place below 0, or a key for what changes whole rows.
    """

    action: str
    kind: str
    layer: int | None = None
    head: int | None = None
    query: int | None = None
    key: int | None = None
    seed: int = 0

    def __post_init__(self):
        for name, allowed in (("action", ACTIONS), ("kind", KINDS)):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name}={quote(getattr(self, name))} is not known; choose {', '.join(allowed)}."
                )
        for name in ("layer", "head", "query", "key"):
            place = getattr(self, name)
            if place is not None and place < 0:
                raise ValueError(f"{name}={place} must be 0 or above; None stands for every {name}.")
        if self.key is not None and self.action != "remove":
            raise ValueError(f"key={self.key}: {self.action!r} changes whole rows; leave key out.")
        if self.kind == "decoder" and self.query is not None and (self.key or 0) > self.query:
            raise ValueError(f"key={self.key} is never read from query={self.query}: it comes later.")

    def __str__(self) -> str:
        """As a person writes it: "remove cross.1.0"."""
        places = [self.layer, self.head, self.query, self.key]
        while places and places[-1] is None:
            places.pop()
        if len(places) == 3:
            places.append(None)
        return ".".join([f"{self.action} {self.kind}", *("all" if p is None else str(p) for p in places)])


def parse_intervention(action: str, place: str, seed: int = 0) -> Intervention:
    """Read a place as `hf-attn ablate` takes it; ValueError for anything else.

    >>> str(parse_intervention("remove", "cross.1.0"))
    'remove cross.1.0'

    A place is a kind, a layer, a head or an edge: "cross", "cross.1", "cross.1.0" or "cross.1.0.3.5".
    """
    part = r"\.(\d+|all)"
    match = re.fullmatch(rf"([a-z]+)(?:{part}(?:{part}(?:{part}{part})?)?)?", place)
    if match is None:
        raise ValueError(f"{quote(place)} is no place; write {GRAMMAR}.")
    kind = match[1]
    layer, head, query, key = (None if p in (None, "all") else int(p) for p in match.groups()[1:])
    return Intervention(action, kind, layer, head, query, key, seed)


def count_heads(model: PreTrainedModel) -> dict[str, tuple[int, ...]]:
    """How many heads each layer has, by kind: {"encoder": (4,), "decoder": (4, 4), "cross": (4, 4)}."""
    return {
        kind: tuple(_heads_of(module, model) for module in modules)
        for kind, modules in find_attentions(model).items()
    }


def _heads_of(module: nn.Module, model: PreTrainedModel) -> int:
    if is_recurrent(model.config):
        return 1
    counts = (vars(part)["num_heads"] for part in module.modules() if "num_heads" in vars(part))
    return next(counts, model.config.num_attention_heads)


@contextlib.contextmanager
def intervening(model: PreTrainedModel, interventions: Sequence[Intervention]) -> Iterator[None]:
    """Let every row of whatever the model reads have its attention changed; afterwards all is as before.

    Inside, call the model, `attention_maps`, `greedy_ids`, `evaluate` or `generate`, with a cache or without;
    maps are the changed ones. The model is in evaluation mode. What reads with the same model from another
    thread through hf_attn waits; call the model itself from no other thread meanwhile.

    Args:
        model: ours, or another that attends by transformers' attention interface.
        interventions: done in this order.

    Raises:
        ValueError: the model has no such kind, layer or head; inside, the input has no such query or key.
        RuntimeError: this is inside another `intervening`.
    """
    with intervening_by_row(model, [interventions]):
        yield


@contextlib.contextmanager
def intervening_by_row(model: PreTrainedModel, rows: Sequence[Sequence[Intervention]]) -> Iterator[None]:
    """As `intervening`, with rows[b] for row b of a batch: one pass tries many. One alone stands for all."""
    if any(isinstance(wrapper, _ChangingAttention) for wrapper in active_wrappers()):
        raise RuntimeError("attention is being intervened in already: give all interventions at once.")
    changing = _ChangingAttention(model, rows)
    with wrapping_attention(model, changing), contextlib.ExitStack() as undo:
        if "decoder" in changing.kinds or "cross" in changing.kinds:
            hook = model.get_decoder().register_forward_pre_hook(changing.begin_pass, with_kwargs=True)
            undo.callback(hook.remove)
        yield


class _ChangingAttention:
    """The plain attention of a model's modules with interventions on its weights.

    An intervention counts queries from the map's first row, but a kernel is called with a few of them at a
    time: those behind the cache, and of a recurrent decoder one by one. So those before them are counted.
    """

    def __init__(self, model: PreTrainedModel, rows: Sequence[Sequence[Intervention]]):
        self.num_rows = len(rows)
        self.cached = 0  # tokens in the decoder's cache as a pass begins
        self.queries_seen: Counter[nn.Module] = Counter()  # of each module, in this pass
        attentions = find_attentions(model)
        self.kinds = set(attentions)
        # module → (which rows of the batch, the module's layer, what is done)
        self.changes: dict[nn.Module, list[tuple[slice, int, Intervention]]] = {}
        for index, interventions in enumerate(rows):
            chosen = slice(None) if len(rows) == 1 else slice(index, index + 1)
            for intervention in interventions:
                for layer, module in _choose_layers(model, attentions, intervention):
                    for part in module.modules():  # the module calls the kernel itself, or a part of it does
                        self.changes.setdefault(part, []).append((chosen, layer, intervention))

    def begin_pass(self, decoder, args, kwargs=None) -> None:  # noqa: ARG002 - what a hook is given
        """Count anew, behind what is in the decoder's cache."""
        if self in active_wrappers():  # another thread may call the hook meanwhile, even without `kwargs`
            cache = kwargs.get("cache")
            self.cached = 0 if cache is None else cache.get_seq_length()
            self.queries_seen.clear()

    def __call__(self, attend, module, query, key, value, attention_mask, **kwargs):
        """Attend plainly, then Y = A V anew where interventions change A."""
        output, weights = attend(module, query, key, value, attention_mask, **kwargs)
        if module not in self.changes:
            return output, weights
        if weights.dim() == 3:  # of a recurrent decoder, which has no heads
            weights = self.change_weights(module, weights.unsqueeze(1), attention_mask).squeeze(1)
            return weights @ value, weights
        weights = self.change_weights(module, weights, attention_mask)
        output = weights @ value.repeat_interleave(weights.shape[1] // value.shape[1], dim=1)  # [B, H, T, Dh]
        if (relative_vectors := kwargs.get("relative_vectors")) is not None:  # added to the values
            output = output + torch.einsum("bhts,btsd->bhtd", weights, relative_vectors[1])
        return output.transpose(1, 2).contiguous(), weights

    def change_weights(self, module: nn.Module, weights: torch.Tensor, attention_mask) -> torch.Tensor:
        """What one call of the kernel weighs, [B, H, T, S], with the module's interventions done."""
        if self.num_rows not in (1, len(weights)):
            raise ValueError(
                f"rows has interventions for {self.num_rows} rows, and the batch has {len(weights)}: give as "
                "many, or one for all."
            )
        changes = self.changes[module]
        first_query = 0  # the map's row that stands first in `weights`
        if changes[0][2].kind != "encoder":  # an encoder reads all at once
            first_query = self.cached + self.queries_seen[module]
            self.queries_seen[module] += weights.shape[2]
        may_attend = _read_may_attend(attention_mask, weights)
        changed = weights.clone()
        for rows, layer, intervention in changes:
            _intervene(intervention, layer, changed[rows], may_attend[rows], first_query)
        return changed


def _choose_layers(model, attentions: dict[str, list[nn.Module]], intervention: Intervention):
    """[(layer, module)] that an intervention changes; refuse a kind, layer or head that is not there."""
    kind, modules = intervention.kind, attentions.get(intervention.kind)
    if modules is None:
        known = ", ".join(attentions) or "no"
        raise ValueError(f"kind={kind!r}: this model has {known} attention that can be changed.")
    _refuse_missing("layer", intervention.layer, len(modules), kind)
    chosen = list(enumerate(modules))
    if intervention.layer is not None:
        chosen = [chosen[intervention.layer]]
    _refuse_missing("head", intervention.head, min(_heads_of(module, model) for _, module in chosen), kind)
    return chosen


def _refuse_missing(name: str, index: int | None, size: int, kind: str) -> None:
    if index is not None and index >= size:
        raise ValueError(
            f"{name}={index} is not there: {kind} attention has {PLURALS[name]} 0 to {size - 1}."
        )


def _read_may_attend(attention_mask, weights: torch.Tensor) -> torch.Tensor:
    """Which keys the mask leaves to each query, bool [B, H, T, S]; all without a mask."""
    if attention_mask is None:
        return torch.ones_like(weights, dtype=torch.bool)
    if attention_mask.dim() == 2:  # a recurrent decoder's, [B, S]
        attention_mask = attention_mask[:, None, None]
    return read_mask(attention_mask).expand_as(weights)


def _intervene(intervention: Intervention, layer: int, weights, may_attend, first_query: int) -> None:
    """Change weights [b, H, T, S] in place; their first row is the map's row `first_query`.

    Keys of a decoder are not checked: they are there only once they are written.
    """
    if intervention.kind == "encoder":
        _refuse_missing("query", intervention.query, weights.shape[2], intervention.kind)
    if intervention.kind != "decoder":
        _refuse_missing("key", intervention.key, weights.shape[3], intervention.kind)
    queries = range(first_query, first_query + weights.shape[2])
    if intervention.query is not None:
        if intervention.query not in queries:
            return
        queries = range(intervention.query, intervention.query + 1)
    rows = slice(queries.start - first_query, queries.stop - first_query)
    heads = slice(None) if intervention.head is None else slice(intervention.head, intervention.head + 1)
    chosen, allowed = weights[:, heads, rows], may_attend[:, heads, rows]  # views of what was given
    if intervention.action == "uniform":
        chosen.copy_(allowed / allowed.sum(-1, keepdim=True).clamp(min=1))
    elif intervention.action == "permute":
        chosen.copy_(_permute(chosen, allowed, _draw(intervention, layer, queries, weights.shape)[:, heads]))
    elif intervention.key is None:
        chosen.zero_()
    else:
        chosen[..., intervention.key : intervention.key + 1] = 0
        chosen.div_(chosen.sum(-1, keepdim=True).clamp(min=torch.finfo(chosen.dtype).tiny))


def _permute(weights: torch.Tensor, allowed: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Shuffle each row's weights [b, H, T, S] among the keys it may attend, as `order` would sort them."""
    shuffled = order.to(weights.device).masked_fill(~allowed, 2).argsort(dim=-1)  # hidden keys come last
    places = (~allowed).long().argsort(dim=-1, stable=True)  # the same keys in their order, hidden ones last
    return torch.zeros_like(weights).scatter(-1, places, weights.gather(-1, shuffled))


def _draw(intervention: Intervention, layer: int, queries: range, shape: Sequence[int]) -> torch.Tensor:
    """Numbers from 0 to 1, [b, H, len(queries), S]: the same of a query whether or not others came before.

    Key by key, so that a row that sees more keys begins as one that sees fewer: with a cache or without, the
    keys that may be attended come in the same order.
    """
    rows, heads, _, keys = shape
    numbers = []
    for query in queries:
        place = (intervention.seed * len(KINDS) + KINDS.index(intervention.kind)) * 1009 + layer
        generator = torch.Generator().manual_seed((place * 100003 + query) % 2**63)
        numbers.append(torch.rand(keys, rows, heads, generator=generator))
    return torch.stack(numbers).permute(2, 3, 0, 1)
