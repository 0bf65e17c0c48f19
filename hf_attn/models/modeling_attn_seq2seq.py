"""The encoder-decoder Transformer, and its language-modelling head."""

import torch
from torch import nn
from transformers import GenerationMixin
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
)
from transformers.utils import can_return_tuple
from transformers.utils.deprecation import deprecate_kwarg
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .attention import MultiHeadAttention
from .configuration_attn_seq2seq import AttnSeq2SeqConfig
from .efficient_attention import EfficientAttention, mark_sequences
from .encoder_decoder import EncoderDecoder, LMHeadMixin, ResizeBothTablesMixin
from .layers import AttnPreTrainedModel, DecoderLayer, build_final_norm, embed_tokens, is_cheap_to_read
from .modeling_attn_encoder import AttnEncoderModel, AttnEncoderOutput
from .position_base import position_ids_from_mask
from .position_cache import place_tokens
from .positions import POSITION_TYPES


class AttnSeq2SeqPreTrainedModel(ResizeBothTablesMixin, AttnPreTrainedModel):
    """What transformers needs to know about the encoder-decoder family."""

    config: AttnSeq2SeqConfig
    config_class = AttnSeq2SeqConfig
    base_model_prefix = "model"
    _no_split_modules = ["EncoderLayer", "DecoderLayer"]
    _skip_keys_device_placement = ["cache"]


class AttnSeq2SeqDecoder(AttnSeq2SeqPreTrainedModel):
    """Reads what is written so far, and the encoder's memory."""

    _can_record_outputs = {
        "hidden_states": DecoderLayer,
        "attentions": OutputRecorder(MultiHeadAttention, index=1, layer_name="self_attn"),
        "cross_attentions": OutputRecorder(MultiHeadAttention, index=1, layer_name="cross_attn"),
    }

    def __init__(self, config: AttnSeq2SeqConfig):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.positions = POSITION_TYPES[config.position_type](config, is_causal=True)
        self.layers = nn.ModuleList([DecoderLayer(config, index) for index in range(config.decoder_layers)])
        self.final_norm = build_final_norm(config)
        self.has_no_end = self.positions.counts_text and self.positions.extrapolates
        self.gradient_checkpointing = False
        self.post_init()

    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        position_ids: torch.LongTensor | None = None,
        source_places: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        **kwargs,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """[B, T] ids after those in the cache → states [B, T, D], reading memory [B, S, D].

        `source_places` are the encoder's, where the position encoding counts in the text.
        """
        if use_cache and cache is None:
            cache = EncoderDecoderCache(DynamicCache(config=self.config), DynamicCache(config=self.config))
        inputs_embeds, places = embed_tokens(
            self, input_ids, inputs_embeds, attention_mask, position_ids, cache
        )
        seen = getattr(cache, "self_attention_cache", cache)
        if isinstance(self.layers[0].self_attn, EfficientAttention):
            mask = mark_sequences(inputs_embeds, attention_mask, seen)
        else:
            # [B, 1, T, past + T] bool, True = may attend; floats for "eager"; None: only the future is hidden
            mask = create_causal_mask(
                config=self.config,
                inputs_embeds=inputs_embeds,
                attention_mask=attention_mask,
                cache=seen,
                allow_is_causal_skip=is_cheap_to_read(attention_mask),
            )
        # [B, 1, T, S] bool, True = may attend; floats for "eager"; None where all may
        memory_mask = create_bidirectional_mask(
            config=self.config,
            inputs_embeds=inputs_embeds,
            attention_mask=encoder_attention_mask,
            encoder_hidden_states=encoder_hidden_states,
            allow_is_bidirectional_skip=is_cheap_to_read(encoder_attention_mask),
        )
        memory_bias = None
        if self.positions.counts_text:
            if source_places is None:
                raise ValueError(
                    "encoder_outputs lack source_places, and "
                    f"position_type={self.config.position_type!r} reads them: give what the model's own "
                    "encoder returns, whole."
                )
            places = self.positions.place_steps(places.expand(len(inputs_embeds), -1), source_places)
            memory_bias = self.positions.memory_bias(places, source_places)  # [B, H, T, S] or None
            memory_bias = None if memory_bias is None else memory_bias.to(inputs_embeds.dtype)
        placed = place_tokens(self, inputs_embeds, places, attention_mask, cache)
        hidden_states, all_states = placed.hidden_states, placed.all_states
        for layer in self.layers:
            hidden_states = layer(
                hidden_states,
                encoder_hidden_states,
                *placed.between,
                all_states,
                memory_bias,
                attention_mask=mask,
                memory_mask=memory_mask,
                cache=cache,
                rotation=placed.rotation,
                **kwargs,
            )
            all_states = None  # the layers above keep keys and values
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=self.final_norm(hidden_states), cache=cache
        )


class AttnSeq2SeqModel(EncoderDecoder, AttnSeq2SeqPreTrainedModel):
    """Encoder and decoder: one table of token embeddings, or two without `tie_word_embeddings`."""

    def __init__(self, config: AttnSeq2SeqConfig):
        super().__init__(config)
        self.encoder = AttnEncoderModel(config)
        self.decoder = AttnSeq2SeqDecoder(config)
        self.post_init()

    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: tuple | BaseModelOutput | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        decoder_position_ids: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        **kwargs,
    ) -> Seq2SeqModelOutput:
        """Read a source and what is written so far.

        Args:
            input_ids: [B, S] source ids.
            attention_mask: [B, S], 1 = token, 0 = padding (left or right).
            decoder_input_ids: [B, T] target ids, beginning with the start token; after those in the cache.
            decoder_attention_mask: [B, past + T], 1 = token, 0 = padding.
            encoder_outputs: the encoder's output, so that it is not computed again.
            cache: keys and values of earlier steps.
            inputs_embeds: [B, S, D] instead of input_ids.
            decoder_inputs_embeds: [B, T, D] instead of decoder_input_ids.
            decoder_position_ids: [B, T]; counted from decoder_attention_mask, or from 0, where not given.
            use_cache: whether keys and values are returned for the next step.
            **kwargs: `output_attentions`, `output_hidden_states`, and what the kernel takes.

        Returns:
            last_hidden_state [B, T, D], the cache, and on demand the maps, a tensor a layer.
        """
        decoder_input_ids = self.choose_decoder_input(input_ids, decoder_input_ids, decoder_inputs_embeds)
        encoder_outputs = self._encode(encoder_outputs, input_ids, attention_mask, inputs_embeds, **kwargs)
        decoder_outputs = self.decoder(
            decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=encoder_outputs.last_hidden_state,
            encoder_attention_mask=attention_mask,
            cache=cache,
            inputs_embeds=decoder_inputs_embeds,
            position_ids=decoder_position_ids,
            source_places=encoder_outputs.get("source_places"),
            use_cache=use_cache,
            **kwargs,
        )
        return self.join_outputs(encoder_outputs, decoder_outputs)

    def _encode(self, encoder_outputs, input_ids, attention_mask, inputs_embeds, **kwargs) -> BaseModelOutput:
        if encoder_outputs is None:
            return self.encoder(
                input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, **kwargs
            )
        if isinstance(encoder_outputs, BaseModelOutput):
            return encoder_outputs
        *others, last = encoder_outputs  # a tuple, without what is None
        if isinstance(last, torch.Tensor) and not last.is_floating_point():
            return AttnEncoderOutput(others[0], source_places=last)
        return AttnEncoderOutput(*encoder_outputs[:3])


class AttnSeq2SeqForConditionalGeneration(LMHeadMixin, AttnSeq2SeqPreTrainedModel, GenerationMixin):
    """The encoder-decoder with a linear map to the vocabulary: it writes."""

    def __init__(self, config: AttnSeq2SeqConfig):
        super().__init__(config)
        self.loss_type = "ForMaskedLM"  # cross-entropy without a shift of its own: shift_right has done it
        self.model = AttnSeq2SeqModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: tuple | BaseModelOutput | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        **kwargs,
    ) -> Seq2SeqLMOutput:
        """Score every next token, and with labels compute the loss.

        The arguments are those of AttnSeq2SeqModel, but for:
            decoder_input_ids: [B, T]; made from labels (shifted once to the right) where not given.
            labels: [B, T] what is to be written; −100 is not learned.
            use_cache: whether keys and values are returned; never while learning.
            **kwargs: as AttnSeq2SeqModel takes them (`decoder_position_ids`, …); `num_items_in_batch` for
                gradient accumulation.

        Returns:
            loss: mean −log p over labels (over num_items_in_batch where given); logits [B, T, V]; the rest as
            AttnSeq2SeqModel returns it.
        """
        if labels is not None:
            use_cache = False
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        outputs = self.model(
            input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            cache=cache,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        return self.compute_loss(outputs.last_hidden_state, labels, outputs, **kwargs)

    def prepare_inputs_for_generation(self, input_ids, decoder_attention_mask=None, **kwargs):
        """Count the decoder's positions while its mask is [B, T]; with a static cache it is 4-dimensional."""
        if decoder_attention_mask is not None and decoder_attention_mask.dim() == 2:
            counted = position_ids_from_mask(decoder_attention_mask, decoder_attention_mask.shape[1], 0, None)
            kwargs.setdefault("decoder_position_ids", counted)
        return super().prepare_inputs_for_generation(
            input_ids, decoder_attention_mask=decoder_attention_mask, **kwargs
        )


__all__ = ["AttnSeq2SeqForConditionalGeneration", "AttnSeq2SeqModel", "AttnSeq2SeqPreTrainedModel"]
