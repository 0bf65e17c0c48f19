"""Look inside: who reads whom."""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from inspect import signature

import torch
from torch import nn
from transformers import PreTrainedModel

from hf_attn.architectures.families import is_recurrent
from hf_attn.architectures.map_sizes import estimate_map_bytes
from hf_attn.generation.generate import evaluating, find_start, generate_answer, is_decoder_only, most_tokens
from hf_attn.interpret.input_checks import (
    as_one_row,
    check_ids,
    refuse_large,
    refuse_length,
    refuse_many,
    refuse_strange,
    refuse_target,
)
from hf_attn.interpret.token_labels import name_patches, name_tokens
from hf_attn.tasks.batch import IGNORED, Batch

KINDS = ("encoder", "decoder", "cross")  # of attention, as AttentionMaps has them
OFFERED = ("cross", "encoder", "decoder")  # in the order in which a lens offers them
MEMORY_LIMIT = 2**30  # bytes of maps that are computed without being asked twice
INTERVENED = (
    "hf_attn_intervened"  # the plain function with changed weights, of hf_attn.interpret.interventions
)
RECORDED = (
    "hf_attn_recorded"  # the plain function, which notes what it is given, of hf_attn.interpret.native_heads
)


@dataclass(frozen=True)
class AttentionMaps:
    """Attention weights of one example.

    Attributes:
        encoder: [L, H, S, S]; None where there is none.
        decoder: [L, H, T, T]; row t is what the t-th token written read of what was written before it.
        cross: [L, H, T, S]; row t is what the t-th token written read of the source.
        source_tokens: labels of S.
        target_tokens: labels of the rows of `decoder` and `cross`: the token being written.
        decoder_tokens: labels of the columns of `decoder`: the token being read, the start token first.
        target_ids: [T] the tokens being written.
        written_from: the row of `decoder` that writes the answer's first token: 0, except where one sequence
            holds source and target (decoder-only); `decoder` is then [L, H, N, N] over both.
    """

    encoder: torch.Tensor | None
    decoder: torch.Tensor | None
    cross: torch.Tensor | None
    source_tokens: tuple[str, ...] = ()
    target_tokens: tuple[str, ...] = ()
    decoder_tokens: tuple[str, ...] = ()
    target_ids: tuple[int, ...] = ()
    written_from: int = 0

    @property
    def kinds(self) -> tuple[str, ...]:
        """Those of which there are weights."""
        return tuple(kind for kind in KINDS if getattr(self, kind) is not None)

    def sides(self, kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Labels of a kind's rows, which read, and of its columns, which are read."""
        rows = self.source_tokens if kind == "encoder" else self.target_tokens
        return rows, self.decoder_tokens if kind == "decoder" else self.source_tokens

    @property
    def answering(self) -> "AnsweringMap | None":
        """The map in which the answer reads the source; without one, in which the source reads itself."""
        if self.cross is not None:
            return AnsweringMap("cross", self.cross, self.target_tokens, self.source_tokens)
        if self.decoder is not None:
            rows = self.decoder[:, :, self.written_from :]
            return AnsweringMap("decoder", rows, self.target_tokens[self.written_from :], self.decoder_tokens)
        if self.encoder is not None:
            return AnsweringMap("encoder", self.encoder, self.source_tokens, self.source_tokens)
        return None


@dataclass(frozen=True)
class AnsweringMap:
    """Who reads what while the answer is written.

    Attributes:
        kind: "cross", "decoder" or "encoder".
        weights: [L, H, rows, columns].
        rows: labels: the tokens written, or of a model that only reads, read.
        columns: labels of what is read: the source first.
    """

    kind: str
    weights: torch.Tensor
    rows: tuple[str, ...]
    columns: tuple[str, ...]

    def align(self, alignment) -> list[list[int]] | None:
        """A task's alignment [T][S] in this map's shape; None where the answer does not fit it."""
        if alignment is None or self.kind == "encoder" or len(alignment) < len(self.rows):
            return None
        width = len(self.columns)
        rows = [[*row, *[0] * (width - len(row))] for row in alignment[: len(self.rows)]]
        return rows if all(len(row) == width for row in rows) else None


def find_attentions(model: PreTrainedModel) -> dict[str, list[nn.Module]]:
    """The modules that attend, by kind and layer, in the order in which transformers returns their maps.

    Works on every model that tells transformers what `output_attentions` records, also an outsider's.
    """
    if is_recurrent(model.config):
        score = model.get_decoder().score if model.config.is_encoder_decoder else None
        return {} if score is None else {"cross": [score]}
    encoder: set[nn.Module] = set()
    own_kind = "decoder" if model.can_generate() else "encoder"
    if model.config.is_encoder_decoder:
        encoder, own_kind = set(model.get_encoder().modules()), "decoder"
    kinds: dict[nn.Module, str] = {}
    for stack in model.modules():  # from the outside in: an inner stack knows better
        recorded = getattr(stack, "_can_record_outputs", None) or {}
        for output, kind in (
            ("attentions", "encoder" if stack in encoder else own_kind),
            ("cross_attentions", "cross"),
        ):
            for module in _recorded(stack, recorded.get(output)):
                kinds[module] = kind
    return {kind: [m for m, of in kinds.items() if of == kind] for kind in KINDS if kind in kinds.values()}


def _recorded(stack: nn.Module, recorder) -> list[nn.Module]:
    """Modules whose output transformers records by an entry of `_can_record_outputs`.

    Not those that bring a kernel of their own (attention_type other than "full"): they form no weights.
    """
    target = getattr(recorder, "target_class", recorder)
    if not (isinstance(target, type) and issubclass(target, nn.Module)):
        return []
    named = (getattr(recorder, "layer_name", None) or "").strip(".")
    return [
        module
        for name, module in stack.named_modules()
        if isinstance(module, target)
        and f".{named}." in f".{name}.."
        and not hasattr(module, "attend_plainly")
    ]


@contextlib.contextmanager
def eager_attention(model: PreTrainedModel) -> Iterator[None]:
    """Let the model attend by the plain function, the only one that gives maps; put it back after.

    Inside `interventions.intervening` it already does, with changed weights, and goes on so; likewise
    while a head is recorded. All that reads with the model through hf_attn waits meanwhile; call the model
    itself from no other thread.
    """
    with evaluating(model):
        if model.config._attn_implementation in (INTERVENED, RECORDED):
            yield
            return
        # from the outside in, so that a stack with an implementation of its own gets it back
        stacks = [stack for stack in model.modules() if isinstance(stack, PreTrainedModel)]
        before = [stack.config._attn_implementation for stack in stacks]
        try:
            model.set_attn_implementation("eager")
            yield
        finally:
            for stack, implementation in zip(stacks, before, strict=True):
                stack.set_attn_implementation(implementation)


def attention_maps(
    model: PreTrainedModel,
    inputs,
    target=None,
    *,
    tokenizer=None,
    strategy: str = "greedy",
    num_beams: int | None = None,
    max_new_tokens: int | None = None,
    max_bytes: int = MEMORY_LIMIT,
) -> AttentionMaps:
    """Who reads whom, for a given target or for what the model writes.

    Args:
        model: encoder, encoder-decoder or decoder-only, ours or one of transformers' own, whatever attention
            implementation it uses; a vision encoder, whose tokens are patches; or recurrent, whose alignment
            is the one cross map, and without a score function there is none.
        inputs: a source's text (with a tokenizer), its ids [1, S] or [S], or a Batch of one example, whose
            labels are then the target, where it writes. Of a vision encoder an image (with its image
            processor as the tokenizer), or its pixel_values [1, C, height, width].
        target: text, or ids [1, T] or [T] of what is to be written; None lets the model write; "" shows a
            decoder-only model the source alone. An encoder-decoder without a head reads its input again.
        tokenizer: reads text and names the tokens.
        strategy: how the model writes where it must: "greedy" or "beam" (the chosen beam is shown).
        num_beams: K of beam search (default: 4).
        max_new_tokens: most tokens that it writes; as many as it has positions for where None.
        max_bytes: refuse to compute maps larger than this.

    Returns:
        Maps [layers, heads, queries, keys] on the CPU, float32; rows sum to 1 over what may be attended.

    Raises:
        ValueError: the maps would be too large, the model gives none, or text came without a tokenizer.
    """
    refuse_without_attention(model)
    if model.main_input_name == "pixel_values":
        return _patch_maps(model, inputs, target, tokenizer, max_bytes)
    writes = model.can_generate() or "decoder_input_ids" in signature(model.forward).parameters
    mask = None
    if isinstance(inputs, Batch):
        refuse_many(inputs)
        target = inputs.labels if writes and target is None else target  # else they are a class
        mask, inputs = inputs.attention_mask, inputs.input_ids
    source = check_ids("input", _ids_of("input", inputs, tokenizer), model).to(model.device)
    refuse_length(model, source.shape[1], 0, max_bytes)
    if not writes:
        refuse_target(model, target)
        return _read_maps(model, source, mask, None, tokenizer)
    if target is not None:
        written = _target_ids(model, source, target, tokenizer)
    elif model.can_generate():
        most = most_tokens(model, source.shape[1])
        most = most if max_new_tokens is None else min(most, max_new_tokens)
        generation = generate_answer(model, source, strategy, num_beams=num_beams, max_new_tokens=most)
        written = torch.tensor([generation.ids], device=source.device)
    else:
        written = source
    refuse_length(model, source.shape[1], written.shape[1], max_bytes)
    return _read_maps(model, source, mask, written, tokenizer)


def _read_maps(model, source, mask, written, tokenizer) -> AttentionMaps:
    """The maps of a model that reads text, and of what is written where it writes."""
    names, given = lay_out(model, source, written, mask, tokenizer)
    if written is None and is_recurrent(model.config):
        return names
    outputs = _look(model, **given)
    if written is None:
        return replace(names, encoder=_stack(model, outputs.get("attentions")))
    if is_decoder_only(model):
        return replace(names, decoder=_stack(model, outputs.get("attentions")))
    encoder, decoder, cross = (
        None if maps is None and is_recurrent(model.config) else _stack(model, maps)
        for maps in (outputs.encoder_attentions, outputs.decoder_attentions, outputs.cross_attentions)
    )
    return replace(names, encoder=encoder, decoder=decoder, cross=cross)


def lay_out(
    model: PreTrainedModel, source: torch.Tensor, written: torch.Tensor | None, mask=None, tokenizer=None
) -> tuple[AttentionMaps, dict]:
    """Which token stands at each row and column of the maps, and what the model is given to make them.

    Args:
        model: reads text.
        source: [1, S] ids.
        written: [1, T] ids of what is written; None for a model that only reads.
        mask: [1, S], 1 = token; None where nothing is padded.
        tokenizer: names the tokens; ids stand for themselves where None.

    Returns:
        (maps without weights, the arguments of a forward pass).

    Raises:
        ValueError: one token reads nothing.
    """
    names = AttentionMaps(None, None, None, source_tokens=name_tokens(source[0], tokenizer))
    if written is None:
        return names, {"input_ids": source, "attention_mask": mask}
    if is_decoder_only(model):  # which reads source and answer as one sequence
        sequence = torch.cat((source, written), dim=1)
        rows, read, before = sequence[:, 1:], sequence[:, :-1], source.shape[1] - 1
        if read.shape[1] == 0:
            raise ValueError("One token reads nothing: give a longer text, or a target.")
        if mask is not None:
            mask = torch.nn.functional.pad(mask, (0, read.shape[1] - source.shape[1]), value=1)
        given = {"input_ids": read}
    else:
        start = written.new_full((1, 1), find_start(model))
        rows, read, before = written, torch.cat((start, written[:, :-1]), dim=1), 0
        given = {"input_ids": source, "decoder_input_ids": read}
    names = replace(
        names,
        target_tokens=name_tokens(rows[0], tokenizer),
        decoder_tokens=name_tokens(read[0], tokenizer),
        target_ids=tuple(written[0].tolist()),
        written_from=before,
    )
    return names, {**given, "attention_mask": mask, "use_cache": False}


def _patch_maps(model, image, target, processor, max_bytes: int) -> AttentionMaps:
    """The maps of a model that reads an image, patch by patch."""
    refuse_target(model, target)
    if not (isinstance(image, torch.Tensor) and image.dim() == 4):
        if processor is None:
            raise ValueError("An image was given without its image processor: pass it, or pixel_values.")
        image = processor(images=image, return_tensors="pt")["pixel_values"]
    if len(image) != 1:
        raise ValueError(f"The input holds {len(image)} images; give one, for example pixel_values[:1].")
    weight = next(model.parameters())
    pixels = image.to(weight.device, weight.dtype)
    patch = getattr(model.config, "patch_size", None) or 1
    sides = (patch, patch) if isinstance(patch, int) else patch
    expected = math.prod(size // side for size, side in zip(pixels.shape[-2:], sides, strict=True))
    refuse_large(model.config, expected, 0, max_bytes)
    maps = _stack(model, _look(model, pixels).get("attentions"))
    names = name_patches(maps.shape[-1], pixels.shape[-2:], sides)
    return AttentionMaps(maps, None, None, source_tokens=names)


def weight_on_alignment(weights: torch.Tensor, alignment) -> torch.Tensor:
    """How much of its attention a head spends where the answer is known to lie.

    Args:
        weights: [..., T, S].
        alignment: [T][S], above 0 where a target position depends on a source position.

    Returns:
        [...], the mean over those rows that depend on anything.
    """
    known = torch.tensor(alignment, dtype=weights.dtype, device=weights.device).clamp(max=1)
    rows = known.sum(-1) > 0
    return (weights * known).sum(-1)[..., rows].mean(-1)


def _look(model, *inputs, **more):
    """One forward pass by the plain function, without what does not apply."""
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
    """Refuse what is no model that maps can be shown of, or has no attention.

    Raises:
        ValueError: it is that; the sentence says which.
    """
    refuse_strange(model)
    if estimate_map_bytes(model.config, 1, 1) == 0 and not find_attentions(model):
        raise ValueError(f"{type(model).__name__} gives no attention maps: it has no attention.")


def _ids_of(name: str, text_or_ids, tokenizer) -> torch.Tensor:
    """[1, L] ids of what was given as the `name`, "input" or "target"."""
    if isinstance(text_or_ids, str):
        if tokenizer is None:
            raise ValueError("Text was given without a tokenizer: pass tokenizer=…, or ids.")
        text_or_ids = tokenizer(text_or_ids)["input_ids"]
    return as_one_row(name, text_or_ids)


def _target_ids(model, source: torch.Tensor, target, tokenizer) -> torch.Tensor:
    """[1, T] ids of what is to be written; what a decoder-only model writes has no beginning of its own."""
    if is_decoder_only(model) and isinstance(target, str) and not target:
        return source[:, :0]
    ids = _ids_of("target", target, tokenizer).to(source.device)
    ids = ids[:, ids[0] != IGNORED]
    check_ids("target", ids, model.get_decoder() if model.config.is_encoder_decoder else model)
    begins = is_decoder_only(model) and ids[0, 0] == getattr(tokenizer, "bos_token_id", None)
    return ids[:, 1:] if begins else ids
