"""Commands that make a Space of the app: `space` puts its folder together, `push-space` pushes it."""

from pathlib import Path
from typing import Annotated

import typer

from hf_attn.cli.output import AsJson, follow, print_json, wrong_use

DEFAULT = Path("build/space")


def space(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Output folder; an earlier one is replaced.")
    ] = DEFAULT,
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
    from hf_attn.hub import space
    from hf_attn.hub.client import in_megabytes

    with wrong_use():
        pushed = follow(space.push_space(repo_id, private=private), as_json)
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
