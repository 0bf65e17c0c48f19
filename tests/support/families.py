"""A small model of each Transformer family that learns a task, and its kinds of attention without pairs."""

import itertools

from hf_attn.models.efficient_attention import EFFICIENT_ATTENTION
from tests.support.checks import build_classifier, build_seq2seq
from tests.support.decoder_checks import build_decoder

FAMILIES = {"classifier": build_classifier, "encoder-decoder": build_seq2seq, "decoder": build_decoder}
EFFICIENT = [
    (family, name)
    for family, (name, kind) in itertools.product(FAMILIES, EFFICIENT_ATTENTION.items())
    if not (family == "decoder" and kind.not_causal)
]
