"""A head over any sentence, its vectors and weights drawn from a seed: true arithmetic, no meaning."""

import re
import zlib
from collections.abc import Sequence

import torch

from hf_attn.interpret.head import LONGEST, Head, is_whole, project
from hf_attn.models.config_checks import show_value
from hf_attn.models.position_base import compute_sinusoids

WIDTH = 16  # D of a sentence's random vectors: four numbers and more for each of four heads
HEADS = (1, 2, 4)  # into which WIDTH is divided
LARGEST_SEED = 2**63 - 1  # that PyTorch takes
PADDING = "<pad>"
_TOKENS = re.compile(rf"{PADDING}|\w+|[^\w\s]")


def split_words(text: str) -> tuple[str, ...]:
    """Words and punctuation marks; `<pad>` is a token of its own.

    >>> split_words("Don't stop, <pad>")
    ('Don', "'", 't', 'stop', ',', '<pad>')
    """
    return tuple(_TOKENS.findall(text))


def embed_words(words: Sequence[str], seed: int = 0) -> torch.Tensor:
    """A random vector for each word, [T, D], float64: the same word has the same one in every sentence."""
    rows = []
    for word in words:
        generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {word}".encode()))
        rows.append(torch.randn(WIDTH, generator=generator))
    return torch.stack(rows).double()


def build_random_head(
    text: str,
    *,
    num_heads: int = 2,
    head: int = 0,
    seed: int = 0,
    scale: bool = True,
    causal: bool = False,
    positions: bool = True,
    hidden: Sequence[int] | None = None,
) -> Head:
    """Build one head of attention over a sentence with random vectors and weights.

    Vectors have variance 1, and so have queries and keys: q · k has variance Dk before it is scaled.

    Args:
        text: a sentence; `<pad>` in it is padding.
        num_heads: H; the width of 16 is divided among them.
        head: which of them, from 0.
        seed: of vectors and weights.
        scale: whether scores are divided by √Dk.
        causal: whether a token may only read itself and those before it.
        positions: whether sinusoids are added to the vectors.
        hidden: places of tokens that no query may attend to; None for those of `<pad>`.

    Raises:
        ValueError: nothing is written, it is too long, or there are no such heads, seed or places.
    """
    words = split_words(text)
    if not words:
        raise ValueError("The sentence is empty; write some words, for example 'time flies like an arrow'.")
    if len(words) > LONGEST:
        raise ValueError(
            f"The sentence has {len(words)} words; up to {LONGEST} are read number by number. Shorten it."
        )
    are_whole = is_whole(num_heads) and is_whole(head)
    if not are_whole or num_heads not in HEADS or not 0 <= head < num_heads:
        allowed = ", ".join(map(str, HEADS))
        raise ValueError(
            f"head={show_value(head)} of num_heads={show_value(num_heads)}: choose {allowed} heads, and one "
            "of them from 0."
        )
    if not is_whole(seed) or not 0 <= seed <= LARGEST_SEED:
        raise ValueError(f"seed={show_value(seed)} must be a whole number from 0 to {LARGEST_SEED}; 0 works.")
    if hidden is None:
        hidden = [place for place, word in enumerate(words) if word == PADDING]
    if len(set(hidden)) >= len(words):
        raise ValueError(f"All {len(words)} tokens are hidden: leave one to be read.")
    states = embed_words(words, seed=seed)
    if positions:
        states = states + compute_sinusoids(torch.arange(len(words)), WIDTH).double()
    generator = torch.Generator().manual_seed(seed)
    weights = [torch.randn(WIDTH, WIDTH, generator=generator).double() / WIDTH**0.5 for _ in range(3)]
    part = slice(head * WIDTH // num_heads, (head + 1) * WIDTH // num_heads)
    w_query, w_key, w_value = (weight[:, part] for weight in weights)
    return project(words, states, w_query, w_key, w_value, scale=scale, causal=causal, hidden=tuple(hidden))
