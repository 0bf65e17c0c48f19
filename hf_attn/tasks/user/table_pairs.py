"""The user's own pairs of source and target: a table to learn from, whatever stands in it."""

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from tokenizers import Tokenizer

from hf_attn.models.config_checks import bounded
from hf_attn.tasks.base import Verdict, WorkedExample
from hf_attn.tasks.batch import SPECIAL_TOKENS, UNKNOWN
from hf_attn.tasks.recipes import Recipe
from hf_attn.tasks.splits import HELD_OUT, SPLITS, fold_text, stable_hash
from hf_attn.tasks.text.corpus import MOST_POSITIONS, Row, encode_all
from hf_attn.tasks.text.pronunciation import PRODUCT_MODEL
from hf_attn.tasks.user.base import OwnText, TableTask
from hf_attn.tasks.user.read_dataset import read_dataset
from hf_attn.tasks.user.read_table import read_columns
from hf_attn.tasks.user.table_classes import FEWEST_ROWS
from hf_attn.utils.text import quote

MOST_TEXT = 10_000_000  # characters of all pairs: a minute to learn a vocabulary from, and 1 GB
CHARACTERS = "characters"  # the kind whose tokens can be counted before there are any


@dataclass(frozen=True)
class Pairs(TableTask, OwnText):
    """Write the target for a source, learned from a table of one's own: "2 cats" → "two cats".

    Source and target share one vocabulary. Of several targets for one source the first counts. Sources that
    differ in capitals, accents, spaces and leading zeros alone stand in one split.

    Args:
        path: a CSV, TSV or JSON Lines file, in UTF-8. Where the first line of a CSV names no columns,
            they are called 1, 2, ….
        dataset: instead of a file, a data set: its name on the Hub, or a folder that `datasets` reads.
        source: the column that is read; where empty, "source" or, in a file, the first that is left.
        target: the column that is written; where empty, "target" or, in a file, the next that is left.
        tokenizer_kind: "characters", "bpe" or "words"; words met once are read and written as `<unk>`.
        vocab_size: most tokens of the vocabulary.
        max_length: most tokens of a source or target, `</s>` included.
    """

    source: str = ""
    target: str = ""
    max_length: int = bounded(128, 2, MOST_POSITIONS)

    name = "pairs"
    title = "Your own pairs"
    purpose = "write the target for a source"
    notation = "a source like those in your table"
    column_options = ("source", "target")
    file_label = "Your table: CSV, TSV or JSON Lines, with a column of inputs and one of answers"
    metric = "every character of the target right"
    recipes: ClassVar[Mapping[str, Recipe]] = {
        "product": Recipe(
            {**PRODUCT_MODEL, "dropout": 0.2},  # 1,250 pairs: .84 of others right, without it .48
            steps=800,
            learning_rate=3e-3,
            report_every=20,
            evaluate_every=50,
        )
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.source and self.source == self.target:
            raise ValueError(
                f"source={quote(self.source)} and target={quote(self.target)} must be two columns."
            )

    @functools.cached_property
    def worked_example(self) -> WorkedExample:
        """A short held-out pair; where the data are not here, words that say so."""
        try:
            held_out = [row for row, split in zip(self.rows, self.splits, strict=True) if split == HELD_OUT]
        except ValueError:
            return WorkedExample("a source", "its target", "From a table of your own: path=table.csv.")
        row = min(held_out or self.rows, key=lambda row: (len(row.source) > 40, stable_hash(row.source)))
        counts = Counter(self.splits)
        split = ", ".join(f"{counts[name]:,} {name}" for name in SPLITS)
        further = f" {self.further_targets:,} further targets of a source were left out." * bool(
            self.further_targets
        )
        return WorkedExample(
            row.source, row.target, f"A held-out pair. {len(self.rows):,} pairs: {split}.{further}"
        )

    @functools.cached_property
    def _table(self) -> list[tuple[str, ...]]:
        """The pairs as they stand in the file, none twice."""
        if self.dataset:
            lines = read_dataset(self.dataset, self.columns, self.known)
            return list(dict.fromkeys(line.cells for line in lines))
        if not self.path:
            raise ValueError(
                "Task 'pairs' has no data: give path=table.csv (on the command line --set path=table.csv), "
                "a table of sources and targets, or dataset=… for a data set on the Hub."
            )
        return list(dict.fromkeys(line.cells for line in read_columns(self.path, self.columns)))

    @property
    def further_targets(self) -> int:
        """Pairs left out because their source stood there before, with another target."""
        return len(self._table) - len(self.rows)

    def read_rows(self) -> list[Row]:
        """The table's pairs, one for each source."""
        targets: dict[str, str] = {}
        for source, target in self._table:
            targets.setdefault(source, target)
        if len(targets) < FEWEST_ROWS:
            raise ValueError(
                f"{self.path or self.dataset} has {len(targets)} different sources; at least "
                f"{FEWEST_ROWS} are needed: add some."
            )
        texts = [text for pair in targets.items() for text in pair]
        if (size := sum(map(len, texts))) > MOST_TEXT:
            raise ValueError(
                f"{self.path or self.dataset} has {size:,} characters of sources and targets; {MOST_TEXT:,} "
                "at most are read: take a part of it."
            )
        if self.tokenizer_kind == CHARACTERS:  # known before anything is learned or encoded
            self._refuse_long(texts, [1 + len(text) for text in texts])
        return [Row(*pair, fold_text(pair[0])) for pair in targets.items()]

    def longest_row(self, tokenizer: Tokenizer) -> int:
        """Tokens of the longest source or target, `</s>` included; ValueError above `max_length`."""
        texts = [text for row in self.rows for text in (row.source, row.target)]
        if self.tokenizer_kind == CHARACTERS:
            return self._refuse_long(texts, [1 + len(text) for text in texts])
        return self._refuse_long(texts, [1 + len(ids) for ids in encode_all(tokenizer, texts)])

    def _refuse_long(self, texts: list[str], lengths: list[int]) -> int:
        longest = max(lengths)
        if longest > self.max_length:
            long = sum(length > self.max_length for length in lengths)
            raise ValueError(
                f"{self.path or self.dataset} has {long:,} texts of more than max_length={self.max_length} "
                f"tokens, the longest of {longest} ({texts[lengths.index(longest)][:40]!r}…): "
                f"set max_length={longest} ({MOST_POSITIONS} at most), choose tokenizer_kind=bpe, or shorten "
                "them."
            )
        return longest

    def answer(self, source: str) -> str | None:
        return self.look_up(source.strip())

    def verify(self, source: str, prediction: str, reference: str | None = None) -> Verdict:
        """Judge an answer by the data, or by the reference; what holds `<unk>` is never right."""
        verdict = super().verify(source, prediction, reference)
        if verdict.correct and SPECIAL_TOKENS[UNKNOWN] in (prediction, *verdict.expected):
            return replace(verdict, correct=False)
        return verdict
