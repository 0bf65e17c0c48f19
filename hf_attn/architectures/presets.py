"""Model sizes of two texts in hf_attn/textbooks; those that learn a task are its recipe "document"."""

from collections.abc import Mapping
from typing import Any

from hf_attn.models.configuration_attn import AttnConfig
from hf_attn.models.configuration_attn_encoder import AttnEncoderConfig
from hf_attn.models.configuration_attn_seq2seq import AttnSeq2SeqConfig
from hf_attn.utils.text import quote

PRESETS: Mapping[str, tuple[type[AttnConfig], Mapping[str, Any]]] = {
    # the text classifier of “Self-Attention and Multi-Head Attention”; its text says 3,150,338 parameters,
    # its code has 3,350,274
    "chapter-1-classifier": (
        AttnEncoderConfig,
        {
            "vocab_size": 10_000,
            "hidden_size": 256,
            "num_attention_heads": 8,
            "intermediate_size": 1024,
            "num_hidden_layers": 1,
            "max_position_embeddings": 512,
            "position_type": "sinusoidal",
            "norm_position": "post",
            "activation": "relu",
            "use_bias": True,
            "dropout": 0.1,
            "pooling": "mean",
            "num_labels": 2,
        },
    ),
    # “The Birth of Transformers”: its configuration's defaults, pre-norm as its layers are
    "chapter-8-transformer": (
        AttnSeq2SeqConfig,
        {
            "vocab_size": 30_000,
            "hidden_size": 768,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
            "encoder_layers": 12,
            "decoder_layers": 12,
            "max_position_embeddings": 512,
            "position_type": "learned",
            "norm_position": "pre",
            "activation": "gelu",
            "use_bias": True,
            "dropout": 0.1,
            "attention_dropout": 0.1,
            "layer_norm_eps": 1e-12,
            "initializer_range": 0.02,
        },
    ),
}


def build_preset(name: str, **changes) -> AttnConfig:
    """The configuration of that name, a key of PRESETS, with the fields changed that are to differ.

    Raises:
        ValueError: there is no such preset, or a changed field is refused.
    """
    if name not in PRESETS:
        raise ValueError(f"There is no preset {quote(name)}; choose one of {', '.join(PRESETS)}.")
    config_class, fields = PRESETS[name]
    return config_class(**{**fields, **changes})
