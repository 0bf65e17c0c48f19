"""A folder's files to a repo of the Hub in one commit: the repo is as it was, or as the folder is."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import HfHubHTTPError

from hf_attn.hub.client import HubError
from hf_attn.utils.atomic_write import copy_files, scratch_directory


@dataclass(frozen=True)
class Committed:
    """What the Hub has now.

    The url is of the repo or the pull request; the commit's hash is the last one's where nothing has changed;
    `sent` and `removed` name the files that it changed.
    """

    url: str
    commit: str
    sent: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def refuse_public(info, private: bool) -> None:
    """Refuse to push what is to be private to a repo that everybody sees, by its `HfApi.repo_info`."""
    if private and not info.private:
        raise HubError(
            f"{info.id} exists and is public, and this is to be private: everybody would see it. Choose "
            "another name, or push it as public (private=False; --public, or of a Space no --private)."
        )


@contextlib.contextmanager
def stage_files(files: Mapping[str, Path]) -> Iterator[Path]:
    """Give a temporary folder with a copy of each file under its name, no links and nothing else."""
    with scratch_directory() as folder:
        copy_files(files, folder)
        yield folder


@dataclass(frozen=True)
class FolderCommit:
    """One commit of all files in a folder to a repo that exists (`HfApi.upload_folder` may make several).

    `is_ours` says which files of the repo are removed where the folder has none of that name; others stay.
    The revision is a branch, main where None; `create_pr` proposes the commit as a pull request to main.
    """

    api: HfApi
    repo_id: str
    folder: Path
    title: str
    is_ours: Callable[[str], bool]
    repo_type: str = "model"
    revision: str | None = None
    create_pr: bool = False

    def compare(self) -> Committed:
        """What the commit would change in the repo as it is now."""
        info = self.api.repo_info(self.repo_id, repo_type=self.repo_type, revision=self.revision)
        found = self.api.verify_repo_checksums(
            self.repo_id, repo_type=self.repo_type, revision=info.sha, local_dir=self.folder
        )
        changed = [file["path"] for file in found.mismatches]
        kind = "" if self.repo_type == "model" else f"{self.repo_type}s/"
        return Committed(
            url=f"{self.api.endpoint}/{kind}{self.repo_id}",
            commit=str(info.sha),
            sent=tuple(sorted([*found.extra_paths, *changed])),
            removed=tuple(filter(self.is_ours, found.missing_paths)),
        )

    def __call__(self) -> Committed:
        """Compare and commit. It compares each time it is called: after a lost answer the commit may stand.

        Raises:
            HfHubHTTPError, TransportError: the Hub refused or could not be reached.
            HubError: huggingface_hub refused a file.
        """
        changes = self.compare()
        if not changes.sent and not changes.removed:
            return changes
        try:
            made = self.api.create_commit(
                self.repo_id,
                [CommitOperationAdd(name, self.folder / name) for name in changes.sent]
                + [CommitOperationDelete(name) for name in changes.removed],
                commit_message=self.title,
                repo_type=self.repo_type,
                revision=self.revision,
                create_pr=self.create_pr,
                parent_commit=changes.commit,
            )
        except (RuntimeError, ValueError) as error:
            raise self._find_cause(error) from None
        return Committed(made.pr_url or changes.url, made.oid, changes.sent, changes.removed)

    def _find_cause(self, error: Exception) -> Exception:
        """What huggingface_hub wrapped, or the sentence in which it refused a file."""
        if isinstance(error, HfHubHTTPError):
            return error
        if isinstance(error.__cause__, Exception) and isinstance(error, RuntimeError):
            return error.__cause__  # "Error while uploading": an answer, or a cut connection
        return HubError(f"{self.repo_id} was not changed: {' '.join(str(error).split())}")
