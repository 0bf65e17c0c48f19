"""Each task's vocabulary as a tokenizer that the Hub knows."""

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from hf_attn.tasks.base import SPECIAL_TOKENS, Task

# How text falls into symbols, and how symbols become text again, by a property of the task's symbols
WORDS_OR_CHARACTERS = Regex(r"[A-Z]+|\S")


def build_tokenizer(task: Task) -> PreTrainedTokenizerFast:
    """The task's tokenizer: `tokenizer("123+456")` gives source ids with `</s>`, `decode` the text again.

    Sources and targets are written alike, so it serves labels too (`text_target=`).
    """
    tokenizer = Tokenizer(models.WordLevel(task.vocabulary, unk_token="<unk>"))  # noqa: S106
    tokenizer.pre_tokenizer = _build_splitter(task)
    tokenizer.decoder = _build_joiner(task)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", task.vocabulary["</s>"])]
    )
    pad, start, end, unknown = SPECIAL_TOKENS
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=pad,
        bos_token=start,
        eos_token=end,
        unk_token=unknown,
        model_max_length=task.max_position_embeddings,
        clean_up_tokenization_spaces=False,
    )


def _has_long_symbols(task: Task) -> bool:
    return any(len(symbol) > 1 for symbol in task.symbols)


def _has_signs(task: Task) -> bool:
    return "=" in task.symbols


def _build_splitter(task: Task) -> pre_tokenizers.PreTokenizer:
    """Numbers between spaces (copy), single characters (addition), or characters and capital words (parser)."""
    if _has_long_symbols(task) and not _has_signs(task):
        return pre_tokenizers.WhitespaceSplit()
    parts = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(WORDS_OR_CHARACTERS, "isolated")]
    return pre_tokenizers.Sequence(parts)


def _build_joiner(task: Task) -> decoders.Decoder:
    """Spaces between long symbols, none between characters, none round an expression's signs."""
    if not _has_long_symbols(task):
        return decoders.Fuse()
    spaced = [decoders.WordPiece(prefix="##", cleanup=False), decoders.Fuse()]
    signs = [symbol for symbol in task.symbols if symbol in "=+-*/()"] if _has_signs(task) else []
    tight = [decoders.Replace(Regex(f" ?\\{sign} ?"), sign) for sign in signs]
    return decoders.Sequence([*spaced, *tight])
