"""The page that lists the checkpoints of a folder, with task, size and accuracy of each."""

from collections.abc import Mapping
from pathlib import Path

from hf_attn.checkpoints.model_card import find_worst_pattern, name_model
from hf_attn.checkpoints.validate import WEIGHTS
from hf_attn.tasks import TASKS
from hf_attn.utils.markdown import render_template, write_cell, write_line, write_percent, write_score
from hf_attn.viz.example_map import MAP


def build_collection(folder: Path, records: Mapping[str, Mapping]) -> str:
    """Write the page: the whole README.md.

    Args:
        folder: where the checkpoints' folders lie.
        records: name → content of training.json.
    """
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
        *write_score(record["results"]),
        write_cell(f"{worst[0]}: {write_percent(worst[1])}" if worst else "no failure"),
        f"{record['parameters']:,}",
        f"{(directory / WEIGHTS).stat().st_size / 1e6:.1f} MB",
        "–" if steps is None or seconds is None else f"{steps:,} steps, {seconds:.0f} s",
    )
