"""Tables of text that people bring: CSV, TSV and JSON Lines, read whole or refused in one sentence."""

import contextlib
import csv
import io
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hf_attn.utils.folder_files import read_bounded
from hf_attn.utils.text import quote, shorten

MOST_BYTES = 50 * 2**20
MOST_CHARACTERS = 20_000  # of one cell: more than any model here reads
MOST_ROWS = 50_000  # more than a small model learns from in the time that it has
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
NUMBER = re.compile(r"[-+]?(\d+[.,]?\d*|[.,]\d+)(e[-+]?\d+)?", re.IGNORECASE)
USUAL_NAMES = {"text", "label", "source", "target"}
LOOKED_AT = 100  # rows by which it is found out what stands between cells
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
TABLE, SAVE_AS = "a table of text", "save the table as CSV in UTF-8"


@dataclass(frozen=True)
class Line:
    """One row of a table."""

    number: int  # its line in the file, from 1
    cells: tuple[str, ...]  # the wanted columns, without space around


def read_columns(path: str | Path, columns: Sequence[str]) -> list[Line]:
    """Read columns of a CSV or TSV file or of JSON Lines (one object a line).

    Comma, semicolon, tab or bar between cells is found out. Numbers are read as text: label 1 is class "1".

    Args:
        path: the file, in UTF-8, with or without a byte order mark.
        columns: their names, as `column_names` has them.

    Raises:
        ValueError: the file is not there, is no text, is too large, or a row cannot be read; nothing is read
            of it then. An empty cell refuses the file, too.
    """
    path = Path(path)
    text = read_text(path)
    if not text.strip():
        raise ValueError(f"{path} is empty; {_example(columns)}.")
    rows = _json_lines(path, text, columns) if _is_json(path, text) else _csv_lines(path, text, columns)
    lines = list(itertools.islice(rows, MOST_ROWS + 1))
    if len(lines) > MOST_ROWS:
        raise ValueError(f"{path} has more than {MOST_ROWS:,} rows; so many are read: take a part of it.")
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


def column_names(path: str | Path, asked: Sequence[str] = ()) -> list[str]:
    """The names of a table's columns.

    Of a CSV its first line, or numbers ("1", "2", …) where that line is a row like the others; of JSON Lines
    the keys of the first object. A first line that holds all names `asked` for is no row.
    """
    path = Path(path)
    text = read_text(path)
    if not _is_json(path, text):
        return list(_find_header(path, text, asked)[0])
    with contextlib.suppress(ValueError, RecursionError):
        row = json.loads(text.lstrip().partition("\n")[0])
        return list(row) if isinstance(row, dict) else []
    return []


def choose_columns(names: Sequence[str], chosen: Mapping[str, str]) -> tuple[str, ...]:
    """The columns to read, one for each role.

    Args:
        names: what `column_names` found.
        chosen: role → the column that the user chose for it; where empty, the one of the role's name counts
            (capitals alike), else the first that is left.
    """
    free = [name for name in names if name not in chosen.values()]
    known = {name.casefold(): name for name in free}
    found = [name or known.get(role, "") for role, name in chosen.items()]
    left = (name for name in free if name not in found)
    return tuple(name or next(left, role) for role, name in zip(chosen, found, strict=True))


def describe_columns(path: str | Path, columns: Sequence[str], roles: Sequence[str]) -> str:
    """Which columns of a table are read as what, and how many rows: what a user sees before training.

    A CSV's columns are numbered, never named: a first line that names none could be a row after all.
    """
    path = Path(path)
    text = read_text(path)
    count = len(read_columns(path, columns))
    if _is_json(path, text):
        places, how = [repr(name) for name in columns], ""
    else:
        names, _, has_header = _find_header(path, text, columns)
        places = [str(names.index(name) + 1) for name in columns]
        how = "; the first line is read as their names" if has_header else "; they have no names"
    read = ", ".join(f"column {place} is the {role}" for place, role in zip(places, roles, strict=True))
    return f"{path.name}: {count:,} rows, {read}{how}."


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
    header, delimiter, has_header = _find_header(path, text, columns)
    if repeated := [name for name, count in Counter(header).items() if name in columns and count > 1]:
        raise ValueError(f"{path} has {quote(repeated[0])} twice in its first line: give each column a name.")
    if not set(columns) <= set(header):
        if len(header) < 2:
            raise ValueError(
                f"{path} has one column only, and no comma, semicolon, tab or bar between cells; "
                f"{_example(columns)}."
            )
        lacking = next(name for name in columns if name not in header)
        first = text.lstrip().partition("\n")[0].strip()
        raise ValueError(
            f"{path} has no column {quote(lacking)}: its first line is {shorten(first)!r}. Choose columns "
            "by the task's options: by name, or by number (1, 2, …) where the first line names none."
        )
    places = [header.index(name) for name in columns]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    begins = 1
    try:
        for row in reader:
            number, begins = begins, reader.line_num + 1
            if not any(cell.strip() for cell in row):
                continue
            if has_header:
                has_header = False
                continue
            if len(row) != len(header):
                more = f'write a text that holds {delimiter!r} between quotes (").'
                remedy = more if len(row) > len(header) else "write the cell that is missing."
                raise ValueError(
                    f"{path}, line {number} has {len(row)} cells, the first line {len(header)}: {remedy}"
                )
            yield Line(number, tuple(row[place].strip() for place in places))
    except csv.Error as error:
        raise ValueError(f'{path}, line {begins}: {error}; does a quote (") not close?') from error


def _find_header(path: Path, text: str, columns: Sequence[str] = ()) -> tuple[list[str], str, bool]:
    """(names of the columns, what stands between cells, whether the first line names them).

    Columns that are asked for and stand in the first line make it a header, whatever else it looks like.
    """
    found = {delimiter: _first_rows(text, delimiter) for delimiter in DELIMITERS}
    longest = csv.field_size_limit()
    if len(text) > longest and not any(map(any, found.values())):  # whatever stands between cells
        raise ValueError(
            f"{path}: the first row holds a cell of more than {longest:,} characters; "
            f"{MOST_CHARACTERS:,} at most are read: shorten it."
        )

    def how_likely(delimiter: str) -> tuple[bool, int, int]:
        header, *rows = found[delimiter]
        alike = sum(len(row) == len(header) for row in rows) if len(header) > 1 else 0
        return set(columns) <= set(header), alike, len(header)

    delimiter = max(found, key=how_likely)
    header = found[delimiter][0]
    numbers = [str(number) for number in range(1, len(header) + 1)]
    if _is_row(header, text, delimiter) and not (columns and set(columns) <= set(header) - set(numbers)):
        return numbers, delimiter, False
    return header, delimiter, True


def _first_rows(text: str, delimiter: str) -> list[list[str]]:
    """The first rows that are not empty; one of no cells where there is none."""
    rows: list[list[str]] = []
    with contextlib.suppress(csv.Error):  # told where the rows are read
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            if any(cells := [cell.strip() for cell in row]):
                rows.append(cells)
            if len(rows) > LOOKED_AT:
                break
    return rows or [[]]


def _is_row(first: Sequence[str], text: str, delimiter: str) -> bool:
    """Whether a CSV's first line is a row like the others.

    It is where it has none of the usual names, and holds a number, or a cell that stands twice more in its
    column: a class that can be learned does. "0,1,…" are the names that a data frame without names has.
    """
    if len(first) < 2 or not all(first) or not USUAL_NAMES.isdisjoint(map(str.casefold, first)):
        return False
    if list(first) == [str(place) for place in range(len(first))]:
        return False
    if any(NUMBER.fullmatch(cell) for cell in first):
        return True
    again: Counter[int] = Counter()
    with contextlib.suppress(csv.Error):  # told where the rows are read
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            again.update(
                place for place, cell in enumerate(row[: len(first)]) if cell.strip() == first[place]
            )
    return any(count > 2 for count in again.values())


def _json_lines(path: Path, text: str, columns: Sequence[str]) -> Iterator[Line]:
    example = f'{{"{shorten(columns[0], 100)}": …}}'
    for number, line in enumerate(text.split("\n"), 1):  # splitlines would part texts at rare signs
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{path}, line {number} is no JSON object on one line ({error}); write {example}."
            ) from error
        if not isinstance(row, dict):
            raise ValueError(
                f"{path}, line {number} holds {type(row).__name__}, not an object; "
                f"write {example} on each line."
            )
        if not set(columns) <= set(row):
            lacking = next(name for name in columns if name not in row)
            raise ValueError(
                f"{path}, line {number}, has no key {quote(lacking)}; it has "
                f"{shorten(', '.join(map(quote, row)))}: choose among them by the task's options."
            )
        yield Line(number, tuple(_as_text(path, number, name, row[name]) for name in columns))


def _as_text(path: Path, number: int, name: str, value: object) -> str:
    """A JSON value as a cell; null is empty."""
    if isinstance(value, (dict, list)):
        raise ValueError(
            f"{path}, line {number}: {quote(name)} must be text or a number, not {type(value).__name__}."
        )
    return "" if value is None else str(value).strip()


def _example(columns: Sequence[str]) -> str:
    return f"write a table with the columns {shorten(', '.join(columns))}, named in its first line"
