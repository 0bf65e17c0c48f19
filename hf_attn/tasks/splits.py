"""Which examples are held out and which validate: by a hash of the example, the same on every machine."""

import hashlib
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import torch

from hf_attn.tasks.batch import PAD

TRAINING, VALIDATION, HELD_OUT = "training", "validation", "held-out"
SPLITS = (TRAINING, VALIDATION, HELD_OUT)
HASH_BUCKETS = 10
HELD_OUT_BUCKET, VALIDATION_BUCKET = 0, 1  # the other eight train


def hash_rows(ids: torch.Tensor) -> torch.Tensor:
    """A number from 0 to HASH_BUCKETS − 1 a row, the same on every machine.

    Args:
        ids: [B, L] non-negative integers; zeros behind an example do not count.

    Returns:
        [B], an FNV-like hash of the row, its bits stirred so that similar rows part.
    """
    state = torch.full_like(ids[:, 0], 2166136261)
    for column in ids.unbind(1):
        stirred = ((state ^ column) * 16777619 + 97) & 0x7FFFFFFF
        state = torch.where(column == PAD, state, stirred ^ (stirred >> 13))
    return ((state * 2654435761) >> 8) % HASH_BUCKETS


def split_by_keys(keys: torch.Tensor) -> torch.Tensor:
    """[B] index into SPLITS for keys [B, K]: a tenth is held out, a tenth validates."""
    bucket = hash_rows(keys)
    is_held_out, is_validation = bucket == HELD_OUT_BUCKET, bucket == VALIDATION_BUCKET
    return is_held_out * SPLITS.index(HELD_OUT) + is_validation * SPLITS.index(VALIDATION)


def stable_hash(text: str) -> int:
    """A number below 2⁶⁴ for a text, the same on every machine (the first bytes of its SHA-1)."""
    return int.from_bytes(hashlib.sha1(text.encode(), usedforsecurity=False).digest()[:8], "big")


def fold_text(text: str) -> str:
    """A text without what two writers of the same may differ in: capitals, accents, spaces, leading zeros.

    >>> fold_text("  Élan  007 ") == fold_text("elan 7")
    True
    """
    plain = text.casefold()
    if not plain.isascii():  # ASCII has no accents, and most of what is read is ASCII
        letters = unicodedata.normalize("NFKD", plain)
        plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return re.sub(r"(?<!\d)0+(?=\d)", "", " ".join(plain.split()))


def split_by_group(groups: Iterable[str]) -> list[str]:
    """The split of each row by a hash of its group alone: a tenth is held out, a tenth validates."""
    splits = {HELD_OUT_BUCKET: HELD_OUT, VALIDATION_BUCKET: VALIDATION}
    return [splits.get(stable_hash(group) % HASH_BUCKETS, TRAINING) for group in groups]


def split_within_targets(rows: Sequence[tuple[str, str]]) -> list[str]:
    """The split of each row (target, group), so that every target (a class) has its share in each split.

    Of a target's groups, in the order of their hashes, those of at most half a tenth of its rows are held out
    until a tenth is full, and the next ones validate; where none is so small, the smallest does. A group of
    several targets stands where the last of them puts it.
    """
    sizes: dict[str, Counter[str]] = defaultdict(Counter)
    for target, group in rows:
        sizes[target][group] += 1
    split_of: dict[str, str] = {}
    for groups in sizes.values():
        tenth = groups.total() / 10
        left = sorted(groups, key=lambda group: (stable_hash(group), group))
        for split in (HELD_OUT, VALIDATION):
            chosen = _fill([group for group in left if groups[group] <= tenth / 2 + 1], groups, tenth)
            if not chosen and len(left) > 1:
                chosen = [min(left, key=lambda group: groups[group])]
            split_of |= dict.fromkeys(chosen, split)
            left = [group for group in left if group not in split_of]
        split_of |= dict.fromkeys(left, TRAINING)
    return [split_of[group] for _, group in rows]


def _fill(groups: Sequence[str], sizes: Counter[str], rows: float) -> list[str]:
    """The first groups that have as many rows together, or one group's more."""
    chosen: list[str] = []
    filled = 0
    for group in groups:
        if filled >= rows:
            break
        chosen.append(group)
        filled += sizes[group]
    return chosen
