"""Maps of long inputs, whose weights are too many to keep: every head pooled, and a window of each in full.

A layer's weights are reduced as soon as it has read, so that never more than one layer's are in memory. The
model reads the whole input; only its maps are cut.
"""

import contextlib
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional
from transformers import PreTrainedModel

from hf_attn.interpret.attention_maps import AttentionMaps, find_attentions, lay_out
from hf_attn.interpret.model_inputs import refuse_bands
from hf_attn.interpret.plain_attention import eager_attention

LAYER_LIMIT = 2**28  # bytes of one layer's weights, the least that a pass under plain attention needs
WINDOWS = (512, 256, 128, 64)  # tokens on a side
SCALE = 65535  # weights are kept as whole numbers of 16 bits: weight = v / SCALE


@dataclass(frozen=True, eq=False)
class LongMap:
    """One kind of attention of a long input.

    Attributes:
        small: uint16 [L, H, q, k], the whole map pooled by its maximum.
        window: uint16 [L, H, Q, K], the window's weights.
        start: place of the window's first query, and of its first key.
        size: how many queries and keys there are in all.
    """

    small: torch.Tensor
    window: torch.Tensor
    start: tuple[int, int]
    size: tuple[int, int]

    def head(self, layer: int, head: int | None) -> torch.Tensor:
        """[Q, K] weights of one head in the window, or of the mean of a layer's heads where None."""
        weights = self.window[layer].float().mean(0) if head is None else self.window[layer, head].float()
        return weights / SCALE


def choose_window(sizes: Mapping[str, tuple[int, int, int, int]], limit: int) -> int | None:
    """The largest window whose weights, 2 bytes each, fit into the limit; None where all of them do.

    The sizes are `count_map_weights`'. ValueError where one layer alone would be too large, or no window is
    small enough.
    """

    def needed(most: int) -> int:
        return sum(
            2 * layers * heads * min(rows, most) * min(columns, most)
            for layers, heads, rows, columns in sizes.values()
        )

    for kind, (_, heads, rows, columns) in sizes.items():
        if (layer := 4 * heads * rows * columns) > LAYER_LIMIT:
            longest = int((LAYER_LIMIT / 4 / heads) ** 0.5)
            raise ValueError(
                f"{max(rows, columns)} tokens would need {layer / 2**20:.0f} MB for each layer of {kind} "
                f"attention; up to {LAYER_LIMIT / 2**20:.0f} MB are allowed: {longest} tokens of this model."
            )
    if needed(sys.maxsize) <= limit:
        return None
    for window in WINDOWS:
        if needed(window) <= limit:
            return window
    raise ValueError(f"This model has too many heads to look into: a window of {WINDOWS[-1]} needs too much.")


def read_long_maps(
    model: PreTrainedModel,
    source: torch.Tensor,
    target: torch.Tensor | None,
    *,
    window: int | None = None,
    start: tuple[int, int] = (0, 0),
    small: int = 32,
) -> tuple[AttentionMaps, dict[str, LongMap]]:
    """Read a long input once, and keep each layer's pooled maps and a window of them.

    Args:
        model: a Transformer, ours or another's, whatever attention implementation it uses.
        source: [1, S] ids.
        target: [1, T] ids of what is written; None for a model that only reads.
        window: most queries and keys of the window; all where None.
        start: first query and first key of the window, moved where there are not so many.
        small: most queries and keys of the pooled maps.

    Returns:
        (the tokens' ids as in `attention_maps`, without weights; the maps by kind).

    Raises:
        ValueError: the model gives no weights of every query on every key.
    """
    refuse_bands(model)
    found: dict[str, list[LongMap]] = {}

    def reduce(kind: str, weights: torch.Tensor) -> None:
        """Keep a part of one layer's [1, H, Q, K]."""
        rows, columns = weights.shape[-2:]
        height, width = min(rows, window or rows), min(columns, window or columns)
        top, left = max(0, min(start[0], rows - height)), max(0, min(start[1], columns - width))
        by = (-(-rows // small), -(-columns // small))
        pooled = functional.max_pool2d(weights.float(), by, ceil_mode=True)[0]
        part = weights[0, :, top : top + height, left : left + width]
        found.setdefault(kind, []).append(LongMap(_round(pooled), _round(part), (top, left), (rows, columns)))

    names, inputs = lay_out(model, source, target)
    with eager_attention(model), _reducing(model, reduce), torch.no_grad():
        model(**inputs, output_attentions=True)
    if not found:
        raise ValueError(f"{type(model).__name__} gives no attention maps of so long an input.")
    return names, {kind: _stack(parts) for kind, parts in found.items()}


def _round(weights: torch.Tensor) -> torch.Tensor:
    """Weights from 0 to 1 as whole numbers of 16 bits, on the CPU."""
    return (weights.float().clamp(0, 1) * SCALE).round().to(torch.int32).to(torch.uint16).cpu()


def _stack(layers: list[LongMap]) -> LongMap:
    small, window = (torch.stack([getattr(layer, name) for layer in layers]) for name in ("small", "window"))
    return LongMap(small, window, layers[0].start, layers[0].size)


@contextlib.contextmanager
def _reducing(model: PreTrainedModel, reduce) -> Iterator[None]:
    """Give each layer's weights to `reduce(kind, weights)` and empty ones to the model's outputs.

    Only of what this thread reads: others may use the same model meanwhile.
    """
    thread = threading.get_ident()

    def hook_for(kind: str):
        def hook(_: nn.Module, __, output):
            if threading.get_ident() != thread or not isinstance(output, tuple):
                return None
            place = max((i for i, part in enumerate(output) if getattr(part, "ndim", 0) == 4), default=None)
            if place is None:  # not under the plain kernel: nothing is recorded of this pass
                return None
            reduce(kind, output[place])
            return (*output[:place], output[place].new_empty(0), *output[place + 1 :])

        return hook

    with contextlib.ExitStack() as undo:
        for kind, modules in find_attentions(model).items():
            for module in modules:  # before transformers' own hooks, which record what is returned
                undo.callback(module.register_forward_hook(hook_for(kind), prepend=True).remove)
        yield
