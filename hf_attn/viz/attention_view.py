"""Attention maps of any model of transformers, to look at in a notebook or in a file, without the app."""

import html
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import index
from pathlib import Path
from typing import Any
from unicodedata import category

from hf_attn.interpret.attention_maps import (
    MEMORY_LIMIT,
    OFFERED,
    AttentionMaps,
    attention_maps,
    refuse_without_attention,
    writes_unasked,
)
from hf_attn.models.config_checks import check_choice, show_value
from hf_attn.utils.atomic_write import write_file
from hf_attn.utils.text import quote
from hf_attn.viz.draw_map import WRITERS, Alignment, check_suffix, choose_head, draw_map, save_maps
from hf_attn.viz.web import THEMES, build_page, pack_kind

PAGE_LIMIT = 2**25  # bytes of weights that a page holds: 16 maps of 1,024 by 1,024 tokens
MOST_WRITTEN = 64  # tokens, where nothing else is asked for
LONGEST_TITLE = 120  # characters
FRAME = """<div style="position:relative;min-height:4em"><p style="position:absolute;margin:1em">{note}</p>\
<iframe title="{title}" srcdoc="{page}" sandbox="allow-scripts allow-downloads" allow="clipboard-write" \
style="position:relative;display:block;width:100%;height:{height}px;border:0;resize:vertical"></iframe></div>"""
NOTE = "The maps stand here once this notebook is trusted; nothing is loaded from elsewhere."
NO_BREAK = "\u00a0"  # the lens draws a plain space as ␣, and "row 1, col 2" is no text that was read
HEIGHT = 820  # pixels of the frame in a notebook; its lower edge can be drawn


@dataclass(frozen=True)
class AttentionView:
    """Attention maps of one input, shown in a notebook or saved to a file.

    A notebook shows the last line of a cell as the lens: every head at a glance, one large, one token's view.

    Attributes:
        maps: the weights and the tokens' names.
        title: what was read, and what was written.
        truth: [Q][K] of the map in which the answer reads, 1 where a row is known to need a column, 2 where
            indirectly; ringed.
        layers: those that the lens offers, from 0; all where None.
        heads: likewise.
        theme: "auto" (what the reader's system is set to), "light" or "dark".
        model: its name, for the pictures that are saved from the page.
    """

    maps: AttentionMaps
    title: str = ""
    truth: Alignment | None = field(default=None, repr=False)
    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    theme: str = "auto"
    model: str = ""

    def __post_init__(self):
        check_choice("theme", self.theme, THEMES)
        if self.maps.answering is None:
            raise ValueError("There is no attention to show: this model reads step by step.")
        for kind in self.kinds:
            weights, (rows, columns) = getattr(self.maps, kind), self.maps.sides(kind)
            if (found := tuple(weights.shape[2:])) != (len(rows), len(columns)):
                raise ValueError(
                    f"This model does not attend from every token to every token: its {kind} maps have shape "
                    f"{found}, for {len(rows)} × {len(columns)} tokens."
                )
            for name, chosen, size in zip(
                ("layer", "head"), (self.layers, self.heads), weights.shape[:2], strict=True
            ):
                for place in chosen or ():
                    if not 0 <= place < size:
                        raise ValueError(
                            f"{name}s=[{', '.join(map(show_value, chosen))}]: {kind} attention has {name}s "
                            f"0 to {size - 1}."
                        )

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of attention that the view offers, in its order."""
        return tuple(kind for kind in OFFERED if kind in self.maps.kinds)

    def choose(self, layers: Sequence[int] | None = None, heads: Sequence[int] | None = None):
        """The same maps with only these layers and heads in the lens; a picture may still show any."""
        return replace(self, layers=_tuple_of("layers", layers), heads=_tuple_of("heads", heads))

    def save(
        self,
        path: str | os.PathLike,
        *,
        layer: int | None = None,
        head: int | None = None,
        kind: str | None = None,
    ) -> Path:
        """Save the view to a file, whole or not at all.

        Args:
            path: its suffix chooses: .html the whole lens, which opens without a network; .npz every weight
                and token; .png, .svg and .csv one head.
            layer: which one, or which one the lens shows first, from 0; the last where None.
            head: likewise; the first where None.
            kind: "encoder", "decoder" or "cross"; where the answer reads the source, where None.

        Returns:
            The path.

        Raises:
            ValueError: another suffix, no such layer, head or kind, or too many weights for a page.
        """
        check_suffix(path)
        path = Path(path)
        kind = kind or self._first_kind()
        offered = range(len(getattr(self.maps, kind))) if kind in self.kinds else range(1)
        layer = (self.layers or offered)[-1] if layer is None else layer
        head = (self.heads or (0,))[0] if head is None else head
        weights, rows, columns = choose_head(self.maps, kind, layer, head)
        if path.suffix == ".html":
            return write_file(path, self.to_html(layer=layer, head=head, kind=kind).encode("utf-8"))
        if path.suffix == ".npz":
            return save_maps(self.maps, path)
        place = f"{kind} attention, layer {layer}, head {head}"
        title = f"{self.title}: {place}" if self.title else place
        return draw_map(
            weights, rows, columns, path, alignment=self.maps.align(kind, self.truth), title=title
        )

    def to_value(
        self, *, layer: int | None = None, head: int | None = None, kind: str | None = None
    ) -> dict[str, Any]:
        """All that the lens draws, a `LensValue` of viz/web/board_values.d.ts.

        Raises:
            ValueError: there are too many weights for a page, or it lacks what is to be shown first.
        """
        self._refuse_large()
        kind = kind or self._first_kind()
        kinds = {name: self._pack(name) for name in self.kinds}
        layers, heads = (kinds[kind][name] for name in ("layers", "heads"))
        layer_at = len(layers) - 1 if layer is None else _place_among(layers, "layer", layer)
        head_at = 0 if head is None else _place_among(heads, "head", head)
        weights = getattr(self.maps, kind)[layers[layer_at], heads[head_at]]
        query = min(self.maps.written_from, len(weights) - 1) if kind == "decoder" else 0
        return {
            "kinds": kinds,
            "kind": kind,
            "layer": layer_at,
            "head": head_at,
            "query": query,
            "key": int(weights[query].argmax()),
            "title": self.title,
            "origin": {"model": self.model, "weights": ""},
        }

    def to_html(self, **place) -> str:
        """The lens as one page that needs nothing else; `place` as in `save`."""
        return build_page(self.to_value(**place), self.title or "Attention", self.theme)

    def _repr_html_(self) -> str:
        """What a notebook shows: the page in a frame of its own, where no style or script meets another's."""
        try:
            page = self.to_html()
        except ValueError as error:
            return f"<p>{html.escape(str(error))}</p>"
        title = html.escape(f"Attention: {self.title}")
        return FRAME.format(note=NOTE, title=title, page=html.escape(page), height=HEIGHT)

    def __repr__(self) -> str:
        shapes = (f"{kind} {' × '.join(map(str, getattr(self.maps, kind).shape))}" for kind in self.kinds)
        return f"<AttentionView of {self.title!r}: {', '.join(shapes)}; save it as {', '.join(WRITERS)}>"

    def _first_kind(self) -> str:
        answering = self.maps.answering
        return answering.kind if answering else OFFERED[0]

    def _chosen(self, kind: str) -> tuple[list[int], list[int]]:
        layers, heads = getattr(self.maps, kind).shape[:2]
        return list(self.layers or range(layers)), list(self.heads or range(heads))

    def _pack(self, kind: str) -> dict[str, Any]:
        weights = getattr(self.maps, kind)
        layers, heads = self._chosen(kind)
        allowed = (weights > 0).any(0).any(0).int().tolist() if kind == "decoder" else None
        title = "alignment, written symbols read the input" if self.kinds == ("cross",) else None
        for name, chosen, size in zip(("layers", "heads"), (layers, heads), weights.shape[:2], strict=True):
            if len(chosen) < size:
                places = ", ".join(str(place + 1) for place in chosen)
                title = f"{title or f'{kind} attention'}; {name} {places} of {size}"
        packed = pack_kind(
            weights[layers][:, heads],
            *([label.replace(" ", NO_BREAK) for label in side] for side in self.maps.sides(kind)),
            allowed=allowed,
            truth=self.maps.align(kind, self.truth),
            title=title,
        )
        return {**packed, "layers": layers, "heads": heads}

    def _refuse_large(self) -> None:
        """Refuse a page that is too large for a browser."""
        needed, largest = 0, 1
        for kind in self.kinds:
            layers, heads = self._chosen(kind)
            one = 2 * getattr(self.maps, kind)[0, 0].numel()
            needed, largest = needed + one * len(layers) * len(heads), max(largest, one * len(heads))
        if needed > PAGE_LIMIT:
            some = max(1, PAGE_LIMIT // largest // len(self.kinds))
            raise ValueError(
                f"These maps take {needed / 2**20:.0f} MB, and a page holds {PAGE_LIMIT / 2**20:.0f} MB: "
                f"choose some layers or heads, as in view.choose(layers={list(range(some))}), or save .npz."
            )


def show_attention(
    model,
    tokenizer,
    text,
    target=None,
    *,
    row: int | None = None,
    strategy: str | None = None,
    num_beams: int | None = None,
    max_new_tokens: int | None = None,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    theme: str = "auto",
    max_bytes: int = MEMORY_LIMIT,
) -> AttentionView:
    """Look inside any model of transformers.

    Any attention implementation works: it is switched to "eager" for the maps, and put back.

    Args:
        model: ours, or any of BERT's, GPT-2's, T5's, Bart's or Llama's kind (where heads share keys, each
            head that reads has its map), or a vision encoder.
        tokenizer: of the model; the image processor of a vision encoder.
        text: what is read, or whatever else `attention_maps` takes: ids, the tokenizer's output, a Batch; an
            image, or pixel_values [1, C, height, width].
        target: what is written, as text or ids; None lets the model write, if it can. "" shows a decoder-only
            model the text alone, and so does None to those of others, unless `strategy` or `max_new_tokens`
            asks them to write.
        row: which one of several rows, from 0.
        strategy: how it writes: "greedy" or "beam" (the chosen beam is shown).
        num_beams: K of beam search (default: 4).
        max_new_tokens: most tokens that it writes (default: 64).
        layers: those that the lens offers, from 0; all where None.
        heads: likewise.
        theme: "auto", "light" or "dark".
        max_bytes: refuse to compute maps larger than this, before anything is computed.

    Returns:
        A view: the last line of a notebook's cell shows it, `save` writes it to a file, `maps` holds the
        weights.

    Raises:
        ValueError: the model gives no maps, they would be too large, or the input cannot be read.
    """
    layers, heads = _tuple_of("layers", layers), _tuple_of("heads", heads)
    refuse_without_attention(model)
    if max_new_tokens is None and (strategy is not None or writes_unasked(model)):
        max_new_tokens = MOST_WRITTEN
    maps = attention_maps(
        model,
        text,
        target,
        tokenizer=tokenizer,
        row=row,
        strategy=strategy,
        num_beams=num_beams,
        max_new_tokens=max_new_tokens,
        max_bytes=max_bytes,
    )
    title = "an image" if model.main_input_name == "pixel_values" else _title_of(tokenizer, text, maps)
    name = Path(model.config.name_or_path).name or type(model).__name__  # of a folder its last part
    return AttentionView(maps, title, layers=layers, heads=heads, theme=theme, model=name)


def _title_of(tokenizer, text, maps: AttentionMaps) -> str:
    title = text if isinstance(text, str) else " ".join(maps.source_tokens[:LONGEST_TITLE])
    if maps.answer_ids and tokenizer is not None:
        title += f" → {tokenizer.decode(list(maps.answer_ids), skip_special_tokens=True)}"
    title = " ".join("".join(" " if category(sign) == "Cc" else sign for sign in title).split())
    return title if len(title) <= LONGEST_TITLE else title[: LONGEST_TITLE - 1].rstrip() + "…"


def _place_among(offered: list[int], name: str, chosen: int) -> int:
    if chosen not in offered:
        raise ValueError(f"{name}={chosen}: the lens offers {name}s {offered}; choose among them.")
    return offered.index(chosen)


def _tuple_of(name: str, places: Sequence[int] | None) -> tuple[int, ...] | None:
    try:
        return None if places is None else tuple(map(index, places))
    except TypeError:
        raise ValueError(f"{name}={quote(places)} is no list of numbers: give for example [0, 1].") from None
