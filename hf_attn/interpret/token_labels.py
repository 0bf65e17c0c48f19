"""Labels of a map's rows and columns: tokens of a text, with what cannot be seen, or patches of an image."""

import unicodedata
from collections.abc import Sequence

from transformers.convert_slow_tokenizer import bytes_to_unicode

WORD_START = "▁"  # SentencePiece's sign for a space
SIGNS = str.maketrans({" ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥"})
HIDDEN = ("Cc", "Cf", "Co", "Cn")  # Unicode's categories of what has no shape of its own
TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # they turn neighbours round
BYTES = {sign: byte for byte, sign in bytes_to_unicode().items()}  # of a byte-level tokenizer


def name_tokens(ids: Sequence[int], tokenizer=None) -> tuple[str, ...]:
    """The label of each token; without a tokenizer the ids stand for themselves.

    A space is written ␣, a line's end ⏎; a special token is named as it is, and so is the ## with which a
    WordPiece goes on a word. A token that holds a part of a character, as byte-level tokens of Chinese or of
    emoji may, shows that part as bytes: `<0xF0>`.
    """
    if tokenizer is None:
        return tuple(map(str, ids))
    added = getattr(tokenizer, "added_tokens_decoder", {})
    names = tokenizer.convert_ids_to_tokens(ids)
    read = read_bytes if is_byte_level(tokenizer) else str
    return tuple(
        f"<id {index}>"  # a model may have more ids than its tokenizer
        if name is None
        else str(name)
        if index in added
        else show_text(read(name).replace(WORD_START, " "))
        for index, name in zip(ids, names, strict=True)
    )


def is_byte_level(tokenizer) -> bool:
    """Whether each sign of a token stands for a byte, as in GPT-2's tokenizer."""
    return "ByteLevel" in repr(getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", ""))


def read_bytes(token: str) -> str:
    """The text of a byte-level token; bytes that are no whole character stay bytes.

    >>> read_bytes("Ġcaf"), read_bytes("Ã©"), read_bytes("Ã")
    (' caf', 'é', '<0xC3>')
    """
    if not all(sign in BYTES for sign in token):
        return token
    text = bytes(BYTES[sign] for sign in token).decode("utf-8", errors="surrogateescape")
    return "".join(f"<0x{ord(sign) - 0xDC00:02X}>" if "\udc80" <= sign <= "\udcff" else sign for sign in text)


def show_text(text: str) -> str:
    r"""A token's text with what cannot be seen made visible.

    >>> show_text(" a\n"), show_text("\u200d"), show_text("\u0301")
    ('␣a⏎', '<U+200D>', '◌́')
    """
    signs = text.translate(SIGNS)
    if all(unicodedata.category(sign) in HIDDEN for sign in signs):
        return "".join(f"<U+{ord(sign):04X}>" for sign in signs)
    if unicodedata.combining(signs[0]):
        signs = "◌" + signs  # an accent needs a letter to stand on
    return "".join(f"<U+{ord(sign):04X}>" if sign in TURNING else sign for sign in signs)


def name_patches(count: int, size: Sequence[int], patch: int | Sequence[int]) -> tuple[str, ...]:
    """The label of each token of an image: CLS and what else stands before the patches, then row and column.

    The size is the image's height and width, the patch its side, or its height and width.

    >>> name_patches(5, (4, 4), 2)
    ('CLS', 'row 1, col 1', 'row 1, col 2', 'row 2, col 1', 'row 2, col 2')
    """
    height, width = (patch, patch) if isinstance(patch, int) else patch
    rows, columns = size[0] // height, size[1] // width
    patches = [f"row {row + 1}, col {column + 1}" for row in range(rows) for column in range(columns)]
    before = count - len(patches)
    if before < 0:  # patches were left out or brought together
        return tuple(f"token {place + 1}" for place in range(count))
    return (*("CLS", *(f"token {place}" for place in range(2, before + 1)))[:before], *patches)
