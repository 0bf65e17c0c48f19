"""Document `chapter-1`: what its code prints, and its exercises."""

import math

import torch
from torch import nn

from hf_attn.analysis.head_metrics import normalised_entropy
from hf_attn.architectures.presets import build_preset
from hf_attn.models.attention import scaled_dot_product_attention
from hf_attn.models.modeling_attn_encoder import AttnEncoderForSequenceClassification
from hf_attn.models.position_base import build_inverse_frequencies
from hf_attn.models.positions import SinusoidalPositions
from hf_attn.textbooks.claims import (
    COUNTED_DRAWS,
    OURS,
    STATED,
    Chance,
    Claim,
    Measured,
    count_multiplications,
    count_parameters,
    flat,
)
from hf_attn.textbooks.reference_attention import MultiHeadAttention, SelfAttention
from hf_attn.utils.model_lock import building_model

WORDS = ("The", "cat", "sat", "on", "the", "mat")
HAND_QUERY = HAND_KEY = ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0))  # of the first exercise
HAND_VALUE = ((2.0, 0.0), (0.0, 2.0), (1.0, 1.0))
UNIFORM = 0.32  # of five words' weight, what falls on neighbours where every word gets a fifth


def demonstration() -> Chance:
    """How often a draw of the demonstration has no weight below .1234."""
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, COUNTED_DRAWS, 2, 4, 8, generator=generator)
    _, weights = scaled_dot_product_attention(query, key, key)
    return Chance(int((weights.flatten(1).amin(dim=1) >= 0.1234).sum()), COUNTED_DRAWS)


def draw_layer() -> tuple[torch.Tensor, SelfAttention]:
    """The sentence's vectors [6, 64] and the layer over them, with the printed seed: input first."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(42)
        vectors = torch.randn(len(WORDS), 64)
        return vectors, SelfAttention(64, 64, 64)


@torch.no_grad()
def heatmap() -> torch.Tensor:
    """The map over the sentence, [6, 6]."""
    vectors, layer = draw_layer()
    return layer(vectors)[1]


def strongest() -> Measured:
    weights, keys = heatmap().max(dim=1)
    return tuple(
        figure
        for weight, key in zip(weights.tolist(), keys.tolist(), strict=True)
        for figure in (WORDS[key], weight)
    )


@torch.no_grad()
def four_heads() -> torch.Tensor:
    """The four heads' maps over five words, with the printed seed, [4, 5, 5]."""
    torch.manual_seed(123)
    vectors = torch.randn(1, 5, 512)
    return MultiHeadAttention(512, 4)(vectors)[1][0]


def weight_at_distance(weights: torch.Tensor, near: int, far: int) -> torch.Tensor:
    """The share of each head's weight that falls on words from `near` to `far` places away, [H]."""
    places = torch.arange(weights.shape[-1])
    distances = (places[:, None] - places).abs()
    return (weights * ((distances >= near) & (distances <= far))).sum(dim=-1).mean(dim=-1)


def evenness() -> Measured:
    """Entropy as a share of the highest, ln 5: of the least even of heads 1 to 3, and of head 4."""
    shares = normalised_entropy(four_heads()).mean(dim=-1)
    return float(shares[:3].min()), float(shares[3])


def period(pair: int, width: int) -> float:
    """After how many places the sinusoid of a pair of dimensions repeats: 2π · 10000^(2i/D)."""
    return 2 * math.pi / float(build_inverse_frequencies(width, 10000.0).double()[pair])


def classifier_size() -> Measured:
    config = build_preset("chapter-1-classifier")
    with building_model():
        return (count_parameters(AttnEncoderForSequenceClassification(config)),)  # type: ignore[arg-type]


def compared_sizes() -> Measured:
    embedding, last = nn.Embedding(10_000, 256), nn.Linear(256, 2)
    shared = count_parameters(embedding) + count_parameters(last)
    parts = (nn.LSTM(256, 256), MultiHeadAttention(256, 8))
    return tuple(shared + count_parameters(part) for part in parts)


def by_hand() -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and outputs of the first exercise, [3, 3] and [3, 2]."""
    query, key, value = (torch.tensor(rows) for rows in (HAND_QUERY, HAND_KEY, HAND_VALUE))
    output, weights = scaled_dot_product_attention(query[None, None], key[None, None], value[None, None])
    return weights[0, 0], output[0, 0]


def future() -> Measured:
    states = torch.randn(1, 1, 5, 8)
    _, weights = scaled_dot_product_attention(states, states, states, torch.ones(1, 1, 5, 5).tril().bool())
    return float(weights.triu(diagonal=1).sum()), float(weights[0, 0, -1].sum())


def multiplications(length: int) -> int:
    """Count those of self-attention over a sequence, 64 wide."""
    layer = SelfAttention(64, 64, 64)
    return count_multiplications(lambda: layer(torch.randn(1, length, 64)))


def growth() -> tuple[float, float]:
    """What self-attention's multiplications c(n) = a n + b n² are made of: (a / d², b / d), counted."""
    one, two = (multiplications(length) / 64**3 for length in (64, 128))
    squared = (two - 2 * one) / 2  # c(2n) − 2 c(n) = 2 b n²
    return one - squared, squared


def against_lstm() -> Measured:
    linear, squared = growth()
    matrices = count_parameters(nn.LSTM(64, 64, bias=False)) / 64**2
    return ((matrices - linear) / squared,)


CLAIMS = (
    Claim(
        "An RNN of width 512 takes so many milliseconds for 32 sequences of 100.",
        "45.23",
        None,
        "The machine is not named.",
        where="1.1",
    ),
    Claim(
        "The attention demonstration's lowest and highest weight.",
        "0.1234 0.4567",
        demonstration,
        "No seed is given, and hardly any draw has 32 weights of .1234 or more: placeholders.",
        where="1.2",
    ),
    Claim(
        "A self-attention layer from 512 to 64 has so many parameters.",
        "98,304",
        lambda: (count_parameters(SelfAttention(512, 64, 64)),),
        "Three maps without bias.",
        where="1.2",
    ),
    Claim(
        "Whom each of “The cat sat on the mat” attends to most, and how much.",
        "cat 0.245 cat 0.198 cat 0.221 mat 0.203 mat 0.234 mat 0.187",
        strongest,
        "The printed map is not that of the printed seed, 42; and an untrained map means nothing either way.",
        where="1.2",
    ),
    Claim(
        "Multi-head attention of width 512 has so many parameters, as its code prints.",
        "1,048,576",
        lambda: (count_parameters(MultiHeadAttention(512, 8)),),
        "The code's four maps have biases, 4 · 512 more.",
        where="1.3",
    ),
    Claim(
        "Head 1 attends to adjacent words: more of its weight falls there than if it were spread evenly.",
        f">{UNIFORM}0",
        lambda: flat(weight_at_distance(four_heads(), 1, 1)[:1]),
        "The sentence is printed for untrained weights.",
        where="1.3",
        kind=STATED,
    ),
    Claim(
        "Head 2 attends to distant words: more of its weight falls on distances of 2 and more than "
        "other heads'.",
        "2",
        lambda: (int(weight_at_distance(four_heads(), 2, 4).argmax()) + 1,),
        "Untrained weights again: the number of the head that does is a coincidence.",
        where="1.3",
        kind=STATED,
    ),
    Claim(
        "Only Head 4 spreads evenly: entropy over ln 5 of the least even of Heads 1 to 3, and of Head 4.",
        "<0.900 ≥0.900",
        evenness,
        "All four are nearly even, as untrained heads are; “even” is read as .9 or more.",
        where="1.3",
        kind=STATED,
    ),
    Claim(
        "The period of dimension 0 of the sinusoids.",
        "6.28",
        lambda: (period(0, 512),),
        "2π.",
        where="exercise 3",
    ),
    Claim(
        "The longest period at width 512.",
        "62,832",
        lambda: (period(255, 512),),
        "Pairs are numbered 0 to 255, so that the exponent is 510/512 and never 1.",
        where="exercise 3",
    ),
    Claim(
        "The period of “dimension 256” at width 512.",
        "62,832",
        lambda: (period(128, 512),),
        "Dimension 256 belongs to pair 128, in the middle; 62,832 would be pair 256, which there is not.",
        where="exercise 3",
    ),
    Claim(
        "Parameters of a 10,000 × 512 embedding, and of the sinusoids added to it.",
        "5,120,000 0",
        lambda: (
            count_parameters(nn.Embedding(10_000, 512)),
            count_parameters(SinusoidalPositions(build_preset("chapter-1-classifier", hidden_size=512))),
        ),
        "The sinusoids are computed.",
        where="1.4",
    ),
    Claim(
        "The text classifier has so many parameters.",
        "3,150,338",
        classifier_size,
        "Its code, counted: embedding 2,560,000, attention 263,168, feed-forward 525,568, norms "
        "1,024, head 514.",
        where="1.5",
    ),
    Claim(
        "The untrained classifier's probabilities for its first five random texts.",
        "0.5234 0.5012 0.5456 0.5123 0.5389",
        None,
        "No seed is given for weights or texts, and dropout is on.",
        where="1.5",
    ),
    Claim(
        "Parameters of the LSTM classifier and of the attention classifier: the RNN has fewer.",
        "2,826,498 3,150,338",
        compared_sizes,
        "The LSTM has eight square matrices where attention has four: it is the larger.",
        where="1.5",
    ),
    Claim(
        "Milliseconds of RNN and attention, and the one over the other.",
        "12.34 8.76 1.41",
        None,
        "The machine is not named; the last row measures both in one run.",
        where="1.5",
    ),
    Claim(
        "Exercise 1: the three rows of weights.",
        "0.40 0.20 0.40 0.20 0.40 0.40 0.28 0.28 0.44",
        lambda: flat(by_hand()[0]),
        "The first two rows hold; e^.71, e^.71 and e^1.41 give the third another one.",
        where="exercise 1",
    ),
    Claim(
        "Exercise 1: the third row of weights, here to four digits.",
        "0.28 0.28 0.44",
        lambda: tuple(f"{weight:.4f}" for weight in flat(by_hand()[0][2])),
        "Its scores are 1, 1 and 2 over √2.",
        where="exercise 1",
    ),
    Claim(
        "Exercise 1: the outputs.",
        "1.2 0.8 0.8 1.2 1.0 1.0",
        lambda: flat(by_hand()[1]),
        "By symmetry the third is (1, 1) whatever its weights are.",
        where="exercise 1",
    ),
    Claim(
        "Exercise 2: multi-head attention of width 512 without biases.",
        "1,048,576",
        lambda: (count_parameters(MultiHeadAttention(512, 8, bias=False)),),
        "4 · 512².",
        where="exercise 2",
    ),
    Claim(
        "Exercise 4: with a causal mask no weight lies in the future, and rows sum to 1.",
        "0.000 1.000",
        future,
        "Forbidden scores become the lowest number before the softmax.",
        where="exercise 4",
        kind=STATED,
    ),
    Claim(
        "Self-attention multiplies 3nd² + 2n²d times: the two factors.",
        "3.0 2.0",
        growth,
        "Counted as the layer runs, at lengths 64 and 128 and width 64.",
        where="exercise 5",
    ),
    Claim(
        "The n²d term dominates from n = d on: at so many d it is as large as the other.",
        "1.0",
        lambda: (growth()[0] / growth()[1],),
        "2n²d passes 3nd² at n = 1.5 d: O(·) leaves the factors out.",
        where="exercise 5",
        kind=STATED,
    ),
    Claim(
        "Attention's O(n²d) and a plain RNN's O(nd²) are equal at n = d: the first's multiplications over "
        "the second's.",
        "1.0",
        lambda: (multiplications(64) / count_multiplications(lambda: nn.RNN(64, 64)(torch.randn(64, 64))),),
        "Three maps alone are 3nd², an RNN's step has 2d²: attention never multiplies less.",
        where="exercise 5",
        kind=STATED,
    ),
    Claim(
        "Against an LSTM, 8nd², they are equal at n of so many d.",
        "2.5",
        against_lstm,
        "Up to there attention multiplies less.",
        kind=OURS,
    ),
)
