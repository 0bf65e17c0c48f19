"""What is opened, packed, pushed or pulled of a folder is a file of its own, and is read only so far."""

import ast
import itertools
import os
import re
import shutil
import zipfile
from pathlib import Path

import pytest
import transformers
from huggingface_hub import snapshot_download

from demos.session import run_files
from demos.tabs.share.card_preview import read_card, render_card
from hf_attn.checkpoints.remeasure import write_collection
from hf_attn.checkpoints.run_folder import REPORTS, RUN, STATE, Run, load_run, save_run
from hf_attn.checkpoints.save_load import load_checkpoint
from hf_attn.checkpoints.validate import READ
from hf_attn.hub.dataset import FILES, check_dataset
from hf_attn.hub.external_models import open_model
from hf_attn.hub.space import list_sources
from hf_attn.tasks import build_task
from hf_attn.training.device import build_accelerator
from hf_attn.training.loop import load_state
from hf_attn.utils.folder_files import MODEL_FILES, find_file
from tests.support.hub_server import push_folder as push
from tests.support.matrix import rows
from tests.support.native_models import build_native
from tests.support.odd_files import MADE, SECRET, link_out, make, make_endless, refusal

pytestmark = pytest.mark.timeout(300)  # what waits for a pipe's writer fails
OUTSIDE = "leads out of its folder"


# ---------------------------------------------------------------- a checkpoint


EVERY = list(itertools.product(["README.md", "config.json", "model.safetensors"], MADE))


@pytest.mark.parametrize("pair", rows(EVERY, EVERY[::7], "-".join))
def test_what_is_no_file_of_the_folder_is_refused_and_nothing_of_it_is_pushed(folder, hub, pair):
    name, kind = pair
    words = make(kind, folder / name)
    for call in (load_checkpoint, open_model, lambda folder: push(hub, folder)):
        assert words in refusal(lambda call=call: call(folder), name)
    assert hub.requests == []


@pytest.mark.parametrize("name", [
    *("training.json", "map.png", "attention.py", "tokenizer.json", "generation_config.json", "photo.png"),
    *("chat_template.jinja", "added_tokens.json", "additional_chat_templates/tool.jinja"),
])  # fmt: skip
def test_every_file_that_is_opened_or_pushed_is_looked_at(folder, name):
    load_checkpoint(folder)
    (folder / name).parent.mkdir(exist_ok=True)
    link_out(folder / name, folder)
    refusal(lambda: load_checkpoint(folder), name, OUTSIDE)


def test_a_file_that_nobody_reads_may_be_anything_and_stays_here(folder, hub, tmp_path):
    outside = tmp_path / SECRET
    outside.write_text("secret")
    (folder / "notes").symlink_to(outside)
    (folder / "notes.md").symlink_to(outside)
    (folder / "elsewhere").symlink_to("/usr")
    os.mkfifo(folder / "pipe")
    assert load_checkpoint(folder).model is not None
    push(hub, folder)
    pushed = hub.repo("ada/copy").files()
    assert "README.md" in pushed
    assert not {"notes", "notes.md", "elsewhere", "pipe"} & set(pushed)
    assert not any(content == b"secret" for content in pushed.values())


def test_links_that_stay_in_the_folder_or_lead_to_the_installed_code_are_read_and_pushed(folder, hub):
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / "kept").mkdir()
    for name in ("config.json", "model.safetensors", "README.md"):
        (folder / name).rename(folder / "kept" / name)
        (folder / name).symlink_to(Path("kept") / name)
    for name in ("attention.py", "layers.py"):
        (folder / name).unlink()
        (folder / name).symlink_to(MODEL_FILES / name)
    named = folder.with_name("named")
    named.symlink_to(folder)
    push(hub, named)
    assert hub.repo("ada/copy").files() == whole
    (folder / "layers.py").unlink()
    (folder / "layers.py").symlink_to(MODEL_FILES / "attention.py")
    refusal(lambda: load_checkpoint(folder), "layers.py", OUTSIDE)


@pytest.mark.parametrize("change", [b"import os  # theirs\n", b""])
def test_code_that_is_not_the_installed_one_is_named_and_not_pushed(folder, hub, change):
    for name in ("attention.py", "layers.py"):
        (folder / name).write_bytes((folder / name).read_bytes() + change if change else b"")
    sentence = refusal(
        lambda: push(hub, folder), "attention.py, layers.py", "not the code of the installed hf_attn"
    )
    assert "save_checkpoint" in sentence
    assert hub.requests == []
    assert load_checkpoint(folder).model is not None, "the installed classes load it"


def test_a_checkpoint_in_the_hub_s_cache_is_opened_and_pushed_on(folder, hub, tmp_path):
    here = {"token": hub.token, "endpoint": hub.endpoint}
    push(hub, folder)
    snapshot = Path(snapshot_download("ada/copy", cache_dir=tmp_path / "cache", **here))
    config = snapshot / "config.json"
    assert config.is_symlink(), "it tests what it is meant to"
    assert type(open_model(snapshot).model) is type(load_checkpoint(folder).model)
    push(hub, snapshot, "ada/again")
    assert hub.repo("ada/again").files() == hub.repo("ada/copy").files()
    blob, store = config.resolve(), tmp_path / "cache" / "blobs" / "ab"
    store.mkdir(parents=True)
    shared = blob.rename(store / ("ab" + 62 * "0"))  # as huggingface_hub shares what several repos have
    blob.symlink_to(shared)
    assert find_file(snapshot, "config.json") == shared
    blob.unlink()
    blob.symlink_to(shutil.copyfile(shared, tmp_path / SECRET))
    refusal(lambda: open_model(snapshot), "config.json", OUTSIDE)
    config.unlink()
    config.symlink_to(folder / "config.json")
    refusal(lambda: open_model(snapshot), "config.json", OUTSIDE)


def test_files_larger_than_any_checkpoint_s_are_refused_at_once(folder):
    for name in ("README.md", "map.png", "training.json", "tokenizer.json"):
        content = (folder / name).read_bytes()
        make_endless(folder / name)
        refusal(lambda: load_checkpoint(folder), name, "1,099,511,627,776 bytes")
        (folder / name).unlink()
        (folder / name).write_bytes(content)
    make_endless(folder / "model.safetensors")
    refusal(lambda: load_checkpoint(folder), "model.safetensors", "not a whole safetensors file")


# ---------------------------------------------------------------- models of others


@pytest.fixture
def gpt2(tmp_path):
    for part in build_native("gpt2"):
        part.save_pretrained(tmp_path / "gpt2", max_shard_size="5KB")
    assert not (tmp_path / "gpt2" / "model.safetensors").exists(), "several files"
    return tmp_path / "gpt2"


@pytest.mark.parametrize("name", ["vocab.txt", "tokenizer.json", "generation_config.json", "merges.txt"])
def test_whatever_transformers_reads_of_another_s_folder_is_a_file_of_it(gpt2, name):
    (gpt2 / "notes").symlink_to("/etc")
    assert open_model(gpt2).model.config.n_layer == 2
    link_out(gpt2 / name)
    refusal(lambda: open_model(gpt2), name, OUTSIDE)


def test_parts_of_the_weights_lie_in_the_folder_itself(gpt2):
    part = sorted(gpt2.glob("model-*.safetensors"))[0]
    outside = shutil.copyfile(part, gpt2.parent / f"{SECRET}.safetensors")
    part.unlink()
    part.symlink_to(outside)
    refusal(lambda: open_model(gpt2), part.name, OUTSIDE)


def test_an_adapter_beside_the_weights_is_refused(gpt2, folder):
    for place in (gpt2, folder):
        (place / "adapter_config.json").write_text('{"base_model_name_or_path": "/somewhere"}')
        refusal(lambda place=place: open_model(place), "adapter_config.json", "merge_and_unload")


def test_every_file_that_a_tokenizer_of_transformers_reads_has_an_ending_that_is_looked_at():
    pattern = re.compile(r"VOCAB_FILES_NAMES\s*=\s*(\{[^}]*\})")
    found = set()
    for path in (Path(transformers.__path__[0]) / "models").rglob("tokenization_*.py"):
        for names in pattern.findall(path.read_text(encoding="utf-8")):
            found |= set(ast.literal_eval(names).values())
    assert {"vocab.txt", "spiece.model"} <= found
    assert not [name for name in found if not name.endswith(READ)]


# ---------------------------------------------------------------- what else is pushed, packed or shown


def test_a_space_takes_no_link_out_of_the_repository(tmp_path):
    root = tmp_path / "repository"
    for name in ("demos", "hf_attn", "model_cards/attn-copy"):
        (root / name).mkdir(parents=True)
    for name in ("README.md", "app.py", "requirements.txt", "hf_attn/layers.py"):
        (root / name).write_text("words")
    (root / "model_cards/attn-copy/layers.py").symlink_to("../../hf_attn/layers.py")
    assert list_sources(root)["model_cards/attn-copy/layers.py"] == root / "hf_attn/layers.py"
    for name in ("model_cards/attn-copy/README.md", "demos/theme.css", "app.py"):
        (root / name).touch()
        link_out(root / name, root)
        refusal(lambda: list_sources(root), name, OUTSIDE)
        (root / name).unlink()
        (root / name).write_text("words")
    (root / "docs").mkdir()
    (root / "README.md").write_text(f"![A picture](docs/../../{SECRET}.png)")
    (tmp_path / f"{SECRET}.png").write_bytes(b"private")
    with pytest.raises(ValueError, match=OUTSIDE):
        list_sources(root)


@pytest.mark.parametrize("name", ["README.md", FILES[0]])
def test_a_data_set_is_made_of_its_own_files(tmp_path, name):
    pytest.importorskip("datasets")
    for file in ("README.md", *FILES):
        (tmp_path / "data set" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data set" / file).write_text("words")
    link_out(tmp_path / "data set" / name, tmp_path / "data set")
    refusal(lambda: check_dataset(tmp_path / "data set"), name, OUTSIDE)


def test_a_zip_holds_the_checkpoint_s_own_files(folder, monkeypatch):
    class Named:
        name = "copy"

    monkeypatch.setattr(run_files, "save_run", lambda *_: folder)
    names = {path.name for path in folder.iterdir()}
    (folder / "notes").symlink_to("/etc/passwd")
    with zipfile.ZipFile(run_files.pack(None, Named)) as archive:
        assert {Path(name).name for name in archive.namelist() if not name.endswith("/")} == names
        assert archive.read("attn-copy/README.md") == (folder / "README.md").read_bytes()
    link_out(folder / "README.md")
    refusal(lambda: run_files.pack(None, Named), "README.md", OUTSIDE)


def test_a_card_and_its_pictures_are_the_folder_s_own(folder):
    assert "data:image/png;base64" in render_card(folder)
    link_out(folder / "map.png")
    assert "data:image" not in render_card(folder)
    link_out(folder / "README.md")
    refusal(lambda: read_card(folder), "README.md", OUTSIDE)
    refusal(lambda: write_collection(folder, {}), "README.md", OUTSIDE)


@pytest.mark.parametrize("kind", ["link out", "pipe"])
@pytest.mark.parametrize("name", [RUN, REPORTS, ".lock", f"{STATE}/progress.json", STATE])
def test_a_run_goes_on_with_its_own_files_only(tmp_path, kind, name):
    task, directory = build_task("copy"), tmp_path / "out"
    save_run(directory, Run(task, task.recipe))
    assert load_run(directory).task == task
    (directory / STATE).mkdir()
    if name == STATE:
        (directory / STATE).rmdir()
        (directory / STATE).symlink_to(tmp_path)
        words = OUTSIDE
    else:
        (directory / name).touch()
        words = make(kind, directory / name)
    if "/" in name:
        accelerator = build_accelerator("cpu")
        refusal(lambda: load_state(accelerator, None, directory / STATE), words)
    else:
        refusal(lambda: load_run(directory), name, words)
