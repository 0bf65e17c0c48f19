"""Words as tokens, bags and n-grams: byte pairs learned step by step, orders compared, next words counted."""

import collections
import itertools
import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_attn.experiments.word_order import NAIVE_BAYES, Order, WordOrderSizes
from hf_attn.experiments.words import ngram_text
from hf_attn.experiments.words.bag_of_words import PLACES, compare_word_orders, learn_word_order, twins
from hf_attn.experiments.words.bpe_steps import (
    learn_bpe_merges,
    split_at_words,
    split_bytes,
    split_characters,
)
from hf_attn.models.configuration_attn_decoder import AttnDecoderConfig
from hf_attn.models.modeling_attn_decoder import AttnDecoderForCausalLM
from hf_attn.tasks.batch import IGNORED, SPECIAL_TOKENS
from hf_attn.tasks.splits import TRAINING
from hf_attn.tasks.text.language import PRODUCT_MODEL
from hf_attn.tasks.tokenizers.trained import SPACE, train_tokenizer

PIPER = "Peter Piper picked a peck of pickled peppers"
TEXT = " ".join(
    f"the {a} {b} the {c}." for a in ("cat", "dog") for b in ("sees", "eats") for c in ("rat", "bat", "cat")
)

# ---------------------------------------------------------------- tokens


def merges_of(tokenizer):
    """The pairs that a BPE tokenizer merges, in the order they were learned in."""
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    return [(left, right) for left, right in model.get("merges", ())]


def test_pe_merges_first_and_then_ck():
    (step,) = learn_bpe_merges("ab cd", 0)  # within words
    assert dict(step.pairs) == {(SPACE, "a"): 1, ("a", "b"): 1, (SPACE, "c"): 1, ("c", "d"): 1}
    first, second = learn_bpe_merges(PIPER, 2)[1:]
    assert (first.merge, first.count) == (("p", "e"), 4)
    assert (second.merge, second.count) == (("c", "k"), 3)
    assert merges_of(train_tokenizer([PIPER], "bpe", 100))[:2] == [first.merge, second.merge]


@settings(max_examples=25, deadline=None)
@given(st.text("ab c.é", max_size=60))
def test_the_merges_learned_step_by_step_are_the_library_s(text):
    steps = learn_bpe_merges(text, 12)
    vocab_size = len(SPECIAL_TOKENS) + len(steps[0].vocabulary) + 12
    assert [step.merge for step in steps[1:]] == merges_of(train_tokenizer([text], "bpe", vocab_size))


@settings(max_examples=25, deadline=None)
@given(st.text(min_size=1, max_size=40))
def test_every_step_is_the_same_text_and_every_token_has_its_id(text):
    steps = learn_bpe_merges(text, 8)
    whole = "".join(steps[0].pieces)
    for before, after in itertools.pairwise(steps):
        assert "".join(after.pieces) == whole
        assert len(after.pieces) == len(before.pieces) - after.count or after.merge[0] == after.merge[1]
        assert after.vocabulary[: len(before.vocabulary)] == before.vocabulary
        assert before.pairs[0] == (after.merge, after.count)
    for cut in (split_characters(text), split_bytes(text), split_at_words(text)):
        assert [cut.vocabulary[place] for place in cut.ids] == list(cut.tokens)


# ---------------------------------------------------------------- order


def test_without_positions_each_word_s_output_is_permuted_and_with_them_it_changes():
    found = compare_word_orders(["dog", "bites", "man"], ["man", "bites", "dog"])
    assert [(row.word, row.places) for row in found.rows[:-1]] == [
        ("dog", (0, 2)),
        ("bites", (1, 1)),
        ("man", (2, 0)),
    ]
    without, with_ = PLACES
    assert all(row.distance[without] < 1e-12 for row in found.rows)
    assert all(row.distance[with_] > 1e-2 for row in found.rows)
    assert found.rows[-1].places is None
    found = compare_word_orders(["the", "bank", "by", "the", "river"], ["the", "river", "by", "the", "bank"])
    assert found.bag == {"the": 2, "bank": 1, "by": 1, "river": 1}
    assert [row.places for row in found.rows if row.word == "the"] == [(0, 0), (3, 3)]


@pytest.mark.parametrize(("one", "other", "words"), [
    ("a b", "a c", "only the first has b; only the second has c"),
    ("a a b", "a b", "only the first has a"),
    ("a", "a", "One word has no order"),
])  # fmt: skip
def test_sentences_of_different_words_are_refused(one, other, words):
    with pytest.raises(ValueError, match=words):
        compare_word_orders(one.split(), other.split())


@pytest.mark.parametrize("length", [-1, 0, 1, "6"])
def test_a_length_that_has_no_place_for_both_letters_is_refused(length):
    with pytest.raises(ValueError, match=rf"length='?{length}'? must be a whole number from 2 to 1,000"):
        next(learn_word_order(WordOrderSizes(length), 0))


def test_models_learn_which_came_first_one_after_the_other():
    sizes = WordOrderSizes(length=6, steps=20, examples=200)
    moments = list(learn_word_order(sizes, 0))
    names = [model.name for model in moments[-1]]
    assert names == [NAIVE_BAYES, *(f"attention {place}" for place in PLACES)]
    assert all(model.is_done and len(model.answers) == 2 for model in moments[-1])
    bayes, without, _ = moments[-1]
    assert bayes.points[0][1] == pytest.approx(0.5, abs=0.01)
    assert without.points[-1] == (20, pytest.approx(0.5, abs=0.01))
    assert without.answers[0] == without.answers[1]  # equal bags
    one, other = twins(sizes)
    task = Order(sizes.length)
    assert collections.Counter(one) == collections.Counter(other)
    assert task.answer(one) != task.answer(other)


# ---------------------------------------------------------------- n-grams


@pytest.fixture(scope="module")
def passages():
    return ngram_text.read_passages(TEXT)


@pytest.fixture(scope="module")
def tables(passages):
    return list(ngram_text.count_ngrams(passages))


def test_next_words_are_a_distribution_with_the_counts_of_the_text(passages, tables):
    for table in tables:
        found = ngram_text.predict_next_words(passages, table, "The dog", n=len(passages.words))
        assert sum(chance for _, chance, _ in found.words) == pytest.approx(1)
        assert sum(times for *_, times in found.words) == found.seen
    bigram = ngram_text.predict_next_words(passages, tables[1], "see the dog")
    training = [row[row != IGNORED].tolist() for row in passages.parts[TRAINING]]
    dog, sees = passages.encode(["dog", "sees"])
    pairs = [pair for row in training for pair in itertools.pairwise(row)]
    assert bigram.context == ("dog",)
    start = ngram_text.predict_next_words(passages, tables[2], "")
    assert (start.context, start.words[0][0]) == (("<s>", "<s>"), "the")
    with pytest.raises(ValueError, match="The text has 1 sentence; at least 10"):
        ngram_text.read_passages("Only one.")
    assert bigram.seen == sum(first == dog for first, _ in pairs)
    assert {word: times for word, _, times in bigram.words}["sees"] == pairs.count((dog, sees))


def test_a_table_grows_by_the_vocabulary_and_attention_does_not_grow():
    sizes = [cells for _, cells in ngram_text.sizes_by_context(50)]
    assert {after / before for before, after in itertools.pairwise(sizes)} == {50}
    config = AttnDecoderConfig(
        vocab_size=50, max_position_embeddings=512, tie_word_embeddings=False, **PRODUCT_MODEL
    )
    assert ngram_text.attention_size(50) == AttnDecoderForCausalLM(config).num_parameters()


def test_a_causal_model_s_next_tokens_are_its_most_probable_ones():
    config = AttnDecoderConfig(vocab_size=9, hidden_size=16, num_attention_heads=2, intermediate_size=16)
    model = AttnDecoderForCausalLM(config).eval()
    found = ngram_text.next_tokens(model, [1, 4, 5], n=9)
    with torch.no_grad():
        chances = model(torch.tensor([[1, 4, 5]])).logits[0, -1].softmax(dim=0)
    assert sum(chance for _, chance in found) == pytest.approx(1, abs=1e-5)
    assert found[0] == (int(chances.argmax()), pytest.approx(float(chances.max())))
