"""The one table of models: their classes, their names for `--model`, what they learn, and what to cite.

A new family of models is one row of FAMILIES, a new name for `--model` one row of a family's variants:
training, saving, loading, the Auto classes, the command line, the app and its endpoints then have it. Rows
name classes and import none, so that the command line's help comes without torch.
"""

import functools
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from hf_attn.architectures.citations import BAHDANAU, LSTM, LUONG, SUTSKEVER, VASWANI

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel


class Variant(NamedTuple):
    """A model of a family, as `--model` names it.

    Attributes:
        title: for people.
        fields: of the configuration, that make it this variant; they are not to be chosen.
        citations: BibTeX, beside the family's.
    """

    title: str
    fields: Mapping[str, object] = {}
    citations: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
    """The classes of one model type, in `hf_attn/models/configuration_*.py` and `modeling_*.py`.

    Attributes:
        model_type: as config.json has it, and the end of both files' names.
        title: what it is, in words.
        stem: what the names of its configuration and of the model without a head begin with.
        head_name: the model with its head.
        auto_head: the Auto class that loads the head.
        kinds: of tasks that it learns, as `Task.kind` has them.
        variants: name as `--model` takes it → variant.
        citations: BibTeX.
        is_recurrent: whether it reads step by step.
    """

    model_type: str
    title: str
    stem: str
    head_name: str
    auto_head: str
    kinds: tuple[str, ...]
    variants: dict[str, Variant]
    citations: tuple[str, ...] = (VASWANI,)
    is_recurrent: bool = False

    def _find(self, part: str, name: str) -> type:
        return getattr(importlib.import_module(f"hf_attn.models.{part}_{self.model_type}"), name)

    @functools.cached_property
    def config(self) -> "type[PreTrainedConfig]":
        """The configuration's class."""
        return self._find("configuration", f"{self.stem}Config")

    @functools.cached_property
    def base(self) -> "type[PreTrainedModel]":
        """The model without a head, which AutoModel loads."""
        return self._find("modeling", f"{self.stem}Model")

    @functools.cached_property
    def head(self) -> "type[PreTrainedModel]":
        """The model with its head."""
        return self._find("modeling", self.head_name)

    @property
    def auto_map(self) -> dict[str, str]:
        """Auto class → file.class, for config.json: what `trust_remote_code=True` reads."""
        return {
            "AutoConfig": f"configuration_{self.model_type}.{self.stem}Config",
            "AutoModel": f"modeling_{self.model_type}.{self.stem}Model",
            self.auto_head: f"modeling_{self.model_type}.{self.head_name}",
        }


_ROWS = (
    Family(
        "attn_seq2seq",
        "Transformer encoder-decoder",
        "AttnSeq2Seq",
        "AttnSeq2SeqForConditionalGeneration",
        "AutoModelForSeq2SeqLM",
        ("sequence",),
        {"transformer": Variant("Transformer")},
    ),
    Family(
        "attn_decoder",
        "decoder-only Transformer",
        "AttnDecoder",
        "AttnDecoderForCausalLM",
        "AutoModelForCausalLM",
        ("sequence", "text"),
        {"decoder": Variant("Decoder-only Transformer")},
    ),
    Family(
        "attn_encoder",
        "Transformer encoder",
        "AttnEncoder",
        "AttnEncoderForSequenceClassification",
        "AutoModelForSequenceClassification",
        ("classes",),
        {"transformer": Variant("Transformer")},
    ),
    Family(
        "recurrent",
        "recurrent encoder-decoder",
        "Recurrent",
        "RecurrentForConditionalGeneration",
        "AutoModelForSeq2SeqLM",
        ("sequence",),
        {
            "none": Variant("LSTM without attention", {"score_function": "none"}, (SUTSKEVER,)),
            "additive": Variant(
                "LSTM, additive attention (Bahdanau)", {"score_function": "additive"}, (BAHDANAU,)
            ),
            "dot": Variant("LSTM, dot attention (Luong)", {"score_function": "dot"}, (LUONG,)),
            "general": Variant("LSTM, general attention (Luong)", {"score_function": "general"}, (LUONG,)),
            "concat": Variant("LSTM, concat attention (Luong)", {"score_function": "concat"}, (LUONG,)),
        },
        (LSTM,),
        is_recurrent=True,
    ),
    Family(
        "recurrent_encoder",
        "recurrent encoder",
        "RecurrentEncoder",
        "RecurrentForSequenceClassification",
        "AutoModelForSequenceClassification",
        ("classes",),
        {
            "lstm": Variant("LSTM", {"cell_type": "lstm"}),
            "gru": Variant("GRU", {"cell_type": "gru"}),
            "rnn": Variant("Plain RNN", {"cell_type": "rnn"}),
        },
        (LSTM,),
        is_recurrent=True,
    ),
)
FAMILIES: dict[str, Family] = {family.model_type: family for family in _ROWS}


class Architecture(NamedTuple):
    """A variant with its family: what can learn one kind of task. See Variant."""

    family: Family
    title: str
    fields: Mapping[str, object]
    citations: tuple[str, ...]


def architectures_of(kind: str) -> dict[str, Architecture]:
    """What can learn a kind of task, by its name for `--model`; the first is what is shown first."""
    return {
        name: Architecture(family, *variant)
        for family in FAMILIES.values()
        if kind in family.kinds
        for name, variant in family.variants.items()
    }


def model_names() -> tuple[str, ...]:
    """Every name that `--model` takes."""
    return tuple(dict.fromkeys(name for family in FAMILIES.values() for name in family.variants))


def model_titles() -> str:
    """Every name that `--model` takes with its title, in a sentence."""
    titles = {name: row.title for family in FAMILIES.values() for name, row in family.variants.items()}
    return "; ".join(f"{name}: {title}" for name, title in titles.items())


def is_ours(model_type: object) -> TypeGuard[str]:
    """Whether a model type is one of FAMILIES, and not one of transformers' own or unknown."""
    return isinstance(model_type, str) and model_type in FAMILIES


def is_recurrent(config: "PreTrainedConfig") -> bool:
    """Whether a configuration is of a model of ours that reads step by step."""
    return is_ours(config.model_type) and FAMILIES[config.model_type].is_recurrent


def register_auto_classes() -> None:
    """Let transformers' Auto classes load our models, and `save_pretrained` ship their code.

    After it `AutoModelForSeq2SeqLM.from_pretrained(folder)` needs no `trust_remote_code`, and `push_to_hub`
    and Trainer too write `auto_map` and the needed files of `hf_attn/models/`. Calling it twice does no harm.
    """
    import transformers

    for model_type, family in FAMILIES.items():
        transformers.AutoConfig.register(model_type, family.config, exist_ok=True)
        transformers.AutoModel.register(family.config, family.base, exist_ok=True)
        getattr(transformers, family.auto_head).register(family.config, family.head, exist_ok=True)
        family.config.register_for_auto_class()
        family.base.register_for_auto_class("AutoModel")
        family.head.register_for_auto_class(family.auto_head)
