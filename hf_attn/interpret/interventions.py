"""Change a model's attention while it runs: take a head, a layer or an edge away, level or shuffle weights.

A map says what was read, not what mattered (Jain & Wallace 2019, arXiv:1902.10186): what mattered shows when
the reading is changed and the answer with it. Heads are taken away as by Michel et al. 2019
(arXiv:1905.10650), edges as by Geva et al. 2023 (arXiv:2304.14767).
"""

import contextlib
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface, eager_mask

from hf_attn.architectures.families import is_recurrent
from hf_attn.interpret.attention_maps import INTERVENED, KINDS, eager_attention, find_attentions
from hf_attn.interpret.head import read_mask

ACTIONS = ("remove", "uniform", "permute")
PLAIN = ("eager_attention_forward", "read_memory")  # what a file of models calls its plain attention
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
                raise ValueError(f"{name}={getattr(self, name)!r} is not known; choose {', '.join(allowed)}.")
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
    """Read a place as `hf-attn ablate` takes it: "cross", "cross.1", "cross.1.0", "cross.1.0.3.5".

    Raises:
        ValueError: it is written otherwise, or Intervention refuses it.
    """
    part = r"\.(\d+|all)"
    match = re.fullmatch(rf"([a-z]+)(?:{part}(?:{part}(?:{part}{part})?)?)?", place)
    if match is None:
        raise ValueError(f"{place!r} is no place; write {GRAMMAR}.")
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
    """As `intervening`, with interventions of its own for each row of a batch, so that one pass tries many.

    Args:
        model: as there.
        rows: of row b, rows[b]; one alone stands for every row.
    """
    if _UNDER_WAY.get() is not None:
        raise RuntimeError("attention is being intervened in already: give all interventions at once.")
    under_way = _UnderWay(model, rows)
    with eager_attention(model), contextlib.ExitStack() as undo:
        for stack in model.modules():
            if isinstance(stack, PreTrainedModel):  # set_attn_implementation asks what a kernel can do
                stack.config._attn_implementation = INTERVENED
        if "decoder" in under_way.kinds or "cross" in under_way.kinds:
            hook = model.get_decoder().register_forward_pre_hook(under_way.begin, with_kwargs=True)
            undo.callback(hook.remove)
        undo.callback(_UNDER_WAY.reset, _UNDER_WAY.set(under_way))
        yield


class _UnderWay:
    """What is being changed: by module, and how much of the answer the decoder has read before."""

    def __init__(self, model: PreTrainedModel, rows: Sequence[Sequence[Intervention]]):
        self.num_rows = len(rows)
        self.past = 0
        self.seen: Counter[nn.Module] = Counter()  # queries of this pass; a recurrent decoder asks one by one
        attentions = find_attentions(model)
        self.kinds = set(attentions)
        self.changes: dict[nn.Module, list[tuple[slice, int, Intervention]]] = {}
        for index, interventions in enumerate(rows):
            row = slice(None) if len(rows) == 1 else slice(index, index + 1)
            for intervention in interventions:
                for layer, module in _choose_layers(model, attentions, intervention):
                    for part in module.modules():  # it asks itself, or a part of it does
                        self.changes.setdefault(part, []).append((row, layer, intervention))

    def begin(self, decoder, args, kwargs=None) -> None:  # noqa: ARG002 - what a hook is given
        """A pass of the decoder begins, behind what is in its cache; another thread may bring no `kwargs`."""
        if _UNDER_WAY.get() is self:  # and not another thread's pass
            cache = kwargs.get("past_key_values")
            self.past = 0 if cache is None else cache.get_seq_length()
            self.seen.clear()

    def change(self, module: nn.Module, weights: torch.Tensor, attention_mask) -> torch.Tensor:
        """[B, H, T, S] weights as they came → as they are to be."""
        if self.num_rows not in (1, len(weights)):
            raise ValueError(
                f"rows has interventions for {self.num_rows} rows, and the batch has {len(weights)}: give as "
                "many, or one for all."
            )
        first = 0
        if self.changes[module][0][2].kind != "encoder":  # which reads all at once
            first = self.past + self.seen[module]
            self.seen[module] += weights.shape[2]
        allowed = _may_attend(attention_mask, weights)
        weights = weights.clone()
        for row, layer, intervention in self.changes[module]:
            _change(weights[row], allowed[row], layer, intervention, first)
        return weights


_UNDER_WAY: ContextVar[_UnderWay | None] = ContextVar("interventions", default=None)


def _choose_layers(model, attentions: dict[str, list[nn.Module]], intervention: Intervention):
    """[(layer, module)] that an intervention is about.

    Raises:
        ValueError: the model has no such.
    """
    modules = attentions.get(intervention.kind)
    if modules is None:
        there = f"{', '.join(attentions) or 'no'} attention"
        raise ValueError(f"kind={intervention.kind!r}: this model has {there} that can be changed.")
    _refuse_missing("layer", intervention.layer, len(modules), intervention.kind)
    chosen = list(enumerate(modules))
    if intervention.layer is not None:
        chosen = [chosen[intervention.layer]]
    heads = min(_heads_of(module, model) for _, module in chosen)
    _refuse_missing("head", intervention.head, heads, intervention.kind)
    return chosen


def _refuse_missing(name: str, index: int | None, size: int, kind: str) -> None:
    if index is not None and index >= size:
        there = f"{PLURALS[name]} 0 to {size - 1}"
        raise ValueError(f"{name}={index} is not there: {kind} attention has {there}.")


def _may_attend(attention_mask, weights: torch.Tensor) -> torch.Tensor:
    """Which keys the mask leaves to each query, bool [B, H, T, S]; all without a mask."""
    if attention_mask is None:
        return torch.ones_like(weights, dtype=torch.bool)
    if attention_mask.dim() == 2:  # a recurrent decoder's, [B, S]
        attention_mask = attention_mask[:, None, None]
    return read_mask(attention_mask).expand_as(weights)


def _change(weights, allowed, layer: int, intervention: Intervention, first: int) -> None:
    """Write the changed weights over those that came, [b, H, T, S], of which row 0 is the query `first`."""
    if intervention.kind == "encoder":
        _refuse_missing("query", intervention.query, weights.shape[2], intervention.kind)
    if intervention.kind != "decoder":  # whose keys are there only once they are written
        _refuse_missing("key", intervention.key, weights.shape[3], intervention.kind)
    queries = range(first, first + weights.shape[2])
    if intervention.query is not None:
        if intervention.query not in queries:
            return
        queries = range(intervention.query, intervention.query + 1)
    asked = slice(queries.start - first, queries.stop - first)
    heads = slice(None) if intervention.head is None else slice(intervention.head, intervention.head + 1)
    part, may_attend = weights[:, heads, asked], allowed[:, heads, asked]
    if intervention.action == "uniform":
        part.copy_(may_attend / may_attend.sum(-1, keepdim=True).clamp(min=1))
    elif intervention.action == "permute":
        part.copy_(_permute(part, may_attend, _draw(intervention, layer, queries, weights.shape)[:, heads]))
    elif intervention.key is None:
        part.zero_()
    else:
        part[..., intervention.key : intervention.key + 1] = 0
        part.div_(part.sum(-1, keepdim=True).clamp(min=torch.finfo(part.dtype).tiny))


def _permute(weights: torch.Tensor, allowed: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Shuffle each row's weights [b, H, T, S] among the keys it may attend, as `order` would sort them."""
    shuffled = order.to(weights.device).masked_fill(~allowed, 2).argsort(dim=-1)  # the others come last
    places = (~allowed).long().argsort(dim=-1, stable=True)  # the same keys, as they stand
    return torch.zeros_like(weights).scatter(-1, places, weights.gather(-1, shuffled))


def _draw(intervention: Intervention, layer: int, queries: range, shape: Sequence[int]) -> torch.Tensor:
    """Numbers from 0 to 1, [b, H, len(queries), S]: the same of a query whether or not others came before.

    Key by key, so that a row that sees more keys begins as one that sees fewer: with a cache or without, the
    keys that may be attended come in the same order.
    """
    rows, heads, _, keys = shape
    drawn = []
    for query in queries:
        place = (intervention.seed * len(KINDS) + KINDS.index(intervention.kind)) * 1009 + layer
        generator = torch.Generator().manual_seed((place * 100003 + query) % 2**63)
        drawn.append(torch.rand(keys, rows, heads, generator=generator))
    return torch.stack(drawn).permute(2, 3, 0, 1)


def intervened_attention_forward(module, query, key, value, attention_mask, **kwargs):
    """The module's own plain attention, then Y = A V anew where interventions change A.

    Args:
        module: the attention module that asks, or a recurrent decoder's score.
        query: [B, H, T, Dh]; of a recurrent decoder [B, T, D].
        key: [B, H, S, Dh], or what the score makes of the memory.
        value: [B, H, S, Dh], or the memory [B, S, M]; fewer heads where queries share them.
        attention_mask: as eager attention takes it.
        **kwargs: passed on.

    Returns:
        As the plain attention does: (Y [B, T, H, Dh], A [B, H, T, S]), or (Y [B, T, M], A [B, T, S]).
    """
    output, weights = _plain_attention(module)(module, query, key, value, attention_mask, **kwargs)
    under_way = _UNDER_WAY.get()
    if under_way is None or module not in under_way.changes:
        return output, weights
    if weights.dim() == 3:
        weights = under_way.change(module, weights.unsqueeze(1), attention_mask).squeeze(1)
        return weights @ value, weights
    weights = under_way.change(module, weights, attention_mask)
    output = weights @ value.repeat_interleave(weights.shape[1] // value.shape[1], dim=1)  # [B, H, T, Dh]
    if (relative_vectors := kwargs.get("relative_vectors")) is not None:  # they stand beside the values
        output = output + torch.einsum("bhts,btsd->bhtd", weights, relative_vectors[1])
    return output.transpose(1, 2).contiguous(), weights


def _plain_attention(module: nn.Module) -> Callable:
    """The attention function that stands in the file of a module's class, or of a class it comes from."""
    files = (vars(sys.modules[parent.__module__]) for parent in type(module).__mro__)
    return next(names[plain] for names in files for plain in PLAIN if plain in names)


AttentionInterface.register(INTERVENED, intervened_attention_forward)
AttentionMaskInterface.register(INTERVENED, eager_mask)
