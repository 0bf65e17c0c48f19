"""Each task's vocabulary as a tokenizer that the Hub knows."""

import copy
from typing import TYPE_CHECKING

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from hf_attn.tasks.base import Task
from hf_attn.tasks.tokenizers.trained import CHARACTERS, wrap_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

WORDS_OR_CHARACTERS = Regex(r"[A-Z]+|\S")
LEADING_ZEROS = Regex(r"(?<![0-9])0+(?=[0-9])")


def build_tokenizer(task: Task) -> "PreTrainedTokenizerFast":
    """The task's tokenizer: `tokenizer("123+456")` gives source ids with `</s>`, `decode` the text again.

    It decodes what a model writes, too. Labels are the task's to write (`task.batch_of`).
    """
    if task.tokenizer is not None:
        return copy.deepcopy(task.tokenizer)  # who is given it may set its padding
    tokenizer = Tokenizer(models.WordLevel(task.vocabulary, unk_token="<unk>"))
    if task.number_width:
        tokenizer.normalizer = _build_zero_padding(task.number_width)
    elif " " in task.symbols:
        tokenizer.normalizer = _build_space_cleaning()
    tokenizer.pre_tokenizer = _build_splitter(task)
    tokenizer.decoder = _build_joiner(task)
    return wrap_tokenizer(tokenizer, task.longest_read)


def _build_zero_padding(width: int) -> normalizers.Normalizer:
    """Give every number `width` digits: "7" → "007"."""
    fills = [
        normalizers.Replace(Regex(rf"(?<![0-9])(?=[0-9]{{{length}}}(?![0-9]))"), "0" * (width - length))
        for length in range(1, width)
    ]
    return normalizers.Sequence([normalizers.Replace(Regex(r"\s+"), ""), *fills])


def _build_space_cleaning() -> normalizers.Normalizer:
    """Composed characters and single plain spaces, none at the ends, as `dates.clean` has it."""
    single = normalizers.Replace(Regex(r"\s+"), " ")
    return normalizers.Sequence([normalizers.NFC(), single, normalizers.Strip()])


def _build_splitter(task: Task) -> pre_tokenizers.PreTokenizer:
    """Symbols between spaces (copy), every character (dates), or characters and capital words (parser)."""
    if " " in task.symbols:
        return pre_tokenizers.Split(CHARACTERS, "isolated")
    if task.is_spaced and not task.signs:
        return pre_tokenizers.WhitespaceSplit()
    parts = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(WORDS_OR_CHARACTERS, "isolated")]
    return pre_tokenizers.Sequence(parts)


def _build_joiner(task: Task) -> decoders.Decoder:
    """Spaces between symbols except round signs, or none at all and no leading zeros."""
    if not task.is_spaced:
        zeros = [decoders.Replace(LEADING_ZEROS, "")] if task.number_width else []
        return decoders.Sequence([decoders.Fuse(), *zeros])
    tight = [decoders.Replace(Regex(f" ?\\{sign} ?"), sign) for sign in task.signs]
    return decoders.Sequence([decoders.WordPiece(prefix="##", cleanup=False), decoders.Fuse(), *tight])
