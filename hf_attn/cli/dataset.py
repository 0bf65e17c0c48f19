"""`dataset`: a task's examples as a data set folder, and onto the Hub."""

from pathlib import Path
from typing import Annotated

import typer

from hf_attn.cli.output import SEED, AsJson, follow, print_json, wrong_use


def dataset(
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="Task name, or the Python file of your own task.")
    ],
    output_dir: Annotated[
        Path, typer.Option(metavar="DIR", help="Output folder; an earlier data set there is replaced.")
    ],
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Task option; may be repeated.")
    ] = None,
    training: Annotated[int, typer.Option(min=1, help="Number of training examples, at most.")] = 10_000,
    measured: Annotated[
        int, typer.Option(min=1, help="Number of held-out and of validation examples, at most.")
    ] = 1_000,
    seed: Annotated[int, SEED] = 0,
    push: Annotated[
        str | None,
        typer.Option(metavar="OWNER/NAME", help="Also push to this repository; its other files stay."),
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Make the repository public (default: private).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Save a task's examples as a data set folder.

    Training, validation and held-out examples are Parquet files, with a card.
    """
    from hf_attn.architectures.settings import merge_settings, name_task
    from hf_attn.hub.client import check_repo_id, find_token, in_megabytes
    from hf_attn.hub.dataset import push_dataset, save_dataset
    from hf_attn.tasks import build_task

    with wrong_use():
        if push is not None:
            check_repo_id(push)
            find_token(None)  # before the work, not after it
        chosen = build_task(name_task(task), **merge_settings(settings or ()))
        saved = save_dataset(output_dir, chosen, training=training, measured=measured, seed=seed)
    if as_json:
        print_json("dataset", directory=str(saved.path), examples=saved.examples, bytes=saved.size)
    else:
        counts = ", ".join(f"{count:,} {split}" for split, count in saved.examples.items())
        print(f"{saved.path}: {counts}; {in_megabytes(saved.size)}.")
    if push is None:
        return
    pushed = follow(push_dataset(saved.path, push, private=not public), as_json)
    if as_json:
        print_json("pushed", url=pushed.url, commit=pushed.commit, sent=len(pushed.sent))
    else:
        print(
            f"{pushed.url}: {len(pushed.sent)} files new."
            if pushed.sent
            else f"{pushed.url}: nothing has changed."
        )
