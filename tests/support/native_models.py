"""Tiny models with transformers' own classes and random weights, and tokenizers for them: no downloads."""

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTModel,
)

TEXTS = ["the cat sat on the mat because it was tired", "the dog chased the cat"]
SPECIAL = ["<s>", "</s>", "<pad>", "<unk>", "[CLS]", "[SEP]", "<extra_id_0>"]


def byte_tokenizer(vocab_size=330) -> PreTrainedTokenizerFast:
    """As GPT-2's: each sign is a byte."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    _train(
        tokenizer,
        trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=SPECIAL, initial_alphabet=alphabet),
    )
    return wrap(tokenizer)


def wordpiece_tokenizer() -> PreTrainedTokenizerFast:
    """As BERT's: what goes on a word begins with ##; [CLS] and [SEP] stand around a text."""
    vocabulary = [*SPECIAL, "[UNK]", "the", "cat", "chase", "##d", "sat", "mat"]
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece()
    ends = [("[CLS]", 4), ("[SEP]", 5)]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return wrap(tokenizer)


def piece_tokenizer() -> PreTrainedTokenizerFast:
    """As T5's: ▁ stands for a space, bytes for what was never met, </s> behind every text."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    bytes_and_specials = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))]
    _train(tokenizer, trainers.BpeTrainer(vocab_size=340, special_tokens=bytes_and_specials))
    end = [("</s>", 1)]
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=end)
    return wrap(tokenizer)


def wrap(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def _train(tokenizer, trainer) -> None:
    tokenizer.train_from_iterator(TEXTS, trainer)


IDS = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
TINY = {"num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32, "hidden_size": 16}
BART_TINY = {"encoder_layers": 2, "decoder_layers": 3, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
NATIVE = {
    "bert": (BertForMaskedLM, BertConfig, {**TINY, "max_position_embeddings": 64, "pad_token_id": 2}),
    "gpt2": (
        GPT2LMHeadModel,
        GPT2Config,
        {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 1100, **IDS},
    ),
    "t5": (
        T5ForConditionalGeneration,
        T5Config,
        {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4}
        | {"decoder_start_token_id": 2, "initializer_factor": 5.0, **IDS},
    ),
    "bart": (
        BartForConditionalGeneration,
        BartConfig,
        {
            **BART_TINY,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 4,
            "d_model": 16,
            "init_std": 0.5,
        }
        | {"max_position_embeddings": 64, "decoder_start_token_id": 1, "forced_eos_token_id": None, **IDS},
    ),
    "llama": (
        LlamaForCausalLM,
        LlamaConfig,
        {**TINY, "num_key_value_heads": 2, "max_position_embeddings": 64, **IDS},
    ),
}


def build_native(name: str, seed: int = 0, **settings):
    """A tiny model of transformers' own, in evaluation mode, and a tokenizer for it."""
    model_class, config_class, sizes = NATIVE[name]
    tokenizer = {"bert": wordpiece_tokenizer, "t5": piece_tokenizer}.get(name, byte_tokenizer)()
    spread = {} if {"init_std", "initializer_factor"} & sizes.keys() else {"initializer_range": 0.5}
    settings = {"vocab_size": len(tokenizer), **spread, **sizes, **settings}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return model_class(config_class(**settings)).eval(), tokenizer


def build_vit(**settings) -> ViTModel:
    """A tiny encoder of images: 3 × 4 patches and CLS."""
    sizes = {"image_size": (24, 32), "patch_size": 8, "hidden_size": 16, "num_hidden_layers": 2}
    more = {"num_attention_heads": 2, "intermediate_size": 32}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return ViTModel(ViTConfig(**{**sizes, **more, **settings})).eval()
