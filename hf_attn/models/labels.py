"""What models do with labels: shift them for a decoder, and learn to classify by them."""

from typing import Any

import torch
from torch import nn
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils import can_return_tuple


def shift_right(labels: torch.Tensor, pad_token_id: int, start_token_id: int) -> torch.Tensor:
    """Make the decoder's input [B, T] from labels [B, T]: the start token, then every label but the last.

    The padding token stands where a label was −100, which is not learned.
    """
    start = labels.new_full((labels.shape[0], 1), start_token_id)
    shifted = torch.cat((start, labels[:, :-1]), dim=1)
    return shifted.masked_fill(shifted == -100, pad_token_id)


class ClassifierMixin:
    """An encoder, its output pooled over the tokens by `_pool`, and a linear map to the labels."""

    config: Any
    encoder_class: Any

    def __init__(self, config):
        super().__init__(config)  # type: ignore[call-arg]
        self.num_labels = config.num_labels
        self.encoder = self.encoder_class(config)
        dropout = config.dropout if config.classifier_dropout is None else config.classifier_dropout
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()  # type: ignore[attr-defined]

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs,
    ) -> SequenceClassifierOutput:
        """Classify a batch of sequences.

        Args:
            input_ids: [B, S] token ids.
            attention_mask: [B, S], 1 = token, 0 = padding; padding is neither read nor pooled.
            inputs_embeds: [B, S, width of an embedding] instead of input_ids.
            labels: [B] class indices, [B, labels] for multi-label, or [B] numbers for regression.
            num_items_in_batch: how many labels all accumulated batches hold together.
            **kwargs: as the encoder takes them.

        Returns:
            loss (where labels are given), logits [B, labels], and the encoder's maps and states on demand.
        """
        outputs = self.encoder(
            input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, **kwargs
        )
        logits = self.classifier(self.dropout(self._pool(outputs, attention_mask)))  # type: ignore[attr-defined]
        loss = None
        if labels is not None:
            loss = self.loss_function(  # type: ignore[attr-defined]
                labels=labels, pooled_logits=logits, config=self.config, num_items_in_batch=num_items_in_batch
            )
            if num_items_in_batch is not None and self.config.problem_type != "single_label_classification":
                loss = loss * labels.numel() / num_items_in_batch  # which transformers does for classes only
        return SequenceClassifierOutput(
            loss=loss,
            logits=logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.get("attentions"),
        )
