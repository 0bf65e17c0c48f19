"""Shared by all encoder-decoders: the embedding tables, and the decoder's input made from labels."""

from typing import Any

import torch
from torch import nn
from transformers.modeling_outputs import Seq2SeqLMOutput, Seq2SeqModelOutput

from .labels import shift_right


class ResizeBothTablesMixin:
    """For all classes of a family: resize the encoder's and the decoder's table together."""

    config: Any

    def resize_token_embeddings(self, *args, **kwargs) -> nn.Embedding:
        """Give both tables another number of rows, and the output projection with them."""
        decoder = self.get_decoder()  # type: ignore[attr-defined]
        if decoder is not self and not self.config.tie_word_embeddings:
            decoder.resize_token_embeddings(*args, **kwargs)
        return super().resize_token_embeddings(*args, **kwargs)  # type: ignore[misc]


class EncoderDecoder:
    """Encoder and decoder: one table of token embeddings, or two without `tie_word_embeddings`."""

    _tied_weights_keys = {"decoder.embed_tokens.weight": "encoder.embed_tokens.weight"}

    config: Any
    encoder: Any
    decoder: Any

    def get_input_embeddings(self) -> nn.Embedding:
        """The encoder's table, from which `inputs_embeds` come.

        Where there are two, `decoder_inputs_embeds` come from the decoder's own, get_decoder().embed_tokens:
        the ids are of two languages, and one table cannot look both up.
        """
        return self.encoder.embed_tokens

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Put another table in place of the encoder's, and of the decoder's where they are one."""
        self.encoder.embed_tokens = value
        if self.config.tie_word_embeddings:
            self.decoder.embed_tokens = value

    def choose_decoder_input(self, input_ids, decoder_input_ids, decoder_inputs_embeds):
        """The decoder's input, [B, T]: as given, or the source after the start token; else ValueError."""
        if decoder_input_ids is not None or decoder_inputs_embeds is not None:
            return decoder_input_ids
        if input_ids is None:
            raise ValueError("The decoder has nothing to read: give decoder_input_ids or labels.")
        return shift_right(input_ids, self.config.pad_token_id, self.config.decoder_start_token_id)

    def join_outputs(self, encoder_outputs, decoder_outputs) -> Seq2SeqModelOutput:
        """What both sides gave, in one; a side that gives no maps of its own attention has none."""
        return Seq2SeqModelOutput(
            last_hidden_state=decoder_outputs.last_hidden_state,
            cache=decoder_outputs.cache,
            decoder_hidden_states=decoder_outputs.hidden_states,
            decoder_attentions=decoder_outputs.get("attentions"),
            cross_attentions=decoder_outputs.cross_attentions,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.get("attentions"),
        )


class LMHeadMixin:
    """For an encoder-decoder with a linear map to the vocabulary: its loss, and what it reads to learn."""

    _tied_weights_keys = {"lm_head.weight": "model.encoder.embed_tokens.weight"}

    config: Any
    lm_head: Any
    loss_function: Any

    def prepare_decoder_input_ids_from_labels(self, labels: torch.LongTensor) -> torch.LongTensor:
        """What the decoder reads while it learns to write `labels`, [B, T]."""
        return shift_right(labels, self.config.pad_token_id, self.config.decoder_start_token_id)

    def compute_loss(self, states, labels: torch.Tensor | None, outputs, **kwargs) -> Seq2SeqLMOutput:
        """Logits and loss of states [B, T, D], after dropout if there is any, beside the other outputs."""
        logits, loss = self.lm_head(states), None  # [B, T, V]
        if labels is not None:
            size = self.config.vocab_size
            loss = self.loss_function(logits, labels.contiguous(), vocab_size=size, **kwargs)
        others = {name: value for name, value in outputs.items() if name != "last_hidden_state"}
        return Seq2SeqLMOutput(loss=loss, logits=logits, **others)
