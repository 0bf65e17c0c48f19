"""Understand attention by building it and watching it learn; what is trained is a Hugging Face checkpoint.

`import hf_attn` makes our models known to transformers: `AutoModelForSeq2SeqLM.from_pretrained(folder)` then
loads them without `trust_remote_code`. That imports torch and transformers, which takes seconds, so the
command line (`hf-attn`, `python -m hf_attn`) does it only once a command needs a model: its help answers at
once.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "AttentionMaps": "hf_attn.interpret.attention_maps",
    "AttentionView": "hf_attn.viz.attention_view",
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
    "Budget": "hf_attn.training.duel",
    "HubError": "hf_attn.hub.client",
    "Intervention": "hf_attn.interpret.interventions",
    "LengthTest": "hf_attn.experiments.length_generalization",
    "PositionSettings": "hf_attn.analysis.position_encodings",
    "Progress": "hf_attn.hub.client",
    "Pulled": "hf_attn.hub.pull",
    "Pushed": "hf_attn.hub.push",
    "Ragged": "hf_attn.tasks.batch",
    "Recipe": "hf_attn.tasks",
    "RecurrentConfig": "hf_attn.models.configuration_recurrent",
    "RecurrentEncoderConfig": "hf_attn.models.configuration_recurrent_encoder",
    "RecurrentEncoderModel": "hf_attn.models.modeling_recurrent_encoder",
    "RecurrentForConditionalGeneration": "hf_attn.models.modeling_recurrent",
    "RecurrentForSequenceClassification": "hf_attn.models.modeling_recurrent_encoder",
    "RecurrentModel": "hf_attn.models.modeling_recurrent",
    "TASKS": "hf_attn.tasks",
    "Task": "hf_attn.tasks",
    "Trial": "hf_attn.analysis.ablation",
    "WORKED_EXAMPLES": "hf_attn.textbooks.worked_examples",
    "WordOrderSizes": "hf_attn.experiments.word_order",
    "WorkedExample": "hf_attn.tasks.base",
    "attention_maps": "hf_attn.interpret.attention_maps",
    "build_attention_mask": "hf_attn.analysis.head_roles",
    "build_model": "hf_attn.architectures.registry",
    "build_preset": "hf_attn.architectures.presets",
    "build_random_head": "hf_attn.interpret.random_head",
    "build_task": "hf_attn.tasks",
    "build_tokenizer": "hf_attn.tasks.tokenizers.from_vocabulary",
    "check_hand_exercise": "hf_attn.textbooks.exercises",
    "choose_word_vector_settings": "hf_attn.experiments.words.word_vectors",
    "compare_word_orders": "hf_attn.experiments.words.bag_of_words",
    "compose_country_sentences": "hf_attn.experiments.words.countries",
    "count_ngrams": "hf_attn.experiments.words.ngram_text",
    "distance_profile": "hf_attn.analysis.head_metrics",
    "draw_map": "hf_attn.viz.draw_map",
    "duel": "hf_attn.training.duel",
    "evaluate": "hf_attn.evaluation.metrics",
    "generate_answer": "hf_attn.generation.generate",
    "intervening": "hf_attn.interpret.interventions",
    "learn_bpe_merges": "hf_attn.experiments.words.bpe_steps",
    "learn_word_order": "hf_attn.experiments.words.bag_of_words",
    "learn_word_vectors": "hf_attn.experiments.words.word_vectors",
    "list_checkpoints": "hf_attn.checkpoints.save_load",
    "list_trials": "hf_attn.analysis.ablation",
    "load_checkpoint": "hf_attn.checkpoints.save_load",
    "load_task_file": "hf_attn.tasks",
    "match_parameters": "hf_attn.training.duel",
    "measure_baseline": "hf_attn.evaluation.baselines",
    "measure_changes": "hf_attn.analysis.ablation",
    "measure_even_attention": "hf_attn.analysis.head_roles",
    "measure_head_roles": "hf_attn.analysis.head_roles",
    "measure_heads": "hf_attn.analysis.head_roles",
    "measure_order_sensitivity": "hf_attn.analysis.position_encodings",
    "measure_outcomes": "hf_attn.analysis.ablation",
    "measure_removal": "hf_attn.analysis.ablation",
    "measure_theory": "hf_attn.analysis.head_metrics",
    "open_model": "hf_attn.hub.external_models",
    "predict_next_words": "hf_attn.experiments.words.ngram_text",
    "pull_checkpoint": "hf_attn.hub.pull",
    "push_checkpoint": "hf_attn.hub.push",
    "push_dataset": "hf_attn.hub.dataset",
    "read_docstring_passages": "hf_attn.experiments.words.ngram_text",
    "read_head": "hf_attn.interpret.read_head",
    "read_passages": "hf_attn.experiments.words.ngram_text",
    "run_length_test": "hf_attn.experiments.length_generalization",
    "save_checkpoint": "hf_attn.checkpoints.save_load",
    "save_dataset": "hf_attn.hub.dataset",
    "search_beams": "hf_attn.generation.generate",
    "separate_query_key_value": "hf_attn.textbooks.exercises",
    "show_attention": "hf_attn.viz.attention_view",
    "singular_values": "hf_attn.analysis.head_metrics",
    "split_sentences": "hf_attn.experiments.words.sentences",
    "train": "hf_attn.training.loop",
    "train_tokenizer": "hf_attn.tasks.tokenizers.trained",
    "view_position_encoding": "hf_attn.analysis.position_encodings",
}

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
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
    importlib.import_module("hf_attn.architectures.families").register_auto_classes()
