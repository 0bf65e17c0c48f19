"""What the tests of every position type share: the types, their kernels, and models that use them."""

from hf_attn.models.positions import POSITION_TYPES
from tests.support.checks import KERNELS, build_decoder, build_encoder, build_seq2seq

ALL = tuple(POSITION_TYPES)
# In the gate: each way in which a place reaches a model, and every encoding that a task's recipe has.
GATE = ("none", "sinusoidal", "learned", "rotary", "relative", "alibi", "recurrent", "both_ends")
BUILDERS = {"encoder": build_encoder, "encoder-decoder": build_seq2seq, "decoder": build_decoder}
# What a model with this type sees does not change when every place is moved on by the same number.
INVARIANT_TO_SHIFTS = {
    "none", "rotary", "rotary_interpolated", "rotary_ntk", "relative", "t5", "t5_clipped", "alibi",
    "depthwise_convolution", "multiscale_convolution", "recurrent", "significance", "both_ends",
}  # fmt: skip
STRETCHED = ("learned_interpolated", "rotary_interpolated", "rotary_ntk")


def kernels_of(position_type: str) -> tuple[str, ...]:
    """The kernels that can tell such places."""
    return ("eager",) if POSITION_TYPES[position_type].needs_weights else KERNELS


def build(family: str, position_type: str, kernel: str | None = None, **settings):
    """A small model of a family; by the fastest kernel that can where none is named."""
    kernel = kernel or kernels_of(position_type)[-1]
    return BUILDERS[family](kernel, position_type=position_type, **settings)


def build_positions(position_type: str, is_causal: bool = False, **settings):
    """A position module alone, with weights drawn as a model's: width 16, 2 heads of 8, 24 positions."""
    model = build("decoder" if is_causal else "encoder", position_type, **settings)
    return (model.model if is_causal else model).positions
