"""What must hold of the decoder-only model, as functions; test_decoder_mutations.py proves they can fail.

Each check takes a model, raises AssertionError where the claim is broken, and returns nothing.
"""

import torch

from hf_attn.models.configuration_attn_decoder import AttnDecoderConfig
from hf_attn.models.modeling_attn_decoder import AttnDecoderForCausalLM
from tests.support.checks import SIZES, assert_close, assert_different, pad, random_ids, random_rows


def build_decoder(kernel: str = "sdpa", seed: int = 0, **settings) -> AttnDecoderForCausalLM:
    """A small language model with random weights, in evaluation mode."""
    config = AttnDecoderConfig(**{**SIZES, **settings}, attn_implementation=kernel)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return AttnDecoderForCausalLM(config).eval()


def decoder_examples() -> tuple[list[dict], int]:
    """Eight examples with 1 to 8 labels that are learned, and the number of them."""
    ids = random_ids(8, 9)
    labels = ids.clone()
    labels[:, 1:][torch.arange(8).unsqueeze(1) < torch.arange(8)] = -100
    return [{"input_ids": i[None], "labels": wanted[None]} for i, wanted in zip(ids, labels, strict=True)], 36


@torch.no_grad()
def check_rows_stand_alone(model, side: str) -> None:
    """Each row of a padded batch gives the logits that it gives alone."""
    rows = random_rows(8, 3, 1, 6)
    ids, mask = pad(rows, side)
    logits = model(ids, attention_mask=mask).logits
    for row, own, its_mask in zip(rows, logits, mask.bool(), strict=True):
        assert_close(own[its_mask], model(row[None]).logits[0])


@torch.no_grad()
def check_the_future_is_hidden(model) -> None:
    """Another token at place t changes the logits from t on, and none before."""
    ids = random_ids(2, 7)
    before = model(ids).logits
    for place in (1, 3, 6):
        other = ids.clone()
        other[:, place] = (ids[:, place] - 3) % 19 + 4
        after = model(other).logits
        assert_close(after[:, :place], before[:, :place])
        assert_different(after[:, place], before[:, place])


@torch.no_grad()
def check_padding_and_the_future_weigh_nothing(model) -> None:
    """Padded on the left, under the plain kernel: rows and columns of padding and the future are 0."""
    ids, mask = pad(random_rows(7, 3), "left")
    is_token = mask.bool()
    may_attend = (is_token[:, :, None] & is_token[:, None]).tril().unsqueeze(1)  # [B, 1, T, T]
    for weights in model(ids, attention_mask=mask, output_attentions=True).attentions:
        assert (weights.masked_fill(may_attend, 0) == 0).all()
        assert_close(weights.sum(-1), is_token[:, None].expand(weights.shape[:-1]).float())


@torch.no_grad()
def check_cached_equals_uncached(model, side: str | None = None, chunks=(1,) * 7) -> None:
    """Chunk by chunk through the cache gives the logits of one pass; `side` is where a row is padded."""
    ids, mask = pad(random_rows(sum(chunks), sum(chunks) - (3 if side else 0), seed=9), side or "left")
    whole = model(ids, attention_mask=mask if side else None, use_cache=False)
    assert whole.cache is None
    cache, pieces, done = None, [], 0
    for size in chunks:
        step = model(
            ids[:, done : done + size],
            attention_mask=mask[:, : done + size] if side else None,
            cache=cache,
            use_cache=True,
        )
        cache, done = step.cache, done + size
        pieces.append(step.logits)
    assert_close(torch.cat(pieces, dim=1)[mask.bool()], whole.logits[mask.bool()])


@torch.no_grad()
def check_labels_shift_once(model) -> None:
    """The loss is the one computed by hand: what stands at t is scored by what was read before t."""
    ids = random_ids(3, 6)
    labels = ids.clone()
    labels[0, :3] = labels[1, 4:] = -100
    total, count = 0.0, 0
    for row, wanted in zip(ids, labels.tolist(), strict=True):
        for place in range(1, 6):
            if wanted[place] != -100:
                log_p = model(row[None, :place]).logits[0, -1].log_softmax(-1)
                total, count = total - log_p[wanted[place]], count + 1
    assert count == 11
    assert_close(model(ids, labels=labels).loss, total / count)
