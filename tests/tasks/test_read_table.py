"""Tables that people bring are read whole, or refused in one sentence that says what to do."""

import io
import itertools
import json
import zipfile

import pytest

from hf_attn.tasks.user.read_table import (
    MOST_BYTES,
    MOST_CHARACTERS,
    MOST_ROWS,
    choose_columns,
    column_names,
    describe_columns,
    read_columns,
)

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
def test_every_delimiter_byte_order_mark_and_line_end_is_read(tmp_path, delimiter, suffix):
    lines = [delimiter.join(("nr", "text", "label"))]
    lines += [delimiter.join((str(n), quote(text), label)) for n, (text, label) in enumerate(ROWS)]
    path = tmp_path / f"table.{suffix}"
    for newline, encoding in itertools.product(("\n", "\r\n"), ("utf-8", "utf-8-sig")):
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


@pytest.mark.parametrize(("content", "named", "remedy"), [
    (zipped(), "ZIP", "CSV in UTF-8"),
    (b"text,label\n" + b"a,b\n" * 5000 + b"\x00\x01", "binary", "CSV in UTF-8"),
    ("text,label\na,b\n".encode("utf-16"), "UTF-16", "CSV in UTF-8"),
    ("text,label\na,b\n".encode("utf-16-le"), "UTF-16", "CSV in UTF-8"),
    ("text,label\nfür,b\n".encode("latin-1"), "line 2: the byte 0xfc", "CSV in UTF-8"),
    (b"", "is empty", "columns text, label"),
    (b"text\na\nb\n", "one column only", "columns text, label"),
    (b"words,label\na,b\n", "no column 'text': its first line is 'words,label'", "task's options"),
    (b"good,1\nbad,2\n", "no column 'text': its first line is 'good,1'", "by number (1, 2"),
    (b"text,label\na,b\n,b\na,\n", "2 rows with an empty cell, the first on line 3", "fill or delete"),
    (b"text,label\na,b\na,b,c\n", "line 3 has 3 cells, the first line 2", "between quotes"),
    (b"text,label\na,b\na\n", "line 3 has 1 cells, the first line 2", "the cell that is missing"),
    (b'text,label\na,b\n"a,b\nc,d\n', "line 3: unexpected end of data", "quote"),
    (b"text,label\n" + b"a" * (MOST_CHARACTERS + 1) + b",b\n", "line 2: a cell has 20,001", "shorten"),
    (b'{"text": "a", "label": 1}\n{"text": "b"\n', "line 2 is no JSON object on one line", '{"text": …}'),
    (b'{"text": "a", "label": 1}\n[1]\n', "line 2 holds list", '{"text": …}'),
    (b'{"text": "a", "label": 1}\n{"text": "b"}\n', "line 2, has no key 'label'; it has 'text'", "options"),
    (b'{"text": ["a"], "label": 1}\n', "line 1: 'text' must be text or a number", "not list"),
    (b'{"text": null, "label": 1}\n', "1 row with an empty cell, the first on line 1", "fill or delete"),
])  # fmt: skip
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


# Which lines and columns there are

FILMS = [("a good film", "like"), ("a bad film", "dislike"), ("fine, I think", "like"), ("poor", "like")]


def write_lines(tmp_path, *rows, delimiter=",", name="table.csv", before=""):
    path = tmp_path / name
    lines = [delimiter.join(quote(cell) if delimiter in cell else cell for cell in row) for row in rows]
    path.write_text(before + "\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("before", ["", "\n", " \r\n\n"])
def test_a_first_line_with_a_class_of_the_others_is_a_row_and_columns_have_numbers(
    tmp_path, delimiter, before
):
    path = write_lines(tmp_path, *FILMS, delimiter=delimiter, before=before)
    assert column_names(path) == ["1", "2"]
    assert cells(path, ("1", "2")) == FILMS
    assert cells(path, ("2", "1")) == [row[::-1] for row in FILMS]
    path = write_lines(tmp_path, ("nr", "review", "verdict"), *(("7", *row) for row in FILMS), before=before)
    assert column_names(path) == ["nr", "review", "verdict"]
    assert cells(path, ("review", "verdict")) == FILMS


@pytest.mark.parametrize(
    ("first", "is_row"),
    [
        (("a dull film", "dislike"), True),
        (("review", "verdict"), False),  # names that nobody foresaw
        (("review", "dis"), False),
        (("film", "2"), True),
        (("film", "-0.5"), True),
        (("1e3", "verdict"), True),
        (("Text", "dislike"), False),
        (("dislike", "LABEL"), False),
        (("Source", "like"), False),
        (("like", "TARGET"), False),
        (("text 1", "like"), True),
        (("0", "1"), False),  # a data frame without names
        (("1", "2"), True),
        (("", "like"), False),  # a data frame's index has no name
        (("city", "nan"), False),  # which Python takes for a number
    ],
)
def test_a_first_line_names_columns_unless_it_holds_a_number_or_a_class(tmp_path, first, is_row):
    rows = [*FILMS, ("more", "dislike"), ("more still", "1"), ("again", "1")]
    path = write_lines(tmp_path, first, *rows)
    assert column_names(path) == (["1", "2"] if is_row else list(first))
    columns = ("1", "2") if is_row else first
    assert cells(path, columns) == ([first, *rows] if is_row else rows)


def test_a_cell_that_stands_once_more_may_still_be_a_name(tmp_path):
    path = write_lines(tmp_path, ("review", "like"), ("a", "like"), ("b", "dislike"))
    assert column_names(path) == ["review", "like"]
    path = write_lines(tmp_path, ("review", "like"), ("a", "like"), ("b", "dislike"), ("c", "like"))
    assert column_names(path) == ["1", "2"]


def test_names_that_are_asked_for_make_the_first_line_a_header(tmp_path):
    path = write_lines(tmp_path, ("film", "like"), ("a", "like"), ("b", "dislike"), ("film", "like"))
    assert column_names(path) == column_names(path, ["2"]) == column_names(path, ["verdict"]) == ["1", "2"]
    assert column_names(path, ["like"]) == column_names(path, ["like", "film"]) == ["film", "like"]
    assert cells(path, ("film", "like")) == [("a", "like"), ("b", "dislike"), ("film", "like")]
    years = write_lines(tmp_path, ("2019", "2020"), ("a", "b"), ("c", "d"))
    assert column_names(years) == ["1", "2"]
    assert cells(years, ("2020", "2019")) == [("b", "a"), ("d", "c")]


def test_a_number_asked_for_is_a_place_where_the_first_line_is_a_row(tmp_path):
    path = write_lines(tmp_path, ("2", "1"), ("3", "2"), ("4", "3"))
    assert column_names(path, ["2", "1"]) == ["1", "2"]
    assert cells(path, ("2", "1")) == [("1", "2"), ("2", "3"), ("3", "4")]


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_what_stands_between_cells_is_what_parts_all_rows_alike(tmp_path, delimiter):
    rows = [("ham, spam, or both, who knows", "like"), *FILMS]
    path = write_lines(tmp_path, *rows, delimiter=delimiter)
    assert column_names(path) == ["1", "2"]
    assert cells(path, ("1", "2")) == rows


@pytest.mark.parametrize(("names", "chosen", "columns"), [
    (("nr", "text", "label"), {"text": "", "label": ""}, ("text", "label")),
    (("LABEL", "Text"), {"text": "", "label": ""}, ("Text", "LABEL")),
    (("target", "source"), {"source": "", "target": ""}, ("source", "target")),
    (("from", "to", "note"), {"source": "", "target": ""}, ("from", "to")),
    (("from", "to", "note"), {"source": "", "target": "from"}, ("to", "from")),
    (("from", "to", "note"), {"source": "note", "target": ""}, ("note", "from")),
    (("text", "other"), {"text": "", "label": "text"}, ("other", "text")),
    (("", "review", "stars"), {"text": "", "label": ""}, ("review", "stars")),
    (("1", "2"), {"text": "2", "label": "1"}, ("2", "1")),
    (("only",), {"text": "", "label": ""}, ("only", "label")),
    ((), {"text": "", "label": "x"}, ("text", "x")),
])  # fmt: skip
def test_each_role_has_the_column_chosen_else_of_its_name_else_the_first_left(names, chosen, columns):
    assert choose_columns(names, chosen) == columns


def test_what_is_read_is_described_by_places_in_a_csv_and_by_keys_in_json_lines(tmp_path):
    roles = ("text", "label")
    path = write_lines(tmp_path, ("nr", "Verdict", "Review"), *(("7", *row[::-1]) for row in FILMS))
    assert describe_columns(path, ("Review", "Verdict"), roles) == (
        "table.csv: 4 rows, column 3 is the text, column 2 is the label; the first line is "
        "read as their names."
    )
    path = write_lines(tmp_path, *FILMS * 300)
    assert describe_columns(path, ("1", "2"), roles) == (
        "table.csv: 1,200 rows, column 1 is the text, column 2 is the label; they have no names."
    )
    path = tmp_path / "table.jsonl"
    path.write_text('\n{"a": 1, "stars": 2, "said": "x"}\n', encoding="utf-8")
    assert column_names(path) == ["a", "stars", "said"]
    assert describe_columns(path, ("said", "stars"), roles) == (
        "table.jsonl: 1 rows, column 'said' is the text, column 'stars' is the label."
    )


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


def test_two_columns_of_one_name_are_refused(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("text,text\n" + "a,b\n" * 30)
    with pytest.raises(ValueError, match="has 'text' twice in its first line: give each column a name"):
        read_columns(path, ("text",))


WIDE, DEEP = "x" * 131_073, '{"text": ' + "[" * 100_000


@pytest.mark.parametrize(("name", "text", "words"), [
    ("wide.csv", f"{WIDE},label\na,b\n", "the first row holds a cell of more than 131,072 characters"),
    ("wide.csv", f"text,label\n{WIDE},b\n", "line 2: field larger than field limit"),
    ("deep.jsonl", f'{{"text": "a", "label": "b"}}\n{DEEP}\n', "line 2 is no JSON object on one line"),
    ("deep.jsonl", f"{DEEP}\n", "line 1 is no JSON object on one line"),
    ("digits.jsonl", '{"text": 1' + "0" * 10_000 + "}\n", "line 1 is no JSON object on one line"),
    ("keys.jsonl", '{"' + "x" * 10**6 + '": 1}\n', "line 1, has no key"),
    ("rows.csv", "text,label\n" + "a,b\n" * (MOST_ROWS + 1), "has more than 50,000 rows"),
], ids=lambda value: value[:12])  # fmt: skip
def test_a_table_made_to_exhaust_its_reader_is_refused_in_a_sentence(tmp_path, name, text, words):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ValueError, match=words) as refused:
        describe_columns(path, choose_columns(column_names(path), dict.fromkeys(COLUMNS, "")), COLUMNS)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 700
