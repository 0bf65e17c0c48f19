"""Models whose self-attention is efficient: padding, the future, the cache, weights, maps, refusals."""

import copy

import pytest
import torch

from hf_attn.interpret.attention_maps import attention_maps
from hf_attn.models import modeling_attn_decoder, modeling_attn_encoder, performer_reformer
from hf_attn.models.attention import MultiHeadAttention
from hf_attn.models.configuration_attn_decoder import AttnDecoderConfig
from hf_attn.models.configuration_attn_encoder import AttnEncoderConfig
from hf_attn.models.efficient_attention import EFFICIENT_ATTENTION
from hf_attn.models.positions import POSITION_TYPES
from tests.models.test_efficient_attention import CAUSAL, KINDS, SMALL
from tests.models.test_mutations import assert_caught
from tests.support.checks import (
    KERNELS,
    SIDES,
    SIZES,
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
from tests.support.commands import in_process, rows_of
from tests.support.decoder_checks import check_cached_equals_uncached as check_cached_decoder
from tests.support.decoder_checks import check_rows_stand_alone
from tests.support.decoder_checks import check_the_future_is_hidden as check_the_decoder_s_future_is_hidden
from tests.support.position_checks import BUILDERS

RANDOM = ("performer", "reformer")
ADDED_OR_TURNED = [name for name, kind in POSITION_TYPES.items() if not kind.biases_scores]
BIASES = [name for name, kind in POSITION_TYPES.items() if kind.biases_scores and not kind.needs_weights]
WRITING = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False}


def families_of(kind):
    return tuple(family for family in BUILDERS if family != "decoder" or kind in CAUSAL)


def build(family, kind, kernel="sdpa", **settings):
    return BUILDERS[family](kernel, attention_type=kind, **{**SMALL, **settings})


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Rows of a few tokens fill several blocks."""
    monkeypatch.setattr(performer_reformer, "CAUSAL_BLOCK", 3)
    monkeypatch.setattr("hf_attn.models.efficient_attention.SMALLEST_BLOCK", 2)


# Padding, packing, the future


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_padded_batch_gives_what_each_row_gives_alone(kind, kernel):
    encoder, seq2seq = (build(family, kind, kernel) for family in ("encoder", "encoder-decoder"))
    for side in SIDES:
        check_encoder_rows_stand_alone(encoder, side)
        check_seq2seq_rows_stand_alone(seq2seq, "left", side)
        if kind in CAUSAL:
            check_rows_stand_alone(build("decoder", kind, kernel), side)
    check_padding_is_not_read(encoder)
    check_padding_is_not_read(seq2seq)


@pytest.mark.parametrize("kind", KINDS)
def test_an_ignored_padding_mask_is_caught(kind, monkeypatch):
    model, mark = build("encoder", kind), modeling_attn_encoder.mark_sequences
    monkeypatch.setattr(modeling_attn_encoder, "mark_sequences", lambda states, _: mark(states, None))
    assert_caught(check_encoder_rows_stand_alone, model, "left")


@torch.no_grad()
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", CAUSAL)
def test_sequences_packed_in_one_row_do_not_see_each_other(kind, kernel):
    rows, places = random_rows(5, 3), torch.tensor([[*range(5), *range(3)]])
    model = build("decoder", kind, kernel)
    packed = model(torch.cat(rows)[None], position_ids=places, use_cache=False).logits[0]
    assert_close(packed, torch.cat([model(row[None]).logits[0] for row in rows]))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_later_token_changes_no_earlier_logit(kind, kernel):
    check_the_future_is_hidden(build("encoder-decoder", kind, kernel))
    if kind in CAUSAL:
        check_the_decoder_s_future_is_hidden(build("decoder", kind, kernel))


@pytest.mark.parametrize("kind", CAUSAL)
def test_a_stack_that_forgets_to_be_causal_is_caught(kind):
    model = build("decoder", kind)
    for layer in model.model.layers:
        layer.self_attn.is_causal = False
    assert_caught(check_the_decoder_s_future_is_hidden, model)
    assert_caught(check_cached_decoder, model)


# Through the cache


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", KINDS)
def test_step_by_step_through_the_cache_equals_one_pass(kind, kernel):
    seq2seq = build("encoder-decoder", kind, kernel)
    for side in (None, *SIDES):
        check_cached_equals_uncached(seq2seq, side)
        if kind in CAUSAL:
            check_cached_decoder(build("decoder", kind, kernel), side, chunks=(4, 1, 2))


@pytest.mark.parametrize("kind", CAUSAL)
def test_a_mask_that_forgets_the_cache_is_caught(kind, monkeypatch):
    model, mark = build("decoder", kind), modeling_attn_decoder.mark_sequences

    def forget(states, *given):
        sequences, length = mark(states, *given), states.shape[1]
        return torch.cat((torch.zeros_like(sequences[:, :-length]), sequences[:, -length:]), dim=1)

    monkeypatch.setattr(modeling_attn_decoder, "mark_sequences", forget)
    assert_caught(check_cached_decoder, model)


@pytest.mark.parametrize("kind", KINDS)
def test_every_cache_and_none_write_the_same_beams(kind):
    source, source_mask = pad(random_rows(6, 4), "left")
    read, mask = pad(random_rows(5, 2, seed=7), "left")
    begun = {"decoder_input_ids": read, "decoder_attention_mask": mask}
    asked = [(build("encoder-decoder", kind), {"input_ids": source, "attention_mask": source_mask, **begun})]
    if kind in CAUSAL:
        asked.append((build("decoder", kind), {"input_ids": read, "attention_mask": mask}))
    for model, inputs in asked:
        for beams in (1, 3):
            cached, whole, static = (
                model.generate(**inputs, **WRITING, num_beams=beams, **cache).tolist()
                for cache in ({}, {"use_cache": False}, {"cache_implementation": "static"})
            )
            assert cached == whole == static


# Positions


@pytest.mark.parametrize("position_type", ADDED_OR_TURNED)
@pytest.mark.parametrize("kind", KINDS)
def test_positions_that_are_added_or_turn_go_with_every_kind(kind, position_type):
    model = build("encoder", kind, position_type=position_type)
    check_encoder_rows_stand_alone(model, "left")
    ids, order = random_ids(1, 12), torch.randperm(12, generator=torch.Generator().manual_seed(0))
    if position_type not in ("none", "index"):  # a pre-norm model does not see an index
        assert_different(model(ids[:, order])[0], model(ids)[0][:, order])


@pytest.mark.parametrize("position_type", BIASES)
def test_a_window_takes_a_bias_on_the_scores(position_type):
    for family in BUILDERS:
        model = build(family, "local", position_type=position_type)
        check_kernels_agree(model.model if family == "decoder" else model)
    wide = build("decoder", "local", position_type=position_type, attention_window=30)
    full = build("decoder", "full", position_type=position_type)
    full.load_state_dict(wide.state_dict())
    ids, mask = pad(random_rows(7, 4), "left")
    ours, theirs = (model(ids, attention_mask=mask).logits[mask.bool()] for model in (wide, full))
    assert_close(ours, theirs)
    check_cached_decoder(build("decoder", "local", position_type=position_type), "left")


@pytest.mark.parametrize("kind", KINDS)
def test_positions_that_need_scores_are_refused_where_there_are_none(kind):
    refused = ["relative"] if kind == "local" else [*BIASES, "relative"]
    for position_type in refused:
        with pytest.raises(ValueError, match=rf"'{position_type}'.*'{kind}'.*added to the embeddings"):
            AttnEncoderConfig(attention_type=kind, position_type=position_type)


# Learning


@pytest.mark.parametrize("kind", KINDS)
def test_the_kernel_and_its_twin_agree_in_values_and_gradients(kind):
    for family in families_of(kind):
        model = build(family, kind)
        check_kernels_agree(model.model if family == "decoder" else model)


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_learns_with_and_without_checkpointing(kind):
    ids = random_ids(3, 6)
    for family in families_of(kind)[1:]:
        found = []
        for reentrant in (None, False, True):
            model = build(family, kind).train()
            if reentrant is not None:
                model.activation_checkpointing_enable({"use_reentrant": reentrant})
            model(ids, labels=ids).loss.backward()
            found.append(gradients(model))
            assert not [n for n, w in model.named_parameters() if w.grad is None or not w.grad.any()]
        assert_same_gradients(found[1], found[0])
        assert_same_gradients(found[2], found[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_is_finite_and_learns(kind, dtype):
    ids, mask = pad(random_rows(7, 4), "left")
    for family in families_of(kind)[1:]:
        exact = build(family, kind)
        model = copy.deepcopy(exact).to(dtype)
        output = model(ids, attention_mask=mask, labels=ids)
        assert output.logits.dtype == dtype
        assert output.logits.isfinite().all()
        output.loss.backward()
        assert all(slope.isfinite().all() for slope in gradients(model).values())
        if kind != "reformer":  # a rounded query may hash to another bucket
            wanted = exact(ids, attention_mask=mask).logits[mask.bool()]
            torch.testing.assert_close(output.logits[mask.bool()].float(), wanted, atol=0.3, rtol=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_mixed_precision_learns(kind):
    model, ids = build("encoder-decoder", kind).train(), random_ids(2, 6)
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(ids, labels=ids).loss
    loss.backward()
    assert loss.isfinite()


@pytest.mark.parametrize("kind", KINDS)
def test_a_setting_on_the_command_line_trains_such_a_model(kind, tmp_path, capsys):
    settings = [f"attention_type={kind}", "attention_window=3", "hidden_size=32", "intermediate_size=64"]
    flags = [part for setting in settings for part in ("--set", setting)]
    arguments = ["train", "sort", "--steps", "2", *flags, "--output-dir", tmp_path / "sort", "--json"]
    code, output, errors = in_process(capsys, *arguments)
    assert code == 0, errors
    assert rows_of(output)[-1]["event"] == "result"
    code, output, errors = in_process(
        capsys, "generate", tmp_path / "sort", "9 4 17 4 2 3 5 6", "--strategy", "beam", "--json"
    )
    assert code == 0, errors
    assert rows_of(output)[-1]["event"] == "generation"


# Weights, and what is drawn at random


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_loads_with_the_same_logits(kind, tmp_path):
    ids = random_ids(2, 6)
    for family in families_of(kind):
        model = build(family, kind)
        model.save_pretrained(tmp_path / family)
        loaded, report = type(model).from_pretrained(tmp_path / family, output_loading_info=True)
        assert not any(report.values())
        assert torch.equal(loaded(ids, use_cache=False)[0], model(ids, use_cache=False)[0])


@torch.no_grad()
@pytest.mark.parametrize("kind", ["linformer", "performer"])
def test_weights_of_full_attention_load_and_what_they_lack_is_drawn(kind, tmp_path):
    full = build("encoder", "full")
    full.save_pretrained(tmp_path)
    found = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        model, report = type(full).from_pretrained(
            tmp_path, attention_type=kind, **SMALL, output_loading_info=True
        )
        assert all("self_attn" in name for name in report["missing_keys"])
        assert torch.equal(model.layers[0].self_attn.q_proj.weight, full.layers[0].self_attn.q_proj.weight)
        found.append(model(random_ids(2, 9))[0])
    assert found[0].isfinite().all()
    assert torch.equal(found[0], found[1])
    if kind in RANDOM:  # what a layer draws first is always the same
        assert torch.equal(found[0], found[2])
    else:
        assert_different(found[0], found[2])


@torch.no_grad()
@pytest.mark.parametrize("kind", RANDOM)
def test_redrawing_takes_a_generator_and_a_saved_model_too(kind, tmp_path):
    model, ids = build("encoder-decoder", kind), random_ids(2, 20)
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    before, state = model(ids)[0], torch.random.get_rng_state()
    for changed in (model, loaded):
        changed.redraw(torch.Generator().manual_seed(5))
    assert torch.equal(model(ids)[0], loaded(ids)[0])
    assert_different(model(ids)[0], before)
    assert torch.equal(torch.random.get_rng_state(), state)
    drawn = [module.drawn for module in model.modules() if isinstance(module, EFFICIENT_ATTENTION[kind])]
    assert not torch.equal(drawn[0], drawn[1])  # each layer has its own


def test_full_attention_has_nothing_to_redraw():
    model = build("encoder", "full")
    weights = copy.deepcopy(model.state_dict())
    model.redraw(torch.Generator())
    assert all(torch.equal(weight, weights[name]) for name, weight in model.state_dict().items())


# Maps


@pytest.mark.parametrize("kind", KINDS)
def test_maps_are_shown_and_times_the_values_are_the_output(kind):
    found = {}

    def keep(module, inputs, output):
        found["output"], found["weights"] = output

    for family in families_of(kind):
        model = build(family, kind)
        stack = model if family == "encoder" else model.get_encoder() if "-" in family else model.model
        ids, attention = random_ids(1, 9), stack.layers[0].self_attn
        maps = attention_maps(model, ids, random_ids(1, 4)) if family != "encoder" else None
        assert model.config._attn_implementation == "sdpa"
        with torch.no_grad():
            hook = attention.register_forward_hook(keep)
            model(ids)
            fast = found["output"]
            assert found["weights"] is None
            model.set_attn_implementation("eager")
            stack(ids)
            hook.remove()
            assert_close(found["output"], fast)
            weights = stack(ids, output_attentions=True).attentions[0]
        assert torch.equal(weights, found["weights"])
        assert weights.shape == (1, 2, 9, 9)
        if kind != "linformer":
            assert_close(weights.sum(-1), torch.ones(1, 2, 9))
            assert (weights >= 0).all()
        if maps is not None and "-" in family:
            assert_close(maps.encoder[0], weights[0])
            assert_close(maps.cross.sum(-1), torch.ones_like(maps.cross[..., 0]))
        elif maps is not None:
            assert maps.decoder.shape == (2, 2, 12, 12)
            assert (maps.decoder.triu(1) == 0).all()


# What is chosen and refused


@pytest.mark.parametrize("kind", KINDS)
def test_cross_attention_stays_full_and_the_decoder_s_own_where_the_future_must_be_hidden(kind):
    model = build("encoder-decoder", kind).model
    assert type(model.encoder.layers[0].self_attn) is EFFICIENT_ATTENTION[kind]
    assert type(model.decoder.layers[0].cross_attn) is MultiHeadAttention
    own = EFFICIENT_ATTENTION[kind] if kind in CAUSAL else MultiHeadAttention
    assert type(model.decoder.layers[0].self_attn) is own


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in CAUSAL])
def test_a_decoder_refuses_what_cannot_hide_the_future(kind):
    with pytest.raises(
        ValueError, match=rf"'{kind}' cannot hide the future.*Choose local or performer, or full"
    ):
        AttnDecoderConfig(attention_type=kind)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"attention_type": "sparse"}, "'sparse' is not known.*full, linformer, local, performer, reformer"),
        ({"attention_window": 0}, "attention_window=0 must be a whole number from 1"),
        ({"linformer_size": 0}, "linformer_size=0"),
        ({"performer_features": 0}, "performer_features=0"),
        ({"reformer_rounds": 0}, "reformer_rounds=0"),
        ({"reformer_chunk": 0}, "reformer_chunk=0"),
        ({"reformer_buckets": 5}, "reformer_buckets=5 must be even"),
        ({"attention_type": "local", "attention_dropout": 0.1}, r"attention_dropout=0.1.*'local'.*choose 0"),
    ],
)
def test_a_size_that_cannot_work_is_refused(fields, said):
    with pytest.raises(ValueError, match=said):
        AttnEncoderConfig(**SIZES, **fields)


@pytest.mark.nightly  # some seconds a kind
@pytest.mark.parametrize("kind", KINDS)
def test_a_compiled_forward_has_no_break_and_gives_the_same(kind):
    model = build("encoder-decoder", kind)
    ids, mask = pad(random_rows(7, 4), "left")
    torch.compiler.reset()
    found = torch.compile(model, backend="eager", fullgraph=True)(ids, attention_mask=mask, labels=ids)
    assert_close(found.logits, model(ids, attention_mask=mask, labels=ids).logits)
