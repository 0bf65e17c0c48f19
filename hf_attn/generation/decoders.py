"""Incremental decoders: the model's own forward with a cache, and a faster one for our own Transformers."""

from typing import Any

import torch
from torch import embedding, layer_norm, nn
from torch.nn.functional import linear, scaled_dot_product_attention
from transformers.utils import output_capturing

from hf_attn.models.attention import MultiHeadAttention, OutputProjection
from hf_attn.models.layers import DecoderLayer, EncoderLayer, FeedForward, Residual
from hf_attn.models.modeling_attn_decoder import AttnDecoderForCausalLM
from hf_attn.models.modeling_attn_seq2seq import AttnSeq2SeqForConditionalGeneration
from hf_attn.models.position_base import position_ids_from_mask
from hf_attn.models.position_rotary import rotate

KERNELS = ("sdpa", "eager")  # both compute what is computed here, up to rounding
# what a layer is made of, but for its activation, which is called as it is
LAYER_PARTS = {DecoderLayer, EncoderLayer, MultiHeadAttention, FeedForward, Residual}
LAYER_PARTS |= {nn.Linear, OutputProjection, nn.LayerNorm}
BLOCK = 32  # tokens that the cache holds at first, and places that a table is made for: a short answer's
LARGEST_TABLE = 2**18  # numbers: a larger one takes longer to make than it saves


def find_start(model) -> int:
    """The token that an encoder-decoder's answers start with; ValueError where nothing says which one."""
    for holder in (model.config, getattr(model, "generation_config", None)):
        if (start := getattr(holder, "decoder_start_token_id", None)) is not None:
            return start
    raise ValueError(
        f"{type(model).__name__} does not say which token its answers start with: set "
        "model.config.decoder_start_token_id, of two BERTs to tokenizer.cls_token_id."
    )


def is_decoder_only(model) -> bool:
    """Whether a model reads one sequence, and goes on writing behind what it has read."""
    return not model.config.is_encoder_decoder and model.can_generate()


class IncrementalDecoder:
    """A model that writes, one token at a time and a batch at once, remembering what it has computed.

    Args:
        model: an encoder-decoder or a decoder-only model with a head, in evaluation mode.
        input_ids: [B, S] sources; padded on the left for a decoder-only model.
        attention_mask: [B, S], 1 = token; None where nothing is padded.
    """

    def __init__(self, model, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None):
        self.model, self.prompt, self.mask, self.cache = model, input_ids, attention_mask, None
        self.is_decoder_only = is_decoder_only(model)
        self.memory: Any = None
        if not self.is_decoder_only:
            self.memory = model.get_encoder()(input_ids, attention_mask=attention_mask)

    def next_logits(self, token: torch.Tensor | None = None) -> torch.Tensor:
        """[B, V]: scores of the next token, after the one just written [B, 1]; None before the first.

        Raises:
            ValueError: the model remembers nothing of what it has computed.
        """
        if self.is_decoder_only:
            if token is not None and self.mask is not None:
                self.mask = torch.cat((self.mask, torch.ones_like(token)), dim=1)
            inputs = {"input_ids": self.prompt if token is None else token, "logits_to_keep": 1}
        else:
            token = self.first_token() if token is None else token
            inputs = {"decoder_input_ids": token, "encoder_outputs": self.memory}
        outputs = self.model(**inputs, attention_mask=self.mask, cache=self.cache, use_cache=True)
        self.cache = outputs.get("cache")
        if self.cache is None:
            raise ValueError(
                f"{type(self.model).__name__} gives no cache, and nothing is written here without: "
                "write with model.generate, and give that as the target."
            )
        return outputs.logits[:, -1]

    def first_token(self) -> torch.Tensor:
        """What the answers of an encoder-decoder start with, [B, 1]."""
        return self.prompt.new_full((len(self.prompt), 1), find_start(self.model))

    def reorder_rows(self, rows: torch.Tensor) -> None:
        """Go on with these rows [R], each as often as it is named."""
        rows = rows.to(self.prompt.device)
        self.prompt = self.prompt.index_select(0, rows)
        if self.mask is not None:
            self.mask = self.mask.index_select(0, rows)
        if self.cache is not None:
            self.cache.reorder_cache(rows)
        if self.memory is not None:
            states = {name: part for name, part in self.memory.items() if isinstance(part, torch.Tensor)}
            self.memory = type(self.memory)(**{name: part[rows] for name, part in states.items()})


def can_serve(model) -> bool:
    """Whether a LeanDecoder writes what the model would: one of our Transformers, not changed by anything.

    Hooks, adapters, replaced or quantized modules, autocast, another attention and `intervening` change it.
    """
    if type(model) not in (AttnSeq2SeqForConditionalGeneration, AttnDecoderForCausalLM):
        return False
    stack = model.get_decoder()
    if stack.positions.reads_neighbours or stack.positions.needs_weights:
        return False
    if stack.config._attn_implementation not in KERNELS:  # as inside of `intervening`
        return False
    named = [(name, part) for layer in stack.layers for name, part in layer.named_modules()]
    inside = [part for name, part in named if not name.startswith("feed_forward.activation")]
    if not all(type(part) in LAYER_PARTS for part in inside):
        return False
    if type(model.lm_head) is not nn.Linear or type(stack.embed_tokens) is not nn.Embedding:
        return False
    around = [model, model.model, stack, stack.layers, stack.embed_tokens, model.lm_head]
    changed = any(_is_changed(part) for part in (*around, *stack.positions.modules(), *inside))
    return not changed and not torch.is_autocast_enabled(model.device.type)


def _is_changed(part: nn.Module) -> bool:
    """Whether a module is hooked or has another forward; transformers' own recording hooks change nothing."""
    hooks = (*part._forward_hooks.values(), *part._forward_pre_hooks.values())
    return "forward" in vars(part) or any(
        getattr(hook, "__module__", "") != output_capturing.__name__ for hook in hooks
    )


def open_decoder(model, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None):
    """The decoder that writes fastest with this model; see `IncrementalDecoder` for the arguments."""
    kind = LeanDecoder if can_serve(model) else IncrementalDecoder
    return kind(model, input_ids, attention_mask)


def join_linears(*parts: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Linear maps side by side as `addmm` takes them: weight [in, out], bias [out], zeros where none is."""
    biases = [part.weight.new_zeros(len(part.weight)) if part.bias is None else part.bias for part in parts]
    return torch.cat([part.weight for part in parts]).t().detach(), torch.cat(biases).detach()


class Sublayer:
    """The residual around a part of a layer, and the last linear map of that part: weights, no modules.

    pre: x + W f(LN(x));   post: LN(x + W f(x))
    """

    def __init__(self, residual: Residual, output: nn.Linear):
        norm: Any = residual.norm
        self.is_pre_norm = residual.is_pre_norm
        self.norm = norm.normalized_shape, norm.weight, norm.bias, norm.eps
        self.output = output.weight, output.bias

    def before(self, states: torch.Tensor) -> torch.Tensor:
        """What the part reads, [B, D]."""
        return layer_norm(states, *self.norm) if self.is_pre_norm else states

    def after(self, states: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
        """Add W times what the part made, [B, any], to what it read, [B, D]."""
        total = linear(made, *self.output).add_(states)
        return total if self.is_pre_norm else layer_norm(total, *self.norm)


class LeanLayer:
    """A layer of a LeanDecoder, with its cache: the keys and values of the tokens that it has read.

    Args:
        layer: a DecoderLayer, or an EncoderLayer of a decoder-only model.
        batch: B.
        memory: [B, S, D], what cross-attention reads; None of a decoder-only model.
    """

    def __init__(self, layer: Any, batch: int, memory: torch.Tensor | None):
        attention, feed_forward = layer.self_attn, layer.feed_forward
        self.heads = attention.config.num_attention_heads, attention.head_dim
        self.weight, self.bias = join_linears(attention.q_proj, attention.k_proj, attention.v_proj)
        self.self_attention = Sublayer(layer.self_attn_residual, attention.o_proj)
        self.up = feed_forward.up_proj.weight, feed_forward.up_proj.bias
        self.activation = feed_forward.activation
        self.feed_forward = Sublayer(layer.feed_forward_residual, feed_forward.down_proj)
        self.cache = self.weight.new_empty(2, batch, self.heads[0], BLOCK, self.heads[1])
        self.memory: list[torch.Tensor] = []  # keys and values of the memory, [B, H, S, Dh] each
        if memory is not None:
            cross = layer.cross_attn
            self.cross_attention = Sublayer(layer.cross_attn_residual, cross.o_proj)
            self.query = cross.q_proj.weight, cross.q_proj.bias
            self.memory = [
                linear(memory, part.weight, part.bias).unflatten(-1, self.heads).transpose(1, 2).contiguous()
                for part in (cross.k_proj, cross.v_proj)
            ]

    def grow_cache(self, length: int) -> None:
        """Let the cache hold so many tokens; those in it stay."""
        held = self.cache.shape[3]
        if length > held:
            grown = self.cache.new_empty(*self.cache.shape[:3], 2 * length, self.heads[1])
            grown[:, :, :, :held] = self.cache
            self.cache = grown

    def read(self, states: torch.Tensor, length: int, rotation, own_mask, memory_mask) -> torch.Tensor:
        """[B, D] → [B, D]: what a token reads of itself, the `length` before it, and the memory."""
        batch, heads = len(states), self.heads
        made = torch.addmm(self.bias, self.self_attention.before(states), self.weight)
        parts = made.view(batch, 3, *heads).transpose(0, 1).unsqueeze(3)  # [3, B, H, 1, Dh]
        query, new = parts[0], parts[1:]
        if rotation is not None:
            query = rotate(query, *rotation)
            new = torch.stack((rotate(new[0], *rotation), new[1]))
        self.cache.narrow(3, length, 1).copy_(new)
        keys, values = self.cache.narrow(3, 0, length + 1).unbind(0)
        read = scaled_dot_product_attention(query, keys, values, own_mask)
        states = self.self_attention.after(states, read.reshape(batch, -1))
        if self.memory:
            query = linear(self.cross_attention.before(states), *self.query).view_as(query)
            read = scaled_dot_product_attention(query, self.memory[0], self.memory[1], memory_mask)
            states = self.cross_attention.after(states, read.reshape(batch, -1))
        made = self.activation(linear(self.feed_forward.before(states), *self.up))
        return self.feed_forward.after(states, made)

    def take_prompt(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Begin with the keys and values of a prompt, [B, H, n, Dh] each."""
        self.grow_cache(keys.shape[2])
        self.cache[0, :, :, : keys.shape[2]] = keys
        self.cache[1, :, :, : keys.shape[2]] = values

    def reorder_rows(self, rows: torch.Tensor) -> None:
        """Go on with these rows [R], each as often as it is named."""
        self.cache = self.cache.index_select(1, rows)
        self.memory = [held.index_select(0, rows) for held in self.memory]


class LeanDecoder(IncrementalDecoder):
    """Its fast twin: a token does not go through the model's own `forward`.

    A token is so little arithmetic that most of its time went into calling modules, making masks and growing
    caches. Here the memory's keys and values are made once, those of tokens are written into a cache that is
    there already, the embeddings of many places are made at once, and masks exist only where something is
    padded. Nothing can be learned through it.

    Args:
        model: one that `can_serve`, in evaluation mode.
        input_ids: [B, S] sources; padded on the left for a decoder-only model.
        attention_mask: [B, S], 1 = token; None where nothing is padded.
    """

    @torch.no_grad()
    def __init__(self, model, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None):
        is_padded = attention_mask is not None and not attention_mask.all()
        super().__init__(model, input_ids, attention_mask if is_padded else None)
        stack = model.get_decoder()
        self.positions = stack.positions
        self.scale = stack.config.hidden_size**0.5 if stack.config.scale_embedding else 1.0
        self.vocabulary, self.final_norm = stack.embed_tokens.weight, stack.final_norm
        self.head = model.lm_head.weight, model.lm_head.bias
        memory = None if self.is_decoder_only else self.memory.last_hidden_state
        self.source_places = None if self.is_decoder_only else self.memory.get("source_places")  # [B, S, n]
        self.layers = [LeanLayer(layer, len(input_ids), memory) for layer in stack.layers]
        self.memory = None  # its keys and values are in the layers
        self.prompt_length = self.length = 0  # tokens of the prompt; tokens read so far
        # of each place behind the prompt: embeddings of all tokens [V, D], and what turns queries and keys
        self.tables: list[tuple[torch.Tensor, tuple[torch.Tensor, ...] | None]] = []

    @torch.no_grad()
    def next_logits(self, token: torch.Tensor | None = None) -> torch.Tensor:
        """[B, V]: scores of the next token, after the one just written [B, 1]; None before the first.

        Raises:
            ValueError: the model has no position for another token.
        """
        if token is None:
            if self.is_decoder_only:
                return self._read_prompt()
            token = self.first_token()
        self.positions.check_length(self.length + 1, self.length)
        written = self.length - self.prompt_length
        if written == len(self.tables):
            self._add_tables()
        if written < len(self.tables):
            table, rotation = self.tables[written]
            states, mask = embedding(table, token[:, 0]), None
        else:
            states, rotation, mask = self._place(token)
        memory_mask = None if self.mask is None or self.is_decoder_only else self.mask.bool()[:, None, None]
        if self.source_places is not None:
            here = token.new_full((len(token), 1), self.length)
            bias = self.positions.memory_bias(here, self.source_places)
            if bias is not None:
                bias = bias.to(states.dtype)
                memory_mask = bias if memory_mask is None else bias.masked_fill(~memory_mask, float("-inf"))
        for layer in self.layers:
            layer.grow_cache(self.length + 1)
            states = layer.read(states, self.length, rotation, mask, memory_mask)
        self.length += 1
        return linear(self.final_norm(states), *self.head)

    def _read_prompt(self) -> torch.Tensor:
        """Let the model itself read the prompt, and take its keys and values over."""
        outputs = self.model(self.prompt, attention_mask=self.mask, use_cache=True, logits_to_keep=1)
        for layer, seen in zip(self.layers, outputs.cache.layers, strict=False):
            layer.take_prompt(seen.keys, seen.values)
        self.prompt_length = self.length = self.prompt.shape[1]
        return outputs.logits[:, -1]

    def _add_tables(self) -> None:
        """Make the tables of the next BLOCK places, as far as the model has positions for.

        None are made where rows stand at places of their own, or scores are biased. Beyond
        max_position_embeddings there are none either: a learned position has no row there, and an
        interpolated one would stretch all places of the block by the last of them.
        """
        count = min(self.positions.longest - self.length, BLOCK)
        too_large = count * self.vocabulary.numel() > LARGEST_TABLE
        is_ragged = self.is_decoder_only and self.mask is not None
        if count < 1 or too_large or is_ragged or self.positions.biases_scores:
            return
        places = torch.arange(self.length, self.length + count, device=self.prompt.device).unsqueeze(0)
        states = self.vocabulary.unsqueeze(1).expand(-1, count, -1)  # [V, count, D]
        tables = self.positions(states * self.scale, places).transpose(0, 1).contiguous()
        rotation = self.positions.rotation(places) or ()
        turns: list[Any] = list(zip(*(part.split(1, 2) for part in rotation), strict=True)) or [None] * count
        self.tables += zip(tables, turns, strict=True)

    def _place(self, token: torch.Tensor):
        """One token's states [B, D] and rotation, and what is added to, or hidden of, its scores."""
        may_attend = None
        places = torch.arange(self.length + 1, device=token.device).unsqueeze(0)  # [1 or B, length + 1]
        if self.is_decoder_only and self.mask is not None:  # of all tokens so far
            self.mask = torch.cat((self.mask, torch.ones_like(token)), dim=1)
            places = position_ids_from_mask(self.mask, self.length + 1, 0, token.device)
            may_attend = self.mask.bool()[:, None, None]
        here = places[:, -1:]
        states = self.positions(embedding(self.vocabulary, token) * self.scale, here).squeeze(1)
        bias, _ = self.positions.score_terms(here, places)
        if bias is not None and may_attend is not None:
            bias = bias.masked_fill(~may_attend, float("-inf"))
        return states, self.positions.rotation(here), may_attend if bias is None else bias.to(states.dtype)

    def reorder_rows(self, rows: torch.Tensor) -> None:
        """Go on with these rows [R], each as often as it is named."""
        super().reorder_rows(rows)
        rows = rows.to(self.prompt.device)
        if self.source_places is not None:
            self.source_places = self.source_places[rows]
        for layer in self.layers:
            layer.reorder_rows(rows)
