"""What a cache holds stands for what was read: every way of writing through it gives what one pass gives."""

import pytest
import torch

from tests.support.checks import (
    KERNELS,
    SIDES,
    START,
    assert_close,
    check_cached_equals_uncached,
    pad,
    random_rows,
    read,
)
from tests.support.subjects import (
    CAUSAL,
    Subject,
    each_kind,
    recurrent,
    small_blocks,
    with_attention,
    with_positions,
)

pytestmark = small_blocks
STACKS = ("encoder-decoder", "decoder")
DEEP = {"encoder_layers": 1, "decoder_layers": 3, "norm_position": "post"}
WRITING = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False, "return_dict_in_generate": True}
NO_CACHE, STATIC = {"use_cache": False}, {"cache_implementation": "static"}


@pytest.mark.parametrize(
    "subject",
    [
        *with_positions(*STACKS, both_kernels=True),
        *with_attention(*STACKS, kernels=KERNELS, gate=CAUSAL),
        *recurrent(),
        *each_kind("encoder-decoder", **DEEP),
        *each_kind("decoder", num_hidden_layers=3, norm_position="post"),
    ],
)
def test_step_by_step_through_the_cache_equals_one_pass(subject):
    model = subject.build()
    for side in (None, *SIDES):
        check_cached_equals_uncached(model, side)
    check_cached_equals_uncached(model, chunks=(3, 1, 2))
    check_cached_equals_uncached(model, "left", chunks=(4, 1, 2))


def begin(subject: Subject):
    """A model, what it writes on from, padded on the left, and each row of it alone."""
    model = subject.build(eos_token_id=None)
    rows = [torch.cat((torch.tensor([START]), row)) for row in random_rows(5, 2, seed=7)]
    ids, mask = pad(rows, "left")
    begun, alone = (
        read(model, ids, mask),
        [read(model, row[None], torch.ones_like(row[None])) for row in rows],
    )
    if model.config.is_encoder_decoder:
        sources = random_rows(6, 4)
        ids, mask = pad(sources, "left")
        begun |= {"input_ids": ids, "attention_mask": mask}
        for row, source in zip(alone, sources, strict=True):
            row["input_ids"] = source[None]
    return model, begun, alone


def caches_of(model) -> list[dict]:
    """The caches that generate may use, but for its own choice."""
    return [NO_CACHE] if model._is_stateful else [NO_CACHE, STATIC]


written = [*with_positions(*STACKS), *with_attention(*STACKS, gate=CAUSAL), *recurrent()]


@pytest.mark.parametrize("subject", written)
def test_a_row_padded_on_the_left_is_continued_as_if_alone_with_every_cache(subject):
    model, begun, rows = begin(subject)
    asked = {**WRITING, "output_logits": True}
    alone = [torch.stack(model.generate(**row, **asked).logits)[:, 0] for row in rows]
    for cache in ({}, *caches_of(model)):
        found = torch.stack(model.generate(**begun, **asked, **cache).logits)
        for place, expected in enumerate(alone):
            assert_close(found[:, place], expected)


@pytest.mark.parametrize("subject", written)
def test_beams_take_with_them_what_they_have_read_with_every_cache(subject):
    model, begun, _ = begin(subject)
    beams = {**WRITING, "num_beams": 4, "num_return_sequences": 3, "output_scores": True}
    first, *others = [model.generate(**begun, **beams, **cache) for cache in ({}, *caches_of(model))]
    assert len(first.sequences) == 6
    for other in others:
        assert first.sequences.tolist() == other.sequences.tolist()
        assert_close(first.sequences_scores, other.sequences_scores)
