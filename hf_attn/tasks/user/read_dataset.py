"""Columns of a data set on the Hub, by the `datasets` library."""

from collections.abc import Sequence

from hf_attn.tasks.text.corpus import Knowledge
from hf_attn.tasks.user.read_table import MOST_ROWS, Line
from hf_attn.utils.optional_packages import require_package
from hf_attn.utils.text import shorten

SPLIT = "train"


def load_library():
    """The `datasets` library; MissingPackageError where it is not installed."""
    require_package("datasets", "Reading or saving a data set")
    import datasets

    return datasets


def read_dataset(name: str, columns: Sequence[str], known: Knowledge | None) -> list[Line]:
    """Columns of a data set's training part, its first MOST_ROWS rows; a class label is read by its name.

    Rows with an empty cell are left out: nobody here can mend them.

    Args:
        name: as the Hub knows it ("stanfordnlp/imdb"), or a folder of data files.
        columns: their names.
        known: of a task that a checkpoint restored, which may not choose what is fetched or read here.

    Raises:
        ValueError: the name is a checkpoint's, and nobody here asked for it; `datasets` is not installed, the
            data set cannot be had, or it has no such column.
    """
    if known is not None and not known.may_fetch:
        raise ValueError(
            f"The checkpoint says that it learned from the data set {shorten(name, 100)!r}, and what a file "
            f"names is not fetched unasked: if you want it, say --set dataset={shorten(name, 100)}."
        )
    library = load_library()
    try:
        table = library.load_dataset(name, split=f"{SPLIT}[:{MOST_ROWS}]")
    except Exception as error:  # network, name, script, format: the library raises many kinds
        raise ValueError(
            f"dataset={name!r} cannot be read ({type(error).__name__}: {shorten(error)}). Check its name and "
            "the network, or download it and give path=….csv."
        ) from error
    for column in columns:
        if column not in table.column_names:
            there = ", ".join(map(repr, table.column_names))
            raise ValueError(f"dataset={name!r} has no column {column!r}; it has {there}: choose among them.")
    cells = [_as_texts(table, column) for column in columns]
    rows = (Line(number, row) for number, row in enumerate(zip(*cells, strict=True), 1))
    return [row for row in rows if all(row.cells)]


def _as_texts(table, column: str) -> list[str]:
    """A column as text."""
    names = getattr(table.features[column], "names", None)  # of a ClassLabel; −1 says that it is not labelled
    values = table[column]
    if names:
        return [names[value] if value is not None and value >= 0 else "" for value in values]
    return ["" if value is None else str(value).strip() for value in values]
