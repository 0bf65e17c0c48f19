"""What a lens shows of one input: all weights where they are few, else every head small and one head whole.

A page that was sent small maps asks for a head when it is picked, and any page for the numbers
behind a cell (`cell_value`). Of an input that is too long to be kept, a window is.
"""

import base64
import math
from dataclasses import dataclass, field

import torch

from hf_attn.analysis.head_roles import build_attention_mask
from hf_attn.analysis.predictions import MASKED, NEXT
from hf_attn.architectures.families import is_recurrent
from hf_attn.architectures.map_sizes import count_map_weights, estimate_map_bytes
from hf_attn.generation.generate import generate_answer
from hf_attn.interpret.attention_maps import OFFERED, AttentionMaps, attention_maps
from hf_attn.interpret.head import Head
from hf_attn.interpret.long_inputs import LongMap, choose_window, read_long_maps
from hf_attn.tasks.base import TEXT

from ..ui import boards, formatting
from .catalog import LoadedModel
from .model_input import as_ids, known_alignment

SENT_WEIGHTS = 2**19  # up to so many are sent to a page at once
KEPT_BYTES = 80 * 2**20  # of one visitor's long input: twelve layers of twelve heads, 512 by 512 tokens
FEW_HEADS = 48  # up to which a small map is drawn larger
SMALL = (64, 32)  # tokens on a side of a small map, of few heads and of many
LONGEST_TITLE = 120  # characters


class TargetError(ValueError):
    """What is wrong with the target, not with the input."""


@dataclass(frozen=True)
class ComputedMaps:
    """One input, read."""

    # read, written: ids of the input, and of what is written
    read: list[int]
    written: list[int]
    maps: AttentionMaps  # names of the tokens, and where they are few, the weights
    long: dict[str, LongMap] = field(default_factory=dict)  # the maps by kind where they are many; else empty
    window: int | None = None  # tokens on a side of what is kept of them; None for all
    needed: int = 0  # bytes that all weights would need

    @property
    def kinds(self) -> list[str]:
        """The kinds of maps, in the order in which they are offered."""
        return [kind for kind in OFFERED if kind in (self.long or self.maps.kinds)]

    @property
    def answering(self) -> str | None:
        """The kind in which the answer reads the input; for an encoder, in which the input reads itself."""
        return next((kind for kind in ("cross", "decoder", "encoder") if kind in self.kinds), None)


def read_target(opened: LoadedModel, source: list[int], text: str) -> list[int]:
    """Ids of the given target, or of what the model writes itself; TargetError where it cannot be read.

    A model that names no task writes nothing unasked: of an encoder-decoder the first token is shown.
    """
    if not opened.takes_target:
        return []
    if not text:
        most = 1 if opened.predicts else opened.most_own(len(source))
        return list(generate_answer(opened.model, as_ids(opened, source), max_new_tokens=most).ids)
    most = opened.most_written(len(source))
    if opened.task is None:
        ids = opened.encode_target(text)
    else:
        symbols = opened.task.split_target(text)
        unknown = [symbol for symbol in symbols if symbol not in opened.task.vocabulary]
        if unknown:
            example = opened.task.worked_example.target
            raise TargetError(
                f"{unknown[0]!r} is not a symbol of {opened.task.name}: write, for example, {example!r}."
            )
        end = [] if opened.kind == TEXT else [opened.model.config.eos_token_id]
        ids = [*opened.task.ids(*symbols), *end]
    if len(ids) > most:
        raise TargetError(
            f"The target has {formatting.count(len(ids) - 1)} symbols; this model writes "
            f"{formatting.count(most - 1)} at most. Shorten it, or leave it empty."
        )
    return ids


def compute_maps(opened: LoadedModel, text: str, target: str) -> ComputedMaps:
    """Compute the maps of an input and its target; TargetError or ValueError says which cannot be read."""
    read = opened.encode(text)
    writes = opened.model.can_generate()
    choose_window(count_map_weights(opened.model.config, len(read), int(writes)), KEPT_BYTES)
    return compute_window(opened, read, read_target(opened, read, target))


def compute_window(
    opened: LoadedModel, read: list[int], written: list[int], start: tuple[int, int] = (0, 0)
) -> ComputedMaps:
    """Compute the maps of ids; where they are too many, those of a window that begins at `start`."""
    config = opened.model.config
    rows = len(written) or int(opened.predicts == NEXT)  # read alone, a text has as many as with one written
    sizes, needed = (count(config, len(read), rows) for count in (count_map_weights, estimate_map_bytes))
    if is_recurrent(config) or sum(map(math.prod, sizes.values())) <= SENT_WEIGHTS:
        maps = attention_maps(opened.model, read, opened.as_target(written))
        return ComputedMaps(read, written, maps.relabel(opened.labels), needed=needed)
    window = choose_window(sizes, KEPT_BYTES)
    small = SMALL[max(layers * heads for layers, heads, *_ in sizes.values()) > FEW_HEADS]
    source, target = as_ids(opened, read), opened.as_target(written)
    target = None if target is None else as_ids(opened, target)
    maps, long = read_long_maps(opened.model, source, target, window=window, start=start, small=small)
    return ComputedMaps(read, written, maps.relabel(opened.labels), long, window, needed)


def board_value(opened: LoadedModel, text: str, computed: ComputedMaps, kept: dict | None) -> dict:
    """Everything that the board shows of an input; `kept` is what was picked before."""
    known = known_alignment(opened, text, computed.written)
    value: dict = {"kinds": {kind: kind_value(opened, computed, kind, known) for kind in computed.kinds}}
    first = choose_first(computed, value["kinds"])
    if opened.predicts == MASKED:  # where something is to be filled in
        masked = getattr(opened.tokenizer, "mask_token_id", None)
        first |= {"query": computed.read.index(masked) if masked in computed.read else 0, "key": None}
    value |= kept or first
    if opened.predicts in (NEXT, MASKED):  # another text has other places
        value |= {name: first[name] for name in ("query", "key") if name in first}
    for kind, kind_of in value["kinds"].items():
        if kind in computed.long:
            layer, head = (
                min(value.get(name) or 0, most - 1)
                for name, most in zip(("layer", "head"), kind_of["shape"], strict=False)
            )
            kind_of["whole"] = {f"{layer}.{head}": pack(computed.long[kind].head(layer, head))}
    title = f"{text} → {opened.read_text(computed.written)}" if computed.written else text
    value["title"] = formatting.shorten(title, LONGEST_TITLE)
    value["untrained"] = opened.run is not None and opened.run.step == 0
    value["asks"] = [] if is_recurrent(opened.model.config) else ["cell"]
    if computed.window is not None:
        tokens = formatting.count(max(max(long.size) for long in computed.long.values()))
        needed, window = (formatting.count(n) for n in (round(computed.needed / 1e6), computed.window))
        why = f"{tokens} tokens would need {needed} MB; the window shows {window} at a time."
        value["window"] = {"size": computed.window, "why": f"{why} The model reads all of them."}
    return value


def kind_value(opened: LoadedModel, computed: ComputedMaps, kind: str, known) -> dict:
    rows, columns = map(list, computed.maps.sides(kind))
    value: dict = {"truth": None}
    if kind == computed.answering and kind != "encoder":
        value["truth"] = computed.maps.align(kind, known)
    if kind == "cross" and is_recurrent(opened.model.config):
        value["title"] = "alignment, written symbols read the input"
    if kind not in computed.long:
        weights = getattr(computed.maps, kind)
        if kind == "decoder":
            value["allowed"] = build_attention_mask(kind, len(rows), len(columns)).tolist()
        sent = {"maps": boards.encode_maps(weights), "shape": list(weights.shape)}
        return {**value, "rows": rows, "cols": columns, **sent}
    long = computed.long[kind]
    (first, second), (height, width) = long.start, long.window.shape[-2:]
    if value["truth"] is not None:
        value["truth"] = [row[second : second + width] for row in value["truth"][first : first + height]]
    return {
        **value,
        "rows": rows[first : first + height],
        "cols": columns[second : second + width],
        "shape": list(long.window.shape),
        "small": pack(long.small),
        "small_shape": list(long.small.shape),
        "from": [first, second],
        "of": list(long.size),
        "ahead": len(columns) - len(rows) if kind == "decoder" else None,
    }


def choose_first(computed: ComputedMaps, kinds: dict) -> dict:
    """What is shown first: the last layer of the map in which the answer reads the input.

    Of a text that is read alone, the head that reads most of what decides its last word that is decided.
    """
    kind = computed.answering
    if kind is None:
        return {}
    layers, heads, rows, _ = kinds[kind]["shape"]
    chosen, truth = {"kind": kind, "layer": layers - 1}, kinds[kind]["truth"]
    decided = [place for place, row in enumerate(truth or ()) if any(row)]
    if kind == "decoder" and not computed.written:  # a text that is read: its last word that is decided
        query = decided[-1] if decided else rows - 1
        if computed.long or not decided:
            return chosen | {"query": query, "key": None}
        weights = computed.maps.decoder[:, :, query]
        known = torch.tensor(truth[query], dtype=weights.dtype).clamp(max=1)
        layer, head = divmod(int((weights @ known).argmax()), heads)
        return chosen | {
            "layer": layer,
            "head": head,
            "query": query,
            "key": int(weights[layer, head].argmax()),
        }
    if truth:
        query = decided[0] if decided else 0
        whole = computed.long[kind].head(-1, 0) if computed.long else getattr(computed.maps, kind)[-1, 0]
        chosen |= {"query": query, "key": int(whole[query].argmax())}
    return chosen


def pack(weights: torch.Tensor) -> str:
    """Encode weights for a board; those already in 16 bits stay so."""
    if weights.dtype == torch.uint16:
        return base64.b64encode(weights.numpy().astype("<u2").tobytes()).decode("ascii")
    return boards.encode_maps(weights)


def cell_value(found: Head, query: int, key: int) -> dict[str, object]:
    """A cell's query, key, value and score, or why there are none."""
    rows, columns = found.weights.shape
    if query >= rows or key >= columns:
        return {"why": f"This map has {rows} queries and {columns} keys: it has no such cell."}
    scores = found.scaled[query] + (0 if found.bias is None else found.bias[query])
    others = scores.masked_fill(~found.may_attend[query], -math.inf).clone()
    others[key] = -math.inf
    other = int(others.argmax())
    offset = 0 if found.value_offsets is None else found.value_offsets[query, key]
    return {
        "q": found.query[query].tolist(),
        "k": found.key[key].tolist(),
        "v": (found.value[key] + offset).tolist(),
        "score": float(found.scores[query, key]),
        "scaled": float(found.scaled[query, key]),
        "bias": None if found.bias is None else float(found.bias[query, key]),
        "other": None if others[other] == -math.inf else {"key": other, "scaled": float(scores[other])},
        "weight": float(found.weights[query, key]),
        "keys": int(found.may_attend[query].sum()),
    }
