"""What the Transformer configurations share: sizes, mechanisms and initial weights."""

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN

from .config_checks import bounded, check_bounds, check_choice, check_inherited, show_value
from .efficient_attention import EFFICIENT_ATTENTION
from .own_attention import OWN_ATTENTION
from .positions import POSITION_TYPES

MOST_POSITIONS = 1_048_576  # 2²⁰, the longest context that models are sold with


@strict
class AttnConfig(PreTrainedConfig):
    r"""The fields that every Transformer configuration here has.

    Args:
        vocab_size: V, number of tokens.
        hidden_size: D, width of the residual stream.
        num_attention_heads: H; must divide hidden_size, the head size is D/H.
        intermediate_size: F, width of the feed-forward block.
        max_position_embeddings: longest sequence, source or target, in tokens.
        position_type: the position encoding, a name in POSITION_TYPES.
        attention_type: the kind of self-attention: a name in EFFICIENT_ATTENTION, with which cross-attention
            is full; "full" for all pairs; or a name in OWN_ATTENTION, of all attention.
        attention_window: W of "local", how many positions on either side are read.
        linformer_size: k of "linformer", how many mixtures of positions are read.
        performer_features: m of "performer", how many random features stand for the softmax.
        reformer_buckets: of "reformer", how many values its hash has; even.
        reformer_rounds: of "reformer", how often tokens are hashed, each time with another hash.
        reformer_chunk: m of "reformer", how many tokens read each other and the chunk before.
        norm_position: "pre" or "post" (LayerNorm before each block, or after each residual).
        activation: the feed-forward's activation, a name transformers knows (relu, gelu, silu, …).
        use_bias: whether linear maps have a bias.
        scale_embedding: multiply embeddings by √D (Vaswani et al. 2017, §3.4).
        dropout: on embeddings and on each block's output.
        attention_dropout: on the attention weights of full attention.
        layer_norm_eps: ε of LayerNorm.
        rope_theta: base of the rotary frequencies.
        position_scaling_factor: how many times longer than trained a sequence may be, for the interpolated
            and NTK-aware positions; None for as many times as each sequence needs.
        relative_clip_distance: k, beyond which distances count as one: relative, t5_clipped, composite,
            significance, both_ends.
        relative_bias_multiplier: c of significance and both_ends, how much what is learned of a distance
            counts.
        crowd_noise: highest δ of significance and both_ends, added in training to the scores of far keys.
        position_offset: farthest that coupled and abacus move an example's places on in training.
        run_token_ids: tokens that form runs, whose ends significance, both_ends, coupled and abacus count,
            as digits form numbers; None for all that are not special.
        relative_attention_num_buckets: of t5.
        relative_attention_max_distance: of t5, from which on all distances share a bucket.
        position_kernel_size: K, how many neighbours a convolution reads, itself among them.
        initializer_range: std of the linear maps' initial weights; None for Xavier uniform.
        embedding_initializer_range: std of the token embeddings.
        position_initializer_range: std of learned positions, distances and buckets.
        zero_init_residual: start with every block's last linear map at 0.
    """

    vocab_size: int = bounded(30000, 1, 1_000_000)
    hidden_size: int = bounded(64, 1, 16_384)
    num_attention_heads: int = bounded(4, 1, 1_024)
    intermediate_size: int = bounded(256, 1, 65_536)
    max_position_embeddings: int = bounded(64, 1, MOST_POSITIONS)
    position_type: str = "learned"
    attention_type: str = "full"
    attention_window: int = bounded(16, 1, MOST_POSITIONS)
    linformer_size: int = bounded(32, 1, 16_384)
    performer_features: int = bounded(64, 1, 16_384)
    reformer_buckets: int = bounded(8, 2, 16_384)
    reformer_rounds: int = bounded(2, 1, 1_024)
    reformer_chunk: int = bounded(16, 1, MOST_POSITIONS)
    norm_position: str = "pre"
    activation: str = "relu"
    use_bias: bool = False
    scale_embedding: bool = False
    dropout: float | int = bounded(0.0, 0.0, 0.999)
    attention_dropout: float | int = bounded(0.0, 0.0, 0.999)
    layer_norm_eps: float = bounded(1e-5, 1e-20, 1.0)
    rope_theta: float | int = bounded(10000.0, 1e-6, 1e12)
    position_scaling_factor: float | int | None = bounded(None, 1.0, 1e6)
    relative_clip_distance: int = bounded(16, 1, 16_384)
    relative_bias_multiplier: float | int = bounded(1.0, 1e-3, 1e3)
    crowd_noise: float | int = bounded(0.0, 0.0, 100.0)
    position_offset: int = bounded(0, 0, MOST_POSITIONS)
    run_token_ids: list[int] | None = None
    relative_attention_num_buckets: int = bounded(32, 4, 16_384)
    relative_attention_max_distance: int = bounded(128, 3, MOST_POSITIONS)
    position_kernel_size: int = bounded(3, 1, 4_096)
    initializer_range: float | None = bounded(None, 0.0, 1e6)
    embedding_initializer_range: float | int = bounded(1.0, 0.0, 1e6)
    position_initializer_range: float | int = bounded(0.5, 0.0, 1e6)
    zero_init_residual: bool = True
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2

    def __post_init__(self, **kwargs):
        check_inherited({"id2label": self.id2label, "dtype": self.dtype, **kwargs})
        super().__post_init__(**kwargs)
        check_bounds(self)
        check_choice("position_type", self.position_type, sorted(POSITION_TYPES))
        self._check_attention_type()
        check_choice("norm_position", self.norm_position, ("post", "pre"))
        check_choice("activation", self.activation, sorted(ACT2FN))
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size={self.hidden_size} cannot be shared by "
                f"num_attention_heads={self.num_attention_heads}: choose a hidden_size that is a multiple of "
                f"{self.num_attention_heads}, or another number of heads."
            )
        ids = self.run_token_ids
        if ids is not None and not (ids and all(0 <= token < self.vocab_size for token in ids)):
            raise ValueError(
                f"run_token_ids={show_value(str(ids))} must be ids from 0 to {self.vocab_size - 1}, at least "
                "one, for example run_token_ids=[4, 5, 6]; or None for all tokens that are not special."
            )
        POSITION_TYPES[self.position_type].check_config(self)
        buckets = self.relative_attention_num_buckets
        if buckets % 2 or self.relative_attention_max_distance <= buckets // 2:
            raise ValueError(
                f"relative_attention_num_buckets={buckets} must be even, and "
                f"relative_attention_max_distance={self.relative_attention_max_distance} above half of it."
            )
        self._check_attention()

    def _check_attention_type(self) -> None:
        kind, ours = self.attention_type, sorted(("full", *EFFICIENT_ATTENTION))
        known = ", ".join(ours)
        if not isinstance(kind, str) or kind not in (*ours, *OWN_ATTENTION):
            raise ValueError(
                f"attention_type={show_value(kind)} is not known here. Attention of one's own is read from "
                "its file first, by --attention FILE.py of the commands that have it, or in Python by "
                f'hf_attn.load_attention_file("FILE.py"); ours are {known}.'
            )

    def _check_attention(self) -> None:
        if self.reformer_buckets % 2:
            raise ValueError(
                f"reformer_buckets={self.reformer_buckets} must be even: the hash takes a vector's largest "
                "coordinate or its smallest."
            )
        if self.attention_type == "full":
            return
        positions = POSITION_TYPES[self.position_type]
        adds_bias = getattr(EFFICIENT_ATTENTION.get(self.attention_type), "adds_bias", False)
        if positions.needs_weights or (positions.biases_scores and not adds_bias):
            raise ValueError(
                f"position_type={self.position_type!r} adds to what stands between each query and key, and "
                f"attention_type={self.attention_type!r} has no such thing: choose a position_type that is "
                'added to the embeddings or turns queries and keys, or attention_type="full".'
            )
        if self.attention_dropout and self.attention_type in EFFICIENT_ATTENTION:
            raise ValueError(
                f"attention_dropout={self.attention_dropout} falls on the weights of full attention, and "
                f"attention_type={self.attention_type!r} does without them: choose 0; `dropout` acts as ever."
            )


__all__ = ["AttnConfig"]
