"""What tasks share that learn to write from a file of the user's own."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hf_attn.models.config_checks import bounded, check_choice
from hf_attn.tasks.batch import SPECIAL_TOKENS, UNKNOWN
from hf_attn.tasks.splits import split_within_targets
from hf_attn.tasks.text.corpus import CorpusTask, Row
from hf_attn.tasks.tokenizers.trained import KINDS, SPACE
from hf_attn.tasks.user.read_table import choose_columns, column_names, describe_columns
from hf_attn.utils.text import quote, replace_surrogates

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

MOST_TOKENS = 30_000  # of a vocabulary: more than a small model has use for
MOST_NAMED = 120  # known characters that an error lists


class TableTask:
    """What a table of the user's own is read by: a task mixes it in before its kind.

    A subclass has the options `path` and `dataset`, and one for each of its `column_options`.
    """

    path: str
    dataset: str
    column_options: ClassVar[tuple[str, ...]]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read, in the order of `column_options`."""
        chosen = {role: getattr(self, role) for role in self.column_options}
        if self.dataset:
            return tuple(name or role for role, name in chosen.items())
        return choose_columns(column_names(self.path, list(filter(None, chosen.values()))), chosen)

    def describe_data(self) -> str:
        return self._description

    @functools.cached_property
    def _description(self) -> str:
        return describe_columns(self.path, self.columns, self.column_options) if self.path else ""


@dataclass(frozen=True)
class OwnText(CorpusTask):
    """A task that writes text, with a tokenizer of the user's choice.

    Args:
        path: the file.
        dataset: instead of a file, a data set: its name on the Hub, or a folder that `datasets` reads.
        tokenizer_kind: "characters", "bpe" or "words"; words met once are read and written as `<unk>`.
        vocab_size: most tokens of the vocabulary.
    """

    path: str = ""
    dataset: str = ""
    tokenizer_kind: str = "characters"  # type: ignore[misc]  # an option here
    vocab_size: int = bounded(2000, len(SPECIAL_TOKENS) + 1, MOST_TOKENS)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.path and self.dataset:
            raise ValueError(
                f"path={quote(self.path, 300)} and dataset={quote(self.dataset)}: give one of them."
            )
        check_choice("tokenizer_kind", self.tokenizer_kind, KINDS)

    @property
    def tokenizer_size(self) -> int:  # type: ignore[override]
        return self.vocab_size

    @functools.cached_property
    def tokenizer(self) -> "PreTrainedTokenizerFast":
        tokenizer = super().tokenizer
        if len(tokenizer) == len(SPECIAL_TOKENS):
            raise ValueError(
                f"tokenizer_kind={self.tokenizer_kind!r}: nothing is met twice; choose characters or bpe."
            )
        return tokenizer

    def split_rows(self, rows: Sequence[Row]) -> list[str]:
        """A tenth held out and a tenth validates, however few rows there are; a group stays together."""
        return split_within_targets([("", row.group) for row in rows])

    def split_source(self, text: str) -> list[str]:
        """The text's tokens; ValueError where they are too many, or of characters never met."""
        if self.tokenizer_kind != "words":  # rare words are `<unk>` in training, too
            refuse_unknown(self.tokenizer, text)
        return super().split_source(text)


def refuse_unknown(tokenizer: "PreTrainedTokenizerFast", text: str) -> None:
    """Refuse what would be read as `<unk>`, as it was never met; ValueError names the character."""
    text = replace_surrogates(text)
    encoding = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
    if UNKNOWN not in encoding.ids:
        return
    place = encoding.offsets[encoding.ids.index(UNKNOWN)][0]
    known = sorted(token for token in tokenizer.get_vocab() if len(token) == 1)
    named = " ".join(known[:MOST_NAMED]).replace(SPACE, "(space)")
    rest = f" and {len(known) - MOST_NAMED:,} more" if len(known) > MOST_NAMED else ""
    raise ValueError(
        f"{text[place]!r} (character {place + 1}) is not in the text that was learned from: "
        f"write with {named}{rest}."
    )
