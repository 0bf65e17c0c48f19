"""The page that lists the checkpoints of a folder: what each learned, how large it is, and how good."""

from collections.abc import Mapping
from pathlib import Path

from hf_attn.checkpoints.model_card import name_model
from hf_attn.checkpoints.model_card_failures import worst_of
from hf_attn.checkpoints.validate import WEIGHTS
from hf_attn.tasks import TASKS
from hf_attn.utils.markdown import write_cell, write_line, write_percent, write_score
from hf_attn.viz.example_map import MAP

HEADER = """# Checkpoints

Small models for studying attention, each trained on one task. Each folder is a complete repository of the
Hugging Face Hub: weights, tokenizer, the model's code, a card, and a training record. They load with
`transformers`, with or without hf_attn; the first lines of code in each card do it.

`make checkpoints` trains them from their seeds. `make cards` measures them again, and writes this page and
their cards.
"""
FOOTER = """*Right* is the share of held-out examples that are right as a whole (of texts: classified right),
with Wilson's 95 % interval. *Worst found* is the input pattern with the smallest share right among those
that were tried; each card lists them with their numbers of inputs. *Weights* is the size of
`model.safetensors`.
"""
COLUMNS = (
    *("checkpoint", "task", "model", "held-out", "right", "95 % interval", "worst found"),
    *("parameters", "weights", "trained"),
)
MAP_WIDTH = 260  # pixels


def build_collection(folder: Path, records: Mapping[str, Mapping]) -> str:
    """Write the page.

    Args:
        folder: of the checkpoints' folders.
        records: by their names, what their training.json holds.

    Returns:
        The whole README.md.
    """
    names = sorted(records)
    table = [
        write_line(*COLUMNS),
        "|---|---|---|---:|---:|---:|---|---:|---:|---:|",
        *(_row(folder / name, records[name]) for name in names),
    ]
    maps = [
        f'<a href="{name}"><img src="{name}/{MAP}" width="{MAP_WIDTH}" alt="Attention map of {name}"></a>'
        for name in names
        if records[name].get("map")
    ]
    return "\n".join([HEADER, *table, "", FOOTER, *maps]).rstrip() + "\n"


def _row(directory: Path, record: Mapping) -> str:
    """A checkpoint's line; a dash where its record says nothing of training."""
    options = record["task"]["options"].items()
    said = ", ".join(f"{name} {value}" for name, value in options if value is not None)
    task = TASKS[record["task"]["name"]]
    worst = worst_of(record)
    steps, seconds = record.get("steps"), record.get("seconds")
    return write_line(
        f"[`{directory.name}`]({directory.name})",
        write_cell(task.title + (f" ({said})" if said else "")),
        write_cell(", ".join(name_model(task.kind, record))),
        *write_score(record["results"]),
        write_cell(f"{worst[0]}: {write_percent(worst[1])}" if worst else "no failure"),
        f"{record['parameters']:,}",
        f"{(directory / WEIGHTS).stat().st_size / 1e6:.1f} MB",
        "–" if steps is None or seconds is None else f"{steps:,} steps, {seconds:.0f} s",
    )
