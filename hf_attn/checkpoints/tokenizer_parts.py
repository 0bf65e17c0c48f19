"""Checks of a tokenizer before it is built: known parts alone, which neither fill memory nor run for ever.

A tokenizer is a small program: parts that replace text, one after the other, may double it again and again,
and a pattern may try more ways to match than there is time for. So parts are known by their type, patterns by
equality, and how much text may grow is counted. Vocabularies are of any content.
"""

import base64
import contextlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hf_attn.utils.text import shorten

SECTIONS = {
    "normalizer": (
        *("BertNormalizer", "ByteLevel", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled"),
        *("Prepend", "Replace", "Strip", "StripAccents"),
    ),
    "pre_tokenizer": (
        *("BertPreTokenizer", "ByteLevel", "CharDelimiterSplit", "Digits", "Metaspace", "Punctuation"),
        *("Split", "UnicodeScripts", "Whitespace", "WhitespaceSplit"),
    ),
    "post_processor": ("BertProcessing", "ByteLevel", "RobertaProcessing", "TemplateProcessing"),
    "decoder": (
        *("BPEDecoder", "ByteFallback", "ByteLevel", "CTC", "Fuse", "Metaspace", "Replace", "Strip"),
        "WordPiece",
    ),
}
MODELS = ("BPE", "Unigram", "WordLevel", "WordPiece")
_ENDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_BEFORE = r"[^\r\n\p{L}\p{N}]?"
_SIGNS_AND_SLASH = _SIGNS.replace(r"[\r\n]*", "[\\r\\n/]*", 1)
PATTERNS = {  # each matches a character at least
    # hf_attn's own: tasks/tokenizers, tasks/text/sentences
    *("▁?\\w+|▁?[^\\w▁]|▁", r"[\s\S]", r"[A-Z]+|\S", r"(?<![0-9])0+(?=[0-9])"),
    *('[,;:\\"“”„()…]', r"<new[1-4]>|[.?]|[^\s.?]+"),
    # of pieces as SentencePiece makes them (T5, XLM-RoBERTa, ALBERT, Gemma, …)
    *(" {2,}", r"\s+", r"\s{2,}|[\n\r\t]", r"[\n\r\t]", r"\n", r"^▁+$"),
    # GPT-2; CLIP, with and without its special tokens; BLOOM; Falcon; numbers by three
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    *(" ?[^(\\s|[.,!?…。，、।۔،])]+", "[0-9][0-9][0-9]", r"\p{N}{1,3}", r"\p{N}", r"\d{3}", r"[\r\n]"),
    # GPT-4 and Llama 3; Qwen 2 and 3; Qwen 3.5
    rf"{_ENDS}|{_BEFORE}\p{{L}}+|\p{{N}}{{1,3}}|{_SIGNS}",
    rf"{_ENDS}|{_BEFORE}\p{{L}}+|\p{{N}}|{_SIGNS}",
    rf"{_ENDS}|{_BEFORE}[\p{{L}}\p{{M}}]+|\p{{N}}|{_SIGNS}".replace(r" ?[^\s\p{L}", r" ?[^\s\p{L}\p{M}"),
    # GPT-4o and gpt-oss; Mistral's Tekken
    rf"{_BEFORE}{_UPPER}*{_LOWER}+{_ENDS}?|{_BEFORE}{_UPPER}+{_LOWER}*{_ENDS}?|\p{{N}}{{1,3}}|{_SIGNS_AND_SLASH}",
    rf"{_BEFORE}{_UPPER}*{_LOWER}+|{_BEFORE}{_UPPER}+{_LOWER}*|\p{{N}}|{_SIGNS_AND_SLASH}",
}
SIGN = re.compile(r" \?\\[^\w\s] \?")  # our decoders': no space round a sign
ZEROS = re.compile(r"\(\?<!\[0-9\]\)\(\?=\[0-9\]\{(\d{1,2})\}\(\?!\[0-9\]\)\)")  # ours: before short numbers
MOST_PARTS, DEEPEST = 64, 8
MOST_GROWTH = 64  # times as long as the text; the longest that Unicode composes has 18 characters
LONGEST_TEXT = 64  # characters of a setting
LARGEST_SETTING = 100_000
MOST_TOKENS, LONGEST_TOKEN = 1_000_000, 1_000
MOST_ADDED = 20_000
MOST_SPECIAL = 5_000  # in a list of settings: the time to add them grows with their square
MOST_CHARACTERS = 200  # of a word that WordPiece takes apart; the time grows with its square
LONGEST_TEMPLATE = 1_000_000
MOST_IN_SETTINGS = {
    "additional_special_tokens": MOST_SPECIAL,
    "extra_special_tokens": MOST_SPECIAL,
    "added_tokens_decoder": 20 * MOST_ADDED,  # an object of eight names and values for each
}
_FILES_SAVED = ("tokenizer_file", "special_tokens_map_file")  # in old settings; transformers takes its own
PROBE = "The 3 cats.\n153+391"
REMEDY = "Save the tokenizer again, or take its files away and write ids in place of text."


def check_tokenizer(path: Path, content: Mapping) -> None:
    """Refuse a tokenizer.json whose parts are not known, or may use much time or memory, by a ValueError."""
    with _named(path):
        _check_model(content.get("model"))
        _check_added(content.get("added_tokens"))
        _check_lengths(content.get("truncation"), content.get("padding"))
        for section in SECTIONS:
            _check_section(section, content.get(section))


def check_settings(path: Path, content: Mapping) -> None:
    """Refuse settings that name code or files, or too many or too long tokens, by a ValueError."""
    named = {name for name in content if name.endswith("_file")} - set(_FILES_SAVED)
    for name in ("auto_map", "init_inputs", "tokenizer_object", *sorted(named)):
        if content.get(name):
            raise ValueError(
                f"{path} names {'code' if name == 'auto_map' else 'files'} of its own: {name}="
                f"{shorten(content[name])}. Nothing of that is read or run; take {name} out of the file."
            )
    for name, allowed in MOST_IN_SETTINGS.items():
        if (count := sum(1 for _ in list_values(content.get(name)))) > allowed:
            raise ValueError(f"{path} has {name} of {count:,} values; {allowed:,} is the most. {REMEDY}")
    for name, value in content.items():
        longest = max((len(one) for one in list_values(value) if isinstance(one, str)), default=0)
        if longest > (LONGEST_TEMPLATE if name == "chat_template" else LONGEST_TOKEN):
            raise ValueError(f"{path} has {shorten(name, 60)} with {longest:,} characters. {REMEDY}")
    most = content.get("model_max_length")
    if most is not None and (isinstance(most, bool) or not isinstance(most, int | float) or not most >= 1):
        raise ValueError(f"{path} has model_max_length={shorten(most)}; it is a number from 1. {REMEDY}")


def check_added_tokens(path: Path, content: Mapping) -> None:
    """Refuse an added_tokens.json, from which old tokenizers are built, of too many or too long tokens."""
    with _named(path):
        _check_added([{"content": token} for token in content])


def list_values(content: Any) -> Iterator[Any]:
    """All that is in lists and objects, and these themselves; names too."""
    left = [content]
    while left:
        yield (one := left.pop())
        if isinstance(one, Mapping):
            left += one
            left += one.values()
        elif isinstance(one, list):
            left += one


def check_built(name: str, tokenizer: Any) -> None:
    """Refuse a tokenizer built from other files than tokenizer.json if its parts are not known.

    It then reads a line. ValueError where it cannot, or where an id is one that it does not have.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    with _named(name):
        for section in SECTIONS if backend is not None else ():
            part = getattr(backend, section)
            _check_section(section, None if part is None else json.loads(part.__getstate__()))
    try:
        ids = tokenizer(PROBE, verbose=False)["input_ids"]
    except BaseException as error:  # `tokenizers` raises plain Exception, and a panic, which is not even one
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        raise ValueError(f"{name} has a tokenizer that reads no text ({shorten(error)}). {REMEDY}") from error
    known = max(tokenizer.get_vocab().values(), default=-1)
    if wrong := [one for one in ids if not 0 <= one <= known]:
        raise ValueError(
            f"{name} has a tokenizer that gives the id {wrong[0]}, and knows 0 to {known}. {REMEDY}"
        )


@contextlib.contextmanager
def _named(name: object) -> Iterator[None]:
    """Put the name of the file before what is wrong, and whatever is malformed into a sentence."""
    try:
        yield
    except KeyError as error:
        raise ValueError(f"{name} lacks {shorten(error)}. {REMEDY}") from error
    except (ValueError, TypeError, AttributeError, OverflowError, IndexError) as error:
        why = error if type(error) is ValueError else "has a part of another kind than tokenizers write there"
        raise ValueError(f"{name} {shorten(why)}. {REMEDY}") from error


def _refuse_unless(is_right: bool, why: str) -> None:
    if not is_right:
        raise ValueError(why)


def _check_section(section: str, part: object) -> None:
    if part is None:
        return
    parts = list(_flatten(section, part, 0))
    growth, widths = 1.0, set()
    for one in parts:
        _check_values(section, one)
        if (pattern := one.get("pattern")) is not None or one["type"] == "Replace":
            widths |= _check_pattern(section, pattern, one.get("content", ""))
        growth *= _growth(one)
    growth *= max(widths, default=1)
    _refuse_unless(len(widths) < 2, f"has a {section} that fills numbers to several widths")
    _refuse_unless(
        growth <= MOST_GROWTH,
        f"has a {section} that makes a text up to {growth:,.0f} times as long; {MOST_GROWTH} is the most",
    )


def _flatten(section: str, part: Any, depth: int, count: list | None = None) -> Iterator[Mapping]:
    """The parts of a section that are no sequences."""
    count = [] if count is None else count
    count.append(1)
    _refuse_unless(
        depth <= DEEPEST and len(count) <= MOST_PARTS,
        f"has a {section} of more than {MOST_PARTS} parts, or {DEEPEST} in one another",
    )
    kind = part.get("type") if isinstance(part, Mapping) else part
    if kind == "Sequence":
        for name in ("normalizers", "pretokenizers", "processors", "decoders"):
            for inner in part.get(name, ()):
                yield from _flatten(section, inner, depth + 1, count)
        return
    _refuse_unless(
        isinstance(kind, str) and kind in SECTIONS[section],
        f"has a {section} of the type {shorten(kind, 60)!r}; known are {', '.join(SECTIONS[section])}",
    )
    yield part


def _check_values(section: str, part: Mapping) -> None:
    if part["type"] == "TemplateProcessing":
        for name, most in (("single", 1), ("pair", 2)):
            texts = [item for item in part[name] if "Sequence" in item]
            _refuse_unless(len(part[name]) <= 32 and len(texts) <= most, f"repeats a text in its {section}")
        ids = [one for token in part["special_tokens"].values() for one in token["ids"]]
        _refuse_unless(
            len(ids) <= MOST_PARTS, f"adds {len(ids)} ids in its {section}; {MOST_PARTS} is the most"
        )
    for name, value in part.items():
        if name == "precompiled_charsmap":
            continue
        _refuse_unless(
            not isinstance(value, str) or len(value) <= LONGEST_TEXT,
            f"has a {section} whose {name} is longer than {LONGEST_TEXT} characters",
        )
        _refuse_unless(
            not isinstance(value, int | float) or 0 <= value <= LONGEST_TEXT,
            f"has a {section} with {name}={shorten(value, 60)}; it is at most {LONGEST_TEXT}",
        )


def _check_pattern(section: str, pattern: Any, content: str) -> set[int]:
    """Refuse an unknown pattern; returns to how many digits ours fills a number, if it does."""
    if "String" in pattern:
        _refuse_unless(0 < len(pattern["String"]) <= LONGEST_TEXT, f"has a {section} that finds no text")
        return set()
    known = pattern["Regex"]
    if filled := ZEROS.fullmatch(known):
        _refuse_unless(set(content) <= {"0"}, f"has a {section} that fills numbers with {content!r}")
        return {int(filled[1]) + len(content)}
    _refuse_unless(
        known in PATTERNS or SIGN.fullmatch(known) is not None,
        f"has a {section} with the pattern {shorten(known, 60)!r}, and only patterns of known tokenizers are "
        "used, since one may run for ever",
    )
    return set()


def _growth(part: Mapping) -> float:
    """How many times as long a part can make a text, of what its file chooses."""
    if part["type"] == "Prepend":
        return 1 + len(part["prepend"])
    if part["type"] == "Precompiled":
        return _longest_replacement(base64.b64decode(part["precompiled_charsmap"] or "", validate=True))
    if part["type"] != "Replace" or ZEROS.fullmatch(part["pattern"].get("Regex", "")):
        return 1
    return max(1, len(part["content"]) / len(part["pattern"].get("String", "1")))


def _longest_replacement(charsmap: bytes) -> int:
    """The longest text that a character map of SentencePiece writes; ValueError where it leads nowhere.

    It is the size of a double array (darts-clone) in four bytes, the array, and texts that end in a zero.
    """
    if not charsmap:
        return 1
    size = int.from_bytes(charsmap[:4], "little")
    array, texts = np.frombuffer(charsmap[4 : 4 + size - size % 4], "<u4"), charsmap[4 + size :]
    is_value = array >> 31 == 1
    offsets = (array >> 10) << ((array & 512) >> 6)
    reached = (np.arange(len(array), dtype=np.uint32) ^ offsets)[~is_value] | 255
    is_whole = 0 < size == 4 * len(array) and texts.endswith(b"\0")
    values = array[is_value] & (2**31 - 1)
    if not is_whole or (reached >= len(array)).any() or (values >= len(texts)).any():
        raise ValueError("has a normalizer whose character map is broken")
    return max(map(len, texts.decode("utf-8").split("\0")), default=1)


def _check_model(model: Any) -> None:
    kind, vocabulary = model.get("type", "BPE"), model["vocab"]  # old files name no type
    _refuse_unless(
        kind in MODELS, f"has a model of the type {shorten(kind, 60)!r}; known are {', '.join(MODELS)}"
    )
    _refuse_unless(
        len(vocabulary) <= MOST_TOKENS, f"has {len(vocabulary):,} tokens; {MOST_TOKENS:,} is the most"
    )
    is_listed = kind == "Unigram"
    for token, value in vocabulary if is_listed else vocabulary.items():
        _refuse_unless(len(token) <= LONGEST_TOKEN, f"has a token of {len(token):,} characters")
        is_number = isinstance(value, int | float) if is_listed else type(value) is int and 0 <= value < 2**31
        _refuse_unless(is_number and math.isfinite(value), f"has the token {shorten(token, 60)!r}: {value!r}")
    longest = model.get("max_input_chars_per_word", 1)
    _refuse_unless(
        type(longest) is int and 0 < longest <= MOST_CHARACTERS,
        f"has max_input_chars_per_word={shorten(longest, 60)}; it is from 1 to {MOST_CHARACTERS}",
    )
    for name in ("unk_token", "continuing_subword_prefix", "end_of_word_suffix"):
        value = model.get(name)
        _refuse_unless(
            value is None or (isinstance(value, str) and len(value) <= LONGEST_TEXT),
            f"has {name}={shorten(value, 60)!r}",
        )


def _check_added(tokens: Any) -> None:
    tokens = tokens or []
    _refuse_unless(len(tokens) <= MOST_ADDED, f"adds {len(tokens):,} tokens; {MOST_ADDED:,} is the most")
    for token in tokens:
        size = len(token["content"])
        _refuse_unless(0 < size <= LONGEST_TOKEN, f"adds a token of {size:,} characters")


def _check_lengths(truncation: Any, padding: Any) -> None:
    if truncation is not None:
        _refuse_unless(0 <= truncation["stride"] < truncation["max_length"], "shortens a text to nothing")
    if padding is not None:
        strategy = padding["strategy"]
        sizes = [padding.get("pad_to_multiple_of"), strategy["Fixed"] if strategy != "BatchLongest" else None]
        for size in sizes:
            _refuse_unless(
                size is None or (type(size) is int and 0 < size <= LARGEST_SETTING),
                f"pads texts to {shorten(size, 60)} tokens; it is from 1 to {LARGEST_SETTING:,}",
            )
