"""What a configuration says of a model's attention, ours or one of transformers' own."""

import math

from transformers import PreTrainedConfig


def is_recurrent(config) -> bool:
    """Whether a configuration is of a model that reads step by step."""
    return config.model_type.startswith("recurrent")


def estimate_map_bytes(config, source_length: int, target_length: int, batch_size: int = 1) -> int:
    """Bytes that the maps of a forward pass will take, before it is run.

    Four bytes for each weight of encoder [L, H, S, S], decoder [L, H, T, T] and cross [L, H, T, S]. A
    configuration that says nothing of layers or heads, as one without attention, counts as none.
    """
    config = config if config.is_encoder_decoder else config.get_text_config()
    if is_recurrent(config):
        weights = target_length * source_length  # one alignment
    elif config.is_encoder_decoder:
        (layers, heads), (layers_above, heads_above) = count_sides(config)
        decoder = target_length**2 + target_length * source_length
        weights = layers * heads * source_length**2 + layers_above * heads_above * decoder
    else:
        layers_and_heads = (_count_of(config, f"num_{what}") for what in ("hidden_layers", "attention_heads"))
        weights = math.prod(layers_and_heads) * (source_length + target_length) ** 2
    return 4 * batch_size * weights


def side_of(config, side: str):
    """How the "encoder" or the "decoder" is built: in a configuration of its own where two models are one."""
    own = getattr(config, side, None) if config.is_encoder_decoder else None
    return own if isinstance(own, PreTrainedConfig) else config.get_text_config()


def count_sides(config) -> list[tuple[int, int]]:
    """(layers, heads) of an encoder-decoder's encoder and of its decoder, by whichever names it has them."""
    sides = []
    for side in ("encoder", "decoder"):
        own, of = side_of(config, side), f"{side}_attention_heads"
        layers = _count_of(own, f"{side}_layers", f"num_{side}_layers", "num_layers", "num_hidden_layers")
        sides.append((layers, _count_of(own, of, f"num_{of}", "num_attention_heads")))
    return sides


def _count_of(config, *names: str) -> int:
    """The first of these numbers that a configuration has; 0 where it has none."""
    return next((value for name in names if isinstance(value := getattr(config, name, None), int)), 0)
