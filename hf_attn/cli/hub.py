"""Commands of the Hub: push or pull a checkpoint, save or push a data set, the app as a Space."""

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hf_attn.cli.output import SEED, AsJson, Failure, Folder, WrongUse, follow, print_json, wrong_use

if TYPE_CHECKING:
    from hf_attn.hub.pull import Pulled
    from hf_attn.hub.push import Pushed

SPACE = Path("build/space")
TokenFromEnv = Annotated[
    str | None,
    typer.Option(
        metavar="VARIABLE", help="Environment variable with the token (default: HF_TOKEN or the login)."
    ),
]
Endpoint = Annotated[
    str | None, typer.Option(metavar="URL", help="Address of the Hub (default: HF_ENDPOINT).")
]


def push(
    checkpoint: Folder,
    repo_id: Annotated[
        str,
        typer.Argument(metavar="REPO_ID", help="OWNER/NAME, or NAME for one of yours; created if missing."),
    ],
    private: Annotated[
        bool, typer.Option("--private/--public", help="Visibility of a repository that is created.")
    ] = True,
    message: Annotated[str | None, typer.Option(help="Commit title.")] = None,
    revision: Annotated[str | None, typer.Option(help="Branch, created if missing (default: main).")] = None,
    create_pr: Annotated[
        bool, typer.Option("--create-pr", help="Open a pull request instead of committing.")
    ] = False,
    token_from_env: TokenFromEnv = None,
    endpoint: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Push a checkpoint to the Hub and verify it.

    What was pushed is pulled again and answers in a fresh process.

    Only files that changed are sent, in one commit. The token is that of `hf auth login` or HF_TOKEN; it must
    be one that may write, and is never printed.
    """
    from hf_attn.hub.push import push_checkpoint

    _be_quiet()
    token = _find_token(token_from_env)
    with wrong_use():
        pushed: Pushed = follow(
            push_checkpoint(
                checkpoint,
                repo_id,
                token=token,
                private=private,
                message=message,
                revision=revision,
                create_pr=create_pr,
                endpoint=endpoint,
            ),
            as_json,
        )
    if as_json:
        print_json("result", **asdict(pushed), verified=pushed.verified)
    else:
        seen = "private" if pushed.private else "public"
        sent = f"{len(pushed.sent)} files sent" if pushed.sent else "nothing had changed"
        print(f"Pushed {checkpoint} to {pushed.url} ({seen}, {sent}).")
        if pushed.left_out:
            print(f"Left out, as no part of a checkpoint: {', '.join(pushed.left_out)}.", file=sys.stderr)
        if pushed.verified:
            print("Verified: pulled into an empty cache, it answers as the folder does.")
    if not pushed.verified:
        raise Failure(f"What was pulled back differs: {'; '.join(pushed.differences)}")


def pull(
    repo_id: Annotated[str, typer.Argument(metavar="REPO_ID", help="OWNER/NAME of a model on the Hub.")],
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="New folder, or a checkpoint folder to replace.")
    ],
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit (default: main).")] = None,
    token_from_env: TokenFromEnv = None,
    endpoint: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Pull a checkpoint from the Hub into a folder.

    Only safetensors and what belongs to them come; code in the repo does not: the installed code is put
    beside the weights. DIR is as it was until everything has been checked.
    """
    from hf_attn.hub.pull import pull_checkpoint

    _be_quiet()
    token = _find_token(token_from_env)
    with wrong_use():
        pulled: Pulled = follow(
            pull_checkpoint(repo_id, directory, token=token, revision=revision, endpoint=endpoint), as_json
        )
    if as_json:
        print_json("result", **{**asdict(pulled), "path": str(pulled.path)}, verified=pulled.verified)
    else:
        print(
            f"Pulled {pulled.repo_id} at {pulled.commit[:8]} into {pulled.path} ({len(pulled.files)} files)."
        )
    if not pulled.verified:
        print(
            f"It answers otherwise than when it was saved: {'; '.join(pulled.differences)}", file=sys.stderr
        )


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


def space(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Output folder; an earlier one is replaced.")
    ] = SPACE,
    as_json: AsJson = False,
) -> None:
    """Assemble the folder that a Space is made of.

    It holds the app, the package, the bundled checkpoints and the requirements.
    """
    from hf_attn.hub.client import in_megabytes
    from hf_attn.hub.space import assemble_space

    with wrong_use():
        folder = assemble_space(directory)
    if as_json:
        print_json("space", directory=str(directory), files=len(folder.files), bytes=folder.size)
        return
    print(f"{directory}: {len(folder.files)} files, {in_megabytes(folder.size)}, ready to push.")


def push_space(
    repo_id: Annotated[
        str, typer.Argument(metavar="OWNER/NAME", help="OWNER/NAME of the Space; created if missing.")
    ],
    private: Annotated[
        bool, typer.Option("--private", help="Make a new Space private (default: public).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Push the app to the Hub as a Space, in one commit.

    Log in before with `hf auth login`, or set HF_TOKEN.
    """
    from hf_attn.hub import space as app_space
    from hf_attn.hub.client import in_megabytes

    with wrong_use():
        pushed = follow(app_space.push_space(repo_id, private=private), as_json)
    made, folder = pushed.committed, pushed.folder
    if as_json:
        changed = {"sent": len(made.sent), "removed": len(made.removed)}
        print_json("pushed", url=made.url, commit=made.commit, **changed, bytes=folder.size)
        return
    if not made.sent and not made.removed:
        print(f"{made.url}: nothing has changed.")
        return
    files = f"{len(folder.files)} files, {in_megabytes(folder.size)}, {len(made.sent)} of them new or changed"
    print(f"{made.url}: {files}. The Hub builds it now.")


def _find_token(variable: str | None) -> str | None:
    """The token in an environment variable; None stands for the one that is logged in."""
    if variable is None:
        return None
    if not os.environ.get(variable):
        raise WrongUse(f"--token-from-env {variable}: there is no such environment variable, or it is empty.")
    return os.environ[variable]


def _be_quiet() -> None:
    """Switch off huggingface_hub's progress bars and warnings."""
    from huggingface_hub.utils import disable_progress_bars, logging

    disable_progress_bars()
    logging.set_verbosity_error()  # our own progress names its retries
