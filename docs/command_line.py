"""The page of all commands, written from their help: `make reference`."""

import re
from pathlib import Path

from typer.cli import get_docs_for_click
from typer.main import get_command

from hf_attn.__main__ import app

PAGE = Path(__file__).parent / "command_line.md"
HEADER = """# Commands

`make reference` writes this page from the help of the commands. The [reference](reference.md) explains tasks,
settings and output. `python -m hf_attn` is the same as `hf-attn`.

"""
OF_THIS_MACHINE = re.compile(r"  \[1<=x<=\d+\](?=\n)")  # --threads: as many as it has


def write_page() -> str:
    """Return the page; each command's first sentence stands whole in the list of commands."""
    program = get_command(app)
    context = program.make_context("hf-attn", [], resilient_parsing=True)
    page = get_docs_for_click(obj=program, ctx=context, name="hf-attn", title="`hf-attn`", indent=1)
    for name in program.list_commands(context):
        summary = program.get_command(context, name).help.partition("\n")[0]
        cut = re.search(rf"^\* `{name}`: .*", page, re.MULTILINE).group()
        page = page.replace(cut, f"* [`{name}`](#hf-attn-{name}): {summary}", 1)
    return HEADER + re.sub(r"\$ hf-attn", "hf-attn", OF_THIS_MACHINE.sub("", page)).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(write_page(), encoding="utf-8")
