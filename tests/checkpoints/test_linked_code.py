"""Code beside weights that is links to hf_attn/models: read, pushed and packed, or refused."""

import shutil
import zipfile
from pathlib import Path

import pytest

from demos.session import run_files
from demos.session.catalog import ModelCatalog
from demos.session.session import Session
from hf_attn.checkpoints.save_load import BUNDLED, load_checkpoint, save_checkpoint
from hf_attn.hub.external_models import open_model
from hf_attn.hub.pull import pull_checkpoint
from hf_attn.hub.space import assemble_space
from hf_attn.utils.folder_files import MODEL_FILES
from tests.support.hub_server import push_folder as push

TARGET = "../../hf_attn/models/"
REPO = "ada/copy"


def link_code(folder, target):
    for path in folder.glob("*.py"):
        path.unlink()
        path.symlink_to(f"{target}{path.name}")


def write_links_as_text(folder):
    """What git leaves in a clone where it may not make links."""
    for path in folder.glob("*.py"):
        path.unlink()
        path.write_text(f"{TARGET}{path.name}")


def open_in_app(folder):
    with ModelCatalog(((folder.name, folder),)).open(Session(), str(folder)) as opened:
        return opened.model


def contents(folder):
    """Name → bytes of what is no link."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.is_symlink()}


def test_dangling_links_are_refused_with_their_target_and_a_remedy_that_works(folder, hub):
    link_code(folder, TARGET)
    for call in (load_checkpoint, open_model, open_in_app, lambda folder: push(hub, folder)):
        with pytest.raises(
            ValueError, match=r"attention\.py is a link to \S+, and there is no such"
        ) as refused:
            call(folder)
        assert f"{TARGET}attention.py" in str(refused.value)
        assert "cp -rL" in str(refused.value)
    assert hub.requests == []
    for path in folder.glob("*.py"):
        path.unlink()
    assert load_checkpoint(folder).model is not None


@pytest.fixture(params=["links", "links of another clone", "text"])
def linked(request, folder, tmp_path):
    """(the folder, what it held): its code is links now, or their targets as text."""
    whole = contents(folder)
    if request.param == "text":
        write_links_as_text(folder)
    else:
        clone = MODEL_FILES
        if request.param == "links of another clone":
            clone = shutil.copytree(MODEL_FILES, tmp_path / "clone" / "hf_attn" / "models")
            (clone / "attention.py").write_text("raise RuntimeError('not the installed code')\n")
        link_code(folder, f"{clone}/")
    return folder, whole


def test_linked_code_is_loaded_pushed_and_packed_as_the_installed_files(linked, hub, monkeypatch):
    folder, whole = linked
    for call in (load_checkpoint, open_model, open_in_app):
        assert call(folder) is not None
    push(hub, folder)
    assert hub.repo(REPO).files() == whole
    assert push(hub, folder)[-1].message.startswith("Nothing has changed")

    class Named:
        name = "copy"

    monkeypatch.setattr(run_files, "save_run", lambda *_: folder)
    with zipfile.ZipFile(run_files.pack(None, Named)) as archive:
        files = [info for info in archive.infolist() if not info.is_dir()]
        assert {Path(info.filename).name: archive.read(info) for info in files} == whole


def test_what_is_saved_or_pulled_over_links_holds_none(linked, hub):
    folder, whole = linked
    checkpoint = load_checkpoint(folder)
    push(hub, folder)
    *_, pulled = pull_checkpoint(REPO, folder, token=hub.token, endpoint=hub.endpoint)
    assert pulled.verified
    assert contents(folder) == whole
    link_code(folder, f"{MODEL_FILES}/")
    save_checkpoint(folder, checkpoint.model, checkpoint.task, checkpoint.training)
    assert contents(folder).keys() == whole.keys()
    assert all(content == whole[name] for name, content in contents(folder).items() if name.endswith(".py"))


def test_a_bundled_checkpoint_and_a_space_bring_the_code_itself(hub, tmp_path):
    bundled = BUNDLED / "attn-copy"
    names = {path.name for path in bundled.glob("*.py")}
    assert names
    push(hub, bundled)
    space = assemble_space(tmp_path / "space").path
    assert not [path for path in space.rglob("*") if path.is_symlink()]
    for name in names:
        code = (MODEL_FILES / name).read_bytes()
        assert hub.repo(REPO).files()[name] == code
        assert (space / "model_cards" / "attn-copy" / name).read_bytes() == code
