"""Commands that share a checkpoint: push it to the Hub, pull one from there."""

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hf_attn.cli.output import AsJson, Failure, Folder, WrongUse, follow, print_json, wrong_use

if TYPE_CHECKING:
    from hf_attn.hub.pull import Pulled
    from hf_attn.hub.push import Pushed

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


def _find_token(variable: str | None) -> str | None:
    """The token in an environment variable; None for the one that is logged in."""
    if variable is None:
        return None
    if not os.environ.get(variable):
        raise WrongUse(f"--token-from-env {variable}: there is no such environment variable, or it is empty.")
    return os.environ[variable]


def _be_quiet() -> None:
    """No progress bars of others."""
    from huggingface_hub.utils import disable_progress_bars, logging
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bars()
    disable_progress_bar()
    logging.set_verbosity_error()  # what it retries is told by ours
