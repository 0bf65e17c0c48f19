"""What a configuration says of a model's attention, ours or one of transformers' own."""

import math

from transformers import PreTrainedConfig

from hf_attn.architectures.families import is_recurrent


def count_map_weights(config, source_length: int, target_length: int) -> dict[str, tuple[int, int, int, int]]:
    """How many layers, heads, queries and keys the maps of each kind will have, before they are computed.

    A configuration that says nothing of layers or heads, as one without attention, counts as none.
    """
    config = config if config.is_encoder_decoder else config.get_text_config()
    if is_recurrent(config):
        return {"cross": (1, 1, target_length, source_length)} if target_length else {}
    if config.is_encoder_decoder:  # whose two sides may differ in both
        (layers, heads), (layers_above, heads_above) = count_sides(config)
        return {
            "encoder": (layers, heads, source_length, source_length),
            "decoder": (layers_above, heads_above, target_length, target_length),
            "cross": (layers_above, heads_above, target_length, source_length),
        }
    layers, heads = _count_of(config, "num_hidden_layers"), _count_of(config, "num_attention_heads")
    length = source_length + max(0, target_length - 1)  # the last token written is not read
    return {"decoder" if target_length else "encoder": (layers, heads, length, length)}


def estimate_map_bytes(config, source_length: int, target_length: int) -> int:
    """Bytes that the maps of a forward pass will take, before it is run: four for each weight."""
    return 4 * sum(map(math.prod, count_map_weights(config, source_length, target_length).values()))


def side_of(config, side: str):
    """The configuration of the "encoder" or the "decoder": one of its own where two models are one."""
    part = getattr(config, side, None) if config.is_encoder_decoder else None
    return part if isinstance(part, PreTrainedConfig) else config.get_text_config()


def count_sides(config) -> list[tuple[int, int]]:
    """(layers, heads) of an encoder-decoder's encoder and of its decoder, by whichever names it has them."""
    sides = []
    for side in ("encoder", "decoder"):
        part, heads = side_of(config, side), f"{side}_attention_heads"
        layers = _count_of(part, f"{side}_layers", f"num_{side}_layers", "num_layers", "num_hidden_layers")
        sides.append((layers, _count_of(part, heads, f"num_{heads}", "num_attention_heads")))
    return sides


def _count_of(config, *names: str) -> int:
    """The first of these numbers that a configuration has; 0 where it has none."""
    return next((value for name in names if isinstance(value := getattr(config, name, None), int)), 0)
