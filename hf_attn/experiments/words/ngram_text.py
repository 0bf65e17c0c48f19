"""What follows? Tables of n-grams of words on a text, their next words, their surprise and their size."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from hf_attn.experiments.words.ngrams import Table, count_table
from hf_attn.experiments.words.sentences import split_sentences, split_words
from hf_attn.models.configuration_attn_decoder import AttnDecoderConfig
from hf_attn.models.modeling_attn_decoder import AttnDecoderForCausalLM
from hf_attn.tasks.batch import END, IGNORED, SPECIAL_TOKENS, START, UNKNOWN
from hf_attn.tasks.splits import HELD_OUT, SPLITS, TRAINING, VALIDATION
from hf_attn.tasks.text.language import PRODUCT_MODEL, Language
from hf_attn.utils.model_lock import building_model

FEWEST_SENTENCES = 10
MOST_WORDS = 4000  # of a vocabulary
CONTEXTS = (0, 1, 2)  # L of uni-, bi- and tri-grams
LONGEST_CONTEXT = 5  # that sizes are told for
WINDOW = 128  # words that attention reads, as the task `text` does
NAMES = {0: "unigram", 1: "bigram", 2: "trigram"}


@dataclass(frozen=True, eq=False)
class Passages:
    """A text's sentences as ids of words.

    Attributes:
        words: the vocabulary in the order of ids, the special tokens first.
        parts: split → ids [B, T], each sentence closed by `</s>`, −100 behind.
    """

    words: tuple[str, ...]
    parts: dict[str, torch.Tensor]

    def count(self, split: str) -> int:
        """Words and ends of sentences in a split."""
        return int((self.parts[split] != IGNORED).sum())

    def encode(self, words: Sequence[str]) -> list[int]:
        """Ids of words; those that are not in the vocabulary are `<unk>`."""
        number = {word: place for place, word in enumerate(self.words)}
        return [number.get(word, UNKNOWN) for word in words]


@dataclass(frozen=True)
class Following:
    """What a table says of the next word.

    Attributes:
        context: the words that it reads; `<s>` before the first.
        seen: how often just these were met.
        words: (word, probability, how often it followed), the most probable first.
    """

    context: tuple[str, ...]
    seen: int
    words: tuple[tuple[str, float, int], ...]


def read_passages(text: str) -> Passages:
    """A person's text: of every five sentences one is held out and one chooses the discount.

    Raises:
        ValueError: too few sentences.
    """
    sentences = [words for sentence in split_sentences(text) if (words := split_words(sentence))]
    if len(sentences) < FEWEST_SENTENCES:
        raise ValueError(
            f"The text has {len(sentences)} sentence{'' if len(sentences) == 1 else 's'}; at least "
            f"{FEWEST_SENTENCES} are needed, some to count and some to be surprised by: write more."
        )
    chosen = {3: VALIDATION, 4: HELD_OUT}
    split = [(chosen.get(place % 5, TRAINING), words) for place, words in enumerate(sentences)]
    return _read(split, least_count=1)


def read_docstring_passages() -> Passages:
    """The docstrings of Python's standard library; whole modules are held out, as in the task `text`."""
    task = Language()
    documents = [
        (split, words)
        for row, split in zip(task.rows, task.splits, strict=True)
        for sentence in split_sentences(row.target)
        if (words := split_words(sentence))
    ]
    return _read(documents, least_count=2)


def _read(sentences: Sequence[tuple[str, list[str]]], least_count: int) -> Passages:
    met = Counter(itertools.chain.from_iterable(words for split, words in sentences if split == TRAINING))
    words = [word for word, n in met.most_common(MOST_WORDS) if n >= least_count]
    vocabulary = (*SPECIAL_TOKENS, *words)
    number = {word: place for place, word in enumerate(vocabulary)}
    parts = {}
    for part in SPLITS:
        rows = [
            torch.tensor([*(number.get(word, UNKNOWN) for word in words), END])
            for split, words in sentences
            if split == part
        ]
        parts[part] = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=IGNORED)
    return Passages(vocabulary, parts)


def count_ngrams(passages: Passages) -> Iterator[Table]:
    """Count one table after the other, from the shortest context, and measure each."""
    for context in CONTEXTS:
        yield count_table(passages.parts, context, len(passages.words))


def predict_next_words(passages: Passages, table: Table, prompt: str, n: int = 8) -> Following:
    """The n most probable next words of a prompt, of which the table reads the last L words."""
    ids = [START] * table.context + passages.encode(split_words(prompt))
    context = ids[len(ids) - table.context :]
    size = len(passages.words)
    rows = torch.tensor([[*context, word] for word in range(size)])
    chances = table.grams.probabilities(rows, table.discount)  # [V]
    is_met = (table.counted[:, :-1] == torch.tensor(context, dtype=torch.long)).all(dim=1)
    followed = table.counted[is_met, -1].bincount(minlength=size)  # [V]
    best = chances.argsort(descending=True, stable=True)[:n].tolist()
    words = tuple((passages.words[word], float(chances[word]), int(followed[word])) for word in best)
    return Following(tuple(passages.words[word] for word in context), int(followed.sum()), words)


def sizes_by_context(vocab_size: int) -> list[tuple[int, int]]:
    """(L, V^(L + 1)): how many numbers a table has that reads L words."""
    return [(context, vocab_size ** (context + 1)) for context in range(LONGEST_CONTEXT + 1)]


def attention_size(vocab_size: int) -> int:
    """Parameters of the task `text`'s model with this vocabulary, whatever number of words it reads.

    Its rotary positions have no parameters.
    """
    sizes = {"vocab_size": vocab_size, "max_position_embeddings": WINDOW, "tie_word_embeddings": False}
    config = AttnDecoderConfig(**{**PRODUCT_MODEL, **sizes})  # type: ignore[arg-type]
    with building_model(), torch.device("meta"):  # counted, never filled
        return AttnDecoderForCausalLM(config).num_parameters()


@torch.no_grad()
def next_tokens(model: PreTrainedModel, ids: Sequence[int], n: int = 8) -> list[tuple[int, float]]:
    """The n most probable next tokens of a causal model, with their probabilities."""
    chances = model(torch.tensor([list(ids)], device=model.device)).logits[0, -1].softmax(dim=0)
    best = chances.topk(min(n, len(chances)))
    return list(zip(best.indices.tolist(), best.values.tolist(), strict=True))
