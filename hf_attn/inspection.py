"""Look inside: who reads whom."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from hf_attn.decoding import evaluating, is_decoder_only, write
from hf_attn.tasks.sequences import IGNORED, Batch

MEMORY_LIMIT = 2**30  # bytes of maps that are computed without being asked twice
INTERVENED = "hf_attn_intervened"  # the plain function with changed weights, of hf_attn.interventions


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


def is_recurrent(config) -> bool:
    """Whether a configuration is of a model that reads step by step."""
    return config.model_type.startswith("recurrent")


def estimate_map_bytes(config, source_length: int, target_length: int, batch_size: int = 1) -> int:
    """Bytes that the maps of a forward pass will take, before it is run.

    Four bytes for each weight of encoder [L, H, S, S], decoder [L, H, T, T] and cross [L, H, T, S].
    """
    if is_recurrent(config):
        weights = target_length * source_length  # one alignment
    elif config.is_encoder_decoder:
        decoder = config.decoder_layers * (target_length**2 + target_length * source_length)
        weights = config.num_attention_heads * (config.encoder_layers * source_length**2 + decoder)
    else:
        length = source_length + target_length
        weights = config.num_attention_heads * config.num_hidden_layers * length**2
    return 4 * batch_size * weights


@contextlib.contextmanager
def eager_attention(model: PreTrainedModel) -> Iterator[None]:
    """Let the model attend by the plain function, the only one that gives maps; put it back after.

    Inside `hf_attn.interventions.intervening` it already does, with changed weights, and goes on so. All that
    reads with the model through hf_attn waits meanwhile; call the model itself from no other thread.
    """
    with evaluating(model):
        before = model.config._attn_implementation
        if before == INTERVENED:
            yield
            return
        try:
            model.set_attn_implementation("eager")
            yield
        finally:
            model.set_attn_implementation(before)


def attention_maps(
    model: PreTrainedModel,
    inputs,
    target=None,
    *,
    tokenizer=None,
    strategy: str = "greedy",
    num_beams: int = 4,
    max_bytes: int = MEMORY_LIMIT,
) -> AttentionMaps:
    """Who reads whom, for a given target or for what the model writes.

    Args:
        model: encoder, encoder-decoder or decoder-only, whatever attention implementation it uses; or
            recurrent, whose alignment is the one cross map, and without a score function there is none.
        inputs: a source's text (with a tokenizer), its ids [1, S] or [S], or a Batch of one example, whose
            labels are then the target.
        target: text, or ids [1, T] or [T] of what is to be written; None lets the model write.
        tokenizer: reads text and names the tokens.
        strategy: how the model writes where it must: "greedy" or "beam" (the chosen beam is shown).
        num_beams: K of beam search.
        max_bytes: refuse to compute maps larger than this.

    Returns:
        Maps [layers, heads, queries, keys] on the CPU, float32; rows sum to 1 over what may be attended.

    Raises:
        ValueError: the maps would be larger than max_bytes, or text came without a tokenizer.
    """
    mask = None
    if isinstance(inputs, Batch):
        _refuse_many(inputs)
        mask, target = inputs.attention_mask, inputs.labels if target is None else target
        inputs = inputs.input_ids
    source = _ids_of(inputs, tokenizer).to(next(model.parameters()).device)
    if not model.can_generate():
        return _encoder_maps(model, source, mask, tokenizer, max_bytes)
    if target is None:
        generation = write(model, source, strategy, num_beams=num_beams)
        written = torch.tensor([generation.ids], device=source.device)
    else:
        written = _ids_of(target, tokenizer).to(source.device)
        written = written[:, written[0] != IGNORED]
    _refuse_large(model.config, source.shape[1], written.shape[1], max_bytes)
    if is_decoder_only(model):
        return _decoder_maps(model, source, mask, written, tokenizer)
    return _encoder_decoder_maps(model, source, mask, written, tokenizer)


def _encoder_decoder_maps(model, source, mask, written, tokenizer) -> AttentionMaps:
    """The maps of a model that reads the source apart from what it writes."""
    read = model.prepare_decoder_input_ids_from_labels(written)
    with eager_attention(model), torch.no_grad():
        outputs = model(
            source, attention_mask=mask, decoder_input_ids=read, output_attentions=True, use_cache=False
        )
    encoder, decoder, cross = (
        None if maps is None and is_recurrent(model.config) else _stack(maps)
        for maps in (outputs.encoder_attentions, outputs.decoder_attentions, outputs.cross_attentions)
    )
    return AttentionMaps(
        encoder,
        decoder,
        cross,
        source_tokens=_name(source[0], tokenizer),
        target_tokens=_name(written[0], tokenizer),
        decoder_tokens=_name(read[0], tokenizer),
        target_ids=tuple(written[0].tolist()),
    )


def _encoder_maps(model, source, mask, tokenizer, max_bytes: int) -> AttentionMaps:
    """The maps of a model that only reads."""
    if is_recurrent(model.config):
        return AttentionMaps(None, None, None, source_tokens=_name(source[0], tokenizer))
    _refuse_large(model.config, source.shape[1], 0, max_bytes)
    with eager_attention(model), torch.no_grad():
        outputs = model(source, attention_mask=mask, output_attentions=True)
    return AttentionMaps(_stack(outputs.attentions), None, None, source_tokens=_name(source[0], tokenizer))


def _decoder_maps(model, source, mask, written, tokenizer) -> AttentionMaps:
    """The maps of a model that reads source and answer as one sequence."""
    sequence = torch.cat((source, written), dim=1)
    read = sequence[:, :-1]
    if mask is not None:
        mask = torch.nn.functional.pad(mask, (0, read.shape[1] - source.shape[1]), value=1)
    with eager_attention(model), torch.no_grad():
        outputs = model(read, attention_mask=mask, output_attentions=True, use_cache=False)
    return AttentionMaps(
        None,
        _stack(outputs.attentions),
        None,
        source_tokens=_name(source[0], tokenizer),
        target_tokens=_name(sequence[0, 1:], tokenizer),
        decoder_tokens=_name(read[0], tokenizer),
        target_ids=tuple(written[0].tolist()),
        written_from=source.shape[1] - 1,
    )


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


def _stack(layers) -> torch.Tensor:
    """A tuple of [1, H, T, S], one a layer → [L, H, T, S]."""
    if not layers or any(layer is None or layer.dim() != 4 for layer in layers):
        raise RuntimeError("the model returned no attention although it was asked for it")
    return torch.stack([layer[0] for layer in layers]).float().cpu()


def _ids_of(text_or_ids, tokenizer) -> torch.Tensor:
    """[1, L] ids of what was given."""
    if isinstance(text_or_ids, str):
        if tokenizer is None:
            raise ValueError("Text was given without a tokenizer: pass tokenizer=…, or ids.")
        return torch.tensor([tokenizer(text_or_ids)["input_ids"]])
    ids = torch.as_tensor(text_or_ids)
    return ids.unsqueeze(0) if ids.dim() == 1 else ids


def _name(ids: torch.Tensor, tokenizer) -> tuple[str, ...]:
    if tokenizer is None:
        return tuple(str(index) for index in ids.tolist())
    return tuple(tokenizer.convert_ids_to_tokens(ids.tolist()))


def _refuse_many(batch: Batch) -> None:
    if len(batch) != 1:
        raise ValueError(f"inputs holds {len(batch)} examples; give one, for example batch[:1].")


def _refuse_large(config, source_length: int, target_length: int, max_bytes: int) -> None:
    needed = estimate_map_bytes(config, source_length, target_length)
    if needed > max_bytes:
        raise ValueError(
            f"{source_length} source and {target_length} target tokens would need {needed / 2**20:.0f} MB of "
            f"maps; max_bytes allows {max_bytes / 2**20:.0f} MB. Shorten the input, or raise max_bytes."
        )
