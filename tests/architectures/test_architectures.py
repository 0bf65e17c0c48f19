"""Every architecture learns by the same loop, writes by the same decoding, and shows its attention alike."""

import dataclasses
import itertools

import pytest
import torch
from transformers import RecurrentGemmaConfig

from hf_attn.architectures.families import FAMILIES, architectures_of, is_ours, is_recurrent, model_names
from hf_attn.architectures.map_sizes import count_map_weights, estimate_map_bytes
from hf_attn.architectures.registry import build_model, find_architecture
from hf_attn.evaluation import metrics
from hf_attn.evaluation.metrics import evaluate, exact_matches, measure_quickly, predict
from hf_attn.generation.generate import generate_answer
from hf_attn.generation.strategies import STRATEGIES
from hf_attn.interpret.attention_maps import attention_maps
from hf_attn.models.score_functions import SCORE_FUNCTIONS
from hf_attn.tasks import build_task
from hf_attn.tasks.base import CLASSES, SEQUENCE, TEXT
from hf_attn.tasks.batch import END, IGNORED, PAD
from hf_attn.training.device import build_accelerator
from hf_attn.training.loop import learning_inputs, teacher_forcing_at, train
from tests.support.commands import in_process

TASK = build_task("copy", max_length=5)
SEQUENCE_NAMES = list(architectures_of(SEQUENCE))
SIZES = {
    "transformer": {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32},
    "decoder": {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "num_hidden_layers": 2},
}


def small_recipe(name, **changes):
    recipe = TASK.recipes_of(name)["product"]
    model = SIZES.get(name, {"hidden_size": 16, "attention_size": 8, "bidirectional": True})
    return dataclasses.replace(
        recipe, model=model, **{"steps": 24, "batch_size": 16, "evaluate_every": 12, **changes}
    )


@pytest.fixture(scope="module", params=SEQUENCE_NAMES)
def learned(request):
    """(name, model, reports) after some steps."""
    recipe = small_recipe(request.param)
    model = build_model(TASK, recipe)
    reports = list(train(TASK, model, recipe, accelerator=build_accelerator("cpu")))
    return request.param, model.eval(), reports


def test_the_command_line_offers_every_architecture(capsys):
    _, output, _ = in_process(capsys, "train", "--help")
    assert "|".join(model_names()) in "".join(output.split())
    assert set(model_names()) == {
        name for kind in (SEQUENCE, CLASSES, TEXT) for name in architectures_of(kind)
    }


def test_every_architecture_learns_by_the_one_loop(learned):
    _, _, reports = learned
    assert reports[-1].step == 24
    assert reports[-1].loss < reports[1].loss
    assert reports[-1].validation_examples == len(TASK.validation(200))


def test_greedy_ids_equal_generate_for_padded_batches(learned):
    _, model, _ = learned
    batch = TASK.batch_of(["1 2 3 4 5", "7", "3 3 3"])
    written = predict(model, TASK, batch)
    ids, mask = (batch.input_ids, batch.attention_mask) if model.config.is_encoder_decoder else batch.prompt()
    begun = 1 if model.config.is_encoder_decoder else ids.shape[1]
    generated = model.generate(ids, attention_mask=mask, do_sample=False)[:, begun:]
    assert torch.equal(written[:, : generated.shape[1]], generated)
    assert bool((written[:, generated.shape[1] :] == PAD).all())


def test_a_source_is_answered_alike_alone_and_in_a_padded_batch(learned):
    _, model, _ = learned
    texts = ["1 2 3 4 5", "7", "3 3 3"]
    together = predict(model, TASK, TASK.batch_of(texts))
    for text, row in zip(texts, together, strict=True):
        assert torch.equal(predict(model, TASK, TASK.batch_of([text]))[0], row)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_writes_and_scores_by_the_model_s_own_probabilities(learned, strategy):
    _, model, _ = learned
    generation = generate_answer(model, torch.tensor([TASK.encode("4 5 6")]), strategy)
    chosen = [float(choice.probabilities[choice.token].log()) for choice in generation.choices]
    assert generation.score == pytest.approx(sum(chosen), abs=1e-4)
    if strategy == "greedy":
        greedy = predict(model, TASK, TASK.batch_of(["4 5 6"]))[0].tolist()
        assert tuple(greedy[: len(generation.ids)]) == generation.ids


def test_the_answering_map_has_a_row_a_token_written_and_sums_to_one(learned):
    name, model, _ = learned
    maps = attention_maps(model, TASK.batch_of(["4 5 6"]))
    if name == "none":
        assert (maps.encoder, maps.decoder, maps.cross, maps.answering) == (None, None, None, None)
        return
    shown = maps.answering
    assert shown.kind == ("decoder" if name == "decoder" else "cross")
    assert (
        shown.weights.shape[2:] == (len(shown.rows), len(shown.columns)) == (4, 7 if name == "decoder" else 4)
    )
    assert torch.allclose(shown.weights.sum(-1), torch.ones(()), atol=1e-5)
    known = shown.align(TASK.alignment("4 5 6", "4 5 6"))
    assert [row[:4] for row in known] == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert {len(row) for row in known} == {len(shown.columns)}


def test_the_memory_of_maps_is_known_beforehand(learned):
    _, model, _ = learned
    maps = attention_maps(model, TASK.batch_of(["4 5 6"]))
    taken = sum(part.numel() * 4 for part in (maps.encoder, maps.decoder, maps.cross) if part is not None)
    assert taken <= estimate_map_bytes(model.config, 4, 4) <= 4 * max(taken, 16)


def test_a_stopped_run_goes_on_to_the_same_losses(learned, tmp_path):
    name, _, reports = learned
    recipe = small_recipe(name)
    options = {"state_dir": tmp_path / "state"}
    first = train(TASK, build_model(TASK, recipe), recipe, accelerator=build_accelerator("cpu"), **options)
    stopped = next(itertools.islice(first, 1, None))
    first.close()
    assert stopped.step == 10
    fresh = build_model(TASK, recipe, seed=5)
    second = list(train(TASK, fresh, recipe, accelerator=build_accelerator("cpu"), **options))
    assert second[-1].loss == reports[-1].loss


def test_a_decoder_only_model_learns_the_target_alone():
    batch = TASK.batch_of(["1 2 3", "4"])
    joined = batch.joined()
    assert joined["input_ids"].shape == joined["labels"].shape == joined["attention_mask"].shape
    width = batch.input_ids.shape[1]
    assert bool((joined["labels"][:, :width] == IGNORED).all())
    assert torch.equal(joined["labels"][:, width:], batch.labels)
    short = joined["input_ids"][1, :width]
    assert short.tolist() == [PAD, PAD, *TASK.encode("4")], "sources stand on the right, before their targets"
    assert joined["attention_mask"][1].tolist() == [0, 0, 1, 1, 1, 1, 0, 0]


def test_prompts_keep_their_order_when_they_move():
    batch = TASK.batch_of(["5 4 3 2 1", "9 8"])
    ids, mask = batch.prompt()
    assert ids[1, mask[1].bool()].tolist() == TASK.encode("9 8")
    assert mask[1].tolist() == [0, 0, 0, 1, 1, 1]


def test_teacher_forcing_falls_in_a_straight_line_to_the_recipe_s_share():
    recipe = small_recipe("additive", steps=5, teacher_forcing=0.2)
    assert [round(teacher_forcing_at(step, recipe), 6) for step in range(5)] == [1, 0.8, 0.6, 0.4, 0.2]
    model = build_model(TASK, recipe)
    batch = TASK.batch_of(["1 2"])
    assert "teacher_forcing_ratio" not in learning_inputs(model, batch, 1.0)
    assert learning_inputs(model, batch, 0.5)["teacher_forcing_ratio"] == 0.5
    assert list(train(TASK, model, recipe, accelerator=build_accelerator("cpu")))[-1].step == 5


@pytest.mark.parametrize("name", ["transformer", "decoder"])
def test_scheduled_sampling_is_refused_where_nothing_writes_step_by_step(name):
    with pytest.raises(ValueError, match=r"teacher_forcing=0\.5 is for recurrent decoders"):
        build_model(TASK, small_recipe(name, teacher_forcing=0.5))


def test_an_architecture_that_does_not_learn_such_a_task_is_refused():
    with pytest.raises(ValueError, match="model='lstm' does not learn task 'copy'; choose transformer"):
        find_architecture(TASK, "lstm")


def test_one_pass_finds_right_what_writing_freely_gets_right(learned, monkeypatch):
    _, model, _ = learned
    batch = TASK.held_out(100)
    written = predict(model, TASK, batch)
    behind_the_end = (written == END).cumsum(1) - (written == END).long() > 0
    labels = written.masked_fill(behind_the_end, IGNORED)  # answers that this model gives
    labels[::3, 0] = labels[::3, 0] % 5 + 3  # and others
    asked = dataclasses.replace(batch, labels=labels)
    right = exact_matches(written, labels).float().mean()
    assert 0.6 < right < 0.9
    monkeypatch.setattr(metrics, "AT_ONCE", 32)  # in parts
    assert measure_quickly(model, TASK, asked) == pytest.approx(float(right))
    assert measure_quickly(model, TASK, batch) == pytest.approx(
        evaluate(model, TASK, n=100).overall.exact_match
    )


def test_every_score_function_is_a_variant_of_the_recurrent_family():
    variants = FAMILIES["recurrent"].variants
    assert [variant.fields["score_function"] for variant in variants.values()] == list(SCORE_FUNCTIONS)


def test_a_model_of_transformers_whose_name_begins_as_ours_is_not_taken_for_ours():
    config = RecurrentGemmaConfig(num_hidden_layers=3, num_attention_heads=2)
    assert not is_ours(config.model_type)
    assert not is_recurrent(config)
    assert count_map_weights(config, 5, 0) == {"encoder": (3, 2, 5, 5)}
    assert not is_ours(["recurrent"])
    assert {name: is_recurrent(family.config()) for name, family in FAMILIES.items()} == {
        **dict.fromkeys(("attn_seq2seq", "attn_decoder", "attn_encoder"), False),
        **dict.fromkeys(("recurrent", "recurrent_encoder"), True),
    }
