"""Document `chapter-8`: its worked examples, from similarity to the tasks' losses."""

import statistics

import numpy
import torch
from torch import nn

from hf_attn.architectures.registry import drawing_weights
from hf_attn.models.attention import scaled_dot_product_attention
from hf_attn.models.configuration_attn_encoder import AttnEncoderConfig
from hf_attn.models.modeling_attn_encoder import AttnEncoderModel
from hf_attn.textbooks.claims import OURS, STATED, Claim, Measured, difference, flat
from hf_attn.textbooks.reference_attention import LayerNorm

# "time flies like an arrow"
ARROW = ((0.2, 0.8, 0.3), (0.7, 0.2, 0.9), (0.3, 0.5, 0.2), (0.1, 0.3, 0.4), (0.8, 0.1, 0.6))
# scores of "I love deep learning"
SCORES = ((0.9, 0.7, 0.3, 0.2), (0.6, 0.8, 0.9, 0.4), (0.2, 0.5, 0.7, 0.9), (0.4, 0.3, 0.8, 0.6))
# embeddings of the same four words
EMBEDDINGS = ((0.2, 0.3, 0.1, 0.4), (0.5, 0.2, 0.8, 0.1), (0.3, 0.7, 0.2, 0.5), (0.6, 0.4, 0.3, 0.2))
# the worked examples of the three losses: what the model says, [B, T, V], and the right symbols, [B, T]
COPY = (
    (
        ((0.9, 0.1, 0.0, 0.0, 0.0), (0.1, 0.8, 0.1, 0.0, 0.0), (0.0, 0.1, 0.9, 0.0, 0.0)),
        ((0.8, 0.2, 0.0, 0.0, 0.0), (0.1, 0.7, 0.2, 0.0, 0.0), (0.1, 0.1, 0.8, 0.0, 0.0)),
    ),
    ((0, 1, 2), (0, 1, 2)),
)
ADDITION = (
    (((0.1, 0.8, 0.1, *[0.0] * 7), (0.1, 0.1, 0.7, 0.1, *[0.0] * 6), (0.8, 0.1, 0.1, *[0.0] * 7)),),
    ((1, 2, 0),),
)
PARSER = (
    (
        (
            (0.1, 0.7, 0.1, 0.1, 0.0),
            (0.8, 0.1, 0.0, 0.1, 0.0),
            (0.1, 0.0, 0.1, 0.7, 0.1),
            (0.0, 0.1, 0.8, 0.0, 0.1),
        ),
        (
            (0.1, 0.8, 0.0, 0.1, 0.0),
            (0.7, 0.1, 0.1, 0.0, 0.1),
            (0.1, 0.0, 0.1, 0.1, 0.7),
            (0.0, 0.0, 0.9, 0.1, 0.0),
        ),
    ),
    ((1, 0, 3, 2), (1, 0, 4, 2)),
)
FIRST_DIGIT = 14  # id of 0 in the three expressions that are printed with ids: 7 has 21, 3 has 17, 1 has 15


def similarity() -> torch.Tensor:
    vectors = torch.tensor(ARROW, dtype=torch.float64)
    return vectors @ vectors.T


def contextual() -> torch.Tensor:
    return similarity().softmax(dim=1) @ torch.tensor(ARROW, dtype=torch.float64)


def transposed() -> Measured:
    query, key = torch.randn(2, 5, 4)
    one, other = query @ key.T, key @ query.T
    return str(torch.allclose(one, other)), str(torch.allclose(one, other.T))


def masked(may_attend: torch.Tensor) -> torch.Tensor:
    """Weights of the printed scores under a mask, [4, 4]: queries are the scores, keys the unit vectors."""
    scores, unit = torch.tensor(SCORES), torch.eye(4)
    return scaled_dot_product_attention(
        scores[None, None], unit[None, None], unit[None, None], may_attend.expand(1, 1, 4, 4), scaling=1.0
    )[1][0, 0]


def added_mask() -> Measured:
    allowed = torch.ones(4, 4).tril().bool()
    total = torch.tensor(SCORES) + torch.where(allowed, 1.0, -torch.inf)
    return flat(total[0, :1], total[1, :2])


def normalisation_demo() -> Measured:
    generator = numpy.random.RandomState(42)
    generator.randn(2, 5, 6)
    return flat(1 + 0.1 * generator.randn(6), 0.1 * generator.randn(6))


def document_norm(tokens: torch.Tensor, eps: float) -> torch.Tensor:
    """(x − μ) / (σ + ε): the document's normalisation, with γ = 1 and β = 0."""
    centred = tokens - tokens.mean(dim=-1, keepdim=True)
    return centred / (centred.square().mean(dim=-1, keepdim=True).sqrt() + eps)


def small_tokens() -> Measured:
    tokens = 1e-3 * torch.eye(6)[:1]
    return (difference(nn.functional.layer_norm(tokens, (6,), eps=1e-5), document_norm(tokens, 1e-5)),)


def constant_token() -> Measured:
    outputs, finite = [], []
    norm = LayerNorm(6)
    for normalise in (lambda tokens: document_norm(tokens, norm.eps), norm):
        token = torch.ones(1, 6, requires_grad=True)
        output = normalise(token)
        output.sum().backward()
        outputs.append(output.detach())
        finite.append(str(bool(token.grad.isfinite().all())))  # type: ignore[union-attr]
    return (difference(*outputs), *finite)


def gradient_norms(norm_position: str, num_layers: int, seed: int) -> list[float]:
    """The gradient's norm at each layer's last matrix, at initialisation, for a random direction."""
    config = AttnEncoderConfig(
        vocab_size=4,
        hidden_size=64,
        num_hidden_layers=num_layers,
        num_attention_heads=4,
        intermediate_size=256,
        norm_position=norm_position,
        zero_init_residual=False,
        dropout=0.0,
    )
    with drawing_weights(seed):
        model = AttnEncoderModel(config)
        tokens, direction = torch.randn(2, 8, 16, 64).unbind()
    output = model(inputs_embeds=tokens).last_hidden_state
    (output * direction).sum().backward()
    weights = (layer.get_parameter("feed_forward.down_proj.weight") for layer in model.layers)
    return [float(weight.grad.norm()) for weight in weights]  # type: ignore[union-attr]


def norms_by_layer() -> Measured:
    """Of the first, third and last of six layers: post-norm, then pre-norm."""
    return tuple(
        statistics.fmean(gradient_norms(position, 6, seed)[layer] for seed in range(3))
        for position in ("post", "pre")
        for layer in (0, 2, 5)
    )


@torch.no_grad()
def norms_of_padded() -> Measured:
    """How far a row's normalised tokens move when padding and another row come into its batch."""
    row, other = torch.randn(1, 4, 6), 3 + torch.randn(1, 8, 6)
    batch = torch.cat((nn.functional.pad(row, (0, 0, 0, 4)), other))
    by_layer, by_batch = nn.LayerNorm(6), nn.BatchNorm1d(6)
    norms = (by_layer, lambda tokens: by_batch(tokens.flatten(0, 1)).view_as(tokens))
    return tuple(difference(norm(row)[0], norm(batch)[0, :4]) for norm in norms)


def deepening() -> Measured:
    means = {
        (position, layers): statistics.fmean(gradient_norms(position, layers, seed)[-1] for seed in range(3))
        for position in ("post", "pre")
        for layers in (6, 24)
    }
    return means["post", 24] / means["post", 6], means["pre", 24] / means["pre", 6]


def document_loss(outputs: torch.Tensor, target: torch.Tensor) -> float:
    """−Σ log(softmax(outputs) + 1e-10) / B, as the three tasks' code has it."""
    right = outputs.softmax(dim=-1).gather(2, target.unsqueeze(2))
    return float(-(right + 1e-10).log().sum() / len(target))


def losses() -> list[tuple[float, float, float]]:
    """Copy, addition and parser: the code's loss, −Σ log p / B, and cross-entropy averaged over labels."""
    found = []
    for example in (COPY, ADDITION, PARSER):
        outputs, labels = (torch.tensor(part) for part in example)
        log_p = outputs.log()
        summed = nn.functional.nll_loss(log_p.flatten(0, 1), labels.flatten(), reduction="sum")
        averaged = nn.functional.nll_loss(log_p.flatten(0, 1), labels.flatten())
        found.append((document_loss(outputs, labels), float(summed) / len(labels), float(averaged)))
    return found


def softmax_of_log_softmax() -> Measured:
    logits, target = torch.randn(4, 3, 20), torch.randint(20, (4, 3))
    return (abs(document_loss(logits.log_softmax(dim=-1), target) - document_loss(logits, target)),)


CLAIMS = (
    Claim(
        "BLEU of recurrent models falls markedly beyond 50 words.",
        "50",
        None,
        "No model, no data and no score are given.",
        where="the RNN's limits",
        kind=STATED,
    ),
    Claim(
        "Similarity of the words of “time flies like an arrow”.",
        "0.77 0.57 0.52 0.38 0.42 0.57 1.34 0.49 0.49 1.12 0.52 0.49 0.38 0.26 0.41 0.38 0.49 0.26 0.26 0.35 "
        "0.42 1.12 0.41 0.35 1.01",
        lambda: flat(similarity()),
        "The vectors are printed.",
        where="basic attention",
    ),
    Claim(
        "Its softmax.",
        "0.25130196 0.20574865 0.19571417 0.17014572 0.1770895 0.14838442 0.32047566 0.13697608 0.13697608 "
        "0.25718775 0.22189237 0.21533446 0.19290396 0.17109046 0.19877876 0.20573742 0.22966017 0.18247272 "
        "0.18247272 0.19965696 0.14836389 0.29876818 0.14688764 0.13833357 0.26764673",
        lambda: flat(similarity().softmax(dim=1)),
        "The vectors are printed.",
        where="basic attention",
    ),
    Claim(
        "Its contextual vectors.",
        "0.41168487 0.40880105 0.47401919 0.51455048 0.31810231 0.56944172 0.42911583 0.38823778 0.48665295 "
        "0.43462426 0.37646585 0.49769319 0.51082753 0.32015331 0.55869952",
        lambda: flat(contextual()),
        "The vectors are printed.",
        where="basic attention",
    ),
    Claim(
        "Q Kᵀ and K Qᵀ are the same similarity matrix (and: the second is the first's transpose).",
        "True True",
        transposed,
        "They are transposes of each other: queries and keys change places.",
        where="Q, K and V",
        kind=STATED,
    ),
    Claim(
        "Causal weights of “I love deep learning”.",
        "1.00 0.00 0.00 0.00 0.45 0.55 0.00 0.00 0.25 0.34 0.41 0.00 0.22 0.20 0.32 0.26",
        lambda: flat(masked(torch.ones(4, 4).tril().bool())),
        "Softmax forgives that the printed mask adds 1 to every allowed score.",
        where="causal mask",
    ),
    Claim(
        "The mask is added to the scores: what “I” and “love” have then.",
        "1.9 1.6 1.8",
        added_mask,
        "The printed mask holds 1 where a mask that is added must hold 0: .90, .60 and .80 should stay.",
        where="causal mask",
    ),
    Claim(
        "Weights of the padding demonstration.",
        "0.35 0.29 0.19 0.17 0.23 0.28 0.31 0.19 0.17 0.22 0.27 0.33 0.22 0.20 0.32 0.26",
        lambda: flat(masked(torch.ones(4, dtype=torch.bool))),
        "Its mask pads the second sentence, and the first one's weights are shown: nothing is hidden.",
        where="padding mask",
    ),
    Claim(
        "The first sentence's last token is padding, and its weights are 0.",
        "0.00 0.00 0.00 0.00",
        lambda: flat(masked(torch.ones(4, dtype=torch.bool))[:, 3]),
        "By the printed mask the first sentence has no padding.",
        where="padding mask",
        kind=STATED,
    ),
    Claim(
        "Layer normalisation's demonstration: scale and shift.",
        "0.95208258 0.9814341 0.8893665 0.88037934 1.08125258 1.135624 "
        "-0.00720101 0.10035329 0.0361636 -0.06451198 0.03613956 0.15380366",
        normalisation_demo,
        "numpy's seed 42, drawn after a batch of (2, 5, 6).",
        where="layer normalization",
    ),
    Claim(
        "Dividing by σ + ε is what torch does: how far 1e-3 · (1, 0, 0, 0, 0, 0) comes out apart.",
        "<0.001",
        small_tokens,
        "torch divides by √(σ² + ε), which holds small tokens down: .26 instead of 2.18 for the "
        "first number.",
        kind=OURS,
    ),
    Claim(
        "Of a constant token both give the same, and both have a gradient.",
        "<1e-6 True True",
        constant_token,
        "σ is a root, whose slope at 0 is infinite: with ε outside the root the gradient is NaN.",
        kind=OURS,
    ),
    Claim(
        "Pre-norm keeps deep stacks stable: last layer's gradient at 24 layers over that at 6, post- "
        "and pre-norm.",
        ">0.90 <0.60",
        deepening,
        "At initialisation pre-norm's falls as 1/√L and post-norm's stays (Xiong et al. 2020): "
        "bounds allow for noise.",
        where="layer normalization",
        kind=STATED,
    ),
    Claim(
        "Gradient norms of the first, third and last of six layers: post-norm, then pre-norm.",
        "672 617 560 576 423 295",
        norms_by_layer,
        "The same models, means of three seeds.",
        kind=OURS,
    ),
    Claim(
        "Layer normalisation is of each sample alone, batch normalisation over the batch: how far tokens "
        "move when padding and another row come in.",
        "<1e-6 >0.1",
        norms_of_padded,
        "Zeros of padding and the other row are in the batch's mean and variance.",
        where="layer normalization",
        kind=STATED,
    ),
    Claim(
        "The first ten numbers of an embedding.",
        "-0.7838 -0.9194 0.4240 -0.8408 -0.0876 2.0239 1.3892 -0.4484 -0.6902 1.1443",
        None,
        "No seed is given.",
        where="embedding layer",
    ),
    Claim(
        "The worked losses of addition and parser, by the code printed above them.",
        "0.803 1.101",
        lambda: tuple(code for code, _, _ in losses()[1:]),
        "The worked outputs are probabilities, and the code takes the softmax of them once more.",
        where="the three tasks' losses",
    ),
    Claim(
        "The same by their arithmetic, −Σ log p / batch.",
        "0.803 1.101",
        lambda: tuple(summed for _, summed, _ in losses()[1:]),
        "Probabilities meet the logarithm without another softmax.",
        where="the three tasks' losses",
    ),
    Claim(
        "The copy task's worked loss is the average of the cross-entropy: the one over the other.",
        "1.0",
        lambda: (losses()[0][1] / losses()[0][2],),
        "The sum over three places is divided by the batch alone.",
        where="the copy task's loss",
        kind=STATED,
    ),
    Claim(
        "Softmax of the model's log-softmax does not change the loss.",
        "<0.001",
        softmax_of_log_softmax,
        "Softmax takes back what log-softmax subtracts.",
        kind=OURS,
    ),
    Claim(
        "The parser's ids of 4 and 9.",
        "17 22",
        lambda: (FIRST_DIGIT + 4, FIRST_DIGIT + 9),
        "Two dictionaries are in use: in the other printout ids begin one higher, whence 2 3 for 1 2 "
        "in its test.",
        where="parser task",
    ),
    Claim(
        "Training logs of addition and parser: loss and accuracy of the first epoch.",
        "6.1352 0.0073 6.3280 0.2309",
        None,
        "No seed is given, and accuracy is that of training batches.",
        where="addition and parser tasks",
    ),
)
