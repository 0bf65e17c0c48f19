"""What the tests of the app share: boards held to their contracts, and a Hub beside real servers."""

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


@pytest.fixture(scope="session")
def hub(tmp_path_factory):
    """A Hub with a private BERT that only its owner's token may read, and the folder that it came from."""
    from huggingface_hub import HfApi

    from tests.support.hub_server import serve_hub
    from tests.support.native_models import build_native

    root = tmp_path_factory.mktemp("hub")
    with serve_hub(root) as hub:
        for part in build_native("bert"):
            part.save_pretrained(root / "bert")
        api = HfApi(endpoint=hub.endpoint, token=hub.token)
        api.create_repo("ada/bert", private=True)
        api.upload_folder(repo_id="ada/bert", folder_path=root / "bert")
        hub.folder = root / "bert"
        yield hub
