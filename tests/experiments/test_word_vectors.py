"""Word vectors: what is drawn and lost, that they learn, and what is asked of them."""

import dataclasses
import itertools

import pytest
import torch

from hf_attn.experiments.words.countries import COUNTRIES, compose_country_sentences, find_capital
from hf_attn.experiments.words.sentences import split_sentences, split_words
from hf_attn.experiments.words.word_vectors import (
    KINDS,
    Settings,
    UnknownWord,
    WordVectors,
    batch_loss,
    draw_batch,
    learn_word_vectors,
    look_up,
    read_text,
    share_first,
    train_vectors,
)

PAIRS = [(country.name, country.capital) for country in COUNTRIES]
SHORT = Settings(steps=12, width=8, batch_size=64)


@pytest.fixture(scope="module", params=KINDS)
def learned(request):
    """Vectors of the composed text, of either kind."""
    return learn_word_vectors(compose_country_sentences(), Settings(request.param))


@pytest.fixture
def square():
    """Four vectors whose sums can be worked out by hand, and one apart."""
    rows = [[1, 0, 1], [1, 0, -1], [0, 1, 1], [0, 1, -1], [-1, -1, 0]]
    return WordVectors(("paris", "france", "rome", "italy", "stone"), torch.tensor(rows).float())


# ---------------------------------------------------------------- what is learned


def test_paris_minus_france_plus_italy_is_nearest_to_rome(learned):
    first = learned.analogy("Paris", "France", "Italy")[0]
    assert (first.word, first.rank) == ("rome", 1)
    assert share_first(learned, PAIRS) > 0.7
    near = learned.neighbours("Rome", 8)
    assert {one.word for one in near} <= {capital.lower() for _, capital in PAIRS}
    assert [one.rank for one in near] == list(range(1, 9))
    assert all(a.cosine >= b.cosine for a, b in itertools.pairwise(near))
    with pytest.raises(ValueError, match="pairs holds 1, and a sum is made of two"):
        share_first(learned, PAIRS[:1])
    assert find_capital(" PARIS", "france", "Japan ") == "tokyo"
    assert find_capital("rome", "france", "italy") is find_capital("paris", "france", "atlantis") is None


def test_no_sentence_names_a_capital_with_its_country():
    for sentence in compose_country_sentences():
        words = sentence.split()
        assert not any(name in words and capital in words for name, capital in PAIRS), sentence


def test_the_same_seed_gives_the_same_vectors_and_leaves_global_randomness_alone():
    torch.manual_seed(3)
    wanted = torch.rand(2)
    torch.manual_seed(3)
    one, other = (learn_word_vectors(compose_country_sentences(), SHORT, seed=1).vectors for _ in range(2))
    assert torch.equal(torch.rand(2), wanted)
    assert torch.equal(one, other)
    assert not torch.equal(one, learn_word_vectors(compose_country_sentences(), SHORT, seed=2).vectors)


# ---------------------------------------------------------------- what is drawn


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_holds_words_that_stand_together_and_frequent_ones_are_thinned_out(kind, generator):
    sentences = ["the a the b the c the d the e the f the g the h the i the"] * 4
    settings = Settings(kind=kind, window=1, frequent=1.0, batch_size=2000)
    text = read_text(sentences, settings)
    inputs, weights, true, noise = draw_batch(text, settings, generator)
    assert weights.sum(dim=1).allclose(torch.ones(len(true)))
    the = text.words.index("the")
    partners = torch.where(weights > 0, inputs, the)
    assert ((partners == the).any(dim=1) | (true == the)).all()  # every other word is "the"
    assert noise.shape == (len(true), settings.negatives)
    assert (noise == the).float().mean() == pytest.approx(
        float(text.counts[the] ** 0.75 / (text.counts**0.75).sum()), abs=0.03
    )
    thinned = draw_batch(text, dataclasses.replace(settings, frequent=1e-2), generator)[2]
    assert len(thinned) < len(true) / 3


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_the_papers_equation_word_by_word(kind, generator):
    text = read_text(compose_country_sentences(), SHORT)
    vectors, outputs = torch.randn(2, len(text.words), 6, generator=generator).double()
    inputs, weights, true, noise = draw_batch(text, Settings(kind=kind, batch_size=20), generator)
    losses = []
    for row in range(len(true)):
        around = [vectors[word] for word, share in zip(inputs[row], weights[row], strict=True) if share]
        hidden = sum(around) / len(around)
        loss = -torch.sigmoid(outputs[true[row]] @ hidden).log()
        for word in noise[row]:
            loss -= torch.sigmoid(-outputs[word] @ hidden).log()
        losses.append(loss)
    expected = sum(losses) / len(losses)
    assert torch.allclose(batch_loss(vectors, outputs, inputs, weights.double(), true, noise), expected)


# ---------------------------------------------------------------- what is asked


def test_an_analogy_leaves_its_own_words_out_and_ranks_all_others(square):
    found = square.analogy("Paris", "France", "Italy")
    assert [near.word for near in found] == ["rome", "stone"]
    assert [near.rank for near in found] == [1, 2]
    longer = dataclasses.replace(square, vectors=square.vectors * torch.tensor([[1.0], [9], [2], [5], [3]]))
    near, wanted = (one.neighbours("paris") for one in (longer, square))
    assert [one.word for one in near] == [one.word for one in wanted], "a direction counts, and not a length"


def test_the_share_of_right_sums_is_that_of_the_sums_one_by_one(learned):
    some = PAIRS[:7]
    right = [
        learned.analogy(capital, name, other)[0].word == answer.lower()
        for (name, capital), (other, answer) in itertools.permutations(some, 2)
    ]
    assert share_first(learned, some) == pytest.approx(sum(right) / len(right))


def test_a_word_without_a_vector_is_refused_with_words_of_a_like_spelling(square):
    with pytest.raises(UnknownWord, match=r"'pariss' is not among the 5 words .* did you mean paris\?"):
        square.neighbours("pariss")
    with pytest.raises(UnknownWord, match="A word is missing: try"):
        square.analogy("paris", " ", "italy")


def test_a_picture_keeps_most_of_what_differs_and_is_the_same_each_time(learned):
    words = [word for pair in PAIRS[:6] for word in pair]
    plane = learned.project(words)
    rows = learned.vectors[[learned.find(word) for word in words]]
    spread = (rows - rows.mean(dim=0)).pow(2).sum()
    assert float(plane.places.pow(2).sum() / spread) == pytest.approx(plane.share, abs=1e-4)
    assert 0.3 < plane.share <= 1
    assert torch.equal(plane.places, learned.project(words).places)
    with pytest.raises(ValueError, match="at least three"):
        learned.project(words[:2])


def test_looking_up_is_a_one_hot_product(generator):
    table = torch.randn(5000, 100, generator=generator)
    ids = torch.randint(5000, (4, 15), generator=generator)
    found, apart = look_up(ids, table)
    assert found.shape == (4, 15, 100)
    assert torch.equal(found[2, 7], table[ids[2, 7]])
    assert apart < 1e-6


# ---------------------------------------------------------------- texts and settings


def test_a_text_of_too_few_words_or_without_company_is_refused_before_learning():
    with pytest.raises(ValueError, match=r"Only 2 different words are met 2 times or more; at least 10"):
        read_text(["one two", "one two three"], SHORT)
    alone = [f"word{chr(97 + place)}" for place in range(12)] * 3
    with pytest.raises(
        ValueError, match=r"None of the 12 words .* 2 times or more .* bring longer sentences"
    ):
        next(train_vectors(alone, SHORT, torch.Generator()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_chance_leaves_empty_is_passed_over(kind):
    settings = dataclasses.replace(SHORT, kind=kind, batch_size=1, frequent=1e-3, steps=30)
    text = read_text(compose_country_sentences(), settings)
    sizes = {len(draw_batch(text, settings, torch.Generator().manual_seed(seed))[3]) for seed in range(30)}
    assert 0 in sizes
    assert learn_word_vectors(compose_country_sentences(), settings).vectors.isfinite().all()


@pytest.mark.parametrize(("settings", "words"), [
    ({"kind": "glove"}, "kind='glove' .* skip-gram or CBOW"),
    ({"window": 0}, "window=0 must be a whole number of at least 1"),
    ({"width": 1.5}, "width=1.5 must be a whole number"),
    ({"frequent": 0.0}, "frequent=0.0 must be finite, above 0; 0.01 works"),
    ({"learning_rate": float("inf")}, "learning_rate=inf must be finite, above 0; 0.02 works"),
])  # fmt: skip
def test_settings_that_cannot_be_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        Settings(**settings)


def test_words_and_sentences_are_found():
    assert split_sentences("Is it? Yes.\nNo! 3.14 is a number.") == [
        "Is it?",
        "Yes.",
        "No!",
        "3.14 is a number.",
    ]
    assert split_words("It’s 3 o'clock, naïve 東京!") == ["it's", "o'clock", "naïve", "東京"]
