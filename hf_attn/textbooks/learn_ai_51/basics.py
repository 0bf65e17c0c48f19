"""`learn_ai_51_attention_mechanisms`: scores, self-attention, positions, and the exercises on them."""

import torch
from torch import nn

from hf_attn.analysis.ablation import Trial, measure_outcomes
from hf_attn.interpret.interventions import Intervention
from hf_attn.models.configuration_recurrent import RecurrentConfig
from hf_attn.models.modeling_recurrent import RecurrentForConditionalGeneration
from hf_attn.models.position_base import build_sinusoids
from hf_attn.models.score_functions import (
    SCORE_FUNCTIONS,
    AdditiveScore,
    ConcatScore,
    GeneralScore,
    read_memory,
)
from hf_attn.textbooks.chapter_1 import heads
from hf_attn.textbooks.chapter_1.heads import weight_on
from hf_attn.textbooks.chapter_8.heads import open_bundled
from hf_attn.textbooks.claims import (
    OURS,
    STATED,
    Claim,
    Measured,
    count_parameters,
    flat,
    shape_of,
)
from hf_attn.textbooks.reference_attention import MultiHeadAttention, SelfAttention, attend
from hf_attn.utils.model_lock import building_model

STATE, COMPARED = 128, 64  # widths of the states, and of the network that compares them
TIRED = ("The", "cat", "sat", "on", "the", "mat", "because", "it", "was", "tired")
SWAPPED = [0, 3, 2, 1]  # the document's shuffle, which undoes itself


def build_scores() -> list[nn.Module]:
    """Luong's three: dot, general, concat."""
    built = (SCORE_FUNCTIONS["dot"], GeneralScore, ConcatScore)
    return [score(STATE, STATE, STATE) for score in built]  # type: ignore[misc]


@torch.no_grad()
def attention_decoder() -> Measured:
    """Shapes of the product's own decoder with additive attention after one token: logits and weights."""
    config = RecurrentConfig(vocab_size=800, hidden_size=128, score_function="additive")
    with building_model():
        model = RecurrentForConditionalGeneration(config)
    sources, first = torch.randint(4, 800, (2, 10)), torch.randint(4, 800, (2, 1))
    outputs = model(input_ids=sources, decoder_input_ids=first, output_attentions=True)
    return shape_of(outputs.logits[:, 0]), shape_of(outputs.cross_attentions[-1][:, 0, 0])


def unmoved() -> Measured:
    """Of held-out answers that were right, the share that stays right where attention's weights are permuted.

    bahdanau-reverse, attn-copy and the classifier attn-docstring-topics.
    """
    shares = []
    for name, kind in (
        ("bahdanau-reverse", "cross"),
        ("attn-copy", "cross"),
        ("attn-docstring-topics", "encoder"),
    ):
        checkpoint = open_bundled(name)
        permuted = Trial((Intervention("permute", kind),))
        *_, outcome = measure_outcomes(checkpoint.model, checkpoint.task_named(), [permuted])
        shares.append(outcome.exact_match / (outcome.exact_match + outcome.drop))
    return tuple(shares)


def bahdanau() -> Measured:
    score = AdditiveScore(STATE, STATE, COMPARED)
    state, memory = torch.randn(4, 1, STATE), torch.randn(4, 20, STATE)
    with torch.no_grad():
        context, weights = read_memory(score, state, score.project(memory), memory)
    sums = weights.sum(dim=-1)
    return shape_of(context[:, 0]), shape_of(weights[:, 0]), float(sums.min()), float(sums.max())


@torch.no_grad()
def shuffle(with_positions: bool, length: int, order: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Self-attention's outputs, and those of the shuffled sequence put back, [T, 16] each."""
    layer, tokens = SelfAttention(16, 16, 16, bias=True), torch.randn(length, 16)
    positions = build_sinusoids(length, 16) if with_positions else torch.zeros(length, 16)
    straight, _ = layer(tokens + positions)
    shuffled, _ = layer(tokens[order] + positions)
    return straight, shuffled[torch.tensor(order).argsort()]


def broken_symmetry() -> Measured:
    order = torch.randperm(10, generator=torch.Generator().manual_seed(0)).tolist()
    return tuple(float(torch.dist(*shuffle(with_positions, 10, order))) for with_positions in (False, True))


@torch.no_grad()
def order_of_words() -> Measured:
    layer, sentence = SelfAttention(16, 16, 16), torch.randn(3, 16)
    one, other = layer(sentence)[0], layer(sentence.flip(0))[0]
    pooled = torch.allclose(one.mean(dim=0), other.mean(dim=0), atol=1e-6)
    return str(torch.allclose(one, other, atol=1e-6)), str(pooled)


def similarity() -> torch.Tensor:
    """Cosine of each of 50 positions with position 0, width 32; [50]."""
    positions = build_sinusoids(50, 32)
    return nn.functional.cosine_similarity(positions[:1], positions)


def head_sizes() -> Measured:
    four = nn.ModuleList(SelfAttention(64, 16, 16, bias=True) for _ in range(4))
    return (
        count_parameters(SelfAttention(64, 64, 64, bias=True)),
        count_parameters(four),
        count_parameters(MultiHeadAttention(64, 4)),
    )


@torch.no_grad()
def agreeing_heads() -> Measured:
    _, weights = MultiHeadAttention(64, 4)(torch.randn(2, 10, 64))
    keys = weights.argmax(dim=-1)  # [B, H, T]
    return (float((keys == keys[:, :1]).all(dim=1).float().mean()),)


@torch.no_grad()
def simple_attention() -> Measured:
    tokens = torch.randn(1, 5, 32)
    output, weights = SelfAttention(32, 32, 32, bias=True)(tokens)
    sums = weights.sum(dim=-1)
    return shape_of(output), shape_of(weights), float(sums.min()), float(sums.max())


def saturation() -> Measured:
    query, key = torch.randn(2, 1000, 10, 1024)
    _, scaled = attend(query, key, key)
    _, unscaled = attend(query * 1024**0.5, key, key)
    return tuple(float(weights.amax(dim=-1).mean()) for weights in (unscaled, scaled))


CLAIMS = (
    Claim(
        "Bahdanau's attention: shapes of context and weights, and rows that sum to 1.",
        "4×128 4×20 1.0 1.0",
        bahdanau,
        "By the definition of softmax.",
        where="Bahdanau attention",
    ),
    Claim(
        "Parameters of Bahdanau's score at widths 128, 128 and 64, and of Luong's three at 128.",
        "16,448 0 16,384 32,896",
        lambda: tuple(
            count_parameters(score) for score in (AdditiveScore(STATE, STATE, COMPARED), *build_scores())
        ),
        "The document's code prints the first three and the page does not show them.",
        kind=OURS,
    ),
    Claim(
        "Luong's dot, general and concat learn nothing, one matrix, and a matrix with a vector.",
        "0 1 2",
        lambda: tuple(len(list(score.parameters())) for score in build_scores()),
        "The document describes concat without building it.",
        where="Luong attention",
        kind=STATED,
    ),
    Claim(
        "The alignment of “How are you ?” with “Hoe gaat het”.",
        "0.85 0.05 0.08 0.02 0.03 0.82 0.10 0.05 0.05 0.15 0.75 0.05",
        None,
        "The document calls the numbers simulated: there is no model, and no data.",
        where="Attention as interpretability",
    ),
    Claim(
        "An RNN takes so many steps from “cat” to “it” in “The cat sat on the mat because it was tired”.",
        "5",
        lambda: (TIRED.index("it") - TIRED.index("cat"),),
        "Five words stand between, six steps lead there.",
        where="Self-attention",
    ),
    Claim(
        "On “cat” in “The cat … because it was tired”: the weight of “it”, and of “. the tired” behind it.",
        "≥0.50 ≥0.50",
        lambda: (weight_on(heads.TIRED, "it", "cat"), weight_on(heads.TIRED, "tired", "cat")),
        "Trained to go on with a text, it looks there from the later word: “it” comes before “tired”.",
        kind=OURS,
    ),
    Claim(
        "Self-attention: shapes for five tokens of 32, and the lowest and highest sum of a row.",
        "1×5×32 1×5×5 1.0 1.0",
        simple_attention,
        "By the definition of softmax.",
        where="Self-attention",
    ),
    Claim(
        "Without scaling nearly all weight falls on one token: mean highest of ten, without and with "
        "scaling.",
        "≥0.90 <0.50",
        saturation,
        "Standard normal vectors of width 1024; “nearly all” is read as .9 or more.",
        where="Self-attention",
        kind=STATED,
    ),
    Claim(
        "The decoder with attention: shapes of its prediction and of its weights.",
        "2×800 2×10",
        attention_decoder,
        "The project's own recurrent decoder; it has one vocabulary for both sides.",
        where="Plugging attention into seq2seq",
    ),
    Claim(
        "Weights can often be permuted without changing the output: the share of right answers that stays, "
        "reversing, copying, topics.",
        ">0.50 >0.50 >0.50",
        unmoved,
        "Jain & Wallace 2019 measured classifiers, which can do without; where one token is the answer the "
        "weights decide it.",
        where="Attention as interpretability",
        kind=STATED,
    ),
    Claim(
        "Self-attention without positions is equivariant: places 1 and 3 swapped and put back (atol 1e-6).",
        "True",
        lambda: (str(torch.allclose(*shuffle(False, 4, SWAPPED), atol=1e-6)),),
        "Every sum over the keys has the same terms.",
        where="Positional encoding",
        kind=STATED,
    ),
    Claim(
        "“dog bites man” and “man bites dog” have identical representations, and so has their mean.",
        "True True",
        order_of_words,
        "Each word keeps its vector at its new position: they are permuted, identical only when pooled.",
        where="Positional encoding",
        kind=STATED,
    ),
    Claim(
        "Position 1 is similar to position 0 and position 49 is not: cosines at width 32.",
        "≥0.900 <0.500",
        lambda: flat(similarity()[[1, 49]]),
        "“Similar” is read as .9 or more, “dissimilar” as less than .5.",
        where="Positional encoding",
        kind=STATED,
    ),
    Claim(
        "The farther a position, the less similar to position 0: so many of 49 steps in which cosine rises.",
        "0",
        lambda: (int((similarity().diff() > 0).sum()),),
        "The cosine falls and rises again, as a sum of cosines does: .525 at 15 and .654 at 20.",
        where="Positional encoding",
        kind=STATED,
    ),
    Claim(
        "Exercise 2: parameters of one head of 64, of four heads of 16, and of four with an output map.",
        "12,480 12,480 16,640",
        head_sizes,
        "Dividing the width costs nothing; the map behind the heads costs 64 · 65.",
        kind=OURS,
    ),
    Claim(
        "Exercise 2: the heads look at different places: the share of places at which all four agree.",
        "<0.50",
        agreeing_heads,
        "So they do before any training, as random maps; that they complement each other does not follow.",
        where="exercise 2",
        kind=STATED,
    ),
    Claim(
        "Exercise 3: L2 between outputs and unshuffled outputs, without positions and with.",
        "<1e-5 >1e-5",
        broken_symmetry,
        "Positions stay where they are while tokens move.",
        where="exercise 3",
        kind=STATED,
    ),
)
