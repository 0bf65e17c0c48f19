"""What tests of the app without a browser share."""

import pytest


@pytest.fixture(scope="session")
def linked():
    """The app's page, as links see it."""
    from tests.support.linked_page import LinkedPage

    return LinkedPage()
