"""The fields of one position encoding: their limits, and what is wrong with what they hold."""

from typing import Any

from hf_attn.models.positions import POSITION_TYPES

from ...core.fields import LARGEST_SEED, FieldError, read_number
from ...core.limits import refuse_longer

FIRST = "sinusoidal"
SENTENCE = "the cat sat on the mat"
LONGEST_SENTENCE = 200  # characters
# field: its type, lowest, highest, and its first value
NUMBERS = {
    "length": (int, 2, 64, 50),
    "width": (int, 4, 128, 32),
    "trained": (int, 2, 64, 50),
    "heads": (int, 1, 8, 2),
    "theta": (float, 2, 1e7, 10_000),
    "clip": (int, 1, 64, 8),
    "seed": (int, 0, LARGEST_SEED, 0),
}
LABELS = {
    "type": "Position encoding",
    "length": "Positions",
    "width": "Dimensions",
    "trained": "Trained for",
    "heads": "Heads",
    "theta": "Base theta",
    "clip": "Clip distance",
    "seed": "Seed",
    "sentence": "Your sentence",
}
ALWAYS = ("length", "width")  # fields that every encoding has
# what an encoding says that it depends on → the field that sets it
FIELD_OF = {
    "max_position_embeddings": "trained",
    "num_attention_heads": "heads",
    "rope_theta": "theta",
    "relative_clip_distance": "clip",
    "seed": "seed",
}
FIELDS = tuple(LABELS)
VIEW_ERRORS = (*NUMBERS, "sentence")


def list_encodings() -> list[tuple[str, str]]:
    """(title, name) of every position encoding."""
    return [(positions.title, name) for name, positions in POSITION_TYPES.items()]


def fields_of(position_type: str) -> tuple[str, ...]:
    """The fields of numbers that change an encoding."""
    return (*ALWAYS, *(FIELD_OF[name] for name in POSITION_TYPES[position_type].settings if name in FIELD_OF))


def read_field(field: str, text: object) -> float:
    kind, low, high, first = NUMBERS[field]
    return read_number(field, text, low, high, whole=kind is int, example=first)


def read_sentence(text: str | None) -> list[str]:
    """The words of the sentence.

    Raises:
        FieldError: it is too long.
    """
    try:
        refuse_longer("sentence", text, LONGEST_SENTENCE)
    except ValueError as error:
        raise FieldError("sentence", str(error)) from error
    return (text or "").split()


def read_view(values: dict) -> tuple[dict[str, Any], list[FieldError]]:
    """Numbers and words of the fields that the type has, and every one that holds what cannot be used."""
    given, wrong = {"trained": NUMBERS["trained"][2]}, []
    for field in (*fields_of(values["type"]), "sentence"):
        try:
            read = read_sentence(values[field]) if field == "sentence" else read_field(field, values[field])
            given[field] = read
        except FieldError as error:
            wrong.append(error)
    return given, wrong
