"""Attention maps of one example: who reads whom in any model of transformers, ours too."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from hf_attn.architectures.families import is_ours, is_recurrent
from hf_attn.architectures.map_sizes import estimate_map_bytes
from hf_attn.generation.decoders import find_start, is_decoder_only
from hf_attn.generation.generate import generate_answer, most_tokens
from hf_attn.generation.strategies import complete_settings
from hf_attn.interpret.model_inputs import (
    read_example,
    read_image,
    refuse_large,
    refuse_length,
    refuse_strange,
    refuse_target,
    takes_target,
)
from hf_attn.interpret.plain_attention import eager_attention
from hf_attn.interpret.token_labels import name_patches, name_tokens

KINDS = ("encoder", "decoder", "cross")  # of attention, as AttentionMaps has them
OFFERED = ("cross", "encoder", "decoder")  # in the order in which a lens offers them
MEMORY_LIMIT = 2**30  # bytes of maps that are computed unless more are allowed


@dataclass(frozen=True)
class AttentionMaps:
    """Attention weights of one example.

    Attributes:
        encoder: [L, H, S, S]; None where there is none.
        decoder: [L, H, T, T]; row t is what the t-th token written read of what was written before it. Where
            a decoder-only model writes nothing, [L, H, S, S]; row s is what the s-th token reads itself.
        cross: [L, H, T, S]; row t is what the t-th token written read of the source.
        source_ids: of S; none of an image.
        target_ids: of the rows of `decoder` and `cross`: the token being written.
        decoder_ids: of the columns of `decoder`: the token being read, the start token first.
        source_tokens, target_tokens, decoder_tokens: the same as labels: what the tokenizer calls them, or
            where there is none the ids as text.
        written_from: the row of `decoder` that writes the answer's first token: 0, except where one sequence
            holds source and target (decoder-only); `decoder` is then [L, H, N, N] over both. Where nothing is
            written, behind the last row.
    """

    encoder: torch.Tensor | None
    decoder: torch.Tensor | None
    cross: torch.Tensor | None
    source_tokens: tuple[str, ...] = ()
    target_tokens: tuple[str, ...] = ()
    decoder_tokens: tuple[str, ...] = ()
    source_ids: tuple[int, ...] = ()
    target_ids: tuple[int, ...] = ()
    decoder_ids: tuple[int, ...] = ()
    written_from: int = 0

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of attention that have weights."""
        return tuple(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def answer_ids(self) -> tuple[int, ...]:
        """Ids of what is written, without the source that a decoder-only model reads before it."""
        return self.target_ids[self.written_from :]

    @property
    def _first_row(self) -> int:
        """The first row of `decoder` that belongs to the answer; all do where nothing is written."""
        return self.written_from if self.answer_ids else 0

    def relabel(self, label: Callable[[list[int]], Iterable[str]]) -> "AttentionMaps":
        """The same maps with the labels that a function has for ids, as `tokenizer.convert_ids_to_tokens`."""
        labels: dict[str, Any] = {}
        for side in ("source", "target", "decoder"):
            if ids := getattr(self, f"{side}_ids"):  # patches of an image have none
                labels[f"{side}_tokens"] = tuple(label(list(ids)))
        return replace(self, **labels)

    def sides(self, kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Labels of a kind's rows, which read, and of its columns, which are read."""
        rows = self.source_tokens if kind == "encoder" else self.target_tokens
        return rows, self.decoder_tokens if kind == "decoder" else self.source_tokens

    def align(self, kind: str, alignment) -> list[list[int]] | None:
        """A task's alignment [T][S] in the shape of a kind's map; None where the answer reads no source."""
        if kind == "encoder" or self.answering is None or self.answering.kind != kind:
            return None
        before = self._first_row if kind == "decoder" else 0
        rows, columns = self.sides(kind)
        return fit_alignment(alignment, len(rows), len(columns), before)

    @property
    def answering(self) -> "AnsweringMap | None":
        """The map in which the answer reads the source; without one, in which the source reads itself."""
        if self.cross is not None:
            return AnsweringMap("cross", self.cross, self.target_tokens, self.source_tokens)
        if self.decoder is not None:
            rows, first = self.decoder[:, :, self._first_row :], self._first_row
            return AnsweringMap("decoder", rows, self.target_tokens[first:], self.decoder_tokens)
        if self.encoder is not None:
            return AnsweringMap("encoder", self.encoder, self.source_tokens, self.source_tokens)
        return None


@dataclass(frozen=True)
class AnsweringMap:
    """Who reads what while the answer is written: weights [L, H, rows, columns] of one kind of attention.

    Rows are labelled with the tokens written, or, of a model that only reads, with those read; columns with
    what is read, the source first.
    """

    kind: str
    weights: torch.Tensor
    rows: tuple[str, ...]
    columns: tuple[str, ...]

    def align(self, alignment) -> list[list[int]] | None:
        """A task's alignment [T][S] in this map's shape; None where the answer does not fit it."""
        return None if self.kind == "encoder" else fit_alignment(alignment, len(self.rows), len(self.columns))


def fit_alignment(alignment, rows: int, columns: int, before: int = 0) -> list[list[int]] | None:
    """A task's alignment [T][S] as [rows][columns], below `before` rows of zeros; None where it fits not."""
    if alignment is None or len(alignment) < rows - before:
        return None
    known = [[*row, *[0] * (columns - len(row))] for row in alignment[: rows - before]]
    return [[0] * columns] * before + known if all(len(row) == columns for row in known) else None


def find_attentions(model: PreTrainedModel) -> dict[str, list[nn.Module]]:
    """The modules that attend, by kind and layer, in the order in which transformers returns their maps.

    Works on every model that tells transformers what `output_attentions` records, not only on ours.
    """
    if is_recurrent(model.config):
        score = model.get_decoder().score if model.config.is_encoder_decoder else None
        return {} if score is None else {"cross": [score]}
    encoder: set[nn.Module] = set()
    self_kind = "decoder" if model.can_generate() else "encoder"
    if model.config.is_encoder_decoder:
        encoder, self_kind = set(model.get_encoder().modules()), "decoder"
    kinds: dict[nn.Module, str] = {}
    for stack in model.modules():  # from the outside in: an inner stack knows better
        recorded = getattr(stack, "_can_record_outputs", None) or {}
        for output, kind in (
            ("attentions", "encoder" if stack in encoder else self_kind),
            ("cross_attentions", "cross"),
        ):
            for module in _find_recorded(stack, recorded.get(output)):
                kinds[module] = kind
    modules = {kind: [module for module, its_kind in kinds.items() if its_kind == kind] for kind in KINDS}
    return {kind: found for kind, found in modules.items() if found}


def _find_recorded(stack: nn.Module, recorder) -> list[nn.Module]:
    """Modules whose output transformers records by an entry of `_can_record_outputs`.

    Not those that bring a kernel of their own (attention_type other than "full"): they form no weights.
    """
    target = getattr(recorder, "target_class", recorder)
    if not (isinstance(target, type) and issubclass(target, nn.Module)):
        return []
    layer_name = (getattr(recorder, "layer_name", None) or "").strip(".")
    return [
        module
        for name, module in stack.named_modules()
        if isinstance(module, target)
        and f".{layer_name}." in f".{name}.."
        and not hasattr(module, "attend_plainly")
    ]


def attention_maps(
    model: PreTrainedModel,
    inputs,
    target=None,
    *,
    tokenizer=None,
    row: int | None = None,
    strategy: str | None = None,
    num_beams: int | None = None,
    max_new_tokens: int | None = None,
    max_bytes: int = MEMORY_LIMIT,
) -> AttentionMaps:
    """Who reads whom, for a given target or for what the model writes.

    Args:
        model: encoder, encoder-decoder or decoder-only, ours or one of transformers' own, whatever attention
            implementation it uses; a vision encoder, whose tokens are patches; or recurrent, whose alignment
            is the one cross map, and without a score function there is none.
        inputs: what the model reads: what a tokenizer returns, or a dict with "input_ids" and perhaps
            "attention_mask", "token_type_ids" and "labels"; ids [1, S] or [S]; a text (with a tokenizer); or
            a Batch. Padding is left out: the maps are those of the tokens alone. Labels are the target where
            None is given. Of a vision encoder what its image processor returns, pixel_values
            [1, C, height, width], or an image (with the processor as the tokenizer).
        target: text, ids [1, T] or [T], or a tokenizer's output: what is to be written; None lets the model
            write. "" shows a decoder-only model the source alone, and so does None to those of others, unless
            `strategy` or `max_new_tokens` asks them to write. An encoder-decoder without a head reads its
            input again.
        tokenizer: reads text and names the tokens.
        row: which one of several rows, from 0; of a target in rows, the same.
        strategy: how the model writes where it must: a name in STRATEGIES (default: "greedy"); of "beam" the
            best is shown.
        num_beams: K of beam search (default: 4).
        max_new_tokens: most tokens that it writes; as many as it has positions for where None.
        max_bytes: refuse to compute maps larger than this.

    Returns:
        Maps [layers, heads, queries, keys] on the CPU, float32; rows sum to 1 over what may be attended.

    Raises:
        ValueError: the inputs cannot be read, hold several rows, or are text without a tokenizer; the maps
            would be too large, or the model gives none.
    """
    refuse_without_attention(model)
    is_asked = writes_unasked(model) or strategy is not None or max_new_tokens is not None
    strategy = "greedy" if strategy is None else strategy
    complete_settings(strategy, {"num_beams": num_beams})
    if model.main_input_name == "pixel_values":
        refuse_target(model, target)
        return _read_patch_maps(model, read_image(inputs, tokenizer, row), max_bytes)
    source, written, token_types = read_example(model, inputs, target, tokenizer, row)
    refuse_length(model, source.shape[1], 0, max_bytes)
    if not takes_target(model):
        return _read_maps(model, source, None, tokenizer, token_types)
    if written is None and is_decoder_only(model) and not is_asked:
        written = source[:, :0]
    elif written is None and model.can_generate():
        most = most_tokens(model, source.shape[1])
        most = most if max_new_tokens is None else min(most, max_new_tokens)
        generation = generate_answer(model, source, strategy, num_beams=num_beams, max_new_tokens=most)
        written = torch.tensor([generation.ids], device=source.device)
    elif written is None:
        written = source
    refuse_length(model, source.shape[1], written.shape[1], max_bytes)
    return _read_maps(model, source, written, tokenizer)


def writes_unasked(model: PreTrainedModel) -> bool:
    """Whether a model writes where no target is given: not a decoder-only model that others trained."""
    return not is_decoder_only(model) or is_ours(model.config.model_type)


def _read_maps(model, source, written, tokenizer, token_types=None) -> AttentionMaps:
    maps, arguments = lay_out(model, source, written, tokenizer)
    if written is None and is_recurrent(model.config):
        return maps
    if token_types is not None:
        arguments["token_type_ids"] = token_types
    outputs = _run(model, **arguments)
    if written is None:
        return replace(maps, encoder=_stack(model, outputs.get("attentions")))
    if is_decoder_only(model):
        return replace(maps, decoder=_stack(model, outputs.get("attentions")))
    encoder, decoder, cross = (
        None if layers is None and is_recurrent(model.config) else _stack(model, layers)
        for layers in (outputs.encoder_attentions, outputs.decoder_attentions, outputs.cross_attentions)
    )
    return replace(maps, encoder=encoder, decoder=decoder, cross=cross)


def lay_out(
    model: PreTrainedModel, source: torch.Tensor, written: torch.Tensor | None, tokenizer=None
) -> tuple[AttentionMaps, dict]:
    """Which token stands at each row and column of the maps, and what the model is given to make them.

    The source is [1, S] ids; what is written is [1, T] ids, or None for a model that only reads. A
    decoder-only model may write nothing: each token of its source then has a row of its own.

    Returns:
        (maps without weights, the arguments of a forward pass).
    """
    arguments: dict = {"input_ids": source}
    rows = columns = source[:, :0]
    before = 0
    if written is not None and is_decoder_only(model):  # which reads source and answer as one sequence
        sequence = torch.cat((source, written), dim=1)
        rows, columns, before = sequence[:, 1:], sequence[:, :-1], source.shape[1] - 1
        if written.shape[1] == 0:
            rows, columns, before = source, source, source.shape[1]
        arguments = {"input_ids": columns, "use_cache": False}
    elif written is not None:
        start = written.new_full((1, 1), find_start(model))
        rows, columns = written, torch.cat((start, written[:, :-1]), dim=1)
        arguments |= {"decoder_input_ids": columns, "use_cache": False}
    maps = AttentionMaps(
        None,
        None,
        None,
        source_ids=tuple(source[0].tolist()),
        target_ids=tuple(rows[0].tolist()),
        decoder_ids=tuple(columns[0].tolist()),
        written_from=before,
    )
    return maps.relabel(lambda ids: name_tokens(ids, tokenizer)), arguments


def _read_patch_maps(model, image: torch.Tensor, max_bytes: int) -> AttentionMaps:
    """The maps of a model that reads an image [1, C, height, width], patch by patch."""
    weight = next(model.parameters())
    pixels = image.to(weight.device, weight.dtype)
    patch = getattr(model.config, "patch_size", None) or 1
    sides = (patch, patch) if isinstance(patch, int) else patch
    expected = math.prod(size // side for size, side in zip(pixels.shape[-2:], sides, strict=True))
    refuse_large(model.config, expected, 0, max_bytes)
    maps = _stack(model, _run(model, pixels).get("attentions"))
    names = name_patches(maps.shape[-1], pixels.shape[-2:], sides)
    return AttentionMaps(maps, None, None, source_tokens=names)


def weight_on_alignment(weights: torch.Tensor, alignment) -> torch.Tensor:
    """The share of its attention that a head spends where the answer is known to lie: [...].

    It is the mean over the rows that depend on anything. The weights are [..., T, S], and the alignment is
    [T][S], above 0 where a target position depends on a source position.
    """
    known = torch.tensor(alignment, dtype=weights.dtype, device=weights.device).clamp(max=1)
    rows = known.sum(-1) > 0
    return (weights * known).sum(-1)[..., rows].mean(-1)


def _run(model, *inputs, **more):
    with eager_attention(model), torch.no_grad():
        return model(*inputs, **more, output_attentions=True)


def _stack(model, layers) -> torch.Tensor:
    """A tuple of [1, H, T, S], one a layer → [L, H, T, S]."""
    name = type(model).__name__
    if not layers or any(layer is None or layer.dim() != 4 for layer in layers):
        raise ValueError(f"{name} gives no attention maps: not every layer of it attends by softmax weights.")
    if len(shapes := {tuple(layer.shape) for layer in layers}) > 1 or len(layers[0]) > 1:
        raise ValueError(
            f"{name} does not attend from every token to every token: its layers gave maps of shape "
            f"{', '.join(map(str, sorted(shapes)))}."
        )
    return torch.stack([layer[0] for layer in layers]).float().cpu()


def refuse_without_attention(model) -> None:
    """Raise ValueError for a model that no maps can be shown of, or that has no attention."""
    refuse_strange(model)
    if estimate_map_bytes(model.config, 1, 1) == 0 and not find_attentions(model):
        raise ValueError(f"{type(model).__name__} gives no attention maps: it has no attention.")
