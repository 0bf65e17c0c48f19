"""What an answer loses when a word is taken out: computed at once, equal to reading each text anew."""

import pytest
import torch

from hf_attn.ablation import group_words, measure_removal
from hf_attn.architectures import build_model
from hf_attn.tasks import build_task
from hf_attn.tokenization import build_tokenizer
from hf_attn.training import train
from tests.tables import write_table


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    """Task, tokenizer and a model of each architecture that knows "good" from "bad"."""
    task = build_task("csv", path=str(write_table(tmp_path_factory.mktemp("films"))))
    models = {}
    for name in ("transformer", "lstm"):
        recipe = task.recipes_of(name)["product"]
        small = {**recipe.model, "hidden_size": 32, "dropout": 0.1}
        if name == "transformer":
            small["intermediate_size"] = 64
        models[name] = build_model(
            task, type(recipe)(small, name, steps=60, learning_rate=0.01, evaluate_every=60)
        )
        for _ in train(
            task, models[name], type(recipe)(small, name, steps=60, learning_rate=0.01, evaluate_every=60)
        ):
            pass
    return task, task.tokenizer, models


@pytest.mark.parametrize("name", ["transformer", "lstm"])
def test_each_drop_is_that_of_the_shorter_text_read_alone(films, name):
    task, tokenizer, models = films
    model, words = models[name].eval(), ["a", "good", "film", "at", "home"]
    removal = measure_removal(model, tokenizer, " ".join(words))
    assert removal.words == tuple(words)
    for place, left in enumerate(removal.remaining):
        ids = task.encode(" ".join(words))
        groups = dict(enumerate(group_words(" ".join(words), tokenizer)))
        rest = [index for at, index in enumerate(ids) if at not in groups[place][1]]
        alone = model(torch.tensor([rest])).logits.softmax(-1)[0].detach()
        assert left == pytest.approx(float(alone[removal.predicted]), abs=1e-5)
        assert removal.predicted_without[place] == int(alone.argmax())


@pytest.mark.parametrize("name", ["transformer", "lstm"])
def test_the_word_that_decides_is_the_one_whose_removal_costs_most(films, name):
    task, tokenizer, models = films
    removal = measure_removal(models[name], tokenizer, "a poor play in town")
    assert task.classes[removal.predicted] == "dislike"
    assert removal.words[removal.drops.index(max(removal.drops))] == "poor"
    assert sum(removal.probabilities) == pytest.approx(1, abs=1e-5)


def test_the_model_is_left_in_the_mode_it_was_in(films):
    _, tokenizer, models = films
    for mode in (True, False):
        models["transformer"].train(mode)
        measure_removal(models["transformer"], tokenizer, "a good film")
        assert models["transformer"].training is mode


def test_a_text_longer_than_the_model_reads_is_cut_as_the_task_cuts_it(films):
    task, tokenizer, models = films
    text = " ".join(["a good film"] * 40)
    removal = measure_removal(models["transformer"].eval(), tokenizer, text)
    whole = models["transformer"](torch.tensor([task.encode(text)])).logits.softmax(-1)[0]
    assert torch.allclose(torch.tensor(removal.probabilities), whole.detach(), atol=1e-5)
    assert 0 < len(removal.words) <= task.max_source_tokens - 1


def test_a_text_without_spaces_is_taken_apart_by_tokens():
    tokenizer = build_tokenizer(build_task("brackets"))
    assert [word for word, _ in group_words("([]{()", tokenizer)] == list("([]{()")


def test_punctuation_belongs_to_its_word_and_every_token_to_one(films):
    _, tokenizer, _ = films
    groups = group_words("good,  bad fine!", tokenizer)
    assert [word for word, _ in groups] == ["good,", "bad", "fine!"]
    places = [place for _, group in groups for place in group]
    assert len(places) == len(set(places))


def test_a_model_that_writes_and_a_text_without_words_are_refused(films):
    _, tokenizer, models = films
    copy = build_task("copy", max_length=5)
    with pytest.raises(ValueError, match="this model writes"):
        measure_removal(build_model(copy, copy.recipe), build_tokenizer(copy), "1 2")
    with pytest.raises(ValueError, match="no words to take out"):
        measure_removal(models["transformer"], tokenizer, " ")
