"""Document `notebook`: every printed number, from the printed cells and `torch.manual_seed(123)`."""

from collections.abc import Mapping
from functools import cache

import torch
from torch import nn

from hf_attn.models.attention import scaled_dot_product_attention
from hf_attn.textbooks.claims import Claim, Measured, flat, shape_of

SENTENCE = (0, 7, 1, 2, 5, 6, 4, 3)
WIDTH, HEADS = 16, 8
SKIPPED = 13_824  # draws between cells 62 and 75, in cells 63 to 74 that are not printed
SECOND = 1  # the token that the notebook calls 2


def embed() -> torch.Tensor:
    """The sentence's vectors, [8, 16]."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(123)
        return nn.Embedding(10, WIDTH)(torch.tensor(SENTENCE)).detach()


def raw_attention() -> tuple[torch.Tensor, torch.Tensor]:
    """Softmax of X Xᵀ, not scaled, and what it makes of X: ([8, 8], [8, 16])."""
    vectors = embed()
    weights = (vectors @ vectors.T).softmax(dim=1)
    return weights, weights @ vectors


def draw_maps() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """U_query, U_key and U_value of cell 52, [16, 16] each."""
    generator = torch.Generator().manual_seed(123)
    query_map, key_map, value_map = (torch.rand(WIDTH, WIDTH, generator=generator) for _ in range(3))
    return query_map, key_map, value_map


def draw_head_maps(skipped: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The maps of cell 75, [8, 16, 16] each, so many draws after the one matrix of cell 62."""
    generator = torch.Generator().manual_seed(123)
    torch.rand(WIDTH, WIDTH, generator=generator)
    torch.rand(skipped, generator=generator)
    queries, keys, values = (torch.rand(HEADS, WIDTH, WIDTH, generator=generator) for _ in range(3))
    return queries, keys, values


@cache
def single_head() -> Mapping[str, torch.Tensor]:
    """Query of the second token, all keys and values, its scores, weights and context."""
    vectors = embed()
    query_map, key_map, value_map = draw_maps()
    query, keys, values = vectors[SECOND] @ query_map.T, vectors @ key_map.T, vectors @ value_map.T
    context, weights = scaled_dot_product_attention(
        query.view(1, 1, 1, -1), keys[None, None], values[None, None]
    )
    return {
        "keys": keys,
        "values": values,
        "key": key_map @ vectors[SECOND],
        "value": value_map @ vectors[SECOND],
        "scores": query @ keys.T,
        "weights": weights.flatten(),
        "context": context.flatten(),
    }


@cache
def many_heads(skipped: int) -> Mapping[str, torch.Tensor]:
    """Queries of the second token [8, 16], keys and values [8, 8, 16] of the heads of `draw_head_maps`."""
    vectors = embed()
    maps = draw_head_maps(skipped)
    query = maps[0] @ vectors[SECOND]
    keys, values = (vectors @ part.transpose(1, 2) for part in maps[1:])
    return {"query": query, "keys": keys, "values": values}


def loop_and_product() -> Measured:
    vectors = embed()
    one_by_one = torch.tensor([[float(x @ y) for y in vectors] for x in vectors])
    return (str(torch.allclose(vectors @ vectors.T, one_by_one)),)


def context_one_by_one() -> Measured:
    weights, contexts = raw_attention()
    summed = sum(weight * vector for weight, vector in zip(weights[SECOND], embed(), strict=True))
    return (str(torch.allclose(torch.as_tensor(summed), contexts[SECOND])),)


def one_key_and_value() -> Measured:
    head = single_head()
    return tuple(str(torch.allclose(head[name], head[f"{name}s"][SECOND])) for name in ("key", "value"))


def read_by_heads() -> torch.Tensor:
    """What the eight heads truly read for the second token, [8, 16]."""
    heads = many_heads(SKIPPED)
    read, _ = scaled_dot_product_attention(
        heads["query"][None, :, None], heads["keys"][None], heads["values"][None]
    )
    return read[0, :, 0]


def projected() -> Measured:
    read = read_by_heads()
    return shape_of(read), shape_of(nn.Linear(HEADS * WIDTH, WIDTH)(read.flatten()))


CLAIMS = (
    Claim(
        "The sentence's eight vectors, and one score for each pair of them.",
        "8×16 8×8",
        lambda: (shape_of(embed()), shape_of(raw_attention()[0])),
        "Nothing is random but the embedding, and its seed is printed.",
        where="A simple form of self-attention",
    ),
    Claim(
        "Scores computed one by one are those of X Xᵀ.",
        "True",
        loop_and_product,
        "A matrix product is those inner products.",
        where="A simple form of self-attention",
    ),
    Claim(
        "Each row of the softmax sums to 1.",
        " ".join(["1.0000"] * 8),
        lambda: flat(raw_attention()[0].sum(dim=1)),
        "By the definition of softmax.",
        where="A simple form of self-attention",
    ),
    Claim(
        "The second token's context vector, from unscaled attention without weights.",
        "-9.3975e-01 -4.6856e-01 1.0311e+00 -2.8192e-01 4.9373e-01 -1.2896e-02 -2.7327e-01 -7.6358e-01 "
        "1.3958e+00 -9.9543e-01 -7.1287e-04 1.2449e+00 -7.8077e-02 1.2765e+00 -1.4589e+00 -2.1601e+00",
        lambda: flat(raw_attention()[1][SECOND]),
        "The seed is printed.",
        where="A simple form of self-attention",
    ),
    Claim(
        "The context summed word by word is that of one matrix product.",
        "True",
        context_one_by_one,
        "The product is that sum.",
        where="A simple form of self-attention",
    ),
    Claim(
        "The second token's key and value are the second rows of all keys and values.",
        "True True",
        one_key_and_value,
        "A map acts on each token by itself.",
        where="The scaled dot-product",
    ),
    Claim(
        "The score of the second token's query with the third one's key.",
        "14.3667",
        lambda: (float(single_head()["scores"][2]),),
        "The maps are uniform on [0, 1), not centred, so that scores are large.",
        where="The scaled dot-product",
    ),
    Claim(
        "All scores of the second token's query.",
        "-25.1623 9.3602 14.3667 32.1482 53.8976 46.6626 -1.2131 -32.9392",
        lambda: flat(single_head()["scores"]),
        "They range over 87 where softmax after the scaling still takes differences of 16 for all or "
        "nothing.",
        where="The scaled dot-product",
    ),
    Claim(
        "Its weights, with the scores divided by √16.",
        "2.2317e-09 1.2499e-05 4.3696e-05 3.7242e-03 8.5596e-01 1.4026e-01 8.8897e-07 3.1935e-10",
        lambda: flat(single_head()["weights"]),
        "Two of eight words get nearly all: maps that are not centred saturate the softmax, scaled or not.",
        where="The scaled dot-product",
    ),
    Claim(
        "Its context vector with the three maps.",
        "-1.2226 -3.4387 -4.3928 -5.2125 -1.1249 -3.3041 -1.4316 -3.2765 -2.5114 -2.6105 -1.5793 -2.8433 "
        "-2.4142 -0.3998 -1.9917 -3.3499",
        lambda: flat(single_head()["context"]),
        "The seed is printed.",
        where="The scaled dot-product",
    ),
    Claim(
        "Shapes of eight heads' queries for one token, of the stacked input's keys, and of the values.",
        "8×16 8×8×16 8×8×16",
        lambda: tuple(shape_of(many_heads(SKIPPED)[name]) for name in ("query", "keys", "values")),
        "Each head has maps of the full width 16 × 16: nothing is split.",
        where="Multi-head attention",
    ),
    Claim(
        "The fourth head's query.",
        "-1.1907 -1.8279 -1.5237 0.2820 -1.6944 -1.6440 -0.7748 -1.2830 -1.6806 -0.1230 -0.4647 -0.0889 "
        "-2.0839 -2.7138 -0.7688 -1.9872",
        lambda: flat(many_heads(SKIPPED)["query"][3]),
        f"Holds once {SKIPPED:,} draws are skipped, as by cells 63 to 74, which are not printed; "
        "the printed cells alone give other numbers.",
        where="Multi-head attention",
    ),
    Claim(
        "The third head's key of the second token.",
        "0.0533 -0.2590 -0.5376 -0.8360 0.1815 -1.0017 -0.9257 -1.4889 -1.6172 -0.2682 2.2755 -0.0882 "
        "-0.1427 0.3652 -0.4133 -1.3387",
        lambda: flat(many_heads(SKIPPED)["keys"][2, SECOND]),
        f"Holds from the same state, {SKIPPED:,} draws on.",
        where="Multi-head attention",
    ),
    Claim(
        "Eight heads side by side are projected from 128 numbers to 16.",
        "8×16 16",
        projected,
        "Here of what the heads read; the notebook puts numbers from torch.rand in their place.",
        where="Multi-head attention",
    ),
)
