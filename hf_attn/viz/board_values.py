"""What the lens of `hf_attn/viz/web` draws: the contract of its value.

`docs/board_types.py` writes these types for the page's scripts. Maps are packed by `encode_maps`; layers,
heads and places count from 0.
"""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

Packed = str  # weights, as `encode_maps` gives them
Shape = tuple[int, int, int, int]  # layers, heads, queries, keys
Truth = list[list[Literal[0, 1, 2]]]  # [queries][keys]: 1 known answer, 2 carried or indirect

_WindowStart = TypedDict("_WindowStart", {"from": NotRequired[tuple[int, int]]})


class LensKind(_WindowStart):
    """The maps of one kind of attention; of a long input, a window of them, which begins at `from`."""

    rows: list[str]  # labels
    cols: list[str]
    shape: Shape
    maps: NotRequired[Packed]  # [layers, heads, queries, keys]
    allowed: NotRequired[list[list[bool | int]]]  # false: masked
    padding: NotRequired[list[bool]]
    truth: NotRequired[Truth | None]
    title: NotRequired[str]
    layers: NotRequired[list[int]]  # which of the model's these are, where not all are here
    heads: NotRequired[list[int]]
    small: NotRequired[Packed]  # pooled maps of every head, in place of `maps`
    small_shape: NotRequired[Shape]
    whole: NotRequired[dict[str, Packed]]  # "layer.head" or "layer.mean": what is sent of a long input
    of: NotRequired[tuple[int, int]]  # how long both axes are
    ahead: NotRequired[int | None]  # in a decoder, how many keys more than queries there are


class LensWindow(TypedDict):
    """The window on a long input."""

    size: int  # tokens on a side
    why: str  # not all are shown


class LensValue(TypedDict):
    """All that the lens draws; what is shown first is chosen by kind, layer, head, query and key."""

    kinds: dict[str, LensKind]  # "encoder", "decoder", "cross"; empty: a model without attention
    title: str
    kind: NotRequired[str | None]
    layer: NotRequired[int]
    head: NotRequired[int | None]
    query: NotRequired[int | None]
    key: NotRequired[int | None]
    untrained: NotRequired[bool]
    id: NotRequired[int]  # number of this input
    asks: NotRequired[list[Literal["cell"]]]  # where query, key and value can be asked for
    window: NotRequired[LensWindow]
    python: NotRequired[str]


class LensHead(TypedDict):
    """A head of a long input that was asked for."""

    kind: str
    at: str  # "layer.head" or "layer.mean"
    map: Packed


class LensHeadMessage(TypedDict):
    """What comes after `fetch`."""

    id: int
    add: LensHead


class LensCell(TypedDict):
    """The numbers behind a cell, or why there are none."""

    kind: str
    layer: int
    head: int
    query: int
    key: int
    python: NotRequired[str]
    why: NotRequired[str]
    q: NotRequired[list[float]]
    k: NotRequired[list[float]]
    v: NotRequired[list[float]]
    score: NotRequired[float]
    scaled: NotRequired[float]
    bias: NotRequired[float | None]
    weight: NotRequired[float]
    keys: NotRequired[int]  # how many the query may read


class LensCellMessage(TypedDict):
    """What comes after `look_inside`."""

    id: int
    cell: LensCell
