"""The command `cards`: measure saved checkpoints again and rewrite their cards."""

from pathlib import Path
from typing import Annotated

import typer

from hf_attn.cli.output import AsJson, Failure, TaskSettings, print_json, print_table, wrong_use


def cards(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Checkpoint folder, or a folder of checkpoint folders.")
    ],
    examples: Annotated[
        int, typer.Option(min=1, help="Number of held-out examples to search for failures.")
    ] = 5000,
    settings: TaskSettings = None,
    as_json: AsJson = False,
) -> None:
    """Measure checkpoints again and rewrite their cards.

    A folder of checkpoints also gets a page that lists them. Weights are not changed, and neither is a file
    whose content stays the same.
    """
    import torch

    from hf_attn.architectures.settings import merge_settings
    from hf_attn.checkpoints.model_card import find_largest, find_worst_pattern
    from hf_attn.checkpoints.remeasure import find_folders, remeasure, write_collection
    from hf_attn.tasks.base import check_count
    from hf_attn.utils.markdown import write_percent

    torch.set_num_threads(1)
    with wrong_use():
        check_count(examples, "--examples")
        folders = find_folders(folder)
        options = merge_settings(settings or ())
    records, rows = {}, []
    for path in folders:
        try:
            record, changed = remeasure(path, examples, **options)
        except ValueError as error:
            raise Failure(f"{path} cannot be measured: {error}") from error
        records[path.name] = record
        worst = find_worst_pattern(record)
        held_out = find_largest(record)
        rows.append(
            (
                path.name,
                f"{write_percent(held_out['exact_match'])} of {held_out['examples']}",
                f"{write_percent(worst[1])} {worst[0]}" if worst else "no failure found",
                "rewritten" if changed else "as it was",
            )
        )
        if as_json:
            measured = {name: record[name] for name in ("results", "search")}
            print_json("card", checkpoint=path.name, changed=changed, **measured)
    if folders != [folder]:
        write_collection(folder, records)
    if not as_json:
        print_table("checkpoint", "right", "worst pattern", "card", rows=rows)
