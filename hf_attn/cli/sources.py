"""Claims of five texts on attention, measured, as a command."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hf_attn.cli.output import THREADS, AsJson, WrongUse, print_json, print_table, wrong_use

if TYPE_CHECKING:
    from hf_attn.textbooks import Document, Row

NAMES = ("chapter-1", "attention-51", "notebook", "chapter-8", "transformers-1")  # help imports nothing
COLUMNS = ("claim", "said", "claimed", "measured", "verdict", "why")
LARGEST_FILE = 5 * 2**20  # bytes of rows
NOTHING = "–"  # a figure where there is none
PAGE_HEADER = """# Claims of five texts on attention, measured

hf_attn began with five texts that teach attention. This page sets their figures beside measured ones.

{texts}

```
hf-attn sources                   # every claim that is measured in seconds
hf-attn sources chapter-8 --full  # also those that need minutes of training
hf-attn sources --json            # JSON Lines
```

What is said, and where: *printed*, the text prints the figure; *stated*, it says so in words, and a figure or
bound by which we read them is ours; *ours*, no text says it, it stands beside the others and is not judged.

The verdict is computed from the two figures. *Reproduced*: the measured figure agrees with the claimed one
to its printed digits, or to what stands behind ±, or lies within its bound. *Corrected*: it does not; the
measured figure holds. *Not reproducible*: the text gives no seed, data or definition, or its own code hardly
ever prints that figure.
O(·) bounds growth from above, of every mechanism alike.

Every row is of one seed: the text's own where it prints one, else 0. `make sources` measures the rows of
seconds and writes this page. Those marked {mark} need training or a clock; `make sources-full` measures them
too{measured}.
"""
MARK = "⏱"


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
    measured: Annotated[
        Path | None,
        typer.Option(metavar="FILE.jsonl", help="With --output: rows that --full --json gave, for the page."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the claims of five texts on attention.

    Verdicts are computed: reproduced, corrected, or not reproducible.
    """
    import torch

    from hf_attn.textbooks import DOCUMENTS, claims_of
    from hf_attn.utils.atomic_write import write_file

    with wrong_use():
        names = list(DOCUMENTS) if document is None else [document]
        for name in names:
            claims_of(name)
    if output is not None and (output.suffix != ".md" or output.is_dir() or not output.parent.is_dir()):
        raise WrongUse(f"--output {output} must be a file that ends in .md, in a folder that is there.")
    if output is not None and as_json:
        raise WrongUse(f"--output {output} writes a page: leave --json out.")
    if measured is not None and (output is None or full):
        raise WrongUse(f"--measured {measured} is for --output without --full: its rows go into the page.")
    with wrong_use():
        kept = [] if measured is None else read_rows(measured)
    torch.set_num_threads(threads or 1)
    if output is not None:
        rows = [row for name in names for row in measure(name, full)]
        page = write_page(rows, [row for row in kept if row["document"] in names])
        write_file(output, page.encode("utf-8"))
        return
    for name in names:
        if as_json:
            for row in measure(name, full):
                print_json("claim", **asdict(row), **surroundings())
        else:
            cells = [_cells(row) for row in measure(name, full)]
            print_table(*COLUMNS, rows=cells, title=f"{name}: “{DOCUMENTS[name].title}”")


def measure(document: str, full: bool) -> "Iterator[Row]":
    """Measure a document's claims, one row after the other."""
    from hf_attn.textbooks import claims_of, measure_claim

    for claim in claims_of(document):
        if full or not claim.is_full:
            yield measure_claim(document, claim)


def surroundings() -> dict[str, str]:
    """When and where a row is measured."""
    import torch

    from hf_attn.utils.hardware import name_processor

    date, threads = datetime.now(UTC).date().isoformat(), torch.get_num_threads()
    return {"date": date, "hardware": f"{name_processor()}, {threads} thread{'s' if threads > 1 else ''}"}


def read_rows(path: Path) -> list[dict]:
    """The rows that `--full --json` wrote, of claims that need training or a clock; ValueError otherwise."""
    from hf_attn.textbooks import Row
    from hf_attn.utils.folder_files import read_bounded

    names = {"date", "hardware", *(field.name for field in fields(Row))}
    try:
        lines = read_bounded(path, LARGEST_FILE).decode("utf-8").splitlines()
        rows = [{name: row[name] for name in names} for row in map(json.loads, lines)]
        for row in rows:
            _check_row(row)
        if not (full := [row for row in rows if row["is_full"]]):
            raise ValueError("no row of a claim that takes minutes")
        return full
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(
            f"{path} cannot be read as rows ({type(error).__name__}: {error}): give what "
            "`hf-attn sources --full --json` printed."
        ) from error


def _check_row(row: Mapping) -> None:
    """Refuse a row whose cells are no text of one line; ValueError says which."""
    from hf_attn.textbooks.claims import CORRECTED, NOT_REPRODUCIBLE, REPRODUCED

    for name, value in row.items():
        may_lack = name in ("claimed", "measured", "verdict")
        is_text = isinstance(value, str) and value.isprintable()  # no line breaks, no surrogates
        if name != "is_full" and not is_text and not (value is None and may_lack):
            raise ValueError(f"{name}={value!r:.60}")
    if row["document"] not in NAMES or row["verdict"] not in (None, REPRODUCED, CORRECTED, NOT_REPRODUCIBLE):
        raise ValueError(f"document={row['document']!r:.60}, verdict={row['verdict']!r:.60}")


def write_page(fast: "Sequence[Row]", kept: Sequence[Mapping] = ()) -> str:
    """Return all rows as a Markdown page: for each document a table, and how many of each verdict.

    `kept` are rows that were measured before, with when and where (`read_rows`).
    """
    from hf_attn.textbooks import DOCUMENTS, Row

    names = [field.name for field in fields(Row)]
    rows = [*fast, *(Row(**{name: row[name] for name in names}) for row in kept)]
    texts = "\n".join(map(_cite, DOCUMENTS.items()))
    when = "; ".join(dict.fromkeys(f"{row['date']}, {row['hardware']}" for row in kept))
    lines = [PAGE_HEADER.format(texts=texts, mark=MARK, measured=f" ({when})" if when else "")]
    for document in [name for name in DOCUMENTS if any(row.document == name for row in rows)]:
        own = [row for row in rows if row.document == document]
        verdicts = [row.verdict or "ours" for row in own]
        counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))
        lines += [f"## {document}: “{DOCUMENTS[document].title}”", "", f"{len(own)} claims: {counts}.", ""]
        lines += [_markdown(COLUMNS), _markdown(["---"] * len(COLUMNS))]
        lines += [_markdown(_cells(row)) for row in own]
        lines += ["", "Found elsewhere:", "", *(f"- {line}" for line in DOCUMENTS[document].elsewhere), ""]
    return "\n".join(lines)


def _cite(item: "tuple[str, Document]") -> str:
    name, text = item
    source = f"[{text.source}]({text.url})" if text.url else text.source
    return f"- `{name}`: “{text.title}”, {source}"


def _cells(row: "Row") -> tuple[str, ...]:
    said = f"{row.kind}, {row.where}" if row.where else row.kind
    claim = f"{MARK} {row.claim}" if row.is_full else row.claim
    return claim, said, row.claimed or NOTHING, row.measured or NOTHING, row.verdict or NOTHING, row.why


def _markdown(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
