"""Measure checkpoints again and rewrite their cards and the page that lists them; the weights stay."""

from collections.abc import Mapping
from pathlib import Path

from hf_attn.checkpoints.model_card import build_card, find_largest, find_worst_pattern, name_model
from hf_attn.checkpoints.save_load import list_checkpoints, load_checkpoint
from hf_attn.checkpoints.training_record import (
    describe_least_sure,
    describe_model,
    describe_reach,
    describe_results,
    describe_search,
    find_versions,
    write_record,
)
from hf_attn.checkpoints.validate import CONFIG, LARGEST_JSON, TRAINING, WEIGHTS
from hf_attn.evaluation.baselines import measure_beside
from hf_attn.evaluation.failure_search import HELD_OUT_TRIED, look_for_failures
from hf_attn.evaluation.metrics import evaluate
from hf_attn.evaluation.reach import can_reach
from hf_attn.tasks import TASKS
from hf_attn.tasks.base import TEXT
from hf_attn.utils.atomic_write import write_file
from hf_attn.utils.folder_files import find_file, read_file
from hf_attn.utils.markdown import render_template, write_cell, write_line, write_percent, write_score
from hf_attn.viz.example_map import MAP, find_worked_map

CARD = "README.md"


def remeasure(directory: Path, tried: int = HELD_OUT_TRIED, **options) -> tuple[dict, bool]:
    """Measure a checkpoint, search for failures, and rewrite its card, map and record where they differ.

    The search tries `tried` held-out inputs, and twice as many longer ones of a model that reaches.
    `options` are of the task, in place of the saved ones. ValueError where the folder does not say what it
    learned, or its data are not here.

    Returns:
        (the new content of training.json, whether a file changed).
    """
    checkpoint = load_checkpoint(directory)
    model, task = checkpoint.model, checkpoint.task_named(**options)
    results = describe_results(task, evaluate(model, task), measure_beside(task))  # first: it needs the data
    worked_map = find_worked_map(model, task)
    measured: dict = {
        "results": results,
        **describe_model(model, task),
        "search": None if task.kind == TEXT else describe_search(look_for_failures(model, task, tried)),
        "map": None if worked_map is None else worked_map.describe(),
    }
    if can_reach(task, model.config):
        measured["reach"] = describe_reach(model, task)
        longest = max(map(int, measured["reach"]), default=0)  # 0: half of the longest there is was learned
        measured["least_sure"] = describe_least_sure(model, task, longest, 2 * tried) if longest else None
    before = checkpoint.training
    if any(before.get(name) != value for name, value in measured.items()):
        measured["measured_with"] = find_versions()
    record = {"versions": find_versions(), **before, **measured}
    changed = _write_if_new(directory / TRAINING, write_record(record))
    changed |= _write_if_new(directory / CARD, build_card(directory.resolve().name, task, record))
    has_map = (directory / MAP).exists()
    if worked_map is None and has_map:
        (directory / MAP).unlink()
        changed = True
    elif worked_map is not None and (before.get("map") != measured["map"] or not has_map):
        worked_map.draw(directory)  # another matplotlib would draw the same map with other bytes
        changed = True
    return record, changed


def build_collection(folder: Path, records: Mapping[str, Mapping]) -> str:
    """The page that lists the checkpoints of a folder: name → content of training.json."""
    names = sorted(records)
    return render_template(
        Path(__file__).with_name("collection_card.md"),
        rows=[_row(folder / name, records[name]) for name in names],
        maps=[name for name in names if records[name].get("map")],
        map_file=MAP,
    )


def _row(directory: Path, record: Mapping) -> str:
    settings = record["task"]["options"].items()
    options = ", ".join(f"{name} {value}" for name, value in settings if value is not None)
    task = TASKS[record["task"]["name"]]
    worst = find_worst_pattern(record)
    steps, seconds = record.get("steps"), record.get("seconds")
    return write_line(
        f"[`{directory.name}`]({directory.name})",
        write_cell(task.title + (f" ({options})" if options else "")),
        write_cell(", ".join(name_model(record))),
        *write_score(find_largest(record)),
        write_cell(f"{worst[0]}: {write_percent(worst[1])}" if worst else "no failure"),
        f"{record['parameters']:,}",
        f"{(directory / WEIGHTS).stat().st_size / 1e6:.1f} MB",
        "–" if steps is None or seconds is None else f"{steps:,} steps, {seconds:.0f} s",
    )


def write_collection(folder: Path, records: Mapping[str, Mapping]) -> bool:
    """Write `build_collection`'s page into the folder; returns whether it changed."""
    return _write_if_new(folder / CARD, build_collection(folder, records))


def find_folders(path: Path) -> list[Path]:
    """The folder itself if it is a checkpoint, else the checkpoints in it; ValueError if there are none."""
    if (path / CONFIG).is_file():  # loading it names the files that it lacks
        return [path]
    if not (found := list_checkpoints(path)):
        raise ValueError(
            f"{path} is no checkpoint, and there is none in it: name a folder that hf-attn saved."
        )
    return found


def _write_if_new(path: Path, text: str) -> bool:
    """Write a file unless it has this content already; returns whether it was written."""
    content, folder, name = text.encode("utf-8"), path.parent, path.name
    if find_file(folder, name) and read_file(folder, name, LARGEST_JSON) == content:
        return False
    write_file(path, content)
    return True
