"""Configuration of the decoder-only Transformer, a language model."""

from huggingface_hub.dataclasses import strict

from .config_checks import bounded
from .configuration_attn import AttnConfig
from .efficient_attention import EFFICIENT_ATTENTION


@strict
class AttnDecoderConfig(AttnConfig):
    r"""Sizes and choices of a decoder-only Transformer (Liu et al. 2018, arXiv:1801.10198, §4.2.3).

    Args:
        num_hidden_layers: number of layers.
        use_cache: whether keys and values are returned for the next step.
        tie_word_embeddings: whether embeddings and output projection are one table; else each has its own.
        embedding_initializer_range: std of the token embeddings, 1/√D at the default width: a tied table also
            writes, and with 1 the loss starts at 52 nats where chance is 4.6 (measured on 102 characters).
        position_initializer_range: std of learned positions, as that of the tokens they are added to.

    The other fields are AttnConfig's.
    """

    model_type = "attn_decoder"
    keys_to_ignore_at_inference = ["cache"]

    num_hidden_layers: int = bounded(2, 1, 1_000)
    use_cache: bool = True
    tie_word_embeddings: bool = True
    embedding_initializer_range: float | int = bounded(0.125, 0.0, 1e6)
    position_initializer_range: float | int = bounded(0.125, 0.0, 1e6)

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        attention = EFFICIENT_ATTENTION.get(self.attention_type)
        if attention is not None and attention.not_causal:
            raise ValueError(
                f"attention_type={self.attention_type!r} cannot hide the future, as a decoder must: "
                f"{attention.not_causal}. Choose "
                + " or ".join(name for name, kind in EFFICIENT_ATTENTION.items() if not kind.not_causal)
                + ", or full."
            )


__all__ = ["AttnDecoderConfig"]
