"""Tokenizers learned from text: byte-pair encoding, words, characters."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from hf_attn.models.config_checks import check_choice
from hf_attn.tasks.batch import END, SPECIAL_TOKENS
from hf_attn.utils.text import replace_surrogates

if TYPE_CHECKING:  # and where one is built: whoever only lists tasks waits for torch alone
    from transformers import PreTrainedTokenizerFast

KINDS = ("bpe", "words", "characters")
SPACE = "▁"  # stands for a space, so that a token says whether a word begins with it
# a word or a single sign, with the space before it
WORDS = Regex(rf"{SPACE}?\w+|{SPACE}?[^\w{SPACE}]|{SPACE}")
CHARACTERS = Regex(r"[\s\S]")
LONG_WORD = re.compile(r"\w{200}")  # a longer one is learned in pieces: merging takes its length squared
LEAST_COUNT = 2  # a pair or word met once says nothing about the next text


def train_tokenizer(
    texts: Iterable[str],
    kind: str = "bpe",
    vocab_size: int = 2000,
    *,
    lowercase: bool = False,
    model_max_length: int = 512,
) -> "PreTrainedTokenizerFast":
    """Learn a tokenizer from texts; the same texts give the same one.

    bpe: begin with characters, and again and again make one token of the pair that is met most often
    (Sennrich et al. 2016, arXiv:1508.07909); of pairs met equally often, the one whose tokens are older.
    words: the words met most often. characters: every character met. What was not met is read as `<unk>`.

    Args:
        texts: to learn from.
        kind: "bpe", "words" or "characters".
        vocab_size: most tokens, special ones and (for bpe) characters included.
        lowercase: read capitals as small letters; what is decoded then has none.
        model_max_length: tokens that a model reads, `</s>` included.

    Returns:
        A tokenizer with ids 0 … 3 for `<pad> <s> </s> <unk>`, `</s>` behind every text; `decode` gives the
        text again, and special tokens that a text holds are read as any other text.

    Raises:
        ValueError: an unknown kind, or a vocabulary too small to hold the special tokens.
    """
    check_choice("kind", kind, KINDS)
    if vocab_size <= len(SPECIAL_TOKENS):
        raise ValueError(
            f"vocab_size={vocab_size} must be above {len(SPECIAL_TOKENS)}, the number of special tokens."
        )
    model, trainer = _model_and_trainer(kind, vocab_size)
    tokenizer = Tokenizer(model)
    if lowercase:
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = _build_splitter(kind)
    tokenizer.decoder = decoders.Metaspace(SPACE, _prepend(kind))
    texts = map(replace_surrogates, texts)
    if kind == "bpe":
        texts = (LONG_WORD.sub(r"\g<0> ", text) for text in texts)
    tokenizer.train_from_iterator(texts, trainer)
    return wrap_text_tokenizer(tokenizer, model_max_length)


def wrap_text_tokenizer(tokenizer: Tokenizer, model_max_length: int) -> "PreTrainedTokenizerFast":
    """A tokenizer of any text, as transformers knows it: "</s>" in a text is four signs, not the end."""
    tokenizer.no_padding()  # a saved one may remember how it padded last
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    return wrap_tokenizer(tokenizer, model_max_length, split_special_tokens=True)


def wrap_tokenizer(tokenizer: Tokenizer, model_max_length: int, **settings) -> "PreTrainedTokenizerFast":
    """A `tokenizers.Tokenizer` with our special tokens, its ids 0 … 3, and `</s>` behind every text.

    Args:
        tokenizer: the one to wrap.
        model_max_length: tokens that a model reads, `</s>` included.
        **settings: further ones of PreTrainedTokenizerFast.
    """
    from transformers import PreTrainedTokenizerFast

    pad, start, end, unknown = SPECIAL_TOKENS
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[(end, END)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=pad,
        bos_token=start,
        eos_token=end,
        unk_token=unknown,
        model_max_length=model_max_length,
        clean_up_tokenization_spaces=False,
        **settings,
    )


def _model_and_trainer(kind: str, vocab_size: int):
    """An empty model and what teaches it."""
    given: dict[str, Any] = {
        "vocab_size": vocab_size,
        "special_tokens": list(SPECIAL_TOKENS),
        "show_progress": False,
    }
    unknown = SPECIAL_TOKENS[-1]
    if kind == "bpe":
        return models.BPE(unk_token=unknown), trainers.BpeTrainer(min_frequency=LEAST_COUNT, **given)
    least = LEAST_COUNT if kind == "words" else 1
    return models.WordLevel(unk_token=unknown), trainers.WordLevelTrainer(min_frequency=least, **given)


def _build_splitter(kind: str) -> pre_tokenizers.PreTokenizer:
    """Spaces become visible; then words and signs part, or all characters."""
    pattern = CHARACTERS if kind == "characters" else WORDS
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(SPACE, _prepend(kind), split=False),
            pre_tokenizers.Split(pattern, "isolated"),
        ]
    )


def _prepend(kind: str) -> str:
    """A text's first word is marked as every other; characters need no mark."""
    return "never" if kind == "characters" else "always"
