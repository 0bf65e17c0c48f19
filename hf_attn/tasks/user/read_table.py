"""Tables of text that people bring: CSV, TSV and JSON Lines, read whole or refused in one sentence."""

import contextlib
import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hf_attn.utils.folder_files import read_bounded

MOST_BYTES = 50 * 2**20
MOST_CHARACTERS = 20_000  # of one cell: more than any model here reads
DELIMITERS = (",", ";", "\t", "|")
# what files that are no text begin with
MAGIC = {
    b"PK\x03\x04": "a ZIP archive (or an Excel or Word file)",
    b"\x1f\x8b": "a gzip archive",
    b"%PDF": "a PDF",
    b"PAR1": "a Parquet file",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"SQLite format 3": "a database",
}
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
TABLE, SAVE_AS = "a table of text", "save the table as CSV in UTF-8"


@dataclass(frozen=True)
class Line:
    """One row of a table."""

    number: int  # its line in the file, from 1
    cells: tuple[str, ...]  # the wanted columns, without space around


def read_columns(path: str | Path, columns: Sequence[str]) -> list[Line]:
    """Read columns of a CSV or TSV file (the first line names them) or of JSON Lines (one object a line).

    Comma, semicolon, tab or bar between cells is found out. Numbers are read as text: label 1 is class "1".

    Args:
        path: the file, in UTF-8, with or without a byte order mark.
        columns: their names.

    Raises:
        ValueError: the file is not there, is no text, is too large, or a row cannot be read; nothing is read
            of it then. An empty cell refuses the file, too.
    """
    path = Path(path)
    text = read_text(path)
    if not text.strip():
        raise ValueError(f"{path} is empty; {_example(columns)}.")
    lines = list(
        _json_lines(path, text, columns) if _is_json(path, text) else _csv_lines(path, text, columns)
    )
    if empty := [line.number for line in lines if not all(line.cells)]:
        raise ValueError(
            f"{path} has {len(empty)} {'row' if len(empty) == 1 else 'rows'} with an empty cell, the first "
            f"on line {empty[0]}: fill or delete them."
        )
    for line in lines:
        if (longest := max(map(len, line.cells))) > MOST_CHARACTERS:
            raise ValueError(
                f"{path}, line {line.number}: a cell has {longest:,} characters; {MOST_CHARACTERS:,} at most "
                "are read: shorten it."
            )
    return lines


def column_names(path: str | Path) -> list[str]:
    """What the first line of a CSV, or the first object of JSON Lines, names, if it names anything."""
    path = Path(path)
    text = read_text(path).lstrip()
    first = io.StringIO(text, newline="").readline()
    if _is_json(path, text):
        with contextlib.suppress(ValueError):
            row = json.loads(first)
            return list(row) if isinstance(row, dict) else []
        return []
    headers = [next(csv.reader([first], delimiter=delimiter), []) for delimiter in DELIMITERS]
    return [name.strip() for name in max(headers, key=len)]


def _is_json(path: Path, text: str) -> bool:
    return path.suffix.lower() in (".jsonl", ".ndjson", ".json") or text.lstrip().startswith("{")


def read_text(path: Path, wanted: str = TABLE, remedy: str = SAVE_AS) -> str:
    """A file's text.

    Args:
        path: the file, in UTF-8, with or without a byte order mark.
        wanted: what it should be, in words.
        remedy: what to do where it is something else.

    Raises:
        ValueError: the file is not there, is no text, or is too large.
    """
    try:
        content = read_bounded(path, MOST_BYTES, "take a part of it")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ValueError(f"There is no file {str(path)!r}.") from error
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from error
    _refuse_binary(path, content, wanted, remedy)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}, line {line}: the byte {content[error.start]:#04x} is not UTF-8; {remedy}."
        ) from error


def _refuse_binary(path: Path, content: bytes, wanted: str, remedy: str) -> None:
    for magic, kind in MAGIC.items():
        if content.startswith(magic):
            raise ValueError(f"{path} is {kind}, not {wanted}; {remedy}.")
    head = content[:4096]
    if content.startswith(UTF_16) or max(head[::2].count(0), head[1::2].count(0)) > len(head) / 4:
        raise ValueError(f"{path} is written in UTF-16; {remedy}.")
    if b"\0" in content:
        raise ValueError(f"{path} is a binary file, not {wanted}; {remedy}.")


def _csv_lines(path: Path, text: str, columns: Sequence[str]) -> Iterator[Line]:
    header, delimiter = _find_header(path, text, columns)
    places = [header.index(name) for name in columns]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    begins = 1
    try:
        for row in reader:
            number, begins = begins, reader.line_num + 1
            if number == 1 or not any(cell.strip() for cell in row):
                continue
            if len(row) != len(header):
                raise ValueError(
                    f"{path}, line {number} has {len(row)} cells, the first line {len(header)}: write a "
                    f'text that holds {delimiter!r} between quotes (").'
                )
            yield Line(number, tuple(row[place].strip() for place in places))
    except csv.Error as error:
        raise ValueError(f'{path}, line {begins}: {error}; does a quote (") not close?') from error


def _find_header(path: Path, text: str, columns: Sequence[str]) -> tuple[list[str], str]:
    """The names in the first line, and what stands between cells."""
    first = io.StringIO(text, newline="").readline()
    headers = {}
    for delimiter in DELIMITERS:
        headers[delimiter] = [name.strip() for name in next(csv.reader([first], delimiter=delimiter), [])]
        if set(columns) <= set(headers[delimiter]):
            return headers[delimiter], delimiter
    header = max(headers.values(), key=len)
    if len(header) < 2:
        raise ValueError(
            f"{path} has one column only, and no comma, semicolon, tab or bar between cells; "
            f"{_example(columns)}."
        )
    raise ValueError(_missing(path, columns, header))


def _json_lines(path: Path, text: str, columns: Sequence[str]) -> Iterator[Line]:
    for number, line in enumerate(text.split("\n"), 1):  # splitlines would part texts at rare signs
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ValueError(
                f'{path}, line {number} is no JSON object on one line ({error}); write {{"{columns[0]}": …}}.'
            ) from error
        if not isinstance(row, dict):
            raise ValueError(
                f"{path}, line {number} holds {type(row).__name__}, not an object; "
                f'write {{"{columns[0]}": …}} on each line.'
            )
        if not set(columns) <= set(row):
            raise ValueError(_missing(f"{path}, line {number},", columns, list(row)))
        yield Line(number, tuple(_as_text(path, number, name, row[name]) for name in columns))


def _as_text(path: Path, number: int, name: str, value: object) -> str:
    """A JSON value as a cell; null is empty."""
    if isinstance(value, (dict, list)):
        raise ValueError(
            f"{path}, line {number}: {name!r} must be text or a number, not {type(value).__name__}."
        )
    return "" if value is None else str(value).strip()


def _missing(path: str | Path, columns: Sequence[str], there: Sequence[str]) -> str:
    lacking = next(name for name in columns if name not in there)
    return (
        f"{path} has no column {lacking!r}; it has {', '.join(map(repr, there))}. The first line of a CSV "
        "must name the columns; choose among them by the task's options."
    )


def _example(columns: Sequence[str]) -> str:
    return f"write a table with the columns {', '.join(columns)}, named in its first line"
