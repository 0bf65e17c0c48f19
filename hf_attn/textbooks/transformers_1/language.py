"""`transformers_part_1`: its claims on words as vectors, tokens and bags of words, on vectors of our own."""

import math
from collections import Counter
from functools import cache

import torch
from torch.nn.functional import cosine_similarity, one_hot

from hf_attn.analysis.predictions import predict_tokens
from hf_attn.experiments.base import learn_and_measure
from hf_attn.experiments.word_order import naive_bayes
from hf_attn.experiments.words.bag_of_words import PLACES, compare_word_orders
from hf_attn.experiments.words.bpe_steps import learn_bpe_merges
from hf_attn.experiments.words.countries import COUNTRIES, compose_country_sentences
from hf_attn.experiments.words.word_vectors import (
    KINDS,
    Settings,
    WordVectors,
    learn_word_vectors,
    share_first,
)
from hf_attn.tasks.batch import PAD, Batch
from hf_attn.tasks.splits import HELD_OUT, TRAINING
from hf_attn.tasks.text.topics import Topics
from hf_attn.tasks.tokenizers.trained import SPACE
from hf_attn.textbooks.chapter_8.heads import open_bundled
from hf_attn.textbooks.claims import STATED, Claim, Measured

COOKING = ("cook", "cooks", "cooked", "cooking")


@cache
def learned(kind: str) -> WordVectors:
    """Vectors of the composed sentences on countries, seed 0."""
    return learn_word_vectors(compose_country_sentences(), Settings(kind))


def rank_of_rome() -> Measured:
    sums = (learned(kind).analogy("Paris", "France", "Italy") for kind in KINDS)
    return tuple(float(next(near.rank for near in ranked if near.word == "rome")) for ranked in sums)


def capitals() -> Measured:
    pairs = [(country.name, country.capital) for country in COUNTRIES]
    shares = [share_first(learned(kind), pairs) for kind in KINDS]
    return tuple("most" if share > 0.5 else "few" for share in shares)


def unlike() -> Measured:
    cat, kitten, car = one_hot(torch.arange(3)).float()
    return float(cosine_similarity(cat, kitten, dim=0)), float(cosine_similarity(cat, car, dim=0))


def same_bag() -> Measured:
    one, other = ["dog", "bites", "man"], ["man", "bites", "dog"]
    met = Counter([*one, "dog"])  # unequal counts, so that equal sums are no accident of equal terms
    logs = [sum(math.log(met[word] / met.total()) for word in sentence) for sentence in (one, other)]
    mean = compare_word_orders(one, other).rows[-1]
    return (abs(logs[0] - logs[1]), *(mean.distance[name] for name in PLACES))


def topics_named() -> Measured:
    task = Topics()
    accuracy = learn_and_measure(task, task.recipe, seed=0)["exact_match"]
    return name_topics(task), accuracy


def name_topics(task: Topics) -> float:
    """The share of all held-out texts whose topic naive Bayes names right."""
    training, held_out = (read_split(task, split) for split in (TRAINING, HELD_OUT))
    named = naive_bayes(training, held_out, len(task.vocabulary))
    return float((named == held_out.labels).float().mean())


def read_split(task: Topics, split: str) -> Batch:
    rows = task.rows_of(split)
    return Batch(task.encoded.sources.rows(rows).padded(PAD), task.encoded.targets.rows(rows).ids[:, 0])


def senses_of_bank() -> Measured:
    """How sure the English model is of words of the river, and of money, behind a fisherman and a clerk."""
    checkpoint = open_bundled("attn-sentences")
    task, found = checkpoint.task_named(), []
    for person, seen in (("fisherman", ("water", "fish", "boat")), ("clerk", ("money", "coins", "cash"))):
        source = torch.tensor([task.encode(f"the {person} sat at the bank and watched the")])
        (expected,) = predict_tokens(checkpoint.model, source)
        found.append(float(expected.log_probabilities[-1].exp()[task.ids(*seen)].sum()))
    return tuple(found)


CLAIMS = (
    Claim(
        "“Bank” means different things beside river and beside cash: how sure a model is of words of the "
        "river behind a fisherman, of money behind a clerk.",
        "≥0.50 ≥0.50",
        senses_of_bank,
        "attn-sentences, which met neither of them with a bank in training; river and cash themselves stand "
        "behind it there.",
        where="1",
        kind=STATED,
    ),
    Claim(
        "Paris − France + Italy: the rank of Rome, by skip-gram and by CBOW.",
        "1 1",
        rank_of_rome,
        "It names no vectors. These are our own, of 600 sentences composed from a table of 30 countries; "
        "none of them names a capital with its country.",
        where="2.1",
        kind=STATED,
    ),
    Claim(
        "Word vectors capture relations: how many of the sums of any two of 30 countries and their capitals "
        "have the right word first.",
        "most most",
        capitals,
        "The same vectors, 870 sums; skip-gram, then CBOW. The Language tab shows the share.",
        where="2.1",
        kind=STATED,
    ),
    Claim(
        "One-hot vectors do not: the cosine of cat and kitten, of cat and car.",
        "0 0",
        unlike,
        "Every two of them are at right angles.",
        where="2.1",
        kind=STATED,
    ),
    Claim(
        "cook, cooks, cooked and cooking share the token cook: how many of the four begin with it.",
        "4",
        lambda: (learn_bpe_merges(" ".join(COOKING), most=20)[-1].pieces.count(f"{SPACE}cook"),),
        "Byte pair encoding learned from the four words alone.",
        where="2.2",
        kind=STATED,
    ),
    Claim(
        "A bag of words ignores order: what tells “dog bites man” from “man bites dog”, in the bag's "
        "log-probability and in attention's mean output, without and with positions.",
        "0.000 <1e-6 >0.010",
        same_bag,
        "Only positions tell them apart; of an untrained layer, as a share of the output's length.",
        where="2.3",
        kind=STATED,
    ),
    Claim(
        "Naive Bayes is useful for classifying text: topics of held-out docstrings that it names right, and "
        "that attention does.",
        ">0.10 >0.10",
        topics_named,
        "One of ten topics, so chance is near 0.10; both read the same first tokens of each text.",
        is_full=True,
        where="2.3",
        kind=STATED,
    ),
)
