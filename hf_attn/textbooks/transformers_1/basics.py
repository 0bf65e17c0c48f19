"""`transformers_part_1`: what its code prints, its claims on cost and language, and its exercises."""

import inspect
import json
import statistics
from functools import partial

import torch
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.trainers import BpeTrainer
from torch import nn

from hf_attn.experiments import gradients
from hf_attn.models.position_base import build_sinusoids
from hf_attn.textbooks.claims import (
    OURS,
    STATED,
    Claim,
    Measured,
    count_multiplications,
    count_parameters,
    difference,
    shape_of,
)
from hf_attn.textbooks.learn_ai_51.basics import shuffle
from hf_attn.textbooks.reference_attention import EncoderLayer, FeedForward, MultiHeadAttention, attend

WIDTH, HEADS, INNER = 256, 8, 512  # of the document's layers
SENTENCE = "Peter Piper picked a peck of pickled peppers"
SMALL = gradients.Sizes((0, 1, 50, 199), hidden_size=32, inputs=8, initialisations=3)


def plain() -> Measured:
    tokens = torch.randn(7, 16)
    weights = (tokens @ tokens.T).softmax(dim=1)
    sums = weights.sum(dim=1)
    return float(weights.min()), float(sums.min()), float(sums.max())


def variances() -> Measured:
    query, key = torch.randn(2, 200_000, 64)
    products = (query * key).sum(dim=1)
    return float(products.var()), float((products / 8).var())


def slopes() -> Measured:
    query, key = torch.randn(200, 1, 512), torch.randn(200, 10, 512)
    scores = (key @ query.transpose(1, 2)).squeeze(2)
    norms = []
    for scaled in (scores, scores / 512**0.5):
        weights = scaled.softmax(dim=1)
        jacobian = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None, :]
        norms.append(float(jacobian.flatten(1).norm(dim=1).mean()))
    return (norms[0] / norms[1],)


def attended(queries: int, keys: int, key_width: int, value_width: int) -> Measured:
    output, weights = attend(
        torch.randn(2, queries, key_width), torch.randn(2, keys, key_width), torch.randn(2, keys, value_width)
    )
    return shape_of(output), shape_of(weights)


@torch.no_grad()
def attention_twins() -> Measured:
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
    ours = MultiHeadAttention.copy_of(theirs)
    tokens, memory = torch.randn(4, 10, WIDTH), torch.randn(4, 12, WIDTH)
    apart = []
    for read in (tokens, memory):
        expected = theirs(tokens, read, read, average_attn_weights=False)
        apart += [difference(*pair) for pair in zip(ours(tokens, read), expected, strict=True)]
    return tuple(apart)


@torch.no_grad()
def layer_twins() -> Measured:
    tokens, apart = torch.randn(4, 10, WIDTH).double(), []
    for norm_first in (False, True):
        theirs = nn.TransformerEncoderLayer(
            WIDTH, HEADS, INNER, dropout=0.0, batch_first=True, norm_first=norm_first
        )
        ours = EncoderLayer.copy_of(theirs).double()
        apart.append(difference(ours(tokens), theirs.double()(tokens)))
    return tuple(apart)


def multihead_shapes(batch: int, length: int, width: int, heads: int) -> Measured:
    output, weights = MultiHeadAttention(width, heads)(torch.randn(batch, length, width))
    return shape_of(output), shape_of(weights)


def doubled_length(compute) -> float:
    """By how much the multiplications grow when the tokens double; `compute` gets N."""
    one, two = (count_multiplications(partial(compute, n)) for n in (10, 20))
    return two / one


def costs() -> Measured:
    mlp, attention = FeedForward(WIDTH, INNER), MultiHeadAttention(WIDTH, HEADS)

    def mix(length: int):
        return attend(*torch.randn(3, 1, length, WIDTH))

    return (
        doubled_length(mix),
        doubled_length(lambda n: mlp(torch.randn(1, n, WIDTH))),
        doubled_length(lambda n: attention(torch.randn(1, n, WIDTH))),
    )


def connected() -> Measured:
    dense, layer = nn.Linear(10 * 64, 10 * 64, bias=False), EncoderLayer(64, 4, 128)
    return (
        count_parameters(layer) / count_parameters(dense),
        count_multiplications(lambda: layer(torch.randn(1, 10, 64)))
        / count_multiplications(lambda: dense(torch.randn(1, 10 * 64))),
    )


def sinusoids() -> Measured:
    table = build_sinusoids(1000, 512)
    apart = torch.cdist(table, table) + 100 * torch.eye(1000)
    return float(table.abs().max()), float(apart.min())


def looked_up() -> Measured:
    table = nn.Embedding(1000, 300)
    words = torch.tensor([[10, 2, 45, 700, 3], [200, 34, 5, 0, 999]])
    product = nn.functional.one_hot(words, 1000).float() @ table.weight
    return shape_of(table(words)), difference(table(words).detach(), product.detach())


def merges() -> Measured:
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = Whitespace()  # type: ignore[assignment]
    tokenizer.train_from_iterator([SENTENCE], BpeTrainer(vocab_size=100, show_progress=False))
    found = json.loads(tokenizer.to_str())["model"]["merges"]
    return tuple("".join(pair) for pair in found[:2])


def vanished() -> Measured:
    rows = list(gradients.run(SMALL, 0))
    left = []
    for model in (*gradients.RECURRENT, gradients.ATTENTION):
        norms = {row["distance"]: row["gradient_norm"] for row in rows if row["model"] == model}
        left.append(norms[199] / norms[1])
    return tuple(left)


@torch.no_grad()
def sub_layers() -> Measured:
    output = EncoderLayer(WIDTH, HEADS, INNER)(torch.randn(4, 10, WIDTH))
    return float(output.mean(dim=-1).abs().max()), statistics.fmean(
        output.var(dim=-1, correction=0).flatten().tolist()
    )


CLAIMS = (
    Claim(
        "Softmax(X Xᵀ) X: weights are not negative, and rows sum to 1.",
        "≥0.000 1.000 1.000",
        plain,
        "By the definition of softmax.",
        where="1.2",
        kind=STATED,
    ),
    Claim(
        "The product of query and key, vectors of 64 numbers of variance 1, has variance 64; scaled "
        "it has 1.",
        "64 1.00",
        variances,
        "Measured on 200,000 pairs; their own error is a third of a per cent.",
        where="1.5",
        kind=STATED,
    ),
    Claim(
        "Without scaling softmax's slopes become small: their mean norm over that with scaling, Dk 512.",
        "<0.50",
        slopes,
        "A saturated softmax hardly moves.",
        where="1.5",
        kind=STATED,
    ),
    Claim(
        "Scaled dot-product attention: shapes for 5 queries of 64, 7 keys and values of 128.",
        "2×5×128 2×5×7",
        lambda: attended(5, 7, 64, 128),
        "As printed.",
        where="1.5",
    ),
    Claim(
        "Exercise 1: shapes for 10 queries of 32 and 12 values of 64.",
        "2×10×64 2×10×12",
        lambda: attended(10, 12, 32, 64),
        "The exercise leaves the answer open.",
        kind=OURS,
    ),
    Claim(
        "Multi-head attention: shapes for 4 sequences of 10 tokens, width 256, 8 heads.",
        "4×10×256 4×8×10×10",
        lambda: multihead_shapes(4, 10, WIDTH, HEADS),
        "As printed.",
        where="1.6",
    ),
    Claim(
        "Written from scratch it is nn.MultiheadAttention: outputs and maps, self, then cross (10 on 12).",
        "<1e-6 <1e-6 <1e-6 <1e-6",
        attention_twins,
        "With the weights copied across.",
        kind=OURS,
    ),
    Claim(
        "average_attn_weights is an argument of the constructor (and of forward).",
        "True True",
        lambda: tuple(
            str("average_attn_weights" in inspect.signature(function).parameters)
            for function in (nn.MultiheadAttention, nn.MultiheadAttention.forward)
        ),
        "Of forward only: the document's commented code would fail.",
        where="1.6",
        kind=STATED,
    ),
    Claim(
        "Exercise 2: output of width 512 with 8 heads, for 16 sequences of 20, and a head's width.",
        "16×20×512 64",
        lambda: (multihead_shapes(16, 20, 512, 8)[0], 512 // 8),  # type: ignore[index]
        "The exercise leaves the answer open.",
        kind=OURS,
    ),
    Claim(
        "An encoder layer from scratch is nn.TransformerEncoderLayer: post-norm, then pre-norm.",
        "<1e-6 <1e-6",
        layer_twins,
        "With the weights copied across, in double precision: float32 rounds sums in another order "
        "by as much.",
        kind=OURS,
    ),
    Claim(
        "Exercise 3: attention and feed-forward, each followed by residual and normalisation: mean "
        "0, variance 1.",
        "<0.001 1.000",
        sub_layers,
        "What leaves a post-norm layer is normalised.",
        kind=OURS,
    ),
    Claim(
        "With twice the tokens the attention part costs 4 times, N²D, and the MLP twice, ND²; and "
        "all of attention.",
        "4.00 2.00 4.00",
        costs,
        "N²D are scores and mixing alone; the four maps are 4ND², most of the cost until N > 2D "
        "(here 10 and 256).",
        where="1.8",
        kind=STATED,
    ),
    Claim(
        "A Transformer's layer costs less than a fully connected one: for 10 tokens of 64 its parameters and "
        "multiplications over the other's N²D².",
        "<1.00 <1.00",
        connected,
        "Its parameters are some 8D² here (F = 2D), whatever N is; its multiplications 8ND² + 2N²D.",
        where="1.8",
        kind=STATED,
    ),
    Claim(
        "The index i of the sinusoids runs from 0 to 511 at width 512.",
        "511",
        lambda: (build_sinusoids(1, 512).shape[1] // 2 - 1,),
        "Each i makes a sine and a cosine: it runs to D/2 − 1.",
        where="1.9",
        kind=STATED,
    ),
    Claim(
        "Sinusoids are bounded and tell places apart: largest number, smallest distance of 1,000 places.",
        "≤1.000 >0.000",
        sinusoids,
        "Neighbours are the closest.",
        where="1.9",
        kind=STATED,
    ),
    Claim(
        "Exercise 4: without positions shuffled tokens give shuffled outputs, and with them they do not.",
        "True False",
        lambda: tuple(
            str(torch.allclose(*shuffle(with_positions, 10, [*range(9, -1, -1)]), atol=1e-5))
            for with_positions in (False, True)
        ),
        "“Man bites dog” would be “dog bites man”.",
        where="1.9",
        kind=STATED,
    ),
    Claim(
        "Looking words up, 2 sequences of 5: shape, and the difference from a one-hot product.",
        "2×5×300 <1e-6",
        looked_up,
        "A one-hot product picks a row.",
        where="2.1",
    ),
    Claim(
        "Exercise 5: 4 sequences of 15 words in vectors of 100.",
        "4×15×100",
        lambda: (shape_of(nn.Embedding(5000, 100)(torch.zeros(4, 15, dtype=torch.long))),),
        "The exercise leaves the answer open.",
        kind=OURS,
    ),
    Claim(
        "Byte pair encoding merges “pe” first, then “ck”.",
        "pe ck",
        merges,
        f"In “{SENTENCE}”, by the tokenizers library; the text names only the merges.",
        where="2.2",
    ),
    Claim(
        "Gradients vanish in an RNN, less in LSTM and GRU: at distance 199 over that at 1; "
        "attention's stays.",
        "<0.001 ≥0.001 ≥0.001 0.30–3.00",
        vanished,
        "Untrained, gates stand at one half and forget as fast: only a large forget bias makes an "
        "LSTM remember.",
        where="2.5",
        kind=STATED,
    ),
)
