"""Pushing a checkpoint: what arrives, what is refused in which words, and that a repo is old or new."""

import json
import multiprocessing
import shutil
import time
import traceback

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import OfflineModeIsEnabled
from safetensors.torch import load, save

from hf_attn.hub.client import HubError, Progress, explain
from hf_attn.hub.commit import FolderCommit
from hf_attn.hub.push import push_checkpoint
from hf_attn.hub.verify import find_differences
from tests.support.hub_server import push_folder as push
from tests.support.hub_server import serve_hub
from tests.support.matrix import rows

REPO = "ada/copy"
MOMENTS = (("upload", "body"), ("commit", "reply"))  # at which a push is killed every time
LARGE = 10_000  # bytes from which the killed pushes go by Git LFS: the weights and the training record


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def titles(hub, revision="main"):
    return [commit["title"] for commit in hub.repo(REPO).history(revision)]


def routes(hub):
    return [route for route, _ in hub.requests]


# What arrives


def test_only_what_changed_is_sent_and_nothing_where_nothing_did(hub, folder):
    push(hub, folder)
    assert push(hub, folder)[-1].message.startswith("Nothing has changed")
    assert len(titles(hub)) == 2
    repo, store = hub.repo(REPO), hub.store
    files = {name: store.keep(data, is_large=len(data) > LARGE) for name, data in bytes_of(folder).items()}
    repo.add_commit("refs/heads/main", repo.resolve("main"), "by git lfs", "ada", files)
    assert push(hub, folder)[-1].message.startswith("Nothing has changed"), "compared by their sha256"
    (folder / "README.md").write_text("---\nlicense: mit\n---\nAnother card.")
    assert "Uploading 1 files" in push(hub, folder)[-2].message
    newest, before = hub.repo(REPO).history()[:2]
    changed = {name for name in newest["files"] if newest["files"][name] != before["files"].get(name)}
    assert changed == {"README.md"}


def test_what_an_old_checkpoint_left_is_removed_and_what_is_not_a_checkpoint_s_stays(hub, folder):
    api = HfApi(endpoint=hub.endpoint, token=hub.token)
    api.create_repo(REPO, private=True)
    for name in ("modeling_recurrent.py", "pytorch_model.bin", "notes.md", "LICENSE", "banner.png"):
        api.upload_file(path_or_fileobj=b"old", path_in_repo=name, repo_id=REPO)
    push(hub, folder)
    assert set(hub.repo(REPO).files()) == {*bytes_of(folder), "notes.md", "LICENSE", "banner.png"}


def test_a_new_repo_is_private_and_holds_the_checkpoint_s_files_byte_for_byte_and_no_others(hub, folder):
    whole = bytes_of(folder)
    for name in (".env", "run.json", "state.pt", "mine.py"):
        (folder / name).write_text("secret")
    (folder / "state").mkdir()
    stages = [report.stage for report in push(hub, folder)]
    assert stages == ["checking", "connecting", "creating", "comparing", "uploading", "pushed"]
    assert hub.repo(REPO).files() == whole
    assert hub.repo(REPO).settings["private"]
    assert titles(hub) == ["Push attn-copy with hf_attn", "initial commit"]


def test_a_pull_request_and_a_branch_leave_main_as_it_is(hub, folder):
    for _ in range(2):
        push(hub, folder, revision="try/2")  # made where there is none
    assert push(hub, folder, create_pr=True)[-1].message.endswith(f"/{REPO}/discussions/1")
    assert hub.repo(REPO).files("try/2") == hub.repo(REPO).files("refs/pr/1") == bytes_of(folder)
    assert len(titles(hub, "try/2")) == 2
    assert hub.repo(REPO).files("main") == {}


def test_what_is_compared_is_the_commit_that_was_made(hub, folder, monkeypatch):
    compared = []
    monkeypatch.setattr(
        "hf_attn.hub.push.compare_answers", lambda checkpoint, api, *what: compared.append(what) or ()
    )
    *_, pushed = push_checkpoint(folder, REPO, token=hub.token, endpoint=hub.endpoint, revision="try/2")
    assert compared == [(REPO, hub.repo(REPO).resolve("try/2"))] == [(REPO, pushed.commit)]


def test_what_another_pushed_meanwhile_is_not_overwritten(hub, folder, monkeypatch):
    push(hub, folder)
    (folder / "README.md").write_text("another card")
    compare, repo = FolderCommit.compare, hub.repo(REPO)

    def compare_and_be_late(commit):
        changes = compare(commit)
        added = {"notes.txt": hub.store.keep(b"by another")}
        repo.add_commit("refs/heads/main", repo.resolve("main"), "meanwhile", "ada", added)
        return changes

    monkeypatch.setattr(FolderCommit, "compare", compare_and_be_late)
    with pytest.raises(HubError, match="changed meanwhile"):
        push(hub, folder)
    assert titles(hub)[0] == "meanwhile"


# What is refused before anything is asked


@pytest.mark.parametrize(
    "repo", ["a b/copy", "ada/copy/again", "ada/", "", "ada/co--py", "ada/x.git", "ada/ü"]
)
def test_a_wrong_name_or_branch_and_no_token_are_refused_before_any_request(hub, folder, repo):
    for settings, words in (
        ({"revision": "a b"}, "branch"),
        ({"revision": "../x"}, "branch"),
        ({"revision": "v1", "create_pr": True}, "pull request"),
    ):
        with pytest.raises(ValueError, match=words):
            push(hub, folder, **settings)
    with pytest.raises(HubError, match="hf auth login"):
        push(hub, folder, token=False)
    with pytest.raises(ValueError, match="OWNER/NAME") as refused:
        push(hub, folder, repo)
    assert "\n" not in str(refused.value)
    assert hub.requests == []


# What the Hub refuses


def test_tokens_that_may_not_write_are_told_apart(hub, folder):
    with pytest.raises(HubError, match="may only read"):
        push(hub, folder, token=hub.read_token)
    with pytest.raises(HubError, match="does not know this token"):
        push(hub, folder, token="hf_revoked")
    with pytest.raises(HubError, match=r"may not do that to bob/copy \(403\)"):
        push(hub, folder, "bob/copy")
    assert hub.store.names() == []


@pytest.mark.parametrize(("route", "status", "words"), [
    ("create", 403, "may not do that"),
    ("commit", 403, "take one that may write"),
    ("commit", 404, "no such file or revision"),
    ("commit", 409, "choose another name"),
    ("commit", 412, "push again"),
    ("commit", 413, "more than the Hub takes"),
    ("commit", 422, "refused \\(422\\)"),
])  # fmt: skip
def test_each_refusal_has_its_sentence_and_leaves_the_repo_as_it_was(hub, folder, route, status, words):
    hub.fail(route, status, message=f"because of {hub.token}")
    with pytest.raises(HubError, match=words) as refused:
        push(hub, folder)
    assert refused.value.status == status
    assert "because of hf_…" in str(refused.value)
    assert hub.token not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert all(hub.store.open(kind, name).files() == {} for kind, name in hub.store.names())


def test_a_repo_that_another_made_meanwhile_is_used(hub, folder):
    HfApi(endpoint=hub.endpoint, token=hub.token).create_repo(REPO, private=True)
    hub.fail("info", 404, headers={"X-Error-Code": "RepoNotFound"})
    push(hub, folder)
    assert "create" in routes(hub)[2:]
    assert hub.repo(REPO).files() == bytes_of(folder)


def test_a_public_repo_is_not_pushed_to_as_private(hub, folder):
    HfApi(endpoint=hub.endpoint, token=hub.token).create_repo(REPO, private=False)
    with pytest.raises(HubError, match="everybody would see it"):
        push(hub, folder)
    push(hub, folder, private=False)
    assert hub.repo(REPO).files() == bytes_of(folder)
    (folder / "README.md").write_text("---\nlicense: none\n---\nAnother card.")
    hub.fail("validate", 400, message="license: must be one of …")
    with pytest.raises(HubError, match=r"Invalid metadata in README\.md\. - license: must be one"):
        push(hub, folder, private=False)


# What passes


def test_a_busy_hub_is_asked_again_after_as_long_as_it_says(hub, folder):
    hub.fail("commit", 503, times=2)
    hub.fail("commit", 429, headers={"Retry-After": "7"})
    waits = []
    reports = push(hub, folder, sleep=waits.append)
    assert waits == [1, 2, 7]
    waiting = [report.message for report in reports if report.stage == "waiting"]
    assert waiting[-1] == "The Hub answered 429; asking again in 7 s (3 of 3)."
    assert hub.repo(REPO).files() == bytes_of(folder)


def test_a_hub_that_stays_busy_is_given_up(hub, folder):
    hub.fail("create", 500, times=9)
    waits = []
    with pytest.raises(HubError, match=r"trouble of its own \(500\)"):
        push(hub, folder, sleep=waits.append)
    assert waits == [1, 2, 4]
    hub.fail("whoami", 429, headers={"Retry-After": "3600"})
    with pytest.raises(HubError, match="in 3600 s"):
        push(hub, folder, sleep=waits.append)
    assert waits == [1, 2, 4], "nobody waits an hour"


def test_no_network_is_a_sentence_too(folder):
    waits = []
    with pytest.raises(HubError, match="cannot be reached"):
        for _ in push_checkpoint(
            folder, REPO, token="hf_x", endpoint="http://127.0.0.1:9", sleep=waits.append
        ):
            pass
    assert waits == [1, 2, 4]
    assert "HF_HUB_OFFLINE is set" in explain(OfflineModeIsEnabled(), HfApi(), REPO)


@pytest.mark.parametrize("at", ["request", "body", "reply"])
def test_a_cut_connection_ends_in_one_whole_commit(hub, folder, at):
    hub.cut("commit", at=at)
    assert "was cut" in next(report.message for report in push(hub, folder) if report.stage == "waiting")
    assert hub.repo(REPO).files() == bytes_of(folder)
    assert len(titles(hub)) == 2, "the commit whose answer was lost is not made again"


def test_a_cut_pull_request_is_not_opened_twice(hub, folder):
    hub.cut("commit", at="reply")
    with pytest.raises(HubError, match="was cut"):
        push(hub, folder, create_pr=True)
    assert [name for name in hub.repo(REPO).refs if "pr" in name] == ["refs/pr/1"]


# The token


def test_the_token_is_nowhere_but_in_requests(hub, folder, tmp_path, caplog):
    caplog.set_level("DEBUG")
    told = [repr(report) for report in push(hub, folder)]
    told += [record.getMessage() for record in caplog.records]
    assert len(told) > 50
    caplog.set_level("CRITICAL")  # the libraries log what the Hub answers, and this one repeats the token
    hub.fail("commit", 503, message=hub.token)
    hub.fail("commit", 403, message=hub.token)
    (folder / "README.md").write_text("another")
    with pytest.raises(HubError) as refused:
        push(hub, folder)
    told += ["".join(traceback.format_exception(refused.value)), repr(vars(refused.value))]
    assert not [text for text in told if hub.token in text]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert not [path for path in files if hub.token.encode() in path.read_bytes()]


# Killed


def _push_in_a_process(folder, token, endpoint):
    """The target of a process that is killed."""
    for report in push_checkpoint(folder, REPO, token=token, endpoint=endpoint):
        if isinstance(report, Progress) and report.stage == "pushed":
            return


@pytest.fixture(scope="module")
def processes():
    """Real processes that can be killed; the modules are imported once for all of them."""
    context = multiprocessing.get_context("forkserver")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_DISABLE_XET", "1")
        patch.setenv("OMP_NUM_THREADS", "1")
        context.set_forkserver_preload(["hf_attn.hub.push"])
        yield context


@pytest.mark.parametrize(
    "moment_of_push",
    rows([*MOMENTS, ("create", "reply"), ("preupload", "reply"), ("commit", "body")], MOMENTS, "-".join),
)
def test_killed_in_mid_push_the_repo_is_old_or_new_and_repeating_finishes(
    tiny_checkpoint, tmp_path, processes, moment_of_push
):
    route, at = moment_of_push
    folder = shutil.copytree(tiny_checkpoint, tmp_path / "attn-copy")
    with serve_hub(tmp_path, large_from=LARGE) as hub:
        arguments = (folder, hub.token, hub.endpoint)
        moment = hub.hold(route, at=at)
        process = processes.Process(target=_push_in_a_process, args=arguments)
        process.start()
        assert moment.reached.wait(600), hub.requests
        process.kill()
        process.join()
        assert process.exitcode == -9
        moment.release.set()
        settle(hub)
        found = hub.repo(REPO).files()
        assert found in ({}, bytes_of(folder))
        if at == "reply":
            assert (found != {}) == (route == "commit")
        again = processes.Process(target=_push_in_a_process, args=arguments)
        again.start()
        again.join(600)
        assert again.exitcode == 0
        assert hub.repo(REPO).files() == bytes_of(folder)
        assert len(titles(hub)) == 2


def settle(hub):
    """Let the server finish with whoever is gone."""
    while hub.serving:
        time.sleep(0.01)


# Comparing


@pytest.mark.nightly
def test_a_fresh_process_tells_that_the_hub_has_other_weights(hub, folder):
    reports = push_checkpoint(folder, REPO, token=hub.token, endpoint=hub.endpoint)
    assert next(report for report in reports if report.stage == "pushed")
    blob = hub.repo(REPO).blob(hub.repo(REPO).entries()["model.safetensors"])
    weights = {name: -tensor for name, tensor in load(blob.read_bytes()).items()}
    blob.write_bytes(save(weights, {"format": "pt"}))
    *_, pushed = reports
    assert not pushed.verified
    assert len(pushed.differences) == 4
    hub.fail("resolve", 403, times=99)
    *_, pushed = push_checkpoint(folder, REPO, token=hub.token, endpoint=hub.endpoint)
    assert "it could not be pulled back" in pushed.differences[0]


def test_answers_that_differ_are_told():
    here = [{"ids": [1, 2], "scores": [[0.0, 1.0]]}, {"ids": [], "scores": [[5.0, float("nan")]]}]
    assert find_differences(here, json.loads(json.dumps(here))) == ()
    written = [{**here[0], "ids": [1, 3]}, here[1]]
    assert find_differences(here, written) == ("source 1: there it writes [1, 3], here [1, 2]",)
    near = [{**here[0], "scores": [[0.0, 1.00005]]}, {"ids": [], "scores": [[5.001, float("nan")]]}]
    assert find_differences(here, near) == ("source 2: the scores are up to 1.0e-03 apart",)
    other = [here[0], {"ids": [], "scores": [[5.0]]}]
    assert "another shape" in find_differences(here, other)[0]
