"""What a model claims to transformers is true of it, over all position and attention types."""

import contextlib

import pytest
import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import flash_attention_mask, sdpa_mask

from hf_attn.models.layers import AttnPreTrainedModel
from hf_attn.models.positions import POSITION_TYPES
from tests.support.checks import assert_close, assert_different, pad, random_ids, random_rows
from tests.support.matrix import rows
from tests.support.position_checks import ALL, BUILDERS, GATE, STRETCHED, build

BIASED = [name for name in ALL if POSITION_TYPES[name].biases_scores]
NEIGHBOURS = [name for name in ALL if POSITION_TYPES[name].reads_neighbours]
every_position = pytest.mark.parametrize("position_type", rows(ALL, GATE))


def attend_without_more(module, query, key, value, attention_mask, scaling=None, **_):
    """An attention of somebody else's: it knows queries, keys, values and a mask, and no terms of ours."""
    scores = query @ key.transpose(-2, -1) * scaling
    length, seen = scores.shape[-2:]
    if attention_mask is None or attention_mask.dim() == 2:  # as flash attention is told of padding
        may = torch.ones(length, seen, dtype=torch.bool)
        may = may.tril(seen - length) if module.is_causal else may
        if attention_mask is not None:
            may = may & attention_mask.bool()[:, None, None]
    else:
        may = attention_mask
    scores = scores.masked_fill(~may, torch.finfo(scores.dtype).min)
    return (scores.softmax(-1) @ value).transpose(1, 2), None


@pytest.fixture(params=["sdpa_mask", "flash_attention_mask"])
def somebody_else_s(request):
    """The name of such an attention, told of padding in one of two ways."""
    name = f"own_{request.param}"
    AttentionInterface.register(name, attend_without_more)
    AttentionMaskInterface.register(name, {"sdpa_mask": sdpa_mask}.get(request.param, flash_attention_mask))
    return name


@torch.no_grad()
@every_position
def test_an_attention_of_somebody_else_s_serves_where_it_is_claimed_and_only_there(
    position_type, somebody_else_s
):
    ids, mask = pad(random_rows(7, 4), "left")
    for family in BUILDERS:
        model = build(family, position_type)
        assert (
            model._supports_attention_backend == model._supports_flash_attn == (position_type not in BIASED)
        )
        given = {"input_ids": ids, "attention_mask": mask}
        expected = model(**given)[0][mask.bool()]
        model.config._attn_implementation = somebody_else_s  # past every check
        for part in model.modules():
            if isinstance(part, AttnPreTrainedModel):
                part.config._attn_implementation = somebody_else_s
        found = model(**given)[0][mask.bool()]
        (assert_close if model._supports_attention_backend else assert_different)(found, expected)


@every_position
def test_a_kernel_is_refused_where_it_is_not_claimed(position_type):
    AttentionInterface.register("own_attention", attend_without_more)
    for family in BUILDERS:
        model = build(family, position_type)
        for kernel, claimed in (
            ("sdpa", model._supports_sdpa),
            ("flex_attention", model._supports_flex_attn),
            ("flash_attention_2", model._supports_flash_attn),
            ("own_attention", model._supports_attention_backend),
        ):
            refused = pytest.raises(ValueError, match=f"{kernel}.*{position_type}")
            is_here = not kernel.startswith("flash")
            absent = contextlib.nullcontext() if is_here else pytest.raises(ImportError)
            with absent if claimed else refused:
                model.set_attn_implementation(kernel)


# Rows that hold several sequences


@torch.no_grad()
@every_position
def test_a_packed_row_longer_than_the_positions_gives_what_a_padded_batch_gives(position_type):
    model, rows = build("decoder", position_type), random_rows(20, 7, 24, 1)
    places = torch.cat([torch.arange(len(row)) for row in rows])[None]
    packed = model(torch.cat(rows)[None], position_ids=places, use_cache=False).logits[0]
    ids, mask = pad(rows, "left")
    assert_close(packed, model(ids, attention_mask=mask, use_cache=False).logits[mask.bool()])


@pytest.mark.parametrize("position_type", [name for name in ALL if not POSITION_TYPES[name].extrapolates])
def test_a_sequence_of_a_packed_row_that_is_too_long_is_refused(position_type):
    places = torch.tensor([[*range(5), *range(25)]])
    with pytest.raises(ValueError, match=r"25 tokens.*max_position_embeddings=24.*Shorten it"):
        build("decoder", position_type)(random_ids(1, 30), position_ids=places)
    with pytest.raises(ValueError, match=r"101 tokens.*max_position_embeddings=24"):
        build("encoder", position_type)(random_ids(1, 1), position_ids=torch.tensor([[100]]))
    ids, mask = pad(random_rows(20, 9), "left")  # a row longer than the positions, of few tokens
    ids, mask = torch.nn.functional.pad(ids, (10, 0)), torch.nn.functional.pad(mask, (10, 0))
    assert build("decoder", position_type)(ids, attention_mask=mask).logits.isfinite().all()


@torch.no_grad()
@pytest.mark.parametrize("position_type", STRETCHED)
def test_padding_between_tokens_stretches_nothing_anew(position_type):
    model, ids = build("decoder", position_type), random_ids(1, 40)
    apart = torch.cat((ids[:, :10], random_ids(1, 2, seed=5), ids[:, 10:]), dim=1)
    mask = torch.ones(1, 42, dtype=torch.long)
    mask[:, 10:12] = 0
    alone = model(ids, use_cache=False).logits[0]
    for places in (None, (mask.cumsum(-1) - 1).masked_fill(mask == 0, 0)):  # as generate gives them
        found = model(apart, attention_mask=mask, position_ids=places, use_cache=False).logits[mask.bool()]
        assert_close(found, alone, tolerance=1e-4)


# Masks that say of each pair whether it may be read


@torch.no_grad()
@pytest.mark.parametrize("position_type", [name for name in ALL if name not in NEIGHBOURS])
def test_a_mask_of_pairs_is_honoured(position_type):
    rows = random_rows(5, 3)
    places, number = torch.tensor([[*range(5), *range(3)]]), torch.tensor([0] * 5 + [1] * 3)
    apart = (number[:, None] == number)[None, None]
    for family in BUILDERS:
        model = build(family, position_type)
        alone = torch.cat([read(model, row[None]) for row in rows], dim=1)
        mask = apart if family == "encoder" else apart.tril()
        assert_close(read(model, torch.cat(rows)[None], mask, places), alone)


@pytest.mark.parametrize("position_type", NEIGHBOURS)
def test_a_mask_of_pairs_is_refused_where_neighbours_are_read(position_type):
    for family in BUILDERS:
        with pytest.raises(ValueError, match=r"\[1, 1, 4, 4\].*reads neighbours.*give \[B, S\]"):
            read(build(family, position_type), random_ids(1, 4), torch.ones(1, 1, 4, 4, dtype=torch.bool))


def read(model, ids, mask=None, places=None):
    """What a model's own stack makes of tokens: of an encoder-decoder's its decoder, with one source."""
    if not model.config.is_encoder_decoder:
        return model(ids, attention_mask=mask, position_ids=places)[0]
    source = random_ids(1, 4, seed=5)
    return model(
        source, decoder_input_ids=ids, decoder_attention_mask=mask, decoder_position_ids=places
    ).logits


# Buffers


@pytest.mark.parametrize("kind", ["performer", "reformer"])
def test_what_is_drawn_at_random_is_whole_from_construction_and_drawn_again_the_same(kind, tmp_path):
    model = build("encoder", "learned", attention_type=kind)
    model.save_pretrained(tmp_path)
    halved = type(model).from_pretrained(tmp_path, dtype=torch.float16)
    for layer, half in zip(model.layers, halved.layers, strict=True):
        assert torch.equal(half.self_attn.drawn, layer.self_attn.drawn.half())
    with torch.device("meta"):
        empty = type(model)(model.config)
    empty.to_empty(device="cpu")
    for buffer in empty.buffers():
        buffer.fill_(float("nan"))
    empty.init_weights()
    for index, (layer, again) in enumerate(zip(model.layers, empty.layers, strict=True)):
        alone = type(layer.self_attn)(model.config, index)  # no weights are drawn
        assert torch.equal(alone.drawn, layer.self_attn.drawn)
        assert torch.equal(again.self_attn.drawn, layer.self_attn.drawn)
