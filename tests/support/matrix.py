"""Tables of what a contract is tested with: some rows every time, the others in the nightly set."""

import pytest


def rows(every, gate, name=str):
    """Return parameters for pytest: what is not in `gate` is nightly.

    Args:
        every: all rows.
        gate: those that are tested every time; each must be one of `every`.
        name: what a row is called.
    """
    missing = [each for each in gate if each not in every]
    assert not missing, f"{missing} are no rows"
    return [
        pytest.param(each, id=name(each), marks=[] if each in gate else pytest.mark.nightly) for each in every
    ]
