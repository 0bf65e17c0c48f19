"""Attention of one's own, from a Python file."""

import re
from pathlib import Path

from transformers import PreTrainedModel

from hf_attn.architectures.registry import drawing_weights
from hf_attn.models.configuration_attn_encoder import AttnEncoderConfig
from hf_attn.models.efficient_attention import EFFICIENT_ATTENTION
from hf_attn.models.own_attention import OWN_ATTENTION, AttentionError, OwnAttention, try_attention
from hf_attn.utils.python_file import explained, load_class

SIDES = ((False, False), (True, False), (False, True))  # (is_causal, is_cross)


def load_attention_file(path: str | Path) -> type[OwnAttention]:
    """The one attention that a Python file of one's own defines. The file is run: load only what you trust.

    From then on its name is an `attention_type` of Transformers. It takes the place of another file's of that
    name, as when a notebook loads an edited file again; models that are there keep theirs.

    Raises:
        ValueError: the file is not there, cannot be run, or does not define exactly one attention that is
            whole; or what it computes is no attention.
    """
    path = Path(path)
    own = load_class(path, OwnAttention, "attention")
    own.file = str(path)
    if not isinstance(own.name, str) or not re.fullmatch(r"[a-z][a-z0-9_-]*", own.name):
        raise ValueError(f'{own.__name__} in {path} lacks a name in small letters: name = "my-attention".')
    if own.name == "full" or own.name in EFFICIENT_ATTENTION:
        raise ValueError(f"{own.__name__} in {path}: name={own.name!r} is taken; choose another name.")
    if own.weigh is OwnAttention.weigh:
        raise ValueError(f"{own.__name__} in {path} lacks weigh.")
    config = AttnEncoderConfig(vocab_size=8, hidden_size=8, num_attention_heads=2)
    for is_causal, is_cross in SIDES:
        with drawing_weights(0), explained(path):
            try:
                attention = own(config, 0, is_causal=is_causal)
            except Exception as error:  # whatever the file does
                raise AttentionError(own.explain("__init__", error)) from error
            attention.is_cross = is_cross
            try_attention(attention.eval())
    OWN_ATTENTION[own.name] = own
    return own


def check_own_attention(model: PreTrainedModel, own: type[OwnAttention], name: str) -> None:
    """Refuse a file beside a model that has another attention; `name` is what the model is called."""
    if (kind := getattr(model.config, "attention_type", None)) != own.name:
        has = f"attention_type={kind!r}" if kind else "no attention_type"
        raise ValueError(f"--attention {own.file} defines {own.name!r}, and {name} has {has}: leave it out.")
