"""What holds for every way to tell a place, in every Transformer family: a new type is tested by its row."""

import pytest
import torch

from hf_attn.models import position_cache
from hf_attn.models.positions import POSITION_TYPES
from tests.models.test_mutations import assert_caught
from tests.support.checks import (
    SIDES,
    assert_close,
    assert_different,
    assert_same_gradients,
    check_cached_equals_uncached,
    check_encoder_rows_stand_alone,
    check_kernels_agree,
    check_padding_is_not_read,
    check_seq2seq_rows_stand_alone,
    check_the_future_is_hidden,
    gradients,
    pad,
    random_ids,
    random_rows,
)
from tests.support.decoder_checks import check_cached_equals_uncached as check_cached_decoder
from tests.support.decoder_checks import check_rows_stand_alone
from tests.support.decoder_checks import check_the_future_is_hidden as check_the_decoder_s_future_is_hidden
from tests.support.position_checks import ALL, BUILDERS, INVARIANT_TO_SHIFTS, STRETCHED, build, kernels_of

CACHES = ({"use_cache": False}, {"use_cache": True}, {"cache_implementation": "static"})
WRITING = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False}
SHOWING = {"return_dict_in_generate": True, "output_logits": True}
KEPT = [name for name in ALL if POSITION_TYPES[name].reads_neighbours or POSITION_TYPES[name].biases_scores]


# Padding, packing, the future


@pytest.mark.parametrize("position_type", ALL)
def test_a_padded_batch_gives_what_each_row_gives_alone(position_type):
    for kernel in kernels_of(position_type):
        encoder, seq2seq, decoder = (build(family, position_type, kernel) for family in BUILDERS)
        for side in SIDES:
            check_encoder_rows_stand_alone(encoder, side)
            check_rows_stand_alone(decoder, side)
            check_seq2seq_rows_stand_alone(seq2seq, "right", side)
        check_padding_is_not_read(encoder)
        check_padding_is_not_read(seq2seq)


@torch.no_grad()
@pytest.mark.parametrize("position_type", ALL)
def test_padding_between_tokens_is_skipped(position_type):
    model, ids = build("decoder", position_type), random_ids(1, 6)
    apart = torch.cat((ids[:, :2], random_ids(1, 3, seed=5), ids[:, 2:]), dim=1)
    mask = torch.tensor([[1, 1, 0, 0, 0, 1, 1, 1, 1]])
    assert_close(model(apart, attention_mask=mask).logits[mask.bool()], model(ids).logits[0])


@torch.no_grad()
@pytest.mark.parametrize("position_type", ALL)
def test_sequences_packed_in_one_row_do_not_see_each_other(position_type):
    rows, places = random_rows(5, 3), torch.tensor([[*range(5), *range(3)]])
    for kernel in kernels_of(position_type):
        model = build("decoder", position_type, kernel)
        packed = model(torch.cat(rows)[None], position_ids=places, use_cache=False).logits[0]
        assert_close(packed, torch.cat([model(row[None]).logits[0] for row in rows]))


@pytest.mark.parametrize("position_type", ALL)
def test_a_later_token_changes_no_earlier_logit(position_type):
    for kernel in kernels_of(position_type):
        check_the_future_is_hidden(build("encoder-decoder", position_type, kernel))
        check_the_decoder_s_future_is_hidden(build("decoder", position_type, kernel))


@torch.no_grad()
@pytest.mark.parametrize("position_type", ALL)
def test_order_matters_with_all_but_none(position_type, generator):
    ids, order = random_ids(2, 7), torch.randperm(7, generator=generator)
    model = build("encoder", position_type, norm_position="post")  # a pre-norm model does not see an index
    moved, expected = model(ids[:, order])[0], model(ids)[0][:, order]
    (assert_close if position_type == "none" else assert_different)(moved, expected)


@torch.no_grad()
@pytest.mark.parametrize("position_type", ALL)
def test_moving_every_place_on_changes_nothing_for_the_relative_ones(position_type):
    ids, places = random_ids(2, 6), torch.arange(6)[None]
    for family in ("encoder", "decoder"):
        counts_text = family == "encoder" and POSITION_TYPES[position_type].counts_text
        same = counts_text or position_type in INVARIANT_TO_SHIFTS
        model = build(family, position_type, norm_position="post")
        here, there = (model(ids, position_ids=places + start)[0] for start in (0, 7))
        (assert_close if same else assert_different)(there, here)


# Through the cache


@pytest.mark.parametrize("position_type", ALL)
def test_step_by_step_through_the_cache_equals_one_pass(position_type):
    for kernel in kernels_of(position_type):
        seq2seq = build("encoder-decoder", position_type, kernel)
        decoder = build("decoder", position_type, kernel)
        for side in (None, *SIDES):
            check_cached_equals_uncached(seq2seq, side)
            check_cached_decoder(decoder, side)
        check_cached_equals_uncached(seq2seq, chunks=(3, 1, 2))
        check_cached_decoder(decoder, "left", chunks=(4, 1, 2))


@pytest.mark.parametrize("position_type", KEPT)
def test_a_cache_that_forgets_the_places_is_caught(position_type, monkeypatch):
    model, find = build("decoder", position_type), position_cache.find_key_positions

    def forget(position_ids, attention_mask, cache):
        places = find(position_ids, attention_mask, cache)
        known = places.shape[1] - position_ids.shape[1]
        return torch.cat((torch.zeros_like(places[:, :known]), places[:, known:]), dim=1)

    monkeypatch.setattr(position_cache, "find_key_positions", forget)
    assert_caught(check_cached_decoder, model)


@pytest.mark.parametrize("position_type", ALL)
def test_every_cache_writes_the_same_behind_padding(position_type):
    source, source_mask = pad(random_rows(6, 4), "right")
    read, mask = pad(random_rows(5, 2, seed=7), "left")
    seq2seq, decoder = (build(family, position_type) for family in ("encoder-decoder", "decoder"))
    begun = {"decoder_input_ids": read, "decoder_attention_mask": mask}
    for model, inputs in (
        (seq2seq, {"input_ids": source, "attention_mask": source_mask, **begun}),
        (decoder, {"input_ids": read, "attention_mask": mask}),
    ):
        found = [model.generate(**inputs, **WRITING, **SHOWING, **cache).logits for cache in CACHES]
        for logits in found[1:]:
            assert_close(torch.stack(logits), torch.stack(found[0]))


@pytest.mark.parametrize("position_type", ALL)
def test_beams_take_their_places_with_them(position_type):
    model, ids = build("decoder", position_type), random_ids(1, 4)
    wanted = {**WRITING, "attention_mask": torch.ones_like(ids), "num_beams": 4, "num_return_sequences": 3}
    found = [model.generate(ids, **wanted, use_cache=cache).tolist() for cache in (True, False)]
    assert found[0] == found[1]


# Learning


@pytest.mark.parametrize("position_type", [name for name in ALL if len(kernels_of(name)) > 1])
def test_eager_and_sdpa_agree_in_values_and_gradients(position_type):
    check_kernels_agree(build("encoder", position_type))
    check_kernels_agree(build("encoder-decoder", position_type))
    check_kernels_agree(build("decoder", position_type).model)


@pytest.mark.nightly  # inductor compiles the kernel: a minute
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@torch.no_grad()
@pytest.mark.parametrize("position_type", ["t5", "alibi", "composite"])
def test_flex_takes_the_bias_too(position_type):
    model = build("decoder", position_type, hidden_size=32)  # flex wants heads of 16 at least
    ids, mask = pad(random_rows(7, 4), "right")
    expected = model(ids, attention_mask=mask).logits
    model.set_attn_implementation("flex_attention")
    assert_close(model(ids, attention_mask=mask).logits[mask.bool()], expected[mask.bool()])


@pytest.mark.parametrize("position_type", ALL)
def test_every_parameter_learns_with_and_without_checkpointing(position_type):
    ids = random_ids(3, 6)
    for family in ("encoder-decoder", "decoder"):
        found = []
        for reentrant in (None, False, True):
            model = build(family, position_type).train()
            if reentrant is not None:
                model.activation_checkpointing_enable({"use_reentrant": reentrant})
            model(ids, labels=ids).loss.backward()
            found.append(gradients(model))
            silent = [n for n, w in model.named_parameters() if w.grad is None or not w.grad.any()]
            assert not silent
        assert_same_gradients(found[1], found[0])
        assert_same_gradients(found[2], found[0])


@pytest.mark.nightly  # three seconds a type on an idle machine
@pytest.mark.parametrize("position_type", ALL)
def test_a_compiled_forward_has_no_break_and_gives_the_same(position_type):
    model = build("decoder", position_type)
    ids, mask = pad(random_rows(7, 4), "left")
    torch.compiler.reset()
    found = torch.compile(model, backend="eager", fullgraph=True)(ids, attention_mask=mask, labels=ids)
    assert_close(found.logits, model(ids, attention_mask=mask, labels=ids).logits)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("position_type", ALL)
def test_half_precision_is_finite_and_near(position_type, dtype):
    ids, mask = pad(random_rows(7, 4), "left")
    for kernel in kernels_of(position_type):
        model, shown = build("decoder", position_type, kernel), mask.bool()
        exact = model(ids, attention_mask=mask).logits
        logits = model.to(dtype)(ids, attention_mask=mask).logits
        assert logits.dtype == dtype
        assert logits.isfinite().all()
        torch.testing.assert_close(logits[shown].float(), exact[shown], atol=0.3, rtol=0.1)


@pytest.mark.parametrize("position_type", ALL)
def test_mixed_precision_learns(position_type):
    model, ids = build("decoder", position_type).train(), random_ids(2, 6)
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(ids, labels=ids).loss
    loss.backward()
    assert loss.isfinite()


# Weights


@torch.no_grad()
@pytest.mark.parametrize("position_type", ALL)
def test_a_saved_model_loads_with_the_same_logits(position_type, tmp_path):
    ids = random_ids(2, 6)
    for family in BUILDERS:
        model = build(family, position_type)
        model.save_pretrained(tmp_path / family)
        loaded, report = type(model).from_pretrained(tmp_path / family, output_loading_info=True)
        assert not any(report.values())
        assert torch.equal(loaded(ids, use_cache=False)[0], model(ids, use_cache=False)[0])


# Beyond the trained length: 24 positions


@torch.no_grad()
@pytest.mark.parametrize("position_type", ALL)
def test_a_longer_sequence_is_read_or_refused_as_the_type_says(position_type):
    ids = random_ids(1, 40)
    for family in BUILDERS:
        model = build(family, position_type)
        if POSITION_TYPES[position_type].extrapolates:
            assert model(ids, use_cache=False)[0].isfinite().all()
        else:
            with pytest.raises(ValueError, match=r"40 tokens.*max_position_embeddings=24.*Shorten it"):
                model(ids, use_cache=False)


@pytest.mark.parametrize("position_type", [name for name in ALL if POSITION_TYPES[name].extrapolates])
def test_beyond_the_trained_length_the_cache_is_exact_or_refused(position_type):
    chunks = (23, 1, 1, 4)
    if position_type in STRETCHED:
        with pytest.raises(ValueError, match=r"25 tokens.*use_cache=False.*position_scaling_factor"):
            check_cached_decoder(build("decoder", position_type), chunks=chunks)
        check_cached_decoder(build("decoder", position_type, position_scaling_factor=2), chunks=chunks)
    else:
        check_cached_decoder(build("decoder", position_type), chunks=chunks)


@pytest.mark.parametrize("position_type", [name for name in ALL if POSITION_TYPES[name].extrapolates])
def test_rows_of_trained_and_greater_length_in_one_batch_give_what_they_give_alone(position_type):
    rows = random_rows(40, 10, 30)
    for side in SIDES:
        ids, mask = pad(rows, side)
        with torch.no_grad():
            model = build("encoder", position_type)
            together = model(ids, attention_mask=mask).last_hidden_state
            for row, own, its_mask in zip(rows, together, mask.bool(), strict=True):
                assert_close(own[its_mask], model(row[None]).last_hidden_state[0], tolerance=1e-4)
