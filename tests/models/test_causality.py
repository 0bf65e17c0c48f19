"""What a model writes does not depend on what comes later."""

import pytest

from tests.support.checks import (
    KERNELS,
    build_decoder,
    check_padding_and_the_future_weigh_nothing,
    check_the_future_is_hidden,
)
from tests.support.matrix import rows
from tests.support.position_checks import ALL
from tests.support.subjects import recurrent, small_blocks, with_attention, with_positions

pytestmark = small_blocks


@pytest.mark.parametrize(
    "subject",
    [
        *with_positions("encoder-decoder", "decoder", both_kernels=True),
        *with_attention("encoder-decoder", "decoder", kernels=KERNELS),
        *recurrent(),
    ],
)
def test_a_later_token_changes_no_earlier_logit(subject):
    check_the_future_is_hidden(subject.build())


@pytest.mark.parametrize("position_type", rows(ALL, ("learned", "alibi", "relative")))
def test_padding_on_the_left_and_the_future_have_weight_0(position_type):
    check_padding_and_the_future_weigh_nothing(build_decoder("eager", position_type=position_type))
