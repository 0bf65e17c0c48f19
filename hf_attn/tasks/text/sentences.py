"""A toy English: sentences in which known earlier words decide later ones."""

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, ClassVar

import numpy
import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from hf_attn.tasks.base import TEXT, Task, Verdict, WorkedExample, judge
from hf_attn.tasks.batch import END, IGNORED, PAD, START, Batch, Ragged, constant
from hf_attn.tasks.recipes import Recipe
from hf_attn.tasks.splits import HELD_OUT, SPLITS, TRAINING, split_by_keys
from hf_attn.tasks.text.toy_english import FAMOUS, LISTS, NEW, WORDS, Decision, find_decisions, write_passage
from hf_attn.tasks.tokenizers.trained import wrap_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

LONGEST = 40  # words of a beginning; passages have 25 at most, and </s>
PAIRS = 3  # of words that decide a passage's split, at most
UNREAD = r"[,;:\"“”„()…]"  # signs that are left out; "!" is read as "."
BEGINNINGS = (
    "The cat sat on the mat because it was soft. The soft",
    "The trophy did not fit in the suitcase because it was too big. What was too big? The",
    "The fisherman sat at the bank and watched the",
)
ENDS = (". the {}", ". what was {} ? the", ". who was {} ?")  # behind "because it was tired"
ASKED = ("states", "way_qualities", "seat_qualities", "big", "small")  # lists of words that ENDS repeat
OPPOSITES = {  # list of words → lists whose first word may decide otherwise
    "states": ("way_qualities", "seat_qualities"),
    "way_qualities": ("states",),
    "seat_qualities": ("states",),
    "big": ("small",),
    "small": ("big",),
    "nature": ("town",),
    "town": ("nature",),
}
WORD = r"<new[1-4]>|[.?]|[^\s.?]+"


@dataclass(frozen=True)
class Sentences(Task):
    """Go on with a passage: "the cat sat on the mat because it was soft . the soft" → "mat was there .".

    Passages are written by a grammar (`toy_english`); the model learns each word from those before it.
    What counts is the words that earlier ones decide. Pairs of such words (animal and street, keys and
    cabinet) are split: those of the held-out passages never met in training. In one passage of seven a
    noun, name or adjective is `<new1>` … `<new4>`, which stand for words that the model does not know.
    """

    kind = TEXT
    name = "sentences"
    title = "Sentences of a toy English"
    purpose = "go on with a sentence"
    notation = "how a passage begins"
    metric = "the words that earlier words decide, guessed from the true ones before"
    size_name = "kind"
    units = "decided words"
    gap = " "
    groups_name = "passages"
    max_source_tokens = 1 + LONGEST
    max_target_tokens = LONGEST
    recipes: ClassVar[Mapping[str, Recipe]] = {
        "product": Recipe(
            {
                "hidden_size": 64,
                "num_attention_heads": 4,
                "intermediate_size": 256,
                "num_hidden_layers": 2,
                "use_bias": True,
                "position_type": "rotary",
            },
            architecture="decoder",
            steps=2700,
            batch_size=48,
            learning_rate=6e-3,
            warmup_steps=100,
            decay_fraction=0.6,
            weight_decay=0.3,
            report_every=20,
            evaluate_every=150,
        )
    }

    @property
    def symbols(self) -> tuple[str, ...]:
        return (*NEW, *WORDS)

    @property
    def provenance(self) -> str:
        return (
            f"A model of a toy English: {len(WORDS)} words, in passages made by a small grammar. It does not "
            "know English, only these kinds of passage; a word that it does not know it takes for a new "
            "noun, name or adjective. Passages are drawn while training and never stored. They are split by "
            "their pairs of deciding words: a tenth of the pairs is held out for the results below, a tenth "
            "is kept apart for choosing settings, and training has neither. The pairs of sentences that "
            "everybody knows (animal and street, cat and mat, trophy and suitcase) are held out whatever "
            "their hash says. The split is the same on every machine."
        )

    @property
    def worked_example(self) -> WorkedExample:
        return WorkedExample(
            "the animal did not cross the street because it was too tired . the tired",
            "animal was there .",
            "Animals are tired and streets are wide: the last word decides between the two. The model has "
            "never met animal and street in one passage.",
        )

    def draw(self, generator: torch.Generator, n: int) -> tuple[Ragged, Ragged, torch.Tensor]:
        """Passages by the grammar; keys are the ids of PAIRS pairs of words, 0 for none."""
        random = Random(int(torch.randint(2**62, (), generator=generator, device=generator.device)))
        passages = [write_passage(random) for _ in range(n)]
        rows = [self.ids(*words) for words, _ in passages]
        width = max(map(len, rows))
        # by numpy, which reads lists three times faster than torch
        ids, lengths, keys = (
            torch.from_numpy(numpy.array(drawn)).to(generator.device)
            for drawn in (
                [row + [PAD] * (width - len(row)) for row in rows],
                [len(row) for row in rows],
                [self._keys_of(pairs) for _, pairs in passages],
            )
        )
        return constant(START, lengths), Ragged(ids, lengths), keys

    def _keys_of(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        """Ids of PAIRS pairs, each in order, so that it does not matter which word came first."""
        ids = [index for pair in pairs for index in sorted(self.ids(*pair))]
        return ids + [PAD] * (2 * PAIRS - len(ids))

    @functools.cached_property
    def _famous(self) -> torch.Tensor:
        return torch.tensor([sorted(self.ids(*pair)) for pair in FAMOUS])  # [n, 2]

    def split_of(self, keys: torch.Tensor) -> torch.Tensor:
        """Held out where any of the pairs is, validating where any does and none is held out."""
        pairs = keys.view(-1, 2)  # [B · PAIRS, 2]
        is_famous = (pairs[:, None] == self._famous.to(keys.device)).all(-1).any(-1)
        splits = split_by_keys(pairs).masked_fill(is_famous, SPLITS.index(HELD_OUT))
        splits = splits.masked_fill(pairs[:, 0] == PAD, SPLITS.index(TRAINING))
        return splits.view(-1, PAIRS).amax(1)  # in the order of SPLITS

    def batch(self, sources: Ragged, targets: Ragged) -> Batch:
        """`<s>` as source, or a person's beginning; the target ends in `</s>`."""
        input_ids = sources.padded(PAD)
        mask = (input_ids != PAD).long()
        targets = targets + constant(END, targets.lengths)
        return Batch(input_ids, targets.padded(IGNORED), None if mask.all() else mask)

    # What counts

    def decisions_of(self, ids: Sequence[int]) -> list[Decision]:
        """What is decided in a passage by its earlier words, of words that are there and known."""
        words = [self.tokens[index] for index in ids if index not in (PAD, START, END, IGNORED)]
        return [d for d in find_decisions(" ".join(words)) if d.at < len(words) and words[d.at] in d.right]

    def count_tokens(self, labels: torch.Tensor) -> torch.Tensor:
        counts = torch.zeros_like(labels, dtype=torch.bool)
        for row, ids in enumerate(labels.tolist()):
            counts[row, [decision.at for decision in self.decisions_of(ids)]] = True
        return counts

    def judge_tokens(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Whether the likeliest word, of those that it is chosen among, is one of the right ones."""
        found = []
        for scores, ids in zip(logits, labels.tolist(), strict=True):
            for decision in self.decisions_of(ids):
                among = self._ids_of(decision.among or frozenset(self.symbols)).to(logits.device)
                right = self._ids_of(decision.right).to(logits.device)
                here = scores[decision.at]
                found.append(here[right].max() >= here[among].max())
        return torch.stack(found) if found else torch.zeros(0, dtype=torch.bool, device=logits.device)

    def sizes_of_tokens(self, labels: torch.Tensor) -> list[str]:
        """The kind of decision of each word that counts."""
        return [decision.family for ids in labels.tolist() for decision in self.decisions_of(ids)]

    def _ids_of(self, words: frozenset[str]) -> torch.Tensor:
        return _ids_of(self, words)

    # What a person writes

    def beginnings(self) -> list[str]:
        """Sentences that everybody knows, up to the word that is decided."""
        return list(BEGINNINGS)

    def split_source(self, text: str) -> list[str]:
        """Words in small letters; those that are not known become `<new1>` … `<new4>`, in order."""
        words = self.words_of(text)
        if len(words) > LONGEST:
            raise ValueError(f"The text has {len(words)} words; {LONGEST} are read at most. Shorten it.")
        if not words:
            raise ValueError(f"The text has no word; write, for example, {self.worked_example.source!r}.")
        left = [token for token in NEW if token not in words]  # a person may write these, too
        new: dict[str, str] = {}
        for word in words:
            if word not in self.vocabulary and word not in new:
                if not left:
                    known = ", ".join(f"“{one}”" for one in (*new, word))
                    raise ValueError(
                        f"This model knows {len(WORDS)} English words and can read {len(NEW)} others in a "
                        f"text; this one has {known}. Leave one out, or write, for example, "
                        f"{self.worked_example.source!r}."
                    )
                new[word] = left.pop(0)
        return [new.get(word, word) for word in words]

    def words_of(self, text: str) -> list[str]:
        """A person's words in small letters, signs that are not read left out."""
        plain = re.sub(UNREAD, " ", text.lower()).replace("!", ".")
        plain = re.sub(r"\b(did|does|is|was|are|were)n['’]t\b", r"\1 not", plain)
        return re.findall(WORD, plain)

    def source_tokens(self, text: str) -> list[str]:
        """`<s>`, and the words as a person wrote them."""
        self.split_source(text)
        return [self.tokens[START], *self.words_of(text)]

    def stand_ins(self, text: str) -> dict[str, str]:
        """`<new1>` and so on, with the words that they stand for in this text."""
        pairs = zip(self.split_source(text), self.words_of(text), strict=True)
        return {symbol: word for symbol, word in pairs if symbol != word}

    def suits(self, text: str) -> bool:
        """Whether a text has a word that the model knows: any is read, but it need not be meant for it."""
        return any(word in WORDS for word in re.findall(r"[a-z]+", text.lower()))

    def encode(self, text: str) -> list[int]:
        """How a passage begins → ids, `<s>` first and nothing behind: the model goes on there."""
        return [START, *super().encode(text)[:-1]]

    def read_source(self, ids: Sequence[int]) -> str:
        """The beginning's words, without `<s>`."""
        return super().read_source([index for index in ids if index not in (START, PAD)])

    def join_source(self, symbols: Sequence[str]) -> str:
        return " ".join(symbols)

    def key_of(self, source: str) -> list[int]:
        """The pairs of the last decision that the text has, or comes to; none where it has no decision."""
        decisions = find_decisions(" ".join(self.split_source(source)))
        return self._keys_of(decisions[-1].pairs if decisions else ())

    def find_split(self, source: str) -> str | None:
        """As of every task; None where the text has none of the pairs."""
        return super().find_split(source) if any(self.key_of(source)) else None

    def answer(self, source: str) -> str | None:
        """The word that is decided behind a beginning, where there is exactly one."""
        decision = self.decide_next(source)
        return next(iter(decision.right)) if decision is not None and len(decision.right) == 1 else None

    def decide_next(self, source: str) -> Decision | None:
        """What decides the word that follows; None where nothing is known to."""
        words = self.split_source(source)
        decisions = find_decisions(" ".join(words))
        return decisions[-1] if decisions and decisions[-1].at == len(words) else None

    def verify(self, source: str, prediction: str, reference: str | None = None) -> Verdict:  # noqa: ARG002
        """Whether the first word written is one that the beginning allows; None where it decides nothing."""
        decision, written = self.decide_next(source), self.split_target(prediction)
        if decision is None:
            return Verdict(None, (), ())
        right = written[0] if written and written[0] in decision.right else min(decision.right)
        first = judge(written[:1], [right])
        return Verdict(first.correct, (*first.wrong, *[False] * (len(written) - 1)), (right,))

    def alignment(self, source: str, target: str) -> list[list[int]]:
        """Which words of `<s>`, the beginning and what is written before it each written word needs."""
        words = self.split_source(source) if source else []
        written, start = self.split_target(target), 1 + len(words)
        needed = [[0] * (start + place) for place in range(len(written) + 1)]
        for decision in find_decisions(" ".join([*words, *written])):
            if len(words) <= decision.at <= len(words) + len(written):  # the next one, too
                for place in decision.by:
                    needed[decision.at - len(words)][1 + place] = 1
        return needed

    def decided(self, text: str) -> dict[int, tuple[str, frozenset[str]]]:
        found = find_decisions(" ".join(self.split_source(text)))
        return {decision.at: (decision.family, decision.right) for decision in found}

    def followups(self, text: str) -> dict[str, str]:
        """How a passage may go on to a word that is decided, or words with which another one is.

        ". the tired" behind "… because it was tired", and "tired → soft" where soft is said of the mat.
        """
        try:
            known, words, decision = self.split_source(text), self.words_of(text), self.decide_next(text)
        except ValueError:
            return {}
        found: dict[str, str] = {}
        if decision is None:
            whole = " ".join(words).removesuffix(" .")
            for word, symbol in dict(zip(words, known, strict=True)).items():
                if symbol in NEW or any(symbol in LISTS[name] for name in ASKED):
                    found |= {end.format(word): f"{whole} {end.format(word)}" for end in ENDS}
            return {name: new for name, new in found.items() if self.decide_next(new) is not None}
        for word in dict.fromkeys(words):
            for other in _list_others(word):
                new = " ".join(other if one == word else one for one in words)
                turned = self.decide_next(new)
                if turned is not None and turned.right != decision.right:
                    found[f"{word} → {other}"] = new
        return found

    def chosen_first(self, source: str, target: str) -> list[bool | None]:
        """Whether a decided word is the earlier of the two nouns or names that are chosen between."""
        words = self.split_source(source) if source else []
        written = self.split_target(target)
        found: list[bool | None] = [None] * (len(written) + 1)
        for decision in find_decisions(" ".join([*words, *written])):
            if 0 <= decision.at - len(words) < len(written):
                found[decision.at - len(words)] = decision.is_first
        return found

    def size_of(self, source: str) -> str:  # type: ignore[override]
        """The kind of decision that is next; nothing where there is none."""
        decision = self.decide_next(source)
        return decision.family if decision is not None else ""

    @functools.cached_property
    def tokenizer(self) -> "PreTrainedTokenizerFast":
        """Words in small letters; every word that is not known is `<new1>`."""
        tokenizer = Tokenizer(models.WordLevel(self.vocabulary, unk_token=NEW[0]))
        unread, mark = normalizers.Replace(Regex(UNREAD), " "), normalizers.Replace("!", ".")
        tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), unread, mark])
        split = pre_tokenizers.Split(Regex(WORD), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), split])
        tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=False)
        wrapped = wrap_tokenizer(tokenizer, self.max_source_tokens)
        wrapped.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", START)]
        )
        return wrapped


def _list_others(word: str) -> list[str]:
    """Words to put in a word's place: of the opposite kind, or in the other number."""
    others = [LISTS[other][0] for one, of in OPPOSITES.items() if word in LISTS[one] for other in of]
    for one, other in (("thing", "things"), ("things", "thing")):
        if word in LISTS[one]:
            others.append(LISTS[other][LISTS[one].index(word)])
    return others


@functools.lru_cache(maxsize=4096)
def _ids_of(task: Sentences, words: frozenset[str]) -> torch.Tensor:
    """[n] ids of words."""
    return torch.tensor(sorted(task.ids(*words)))
