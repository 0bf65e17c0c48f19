"""What cannot be looked into, or is not one example of what a model reads: refused in a sentence."""

import math

import torch
from transformers import PreTrainedModel

from hf_attn.architectures.families import is_ours
from hf_attn.architectures.map_sizes import estimate_map_bytes, side_of
from hf_attn.tasks.batch import Batch


def refuse_strange(model) -> None:
    """Refuse what is no model of transformers, or does not read text or images."""
    if not isinstance(model, PreTrainedModel):
        raise ValueError(f"model is a {type(model).__name__}; give a model of transformers.")
    if model.main_input_name not in ("input_ids", "pixel_values") or (
        model.main_input_name == "pixel_values" and model.config.is_encoder_decoder
    ):
        raise ValueError(
            f"{type(model).__name__} reads {model.main_input_name}; maps are shown of models that read text, "
            "and of encoders of images."
        )
    refuse_bands(model)


def refuse_bands(model) -> None:
    """Refuse what attends within a window and gives bands, in which a column is a distance and no token.

    Where a band is as wide as the input is long, nothing in its shape would tell it from a map.
    """
    window = getattr(model.config, "attention_window", None)
    if window is not None and not is_ours(model.config.model_type):  # ours give whole maps
        raise ValueError(
            f"{type(model).__name__} does not attend from every token to every token: it has "
            f"attention_window={window}, and its maps are bands whose columns are distances. Open a model "
            "with full attention."
        )


def as_one_row(name: str, ids) -> torch.Tensor:
    """[1, L] of ids [L] or [1, L], which were given as the `name`, "input" or "target"."""
    try:
        found = torch.as_tensor(ids)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"The {name} is a {type(ids).__name__}: give a text with its tokenizer, or ids [1, S]."
        ) from None
    if found.numel() == 0:
        raise ValueError("There is no token in what was given: write something.")
    if found.dim() == 2 and len(found) > 1:
        raise ValueError(f"The {name} holds {len(found)} rows of ids; give one, for example ids[:1].")
    if found.dim() not in (1, 2):
        raise ValueError(
            f"The {name} has shape {list(found.shape)}; give the ids of one text, [1, S] or [S]."
        )
    if found.is_floating_point() or found.dtype == torch.bool:
        raise ValueError(f"The {name} holds numbers of {found.dtype}; ids are whole numbers, as torch.long.")
    return found.long().reshape(1, -1)


def check_ids(name: str, ids: torch.Tensor, stack) -> torch.Tensor:
    """The same ids; refuse those that the model, or the decoder that reads them, has no embedding for."""
    size = getattr(stack.get_input_embeddings(), "num_embeddings", None)
    if size is not None and len(strange := ids[(ids < 0) | (ids >= size)]):
        raise ValueError(
            f"The {name} holds the id {int(strange[0])}, and this model knows 0 to {size - 1}: use the "
            "tokenizer that belongs to it."
        )
    return ids


def refuse_target(model, target) -> None:
    """Refuse a target for a model that writes nothing."""
    if target is not None:
        raise ValueError(f"{type(model).__name__} only reads: leave target out.")


def refuse_length(model, source_length: int, target_length: int, max_bytes: int) -> None:
    """Refuse more tokens than a model has positions for, and maps that would take more bytes than allowed."""
    if model.config.is_encoder_decoder:
        refuse_long(model, source_length, "encoder")
        refuse_long(model, target_length, "decoder")
    else:  # the last token written is not read
        refuse_long(model, source_length + max(0, target_length - 1), "decoder")
    refuse_large(model.config, source_length, target_length, max_bytes)


def refuse_long(model, length: int, side: str) -> None:
    """Refuse more tokens than a side has positions for; ours say so themselves, not all are bound to it."""
    most = getattr(side_of(model.config, side), "max_position_embeddings", None)
    if not is_ours(model.config.model_type) and most and 0 < most < length:
        raise ValueError(
            f"{length:,} tokens are more than the {most:,} positions of this model: shorten the input."
        )


def refuse_many(batch: Batch) -> None:
    """Refuse several examples at once."""
    if len(batch) != 1:
        raise ValueError(f"inputs holds {len(batch)} examples; give one, for example batch[:1].")


def refuse_large(config, source_length: int, target_length: int, max_bytes: int) -> None:
    """Refuse maps that would take more bytes than allowed."""
    needed = estimate_map_bytes(config, source_length, target_length)
    if needed > max_bytes:
        fitting = int(source_length * math.sqrt(max_bytes / needed))
        raise ValueError(
            f"{source_length} source and {target_length} target tokens would need {needed / 2**20:.0f} MB of "
            f"maps; max_bytes allows {max_bytes / 2**20:.0f} MB, enough for a source of about {fitting} "
            f"tokens. Shorten the input, or raise max_bytes."
        )
