"""Push a checkpoint to the Hub: only changed files, in one commit, then pulled back and compared."""

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from huggingface_hub import HfApi
from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError
from huggingface_hub.hf_api import ModelInfo

from hf_attn.checkpoints.save_load import load_checkpoint
from hf_attn.checkpoints.validate import (
    CODE,
    GENERATION,
    LARGEST_JSON,
    PICKLES,
    TRAINING,
    is_checkpoint_file,
    list_model_files,
)
from hf_attn.hub.client import (
    Compared,
    HubError,
    Progress,
    Sleep,
    call_with_retries,
    check_repo_id,
    check_revision,
    find_token,
    in_megabytes,
    join_names,
    open_hub,
)
from hf_attn.hub.commit import FolderCommit, refuse_public, stage_files
from hf_attn.hub.verify import compare_answers
from hf_attn.utils.folder_files import MODEL_FILES, read_file
from hf_attn.utils.text import quote
from hf_attn.viz.example_map import MAP

# files that some checkpoints have and others do not: a push removes the ones of an older checkpoint
MADE = CODE | {*PICKLES, GENERATION, TRAINING, MAP, "special_tokens_map.json"}


@dataclass(frozen=True)
class Pushed(Compared):
    """The result of a push.

    Attributes:
        repo_id: OWNER/NAME.
        url: the model's page, or the pull request's.
        commit: its hash; the last commit where nothing has changed.
        created: whether the repo is new.
        private: whether only its owner sees it.
        sent, removed: names of the files that the commit changed.
        left_out: names of files in the folder that belong to no checkpoint and stayed here.
        size: bytes of what was sent.
        differences: where the model answers otherwise once it is pulled back; empty if verified.
    """

    repo_id: str
    url: str
    commit: str
    created: bool
    private: bool
    sent: tuple[str, ...]
    removed: tuple[str, ...]
    left_out: tuple[str, ...]
    size: int
    differences: tuple[str, ...] = ()


def push_checkpoint(
    folder: str | Path,
    repo_id: str,
    *,
    token: str | bool | None = None,
    private: bool = True,
    message: str | None = None,
    revision: str | None = None,
    create_pr: bool = False,
    endpoint: str | None = None,
    sleep: Sleep = time.sleep,
) -> Iterator[Progress | Pushed]:
    """Push a checkpoint folder to a model repo of the Hub, then pull it back and compare.

    There is one commit: the repo is as it was, or holds the whole checkpoint. Whoever stops iterating before
    it leaves at most a new, empty repo; pushing again goes on with what has arrived. Files that an older
    checkpoint left in the repo are removed; other files stay.

    Args:
        folder: the checkpoint.
        repo_id: OWNER/NAME, or NAME for one of the token's owner; created if missing.
        token: may write; None takes the one that is logged in.
        private: of a repo that is created. A repo that exists stays as it is; with private=True a public one
            is refused.
        message: the commit's title.
        revision: a branch, created if missing (default: main).
        create_pr: propose it as a pull request to main.
        endpoint: of another Hub (default: HF_ENDPOINT).
        sleep: waits for so many seconds, where the Hub is busy.

    Yields:
        Progress, the stage "pushed" once the commit stands, and `Pushed` last.

    Raises:
        FileNotFoundError, ValueError: the folder is no checkpoint or has other code than the installed one,
            or no repo or branch can have that name.
        HubError: the Hub refused or could not be reached.
    """
    check_repo_id(repo_id)
    check_revision(revision)
    if create_pr and revision not in (None, "main"):
        raise ValueError(f"revision={quote(revision)} and create_pr=True: a pull request goes to main.")
    yield Progress("checking", f"Checking {folder}.")
    files = choose_files((checkpoint := load_checkpoint(folder)).path)
    api = open_hub(find_token(token), endpoint)
    yield Progress("connecting", f"Asking {api.endpoint} who may write.")
    repo_id = yield from _find_owner(api, repo_id, sleep)
    repo, created = yield from _open_repo(api, repo_id, private, revision, sleep)
    title = message or f"Push {checkpoint.path.resolve().name} with hf_attn"
    with stage_files(files) as staged:
        yield Progress("comparing", f"Comparing with {repo_id}{', which is new' if created else ''}.")
        commit = FolderCommit(api, repo.id, staged, title, MADE.__contains__, "model", revision, create_pr)
        changes = yield from call_with_retries(commit.compare, api, repo_id, sleep)
        size, what = sum((staged / name).stat().st_size for name in changes.sent), "Nothing has changed"
        if changes.sent or changes.removed:
            what = f"{len(changes.sent)} files, {in_megabytes(size)}"
            yield Progress("uploading", f"Uploading {what}.", total=size)
            made = yield from call_with_retries(commit, api, repo_id, sleep, repeat_when_cut=not create_pr)
            changes = replace(changes, commit=made.commit, url=made.url)
    yield Progress("pushed", f"{what}: {changes.url}", size, size)
    yield Progress("verifying", "Pulling it into an empty cache and letting it answer in a fresh process.")
    names = sorted(path.name for path in checkpoint.path.iterdir() if not path.is_dir())
    yield Pushed(
        repo_id=repo.id,
        url=changes.url,
        commit=changes.commit,
        created=created,
        private=bool(repo.private),
        sent=changes.sent,
        removed=changes.removed,
        left_out=tuple(name for name in names if name not in files),
        size=size,
        differences=compare_answers(checkpoint, api, repo.id, changes.commit),
    )


def choose_files(folder: Path) -> dict[str, Path]:
    """Choose the files of a checkpoint to push: name → path; the code is the installed one.

    ValueError where a file may not be read, or code beside the weights is not the installed one.
    """
    files = {name: path for name, path in list_model_files(folder).items() if is_checkpoint_file(name)}
    code = {name: MODEL_FILES / name for name in files if name in CODE}
    other = [
        name for name, path in code.items() if read_file(folder, name, LARGEST_JSON) != path.read_bytes()
    ]
    if other:
        raise ValueError(
            f"{folder} holds files that are not the code of the installed hf_attn ({join_names(other)}), and "
            "whoever loads what is pushed runs it. Load the checkpoint and save it again with this version "
            "(save_checkpoint), or delete these files."
        )
    return files | code


def _find_owner(api: HfApi, repo_id: str, sleep: Sleep) -> Generator[Progress, None, str]:
    """The id with its owner; refuses a token that may only read."""
    who = yield from call_with_retries(api.whoami, api, repo_id, sleep)
    full_id = repo_id if "/" in repo_id else f"{who['name']}/{repo_id}"
    if (who.get("auth") or {}).get("accessToken", {}).get("role") == "read":
        raise HubError(
            f"The token of {who['name']} may only read, and pushing to {full_id} writes: make one with write "
            "access at https://huggingface.co/settings/tokens.",
            status=403,
        )
    return full_id


def _open_repo(
    api: HfApi, repo_id: str, private: bool, revision: str | None, sleep: Sleep
) -> Generator[Progress, None, tuple[ModelInfo, bool]]:
    """(the repo, whether it was created now); its branch is created too if missing."""

    def find() -> ModelInfo | None:
        try:
            return api.model_info(repo_id)
        except RepositoryNotFoundError as error:
            if error.response.status_code != 404:  # a token that is not known
                raise
            return None

    def open_branch() -> None:
        try:
            api.model_info(repo_id, revision=revision)
        except RevisionNotFoundError:
            api.create_branch(repo_id, branch=str(revision), exist_ok=True)

    def create() -> ModelInfo:
        api.create_repo(repo_id, private=private, exist_ok=True)
        return api.model_info(repo_id)

    repo = yield from call_with_retries(find, api, repo_id, sleep)
    if created := repo is None:
        yield Progress("creating", f"Making {repo_id}, {'private' if private else 'public'}.")
        repo = yield from call_with_retries(create, api, repo_id, sleep)
    refuse_public(repo, private)
    if revision not in (None, "main"):
        yield from call_with_retries(open_branch, api, repo_id, sleep)
    return repo, created
