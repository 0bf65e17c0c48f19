"""What tasks share that name a text's class."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import torch
from tokenizers import Tokenizer

from hf_attn.tasks.base import ClassTask
from hf_attn.tasks.batch import IGNORED, UNKNOWN, Batch, Ragged
from hf_attn.tasks.recipes import Recipe
from hf_attn.tasks.splits import split_within_targets
from hf_attn.tasks.text.corpus import CorpusTask, Row
from hf_attn.tasks.user.read_table import MOST_CHARACTERS
from hf_attn.utils.text import quote

# the classifier of “Self-Attention and Multi-Head Attention” (see architectures/presets.py), with the task's
# own labels and tokens
DOCUMENT_MODEL: Mapping[str, object] = {
    "hidden_size": 256,
    "num_attention_heads": 8,
    "intermediate_size": 1024,
    "num_hidden_layers": 1,
    "position_type": "sinusoidal",
    "norm_position": "post",
    "activation": "relu",
    "use_bias": True,
    "dropout": 0.1,
    "pooling": "mean",
}
# a few thousand texts teach a small model as much as a wide one, in half the time
PRODUCT_MODEL: Mapping[str, object] = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "dropout": 0.3,
    "embedding_initializer_range": 0.1,
    "position_initializer_range": 0.02,
}
RECURRENT_MODEL: Mapping[str, object] = {
    "hidden_size": 64,
    "bidirectional": True,
    "pooling": "max",
    "embedding_initializer_range": 0.1,
}


class TextClassification(ClassTask, CorpusTask):
    """A class for each text, learned from texts whose class is known.

    A text's first `max_tokens` − 1 tokens are read. In training, a share of them (`unknown_share`) is blanked
    to `<unk>`, so that no single word decides, and that a word never met is nothing new.
    """

    metric = "the right class"
    longest_text = MOST_CHARACTERS
    max_tokens: ClassVar[int] = 64
    unknown_share: ClassVar[float] = 0.1
    answer = CorpusTask.look_up

    @property
    def recurrent_recipe(self) -> Recipe:
        """As wide as the Transformer, trained as long on as many texts."""
        model = {**RECURRENT_MODEL, "dropout": self.recipe.model["dropout"]}
        return replace(self.recipe, model=model)

    def split_rows(self, rows: Sequence[Row]) -> list[str]:
        """Every class has its share in every split."""
        return split_within_targets([(row.target, row.group) for row in rows])

    def tokenizer_texts(self, rows: Sequence[Row]) -> list[str]:
        """The sources; classes are no text."""
        return [row.source for row in rows]

    def longest_row(self, tokenizer: Tokenizer) -> int:  # noqa: ARG002
        return self.max_tokens

    @functools.cached_property
    def classes(self) -> tuple[str, ...]:
        """The checkpoint's, or those of the rows by alphabet."""
        if self.known is not None:
            return self.known.classes
        return tuple(sorted({row.target for row in self.rows}))

    def encode_targets(self, rows: Sequence[Row]) -> list[list[int]]:
        """The class's index; ValueError where a checkpoint does not know a row's class."""
        index = {name: place for place, name in enumerate(self.classes)}
        if unknown := sorted({row.target for row in rows} - set(index)):
            raise ValueError(
                f"The data have a class {quote(unknown[0])} that this model does not know; "
                f"it knows {', '.join(self.classes)}. Train it again."
            )
        return [[index[row.target]] for row in rows]

    def split_source(self, text: str) -> list[str]:
        return self.tokens_of(text)[: self.max_source_tokens - 1]

    def batch_of(self, texts: Sequence[str], targets: Sequence[str] | None = None) -> Batch:
        """Texts that a person wrote; a class that nobody knows is not learned."""
        rows = [torch.tensor(self.encode(text)[:-1]) for text in texts]
        names = [self.answer(text) for text in texts] if targets is None else targets
        labels = [IGNORED if name is None else self.classes.index(name) for name in names]
        return self.batch(Ragged.of(rows), Ragged.of([torch.tensor([label]) for label in labels]))

    def sample(self, generator: torch.Generator, n: int) -> Batch:
        """Draw n training examples, a share of their tokens blanked."""
        batch = super().sample(generator, n)
        chance = torch.rand(batch.input_ids.shape, generator=generator, device=generator.device)
        is_word = batch.input_ids > UNKNOWN  # neither padding nor </s>
        ids = batch.input_ids.masked_fill(is_word & (chance < self.unknown_share), UNKNOWN)
        return Batch(ids, batch.labels, batch.attention_mask)
