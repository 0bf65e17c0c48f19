"""Pull a checkpoint from the Hub: checked before the download, compared after it, put in place at once."""

import contextlib
import functools
import shutil
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from huggingface_hub import HfApi
from huggingface_hub.hf_api import ModelInfo, RepoSibling
from transformers.dynamic_module_utils import custom_object_save

from hf_attn.checkpoints.save_load import Checkpoint, load_checkpoint
from hf_attn.checkpoints.training_record import describe_model
from hf_attn.checkpoints.validate import (
    CHECKPOINT,
    CODE,
    CONFIG,
    INDEX,
    NEEDED_FILES,
    TRAINING,
    WEIGHTS,
    is_checkpoint_file,
    load_config,
    refuse_pickles,
)
from hf_attn.hub.client import (
    NO_ANSWER,
    Compared,
    HubError,
    Progress,
    Sleep,
    call_with_retries,
    check_repo_id,
    check_revision,
    in_megabytes,
    join_names,
    open_hub,
    raise_hub_error,
)
from hf_attn.utils.atomic_write import atomic_directory, refuse_others

LARGEST = 1_000_000_000  # bytes of a whole checkpoint
TO_REPLACE = replace(CHECKPOINT, needed=NEEDED_FILES)  # what was pulled before may lack training.json


@dataclass(frozen=True)
class Pulled(Compared):
    """The result of a pull.

    Attributes:
        repo_id: of the repo it came from.
        path: the folder.
        commit: hash of what was pulled.
        files: names of the downloaded files, each compared with the Hub's hash of it.
        left_out: names of the repo's other files.
        size: bytes of the downloaded files.
        differences: where the model answers otherwise than its training.json says; empty if verified.
    """

    repo_id: str
    path: Path
    commit: str
    files: tuple[str, ...]
    left_out: tuple[str, ...]
    size: int
    differences: tuple[str, ...] = ()


def pull_checkpoint(
    repo_id: str,
    directory: str | Path,
    *,
    token: str | bool | None = None,
    revision: str | None = None,
    endpoint: str | None = None,
    largest: int = LARGEST,
    sleep: Sleep = time.sleep,
) -> Iterator[Progress | Pulled]:
    """Pull a checkpoint from a model repo of the Hub into a new folder.

    Code in the repo is never downloaded: the installed code of the same model is put beside the weights.
    Until everything has been checked, and whatever goes wrong, `directory` is as it was.

    Args:
        repo_id: OWNER/NAME.
        directory: a new folder, or a checkpoint to replace.
        token: may read the repo; None takes the one that is logged in, if any; False takes none.
        revision: branch, tag or commit (default: main).
        endpoint: of another Hub (default: HF_ENDPOINT).
        largest: refuse a checkpoint of more bytes.
        sleep: waits for so many seconds, where the Hub is busy.

    Yields:
        Progress, and `Pulled` last.

    Raises:
        ValueError: no repo can have that name, or it holds no checkpoint that hf_attn loads.
        HubError: the Hub refused, could not be reached, or sent other bytes than it should.
        OSError: the disk is full or cannot be written.
    """
    check_repo_id(repo_id)
    check_revision(revision)
    directory = Path(directory)
    refuse_others(directory, TO_REPLACE)
    api = open_hub(token, endpoint)
    yield Progress("connecting", f"Asking {api.endpoint} what {repo_id} holds.")
    repo = yield from call_with_retries(
        lambda: api.model_info(repo_id, revision=revision, files_metadata=True), api, repo_id, sleep
    )
    files = _choose_files(repo, largest)
    names = [file.rfilename for file in files]
    size = sum(file.size or 0 for file in files)
    with atomic_directory(directory, TO_REPLACE) as partial, _name_the_repo(repo_id, partial, directory):
        yield from _download(api, repo, files, partial, sleep)
        yield Progress("checking", f"{len(files)} files, {in_megabytes(size)}.", size, size)
        checkpoint = load_checkpoint(partial)
        custom_object_save(checkpoint.model, str(partial))  # the installed code
        differences = _compare_worked_example(checkpoint)
        for path in partial.iterdir():
            path.chmod(0o644)
    left_out = [file.rfilename for file in repo.siblings or [] if file.rfilename not in names]
    yield Pulled(repo_id, directory, str(repo.sha), tuple(names), tuple(left_out), size, differences)


def _download(
    api: HfApi, repo: ModelInfo, files: list[RepoSibling], folder: Path, sleep: Sleep
) -> Generator[Progress, None, None]:
    """One file after the other; a configuration that is refused is refused before the weights are sent."""
    done, size = 0, sum(file.size or 0 for file in files)
    for file in files:
        yield Progress("downloading", f"{file.rfilename}, {in_megabytes(file.size or 0)}", done, size)
        download = functools.partial(_download_file, api, repo, file.rfilename, folder)
        yield from call_with_retries(download, api, repo.id, sleep)
        done += file.size or 0
        if file.rfilename == CONFIG:
            load_config(folder)
    compare = functools.partial(api.verify_repo_checksums, repo.id, revision=repo.sha, local_dir=folder)
    compared = yield from call_with_retries(compare, api, repo.id, sleep)
    if wrong := [file["path"] for file in compared.mismatches]:
        raise HubError(
            f"{join_names(wrong)} of {repo.id} arrived with other bytes than the Hub says: pull again."
        )
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # huggingface_hub's notes


def _download_file(api: HfApi, repo: ModelInfo, name: str, folder: Path) -> None:
    try:
        with raise_hub_error():
            api.hf_hub_download(repo.id, name, revision=repo.sha, local_dir=folder)
    except NO_ANSWER:
        raise
    except OSError as error:
        if error.errno is not None:  # the disk's
            raise
        raise HubError(f"{name} of {repo.id} did not arrive whole: pull again.") from None


@contextlib.contextmanager
def _name_the_repo(repo_id: str, partial: Path, directory: Path) -> Iterator[None]:
    """Name the repo, or the folder that was asked for, in errors that name the temporary folder."""
    try:
        yield
    except (ValueError, FileNotFoundError) as error:
        raise ValueError(str(error).replace(str(partial), repo_id)) from None
    except HubError:
        raise
    except OSError as error:
        raise OSError(
            f"{directory} could not be written and is as it was: {error.strerror or error}."
        ) from error


def _choose_files(repo: ModelInfo, largest: int) -> list[RepoSibling]:
    """Files to download, in their order; refuses by names and sizes what is no checkpoint."""
    on_hub = {file.rfilename: file for file in repo.siblings or []}
    if WEIGHTS not in on_hub:
        if INDEX in on_hub:
            raise ValueError(f"{repo.id} has its weights in several files; hf_attn loads one, {WEIGHTS}.")
        refuse_pickles(repo.id, on_hub)
    if missing := [name for name in NEEDED_FILES if name not in on_hub]:
        raise ValueError(f"{repo.id} is no checkpoint of hf_attn: it has no {join_names(missing)}.")
    chosen = [file for name, file in on_hub.items() if is_checkpoint_file(name) and name not in CODE]
    if (size := sum(file.size or 0 for file in chosen)) > largest:
        raise ValueError(f"{repo.id} has {in_megabytes(size)}; at most {in_megabytes(largest)} are pulled.")
    first = {TRAINING: 0, CONFIG: 1}  # they tell whether it is newer than this hf_attn, and what it is
    return sorted(chosen, key=lambda file: (first.get(file.rfilename, 2), file.size or 0))


def _compare_worked_example(checkpoint: Checkpoint) -> tuple[str, ...]:
    """A sentence where the model answers its worked example otherwise than when it was saved."""
    saved = checkpoint.training.get("worked_example") or {}
    if checkpoint.task is None or "prediction" not in saved:
        return ()
    now = describe_model(checkpoint.model, checkpoint.task).get("worked_example") or {}
    if now.get("source") != saved.get("source") or now.get("prediction") == saved["prediction"]:
        return ()
    answers = f"it answers {now['prediction']!r}, its training.json says {saved['prediction']!r}"
    return (f"for {now['source']!r} {answers}",)
