"""Tokenizers learned from text: the first merges are known, every text comes back, the library is right."""

import pytest
from transformers import AutoTokenizer

from hf_attn.tasks.tokenizers.trained import KINDS, train_tokenizer

PETER = "Peter Piper picked a peck of pickled peppers"
TEXTS = [
    PETER,
    "Return the size of a file, reported by os.stat(). Raise OSError if the file does not exist.",
    'Zwölf Boxkämpfer jagen Viktor quer über den Sylter Deich: "1,234.5" (zirka)',
    "two  spaces, a\ttab and\na new line",
]


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_learned_from_comes_back_as_it_was(kind):
    texts = TEXTS * 2  # words met once are not learned
    tokenizer = train_tokenizer(texts, kind, 500)
    for text in texts:
        ids = tokenizer(text)["input_ids"]
        assert ids[-1] == 2
        assert tokenizer.decode(ids, skip_special_tokens=True) == text


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_come_first_and_are_never_read_from_text(kind):
    tokenizer = train_tokenizer(TEXTS * 2, kind, 500)
    assert tokenizer.convert_tokens_to_ids(["<pad>", "<s>", "</s>", "<unk>"]) == [0, 1, 2, 3]
    ids = tokenizer("a <pad> b </s> c")["input_ids"]
    assert ids.count(0) == 0
    assert ids.count(2) == 1


def test_what_was_never_met_is_unknown():
    tokenizer = train_tokenizer(["abab baba"], "characters", 50)
    assert tokenizer.tokenize("aXb") == ["a", "<unk>", "b"]


def test_capitals_are_read_as_small_letters_where_that_is_asked_for():
    tokenizer = train_tokenizer([PETER], "bpe", 100, lowercase=True)
    assert tokenizer("PETER")["input_ids"] == tokenizer("peter")["input_ids"]


def test_saved_and_loaded_by_auto_tokenizer_it_is_the_same(tmp_path):
    for kind in KINDS:
        tokenizer = train_tokenizer(TEXTS * 2, kind, 300, model_max_length=77)
        tokenizer.save_pretrained(tmp_path)
        loaded = AutoTokenizer.from_pretrained(tmp_path, trust_remote_code=False)
        assert loaded.model_max_length == 77
        for text in [*TEXTS, "a <pad> b"]:
            assert loaded(text)["input_ids"] == tokenizer(text)["input_ids"]
        assert loaded.decode(loaded(PETER)["input_ids"], skip_special_tokens=True) == PETER


@pytest.mark.parametrize(
    ("kind", "size", "named"), [("syllables", 100, "'syllables'"), ("bpe", 4, "vocab_size=4")]
)
def test_impossible_tokenizers_are_refused_in_words(kind, size, named):
    with pytest.raises(ValueError, match=named):
        train_tokenizer(TEXTS, kind, size)
