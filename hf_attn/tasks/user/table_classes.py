"""The user's own texts and classes: a table, or a data set on the Hub."""

import functools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from hf_attn.tasks.base import WorkedExample
from hf_attn.tasks.recipes import Recipe
from hf_attn.tasks.splits import HELD_OUT, SPLITS, fold_text, stable_hash
from hf_attn.tasks.text.corpus import Row, leave_out_contradictions
from hf_attn.tasks.text.text_classification import PRODUCT_MODEL, TextClassification
from hf_attn.tasks.user.base import TableTask
from hf_attn.tasks.user.read_dataset import read_dataset
from hf_attn.tasks.user.read_table import read_columns
from hf_attn.utils.text import quote

FEWEST_ROWS = 30  # a tenth of it is three texts to measure on
MOST_CLASSES = 100


@dataclass(frozen=True)
class OwnClasses(TableTask, TextClassification):
    """Name the class of a text, learned from a table of one's own: "what a film" → "good".

    Classes may be words or numbers (then their names are "1", "2", …). A row that stands there twice counts
    once.

    Args:
        path: a CSV, TSV or JSON Lines file, in UTF-8. Where the first line of a CSV names no columns,
            they are called 1, 2, ….
        dataset: instead of a file, a data set's name on the Hub.
        text: the column with the texts; where empty, "text" or, in a file, the first that is left.
        label: the column with the classes; where empty, "label" or, in a file, the next that is left.
    """

    path: str = ""
    dataset: str = ""
    text: str = ""
    label: str = ""

    name = "csv"
    title = "Your own classes"
    purpose = "name the class of a text"
    notation = "a text like those in your table"
    column_options = ("text", "label")
    file_label = "Your table: CSV, TSV or JSON Lines, with a column of texts and one of classes"
    origin = "a table of the user's own, or a data set on the Hub"
    is_lowercase = True
    recipes: ClassVar[Mapping[str, Recipe]] = {  # does for some hundred to some ten thousand short texts
        "product": Recipe(PRODUCT_MODEL, steps=600, batch_size=32, learning_rate=4e-3, evaluate_every=50)
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.path and self.dataset:
            raise ValueError(
                f"path={quote(self.path, 300)} and dataset={quote(self.dataset)}: give one of them."
            )
        if self.text and self.text == self.label:
            raise ValueError(f"text={quote(self.text)} and label={quote(self.label)} must be two columns.")

    @functools.cached_property
    def worked_example(self) -> WorkedExample:
        """A short held-out text of the table; where the table is not here, words that say so."""
        try:
            held_out = self.texts_of(HELD_OUT)
        except ValueError:
            label = self.known.classes[0] if self.known is not None else "the class of its row"
            return WorkedExample("a text of your table", label, "From a table of your own: path=table.csv.")
        short = [row for row in held_out if 10 <= len(row.source) <= 100] or held_out
        row = min(short, key=lambda row: stable_hash(row.source))
        counts = Counter(self.splits)
        splits = ", ".join(f"{counts[name]:,} {name}" for name in SPLITS)
        return WorkedExample(
            row.source, row.target, f"A held-out text. {len(self.rows):,} texts, none twice: {splits}."
        )

    def read_rows(self) -> list[Row]:
        """The table's rows; texts that `fold_text` makes equal are a group."""
        if not self.dataset and not self.path:
            raise ValueError(
                "Task 'csv' has no data: give path=table.csv (on the command line --set path=table.csv), or "
                "dataset=… for a data set on the Hub."
            )
        if self.dataset:
            lines = read_dataset(self.dataset, self.columns, self.known)
        else:
            lines = read_columns(self.path, self.columns)
        cells = (line.cells for line in lines)
        rows = [Row(" ".join(text.split()), label, fold_text(text)) for text, label in cells]
        if self.dataset:  # on the Hub nobody can mend them
            rows = leave_out_contradictions(rows)
        else:
            refuse_contradictions(rows, [line.number for line in lines], self.path)
        check_classes(rows, self.path or self.dataset)
        return rows


def check_classes(rows: Sequence[Row], source: str) -> None:
    """Refuse rows from which no classes can be learned, by a ValueError."""
    texts_of = defaultdict(set)
    for row in rows:
        texts_of[row.target].add(row.source)
    count = sum(map(len, texts_of.values()))
    if count < FEWEST_ROWS:
        raise ValueError(
            f"{source} has {count} different texts; at least {FEWEST_ROWS} are needed: add some."
        )
    if len(texts_of) == 1:
        raise ValueError(
            f"{source} has one class only, {quote(rows[0].target)}: there is nothing to tell apart. "
            "Name another column."
        )
    if len(texts_of) > MOST_CLASSES:
        raise ValueError(
            f"{source} has {len(texts_of):,} classes; {MOST_CLASSES} at most are learned. Is the column of "
            "labels the right one?"
        )
    rarest = min(texts_of, key=lambda name: (len(texts_of[name]), name))
    if len(texts_of[rarest]) < 3:
        raise ValueError(
            f"{source}: class {quote(rarest)} has {len(texts_of[rarest])} different texts; at least 3 are "
            "needed, to learn, choose and measure on: add some, or leave the class out."
        )


def refuse_contradictions(rows: Sequence[Row], lines: Sequence[int], source: str) -> None:
    """Refuse a text that has two classes; ValueError names both lines."""
    first: dict[str, tuple[str, int]] = {}
    for row, line in zip(rows, lines, strict=True):
        label, before = first.setdefault(row.source, (row.target, line))
        if label != row.target:
            raise ValueError(
                f"{source}: the text on line {line} has class {quote(row.target)}, and {quote(label)} on "
                f"line {before}: decide for one, or delete both."
            )
