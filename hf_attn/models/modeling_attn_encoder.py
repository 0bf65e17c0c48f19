"""The Transformer encoder, and a classifier on top of it."""

from dataclasses import dataclass

import torch
from torch import nn
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .attention import MultiHeadAttention
from .configuration_attn_encoder import AttnEncoderConfig
from .efficient_attention import EfficientAttention, mark_sequences
from .labels import ClassifierMixin
from .layers import AttnPreTrainedModel, EncoderLayer, build_final_norm, embed_tokens, is_cheap_to_read
from .position_cache import place_tokens
from .positions import POSITION_TYPES


class AttnEncoderPreTrainedModel(AttnPreTrainedModel):
    """What transformers needs to know about the encoder family."""

    config: AttnEncoderConfig
    config_class = AttnEncoderConfig
    base_model_prefix = "encoder"
    _no_split_modules = ["EncoderLayer"]
    _can_record_outputs = {"hidden_states": EncoderLayer, "attentions": MultiHeadAttention}


@dataclass
class AttnEncoderOutput(BaseModelOutput):
    """A BaseModelOutput, and the places that cross-attention reads.

    Attributes:
        source_places: [B or 1, S, n], where the position encoding counts in the text; else None.
    """

    source_places: torch.LongTensor | None = None


class AttnEncoderModel(AttnEncoderPreTrainedModel):
    """Token embeddings and positions, then a stack of encoder layers (Vaswani et al. 2017, §3.1)."""

    def __init__(self, config: AttnEncoderConfig):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.positions = POSITION_TYPES[config.position_type](config)
        self.layers = nn.ModuleList(
            [EncoderLayer(config, index) for index in range(config.num_hidden_layers)]
        )
        self.final_norm = build_final_norm(config)
        self.gradient_checkpointing = False
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        position_ids: torch.LongTensor | None = None,
        **kwargs,
    ) -> AttnEncoderOutput:
        """Read a batch of sequences.

        Args:
            input_ids: [B, S] token ids.
            attention_mask: [B, S], 1 = token, 0 = padding (left or right); or as the kernel takes it,
                [B, 1, S, S] bool, True = may attend.
            inputs_embeds: [B, S, D] instead of input_ids.
            position_ids: [B, S]; counted from a [B, S] mask, or from 0, where not given.
            **kwargs: `output_attentions`, `output_hidden_states`, `return_dict`, and what the kernel takes.

        Returns:
            last_hidden_state [B, S, D], source_places where there are any; on demand attentions
            ([B, H, S, S] a layer) and hidden_states.

        Raises:
            ValueError: both or neither of input_ids and inputs_embeds, or a sequence longer than the model's
                positions.
        """
        inputs_embeds, position_ids = embed_tokens(
            self, input_ids, inputs_embeds, attention_mask, position_ids
        )
        if isinstance(self.layers[0].self_attn, EfficientAttention):
            mask = mark_sequences(inputs_embeds, attention_mask)  # [B or 1, S], 0 = padding
        else:
            # [B, 1, S, S] bool, True = may attend; None where all may; floats to be added for "eager"
            mask = create_bidirectional_mask(
                self.config,
                inputs_embeds=inputs_embeds,
                attention_mask=attention_mask,
                allow_is_bidirectional_skip=is_cheap_to_read(attention_mask),
            )
        places = self.positions.read_text(input_ids, position_ids)
        placed = place_tokens(self, inputs_embeds, places, attention_mask, None)
        hidden_states = placed.hidden_states
        for layer in self.layers:
            hidden_states = layer(
                hidden_states, *placed.between, attention_mask=mask, rotation=placed.rotation, **kwargs
            )
        return AttnEncoderOutput(
            last_hidden_state=self.final_norm(hidden_states),
            source_places=places.expand(len(hidden_states), -1, -1) if self.positions.counts_text else None,
        )


class AttnEncoderForSequenceClassification(ClassifierMixin, AttnEncoderPreTrainedModel):
    """The encoder, its output pooled over the tokens, and a linear map to the labels."""

    encoder_class = AttnEncoderModel

    def _pool(self, outputs: BaseModelOutput, attention_mask: torch.Tensor | None) -> torch.Tensor:
        """[B, S, D] → [B, D]: the mean over tokens that are not padding, or the first such token."""
        states = outputs["last_hidden_state"]
        if attention_mask is None:
            return states.mean(dim=1) if self.config.pooling == "mean" else states[:, 0]
        if attention_mask.dim() != 2:
            raise ValueError(
                f"attention_mask of shape {list(attention_mask.shape)} does not say which are padding; "
                "a classifier pools tokens that are not: give [B, S], 1 = token, 0 = padding."
            )
        if self.config.pooling == "first":
            first = attention_mask.long().argmax(dim=1)
            return states[torch.arange(len(states), device=states.device), first]
        share = attention_mask.to(states.dtype)
        share = share / share.sum(dim=1, keepdim=True).clamp(min=1)  # [B, S]
        return (share.unsqueeze(1) @ states).squeeze(1)


__all__ = ["AttnEncoderForSequenceClassification", "AttnEncoderModel", "AttnEncoderPreTrainedModel"]
