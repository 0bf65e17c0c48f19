"""Models whose self-attention is efficient: positions, what is drawn at random, maps, and where it stands."""

import copy

import pytest
import torch

from hf_attn.interpret.attention_maps import attention_maps
from hf_attn.models.attention import MultiHeadAttention
from hf_attn.models.efficient_attention import EFFICIENT_ATTENTION
from hf_attn.models.positions import POSITION_TYPES
from tests.support.checks import (
    EFFICIENT_SIZES,
    assert_close,
    assert_different,
    check_cached_equals_uncached,
    check_kernels_agree,
    check_rows_stand_alone,
    pad,
    random_ids,
    random_rows,
)
from tests.support.commands import in_process, rows_of
from tests.support.matrix import rows
from tests.support.position_checks import BUILDERS
from tests.support.subjects import CAUSAL, EFFICIENT, TRANSFORMERS, can_have, small_blocks

pytestmark = small_blocks
RANDOM = ("performer", "reformer")
ADDED_OR_TURNED = [name for name, kind in POSITION_TYPES.items() if not kind.biases_scores]
BIASES = [name for name, kind in POSITION_TYPES.items() if kind.biases_scores and not kind.needs_weights]


def families_of(kind):
    return tuple(family for family in TRANSFORMERS if can_have(family, kind))


def build(family, kind, kernel="sdpa", **settings):
    return BUILDERS[family](kernel, attention_type=kind, **settings)


@pytest.mark.parametrize("position_type", rows(ADDED_OR_TURNED, ("sinusoidal", "rotary", "recurrent")))
@pytest.mark.parametrize("kind", EFFICIENT)
def test_positions_that_are_added_or_turn_go_with_every_kind(kind, position_type):
    model = build("encoder", kind, position_type=position_type)
    check_rows_stand_alone(model, "left")
    ids, order = random_ids(1, 12), torch.randperm(12, generator=torch.Generator().manual_seed(0))
    if position_type not in ("none", "index"):  # a pre-norm model does not see an index
        assert_different(model(ids[:, order])[0], model(ids)[0][:, order])


@pytest.mark.parametrize("position_type", rows(BIASES, ("alibi", "both_ends")))
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
    check_cached_equals_uncached(build("decoder", "local", position_type=position_type), "left")


@pytest.mark.parametrize("kind", rows(EFFICIENT, ("performer",)))
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


@torch.no_grad()
@pytest.mark.parametrize("kind", ["linformer", "performer"])
def test_weights_of_full_attention_load_and_what_they_lack_is_drawn(kind, tmp_path):
    full = build("encoder", "full")
    full.save_pretrained(tmp_path)
    found = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        model, report = type(full).from_pretrained(
            tmp_path, attention_type=kind, **EFFICIENT_SIZES, output_loading_info=True
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


@pytest.mark.parametrize("kind", EFFICIENT)
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


@pytest.mark.parametrize("kind", EFFICIENT)
def test_cross_attention_stays_full_and_the_decoder_s_own_where_the_future_must_be_hidden(kind):
    model = build("encoder-decoder", kind).model
    assert type(model.encoder.layers[0].self_attn) is EFFICIENT_ATTENTION[kind]
    assert type(model.decoder.layers[0].cross_attn) is MultiHeadAttention
    own = EFFICIENT_ATTENTION[kind] if kind in CAUSAL else MultiHeadAttention
    assert type(model.decoder.layers[0].self_attn) is own
