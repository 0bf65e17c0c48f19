"""Which classes a model type has, and how transformers comes to know them.

A new family of models is one row of FAMILIES: saving, loading and the Auto classes then have it.
"""

from dataclasses import dataclass
from typing import TypeGuard

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
)

from hf_attn.models.configuration_attn_decoder import AttnDecoderConfig
from hf_attn.models.configuration_attn_encoder import AttnEncoderConfig
from hf_attn.models.configuration_attn_seq2seq import AttnSeq2SeqConfig
from hf_attn.models.configuration_recurrent import RecurrentConfig
from hf_attn.models.configuration_recurrent_encoder import RecurrentEncoderConfig
from hf_attn.models.modeling_attn_decoder import AttnDecoderForCausalLM, AttnDecoderModel
from hf_attn.models.modeling_attn_encoder import AttnEncoderForSequenceClassification, AttnEncoderModel
from hf_attn.models.modeling_attn_seq2seq import AttnSeq2SeqForConditionalGeneration, AttnSeq2SeqModel
from hf_attn.models.modeling_recurrent import RecurrentForConditionalGeneration, RecurrentModel
from hf_attn.models.modeling_recurrent_encoder import (
    RecurrentEncoderModel,
    RecurrentForSequenceClassification,
)


@dataclass(frozen=True)
class Family:
    """The classes of one model type.

    Attributes:
        title: what it is, in words.
        config: its configuration.
        base: the model without a head, which AutoModel loads.
        head: the model with its head.
        auto_head: the Auto class that loads the head.
        is_recurrent: whether it reads step by step.
    """

    title: str
    config: type[PreTrainedConfig]
    base: type[PreTrainedModel]
    head: type[PreTrainedModel]
    auto_head: type
    is_recurrent: bool = False

    @property
    def auto_map(self) -> dict[str, str]:
        """Auto class → file.class, for config.json: what `trust_remote_code=True` reads."""
        names = {"AutoConfig": self.config, "AutoModel": self.base, self.auto_head.__name__: self.head}
        return {auto: f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}" for auto, cls in names.items()}


FAMILIES: dict[str, Family] = {
    "attn_seq2seq": Family(
        "Transformer encoder-decoder",
        AttnSeq2SeqConfig,
        AttnSeq2SeqModel,
        AttnSeq2SeqForConditionalGeneration,
        AutoModelForSeq2SeqLM,
    ),
    "attn_decoder": Family(
        "decoder-only Transformer",
        AttnDecoderConfig,
        AttnDecoderModel,
        AttnDecoderForCausalLM,
        AutoModelForCausalLM,
    ),
    "attn_encoder": Family(
        "Transformer encoder",
        AttnEncoderConfig,
        AttnEncoderModel,
        AttnEncoderForSequenceClassification,
        AutoModelForSequenceClassification,
    ),
    "recurrent": Family(
        "recurrent encoder-decoder",
        RecurrentConfig,
        RecurrentModel,
        RecurrentForConditionalGeneration,
        AutoModelForSeq2SeqLM,
        is_recurrent=True,
    ),
    "recurrent_encoder": Family(
        "recurrent encoder",
        RecurrentEncoderConfig,
        RecurrentEncoderModel,
        RecurrentForSequenceClassification,
        AutoModelForSequenceClassification,
        is_recurrent=True,
    ),
}


def is_ours(model_type: object) -> TypeGuard[str]:
    """Whether a model type is one of FAMILIES, and not one of transformers' own or unknown."""
    return isinstance(model_type, str) and model_type in FAMILIES


def is_recurrent(config: PreTrainedConfig) -> bool:
    """Whether a configuration is of a model of ours that reads step by step."""
    return is_ours(config.model_type) and FAMILIES[config.model_type].is_recurrent


def register_auto_classes() -> None:
    """Let transformers' Auto classes load our models, and `save_pretrained` ship their code.

    After it `AutoModelForSeq2SeqLM.from_pretrained(folder)` needs no `trust_remote_code`, and `push_to_hub`
    and Trainer too write `auto_map` and the needed files of `hf_attn/models/`. Calling it twice does no harm.
    """
    for model_type, family in FAMILIES.items():
        AutoConfig.register(model_type, family.config, exist_ok=True)
        AutoModel.register(family.config, family.base, exist_ok=True)
        family.auto_head.register(family.config, family.head, exist_ok=True)  # type: ignore[attr-defined]
        family.config.register_for_auto_class()
        family.base.register_for_auto_class("AutoModel")
        family.head.register_for_auto_class(family.auto_head.__name__)
