"""Commands that make a Space of the app: `space` puts its folder together, `push-space` pushes it."""

from pathlib import Path
from typing import Annotated

import typer

from hf_attn.cli.output import AsJson, follow, print_json, wrong_use

DEFAULT = Path("build/space")


def space(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Takes the folder; an older one is replaced.")
    ] = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Put together the folder that a Space is pushed from: app, package, checkpoints, requirements."""
    from hf_attn.hub.client import in_megabytes
    from hf_attn.hub.space import assemble_space

    with wrong_use():
        folder = assemble_space(directory)
    if as_json:
        print_json("space", directory=str(directory), files=len(folder.files), bytes=folder.size)
        return
    print(f"{directory}: {len(folder.files)} files, {in_megabytes(folder.size)}, ready to push.")


def push_space(
    repo_id: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Of the Space, new or existing.")],
    private: Annotated[bool, typer.Option("--private", help="A new Space is its owner's alone.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make the app a Space of the Hub, in one commit; log in before with `hf auth login`, or set HF_TOKEN."""
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
