"""What may stand in training.json: every name that is read, with the kind of its value.

A folder may come from anybody. Names that are not here are not read; each of those here may be missing or
null at the top, so that records of other versions stay readable.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from hf_attn.utils.text import shorten

LONGEST_TEXT, MOST_ENTRIES = 20_000, 20_000
LARGEST = 2**63 - 1


class Kind(tuple[str, Callable[[Any], bool]]):
    """A kind of value: what it is called, and what tells it."""

    __slots__ = ()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= LARGEST


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_TEXT


def _is_share(value: object) -> bool:
    return _is_number(value) and 0 <= value <= 1  # type: ignore[operator]


def _is_setting(value: object) -> bool:
    return value is None or isinstance(value, bool) or _is_number(value) or _is_text(value)


COUNT = Kind(("whole number from 0", _is_count))
NUMBER = Kind(("finite number", _is_number))
SHARE = Kind(("share from 0 to 1", _is_share))
TEXT = Kind((f"text of at most {LONGEST_TEXT:,} characters", _is_text))
SWITCH = Kind(("true or false", lambda value: isinstance(value, bool)))
VERDICT = Kind(("true, false or null", lambda value: value is None or isinstance(value, bool)))
SETTING = Kind(
    (
        "number, text, true, false, null or a list of these",
        lambda value: all(map(_is_setting, value)) if isinstance(value, list | tuple) else _is_setting(value),
    )
)
OTHERS = "…"  # the key of what every further entry is; a key that ends in ? may be missing or null

_SCORE: dict = {"examples": COUNT, "exact_match": SHARE, "interval": (SHARE, SHARE), "interval_over?": TEXT}
_MEASURED: dict = {**_SCORE, "measures": {OTHERS: NUMBER}}
_FAILURES = [{"source": TEXT, "prediction": TEXT, "answer": TEXT}]
SCHEMA: dict = {
    "task?": {"name": TEXT, "options": {OTHERS: SETTING}, "rows?": TEXT},
    "recipe?": {"model": {OTHERS: SETTING}, "steps": COUNT, "optimizer?": TEXT, OTHERS: SETTING},
    "results?": {
        **_MEASURED,
        "size_name": TEXT,
        "by_size": {OTHERS: _MEASURED},
        "baseline?": _MEASURED,
        "failures": _FAILURES,
    },
    "search?": {
        "held_out": _SCORE,
        "made": COUNT,
        "by_size": {OTHERS: _SCORE},
        "patterns": {OTHERS: {**_SCORE, "failures": _FAILURES}},
        "failures": _FAILURES,
    },
    "reach?": {OTHERS: {OTHERS: _SCORE}},
    "least_sure?": {**_SCORE, "size": COUNT, "searched": COUNT},
    "map?": {
        **{"kind": TEXT, "layer": COUNT, "head": COUNT, "heads": COUNT, "is_aligned": SWITCH},
        **{"weight": SHARE, "even": SHARE, "untrained": SHARE, "chosen_on?": COUNT},
    },
    "worked_example?": {"source": TEXT, "prediction": TEXT, "correct": VERDICT},
    "curve?": [{"step": COUNT, "loss?": NUMBER, "validation_exact_match?": NUMBER}],
    "versions?": {OTHERS: TEXT},
    "measured_with?": {OTHERS: TEXT},
    **dict.fromkeys(("steps?", "seed?", "threads?", "parameters?"), COUNT),
    **dict.fromkeys(("seconds?", "until?"), NUMBER),
    **dict.fromkeys(("model?", "model_type?", "device?"), TEXT),
}
ON_A_CARD = ("task", "model_type", "parameters", "versions")  # what a card cannot do without


def check_record(place: object, record: Mapping, needed: tuple[str, ...] = ()) -> None:
    """Refuse a record of training with a value of a wrong kind, or without what is needed, by a ValueError.

    `place` is what the sentence names: the file.
    """
    if lacking := [name for name in needed if record.get(name) is None]:
        raise ValueError(f"{place} has no {lacking[0]}: save the checkpoint again.")
    _check(place, "", record, SCHEMA)
    kinds = [sorted(kinds) for kinds in (record.get("reach") or {}).values()]
    if kinds and not all(one == kinds[0] and one for one in kinds):
        raise ValueError(f"{place} has reach with other kinds of input at each length: save it again.")


def _check(place: object, where: str, value: Any, schema: Any) -> None:
    if isinstance(schema, Kind):
        kind, is_right = schema
        if not is_right(value):
            _refuse(place, where, value, kind)
    elif isinstance(schema, tuple):
        if not isinstance(value, list | tuple) or len(value) != len(schema):
            _refuse(place, where, value, f"list of {len(schema)}")
        for number, (one, inner) in enumerate(zip(value, schema, strict=True)):
            _check(place, f"{where}.{number}", one, inner)
    elif isinstance(schema, list):
        if not isinstance(value, list | tuple) or len(value) > MOST_ENTRIES:
            _refuse(place, where, value, f"list of at most {MOST_ENTRIES:,}")
        for number, one in enumerate(value):
            _check(place, f"{where}.{number}", one, schema[0])
    else:
        _check_object(place, where, value, schema)


def _check_object(place: object, where: str, value: Any, schema: Mapping) -> None:
    if not isinstance(value, Mapping) or len(value) > MOST_ENTRIES:
        _refuse(place, where, value, f"object of at most {MOST_ENTRIES:,} entries")
    for key, inner in schema.items():
        name = key.rstrip("?")
        if key == OTHERS or (key != name and value.get(name) is None):
            continue
        if name not in value:
            _refuse(place, where, value, f"object with {name!r}")
        _check(place, f"{where}.{name}", value[name], inner)
    if OTHERS in schema:
        known = {key.rstrip("?") for key in schema}
        for name in value.keys() - known:
            _check(place, f"{where}.{shorten(name, 40)}", value[name], schema[OTHERS])


def _refuse(place: object, where: str, value: object, kind: str) -> None:
    given = f"{where.lstrip('.')}={shorten(value, 100)}"
    raise ValueError(f"{place} has {given}, which is no {kind}. Save the checkpoint again.")
