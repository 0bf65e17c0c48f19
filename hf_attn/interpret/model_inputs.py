"""One example out of whatever a model is given to read: its ids without padding, or what is wrong with it."""

import math
import operator
from collections.abc import Mapping
from inspect import signature

import torch
from transformers import PreTrainedModel

from hf_attn.architectures.families import is_ours
from hf_attn.architectures.map_sizes import estimate_map_bytes, side_of
from hf_attn.generation.decoders import is_decoder_only
from hf_attn.generation.generate import check_ids
from hf_attn.tasks.batch import IGNORED, Batch
from hf_attn.utils.text import replace_surrogates

USED = ("input_ids", "attention_mask", "token_type_ids", "labels")  # of a dict


def takes_target(model: PreTrainedModel) -> bool:
    """Whether a model reads what is written too; others only read a source."""
    return model.can_generate() or "decoder_input_ids" in signature(model.forward).parameters


def read_example(
    model: PreTrainedModel, inputs, target=None, tokenizer=None, row: int | None = None
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    """One example out of the inputs that `attention_maps` takes.

    Returns:
        (ids [1, S] without padding; ids [1, T] of the target, None where the model writes or only reads;
        token types [1, S], None where all tokens are of one text).

    Raises:
        ValueError: they are none, or not of this model; the sentence says what to give.
    """
    labels = None
    if isinstance(inputs, Batch):
        inputs = inputs.inputs()
        labels = inputs["labels"]
    elif isinstance(inputs, Mapping):
        _refuse_unused(model, inputs)
        labels = inputs.get("labels")
        if labels is not None and is_decoder_only(model):
            labels = ""  # its ids hold all that is written
    ids, is_token = _read_ids("input", inputs, tokenizer, row)
    ids = ids.to(model.device)
    check_ids("input", ids, model)
    if takes_target(model):
        target = labels if target is None else target
        target = None if target is None else _read_target(model, ids, target, tokenizer, row)
    else:
        refuse_target(model, target)
    types = inputs.get("token_type_ids") if isinstance(inputs, Mapping) else None
    if types is not None:
        types = _pick_row("token_type_ids", types, row, len(is_token))[is_token]
    if types is None or not types.any() or "token_type_ids" not in signature(model.forward).parameters:
        return ids, target, None
    if takes_target(model):
        raise ValueError("inputs has token_type_ids, and what is written has none: leave them out.")
    return ids, target, types.to(model.device).unsqueeze(0)


def read_image(inputs, processor=None, row: int | None = None) -> torch.Tensor:
    """One image [1, C, height, width] out of an image, its pixels or what an image processor returns.

    ValueError where there is none, or several and no row is chosen.
    """
    if isinstance(inputs, Mapping):
        if "pixel_values" not in inputs:
            raise ValueError(
                f"inputs has {_list_keys(inputs)} and no pixel_values: give what the processor does."
            )
        inputs = inputs["pixel_values"]
    if not (isinstance(inputs, torch.Tensor) and inputs.dim() == 4):
        if processor is None:
            raise ValueError("An image was given without its image processor: pass it, or pixel_values.")
        inputs = processor(images=inputs, return_tensors="pt")["pixel_values"]
    return inputs[_choose_row("input", "images", len(inputs), row)].unsqueeze(0)


def read_ids(text: str, size: int) -> list[int]:
    """Ids that a person wrote for a model without a tokenizer; ValueError where they are none."""
    words = text.replace(",", " ").split()
    if not words or not all(word.isdecimal() and int(word) < size for word in words):
        raise ValueError(
            f"This model came without a tokenizer: write ids from 0 to {size - 1:,}, for example 5 12 7."
        )
    return [int(word) for word in words]


def _read_ids(name: str, given, tokenizer, row: int | None) -> tuple[torch.Tensor, torch.Tensor]:
    """(ids [1, L] without padding, is_token [L with padding]) of the `name`, "input" or "target"."""
    if isinstance(given, str):
        if tokenizer is None:
            raise ValueError("Text was given without a tokenizer: pass tokenizer=…, or ids.")
        given = tokenizer(replace_surrogates(given))["input_ids"]
    mask = None
    if isinstance(given, Mapping):
        if given.get("input_ids") is None:
            raise ValueError(
                f"The {name} has {_list_keys(given)} and no input_ids: give what a tokenizer returns, or ids."
            )
        given, mask = given["input_ids"], given.get("attention_mask")
    if name == "target" and _count_rows(given) == 1:
        row = 0  # for whichever row is read
    if mask is not None and _count_rows(mask) != _count_rows(given):
        raise ValueError(
            f"attention_mask has {_count_rows(mask)} rows for {_count_rows(given)} of ids: give one for each."
        )
    ids = _pick_row(name, given, row)
    if ids.numel() == 0:
        raise ValueError("There is no token in what was given: write something.")
    if ids.is_floating_point() or ids.dtype == torch.bool:
        raise ValueError(f"The {name} holds numbers of {ids.dtype}; ids are whole numbers, as torch.long.")
    is_token = torch.ones_like(ids, dtype=torch.bool)
    if mask is not None:
        is_token = _read_mask(_pick_row("attention_mask", mask, row, len(ids)))
    return ids[is_token].long().unsqueeze(0), is_token


def _read_mask(mask: torch.Tensor) -> torch.Tensor:
    """Which places hold a token, bool [L]; refuse a mask that does more than to tell padding."""
    if not ((mask == 0) | (mask == 1)).all():
        raise ValueError(f"attention_mask holds {mask.tolist()}; give 1 for a token and 0 for padding.")
    places = mask.nonzero().flatten()
    if len(places) == 0:
        raise ValueError("attention_mask is 0 everywhere: there is no token to read.")
    if len(places) <= places[-1] - places[0]:
        raise ValueError(
            "attention_mask is 0 between tokens; padding stands before or behind them. To hide a token, "
            "leave it out, or remove it by an Intervention."
        )
    return mask.bool()


def _read_target(model, source: torch.Tensor, target, tokenizer, row: int | None) -> torch.Tensor:
    """[1, T] ids of what is to be written; what a decoder-only model writes has no beginning of its own."""
    if is_decoder_only(model) and isinstance(target, str | list | tuple) and not target:
        return source[:, :0]
    ids, _ = _read_ids("target", target, tokenizer, row)
    ids = ids[:, ids[0] != IGNORED].to(source.device)
    if ids.numel() == 0:
        raise ValueError(f"The target holds nothing but {IGNORED}, which is no token: give some ids.")
    check_ids("target", ids, model.get_decoder() if model.config.is_encoder_decoder else model)
    begins = is_decoder_only(model) and ids[0, 0] == getattr(tokenizer, "bos_token_id", None)
    return ids[:, 1:] if begins else ids


def _has_rows(given) -> bool:
    first = given[0] if isinstance(given, list | tuple) and given else None
    return getattr(given, "ndim", 1) > 1 or isinstance(first, list | tuple) or getattr(first, "ndim", 0) > 0


def _count_rows(given) -> int:
    return len(given) if _has_rows(given) else 1


def _pick_row(name: str, given, row: int | None, length: int | None = None) -> torch.Tensor:
    """[L] of numbers [L], or of one of the rows [B, L], which may be lists of unequal length."""
    has_rows, count = _has_rows(given), _count_rows(given)
    place = _choose_row(name, "rows", count, row)
    try:
        found = torch.as_tensor(given[place] if has_rows else given)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"The {name} is a {type(given).__name__}: give a text with its tokenizer, or ids [1, S]."
        ) from None
    if found.dim() != 1:
        shape = [count, *found.shape] if has_rows else [*found.shape]
        raise ValueError(f"The {name} has shape {shape}; give the ids of one text, [1, S] or [S].")
    if length not in (None, len(found)):
        raise ValueError(f"{name} has {len(found)} numbers for {length} ids: give one for each.")
    return found


def _choose_row(name: str, what: str, count: int, row: int | None) -> int:
    if count == 0:
        raise ValueError(f"The {name} holds no {what}: give at least one.")
    if row is None and count > 1:
        raise ValueError(f"The {name} holds {count} {what}; give one, or choose one, for example row=0.")
    if row is None:
        return 0
    try:
        place = -1 if isinstance(row, bool) else operator.index(row)
    except TypeError:
        place = -1
    if not 0 <= place < count:
        raise ValueError(f"row={row} is not there: the {name} holds {count}, from row 0 on.")
    return place


def _list_keys(inputs: Mapping) -> str:
    return ", ".join(map(str, inputs)) or "nothing"


def _refuse_unused(model: PreTrainedModel, inputs: Mapping) -> None:
    """Refuse what the model would take and no map is made with; offsets and the like do no harm."""
    takes = signature(model.forward).parameters
    for name, value in inputs.items():
        if name in takes and name not in USED and value is not None:
            raise ValueError(
                f"inputs has {name}, which no map is made with: leave it out. What is written is the target."
            )


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


def refuse_target(model, target) -> None:
    """Refuse a target for a model that writes nothing."""
    if target is not None:
        raise ValueError(f"{type(model).__name__} only reads: leave target out.")


def refuse_length(model, source_length: int, target_length: int, max_bytes: int) -> None:
    """Refuse more tokens than a model has positions for, and maps that would take more bytes than allowed."""
    if model.config.is_encoder_decoder:
        _refuse_long(model, source_length, "encoder")
        _refuse_long(model, target_length, "decoder")
    else:  # the last token written is not read
        _refuse_long(model, source_length + max(0, target_length - 1), "decoder")
    refuse_large(model.config, source_length, target_length, max_bytes)


def _refuse_long(model, length: int, side: str) -> None:
    """Refuse more tokens than a side has positions for; ours say so themselves, where positions are bound."""
    most = getattr(side_of(model.config, side), "max_position_embeddings", None)
    if not is_ours(model.config.model_type) and most and 0 < most < length:
        raise ValueError(
            f"{length:,} tokens are more than the {most:,} positions of this model: shorten the input."
        )


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
