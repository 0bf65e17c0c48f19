"""What the recurrent configurations share, and the configuration of the recurrent encoder and classifier."""

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from .config_checks import bounded, check_bounds, check_choice, check_inherited

CELL_TYPES = ("lstm", "gru", "rnn")


@strict
class BaseRecurrentConfig(PreTrainedConfig):
    r"""The fields that every recurrent configuration here has.

    Args:
        vocab_size: V, number of tokens.
        embedding_size: E, width of a token's embedding; hidden_size where None.
        hidden_size: D, width of a state: the decoder's, or of an encoder alone both directions together.
        num_layers: number of layers, in the encoder and in the decoder.
        cell_type: "lstm" (Hochreiter & Schmidhuber 1997), "gru" (Cho et al. 2014, arXiv:1406.1078) or "rnn"
            (Elman 1990, with tanh).
        bidirectional: whether the encoder reads from both ends (Schuster & Paliwal 1997).
        dropout: on embeddings, between layers, and on what the head reads.
        initializer_range: std of the initial weights; None for uniform within ±1/√(width of the state) in the
            cells, as torch has it, and Xavier uniform in the linear maps.
        embedding_initializer_range: std of the token embeddings; reversal was learned in fewer steps with 0.3
            than with 1.
    """

    num_attention_heads = 1  # what reads a state reads it whole

    vocab_size: int = bounded(30000, 1, 1_000_000)
    embedding_size: int | None = bounded(None, 1, 16_384)
    hidden_size: int = bounded(128, 1, 16_384)
    num_layers: int = bounded(1, 1, 1_000)
    cell_type: str = "lstm"
    bidirectional: bool = True
    dropout: float | int = bounded(0.0, 0.0, 0.999)
    initializer_range: float | None = bounded(None, 0.0, 1e6)
    embedding_initializer_range: float | int = bounded(0.3, 0.0, 1e6)
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2

    def __post_init__(self, **kwargs):
        check_inherited({"id2label": self.id2label, "dtype": self.dtype, **kwargs})
        super().__post_init__(**kwargs)
        check_bounds(self)
        check_choice("cell_type", self.cell_type, sorted(CELL_TYPES))

    @property
    def input_size(self) -> int:
        """E, the width of an embedding."""
        return self.hidden_size if self.embedding_size is None else self.embedding_size

    @property
    def num_directions(self) -> int:
        """From how many ends the encoder reads."""
        return 2 if self.bidirectional else 1

    @property
    def memory_size(self) -> int:
        """M, the width of what the encoder leaves at every token: its directions side by side."""
        return self.hidden_size

    def check_directions(self, remedy: str) -> None:
        """Refuse a hidden_size that two directions cannot share."""
        if self.hidden_size % self.num_directions:
            raise ValueError(
                f"hidden_size={self.hidden_size} is odd, and bidirectional=True shares it between two "
                f"directions: choose an even hidden_size, or {remedy}."
            )


@strict
class RecurrentEncoderConfig(BaseRecurrentConfig):
    r"""Sizes and choices of a recurrent encoder and its classifier.

    Args:
        pooling: how the classifier reads a sequence: "last" (the state after its last token, and of the other
            direction after its first), or the "mean" or "max" over its tokens, padding left out.
        classifier_dropout: on the pooled vector; `dropout` where None.

    The other fields are BaseRecurrentConfig's; each direction is hidden_size / 2 wide where there are two.
    """

    model_type = "recurrent_encoder"
    attribute_map = {"num_hidden_layers": "num_layers"}

    pooling: str = "last"
    classifier_dropout: float | int | None = bounded(None, 0.0, 0.999)

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        self.check_directions("bidirectional=False")
        check_choice("pooling", self.pooling, ("last", "max", "mean"))


__all__ = ["RecurrentEncoderConfig"]
