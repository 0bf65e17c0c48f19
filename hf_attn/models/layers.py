"""The blocks that every Transformer here is built from: feed-forward, encoder layer, decoder layer."""

import math

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer

from .attention import MultiHeadAttention, OutputProjection, refuse_padding_mask
from .efficient_attention import (
    ChooseAttentionMixin,
    EfficientAttention,
    build_cross_attention,
    find_self_attention,
)
from .position_base import Positions, position_ids_from_mask


class FeedForward(nn.Module):
    """Two linear maps with an activation between, each position on its own.

    FFN(x) = act(x W₁ + b₁) W₂ + b₂                     (Vaswani et al. 2017, arXiv:1706.03762, eq. 2)
    """

    def __init__(self, config):
        super().__init__()
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=config.use_bias)
        self.activation = ACT2FN[config.activation]
        self.down_proj = OutputProjection(config.intermediate_size, config.hidden_size, bias=config.use_bias)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """[B, T, D] → [B, T, D]."""
        return self.down_proj(self.activation(self.up_proj(hidden_states)))


class Residual(nn.Module):
    """The residual connection around a block, and where its normalisation stands.

    pre:  x + f(LN(x))        (Xiong et al. 2020, arXiv:2002.04745)
    post: LN(x + f(x))        (Vaswani et al. 2017, §3.1)
    """

    def __init__(self, config):
        super().__init__()
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.is_pre_norm = config.norm_position == "pre"
        self.dropout = config.dropout

    def before(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Return the block's input, [B, T, D]."""
        return self.norm(hidden_states) if self.is_pre_norm else hidden_states

    def after(self, hidden_states: torch.Tensor, block_output: torch.Tensor) -> torch.Tensor:
        """Add the block's output to its input, [B, T, D]."""
        if self.dropout and self.training:
            block_output = nn.functional.dropout(block_output, self.dropout)
        total = hidden_states + block_output
        return total if self.is_pre_norm else self.norm(total)


class SelfAttentionLayer(GradientCheckpointingLayer):
    """What the layers share: self-attention in a residual."""

    self_attn: MultiHeadAttention
    self_attn_residual: Residual

    def read_itself(self, hidden_states: torch.Tensor, all_states=None, cache=None, **kwargs) -> torch.Tensor:
        """[B, T, D] → [B, T, D]; where `all_states`, [B, S, D], is given, that is read, and no cache."""
        memory = None if all_states is None else self.self_attn_residual.before(all_states)
        read, _ = self.self_attn(
            self.self_attn_residual.before(hidden_states),
            memory,
            cache=cache if all_states is None else None,
            **kwargs,
        )
        return self.self_attn_residual.after(hidden_states, read)


class EncoderLayer(SelfAttentionLayer):
    """Self-attention, then feed-forward, each in a residual; causal, it is the decoder-only model's layer."""

    def __init__(self, config, layer_idx: int, is_causal: bool = False):
        super().__init__()
        self.self_attn = find_self_attention(config, is_causal)(config, layer_idx, is_causal=is_causal)
        self.self_attn_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self,
        hidden_states: torch.Tensor,
        position_bias=None,
        relative_vectors=None,
        all_states=None,
        **kwargs,
    ) -> torch.Tensor:
        """[B, S, D] → [B, S, D]; mask, bias, vectors and rotation are the same for the whole stack."""
        hidden_states = self.read_itself(
            hidden_states,
            all_states,
            position_bias=position_bias,
            relative_vectors=relative_vectors,
            **kwargs,
        )
        output = self.feed_forward(self.feed_forward_residual.before(hidden_states))
        return self.feed_forward_residual.after(hidden_states, output)


class DecoderLayer(SelfAttentionLayer):
    """Causal self-attention, cross-attention to the memory, then feed-forward, each in a residual."""

    def __init__(self, config, layer_idx: int):
        super().__init__()
        self.self_attn = find_self_attention(config, True)(config, layer_idx, is_causal=True)
        self.self_attn_residual = Residual(config)
        self.cross_attn = build_cross_attention(config, layer_idx)
        self.cross_attn_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self,
        hidden_states: torch.Tensor,
        memory: torch.Tensor,
        position_bias=None,
        relative_vectors=None,
        all_states=None,
        memory_bias=None,
        attention_mask=None,
        memory_mask=None,
        cache=None,
        rotation=None,
        **kwargs,
    ) -> torch.Tensor:
        """[B, T, D] reading itself and memory [B, S, D] → [B, T, D].

        Of positions cross-attention gets `memory_bias`, [B, H, T, S], and no more.
        """
        hidden_states = self.read_itself(
            hidden_states,
            all_states,
            cache,
            attention_mask=attention_mask,
            rotation=rotation,
            position_bias=position_bias,
            relative_vectors=relative_vectors,
            **kwargs,
        )
        read, _ = self.cross_attn(
            self.cross_attn_residual.before(hidden_states),
            memory=memory,
            attention_mask=memory_mask,
            cache=cache,
            position_bias=memory_bias,
            **kwargs,
        )
        hidden_states = self.cross_attn_residual.after(hidden_states, read)
        output = self.feed_forward(self.feed_forward_residual.before(hidden_states))
        return self.feed_forward_residual.after(hidden_states, output)


def embed_tokens(
    stack, input_ids, inputs_embeds, attention_mask, position_ids=None, cache=None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Look tokens [B, T] up, unless their embeddings [B, T, D] are given; count their places, [B or 1, T].

    The stack has `embed_tokens`, `positions` and `config`; `place_tokens` then tells the tokens their places.
    The mask is [B, past + T], 1 = token, 0 = padding; position_ids, [B, T], are counted from it where None.
    ValueError: ids and embeddings are given both or neither, a mask does not fit them, or the sequence is
    longer than the positions.
    """
    if (input_ids is None) == (inputs_embeds is None):
        raise ValueError("Give exactly one of input_ids and inputs_embeds.")
    if inputs_embeds is None:
        inputs_embeds = stack.embed_tokens(input_ids)
    if stack.config.scale_embedding:
        inputs_embeds = inputs_embeds * math.sqrt(stack.config.hidden_size)
    batch, length = inputs_embeds.shape[:2]
    if length == 0:
        raise ValueError("A row without tokens cannot be read: give input_ids of at least one token a row.")
    past_length = cache.get_seq_length() if cache is not None else 0
    if isinstance(attention_mask, torch.Tensor) and attention_mask.dim() == 2:
        is_short = isinstance(past_length, int) and attention_mask.shape[1] < past_length + length
        if is_short or len(attention_mask) != batch:
            refuse_padding_mask(attention_mask, batch, length, int(past_length) + length)
    needed = past_length + length
    if position_ids is not None and is_cheap_to_read(position_ids):
        needed = position_ids.max() + 1
    if position_ids is None:
        position_ids = position_ids_from_mask(attention_mask, length, past_length, inputs_embeds.device)
    if not torch.compiler.is_compiling():
        stack.positions.check_length(needed, past_length, position_ids)
    return inputs_embeds, position_ids


def is_cheap_to_read(mask: torch.Tensor | None) -> bool:
    """Whether searching a mask for padding is cheap (without any, kernels need no mask): a GPU must wait."""
    return not isinstance(mask, torch.Tensor) or mask.device.type == "cpu"


def build_final_norm(config) -> nn.Module:
    """Build the normalisation at the end of a pre-norm stack; a post-norm stack ends in one already."""
    if config.norm_position == "pre":
        return nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
    return nn.Identity()


class AttnPreTrainedModel(ChooseAttentionMixin, PreTrainedModel):
    """What transformers needs to know about every Transformer here."""

    main_input_name = "input_ids"
    supports_gradient_checkpointing = True

    @torch.no_grad()
    def _init_weights(self, module):
        """Draw one module's weights.

        Linear maps: Xavier uniform, or N(0, initializer_range²) where the config gives one. With
        zero_init_residual every block starts as the identity: the last map of attention and of feed-forward
        is 0 (Zhang et al. 2019, arXiv:1901.09321), which tiny models learn from in fewer steps.
        """
        config = self.config
        if isinstance(module, nn.Linear):
            if config.zero_init_residual and isinstance(module, OutputProjection):
                init.zeros_(module.weight)
            elif config.initializer_range is None:
                init.xavier_uniform_(module.weight)
            else:
                init.normal_(module.weight, mean=0.0, std=config.initializer_range)
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, mean=0.0, std=config.embedding_initializer_range)
            if module.padding_idx is not None and not getattr(module.weight, "_is_hf_initialized", False):
                init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, (Positions, EfficientAttention)):
            module.reset()
