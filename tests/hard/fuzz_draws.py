"""What the fuzz sends: a door, odd texts, numbers, ids, files and settings, and where a file is written."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from hypothesis import strategies as st

MARKUP = "<img src=x onerror=alert(1)>"  # in no answer as it stands
CARDS = Path(__file__).parents[2] / "model_cards"
HERE = tempfile.TemporaryDirectory(prefix="hf_attn_fuzz_")  # all that the fuzz writes


class Unexpected(Exception):
    """An error that was turned into a sentence on its way and was none that anybody expected: its cause."""


@dataclass(frozen=True)
class Door:
    """Where something from outside comes in.

    Attributes:
        call: what is called with what is drawn; an AssertionError of its own is a failure.
        arguments: how each argument is drawn.
        names: the public names of hf_attn that it tries.
        share: how many of the inputs, against the other doors.
    """

    call: Callable[..., object]
    arguments: tuple[st.SearchStrategy, ...]
    names: tuple[str, ...] = ()
    share: float = 1


ODD_TEXTS = (
    "", " ", "\0", "٣+٤", "1" * 5000, "\ud800", "a\u0301" * 40, MARKUP, "{{7*7}}${7*7}", "None", "nan", "-1",
    "../" * 30 + "etc/passwd", "/dev/zero", "a\nb\r\nc", "\u202eabc", "x" * 100_000, "1e999", "[" * 500,
    "%s%n",
)  # fmt: skip
odd_numbers = st.sampled_from(
    [0, -1, 2**31, 2**63, 10**30, 1e308, -1e-308, float("nan"), float("inf")]
) | st.just(5000).map(lambda digits: 10**digits)  # which Python writes no text for
odd_wholes = odd_numbers.filter(lambda number: isinstance(number, int))
texts = st.text(max_size=80) | st.sampled_from(ODD_TEXTS)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | odd_numbers,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)
ids = st.lists(st.integers(-5, 300) | odd_wholes, max_size=40)
small = st.integers(-3, 9) | odd_wholes
contents = st.binary(max_size=300) | st.lists(texts, max_size=8).map("\n".join) | texts


def one_of(words, odd: st.SearchStrategy = texts) -> st.SearchStrategy:
    """Mostly a word that is known, else what is drawn."""
    return st.sampled_from(list(words)) | st.sampled_from(list(words)) | odd


def write(content: bytes | str, name: str) -> Path:
    """A file with that content."""
    path = Path(HERE.name) / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    return path


def as_tensor(numbers: list[int]) -> torch.Tensor:
    """Ids as a batch of one row."""
    most = 2**62
    return torch.tensor([[max(-most, min(number, most)) for number in numbers]], dtype=torch.long)
