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

# module → its public names
_NAMES = {
    "analysis.ablation": ("Trial", "list_trials", "measure_changes", "measure_outcomes", "measure_removal"),
    "analysis.predictions": ("find_prediction", "predict_tokens"),
    "analysis.residual_stream": ("logit_lens", "patch_activations"),
    "analysis.head_metrics": ("distance_profile", "measure_theory", "singular_values"),
    "analysis.head_roles": (
        "build_attention_mask",
        "measure_even_attention",
        "measure_head_roles",
        "measure_heads",
    ),
    "analysis.position_encodings": (
        "PositionSettings",
        "measure_order_sensitivity",
        "view_position_encoding",
    ),
    "architectures.attention_file": ("load_attention_file",),
    "architectures.presets": ("build_preset",),
    "architectures.registry": ("build_model",),
    "checkpoints.save_load": ("list_checkpoints", "load_checkpoint", "save_checkpoint"),
    "evaluation.baselines": ("measure_baseline",),
    "evaluation.metrics": ("evaluate",),
    "experiments.length_generalization": ("LengthTest", "run_length_test"),
    "experiments.word_order": ("WordOrderSizes",),
    "experiments.words.bag_of_words": ("compare_word_orders", "learn_word_order"),
    "experiments.words.bpe_steps": ("learn_bpe_merges",),
    "experiments.words.countries": ("compose_country_sentences",),
    "experiments.words.ngram_text": (
        "count_ngrams",
        "predict_next_words",
        "read_docstring_passages",
        "read_passages",
    ),
    "experiments.words.sentences": ("split_sentences",),
    "experiments.words.word_vectors": ("choose_word_vector_settings", "learn_word_vectors"),
    "generation.generate": ("generate_answer", "search_beams"),
    "hub.client": ("HubError", "Progress"),
    "hub.dataset": ("push_dataset", "save_dataset"),
    "hub.external_models": ("open_model",),
    "hub.pull": ("Pulled", "pull_checkpoint"),
    "hub.push": ("Pushed", "push_checkpoint"),
    "interpret.attention_maps": ("AttentionMaps", "attention_maps"),
    "interpret.interventions": ("Intervention", "intervening"),
    "interpret.random_head": ("build_random_head",),
    "interpret.read_head": ("read_head",),
    "models.configuration_attn_decoder": ("AttnDecoderConfig",),
    "models.configuration_attn_encoder": ("AttnEncoderConfig",),
    "models.configuration_attn_seq2seq": ("AttnSeq2SeqConfig",),
    "models.configuration_recurrent": ("RecurrentConfig",),
    "models.configuration_recurrent_encoder": ("RecurrentEncoderConfig",),
    "models.modeling_attn_decoder": ("AttnDecoderForCausalLM", "AttnDecoderModel"),
    "models.modeling_attn_encoder": ("AttnEncoderForSequenceClassification", "AttnEncoderModel"),
    "models.modeling_attn_seq2seq": ("AttnSeq2SeqForConditionalGeneration", "AttnSeq2SeqModel"),
    "models.modeling_recurrent": ("RecurrentForConditionalGeneration", "RecurrentModel"),
    "models.modeling_recurrent_encoder": ("RecurrentEncoderModel", "RecurrentForSequenceClassification"),
    "models.own_attention": ("OwnAttention",),
    "tasks": ("Batch", "Recipe", "TASKS", "Task", "build_task", "load_task_file"),
    "tasks.base": ("WorkedExample",),
    "tasks.batch": ("Ragged",),
    "tasks.tokenizers.from_vocabulary": ("build_tokenizer",),
    "tasks.tokenizers.trained": ("train_tokenizer",),
    "textbooks.exercises": ("check_hand_exercise", "separate_query_key_value"),
    "textbooks.worked_examples": ("WORKED_EXAMPLES",),
    "training.duel": ("Budget", "duel", "match_parameters"),
    "training.loop": ("train",),
    "viz.attention_view": ("AttentionView", "show_attention"),
    "viz.draw_map": ("draw_map",),
}
_HOMES = {name: f"hf_attn.{module}" for module, names in _NAMES.items() for name in names}

__all__ = [*sorted(_HOMES), "__version__"]


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
