"""Padding changes nothing, wherever it stands, and no row or sequence sees another."""

import itertools

import pytest
import torch

from tests.support.checks import (
    KERNELS,
    SIDES,
    answers,
    assert_close,
    check_padding_is_not_read,
    check_rows_stand_alone,
    random_ids,
    random_rows,
    read,
)
from tests.support.subjects import (
    classifiers,
    each_kind,
    recurrent,
    recurrent_encoders,
    small_blocks,
    with_attention,
    with_positions,
)

pytestmark = small_blocks


@pytest.mark.parametrize(
    "subject",
    [
        *with_positions(both_kernels=True),
        *with_attention(kernels=KERNELS),
        *classifiers(),
        *recurrent(),
        *recurrent_encoders(),
    ],
)
def test_each_row_of_a_padded_batch_is_answered_as_it_is_alone(subject):
    model = subject.build()
    sides = itertools.product(SIDES, SIDES if model.config.is_encoder_decoder else SIDES[:1])
    for side, target_side in sides:
        check_rows_stand_alone(model, side, target_side)


@pytest.mark.parametrize(
    "subject",
    [
        *each_kind(),
        *with_positions("encoder", "encoder-decoder", both_kernels=True, gate=("learned",)),
        *with_attention(),
        *recurrent(),
        *recurrent_encoders(),
    ],
)
def test_what_stands_under_the_padding_changes_nothing(subject):
    check_padding_is_not_read(subject.build())


@torch.no_grad()
@pytest.mark.parametrize("subject", [*each_kind(), *classifiers(), *recurrent()])
def test_a_row_of_nothing_but_padding_gives_finite_numbers(subject):
    model = subject.build()
    mask = torch.tensor([[1, 1, 1], [0, 0, 0]])
    target = read(model, random_ids(2, 4)) if model.config.is_encoder_decoder else {}
    assert answers(model, input_ids=random_ids(2, 3), attention_mask=mask, **target).isfinite().all()


@torch.no_grad()
@pytest.mark.parametrize("subject", with_positions("decoder"))
def test_padding_between_tokens_is_skipped(subject):
    model, ids = subject.build(), random_ids(1, 6)
    apart = torch.cat((ids[:, :2], random_ids(1, 3, seed=5), ids[:, 2:]), dim=1)
    mask = torch.tensor([[1, 1, 0, 0, 0, 1, 1, 1, 1]])
    assert_close(model(apart, attention_mask=mask).logits[mask.bool()], model(ids).logits[0])


@torch.no_grad()
@pytest.mark.parametrize(
    "subject",
    [*with_positions("decoder", both_kernels=True), *with_attention("decoder", kernels=KERNELS)],
)
def test_sequences_packed_in_one_row_do_not_see_each_other(subject):
    rows, places = random_rows(5, 3), torch.tensor([[*range(5), *range(3)]])
    model = subject.build()
    packed = model(torch.cat(rows)[None], position_ids=places, use_cache=False).logits[0]
    assert_close(packed, torch.cat([model(row[None]).logits[0] for row in rows]))
