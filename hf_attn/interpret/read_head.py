"""One head of a trained model, number by number: queries, keys and values as its kernel was given them.

Whatever the model does before (biases, rotations, keys that heads share) is in them, whatever its modules
are called. The weights are computed once more from them; a head whose map does not come out is refused.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from hf_attn.architectures.families import is_ours, is_recurrent
from hf_attn.interpret.attention_maps import (
    OFFERED,
    AttentionMaps,
    attention_maps,
    find_attentions,
    refuse_without_attention,
)
from hf_attn.interpret.head import Head, read_mask
from hf_attn.interpret.plain_attention import wrapping_attention
from hf_attn.models.config_checks import show_value
from hf_attn.models.efficient_attention import EFFICIENT_ATTENTION
from hf_attn.utils.text import quote

CLOSE = 1e-4  # of a weight computed once more to the model's own: rounding, and nothing else
GIVEN = ("query", "key", "value", "attention_mask")  # to every kernel
ADDED = ("scaling", "position_bias", "relative_vectors")  # … to some


def find_readable_attention(model: PreTrainedModel) -> dict[str, list[nn.Module]]:
    """The attention modules whose scores are products of queries and keys: kind → a module a layer.

    The kind in which the answer reads the source comes first. ValueError where the model has none.
    """
    if is_recurrent(model.config):
        raise ValueError(f"A {model.config.model_type} model has no queries and keys: choose a Transformer.")
    kind = getattr(model.config, "attention_type", "full")
    if is_ours(model.config.model_type) and kind in EFFICIENT_ATTENTION:
        raise ValueError(
            f"attention_type={kind!r} does not weigh every key against every query: choose a model that does."
        )
    refuse_without_attention(model)
    modules = find_attentions(model)
    return {kind: modules[kind] for kind in OFFERED if kind in modules}


@dataclass(frozen=True, eq=False)
class ReadHeads:
    """What the kernels of a model were given in one pass: any of its heads, without another pass.

    `layers` counts the layers of each kind; `calls` holds what the kernel of a (kind, layer) was given, as
    arguments of `_build_head`.
    """

    model_type: str
    layers: dict[str, int]
    maps: AttentionMaps
    calls: dict[tuple[str, int], dict[str, Any]]

    def head(self, kind: str | None = None, layer: int = -1, head: int = 0) -> Head:
        """One head; arguments and errors as `read_head` has them."""
        kind, layer = _find_place(self.layers, kind, layer)
        weights = getattr(self.maps, kind)[layer]
        if not 0 <= head < len(weights):
            raise ValueError(f"head={head} is not there: {kind} attention has {len(weights)} heads, from 0.")
        found, given = None, self.calls.get((kind, layer))
        if given is not None:
            if (dtype := given["query"].dtype).itemsize < 4:
                raise ValueError(
                    f"This model computes in {dtype}, too roughly to make its weights once more from queries "
                    "and keys: load it with dtype=torch.float32."
                )
            found = _build_head(*self.maps.sides(kind), kind, head, **given)
        if found is None or not torch.allclose(found.weights.float(), weights[head], rtol=0, atol=CLOSE):
            raise ValueError(
                f"The weights of this {self.model_type} head are not softmax(q·k) alone, so its queries "
                "and keys cannot be shown; its weights are in the map."
            )
        return found


def read_heads(model: PreTrainedModel, inputs, target=None, *, tokenizer=None, row=None) -> ReadHeads:
    """All heads of a trained model in one pass; arguments and errors as `read_head` has them."""
    return _read_heads(model, None, inputs, target, tokenizer=tokenizer, row=row)


def read_head(
    model: PreTrainedModel,
    inputs,
    target=None,
    *,
    tokenizer=None,
    row: int | None = None,
    kind: str | None = None,
    layer: int = -1,
    head: int = 0,
) -> Head:
    """One head of a trained model: queries, keys and values as its own forward pass has them.

    Args:
        model: ours, or another that attends by transformers' attention interface.
        inputs: as `attention_maps` takes them.
        target: likewise; None lets the model write.
        tokenizer: reads text and names the tokens.
        row: which one of several rows, from 0.
        kind: "cross", "encoder" or "decoder"; None for the one in which the answer reads the source.
        layer: from 0; −1 is the last.
        head: from 0; of those that ask, where several share their keys.

    Raises:
        ValueError: there is no such head, the model has no queries and keys, or the head's weights are not
            the softmax of q · k with what is added to it: of a sliding window, capped scores, a sink that is
            no token.
    """
    layers = {name: len(modules) for name, modules in find_readable_attention(model).items()}
    place = _find_place(layers, kind, layer)
    return _read_heads(model, place, inputs, target, tokenizer=tokenizer, row=row).head(*place, head)


def _find_place(layers: dict[str, int], kind: str | None, layer: int) -> tuple[str, int]:
    """Kind and layer from 0; ValueError where they are not among so many layers of each kind."""
    kind = next(iter(layers)) if kind is None else kind
    if kind not in layers:
        raise ValueError(f"kind={quote(kind)} is none of this model's; choose {', '.join(layers)}.")
    count = layers[kind]
    if not -count <= layer < count:
        raise ValueError(
            f"layer={show_value(layer)} is not there: {kind} attention has {count} layers, from 0."
        )
    return kind, layer % count


def _read_heads(model: PreTrainedModel, only: tuple[str, int] | None, *inputs, **how) -> ReadHeads:
    """The heads of all layers, or of one; `inputs` and `how` as `attention_maps` takes them."""
    readable = find_readable_attention(model)
    place_of = {
        part: (kind, layer)
        for kind, modules in readable.items()
        for layer, module in enumerate(modules)
        for part in module.modules()  # the module calls the kernel itself, or a part of it does
        if only in (None, (kind, layer))
    }
    calls: dict[tuple[str, int], dict[str, Any]] = {}

    def note(attend: Callable, module, *tensors, **kwargs):
        if module in place_of:  # a model that writes first reads more than once: the last pass is shown
            given = dict(zip(GIVEN, tensors, strict=True))
            calls[place_of[module]] = given | {name: kwargs[name] for name in ADDED if name in kwargs}
        return attend(module, *tensors, **kwargs)

    with wrapping_attention(model, note):
        maps = attention_maps(model, *inputs, **how)
    layers = {kind: len(modules) for kind, modules in readable.items()}
    return ReadHeads(model.config.model_type, layers, maps, calls)


def _build_head(
    rows: tuple[str, ...],
    columns: tuple[str, ...],
    kind: str,
    head: int,
    query,
    key,
    value,
    attention_mask,
    scaling=None,
    position_bias=None,
    relative_vectors=None,
) -> Head:
    """A head out of what its kernel was given: query [1, H, T, Dh], key and value [1, H or fewer, S, Dh]."""
    place = head * key.shape[1] // query.shape[1]  # where heads of queries share their keys
    query, key, value = query[0, head], key[0, place], value[0, place]
    width = query.shape[-1]
    scaling = width**-0.5 if scaling is None else scaling
    may_attend = torch.ones(len(query), len(key), dtype=torch.bool)
    bias, value_offsets = torch.zeros(len(query), len(key), dtype=torch.float64), None
    for added in (attention_mask, position_bias):
        if added is not None:
            of_head = added[0, head if added.shape[1] > 1 else 0].detach().cpu().expand_as(bias)
            allowed = read_mask(of_head)
            may_attend &= allowed
            if of_head.dtype != torch.bool:
                bias += of_head.double().masked_fill(~allowed, 0)
    if relative_vectors is not None:
        key_offsets, value_offsets = relative_vectors[:, 0]  # a^K and a^V, [T, S, Dh]
        bias += _exact(torch.einsum("td,tsd->ts", query * scaling, key_offsets))
        value_offsets = _exact(value_offsets)
    is_causal = len(query) == len(key) and not bool(may_attend.triu(1).any())
    return Head(
        rows,
        columns,
        _exact(query),
        _exact(key),
        _exact(value),
        scale=math.isclose(scaling, width**-0.5),
        causal=is_causal and (len(key) > 1 or kind == "decoder"),
        hidden=tuple((~may_attend.any(dim=0)).nonzero().flatten().tolist()),
        bias=bias if bias.any() else None,
        value_offsets=value_offsets,
    )


def _exact(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().double().cpu()
