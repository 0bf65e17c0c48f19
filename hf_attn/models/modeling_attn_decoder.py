"""The decoder-only Transformer, and its language-modelling head: a causal language model."""

import torch
from torch import nn
from transformers import GenerationMixin
from transformers.cache_utils import Cache, DynamicCache
from transformers.masking_utils import create_causal_mask
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.modeling_utils import slice_logits_to_keep
from transformers.utils import can_return_tuple
from transformers.utils.deprecation import deprecate_kwarg
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .attention import MultiHeadAttention
from .configuration_attn_decoder import AttnDecoderConfig
from .efficient_attention import EfficientAttention, mark_sequences
from .layers import AttnPreTrainedModel, EncoderLayer, build_final_norm, embed_tokens, is_cheap_to_read
from .position_cache import place_tokens
from .positions import POSITION_TYPES


class AttnDecoderPreTrainedModel(AttnPreTrainedModel):
    """What transformers needs to know about the decoder-only family."""

    config: AttnDecoderConfig
    config_class = AttnDecoderConfig
    base_model_prefix = "model"
    _no_split_modules = ["EncoderLayer"]
    _skip_keys_device_placement = ["cache"]
    _can_record_outputs = {"hidden_states": EncoderLayer, "attentions": MultiHeadAttention}


class AttnDecoderModel(AttnDecoderPreTrainedModel):
    """Token embeddings and positions, then a stack of self-attention that never looks ahead.

    A layer is the encoder's: self-attention and feed-forward. The causal mask alone makes it a decoder; there
    is no memory to read, so no cross-attention (Liu et al. 2018, arXiv:1801.10198, §4.2.3).
    """

    def __init__(self, config: AttnDecoderConfig):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.positions = POSITION_TYPES[config.position_type](config, is_causal=True)
        self.layers = nn.ModuleList(
            [EncoderLayer(config, index, is_causal=True) for index in range(config.num_hidden_layers)]
        )
        self.final_norm = build_final_norm(config)
        self.gradient_checkpointing = False
        self.post_init()

    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.LongTensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs,
    ) -> BaseModelOutputWithPast:
        """Read a batch of sequences, each token seeing itself and those before it.

        Args:
            input_ids: [B, T] token ids, after those in the cache.
            attention_mask: [B, past + T], 1 = token, 0 = padding (left or right); or as the kernel takes it,
                [B, 1, T, past + T] bool, True = may attend.
            position_ids: [B, T]; counted from a [B, past + T] mask, or from the cache's end, where not given.
                Given without mask and with use_cache=False, each 0 begins a new sequence, which does not see
                the one before.
            cache: keys and values of earlier steps.
            inputs_embeds: [B, T, D] instead of input_ids.
            use_cache: whether keys and values are returned for the next step.
            **kwargs: `output_attentions`, `output_hidden_states`, `return_dict`, and what the kernel takes.

        Returns:
            last_hidden_state [B, T, D], the cache, and on demand attentions ([B, H, T, past + T] a layer) and
            hidden_states.

        Raises:
            ValueError: both or neither of input_ids and inputs_embeds, or a sequence longer than the model's
                positions.
        """
        if use_cache and cache is None:
            cache = DynamicCache(config=self.config)
        inputs_embeds, places = embed_tokens(
            self, input_ids, inputs_embeds, attention_mask, position_ids, cache
        )
        if isinstance(self.layers[0].self_attn, EfficientAttention):
            mask = mark_sequences(inputs_embeds, attention_mask, cache, position_ids)
        else:
            # [B, 1, T, past + T] bool, True = may attend; floats for "eager"; None: only the future is hidden
            mask = create_causal_mask(
                config=self.config,
                inputs_embeds=inputs_embeds,
                attention_mask=attention_mask,
                cache=cache,
                position_ids=position_ids,
                allow_is_causal_skip=is_cheap_to_read(attention_mask),
            )
        placed = place_tokens(self, inputs_embeds, places, attention_mask, cache)
        hidden_states, all_states = placed.hidden_states, placed.all_states
        for layer in self.layers:
            hidden_states = layer(
                hidden_states,
                *placed.between,
                all_states,
                attention_mask=mask,
                cache=cache,
                rotation=placed.rotation,
                **kwargs,
            )
            all_states = None  # the layers above keep keys and values
        return BaseModelOutputWithPast(last_hidden_state=self.final_norm(hidden_states), cache=cache)


class AttnDecoderForCausalLM(AttnDecoderPreTrainedModel, GenerationMixin):
    """The decoder with a linear map to the vocabulary: it writes what comes next."""

    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config: AttnDecoderConfig):
        super().__init__(config)
        self.loss_type = "ForCausalLM"  # this loss shifts the labels; nothing else here does
        self.model = AttnDecoderModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.LongTensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        **kwargs,
    ) -> CausalLMOutputWithPast:
        """Score every next token, and with labels compute the loss.

            loss = −mean over t of log p(label_{t+1} | input_1 … input_t)

        The arguments are those of AttnDecoderModel, but for:
            labels: [B, T] as input_ids, usually a copy of them: the loss shifts them, once; −100 is
                not learned.
            use_cache: whether keys and values are returned; by default not with labels.
            logits_to_keep: how many of the last positions are scored, or which; 0 for all.
            **kwargs: as AttnDecoderModel takes them; `num_items_in_batch` for gradient accumulation.

        Returns:
            loss: mean −log p over labels (over num_items_in_batch where given); logits [B, T, V]; the rest as
            AttnDecoderModel returns it.
        """
        if use_cache is None and labels is not None:
            use_cache = False
        outputs = self.model(
            input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            cache=cache,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        logits = self.lm_head(slice_logits_to_keep(outputs.last_hidden_state, logits_to_keep))  # [B, T, V]
        loss = None
        if labels is not None:
            loss = self.loss_function(logits, labels, vocab_size=self.config.vocab_size, **kwargs)
        return CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            cache=outputs.cache,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )


__all__ = ["AttnDecoderForCausalLM", "AttnDecoderModel", "AttnDecoderPreTrainedModel"]
