"""What every test in this folder shares: the marker `browser`, a skip without Chromium, and patience."""

import pytest
from playwright.sync_api import expect

from tests.support.browser import PATIENCE, find_chromium

HAS_CHROMIUM = find_chromium() is not None
expect.set_options(timeout=PATIENCE)


def pytest_itemcollected(item):
    item.add_marker("browser")
    if not HAS_CHROMIUM:
        item.add_marker(pytest.mark.skip(reason="no Chromium on this machine"))
