"""Models whose self-attention is efficient: what is drawn at random, maps, and where it stands."""

import pytest
import torch

from hf_attn.interpret.attention_maps import attention_maps
from hf_attn.models.attention import MultiHeadAttention
from hf_attn.models.efficient_attention import EFFICIENT_ATTENTION
from tests.support.checks import EFFICIENT_SIZES, assert_close, assert_different, random_ids
from tests.support.position_checks import BUILDERS
from tests.support.subjects import CAUSAL, EFFICIENT, small_blocks

pytestmark = small_blocks
RANDOM = ("performer", "reformer")


def build(family, kind, kernel="sdpa", **settings):
    return BUILDERS[family](kernel, attention_type=kind, **settings)


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


@pytest.mark.parametrize("kind", EFFICIENT)
def test_maps_are_formed_by_the_twin_and_the_kernel_is_put_back(kind):
    model = build("encoder", kind)
    maps = attention_maps(model, random_ids(1, 9)).encoder
    assert maps.shape == (2, 2, 9, 9)
    if kind != "linformer":  # whose mixtures are no shares
        assert_close(maps.sum(-1), torch.ones(2, 2, 9))
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("kind", EFFICIENT)
def test_cross_attention_stays_full_and_the_decoder_s_own_where_the_future_must_be_hidden(kind):
    model = build("encoder-decoder", kind).model
    assert type(model.encoder.layers[0].self_attn) is EFFICIENT_ATTENTION[kind]
    assert type(model.decoder.layers[0].cross_attn) is MultiHeadAttention
    own = EFFICIENT_ATTENTION[kind] if kind in CAUSAL else MultiHeadAttention
    assert type(model.decoder.layers[0].self_attn) is own
