"""Claims of five texts on attention, measured, as a command."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hf_attn.cli.output import THREADS, AsJson, WrongUse, print_json, print_table, wrong_use

if TYPE_CHECKING:
    from hf_attn.textbooks import Document, Row

NAMES = ("chapter-1", "attention-51", "notebook", "chapter-8", "transformers-1")  # help imports nothing
COLUMNS = ("claim", "claimed", "measured", "verdict", "why")
NOTHING = "–"  # measured where there is nothing to compute
PAGE_HEADER = """# Claims of five texts on attention, measured

hf_attn began with five texts that teach attention. This page sets their figures beside measured ones.

{texts}

`make sources` writes the page. The same claims at the terminal, and those that need training:

```
hf-attn sources                   # every claim that is measured in seconds
hf-attn sources chapter-8 --full  # also those that need minutes of training
hf-attn sources --json            # JSON Lines
```

The verdict is computed from the two figures. *Reproduced*: the measured figure agrees with the claimed one
to its printed digits, or lies within its bound. *Corrected*: it does not; the measured figure holds. *Not
reproducible*: the text gives no seed, data or definition, or its own code hardly ever prints that figure.
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
    """Measure the claims of five texts on attention.

    Verdicts are computed: reproduced, corrected, or not reproducible.
    """
    import torch

    from hf_attn.textbooks import DOCUMENTS, claims_of

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
            print_table(*COLUMNS, rows=rows, title=f"{name}: “{DOCUMENTS[name].title}”")


def measure(document: str, full: bool) -> "Iterator[Row]":
    """Measure a document's claims, one row after the other."""
    from hf_attn.textbooks import claims_of, measure_claim

    for claim in claims_of(document):
        if full or not claim.is_full:
            yield measure_claim(document, claim)


def write_page(rows: "Sequence[Row]") -> str:
    """Return all rows as a Markdown page: for each document a table, and how many of each verdict."""
    from hf_attn.textbooks import DOCUMENTS

    lines = [PAGE_HEADER.format(texts="\n".join(map(_cite, DOCUMENTS.items())))]
    for document in dict.fromkeys(row.document for row in rows):
        own = [row for row in rows if row.document == document]
        verdicts = [row.verdict for row in own]
        counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))
        lines += [f"## {document}: “{DOCUMENTS[document].title}”", "", f"{len(own)} claims: {counts}.", ""]
        lines += [_markdown(COLUMNS), _markdown(["---"] * len(COLUMNS))]
        lines += [_markdown(_cells(row)) for row in own]
        lines.append("")
    return "\n".join(lines)


def _cite(item: "tuple[str, Document]") -> str:
    name, text = item
    source = f"[{text.source}]({text.url})" if text.url else text.source
    return f"- `{name}`: “{text.title}”, {source}"


def _cells(row: "Row") -> tuple[str, ...]:
    return row.claim, row.claimed, row.measured or NOTHING, row.verdict, row.why


def _markdown(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
