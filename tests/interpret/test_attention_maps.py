"""Looking inside: maps are what the model computes, and looking leaves no trace."""

import pytest
import torch

from hf_attn.architectures.map_sizes import estimate_map_bytes
from hf_attn.generation.generate import generate_answer
from hf_attn.interpret.attention_maps import attention_maps, weight_on_alignment
from hf_attn.interpret.plain_attention import eager_attention
from hf_attn.tasks.base import Batch
from tests.generation.test_generate import eager_to_end
from tests.support.checks import (
    KERNELS,
    assert_close,
    build_classifier,
    build_encoder,
    build_seq2seq,
    random_ids,
)

KINDS = ("encoder", "decoder", "cross")


def traces(model) -> list:
    """What looking must leave as it was."""
    return [model.config._attn_implementation, *(module.training for module in model.modules())]


@pytest.mark.parametrize("kernel", [*KERNELS, "flex_attention"])
def test_maps_have_layers_heads_queries_and_keys_whatever_kernel_the_model_uses(kernel):
    model = build_seq2seq(kernel, encoder_layers=1, decoder_layers=3)
    maps = attention_maps(model, random_ids(1, 7), random_ids(1, 5))
    assert maps.encoder.shape == (1, 2, 7, 7)
    assert maps.decoder.shape == (3, 2, 5, 5)
    assert maps.cross.shape == (3, 2, 5, 7)
    for kind in KINDS:
        weights = getattr(maps, kind)
        assert (weights.dtype, weights.device.type) == (torch.float32, "cpu")
        assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert (maps.decoder.triu(1) == 0).all()
    assert (maps.decoder.tril() > 0).any()
    eager = attention_maps(
        build_seq2seq("eager", encoder_layers=1, decoder_layers=3), random_ids(1, 7), random_ids(1, 5)
    )
    assert all(torch.equal(getattr(maps, kind), getattr(eager, kind)) for kind in KINDS)


@pytest.mark.parametrize("kernel", [*KERNELS, "flex_attention"])
def test_looking_leaves_kernel_and_modes_as_they_were(kernel):
    model = build_seq2seq(kernel, dropout=0.5, attention_dropout=0.5).train()
    model.get_encoder().eval()
    before = traces(model)
    maps = attention_maps(model, random_ids(1, 6), random_ids(1, 5))
    assert traces(model) == before
    assert torch.equal(maps.cross, attention_maps(model, random_ids(1, 6), random_ids(1, 5)).cross)
    with pytest.raises(ValueError, match="25 tokens"):
        attention_maps(model, random_ids(1, 25), random_ids(1, 5))
    assert traces(model) == before
    with pytest.raises(ZeroDivisionError), eager_attention(model):
        1 / (traces(model)[0] != "eager")
    assert traces(model) == before


@pytest.mark.parametrize("seed", range(3))
def test_maps_of_a_greedy_answer_are_the_rows_that_generate_records_through_the_cache(seed):
    model, source = eager_to_end(build_seq2seq("eager", seed=seed)), random_ids(1, 6, seed=seed)
    maps = attention_maps(model, source)
    recorded = model.generate(
        source, do_sample=False, max_new_tokens=24, output_attentions=True, return_dict_in_generate=True
    )
    assert maps.target_ids == tuple(recorded.sequences[0, 1:].tolist())
    assert_close(maps.encoder, torch.cat(recorded.encoder_attentions))
    assert len(recorded.cross_attentions) == maps.cross.shape[2]
    for step, (own, cross) in enumerate(
        zip(recorded.decoder_attentions, recorded.cross_attentions, strict=True)
    ):
        assert_close(maps.cross[:, :, step], torch.cat(cross)[:, :, 0])
        assert_close(maps.decoder[:, :, step, : step + 1], torch.cat(own)[:, :, 0])


@pytest.mark.parametrize("seed", [0, 2, 7])
def test_maps_of_the_chosen_beam_are_the_rows_recorded_along_its_path(seed):
    model, source = eager_to_end(build_seq2seq("eager", seed=seed)), random_ids(1, 6, seed=seed)
    maps = attention_maps(model, source, strategy="beam", num_beams=3)
    recorded = model.generate(
        source,
        num_beams=3,
        do_sample=False,
        max_new_tokens=24,
        output_attentions=True,
        output_scores=True,
        return_dict_in_generate=True,
    )
    assert maps.target_ids == generate_answer(model, source, "beam", num_beams=3).ids
    assert maps.target_ids == tuple(recorded.sequences[0, 1:].tolist())
    path = recorded.beam_indices[0].tolist()[: len(maps.target_ids)]
    assert len(set(path)) > 1, "the chosen beam should have changed its place, else its path is not followed"
    for step, place in enumerate(path):
        cross, own = recorded.cross_attentions[step], recorded.decoder_attentions[step]
        assert_close(maps.cross[:, :, step], torch.stack([layer[place, :, 0] for layer in cross]))
        assert_close(maps.decoder[:, :, step, : step + 1], torch.stack([layer[place, :, 0] for layer in own]))


def test_a_classifier_takes_the_class_of_a_batch_and_refuses_any_other_target():
    model = build_classifier("eager")
    ids = random_ids(1, 6)
    batch = Batch(ids, torch.tensor([1]), torch.ones_like(ids))
    assert_close(attention_maps(model, batch).encoder, attention_maps(model, ids).encoder)
    for target in (torch.tensor([1]), torch.tensor([[1, 2]]), [1]):
        for inputs in (ids, batch):
            with pytest.raises(ValueError, match="only reads: leave target out"):
                attention_maps(model, inputs, target)


@pytest.mark.parametrize("build", [build_seq2seq, build_encoder])
def test_maps_larger_than_allowed_are_refused_before_they_are_computed(build, monkeypatch):
    model = build()
    target = random_ids(1, 5) if model.config.is_encoder_decoder else None
    needed = estimate_map_bytes(model.config, 7, 0 if target is None else 5)
    assert attention_maps(model, random_ids(1, 7), target, max_bytes=needed).encoder is not None
    monkeypatch.setattr(type(model), "forward", lambda *_, **__: pytest.fail("the model was run"))
    with pytest.raises(
        ValueError, match=r"7 source and . target tokens.*Shorten the input, or raise max_bytes"
    ):
        attention_maps(model, random_ids(1, 7), target, max_bytes=needed - 1)


def test_weight_on_alignment_is_the_share_spent_where_the_answer_lies():
    weights = torch.tensor([[[0.5, 0.25, 0.25], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]])
    alignment = [[1, 0, 0], [0, 1, 2], [0, 0, 0]]  # the last depends on nothing
    assert_close(weight_on_alignment(weights, alignment), torch.tensor([(0.5 + 0.9) / 2]))
