"""Boards' values held to their contracts: no key too many, none missing, every type as it is declared."""

import functools

from pydantic import ConfigDict, TypeAdapter, ValidationError

from demos.ui.board_values import BOARDS

STRICT = ConfigDict(strict=True, extra="forbid")


@functools.cache
def adapter(board: str) -> TypeAdapter:
    """What checks the value of a board."""
    return TypeAdapter(BOARDS[board] | None, config=STRICT)


def check_value(text: str, board: str | None = None) -> None:
    """Refuse a board's value, as `to_json` gives it; without a board's name it may be any board's."""
    errors = []
    for name in [board] if board else BOARDS:
        try:
            adapter(name).validate_json(text)
        except ValidationError as error:
            errors.append((error.error_count(), name, error))
        else:
            return
    _, name, error = min(errors, key=lambda found: found[0])
    raise AssertionError(
        f"No value of a board; nearest is {name}'s contract in demos/ui/board_values.py: {error}"
    )
