"""Whatever a test of the app sends to a board is held to the boards' contracts."""

import pytest

from demos.ui import boards
from tests.support.board_values import check_value


@pytest.fixture(autouse=True)
def contracts(monkeypatch):
    """Refuse a value that is no board's."""
    to_json = boards.to_json

    def to_checked_json(value):
        text = to_json(value)
        if text is not None:
            check_value(text)
        return text

    monkeypatch.setattr(boards, "to_json", to_checked_json)
