"""How a sentence for a person quotes what others wrote."""


def shorten(what: object, most: int = 300) -> str:
    r"""An error or a value as one line that a person can read.

    >>> shorten("two\n lines"), shorten("too long", 4)
    ('two lines', 'too…')
    """
    text = " ".join(str(what).split())
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
