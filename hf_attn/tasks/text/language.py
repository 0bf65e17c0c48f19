"""Running text: a model that reads how a text begins and goes on writing."""

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import torch
from tokenizers import Tokenizer, processors

from hf_attn.models.config_checks import bounded
from hf_attn.tasks.base import TEXT, WorkedExample
from hf_attn.tasks.batch import END, IGNORED, PAD, START, Batch, Ragged
from hf_attn.tasks.options import SizeChoice
from hf_attn.tasks.recipes import Recipe
from hf_attn.tasks.splits import HELD_OUT, SPLITS, fold_text, stable_hash
from hf_attn.tasks.text.corpus import Encoded, Row, Sequences, encode_all
from hf_attn.tasks.text.topics import Topics
from hf_attn.tasks.user.base import OwnText
from hf_attn.tasks.user.read_dataset import read_dataset
from hf_attn.tasks.user.read_table import read_text
from hf_attn.tasks.user.table_classes import FEWEST_ROWS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

WINDOWS = (16, 1024)
SAVE_AS = "save it as plain text in UTF-8"
PROMPT_WORDS = 4  # of the worked example


PRODUCT_MODEL: Mapping[str, object] = {
    "hidden_size": 128,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "use_bias": True,
    "position_type": "rotary",
}


@dataclass(frozen=True)
class Language(OwnText):
    """Go on writing: "Return the " → "name of the file.", by a decoder-only model.

    The text is the docstrings of Python's standard library, or a file of one's own. Documents are cut into
    passages; a model sees `<s>` and learns a passage's tokens, each from those before it, and `</s>` where
    the document ends. Whole modules are held out, or documents of one's own, so that nothing leaks.

    Args:
        window: tokens of a passage. A quarter is for the prompt, the rest for what is written.
        path: a text file in UTF-8; the standard library's docstrings where empty. Blank lines part its
            documents; where there are too few of them, each line is a document.
        dataset: instead of a file, a data set: its name on the Hub, or a folder that `datasets` reads.
        text: the data set's column; each of its rows is a document.
        tokenizer_kind: "characters", "bpe" or "words".
        vocab_size: most tokens of the vocabulary.
    """

    window: int = bounded(128, *WINDOWS)
    text: str = "text"

    kind = TEXT
    name = "text"
    title = "Running text"
    purpose = "go on with a text"
    notation = "how a text begins"
    metric = "the next token, guessed from the true ones before it"
    sizes = (SizeChoice("window", "Passage", (64, 128, 256), 128),)
    file_label = "Your own text, if any: a text file, in UTF-8"
    recipes: ClassVar[Mapping[str, Recipe]] = {
        "product": Recipe(
            PRODUCT_MODEL,
            architecture="decoder",
            steps=900,
            batch_size=16,
            learning_rate=3e-3,
            report_every=20,
            evaluate_every=100,
        )
    }

    @functools.cached_property
    def worked_example(self) -> WorkedExample:
        """How a held-out document begins and goes on; where the text is not here, words that say so."""
        try:
            held_out = [row for row, split in zip(self.rows, self.splits, strict=True) if split == HELD_OUT]
        except ValueError:
            return WorkedExample("The ", "…", "The text is not on this machine.")
        document = min(held_out or self.rows, key=lambda row: stable_hash(row.target)).target
        prompt = " ".join(document.split(" ")[:PROMPT_WORDS])[: self.max_source_tokens - 1]
        return WorkedExample(
            prompt,
            document[len(prompt) :][: self.max_target_tokens],
            "From a held-out text. Many ways of going on are right, so none is marked wrong; what counts is "
            "how well each next token is guessed.",
        )

    def beginnings(self) -> list[str]:
        labels = self.held_out(40).labels.tolist()
        texts = [self.decode([index for index in row if index >= 0]) for row in labels]
        return [" ".join(text.split()[:3]) for text in texts if len(text.split()) > 3 and text[0].isupper()]

    def read_rows(self) -> list[Row]:
        if self.dataset:
            lines = read_dataset(self.dataset, (self.text,), self.known)
            documents = list(dict.fromkeys(line.cells[0] for line in lines))
            lacking = f"different texts; at least {FEWEST_ROWS} are needed."
        elif self.path:
            documents = documents_of(read_text(Path(self.path), "a text", SAVE_AS))
            lacking = (
                f"lines with text; at least {FEWEST_ROWS} are needed, or as many paragraphs with blank lines "
                "between: bring a longer text."
            )
        else:
            return [Row("", row.source, row.group) for row in Topics().rows]
        if len(documents) < FEWEST_ROWS:
            raise ValueError(f"{self.dataset or self.path} has {len(documents)} {lacking}")
        return [Row("", document, fold_text(document)) for document in documents]

    @property
    def groups_name(self) -> str:  # type: ignore[override]
        return "texts" if self.path or self.dataset else Topics.groups_name

    def tokenizer_texts(self, rows: Sequence[Row]) -> list[str]:
        return [row.target for row in rows]

    @functools.cached_property
    def tokenizer(self) -> "PreTrainedTokenizerFast":
        """As for every corpus, but a text begins with `<s>` and is left open for what comes."""
        tokenizer = super().tokenizer
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", START)]
        )
        return tokenizer

    def longest_row(self, tokenizer: Tokenizer) -> int:  # noqa: ARG002
        return self.window + 1  # `<s>` and a passage

    @functools.cached_property
    def encoded(self) -> Encoded:
        """The documents' passages as ids; a held-out one that training has, too, is left out."""
        documents = encode_all(self.tokenizer.backend_tokenizer, [row.target for row in self.rows])
        row_of: dict[tuple[int, ...], int] = {}
        count = 0
        for row in sorted(range(len(self.rows)), key=lambda row: SPLITS.index(self.splits[row])):
            closed = (*documents[row], END)
            for begin in range(0, len(closed), self.window):
                row_of.setdefault(closed[begin : begin + self.window], row)  # training comes first
                count += 1
        return Encoded(
            Sequences.of([[START]] * len(row_of)),
            Sequences.of(list(row_of)),
            torch.tensor([SPLITS.index(self.splits[row]) for row in row_of.values()]),
            tuple(row_of.values()),
            count - len(row_of),
        )

    @property
    def max_source_tokens(self) -> int:
        """`<s>` and a prompt of a quarter of the window."""
        return 1 + self.window // 4

    @property
    def max_target_tokens(self) -> int:
        """What is written for a prompt: both together are as long as `<s>` and a passage, no place is new."""
        return self.window + 1 - self.max_source_tokens

    def encode(self, text: str) -> list[int]:
        """How a text begins → ids, `<s>` first and nothing behind: the model goes on there."""
        return [START, *super().encode(text)[:-1]]

    def read_source(self, ids: Sequence[int]) -> str:
        """The prompt's text, without `<s>`."""
        return super().read_source([index for index in ids if index not in (START, PAD)])

    def batch(self, sources: Ragged, targets: Ragged) -> Batch:
        """Pad sources and passages; `</s>` stands only where a document ends."""
        input_ids = sources.padded(PAD)
        mask = (input_ids != PAD).long()
        return Batch(input_ids, targets.padded(IGNORED), None if mask.all() else mask)

    def batch_of(self, texts: Sequence[str], targets: Sequence[str] | None = None) -> Batch:
        """Prompts that a person wrote, and how they go on; nothing where that is not given."""
        prompts = [torch.tensor(self.encode(text)) for text in texts]
        endings = [
            torch.tensor(self.ids(*self.split_target(target))) for target in targets or [""] * len(texts)
        ]
        return self.batch(Ragged.of(prompts), Ragged.of([ending.long() for ending in endings]))


def documents_of(text: str) -> list[str]:
    r"""The parts of a text between blank lines; its lines where there are fewer parts than are needed.

    >>> len(documents_of("A B\nC\n\n" * 40)), len(documents_of("A B\nC\n" * 40))
    (40, 80)
    """
    parts = re.split(r"\n\s*\n", text.replace("\r\n", "\n").replace("\r", "\n"))
    found = [part.strip("\n") for part in parts if part.strip()]
    if len(found) >= FEWEST_ROWS:
        return found
    return [line for part in found for line in part.split("\n") if line.strip()]
