"""What a place changes in a model: a shift of all, and sequences longer than it has places."""

import pytest
import torch

from hf_attn.models.positions import POSITION_TYPES
from tests.support.checks import (
    SIDES,
    assert_close,
    assert_different,
    check_cached_equals_uncached,
    pad,
    random_ids,
    random_rows,
)
from tests.support.matrix import rows
from tests.support.position_checks import ALL, BUILDERS, GATE, INVARIANT_TO_SHIFTS, STRETCHED, build

every_position = pytest.mark.parametrize("position_type", rows(ALL, GATE))
LONG = [name for name in ALL if POSITION_TYPES[name].extrapolates]
every_long_one = pytest.mark.parametrize(
    "position_type", rows(LONG, [*STRETCHED, *(name for name in GATE if name in LONG)])
)


@torch.no_grad()
@every_position
def test_moving_every_place_on_changes_nothing_for_the_relative_ones(position_type):
    ids, places = random_ids(2, 6), torch.arange(6)[None]
    for family in ("encoder", "decoder"):
        counts_text = family == "encoder" and POSITION_TYPES[position_type].counts_text
        same = counts_text or position_type in INVARIANT_TO_SHIFTS
        model = build(family, position_type, norm_position="post")
        here, there = (model(ids, position_ids=places + start)[0] for start in (0, 7))
        (assert_close if same else assert_different)(there, here)


# Beyond the trained length: 24 positions


@torch.no_grad()
@every_position
def test_a_longer_sequence_is_read_or_refused_as_the_type_says(position_type):
    ids = random_ids(1, 40)
    for family in BUILDERS:
        model = build(family, position_type)
        if POSITION_TYPES[position_type].extrapolates:
            assert model(ids, use_cache=False)[0].isfinite().all()
        else:
            with pytest.raises(ValueError, match=r"40 tokens.*max_position_embeddings=24.*Shorten it"):
                model(ids, use_cache=False)


@every_long_one
def test_beyond_the_trained_length_the_cache_is_exact_or_refused(position_type):
    chunks = (23, 1, 1, 4)
    if position_type in STRETCHED:
        with pytest.raises(ValueError, match=r"25 tokens.*use_cache=False.*position_scaling_factor"):
            check_cached_equals_uncached(build("decoder", position_type), chunks=chunks)
        check_cached_equals_uncached(
            build("decoder", position_type, position_scaling_factor=2), chunks=chunks
        )
    else:
        check_cached_equals_uncached(build("decoder", position_type), chunks=chunks)


@every_long_one
def test_rows_of_trained_and_greater_length_in_one_batch_give_what_they_give_alone(position_type):
    rows = random_rows(40, 10, 30)
    for side in SIDES:
        ids, mask = pad(rows, side)
        with torch.no_grad():
            model = build("encoder", position_type)
            together = model(ids, attention_mask=mask).last_hidden_state
            for row, own, its_mask in zip(rows, together, mask.bool(), strict=True):
                assert_close(own[its_mask], model(row[None]).last_hidden_state[0], tolerance=1e-4)
