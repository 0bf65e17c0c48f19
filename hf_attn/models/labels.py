"""What models do with labels: shift them for a decoder, and compute a classifier's loss."""

import torch


def shift_right(labels: torch.Tensor, pad_token_id: int, start_token_id: int) -> torch.Tensor:
    """Make the decoder's input [B, T] from labels [B, T]: the start token, then every label but the last.

    The padding token stands where a label was −100, which is not learned.
    """
    start = labels.new_full((labels.shape[0], 1), start_token_id)
    shifted = torch.cat((start, labels[:, :-1]), dim=1)
    return shifted.masked_fill(shifted == -100, pad_token_id)


def classification_loss(model, logits, labels, num_items_in_batch=None) -> torch.Tensor:
    """Mean over labels, or sum over num_items_in_batch: transformers heeds that for classes only.

    Logits are [B, labels]; labels are [B] class indices, [B, labels] for multi-label, or [B] numbers for
    regression. num_items_in_batch counts the labels of all accumulated batches; None for this batch's own.
    """
    loss = model.loss_function(
        labels=labels, pooled_logits=logits, config=model.config, num_items_in_batch=num_items_in_batch
    )
    if num_items_in_batch is not None and model.config.problem_type != "single_label_classification":
        loss = loss * labels.numel() / num_items_in_batch
    return loss
