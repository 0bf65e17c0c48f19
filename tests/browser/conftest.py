"""One server for all tests in a browser: the app beside a Hub of its own, so that nothing else is asked."""

import pytest


@pytest.fixture(scope="session")
def hub_folder(tmp_path_factory):
    """Where the Hub and the app beside it keep their files."""
    return tmp_path_factory.mktemp("hub")


@pytest.fixture(scope="session")
def hub(hub_folder):
    """A Hub on this machine."""
    from tests.support.hub_server import serve_hub

    with serve_hub(hub_folder) as served:
        yield served


@pytest.fixture(scope="session")
def served_app(hub, hub_folder):
    """Address of the app in a process of its own, which knows this Hub only."""
    from tests.support.browser import serve_app

    with serve_app(hub.environment(hub_folder)) as address:
        yield address
