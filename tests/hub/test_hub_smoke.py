"""The trip of `make hub-smoke`, through the Hub on loopback."""

import pytest
from huggingface_hub import HfApi

from tests.hub.hub_smoke import run_smoke


def look(api, name):
    """What stands where a Space would be built, while it stands there."""
    files = api.list_repo_files(name, repo_type="space")
    assert {"app.py", "README.md", "requirements.txt"} <= set(files)
    return f"{len(files)} files"


@pytest.mark.nightly
def test_the_trip_leaves_nothing_behind(hub):
    api = HfApi(endpoint=hub.endpoint, token=hub.token)
    said = list(run_smoke(api, look))
    assert [line.split()[0] for line in said] == ["pushed", "pulled", "pushed", "opened:", "deleted"]
