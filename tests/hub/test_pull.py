"""Pulling a checkpoint: what arrives, what is refused, and that local files come to no harm."""

import contextlib
import json
import resource
import shutil

import pytest

from hf_attn.checkpoints.save_load import load_checkpoint
from hf_attn.hub.client import HubError
from hf_attn.hub.pull import Pulled, pull_checkpoint
from tests.support.hub_server import serve_hub

REPO = "ada/copy"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """One Hub for all tests; each takes a repo of its own in it."""
    with serve_hub(tmp_path_factory.mktemp("hub")) as hub:
        yield hub


@pytest.fixture
def hub(served):
    """The Hub without repos and troubles."""
    shutil.rmtree(served.store.root / "repos", ignore_errors=True)
    served.troubles.clear()
    served.requests.clear()
    return served


@pytest.fixture
def folder(tiny_checkpoint, tmp_path):
    """A copy that a test may change before it goes up."""
    return shutil.copytree(tiny_checkpoint, tmp_path / "local" / "attn-copy")


def put(hub, folder, removed=(), **more):
    """A private repo with a folder's files and more, as anybody may have made it."""
    content = {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in removed}
    return hub.store.put(REPO, content | more)


def pull(hub, directory, **settings):
    """The result, all reports before it left out."""
    settings = {"token": hub.token, "endpoint": hub.endpoint, "sleep": lambda _: None, **settings}
    *_, pulled = pull_checkpoint(REPO, directory, **settings)
    assert isinstance(pulled, Pulled)
    return pulled


def edit_json(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# What arrives


def test_what_arrives_is_what_was_pushed_and_loads(hub, folder, tmp_path):
    put(hub, folder)
    pulled = pull(hub, tmp_path / "pulled")
    assert bytes_of(tmp_path / "pulled") == bytes_of(folder)
    assert pulled.verified
    assert pulled.commit == hub.repo(REPO).resolve("main")
    assert pulled.size == sum((folder / name).stat().st_size for name in pulled.files)
    assert load_checkpoint(tmp_path / "pulled").task.encode("1 2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["local", "pulled"], "nothing is left beside"
    reports = list(pull_checkpoint(REPO, tmp_path / "pulled", token=hub.token, endpoint=hub.endpoint))
    loading = [report for report in reports[:-1] if report.stage == "downloading"]
    assert [report.message.split(",")[0] for report in loading[:2]] == ["training.json", "config.json"]
    assert [report.done for report in loading] == sorted(report.done for report in loading)
    assert {report.total for report in loading} == {reports[-1].size}


def test_code_in_the_repo_never_arrives_and_the_installed_code_stands_in(hub, folder, tmp_path):
    evil = b"raise SystemExit('this code ran')"
    put(
        hub,
        folder,
        **{"modeling_attn_seq2seq.py": evil, "evil.py": evil, "custom_generate/generate.py": evil},
    )
    pulled = pull(hub, tmp_path / "pulled")
    assert bytes_of(tmp_path / "pulled") == bytes_of(folder)
    assert {"modeling_attn_seq2seq.py", "evil.py"} < set(pulled.left_out)
    assert not [path for _, path in hub.requests if path.endswith(".py")]


def test_a_revision_is_pulled_as_it_was(hub, folder, tmp_path):
    first = put(hub, folder).resolve("main")
    (folder / "README.md").write_text("another card")
    repo = put(hub, folder)
    repo.point("refs/tags/v1", first)
    for revision in (first, "v1"):
        assert pull(hub, tmp_path / "pulled", revision=revision).commit == first
    assert (tmp_path / "pulled" / "README.md").read_text() != "another card"
    with pytest.raises(HubError, match="no such revision"):
        pull(hub, tmp_path / "pulled", revision="v2")


def test_a_model_that_answers_otherwise_than_it_says_is_told(hub, folder, tmp_path):
    said = json.loads((folder / "training.json").read_text())["worked_example"]
    edit_json(folder / "training.json", worked_example={**said, "prediction": "9 9 9"})
    put(hub, folder)
    (difference,) = pull(hub, tmp_path / "pulled").differences
    assert said["prediction"] in difference
    assert "9 9 9" in difference


# What the list of files says


def test_what_is_no_checkpoint_is_refused_by_its_list_of_files(hub, folder, tmp_path):
    weights = "model.safetensors"
    for removed, more, words in (
        ((weights,), {"pytorch_model.bin": b"x"}, r"only as a pickle \(pytorch_model.bin\)"),
        ((weights,), {f"{weights}.index.json": b"x"}, "in several files"),
        ((weights, "config.json"), {"card.md": b"x"}, r"no config.json, model.safetensors"),
        (("tokenizer.json",), {}, "no tokenizer.json"),
    ):
        shutil.rmtree(hub.store.root / "repos", ignore_errors=True)
        put(hub, folder, removed=removed, **more)
        with pytest.raises(ValueError, match=words):
            pull(hub, tmp_path / "pulled")
    put(hub, folder)
    with pytest.raises(ValueError, match=r"0\.\d MB; at most 10\.0 kB"):
        pull(hub, tmp_path / "pulled", largest=10_000)
    largest = max(path.stat().st_size for path in folder.iterdir())
    with pytest.raises(ValueError, match="are pulled"):  # none is larger, all together are
        pull(hub, tmp_path / "pulled", largest=largest)
    assert not [route for route, _ in hub.requests if route.startswith("resolve")]
    assert not (tmp_path / "pulled").exists()


# What the files say


@pytest.mark.parametrize(("changes", "words"), [
    ({"flux_capacitor": 1}, r"fields that hf_attn does not know: flux_capacitor.*pip install -U hf-attn"),
    ({"model_type": "attn_hologram"}, r"'attn_hologram'.*saved by hf_attn 99\.0.*pip install -U"),
    ({"auto_map": {"AutoModel": "evil.Model"}}, "code that is not hf_attn's.*evil.Model.*not run"),
    ({"auto_map": {"AutoConfig": "bob/x--configuration_attn_seq2seq.AttnSeq2SeqConfig"}}, "bob/x--"),
    ({"hidden_size": 64}, "has shape"),
])  # fmt: skip
def test_a_checkpoint_that_is_not_loaded_here_is_one_sentence_with_the_repo_s_name(
    hub, folder, tmp_path, changes, words
):
    edit_json(folder / "training.json", versions={"hf_attn": "99.0"})
    edit_json(folder / "config.json", **changes)
    put(hub, folder)
    with pytest.raises(ValueError, match=words) as refused:
        pull(hub, tmp_path / "pulled")
    assert str(refused.value).startswith((REPO, f"{REPO}/"))
    assert "\n" not in str(refused.value)
    assert str(tmp_path) not in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["local"]


# Who may


def test_private_missing_and_gated_repos_are_told_apart(hub, folder, tmp_path):
    repo = put(hub, folder)
    bob = hub.add_user("bob")
    for token, words in ((False, "log in"), (bob, "may not see it"), ("hf_old", "not know this token")):
        with pytest.raises(HubError, match=words):
            pull(hub, tmp_path / "pulled", token=token)
    repo.configure(private=False, gated="manual")
    with pytest.raises(HubError, match="ask for access"):
        pull(hub, tmp_path / "pulled", token=bob)
    repo.configure(gated=False)
    assert pull(hub, tmp_path / "pulled", token=False).files
    with pytest.raises(HubError, match="no repo ada/other"):
        list(pull_checkpoint("ada/other", tmp_path / "x", token=hub.read_token, endpoint=hub.endpoint))


# Local files


@pytest.fixture
def precious(tiny_checkpoint, tmp_path):
    """A checkpoint that stands where one is pulled to."""
    there = shutil.copytree(tiny_checkpoint, tmp_path / "pulled")
    (there / "README.md").write_text("mine")
    return there


def test_a_checkpoint_is_replaced_and_nothing_else(hub, folder, precious, tmp_path):
    put(hub, folder)
    pull(hub, precious)
    assert bytes_of(precious) == bytes_of(folder)
    (precious / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"thesis\.txt.*no part of a checkpoint"):
        pull(hub, precious)
    with pytest.raises(ValueError, match="holds no checkpoint"):
        pull(hub, tmp_path / "local")
    with pytest.raises(ValueError, match="is a file"):
        pull(hub, precious / "thesis.txt")


def spoil(content):
    """Other bytes, as many."""
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize(("served_bytes", "words"), [
    (lambda content: content[:1000], "did not arrive whole"),
    (spoil, "arrived with other bytes than the Hub says"),
], ids=["truncated", "spoilt"])  # fmt: skip
def test_bytes_that_are_not_the_hub_s_own_leave_local_files_unharmed(
    hub, folder, precious, served_bytes, words
):
    repo, before = put(hub, folder), bytes_of(precious)
    blob = repo.blob(repo.entries()["model.safetensors"])
    content = blob.read_bytes()
    blob.write_bytes(served_bytes(content))
    with pytest.raises(HubError, match=f"model.safetensors of {REPO} {words}"):
        pull(hub, precious)
    assert bytes_of(precious) == before
    blob.write_bytes(content)


def test_a_cut_download_goes_on_where_it_was(hub, folder, tmp_path):
    put(hub, folder)
    hub.cut("resolve", path="model.safetensors")
    assert pull(hub, tmp_path / "pulled").verified
    asked = [route for route, path in hub.requests if path.endswith("safetensors")]
    assert asked == ["resolve head", "resolve", "resolve"]
    hub.fail("resolve", 425, path="model.safetensors", headers={"Retry-After": "7"})
    waits = []
    assert pull(hub, tmp_path / "later", sleep=waits.append).verified
    assert waits == [7], "a file that the Hub gives later is waited for"


@contextlib.contextmanager
def little_disk(size):
    """No file may grow beyond this, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_local_files_unharmed(hub, folder, precious, tmp_path):
    put(hub, folder)
    before = bytes_of(precious)
    with (
        little_disk(50_000),
        pytest.raises(OSError, match="could not be written and is as it was") as refused,
    ):
        pull(hub, precious)
    assert not isinstance(refused.value, HubError)
    assert bytes_of(precious) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["local", "pulled"]
