"""Word vectors learned from a text: CBOW and skip-gram with negative sampling.

    CBOW:       −log σ(u_cᵀ h) − Σ_k log σ(−u_kᵀ h),    h the mean of v_o over the words o around c
    skip-gram:  −Σ_o [log σ(u_oᵀ v_c) + Σ_k log σ(−u_kᵀ v_c)]

(Mikolov et al. 2013, arXiv:1301.3781 and arXiv:1310.4546.) c is a word, o the words at most W places from it,
k drawn from how often words are met, to the power of ¾. v are the vectors that are kept; u are thrown away.
"""

import difflib
import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import embedding, logsigmoid, normalize, one_hot

from hf_attn.experiments.words.sentences import split_words
from hf_attn.utils.text import quote

KINDS = ("skip-gram", "CBOW")
NOISE_POWER = 0.75  # arXiv:1310.4546, §2.2
FEWEST_WORDS = 10  # of a vocabulary: fewer have no neighbours to speak of
NO_WORD = -1  # beyond the end of a sentence
REPORTS = 60  # of a training


@dataclass(frozen=True)
class Settings:
    """How vectors are learned.

    Attributes:
        kind: "skip-gram" or "CBOW".
        width: D, numbers of a vector.
        window: W, how far a word's company reaches; for each word drawn anew from 1 to W, so that near words
            count more.
        negatives: K, words drawn as noise for each true one.
        least_count: words met less often are left out.
        most_words: the most frequent words are kept.
        frequent: t; of a word that is a share f of the text, √(t/f) of its places are read.
        steps: batches.
        batch_size: places of the text a batch.
        learning_rate: of Adam, falling to 0 on a straight line. The papers' plain steps need far more text.
    """

    kind: str = "skip-gram"
    width: int = 32
    window: int = 4
    negatives: int = 5
    least_count: int = 2
    most_words: int = 4000
    frequent: float = 1e-2
    steps: int = 600
    batch_size: int = 512
    learning_rate: float = 0.02

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(
                f"kind={quote(self.kind)} of word vectors is not known; choose {' or '.join(KINDS)}."
            )
        for name in ("width", "window", "negatives", "least_count", "most_words", "steps", "batch_size"):
            if not isinstance(value := getattr(self, name), int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name}={quote(value)} must be a whole number of at least 1.")
        for name in ("frequent", "learning_rate"):
            if not 0 < (value := getattr(self, name)) < torch.inf:
                raise ValueError(f"{name}={value} must be finite, above 0; {getattr(Settings, name)} works.")


# at so many words a text is long: rare words and frequent ones then only cost time
LONG_TEXT = 20_000
LONG: dict[str, Any] = {"width": 48, "least_count": 5, "frequent": 1e-3, "steps": 1200, "batch_size": 1024}


class UnknownWord(ValueError):
    """A word that has no vector."""


@dataclass(frozen=True)
class Near:
    """A word and how near it is."""

    word: str  # the word
    cosine: float  # of the angle between its vector and the one searched for
    rank: int  # 1 for the nearest


@dataclass(frozen=True)
class Plane:
    """Vectors seen from the side from which they differ most."""

    places: torch.Tensor  # [n, 2]
    share: float  # of their variance that is seen


@dataclass(frozen=True, eq=False)
class WordVectors:
    """A vector for each word; who asks for a word that has none gets UnknownWord.

    Attributes:
        words: the most frequent first.
        vectors: [V, D].
    """

    words: tuple[str, ...]
    vectors: torch.Tensor

    def find(self, word: str) -> int:
        """A word's place; capitals do not count. UnknownWord names words of a like spelling."""
        wanted = word.strip().lower()
        if wanted in self.words:
            return self.words.index(wanted)
        close = difflib.get_close_matches(wanted, self.words, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else f"try {', '.join(self.words[-3:])}."
        raise UnknownWord(
            f"{quote(word.strip())} is not among the {len(self.words):,} words that have a vector: {hint}"
            if wanted
            else f"A word is missing: {hint}"
        )

    def neighbours(self, word: str, n: int = 10) -> list[Near]:
        """The n words whose vectors point most nearly the same way."""
        place = self.find(word)
        return self._rank(self.vectors[place], (place,))[:n]

    def analogy(self, word: str, without: str, plus: str) -> list[Near]:
        """All other words by their nearness to v(word) − v(without) + v(plus), each vector of length 1.

        "paris", "france", "italy": Paris − France + Italy. The three words themselves are left out, as in
        arXiv:1301.3781, §4.1.
        """
        places = tuple(self.find(one) for one in (word, without, plus))
        one, less, more = normalize(self.vectors[list(places)], dim=1)
        return self._rank(one - less + more, places)

    def _rank(self, wanted: torch.Tensor, left_out: Sequence[int]) -> list[Near]:
        cosines = normalize(self.vectors, dim=1) @ normalize(wanted, dim=0)  # [V]
        order = [place for place in cosines.argsort(descending=True).tolist() if place not in left_out]
        return [Near(self.words[place], float(cosines[place]), rank) for rank, place in enumerate(order, 1)]

    def project(self, words: Sequence[str]) -> Plane:
        """The first two principal components (Pearson 1901), U S of X − mean = U S Vᵀ.

        ValueError for fewer than 3 words.
        """
        if len(words) < 3:
            raise ValueError(f"{len(words)} words make no picture: give at least three.")
        rows = self.vectors[[self.find(word) for word in words]]
        left, sizes, _ = torch.linalg.svd(rows - rows.mean(dim=0), full_matrices=False)
        places = left[:, :2] * sizes[:2]  # [n, 2]
        farthest = places.abs().argmax(dim=0, keepdim=True)
        signs = places.gather(0, farthest).sign()  # the same picture each time
        return Plane(places * signs, float((sizes[:2] ** 2).sum() / (sizes**2).sum()))


@dataclass(frozen=True)
class Report:
    """How the training stands."""

    step: int  # batches read
    steps: int  # batches in all
    loss: float  # mean over the batches since the last report, a true word with its noise; NaN for none
    seconds: float  # spent on batches
    vectors: WordVectors  # as they are now


@dataclass(frozen=True, eq=False)
class Text:
    """A tokenized text from which training positions are sampled."""

    words: tuple[str, ...]  # the vocabulary, the most frequent first
    counts: torch.Tensor  # [V] how often each is met
    centres: torch.Tensor  # [N] the word at each place
    company: torch.Tensor  # [N, 2W] the words around it, the near ones first; −1 beyond the sentence


def choose_word_vector_settings(sentences: Sequence[str], kind: str) -> Settings:
    """Settings with which one core learns a text of this length within some seconds."""
    is_long = sum(len(sentence.split()) for sentence in sentences) >= LONG_TEXT
    return Settings(kind, **LONG) if is_long else Settings(kind)


def read_text(sentences: Sequence[str], settings: Settings) -> Text:
    """Number the words of sentences and their company; ValueError where no vector can be learned."""
    split = [split_words(sentence) for sentence in sentences]
    met = Counter(itertools.chain.from_iterable(split))
    kept = [(word, n) for word, n in met.most_common(settings.most_words) if n >= settings.least_count]
    if len(kept) < FEWEST_WORDS:
        raise ValueError(
            f"Only {len(kept)} different words are met {settings.least_count} times or more; "
            f"at least {FEWEST_WORDS} are needed: bring a longer text."
        )
    number = {word: place for place, (word, _) in enumerate(kept)}
    offsets = [sign * far for far in range(1, settings.window + 1) for sign in (-1, 1)]
    centres, company = [], []
    for words in split:
        ids = [number[word] for word in words if word in number]
        for place, centre in enumerate(ids):
            around = (place + offset for offset in offsets)
            centres.append(centre)
            company.append([ids[at] if 0 <= at < len(ids) else NO_WORD for at in around])
    around_each, counts = torch.tensor(company), torch.tensor([n for _, n in kept])
    if (around_each == NO_WORD).all():
        raise ValueError(
            f"None of the {len(kept)} words that are met {settings.least_count} times or more stands beside "
            "another in its sentence, and a vector is learned from a word's company: bring longer sentences."
        )
    return Text(tuple(number), counts, torch.tensor(centres), around_each)


def train_vectors(
    sentences: Sequence[str], settings: Settings, generator: torch.Generator
) -> Iterator[Report]:
    """Learn a vector for each word, reporting about sixty times; stopping is closing the generator.

    Args:
        sentences: the text; a word's company ends where its sentence does.
        settings: how.
        generator: draws first vectors, places and noise, on the processor.

    Raises:
        ValueError: a text that `read_text` refuses.
    """
    text = read_text(sentences, settings)
    size = len(text.words)
    vectors = (torch.rand(size, settings.width, generator=generator) - 0.5) / settings.width  # as word2vec.c
    vectors.requires_grad_()
    outputs = torch.zeros(size, settings.width, requires_grad=True)
    optimizer = torch.optim.Adam((vectors, outputs), lr=settings.learning_rate, fused=True)
    every, seconds = max(1, settings.steps // REPORTS), 0.0
    losses: list[float] = []

    def report(step: int) -> Report:
        loss = sum(losses) / len(losses) if losses else float("nan")
        learned = WordVectors(text.words, vectors.detach().clone())
        return Report(step, settings.steps, loss, seconds, learned)

    yield report(0)
    for step in range(1, settings.steps + 1):
        started = time.perf_counter()
        optimizer.param_groups[0]["lr"] = settings.learning_rate * (1 - (step - 1) / settings.steps)
        batch = draw_batch(text, settings, generator)
        if len(batch[0]):  # chance may leave out all that was drawn
            loss = batch_loss(vectors, outputs, *batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        seconds += time.perf_counter() - started
        if step % every == 0 or step == settings.steps:
            yield report(step)
            losses.clear()


def draw_batch(
    text: Text, settings: Settings, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Draw places, leave out frequent words and far ones, and draw noise.

    Returns:
        (inputs [P, M] whose vectors are averaged, weights [P, M] of that mean, the true word [P], noise
        [P, K]); P may be 0. CBOW has a row for each word read, and M = 2W; skip-gram one a pair, and M = 1.
    """
    share = text.counts / text.counts.sum()
    kept = (settings.frequent / share).sqrt().clamp(max=1)  # [V], arXiv:1310.4546, eq. 5
    places = torch.randint(len(text.centres), (settings.batch_size,), generator=generator)
    chance = torch.rand(len(places), generator=generator)
    places = places[chance < kept[text.centres[places]]]
    centres, company = text.centres[places], text.company[places]  # [B], [B, 2W]
    reach = torch.randint(1, settings.window + 1, (len(places), 1), generator=generator)
    is_near = torch.arange(company.shape[1]) < 2 * reach
    chance = torch.rand(company.shape, generator=generator)
    is_read = (company != NO_WORD) & is_near & (chance < kept[company])
    if settings.kind == "CBOW":
        has_any = is_read.any(dim=1)
        weights = is_read[has_any].float()
        inputs, true = company[has_any].clamp(min=0), centres[has_any]
        weights = weights / weights.sum(dim=1, keepdim=True)
    else:
        row, slot = is_read.nonzero(as_tuple=True)
        inputs, true = centres[row].unsqueeze(1), company[row, slot]
        weights = torch.ones(len(row), 1)
    chances, n = text.counts.float() ** NOISE_POWER, max(1, len(true)) * settings.negatives
    noise = torch.multinomial(chances, n, replacement=True, generator=generator)
    return inputs, weights, true, noise.view(-1, settings.negatives)[: len(true)]


def batch_loss(
    vectors: torch.Tensor,
    outputs: torch.Tensor,
    inputs: torch.Tensor,
    weights: torch.Tensor,
    true: torch.Tensor,
    noise: torch.Tensor,
) -> torch.Tensor:
    """Negative sampling: tell the true word from noise, arXiv:1310.4546, eq. 4; the mean over rows.

    Args:
        vectors: v, [V, D].
        outputs: u, [V, D].
        inputs: [P, M] as `draw_batch` gives them, and so the others.
        weights: [P, M].
        true: [P].
        noise: [P, K].
    """
    hidden = (weights.unsqueeze(2) * embedding(inputs, vectors)).sum(dim=1)  # [P, D]
    right = (embedding(true, outputs) * hidden).sum(dim=1)  # [P]
    wrong = (embedding(noise, outputs) @ hidden.unsqueeze(2)).squeeze(2)  # [P, K]
    return -(logsigmoid(right) + logsigmoid(-wrong).sum(dim=1)).mean()


def learn_word_vectors(sentences: Sequence[str], settings: Settings, seed: int = 0) -> WordVectors:
    """Learn to the end; the same vectors for the same seed."""
    *_, last = train_vectors(sentences, settings, torch.Generator().manual_seed(seed))
    return last.vectors


def share_first(vectors: WordVectors, pairs: Sequence[tuple[str, str]]) -> float:
    """Of all sums v(b) − v(a) + v(c), with (a, b) and (c, d) two of the pairs, how many are nearest to d.

    Args:
        vectors: of all the words.
        pairs: such as ("France", "Paris"); ValueError for fewer than two.
    """
    if len(pairs) < 2:
        raise ValueError(f"pairs holds {len(pairs)}, and a sum is made of two: give at least two.")
    table = normalize(vectors.vectors, dim=1)
    one, other = (torch.tensor([vectors.find(word) for word in side]) for side in zip(*pairs, strict=True))
    offset = table[other] - table[one]  # [n, D]
    sums = offset.unsqueeze(1) + table[one].unsqueeze(0)  # [n, n, D]: the row's offset, the column's a
    cosines = normalize(sums, dim=2) @ table.T  # [n, n, V]
    n = len(one)
    for left_out in (one.view(n, 1), other.view(n, 1), one.view(1, n)):  # as in `analogy`
        cosines.scatter_(2, left_out.expand(n, n).unsqueeze(2), -torch.inf)
    is_right = cosines.argmax(dim=2) == other
    return float(is_right[~torch.eye(n, dtype=torch.bool)].float().mean())


def look_up(ids: torch.Tensor, table: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Embed ids by a table E [V, D], and compare with what it stands for: x_n one-hot, v_n = Eᵀ x_n.

    Returns:
        (vectors [..., D], the largest difference from the product).
    """
    found = embedding(ids, table)
    product = one_hot(ids, len(table)).to(table.dtype) @ table
    return found, float((found - product).abs().max()) if found.numel() else 0.0
