"""Configuration of the Transformer encoder and its classifier."""

from huggingface_hub.dataclasses import strict

from .config_checks import bounded, check_choice
from .configuration_attn import AttnConfig


@strict
class AttnEncoderConfig(AttnConfig):
    r"""Sizes and choices of a Transformer encoder.

    Args:
        num_hidden_layers: number of layers.
        pooling: how the classifier reads a sequence: "mean" over its tokens (padding left out), or "first".
        classifier_dropout: on the pooled vector; `dropout` where None.

    The other fields are AttnConfig's.
    """

    model_type = "attn_encoder"

    num_hidden_layers: int = bounded(2, 1, 1_000)
    pooling: str = "mean"
    classifier_dropout: float | int | None = bounded(None, 0.0, 0.999)

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        check_choice("pooling", self.pooling, ("first", "mean"))


__all__ = ["AttnEncoderConfig"]
