"""A text cut into sentences and words, for what counts words and learns their vectors."""

import re


def split_words(text: str) -> list[str]:
    """A text's words in small letters, without signs and numbers.

    >>> split_words("Paris isn't Rome: 2 cities!")
    ['paris', "isn't", 'rome', 'cities']
    """
    return re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)*", text.lower().replace("’", "'"))


def split_sentences(text: str) -> list[str]:
    """A text's sentences; a line's end parts them, too."""
    return [part.strip() for part in re.split(r"(?<=[.!?])\s+|\n+", text) if part.strip()]
