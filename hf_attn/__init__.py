"""Understand attention by building it and watching it learn; what is trained is a Hugging Face checkpoint.

`import hf_attn` makes our models known to transformers: `AutoModelForSeq2SeqLM.from_pretrained(folder)` then
loads them without `trust_remote_code`. That imports torch and transformers, which takes seconds, so the
command line (`hf-attn`, `python -m hf_attn`) does it only once a command needs a model: its help answers at
once.
"""

import importlib
import sys
from pathlib import Path

__version__ = "0.1.0"

_HOMES = {
    "AttentionMaps": "hf_attn.inspection",
    "AttentionView": "hf_attn.showing",
    "AttnDecoderConfig": "hf_attn.models.configuration_attn_decoder",
    "AttnDecoderForCausalLM": "hf_attn.models.modeling_attn_decoder",
    "AttnDecoderModel": "hf_attn.models.modeling_attn_decoder",
    "AttnEncoderConfig": "hf_attn.models.configuration_attn_encoder",
    "AttnEncoderForSequenceClassification": "hf_attn.models.modeling_attn_encoder",
    "AttnEncoderModel": "hf_attn.models.modeling_attn_encoder",
    "AttnSeq2SeqConfig": "hf_attn.models.configuration_attn_seq2seq",
    "AttnSeq2SeqForConditionalGeneration": "hf_attn.models.modeling_attn_seq2seq",
    "AttnSeq2SeqModel": "hf_attn.models.modeling_attn_seq2seq",
    "Batch": "hf_attn.tasks",
    "Budget": "hf_attn.dueling",
    "HubError": "hf_attn.remote",
    "Intervention": "hf_attn.interventions",
    "Progress": "hf_attn.remote",
    "Pulled": "hf_attn.pulling",
    "Pushed": "hf_attn.pushing",
    "Recipe": "hf_attn.tasks",
    "RecurrentConfig": "hf_attn.models.configuration_recurrent",
    "RecurrentEncoderConfig": "hf_attn.models.configuration_recurrent_encoder",
    "RecurrentEncoderModel": "hf_attn.models.modeling_recurrent_encoder",
    "RecurrentForConditionalGeneration": "hf_attn.models.modeling_recurrent",
    "RecurrentForSequenceClassification": "hf_attn.models.modeling_recurrent_encoder",
    "RecurrentModel": "hf_attn.models.modeling_recurrent",
    "TASKS": "hf_attn.tasks",
    "Task": "hf_attn.tasks",
    "Trial": "hf_attn.ablation",
    "attention_maps": "hf_attn.inspection",
    "build_model": "hf_attn.architectures",
    "build_preset": "hf_attn.presets",
    "build_task": "hf_attn.tasks",
    "build_tokenizer": "hf_attn.tokenization",
    "draw_map": "hf_attn.figures",
    "evaluate": "hf_attn.evaluation",
    "duel": "hf_attn.dueling",
    "intervening": "hf_attn.interventions",
    "list_checkpoints": "hf_attn.hub",
    "load_checkpoint": "hf_attn.hub",
    "match_parameters": "hf_attn.dueling",
    "measure_baseline": "hf_attn.baselines",
    "measure_changes": "hf_attn.ablation",
    "measure_head_roles": "hf_attn.roles",
    "measure_outcomes": "hf_attn.ablation",
    "measure_removal": "hf_attn.ablation",
    "measure_theory": "hf_attn.theory",
    "open_model": "hf_attn.outsiders",
    "pull_checkpoint": "hf_attn.pulling",
    "push_checkpoint": "hf_attn.pushing",
    "push_dataset": "hf_attn.task_data",
    "save_checkpoint": "hf_attn.hub",
    "save_dataset": "hf_attn.task_data",
    "search_beams": "hf_attn.decoding",
    "show_attention": "hf_attn.showing",
    "train": "hf_attn.training",
    "walk_model": "hf_attn.walkthrough",
    "walk_sentence": "hf_attn.walkthrough",
    "write": "hf_attn.decoding",
}

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str):
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}; it has {', '.join(sorted(_HOMES))}."
        )
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


def _is_command_line() -> bool:
    """Whether this process was started as `hf-attn` or as `python -m hf_attn`."""
    if Path(sys.argv[0]).stem == "hf-attn":
        return True
    return sys.argv[0] == "-m" and __name__ in sys.orig_argv  # "-m": Python is still looking for what to run


if not _is_command_line():
    importlib.import_module("hf_attn.registration").register_auto_classes()
