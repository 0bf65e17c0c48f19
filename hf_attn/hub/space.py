"""The app as a Space of the Hub: the exact folder to push, made of this repository, and pushing it."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi, metadata_load, metadata_save

from hf_attn.checkpoints.save_load import list_checkpoints
from hf_attn.hub.client import (
    Progress,
    Sleep,
    call_with_retries,
    check_repo_id,
    find_token,
    in_megabytes,
    open_hub,
)
from hf_attn.hub.commit import Committed, FolderCommit, refuse_public
from hf_attn.utils.atomic_write import FolderKind, atomic_directory, copy_files, scratch_directory
from hf_attn.utils.folder_files import find_file, read_file
from hf_attn.utils.text import quote

ROOT = Path(__file__).parents[2]
README, REQUIREMENTS, ATTRIBUTES = "README.md", "requirements.txt", ".gitattributes"
FILES = (README, "app.py", REQUIREMENTS)
FOLDERS = ("demos", "hf_attn", "model_cards")
PICTURE = re.compile(r"!\[[^]]*\]\((docs/[^)]+)\)")  # that the README shows; the first is the thumbnail
LARGE = ("*.safetensors", "*.png")  # a Space takes no binary file outside of LFS
NEEDED = (
    *("title", "sdk", "sdk_version", "python_version", "app_file"),
    *("short_description", "license", "tags", "hf_oauth", "hf_oauth_scopes"),
)
LONGEST_DESCRIPTION = 60
LARGEST_TEXT = 1_000_000  # bytes of the README


@dataclass(frozen=True)
class SpaceFolder:
    """A folder that is ready to push, the names of the files in it, and their bytes in all."""

    path: Path
    files: tuple[str, ...]
    size: int


def list_sources(root: Path = ROOT) -> dict[str, Path]:
    """The repository's files that run the app, without what Python and editors leave: name → path.

    FileNotFoundError: hf_attn is installed without its repository. ValueError: a link leads out of it.
    """
    for name in (*FILES, *FOLDERS):
        if not (root / name).exists():
            raise FileNotFoundError(
                f"{root / name} is missing: a Space is made of the whole repository; work in a clone."
            )
    names = [*FILES, *PICTURE.findall(read_file(root, README, LARGEST_TEXT).decode("utf-8"))]
    paths = (path.relative_to(root) for folder in FOLDERS for path in sorted((root / folder).rglob("*")))
    names += [
        path.as_posix()
        for path in paths
        if not any(part.startswith((".", "__pycache__")) for part in path.parts)
    ]
    return {name: file for name in names if (file := find_file(root, name)) is not None}


def check_metadata(metadata: dict, root: Path = ROOT) -> None:
    """Refuse front matter from which the Hub would not build the app."""
    if missing := [key for key in NEEDED if not metadata.get(key)]:
        raise ValueError(f"{README}: its front matter lacks {', '.join(missing)}.")
    pinned = re.search(r"(?m)^gradio==(\S+)$", (root / "constraints.txt").read_text(encoding="utf-8"))
    version = pinned.group(1) if pinned else None
    wanted = {"sdk": "gradio", "sdk_version": version, "app_file": "app.py", "hf_oauth": True}
    for key, value in wanted.items():
        if metadata[key] != value:
            raise ValueError(f"{README}: {key}={metadata[key]!r} must be {value!r}, what the tests ran with.")
    if len(description := metadata["short_description"]) > LONGEST_DESCRIPTION:
        raise ValueError(
            f"{README}: short_description has {len(description)} characters; "
            f"the Hub takes {LONGEST_DESCRIPTION}: shorten it."
        )


def assemble_space(directory: str | Path, metadata: dict | None = None, root: Path = ROOT) -> SpaceFolder:
    """Put together the folder that a Space is pushed from, whole or not at all; an older Space is replaced.

    `metadata` stands in the front matter in place of the README's own. FileNotFoundError where the repository
    is not whole, ValueError where the front matter is refused, or something else is in the directory.
    """
    directory = Path(directory)
    sources = list_sources(root)
    check_metadata(metadata_load(root / README) or {}, root)
    known = {name.partition("/")[0] for name in sources} | {ATTRIBUTES}
    kind = FolderKind("Space of hf_attn", (ATTRIBUTES,), lambda name: name.partition("/")[0] in known)
    with atomic_directory(directory, kind) as partial:
        copy_files(sources, partial)
        lines = [f"{pattern} filter=lfs diff=lfs merge=lfs -text\n" for pattern in LARGE]
        (partial / ATTRIBUTES).write_text("".join(lines), encoding="utf-8")
        if metadata:
            metadata_save(partial / README, {**(metadata_load(root / README) or {}), **metadata})
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    size = sum(path.stat().st_size for path in files)
    return SpaceFolder(directory, tuple(path.relative_to(directory).as_posix() for path in files), size)


@dataclass(frozen=True)
class PushedSpace:
    """What the Hub has after a push, and the temporary folder that was pushed."""

    committed: Committed
    folder: SpaceFolder


def push_space(
    repo_id: str,
    *,
    private: bool = False,
    token: str | None = None,
    endpoint: str | None = None,
    sleep: Sleep = time.sleep,
) -> Iterator[Progress | PushedSpace]:
    """Push this repository's app to a Space, new or existing, in one commit.

    It is OWNER/NAME; `private` says who sees one that is created. Other files of an existing Space are
    removed. The front matter on the Hub also names the bundled checkpoints that the owner has pushed, and
    a picture. Token, endpoint and sleep are as of `push_dataset`; with private=True a public Space is
    refused, and one that exists stays as it is.

    Yields:
        Progress, and `PushedSpace` last.

    Raises:
        ValueError, FileNotFoundError: no Space can have that name, or the repository is not whole.
        HubError: the Hub refused or could not be reached.
    """
    owner, slash, _ = check_repo_id(repo_id).partition("/")
    if not slash:
        raise ValueError(
            f"repo_id={quote(repo_id)} has no owner: write OWNER/NAME, yours or your organisation's."
        )
    api = open_hub(find_token(token), endpoint)
    with scratch_directory() as scratch:
        yield Progress("checking", "Putting the folder together.")
        place = scratch / "space"
        assemble_space(place)  # refuses before a repo is created
        yield Progress("connecting", f"Making {repo_id} where there is none.")
        url = yield from call_with_retries(lambda: _create(api, repo_id, private), api, repo_id, sleep)
        names = [f"{owner}/{path.name}" for path in list_checkpoints(ROOT / "model_cards")]
        models = yield from call_with_retries(
            lambda: list(filter(api.repo_exists, names)), api, repo_id, sleep
        )
        pictures = PICTURE.findall((ROOT / README).read_text(encoding="utf-8"))
        thumbnail = f"{url}/resolve/main/{pictures[0]}"
        folder = assemble_space(place, {"models": models, "thumbnail": thumbnail})
        yield Progress("uploading", f"Uploading {in_megabytes(folder.size)}, less what is there already.")
        commit = FolderCommit(api, repo_id, place, "Update the app", _is_ours, "space")
        yield PushedSpace((yield from call_with_retries(commit, api, repo_id, sleep)), folder)


def _create(api: HfApi, repo_id: str, private: bool) -> str:
    made = api.create_repo(repo_id, repo_type="space", space_sdk="gradio", private=private, exist_ok=True)
    refuse_public(api.repo_info(repo_id, repo_type="space"), private)
    return str(made)


def _is_ours(name: str) -> bool:
    """Whether a push replaces or removes a file of the Space: any but the one that the Hub makes."""
    return name != ATTRIBUTES
