"""The toy English: what it decides is decided by its own words, and pairs that were not met are not met."""

from random import Random

import pytest
import torch

from hf_attn.tasks import build_task
from hf_attn.tasks.batch import IGNORED
from hf_attn.tasks.splits import HELD_OUT, SPLITS
from hf_attn.tasks.text.toy_english import FAMILIES, FAMOUS, LISTS, NEW, WORDS, find_decisions, write_passage

TASK = build_task("sentences")


def passages(n=3000, seed=0):
    random = Random(seed)
    return [write_passage(random) for _ in range(n)]


def decided(words):
    return [d for d in find_decisions(" ".join(words)) if d.at < len(words) and words[d.at] in d.right]


def test_every_passage_has_a_word_that_earlier_ones_decide():
    met = set()
    for words, pairs in passages():
        decisions = decided(words)
        assert decisions, " ".join(words)
        assert all(place < decision.at for decision in decisions for place in decision.by)
        assert set(words) <= {*WORDS, *NEW}
        assert 1 <= len(pairs) <= 3
        met |= {decision.family for decision in decisions}
    assert met == set(FAMILIES)
    for family in ("she", "he"):  # names of one kind are not told apart by their kind
        assert sum(len({*words} & {*LISTS[family]}) == 2 for words, _ in passages()) > 100


def test_pairs_that_are_held_out_never_meet_in_training():
    """Of keys and cabinet: not as the first two nouns; as later ones they may."""
    labels = TASK.sample(torch.Generator().manual_seed(0), 6000).labels.tolist()
    rows = [TASK.decode_symbols([index for index in row if index != IGNORED]) for row in labels]
    met = {frozenset(pair) for row in rows for decision in decided(row) for pair in decision.pairs}
    assert len(met) > 1000
    assert not met & {frozenset(pair) for pair in FAMOUS}
    for one, other in FAMOUS:
        together = [row for row in rows if one in row and other in row]
        assert not together or one in ("key", "keys"), f"{one} and {other} met"


@pytest.mark.parametrize(("text", "answer"), [
    ("The animal did not cross the street because it was too tired. The tired", "animal"),
    ("The animal did not cross the street because it was too wide. The wide", "street"),
    ("Because it was soft, the cat sat on the mat. What was soft? The", "mat"),
    ("The trophy didn’t fit in the suitcase because it was too big! What was too big? The", "trophy"),
    ("The platypus did not fit in the suitcase because it was too big. The big", "<new1>"),
    ("Anna helped Ben because he was ill. Who was ill?", "ben"),
    ("Anna gave Lisa a book. Lisa thanked", "anna"),
    ("Zorg and Anna went to the market. Anna gave a ring to", "<new1>"),
])  # fmt: skip
def test_a_person_s_sentence_is_read_and_what_follows_is_known(text, answer):
    assert TASK.answer(text) == answer
    assert TASK.verify(text, f"{answer} .").correct is True
    wrong = TASK.verify(text, "guitar .")
    assert (wrong.correct, wrong.wrong, wrong.expected) == (False, (True, False), (answer,))
    needed = TASK.alignment(text, answer)[0]
    source = TASK.encode(text)
    assert [source[place] for place, is_needed in enumerate(needed) if is_needed] == TASK.ids(answer)


def test_a_verb_is_chosen_among_verbs_and_a_seen_thing_may_be_several():
    keys = TASK.decide_next("the keys to the cabinet")
    assert keys.right == {"are", "were"}
    assert keys.among == {"are", "were", "is", "was"}
    assert TASK.decide_next("the clerk sat at the bank and watched the").right == {"money", "coins", "cash"}
    assert TASK.decide_next("the cat sat on the mat") is None
    assert TASK.verify("the cat sat on the mat", "guitar").correct is None


def test_the_famous_sentences_are_held_out_and_others_are_not_known():
    assert TASK.find_split("The cat sat on the mat because it was soft. The soft") == HELD_OUT
    assert TASK.find_split("hello") is None
    found = {TASK.find_split(" ".join(words)) for words, _ in passages(300)}
    assert found == set(SPLITS)


def test_a_fifth_word_that_is_not_known_is_refused_and_four_are_shown_as_written():
    text = "The Platypus was near the Quokka, the 猫 and the قطة"
    tokens = "<s> the platypus was near the quokka the 猫 and the قطة"
    assert TASK.source_tokens(text) == tokens.split()
    assert TASK.stand_ins("The Platypus saw Anna") == {"<new1>": "platypus", "<new2>": "saw"}
    assert TASK.stand_ins("the cat") == {}
    assert TASK.suits("The platypus slept")
    assert TASK.encode("153+391")
    assert not TASK.suits("153+391"), "which can be read, but is not meant"
    with pytest.raises(ValueError, match=r"4 others.*“platypus”.*“dodo”.*Leave one out"):
        TASK.encode(f"{text} dodo")


@pytest.mark.parametrize("text", ["", "  ", ",;", "🙂 " * 5 + "a b c d e", "word " * 500, "the " * 41])
def test_what_cannot_be_read_is_refused_in_a_sentence(text):
    with pytest.raises(ValueError, match=r"empty|no word|at most|Leave one out"):
        TASK.encode(text)


def test_what_counts_is_the_decided_words_and_each_is_judged_among_its_own_kind():
    passage = "the keys to the cabinet were dusty ."
    labels = torch.tensor([TASK.ids(*passage.split())])
    assert TASK.count_tokens(labels).nonzero().tolist() == [[0, 5]]
    logits = torch.zeros(1, labels.shape[1], len(TASK.tokens))
    logits[0, 5, TASK.ids("near")] = 9.0  # no verb
    logits[0, 5, TASK.ids("are")] = 2.0
    assert TASK.judge_tokens(logits, labels).tolist() == [True]
    logits[0, 5, TASK.ids("is")] = 3.0
    assert TASK.judge_tokens(logits, labels).tolist() == [False]
    assert TASK.sizes_of_tokens(labels) == ["is or are"]
