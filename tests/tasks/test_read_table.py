"""Tables that people bring are read whole, or refused in one sentence that says what to do."""

import io
import json
import zipfile

import pytest

from hf_attn.tasks.user.read_table import MOST_BYTES, MOST_CHARACTERS, read_columns

COLUMNS = ("text", "label")
ROWS = [
    ("a good film", "1"),
    ("bad, very bad; really", "2"),
    ('she said "no"', "1"),
    ("zwölf\nZeilen", "drei"),
]


def cells(path, columns=COLUMNS):
    return [line.cells for line in read_columns(path, columns)]


def quote(text):
    return '"' + text.replace('"', '""') + '"'


@pytest.mark.parametrize(("delimiter", "suffix"), [(",", "csv"), (";", "csv"), ("\t", "tsv"), ("|", "txt")])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_every_delimiter_byte_order_mark_and_line_end_is_read(tmp_path, delimiter, suffix, encoding, newline):
    lines = [delimiter.join(("nr", "text", "label"))]
    lines += [delimiter.join((str(n), quote(text), label)) for n, (text, label) in enumerate(ROWS)]
    path = tmp_path / f"table.{suffix}"
    path.write_bytes(newline.join(lines).encode(encoding))
    assert cells(path) == ROWS


def test_json_lines_are_read_with_numbers_as_text(tmp_path):
    path = tmp_path / "table.jsonl"
    rows = [{"label": 1, "text": "yes", "more": [1]}, {"text": "a\u2028line", "label": 2.5}]
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n\n", encoding="utf-8")
    assert cells(path) == [("yes", "1"), ("a\u2028line", "2.5")]


def test_a_line_is_numbered_as_an_editor_numbers_it(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text('text,label\n"two\nlines",a\n\nb,c\n', encoding="utf-8")
    assert [line.number for line in read_columns(path, COLUMNS)] == [2, 5]


def zipped():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("table.csv", "text,label\na,b\n")
    return content.getvalue()


@pytest.mark.parametrize(
    ("content", "named", "remedy"),
    [
        (zipped(), "ZIP", "CSV in UTF-8"),
        (b"%PDF-1.7 ...", "PDF", "CSV in UTF-8"),
        (b"\x1f\x8b\x08\x00", "gzip", "CSV in UTF-8"),
        (b"text,label\n" + b"a,b\n" * 5000 + b"\x00\x01", "binary", "CSV in UTF-8"),
        ("text,label\na,b\n".encode("utf-16"), "UTF-16", "CSV in UTF-8"),
        ("text,label\na,b\n".encode("utf-16-le"), "UTF-16", "CSV in UTF-8"),
        ("text,label\nfür,b\n".encode("latin-1"), "line 2: the byte 0xfc", "CSV in UTF-8"),
        (b"", "is empty", "columns text, label"),
        (b" \n \n", "is empty", "columns text, label"),
        (b"text\na\nb\n", "one column only", "columns text, label"),
        (b"words,label\na,b\n", "no column 'text'; it has 'words', 'label'", "task's options"),
        (b"text,label\na,b\n,b\na,\n", "2 rows with an empty cell, the first on line 3", "fill or delete"),
        (b"text,label\na,b\na,b,c\n", "line 3 has 3 cells, the first line 2", "between quotes"),
        (b'text,label\na,b\n"a,b\nc,d\n', "line 3: unexpected end of data", "quote"),
        (b"text,label\n" + b"a" * (MOST_CHARACTERS + 1) + b",b\n", "line 2: a cell has 20,001", "shorten"),
        (b"text,label\n" + b"a" * 200_000 + b",b\n", "line 2: field larger than field limit", "quote"),
        (b'{"text": "a", "label": 1}\n{"text": "b"\n', "line 2 is no JSON object on one line", '{"text": …}'),
        (b'{"text": "a", "label": 1}\n[1]\n', "line 2 holds list", '{"text": …}'),
        (
            b'{"text": "a", "label": 1}\n{"text": "b"}\n',
            "line 2, has no column 'label'; it has 'text'",
            "options",
        ),
        (b'{"text": ["a"], "label": 1}\n', "line 1: 'text' must be text or a number", "not list"),
        (b'{"text": null, "label": 1}\n', "1 row with an empty cell, the first on line 1", "fill or delete"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(tmp_path, content, named, remedy):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 - what it says is looked at below
        read_columns(path, COLUMNS)
    message = str(refusal.value)
    assert named in message
    assert remedy in message
    assert str(path) in message
    assert "\n" not in message


def test_a_missing_file_a_folder_and_a_huge_file_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"There is no file .*nowhere\.csv"):
        read_columns(tmp_path / "nowhere.csv", COLUMNS)
    with pytest.raises(ValueError, match="is a folder; give the file in it"):
        read_columns(tmp_path, COLUMNS)
    path = tmp_path / "huge.csv"
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 2**20)
    with pytest.raises(ValueError, match="has 51 MB; 50 MB at most are read"):
        read_columns(path, COLUMNS)
