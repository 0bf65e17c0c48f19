"""`dataset`: a task's examples as a data set folder, and onto the Hub."""

from pathlib import Path
from typing import Annotated

import typer

from hf_attn.cli.output import SEED, AsJson, follow, print_json, wrong_use


def dataset(
    task: Annotated[str, typer.Argument(metavar="TASK", help="A task's name, or its file.")],
    output_dir: Annotated[
        Path, typer.Option(metavar="DIR", help="Takes the folder; an older one is replaced.")
    ],
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Options of the task.")
    ] = None,
    training: Annotated[
        int, typer.Option(min=1, help="Training examples, where there are so many.")
    ] = 10_000,
    measured: Annotated[int, typer.Option(min=1, help="Held-out examples, and as many to validate.")] = 1_000,
    seed: Annotated[int, SEED] = 0,
    push: Annotated[
        str | None, typer.Option(metavar="OWNER/NAME", help="Push it there, too; other files there stay.")
    ] = None,
    public: Annotated[bool, typer.Option("--public", help="For everybody to see; private without.")] = False,
    as_json: AsJson = False,
) -> None:
    """Save a task's training, validation and held-out examples as Parquet files with a card."""
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
