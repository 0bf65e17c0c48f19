"""A folder's files to a repo of the Hub in one commit: the repo is as it was, or as the folder is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import HfHubHTTPError

from hf_attn.hub.client import HubError, is_same


@dataclass(frozen=True)
class Committed:
    """What the Hub has now.

    Attributes:
        url: of the repo, or of the pull request.
        commit: its hash; the one that was there where nothing has changed.
        sent, removed: names of the files that the commit changed.
    """

    url: str
    commit: str
    sent: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def refuse_public(there, private: bool) -> None:
    """Refuse to push what is to be private to a repo of which `repo_info` told that everybody sees it.

    Raises:
        HubError: the repo is public.
    """
    if private and not there.private:
        raise HubError(
            f"{there.id} is there and public, and this is to be private: everybody would see it. Choose "
            "another name, or push it as public (private=False; --public, or of a Space no --private)."
        )


@dataclass(frozen=True)
class FolderCommit:
    """A commit that is compared anew each time it is tried: a lost answer may have been a yes.

    Attributes:
        api: the Hub.
        repo_id: of the repo, which is there.
        files: that the repo is to have: name there → where it is read.
        title: the commit's.
        is_ours: which files of the repo go where there is none of that name here; any other stays.
        repo_type: "model", "dataset" or "space".
        revision: a branch; main where None.
        create_pr: propose it as a pull request to main.
    """

    api: HfApi
    repo_id: str
    files: Mapping[str, Path]
    title: str
    is_ours: Callable[[str], bool]
    repo_type: str = "model"
    revision: str | None = None
    create_pr: bool = False

    def compare(self, there) -> Committed:
        """What the commit would change in a repo of which `repo_info` with files_metadata told this."""
        on_hub = {file.rfilename: file for file in getattr(there, "siblings", None) or []}
        sent = [
            name for name, path in self.files.items() if name not in on_hub or not is_same(path, on_hub[name])
        ]
        removed = sorted(name for name in set(on_hub) - set(self.files) if self.is_ours(name))
        kind = "" if self.repo_type == "model" else f"{self.repo_type}s/"
        url = f"{self.api.endpoint}/{kind}{self.repo_id}"
        return Committed(url, str(there.sha), tuple(sent), tuple(removed))

    def __call__(self) -> Committed:
        """Compare and commit.

        Raises:
            HfHubHTTPError, TransportError: the Hub refused or could not be reached.
            HubError: huggingface_hub refused a file.
        """
        changes = self.compare(
            self.api.repo_info(
                self.repo_id, repo_type=self.repo_type, revision=self.revision, files_metadata=True
            )
        )
        if not changes.sent and not changes.removed:
            return changes
        try:
            made = self.api.create_commit(
                self.repo_id,
                [CommitOperationAdd(name, self.files[name]) for name in changes.sent]
                + [CommitOperationDelete(name) for name in changes.removed],
                commit_message=self.title,
                repo_type=self.repo_type,
                revision=self.revision,
                create_pr=self.create_pr,
                parent_commit=changes.commit,
            )
        except (RuntimeError, ValueError) as error:
            raise self._why(error) from None
        return Committed(made.pr_url or changes.url, made.oid, changes.sent, changes.removed)

    def _why(self, error: Exception) -> Exception:
        """What huggingface_hub wrapped, or the sentence in which it refused a file."""
        if isinstance(error, HfHubHTTPError):
            return error
        if isinstance(error.__cause__, Exception) and isinstance(error, RuntimeError):
            return error.__cause__  # "Error while uploading": an answer, or a cut connection
        return HubError(f"{self.repo_id} was not changed: {' '.join(str(error).split())}")
