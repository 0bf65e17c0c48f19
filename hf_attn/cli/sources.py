"""The five documents' claims, measured, as a command."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hf_attn.cli.output import THREADS, AsJson, WrongUse, print_json, print_table, wrong_use

if TYPE_CHECKING:
    from hf_attn.textbooks import Row

NAMES = ("chapter-1", "attention-51", "notebook", "chapter-8", "transformers-1")  # help imports nothing
COLUMNS = ("claim", "claimed", "measured", "verdict", "why")
NOTHING = "–"  # measured where there is nothing to compute
PAGE_HEADER = """# The documents' claims, measured

Written by `make sources`; the same at the terminal, with what needs training too:

```
hf-attn sources                   # every claim that needs seconds
hf-attn sources chapter-8 --full  # with those that need minutes
hf-attn sources --json            # JSON Lines
```

A verdict is computed from the two figures. *Reproduced*: measured is what was claimed, to the printed digits,
or within the bound. *Corrected*: it is not, and the measured figure is what holds. *Not reproducible*: seed,
data or definition are missing, or what was printed hardly ever comes out.
"""


def sources(
    document: Annotated[
        str | None, typer.Argument(metavar="DOCUMENT", help=f"One of {', '.join(NAMES)} (default: all).")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Also measure claims that need training; takes minutes.")
    ] = False,
    threads: Annotated[int | None, THREADS] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE.md", help="Write the rows to a Markdown page instead.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the claims of the five documents.

    Verdicts are computed: reproduced, corrected, or not reproducible.
    """
    import torch
    from transformers.utils.logging import disable_progress_bar

    from hf_attn.textbooks import DOCUMENTS, claims_of

    disable_progress_bar()
    with wrong_use():
        names = list(DOCUMENTS) if document is None else [document]
        for name in names:
            claims_of(name)
    if output is not None and output.suffix != ".md":
        raise WrongUse(f"--output {output} must end in .md: the page is Markdown.")
    torch.set_num_threads(threads or 1)
    if output is not None:
        page = write_page([row for name in names for row in measure(name, full)])
        output.write_text(page, encoding="utf-8")
        return
    for name in names:
        if as_json:
            for row in measure(name, full):
                print_json("claim", **asdict(row))
        else:
            rows = [_cells(row) for row in measure(name, full)]
            print_table(*COLUMNS, rows=rows, title=name)


def measure(document: str, full: bool) -> "Iterator[Row]":
    """A document's rows, one as soon as it is measured."""
    from hf_attn.textbooks import claims_of, measure_claim

    for claim in claims_of(document):
        if full or not claim.is_full:
            yield measure_claim(document, claim)


def write_page(rows: "Sequence[Row]") -> str:
    """All rows as a Markdown page: for each document a table, and how many of each verdict."""
    lines = [PAGE_HEADER]
    for document in dict.fromkeys(row.document for row in rows):
        own = [row for row in rows if row.document == document]
        verdicts = [row.verdict for row in own]
        counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))
        lines += [f"## {document}", "", f"{len(own)} claims: {counts}.", ""]
        lines += [_markdown(COLUMNS), _markdown(["---"] * len(COLUMNS))]
        lines += [_markdown(_cells(row)) for row in own]
        lines.append("")
    return "\n".join(lines)


def _cells(row: "Row") -> tuple[str, ...]:
    """A row of the table, without the document."""
    return row.claim, row.claimed, row.measured or NOTHING, row.verdict, row.why


def _markdown(cells: Sequence[str]) -> str:
    """One line of a Markdown table."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
