"""Numbers, tokens and models in words, as every tab writes them."""

import re
import traceback

from hf_attn.architectures.families import FAMILIES, is_ours
from hf_attn.tasks.tokenizers.trained import SPACE

NARROW = "\u202f"
DEVICES = {"cpu": "CPU", "cuda": "GPU", "mps": "Apple GPU"}
ENDS = {"</s>": "end", "<s>": "start"}
UNSEEN = re.compile(  # Unicode's controls, ends of lines and signs of direction
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
ENDLESS = re.compile(r"(\S{60})\S+")
MOST_SAID = 800  # characters of a sentence
SHOWN_FRAMES, LONGEST_ERROR = 12, 1000  # of a traceback in the log; characters of its error
LONGEST_LINE = 300  # characters of a sentence in the log


def count(number: int) -> str:
    """Write a whole number with narrow spaces: 1 240."""
    return f"{number:,}".replace(",", NARROW)


def percent(share: float, digits: int = 1) -> str:
    """Write a share: 93.5 %."""
    return f"{100 * share:.{digits}f}{NARROW}%"


def power(number: float) -> str:
    """A tiny number by its size: 4e−16."""
    return f"{number:.0e}".replace("-", "−")


def clock(seconds: float) -> str:
    """Minutes and seconds: 1:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def size_in_words(model) -> str:
    return in_thousands(sum(weight.numel() for weight in model.parameters()))


def in_thousands(number: int) -> str:
    """Write a number of parameters, rounded as the boards do: 928 k, 3.9 M."""
    return f"{number / 1e6:.1f}{NARROW}M" if number >= 1e6 else f"{(number + 500) // 1000}{NARROW}k"


def name_architecture(config) -> str:
    """Name a model as the list of architectures does: Transformer; LSTM, dot attention (Luong)."""
    for variant in FAMILIES[config.model_type].variants.values() if is_ours(config.model_type) else ():
        if all(getattr(config, name, None) == value for name, value in variant.fields.items()):
            return variant.title
    return config.model_type


def label_tokens(tokens) -> list[str]:
    """Name tokens for people: `</s>` is the end, `<s>` the start, and the sign for a space a space."""
    return [ENDS.get(token, token.replace(SPACE, " ")) for token in tokens]


def thin(items: list, most: int) -> list:
    """Keep at most so many items, evenly chosen, the first and the last among them."""
    if len(items) <= most:
        return items
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


def shorten(text: str, most: int) -> str:
    """Cut a text to so many characters, with … behind."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def shorten_middle(text: str, most: int) -> str:
    """The first and the last four characters of a longer text, behind how many it has.

    >>> shorten_middle("1998", 40), shorten_middle("47" + "0" * 196 + "82", 40)
    ('1998', '200 digits: 4700…0082')
    """
    if len(text) <= most:
        return text
    unit = "digits" if text.isdecimal() else "characters"
    return f"{count(len(text))} {unit}: {text[:4]}…{text[-4:]}"


def plain(sentence: str) -> str:
    """Make a sentence safe to show whatever it quotes: � for control characters, … for long words."""
    text = ENDLESS.sub(r"\1…", UNSEEN.sub("\ufffd", sentence))
    return text if len(text) <= MOST_SAID else f"{text[: MOST_SAID // 2]}… {text[-MOST_SAID // 4 :]}"


def in_one_line(text: object, most: int = LONGEST_LINE) -> str:
    """Shorten a text that somebody sent, or that an error quotes, to one line of the log."""
    return shorten(" ".join(str(text).split()), most)


def format_failure(error: Exception) -> str:
    """The end of a traceback and its error, shortened where it quotes a long text."""
    frames = "".join(traceback.format_tb(error.__traceback__)[-SHOWN_FRAMES:])
    return f"{frames}{type(error).__name__}: {in_one_line(error, LONGEST_ERROR)}"
