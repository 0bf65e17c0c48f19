"""Configuration of the Transformer encoder and its classifier."""

from huggingface_hub.dataclasses import strict

from .checking import check_choice, check_positive, check_probability
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

    num_hidden_layers: int = 2
    pooling: str = "mean"
    classifier_dropout: float | int | None = None

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        check_positive(num_hidden_layers=self.num_hidden_layers)
        check_choice("pooling", self.pooling, ("mean", "first"))
        check_probability(classifier_dropout=self.classifier_dropout or 0)


__all__ = ["AttnEncoderConfig"]
