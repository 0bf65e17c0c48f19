"""The recurrent encoder-decoder, with attention or without, and its language-modelling head."""

import torch
from torch import nn
from transformers import GenerationMixin
from transformers.modeling_outputs import Seq2SeqLMOutput, Seq2SeqModelOutput
from transformers.utils import can_return_tuple
from transformers.utils.deprecation import deprecate_kwarg

from .configuration_recurrent import RecurrentConfig
from .encoder_decoder import EncoderDecoder, LMHeadMixin
from .modeling_recurrent_decoder import RecurrentDecoder, RecurrentPreTrainedModel, RecurrentState
from .modeling_recurrent_encoder import RecurrentEncoderModel, RecurrentEncoderOutput


class RecurrentModel(EncoderDecoder, RecurrentPreTrainedModel):
    """Encoder and decoder: one table of token embeddings, or two without `tie_word_embeddings`."""

    def __init__(self, config: RecurrentConfig):
        super().__init__(config)
        self.encoder = RecurrentEncoderModel(config)
        self.decoder = RecurrentDecoder(config)
        self.post_init()

    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: tuple | RecurrentEncoderOutput | None = None,
        cache: RecurrentState | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs,
    ) -> Seq2SeqModelOutput:
        """Read a source and what is written so far.

        Args:
            input_ids: [B, S] source ids.
            attention_mask: [B, S], 1 = token, 0 = padding (left or right).
            decoder_input_ids: [B, T] target ids, the start token first; after those that the state has read.
            decoder_attention_mask: [B, past + T], 1 = token, 0 = padding.
            encoder_outputs: the encoder's output, so that it is not computed again.
            cache: the state after earlier steps, as those returned it.
            inputs_embeds: [B, S, E] instead of input_ids.
            decoder_inputs_embeds: [B, T, E] instead of decoder_input_ids.
            use_cache: whether the state is returned for the next step.
            **kwargs: `output_attentions`, `output_hidden_states`.

        Returns:
            last_hidden_state [B, T, D], the state, and on demand cross_attentions: a tuple of one
            [B, 1, T, S], whose rows sum to 1 over the source's tokens; None without a score function.
        """
        decoder_input_ids = self.choose_decoder_input(input_ids, decoder_input_ids, decoder_inputs_embeds)
        encoder_outputs = self.encode(encoder_outputs, input_ids, attention_mask, inputs_embeds, **kwargs)
        decoder_outputs = self.decoder(
            decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            encoder_attention_mask=attention_mask,
            cache=cache,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        return self.join_outputs(encoder_outputs, decoder_outputs)

    def encode(
        self, encoder_outputs=None, input_ids=None, attention_mask=None, inputs_embeds=None, **kwargs
    ) -> RecurrentEncoderOutput:
        """Return the encoder's output: as given, whole or as a tuple, or computed."""
        if encoder_outputs is None:
            return self.encoder(
                input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, **kwargs
            )
        if isinstance(encoder_outputs, RecurrentEncoderOutput):
            return encoder_outputs
        needed = 3 if self.config.cell_type == "lstm" else 2
        if not isinstance(encoder_outputs, tuple) or len(encoder_outputs) < needed:
            raise ValueError(
                f"encoder_outputs is a {type(encoder_outputs).__name__} of {len(encoder_outputs)}, and the "
                "decoder begins at the final states too: give what the encoder returned, whole or as a tuple."
            )
        return RecurrentEncoderOutput(*encoder_outputs[:needed])


class RecurrentForConditionalGeneration(LMHeadMixin, RecurrentPreTrainedModel, GenerationMixin):
    """The encoder-decoder with a linear map to the vocabulary: it writes."""

    def __init__(self, config: RecurrentConfig):
        super().__init__(config)
        self.loss_type = "ForMaskedLM"  # cross-entropy without a shift of its own: shift_right has done it
        self.model = RecurrentModel(config)
        self.dropout = nn.Dropout(config.dropout)
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
        encoder_outputs: tuple | RecurrentEncoderOutput | None = None,
        cache: RecurrentState | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        teacher_forcing_ratio: float = 1.0,
        **kwargs,
    ) -> Seq2SeqLMOutput:
        """Score every next token, and with labels compute the loss.

        The arguments are those of RecurrentModel, but for:
            decoder_input_ids: [B, T]; made from labels (shifted once to the right) where not given.
            labels: [B, T] what is to be written; −100 is not learned.
            use_cache: whether the state is returned; never while learning.
            teacher_forcing_ratio: with which probability a step after the first reads the true token, and not
                what the model would have written (Bengio et al. 2015, arXiv:1506.03099); drawn for each
                example and step from torch's global generator, as dropout is.
            **kwargs: as RecurrentModel takes them; `num_items_in_batch` for gradient accumulation.

        Returns:
            loss: mean −log p over labels (over num_items_in_batch where given); logits [B, T, V]; the rest as
            RecurrentModel returns it.
        """
        if labels is not None:
            use_cache = False
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        source = {"input_ids": input_ids, "attention_mask": attention_mask, "inputs_embeds": inputs_embeds}
        target = {"decoder_input_ids": decoder_input_ids, "decoder_attention_mask": decoder_attention_mask}
        known = {"encoder_outputs": encoder_outputs, "cache": cache, **kwargs}
        if teacher_forcing_ratio == 1:
            known.update(decoder_inputs_embeds=decoder_inputs_embeds, use_cache=use_cache)
            outputs = self.model(**source, **target, **known)
        else:
            outputs = self._read_own_choices(teacher_forcing_ratio, **source, **target, **known)
        return self.compute_loss(self.dropout(outputs.last_hidden_state), labels, outputs, **kwargs)

    def _read_own_choices(
        self,
        teacher_forcing_ratio: float,
        input_ids=None,
        attention_mask=None,
        decoder_input_ids=None,
        decoder_attention_mask=None,
        encoder_outputs=None,
        cache=None,
        inputs_embeds=None,
        **kwargs,
    ) -> Seq2SeqModelOutput:
        """Read step by step, as `generate` does: each token is the true one or what the model would write."""
        if not 0 <= teacher_forcing_ratio <= 1:
            raise ValueError(f"teacher_forcing_ratio={teacher_forcing_ratio} must be between 0 and 1.")
        if decoder_input_ids is None:
            raise ValueError(
                f"teacher_forcing_ratio={teacher_forcing_ratio} mixes true tokens with the model's own: give "
                "decoder_input_ids or labels, or leave it at 1."
            )
        memory = self.model.encode(encoder_outputs, input_ids, attention_mask, inputs_embeds, **kwargs)
        token = decoder_input_ids[:, :1]
        steps: list[Seq2SeqModelOutput] = []
        for place, true_token in enumerate((*decoder_input_ids[:, 1:].split(1, dim=1), None), start=1):
            read = None if decoder_attention_mask is None else decoder_attention_mask[:, :place]
            step = self.model(
                attention_mask=attention_mask,
                decoder_input_ids=token,
                decoder_attention_mask=read,
                encoder_outputs=memory,
                cache=steps[-1].cache if steps else cache,
                use_cache=True,
                **kwargs,
            )
            steps.append(step)
            if true_token is not None:
                with torch.no_grad():
                    written = self.lm_head(step.last_hidden_state).argmax(dim=-1)  # [B, 1]
                is_true = torch.rand(written.shape, device=written.device) < teacher_forcing_ratio
                token = torch.where(is_true, true_token, written)
        return _join(steps)


def _join(steps: list[Seq2SeqModelOutput]) -> Seq2SeqModelOutput:
    """Join one output a token into what one pass over all tokens would return; without the state."""
    states, maps = steps[0].decoder_hidden_states, steps[0].cross_attentions
    if states is not None:
        states = tuple(
            torch.cat(parts, dim=1) for parts in zip(*(s.decoder_hidden_states for s in steps), strict=True)
        )
    if maps is not None:
        maps = (torch.cat([step["cross_attentions"][0] for step in steps], dim=2),)
    return Seq2SeqModelOutput(
        last_hidden_state=torch.cat([step["last_hidden_state"] for step in steps], dim=1),
        decoder_hidden_states=states,
        cross_attentions=maps,
        encoder_last_hidden_state=steps[0].encoder_last_hidden_state,
        encoder_hidden_states=steps[0].encoder_hidden_states,
    )


__all__ = ["RecurrentForConditionalGeneration", "RecurrentModel", "RecurrentPreTrainedModel"]
