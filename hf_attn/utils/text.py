"""Text from elsewhere, as a sentence can quote it and a file can hold it."""


def shorten(what: object, most: int = 300) -> str:
    r"""An error or a value as one line that a person can read and UTF-8 can encode.

    >>> shorten("two\n lines"), shorten("too long", 4)
    ('two lines', 'too…')
    """
    text = replace_surrogates(" ".join(str(what).split()))
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def quote(value: object, most: int = 100) -> str:
    """A value as an error quotes it, never long.

    >>> quote("a"), quote(["x" * 200], 9)
    ("'a'", "['xxxxxx…")
    """
    return shorten(repr(value), most)


def replace_surrogates(text: str) -> str:
    r"""The text with � for each half of a surrogate pair, which UTF-8 cannot encode.

    >>> replace_surrogates("a\ud800"), replace_surrogates("\ud83d\ude00")
    ('a�', '😀')
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
