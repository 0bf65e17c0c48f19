"""Save a task's examples as a data set of the Hub (Parquet files and a card), and push it."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from huggingface_hub import DatasetCard, DatasetCardData

from hf_attn.hub.client import (
    Progress,
    Sleep,
    call_with_retries,
    check_repo_id,
    find_token,
    in_megabytes,
    open_hub,
)
from hf_attn.hub.commit import Committed, FolderCommit, refuse_public, stage_files
from hf_attn.models.config_checks import SEEDS, check_number
from hf_attn.tasks import Task
from hf_attn.tasks.base import CLASSES, TEXT, check_count
from hf_attn.tasks.batch import IGNORED, Batch
from hf_attn.tasks.splits import HELD_OUT, SPLITS, TRAINING, VALIDATION
from hf_attn.tasks.text.corpus import CorpusTask
from hf_attn.tasks.user.read_dataset import load_library
from hf_attn.utils.atomic_write import FolderKind, atomic_directory, refuse_others
from hf_attn.utils.folder_files import find_file
from hf_attn.utils.markdown import render_template
from hf_attn.utils.text import shorten

if TYPE_CHECKING:
    import datasets

HUB_NAMES = {TRAINING: "train", VALIDATION: "validation", HELD_OUT: "test"}  # of the splits
CATEGORIES = {CLASSES: "text-classification", TEXT: "text-generation"}  # other tasks: text2text-generation
SIZES = {10**3: "n<1K", 10**4: "1K<n<10K", 10**5: "10K<n<100K", 10**6: "100K<n<1M", 10**7: "1M<n<10M"}
CARD = "README.md"
LARGEST_CARD = 5_000_000  # bytes
FILES = tuple(f"data/{name}-00000-of-00001.parquet" for name in HUB_NAMES.values())
DATA_SET = FolderKind("data set of hf_attn", FILES, (CARD, *FILES).__contains__)


@dataclass(frozen=True)
class SavedData:
    """A folder with a task's examples, their number by the Hub's name of the split, and its size in bytes."""

    path: Path
    examples: dict[str, int]
    size: int


def collect_rows(task: Task, split: str, n: int, seed: int = 0) -> dict[str, list]:
    """Collect up to n different examples of a split, as columns.

    A corpus gives its first n rows. Any other task samples n, and drops those that are drawn twice. The
    columns are source and target; of a classifier text and label (an index); of a language model text.
    """
    if isinstance(task, CorpusTask):
        read = task.texts_of(split)[:n]
        is_class = task.kind == CLASSES
        rows = [(row.source, task.classes.index(row.target) if is_class else row.target) for row in read]
    else:
        rows = read_batch(task, draw_examples(task, split, n, seed))
    rows = list(dict.fromkeys(rows))
    if task.kind == TEXT:
        return {"text": [target for _, target in rows]}
    names = ("text", "label") if task.kind == CLASSES else ("source", "target")
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def draw_examples(task: Task, split: str, n: int, seed: int) -> Batch:
    """Draw n examples of a split."""
    if split == TRAINING:
        return task.sample(torch.Generator().manual_seed(seed), n)
    return task.validation(n, seed) if split == VALIDATION else task.held_out(n, seed)


def read_batch(task: Task, batch: Batch) -> list[tuple]:
    """The examples of a batch in the task's notation."""
    sources = [task.read_source(ids) for ids in batch.input_ids.tolist()]
    if task.kind == CLASSES:
        return list(zip(sources, batch.labels.tolist(), strict=True))
    targets = [task.decode([index for index in ids if index != IGNORED]) for ids in batch.labels.tolist()]
    return list(zip(sources, targets, strict=True))


def save_dataset(
    directory: str | Path, task: Task, *, training: int = 10_000, measured: int = 1_000, seed: int = 0
) -> SavedData:
    """Save a task's training, validation and held-out examples as a data set folder.

    `datasets.load_dataset(directory)` reads it, here and on the Hub.

    Args:
        directory: the folder; an earlier data set in it is replaced.
        task: gives the examples; training never sees its held-out ones.
        training: number of training examples, at most.
        measured: number of validation and of held-out examples, at most.
        seed: of the training examples and the draws.

    Raises:
        ValueError: `datasets` or the task's data are missing, a number is out of range, or the folder holds
            something else.
        OSError: the disk is full or cannot be written; the folder is as it was.
    """
    for name, number in (("training", training), ("measured", measured)):
        check_count(number, name)
    check_number("seed", seed, *SEEDS, 0)
    directory = Path(directory)
    refuse_others(directory, DATA_SET)
    library = load_library()
    features = features_of(library, task)
    numbers = {TRAINING: training, VALIDATION: measured, HELD_OUT: measured}
    columns = {split: collect_rows(task, split, numbers[split], seed) for split in SPLITS}
    examples = {HUB_NAMES[split]: len(next(iter(rows.values()))) for split, rows in columns.items()}
    with atomic_directory(directory, DATA_SET) as partial:
        (partial / "data").mkdir()
        for split, file in zip(HUB_NAMES, FILES, strict=True):
            library.Dataset.from_dict(columns[split], features=features).to_parquet(partial / file)
        card = build_card(directory.resolve().name, task, examples, seed, columns[HELD_OUT])
        (partial / CARD).write_text(card, encoding="utf-8")
    size = sum((directory / name).stat().st_size for name in (*FILES, CARD))
    return SavedData(directory, examples, size)


def features_of(library, task: Task) -> "datasets.Features":
    """Types of the columns, with the names of classes."""
    text = library.Value("string")
    if task.kind == TEXT:
        return library.Features({"text": text})
    if task.kind == CLASSES:
        return library.Features({"text": text, "label": library.ClassLabel(names=list(task.classes))})
    return library.Features({"source": text, "target": text})


def build_card(name: str, task: Task, examples: dict[str, int], seed: int, held_out: dict[str, list]) -> str:
    """Write the data set's card: its content and origin, how to read it and how to train on it."""
    files = [{"split": name, "path": path} for name, path in zip(HUB_NAMES.values(), FILES, strict=True)]
    is_corpus, total = isinstance(task, CorpusTask), sum(examples.values())
    data = DatasetCardData(
        pretty_name=f"hf_attn {task.name}",
        license="other" if is_corpus else "apache-2.0",
        task_categories=[CATEGORIES.get(task.kind, "text2text-generation")],
        tags=["hf_attn", task.name],
        size_categories=[next(label for most, label in SIZES.items() if total < most)],
        configs=[{"config_name": "default", "data_files": files}],
    )
    rows = list(zip(*held_out.values(), strict=True))[:3]
    cells = [[" ".join(str(value).replace("`", "'").split())[:120] for value in row] for row in rows]
    names = {"source": "pairs", "text": "text" if task.kind == TEXT else "csv"}
    return render_template(
        Path(__file__).with_name("dataset_card.md"),
        metadata=data.to_yaml(),
        name=name,
        task=task,
        options=", ".join(f"{key}={value}" for key, value in task.options.items() if key != "path") or "none",
        origin=task.provenance if is_corpus else f"drawn by `hf_attn` with seed {seed}, none twice",
        examples=examples,
        rows=[dict(zip(held_out, row, strict=True)) for row in cells],
        task_name=names[next(iter(held_out))],
    )


def push_dataset(
    folder: str | Path,
    repo_id: str,
    *,
    token: str | None = None,
    private: bool = True,
    endpoint: str | None = None,
    sleep: Sleep = time.sleep,
) -> Iterator[Progress | Committed]:
    """Push a folder of `save_dataset` to a dataset repo of the Hub, new or existing, in one commit.

    Files of the same names are replaced; other files of the repo stay.

    Args:
        folder: the saved data set.
        repo_id: OWNER/NAME, or NAME for one of the token's owner; created if missing.
        token: may write; None takes the one that is logged in.
        private: of a repo that is created. A repo that exists stays as it is; with private=True a public one
            is refused.
        endpoint: of another Hub (default: HF_ENDPOINT).
        sleep: waits for so many seconds, where the Hub is busy.

    Yields:
        Progress, and `Committed` last.

    Raises:
        FileNotFoundError, ValueError: the folder is no data set, or no repo can have that name.
        HubError: the Hub refused or could not be reached.
    """
    folder = Path(folder)
    check_repo_id(repo_id)
    yield Progress("checking", f"Checking {folder}.")
    files = check_dataset(folder)
    api = open_hub(find_token(token), endpoint)
    yield Progress("connecting", f"Making {repo_id} where there is none.")

    def create() -> str:
        made = api.create_repo(repo_id, repo_type="dataset", private=private, exist_ok=True).repo_id
        refuse_public(api.repo_info(made, repo_type="dataset"), private)
        return made

    repo_id = yield from call_with_retries(create, api, repo_id, sleep)
    title = f"Push {folder.resolve().name}"
    size = sum(path.stat().st_size for path in files.values())
    yield Progress("uploading", f"Uploading {in_megabytes(size)}, less what is there already.", total=size)
    with stage_files(files) as staged:
        commit = FolderCommit(api, repo_id, staged, title, files.__contains__, "dataset")
        yield (yield from call_with_retries(commit, api, repo_id, sleep))


def check_dataset(folder: Path) -> dict[str, Path]:
    """The files of a folder of `save_dataset`, name → path.

    FileNotFoundError where one is missing, ValueError where it cannot be read, or may not be.
    """
    library = load_library()
    files = {name: path for name in (CARD, *FILES) if (path := find_file(folder, name)) is not None}
    if missing := [name for name in (CARD, *FILES) if name not in files]:
        raise FileNotFoundError(
            f"{folder} is no data set: {missing[0]} is missing. `hf-attn dataset TASK --output-dir DIR` "
            "makes one."
        )
    for name in FILES:
        try:
            library.Dataset.from_parquet(str(files[name]), keep_in_memory=True)
        except Exception as error:  # the library raises many kinds
            raise ValueError(
                f"{folder / name} cannot be read ({shorten(error)}): save the data set again."
            ) from error
    if files[CARD].stat().st_size > LARGEST_CARD:
        raise ValueError(f"{folder / CARD} has more than {LARGEST_CARD:,} bytes: save the data set again.")
    DatasetCard.load(files[CARD])
    return files
