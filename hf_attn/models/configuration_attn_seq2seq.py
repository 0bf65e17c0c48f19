"""Configuration of the encoder-decoder Transformer."""

from huggingface_hub.dataclasses import strict

from .config_checks import bounded
from .configuration_attn import AttnConfig


@strict
class AttnSeq2SeqConfig(AttnConfig):
    r"""Sizes and choices of an encoder-decoder Transformer (Vaswani et al. 2017, arXiv:1706.03762).

    Args:
        encoder_layers: number of encoder layers.
        decoder_layers: number of decoder layers.
        tie_word_embeddings: whether encoder, decoder and output projection are one table; else each has one.
        decoder_start_token_id: what the decoder reads first.

    The other fields are AttnConfig's. With an attention_type that cannot hide the future ("linformer",
    "reformer") it is the encoder's, and the decoder's self-attention stays full.
    """

    model_type = "attn_seq2seq"
    keys_to_ignore_at_inference = ["cache"]
    attribute_map = {
        "num_hidden_layers": "encoder_layers",
        "encoder_attention_heads": "num_attention_heads",
        "decoder_attention_heads": "num_attention_heads",
        "d_model": "hidden_size",
    }

    encoder_layers: int = bounded(2, 1, 1_000)
    decoder_layers: int = bounded(2, 1, 1_000)
    use_cache: bool = True
    is_encoder_decoder: bool = True
    tie_word_embeddings: bool = True
    decoder_start_token_id: int | None = 1


__all__ = ["AttnSeq2SeqConfig"]
