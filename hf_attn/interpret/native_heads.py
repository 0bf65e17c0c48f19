"""One head of a model with transformers' own classes: queries, keys and values as its kernel was given them.

Whatever the model does before (biases, rotations, keys that heads share) is in them, whatever its modules
are called. The weights are made once more from them; what does not come out as the model's map is refused.
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface, eager_mask

from hf_attn.interpret.attention_maps import RECORDED, attention_maps, eager_attention, find_attentions
from hf_attn.interpret.head import Head, exact, read_mask
from hf_attn.interpret.interventions import intervened_attention_forward

CLOSE = 1e-4  # of a weight made once more to the model's own: rounding, and nothing else


@dataclass(frozen=True, eq=False)
class _Asked:
    """What a kernel was given: query [H, T, Dh], key and value [H or fewer, S, Dh], what joins the scores."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    position_bias: torch.Tensor | None
    scaling: float


def read_native_head(
    model: PreTrainedModel, inputs, target=None, *, kind: str, layer: int, head: int, tokenizer=None
) -> Head:
    """One head of a model that was not made here.

    Args:
        model: any that attends by transformers' attention interface.
        inputs: as `attention_maps` takes them.
        target: likewise.
        kind: "encoder", "decoder" or "cross".
        layer: from 0.
        head: from 0; of those that ask, where several share their keys.
        tokenizer: reads text and names the tokens.

    Returns:
        The head, without its input vectors and projections.

    Raises:
        ValueError: there is no such head, or its weights are not the softmax of q · k with what is added to
            it: of a sliding window, capped scores, a sink that is no token.
    """
    modules = find_attentions(model).get(kind, [])
    if not 0 <= layer < len(modules):
        raise ValueError(f"kind={kind!r}, layer={layer}: this model has {len(modules)} such layers, from 0.")
    with _recording(model, modules[layer]) as asked:
        maps = attention_maps(model, inputs, target, tokenizer=tokenizer)
    weights = getattr(maps, kind)[layer]
    if not 0 <= head < len(weights):
        raise ValueError(f"head={head}: the {kind} attention has {len(weights)} heads, from 0.")
    if asked and asked[-1].query.dtype.itemsize < 4:
        raise ValueError(
            f"This model computes in {asked[-1].query.dtype}, too roughly to make its weights once more from "
            "its queries and keys: load it with dtype=torch.float32."
        )
    found = _build_head(asked[-1], *maps.sides(kind), head) if asked else None
    if found is None or not torch.allclose(found.weights.float(), weights[head], rtol=0, atol=CLOSE):
        raise ValueError(
            f"The weights of this {model.config.model_type} head are not softmax(q·k) alone, so its queries "
            "and keys cannot be shown; its weights are in the map."
        )
    return found


# ---------------------------------------------------------------- what the kernel is given

_UNDER_WAY: ContextVar[tuple[set[nn.Module], list[_Asked]] | None] = ContextVar("recording", default=None)


@contextlib.contextmanager
def _recording(model: PreTrainedModel, module: nn.Module) -> Iterator[list[_Asked]]:
    """Note what an attention module gives its kernel; what other threads read is not noted."""
    asked: list[_Asked] = []
    with eager_attention(model), contextlib.ExitStack() as undo:
        for stack in model.modules():
            if isinstance(stack, PreTrainedModel):
                before = stack.config._attn_implementation
                undo.callback(setattr, stack.config, "_attn_implementation", before)
                stack.config._attn_implementation = RECORDED
        parts = set(module.modules())  # the module asks itself, or a part of it does
        undo.callback(_UNDER_WAY.reset, _UNDER_WAY.set((parts, asked)))
        yield asked


def recorded_attention_forward(module, query, key, value, attention_mask, **kwargs):
    """The module's own plain attention; what it is given is noted where it is looked at.

    Args:
        module: the attention module that asks.
        query: [B, H, T, Dh].
        key: [B, H, S, Dh], or fewer heads where queries share them.
        value: likewise.
        attention_mask: as eager attention takes it.
        **kwargs: passed on.

    Returns:
        As the plain attention does: (Y [B, T, H, Dh], A [B, H, T, S]).
    """
    under_way = _UNDER_WAY.get()
    if under_way is not None and module in under_way[0]:
        bias, scaling = kwargs.get("position_bias"), kwargs.get("scaling")
        asked = _Asked(
            query[0],
            key[0],
            value[0],
            None if attention_mask is None else attention_mask[0],
            None if bias is None else bias[0],
            query.shape[-1] ** -0.5 if scaling is None else scaling,
        )
        under_way[1][:] = [asked]  # a model that writes first reads more than once; the last pass is shown
    return intervened_attention_forward(module, query, key, value, attention_mask, **kwargs)


AttentionInterface.register(RECORDED, recorded_attention_forward)
AttentionMaskInterface.register(RECORDED, eager_mask)


# ---------------------------------------------------------------- as a head


def _build_head(asked: _Asked, rows: tuple[str, ...], columns: tuple[str, ...], head: int) -> Head:
    """The head as data."""
    shared = len(asked.query) // len(asked.key)  # queries' heads for each head of keys
    query, key, value = asked.query[head], asked.key[head // shared], asked.value[head // shared]
    may_attend, bias = _sum_masks(asked, len(query), len(key), head)
    return Head(
        rows,
        columns,
        exact(query),
        exact(key),
        exact(value),
        scale=asked.scaling != 1,
        causal=len(query) == len(key) and not bool(may_attend.triu(1).any()),
        hidden=tuple((~may_attend.any(dim=0)).nonzero().flatten().tolist()),
        bias=bias,
    )


def _sum_masks(asked: _Asked, rows: int, columns: int, head: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(which keys each query may read, bool [T, S]; what positions add to its scores, or None)."""
    bias = torch.zeros(rows, columns, dtype=torch.float64)
    may_attend = torch.ones(rows, columns, dtype=torch.bool)
    for added in (asked.mask, asked.position_bias):
        if added is None:
            continue
        of_head = added[head if len(added) > 1 else 0].detach().cpu().expand(rows, columns)
        allowed = read_mask(of_head)
        may_attend &= allowed
        if of_head.dtype != torch.bool:
            bias += of_head.double().masked_fill(~allowed, 0)
    return may_attend, bias if bias.any() else None
