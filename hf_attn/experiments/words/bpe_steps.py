"""A text cut into tokens in several ways; byte pair encoding as it learns from that text, merge by merge."""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hf_attn.tasks.tokenizers.trained import LEAST_COUNT, train_tokenizer
from hf_attn.utils.text import replace_surrogates

BYTES = 256


@dataclass(frozen=True)
class Segmentation:
    """A text as tokens."""

    tokens: tuple[str, ...]  # in their order
    vocabulary: tuple[str, ...]  # every token there is, in the order of their ids

    @property
    def ids(self) -> list[int]:
        """Each token's place in the vocabulary."""
        number = {token: place for place, token in enumerate(self.vocabulary)}
        return [number[token] for token in self.tokens]


@dataclass(frozen=True)
class LearningStep:
    """Byte pair encoding after so many merges.

    Attributes:
        merge: the pair that became one token last; None before the first merge.
        count: how often that pair was met.
        pieces: the text's tokens now.
        pairs: neighbours within a word with how often they are met now, the most frequent first; the first
            of them merges next where it is met more than once.
        vocabulary: every token so far, in the order of their ids: characters, then merges.
    """

    merge: tuple[str, str] | None
    count: int
    pieces: tuple[str, ...]
    pairs: tuple[tuple[tuple[str, str], int], ...]
    vocabulary: tuple[str, ...]


def split_characters(text: str) -> Segmentation:
    """Every character a token; ids by code point."""
    return Segmentation(tuple(text), tuple(sorted(set(text))))


def split_bytes(text: str) -> Segmentation:
    """Every byte of UTF-8 a token: 256 of them write any text.

    >>> split_bytes("aé").tokens
    ('a', '<0xC3>', '<0xA9>')
    """
    vocabulary = tuple(chr(byte) if 32 <= byte < 127 else f"<0x{byte:02X}>" for byte in range(BYTES))
    return Segmentation(tuple(vocabulary[byte] for byte in text.encode()), vocabulary)


def split_at_words(text: str) -> Segmentation:
    """Every word and sign a token, with the space before it; ids by code point."""
    words = _split_for_merging(text)
    return Segmentation(tuple(words), tuple(sorted(set(words))))


def learn_bpe_merges(text: str, most: int) -> list[LearningStep]:
    """Learn byte pair encoding from a text and nothing else (Sennrich et al. 2016, arXiv:1508.07909).

    Begin with characters; again and again make one token of the pair met most often. Of pairs met equally
    often the one whose tokens are older merges first, as in the `tokenizers` library, and a pair met once is
    left alone.

    Args:
        text: what is read and learned from; words and signs never merge with each other.
        most: merges at most.

    Returns:
        The characters, then the text after each merge.
    """
    order = [tuple(word) for word in _split_for_merging(text)]
    words = Counter(order)
    vocabulary = tuple(sorted({piece for word in words for piece in word}))
    pieces_of = {word: word for word in words}  # as it was read → as it is cut now
    merge, count, steps = None, 0, []
    while True:
        pairs = _count_pairs(words, pieces_of, vocabulary)
        pieces = tuple(piece for word in order for piece in pieces_of[word])
        steps.append(LearningStep(merge, count, pieces, pairs, vocabulary))
        if len(steps) > most or not pairs or pairs[0][1] < LEAST_COUNT:
            return steps
        merge, count = pairs[0]
        pieces_of = {word: tuple(_merge_pair(pieces, merge)) for word, pieces in pieces_of.items()}
        if (joined := "".join(merge)) not in vocabulary:  # two pairs may read alike
            vocabulary += (joined,)


def _split_for_merging(text: str) -> list[str]:
    """Words and signs, each with a sign for the space before it, as our BPE tokenizers read them."""
    backend = train_tokenizer([], "bpe").backend_tokenizer
    return [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(replace_surrogates(text))]


def _merge_pair(pieces: Sequence[str], pair: tuple[str, str]) -> list[str]:
    """Make one piece of every such pair, from left to right."""
    merged: list[str] = []
    for piece in pieces:
        if merged and (merged[-1], piece) == pair:
            merged[-1] = "".join(pair)
        else:
            merged.append(piece)
    return merged


def _count_pairs(
    words: Counter, pieces_of: dict[tuple[str, ...], tuple[str, ...]], vocabulary: Sequence[str]
) -> tuple[tuple[tuple[str, str], int], ...]:
    """How often each pair of neighbours is met within words; equal counts by the age of their tokens."""
    met: Counter = Counter()
    for word, n in words.items():
        for pair in itertools.pairwise(pieces_of[word]):
            met[pair] += n
    age = {piece: place for place, piece in enumerate(vocabulary)}
    return tuple(sorted(met.items(), key=lambda item: (-item[1], age[item[0][0]], age[item[0][1]])))
