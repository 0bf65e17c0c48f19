"""What is lost without a head, an edge, a token or a word: computed at once, equal to each tried alone."""

import random
import statistics
from pathlib import Path

import pytest
import torch

from hf_attn.analysis import ablation
from hf_attn.analysis.ablation import (
    Trial,
    group_words,
    list_trials,
    measure_changes,
    measure_outcomes,
    measure_removal,
)
from hf_attn.architectures.registry import build_model
from hf_attn.checkpoints.save_load import load_checkpoint
from hf_attn.evaluation.metrics import evaluate, find_right, group_interval
from hf_attn.generation.generate import generate_answer
from hf_attn.interpret.interventions import Intervention, count_heads, intervening, parse_intervention
from hf_attn.tasks import build_task
from hf_attn.tasks.batch import IGNORED, PAD, Batch
from hf_attn.tasks.splits import fold_text
from hf_attn.tasks.tokenizers.from_vocabulary import build_tokenizer
from hf_attn.training.loop import train
from tests.support.checks import build_classifier, build_decoder, build_seq2seq, random_ids
from tests.support.commands import in_process, rows_of
from tests.support.recurrent_models import build_recurrent
from tests.support.tables import write_grouped_table, write_table
from tests.tasks.test_language import STORIES

CARDS = Path(__file__).parents[2] / "model_cards"
NO_HEAD = Trial((Intervention("remove", "cross", 1, 1),))


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


def test_a_text_longer_than_the_model_reads_is_cut_as_the_task_cuts_it(films):
    task, tokenizer, models = films
    text = " ".join(["a good film"] * 80)
    assert len(text.split()) > task.max_source_tokens
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


# One source


def next_probabilities(model, source, written):
    """[T, V] of each token written, by one plain pass."""
    with torch.no_grad():
        if not model.can_generate():
            return model(source).logits.double().softmax(-1)
        if model.config.is_encoder_decoder:
            read = model.prepare_decoder_input_ids_from_labels(written)
            return model(source, decoder_input_ids=read).logits[0].double().softmax(-1)
        logits = model(torch.cat((source, written), dim=1)).logits[0, source.shape[1] - 1 : -1]
        return logits.double().softmax(-1)


def without(source, *places):
    return source[:, [place for place in range(source.shape[1]) if place not in places]]


@pytest.mark.parametrize("build", [build_seq2seq, build_decoder, build_recurrent])
def test_without_a_token_a_writer_writes_what_it_writes_for_the_shorter_source(build):
    model, source = build(eos_token_id=None), random_ids(1, 7)
    places = [(0,), (3,), (2, 5), (6,)]
    changes = measure_changes(model, source, [Trial(without=left_out) for left_out in places], 5)
    before = generate_answer(model, source, max_new_tokens=5).ids
    whole = next_probabilities(model, source, torch.tensor([before]))
    for left_out, change in zip(places, changes, strict=True):
        shorter = without(source, *left_out)
        assert change.before == before
        assert change.after == generate_answer(model, shorter, max_new_tokens=5).ids
        q = next_probabilities(model, shorter, torch.tensor([before]))
        assert change.total_variation == pytest.approx(((whole - q).abs().sum(-1) / 2).tolist(), abs=1e-4)
        divergence = (whole * (whole / q).log()).sum(-1)
        assert change.divergence == pytest.approx(divergence.tolist(), abs=1e-3)
        assert change.is_other_answer == (change.after != before)
    assert max(changes[0].total_variation) > 1e-3


def test_many_trials_at_once_are_each_tried_alone():
    model, source = build_seq2seq(encoder_layers=2, decoder_layers=2), random_ids(1, 7)
    trials = [*list_trials(model), Trial((Intervention("uniform", "cross"),), without=(2,)), Trial()]
    together = measure_changes(model, source, trials, 6)
    for trial, change in zip(trials, together, strict=True):
        (alone,) = measure_changes(model, source, [trial], 6)
        assert (change.trial, change.before, change.after) == (trial, alone.before, alone.after)
        assert change.total_variation == pytest.approx(alone.total_variation, abs=1e-5)
        assert change.divergence == pytest.approx(alone.divergence, abs=1e-5)
    assert max(together[-1].divergence) < 1e-6, "nothing was taken away"


@pytest.mark.parametrize(
    ("trial", "message"),
    [
        (Trial(without=(7,)), "token 7 is not there: the source has tokens 0 to 6"),
        (Trial(without=tuple(range(7))), "nothing remains of the source"),
        (Trial((Intervention("remove", "decoder", key=1),), (0,)), "all later places move"),
        (Trial((Intervention("remove", "cross"),)), "this model has decoder attention"),
    ],
)
def test_what_cannot_be_left_out_is_refused(trial, message):
    with pytest.raises(ValueError, match=message):
        measure_changes(build_decoder(), random_ids(1, 7), [trial])


def test_two_sources_are_refused():
    with pytest.raises(ValueError, match=r"give one source, \[1, S\]"):
        measure_changes(build_decoder(), random_ids(2, 7), [Trial()])


# Held-out examples


@pytest.mark.parametrize(
    ("card", "trials"),
    [
        ("attn-addition", [NO_HEAD, Trial((Intervention("remove", "encoder", 0, 0),))]),
        ("attn-copy", [NO_HEAD, Trial((Intervention("uniform", "cross", 1),))]),
        ("bahdanau-dates", [Trial((Intervention("remove", "cross", key=3),))]),
    ],
)
def test_one_pass_over_the_right_answers_tells_what_free_writing_would_get_right(card, trials):
    loaded = load_checkpoint(CARDS / card)
    task = loaded.task_named()
    for outcome in measure_outcomes(loaded.model, task, trials, examples=60):
        with intervening(loaded.model, outcome.trial.interventions):
            written = evaluate(loaded.model, task, n=60).overall
        assert (outcome.examples, outcome.exact_match) == (60, pytest.approx(written.exact_match))
        assert outcome.interval == written.interval


def test_classes_and_text_are_counted_as_evaluation_counts_them(films, tmp_path):
    task, _, models = films
    first = next(measure_outcomes(models["transformer"], task, []))
    written = evaluate(models["transformer"], task, n=200).overall
    assert (first.examples, first.exact_match) == (written.examples, pytest.approx(written.exact_match))
    book = tmp_path / "book.txt"
    book.write_text("\n\n".join(STORIES))
    text = build_task("text", path=str(book), window=32)
    model = build_model(text, text.recipe)
    first = next(measure_outcomes(model, text, [], examples=5))
    written = evaluate(model, text, n=5).overall
    assert (first.examples, first.exact_match) == (written.examples, pytest.approx(written.exact_match))
    assert (first.interval, first.over) == (written.interval, "5 texts")


def judge_at_random(task, monkeypatch):
    """Let chance decide what is right; return, for each example in turn, its source and both verdicts."""
    draw, judged = random.Random(0), []

    def find_right(model, task, part, memory=None):
        is_right = torch.tensor([draw.random() < 0.6 for _ in range(len(part))])
        judged.extend(zip(map(task.read_source, part.input_ids.tolist()), is_right.tolist(), strict=True))
        return is_right

    monkeypatch.setattr(ablation, "find_right", find_right)
    whole, without = measure_outcomes(build_model(task, task.recipe), task, [Trial()], examples=1000)
    n = whole.examples
    pairs = [(source, a, b) for (source, a), (_, b) in zip(judged[:n], judged[n:], strict=True)]
    return whole, without, pairs


def test_the_error_of_a_drop_is_of_the_sums_of_groups_where_whole_groups_were_held_out(tmp_path, monkeypatch):
    task = build_task("csv", path=str(write_grouped_table(tmp_path, texts=300)))
    _, without, pairs = judge_at_random(task, monkeypatch)
    lost, tally = {}, {}
    mean = statistics.mean(before - after for _, before, after in pairs)
    for source, before, after in pairs:
        group = fold_text(source)
        lost[group] = lost.get(group, 0) + (before - after - mean)
        right, n = tally.get(group, (0, 0))
        tally[group] = (right + after, n + 1)
    count = len(lost)
    error = (count / (count - 1) * sum(sum_ * sum_ for sum_ in lost.values())) ** 0.5 / len(pairs)
    assert len(pairs) == 3 * count > 64, "several parts of like length"
    assert without.standard_error == pytest.approx(error)
    assert (without.interval, without.over) == (group_interval(tally), f"{count} texts")


def test_passages_of_different_parts_are_different_groups():
    loaded = load_checkpoint(CARDS / "attn-sentences")
    task = loaded.task_named()
    trial = Trial((Intervention("remove", "decoder", 1, 2),))
    whole, without = measure_outcomes(loaded.model, task, [trial], examples=200)
    measured = evaluate(loaded.model, task, n=200).overall
    assert (whole.exact_match, whole.interval) == (measured.exact_match, measured.interval)
    assert whole.over == without.over == "200 passages"
    assert whole.examples > 200 > ablation.BATCH
    assert without.drop > 0.1, "this head reads the words that decide"


def test_a_trained_model_needs_some_heads_and_not_others_and_its_weights_where_they_are():
    loaded = load_checkpoint(CARDS / "attn-addition")
    outcomes = list(measure_outcomes(loaded.model, loaded.task_named(), examples=100))
    drops = {outcome.trial.name: outcome.drop for outcome in outcomes}
    assert len(drops) == 1 + sum(map(sum, count_heads(loaded.model).values())) + 5 + 6 + 2
    assert drops["remove known edges"] > 0.9 > 0.2 > drops["remove control edges"]
    assert drops["whole model"] == 0
    assert max(drop for name, drop in drops.items() if name.startswith("remove cross.1.")) > 0.1
    assert min(drops["uniform cross"], drops["permute cross"]) > 0.5
    for outcome in outcomes:
        assert outcome.exact_match == pytest.approx(outcomes[0].exact_match - outcome.drop)
        if outcomes[0].exact_match == 1:  # then what is lost is what is wrong, a share
            spread = (outcome.drop * (1 - outcome.drop) / 99) ** 0.5
            assert outcome.standard_error == pytest.approx(spread, abs=1e-6)


@pytest.mark.parametrize("name", ["attn-sentences", "attn-copy", "bahdanau-dates"])
@pytest.mark.parametrize("edges", ["known", "control"])
def test_edges_of_many_examples_are_removed_as_of_each_alone(name, edges):
    loaded = load_checkpoint(CARDS / name)
    model, task = loaded.model, loaded.task_named()
    _, outcome = measure_outcomes(model, task, [Trial(edges=edges)], examples=12)
    batch, right = task.held_out(12), []
    kind = "decoder" if task.kind == "text" else "cross"
    for row in range(12):
        labels = batch.labels[row : row + 1]
        ids = batch.input_ids[row : row + 1]
        ids = ids[:, ids[0] != PAD]
        labels = labels[:, labels[0] != IGNORED]
        known = task.alignment(task.read_source(ids[0].tolist()), task.decode(labels[0].tolist()))
        changes = []
        for query, needed in enumerate(known):
            keys = {key for key, one in enumerate(needed) if one}
            if edges == "control":
                keys = {key - 1 for key in keys} - keys - {-1}
            changes += [Intervention("remove", kind, query=query, key=key) for key in keys]
        with intervening(model, changes):
            right += find_right(model, task, Batch(ids, labels)).tolist()
    assert outcome.exact_match == pytest.approx(sum(right) / len(right))


def test_kinds_of_decisions_are_told_apart_and_unknown_edges_refused():
    loaded = load_checkpoint(CARDS / "attn-sentences")
    (whole,) = measure_outcomes(loaded.model, loaded.task, [], examples=50)
    scores = evaluate(loaded.model, loaded.task, n=50).by_size
    assert whole.by_size == scores
    films = build_task("csv", path="missing.csv")
    with pytest.raises(ValueError, match="does not know what an answer depends on"):
        next(measure_outcomes(build_classifier(), films, [Trial(edges="known")], examples=5))


def test_tokens_of_held_out_examples_are_not_left_out():
    loaded = load_checkpoint(CARDS / "lstm-reverse")
    assert list_trials(loaded.model) == []
    with pytest.raises(ValueError, match="'without token 1': each held-out example has other tokens"):
        next(measure_outcomes(loaded.model, loaded.task_named(), [Trial(without=(1,))]))
    with pytest.raises(ValueError, match="examples=0 must be a whole number from 1"):
        next(measure_outcomes(loaded.model, loaded.task_named(), examples=0))


# The command


@pytest.mark.parametrize("place", ["cross", "cross.1", "cross.1.0", "cross.1.0.3.5", "cross.all.0.3.all"])
def test_a_place_is_written_as_it_is_read(place):
    change = parse_intervention("remove", place)
    assert parse_intervention(*str(change).split()) == change
    assert str(parse_intervention("permute", "encoder.all.all.2.all")) == "permute encoder.all.all.2.all"


@pytest.mark.parametrize("place", ["", "cross.1.0.3", "cross.x", "1.0", "cross.1.0.3.5.7", "cross.-1"])
def test_a_place_written_otherwise_is_refused(place):
    with pytest.raises(ValueError, match="is no place; write KIND"):
        parse_intervention("remove", place)


def test_the_command_tries_every_head_layer_and_kind_on_held_out_examples(capsys, tiny_checkpoint):
    code, output, _ = in_process(capsys, "ablate", tiny_checkpoint, "--examples", 20, "--json")
    rows = rows_of(output)
    assert code == 0
    assert rows[0]["trial"] == "whole model"
    heads = count_heads(load_checkpoint(tiny_checkpoint).model)
    layers = sum(map(len, heads.values()))
    assert len(rows) == 1 + sum(map(sum, heads.values())) + layers + 2 * len(heads) + 2
    assert {row["event"] for row in rows} == {"outcome"}
    for row in rows:
        assert row["drop"] == pytest.approx(rows[0]["held_out_exact_match"] - row["held_out_exact_match"])
    code, output, _ = in_process(capsys, "ablate", tiny_checkpoint, "--uniform", "cross", "--examples", 20)
    assert code == 0
    assert "uniform cross" in output


def test_the_command_tries_one_text(capsys, tiny_checkpoint):
    code, output, _ = in_process(capsys, "ablate", tiny_checkpoint, "1 2 3", "--json")
    rows = rows_of(output)
    assert code == 0
    assert [row["trial"] for row in rows][-4:] == [f"without token {place}" for place in range(4)]
    given = ("--remove", "cross.0", "--permute", "encoder", "--token", "1")
    code, output, _ = in_process(capsys, "ablate", tiny_checkpoint, "1 2 3", *given, "--json")
    (row,) = rows_of(output)
    assert row["trial"] == "remove cross.0, permute encoder, without token 1"
    assert len(row["tokens"]) == len(row["total_variation"]) == len(row["divergence"])
    assert isinstance(row["is_other_answer"], bool)
    code, output, _ = in_process(capsys, "ablate", tiny_checkpoint, "1 2 3", *given)
    assert code == 0
    assert "total variation" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--remove", "cross.9"], "layer=9 is not there: cross attention has layers 0 to 1."),
        (["--token", "1"], "--token 1 is left out of a TEXT: give one."),
        (["1 2", "--examples", "9"], "--examples 9 is for held-out examples, and TEXT is one"),
    ],
)
def test_the_command_says_in_one_line_what_is_wrong(capsys, tiny_checkpoint, arguments, message):
    code, output, errors = in_process(capsys, "ablate", tiny_checkpoint, *arguments)
    assert (code, output) == (2, "")
    assert message in errors
    assert errors.count("\n") == 1


def test_a_checkpoint_without_attention_leaves_tokens_out(capsys):
    code, _, errors = in_process(capsys, "ablate", CARDS / "lstm-reverse")
    assert code == 2
    assert "give a TEXT to leave tokens out of" in errors
    code, output, _ = in_process(capsys, "ablate", CARDS / "lstm-reverse", "7 15 2", "--json")
    assert code == 0
    assert [row["trial"] for row in rows_of(output)] == [f"without token {place}" for place in range(4)]
