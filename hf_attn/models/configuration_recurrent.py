"""Configuration of the recurrent encoder-decoder."""

from huggingface_hub.dataclasses import strict

from .config_checks import bounded, check_choice
from .configuration_recurrent_encoder import BaseRecurrentConfig
from .score_functions import SCORE_FUNCTIONS


@strict
class RecurrentConfig(BaseRecurrentConfig):
    r"""Sizes and choices of a recurrent encoder-decoder, with attention or without.

    Args:
        encoder_hidden_size: width of the encoder's state in each direction; where None, hidden_size, or half
            of it in each of two directions, so that memory and decoder are equally wide.
        score_function: how well a state and a token of the memory match, a name in `SCORE_FUNCTIONS`, where
            each has its equation and its paper; "none": no attention, the decoder begins at the encoder's
            last state and knows nothing else of the source (Sutskever et al. 2014, arXiv:1409.3215).
        attention_size: A, width in which a small network compares; hidden_size where None. Of no effect with
            scores that compare otherwise.
        input_feeding: True: each step attends first, with the state before it, and the context enters the
            cells too (Bahdanau's wiring). False: the new state attends, and the cells never hear of it
            (Luong's, without input feeding). Of no effect with score_function="none".
        tie_word_embeddings: whether encoder, decoder and output projection are one table; else each has one.
        decoder_start_token_id: what the decoder reads first.

    The other fields are BaseRecurrentConfig's.
    """

    model_type = "recurrent"
    keys_to_ignore_at_inference = ["cache"]
    attribute_map = {
        "num_hidden_layers": "num_layers",
        "encoder_layers": "num_layers",
        "decoder_layers": "num_layers",
        "d_model": "hidden_size",
    }

    encoder_hidden_size: int | None = bounded(None, 1, 16_384)
    score_function: str = "additive"
    attention_size: int | None = bounded(None, 1, 16_384)
    input_feeding: bool = True
    use_cache: bool = True
    is_encoder_decoder: bool = True
    tie_word_embeddings: bool = False
    decoder_start_token_id: int | None = 1

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        if self.encoder_hidden_size is None:
            self.check_directions("encoder_hidden_size=…, the width of each direction")
        check_choice("score_function", self.score_function, sorted(SCORE_FUNCTIONS))
        score = SCORE_FUNCTIONS[self.score_function]
        if score is not None and score.needs_equal_widths and self.memory_size != self.hidden_size:
            raise ValueError(
                f"score_function={self.score_function!r} needs decoder states (hidden_size="
                f"{self.hidden_size}) as wide as the memory (encoder_hidden_size={self.encoder_hidden_size} "
                f"× {self.num_directions} = {self.memory_size}): choose hidden_size={self.memory_size}, "
                "leave encoder_hidden_size out, or take score_function='general'."
            )
        if self.tie_word_embeddings and self.input_size != self.hidden_size:
            raise ValueError(
                "tie_word_embeddings=True makes one table of what is read and what is written: "
                f"embedding_size={self.input_size} and hidden_size={self.hidden_size} must be equal. Leave "
                "embedding_size out, or choose tie_word_embeddings=False."
            )

    @property
    def memory_size(self) -> int:
        """M, the width of what the encoder leaves at every token: its directions side by side."""
        if self.encoder_hidden_size is None:
            return self.hidden_size
        return self.encoder_hidden_size * self.num_directions

    @property
    def comparing_size(self) -> int:
        """A, the width in which state and memory are compared."""
        return self.hidden_size if self.attention_size is None else self.attention_size

    @property
    def feeds_context(self) -> bool:
        """Whether what attention has read enters the cells."""
        return self.input_feeding and self.score_function != "none"


__all__ = ["RecurrentConfig"]
