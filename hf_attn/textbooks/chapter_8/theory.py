"""Document `chapter-8`: positions, and the views of attention as something else."""

import math

import torch

from hf_attn.analysis.head_metrics import kernel_matrix, normalised_entropy
from hf_attn.models.attention import scaled_dot_product_attention
from hf_attn.models.position_base import build_inverse_frequencies, build_sinusoids
from hf_attn.models.position_rotary import rotate
from hf_attn.textbooks.chapter_8.examples import EMBEDDINGS, similarity
from hf_attn.textbooks.chapter_8.positions import build_positions
from hf_attn.textbooks.claims import OURS, STATED, Claim, Measured, difference, flat

WIDTH = 512
PAIRS = (0, 128, 255)  # whose periods are printed


def frequencies() -> torch.Tensor:
    """The model's own ω_i of the printed pairs, [3]."""
    return build_inverse_frequencies(WIDTH, 10000.0).double()[list(PAIRS)]


def shifted_products() -> Measured:
    apart = []
    for width in (WIDTH, 32):
        table = build_sinusoids(108, width).double()
        apart.append(abs(float(table[2] @ table[7] - table[102] @ table[107])))
    return tuple(apart)


def one_rotation() -> Measured:
    table = build_sinusoids(100, 32)
    angles = 5 * build_inverse_frequencies(32, 10000.0)
    sine, cosine = table[:-5].unflatten(1, (-1, 2)).unbind(2)
    turned = (sine * angles.cos() + cosine * angles.sin(), cosine * angles.cos() - sine * angles.sin())
    return (difference(torch.stack(turned, dim=2).flatten(1), table[5:]),)


def rotary_scores() -> Measured:
    positions = build_positions("rotary")
    query, key = torch.randn(2, 1, 1, 8, 16)
    scores = []
    for start in (0, 100):
        turn = positions.rotation(torch.arange(start, start + 8).unsqueeze(0))
        scores.append(rotate(query, *turn) @ rotate(key, *turn).transpose(2, 3))
    return (difference(*scores),)


def ntk_frequencies() -> Measured:
    places = torch.arange(32).unsqueeze(0)
    trained, scaled = (build_positions(name).angles(places)[0, 1] for name in ("rotary", "rotary_ntk"))
    return flat((scaled / trained)[[0, -1]])


def phase_shift() -> Measured:
    positions = build_positions("complex")
    with torch.no_grad():
        real, imaginary = positions(torch.ones(1, 8, 16), torch.arange(8).unsqueeze(0)).chunk(2, dim=-1)
        waves = torch.complex(real, imaginary)
        turn = torch.polar(torch.ones(8), 3 * positions.omega)
    return (float((waves[:, 3:] - waves[:, :-3] * turn).abs().max()),)


def kernel() -> Measured:
    query, key = torch.randn(2, 1, 1, 6, 16)
    _, weights = scaled_dot_product_attention(query, key, key)
    values = kernel_matrix(query, key)
    return (difference(weights, values / values.sum(dim=-1, keepdim=True)),)


def bond() -> Measured:
    query, key = torch.randn(2, 12, 3, dtype=torch.float64)
    scores = query @ key.T
    return tuple(int(torch.linalg.matrix_rank(matrix)) for matrix in (scores, scores.softmax(dim=1)))


def entropy() -> Measured:
    return (float(normalised_entropy(similarity().softmax(dim=1))[1]),)


def gibbs() -> Measured:
    """Over 1,000 other distributions: how many have a higher entropy plus mean score than softmax's.

    H(a) + Σ a_j s_j is what softmax maximises (Jaynes 1957, doi:10.1103/physrev.106.620).
    """
    scores = similarity()[1]

    def free(weights: torch.Tensor) -> torch.Tensor:
        return (weights * (scores - weights.log())).sum(dim=-1)

    others = torch.rand(1000, 5, dtype=torch.float64) + 1e-6
    others = others / others.sum(dim=1, keepdim=True)
    return (int((free(others) > free(scores.softmax(dim=0))).sum()),)


def hopfield(radius: float) -> tuple[float, float]:
    """The continuous Hopfield equation from random states, 60 time constants on.

        τ dX/dt = −X + softmax(X W Xᵀ) X W,   V = ‖X − X*‖²

    Solved by Euler's steps of τ/20; W is symmetric, its largest eigenvalue `radius` and positive. X* is 0,
    which solves it for every W.

    Returns:
        (V at the start, V at the end or where it exceeds 1e6).
    """
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(8, 8, dtype=torch.float64, generator=generator)
    gram = drawn @ drawn.T
    connection = gram * (radius / torch.linalg.eigvalsh(gram)[-1])
    state = torch.randn(6, 8, dtype=torch.float64, generator=generator)
    start = float(state.square().sum())
    for _ in range(1200):
        weights = (state @ connection @ state.T).softmax(dim=1)
        state = state + 0.05 * (weights @ state @ connection - state)
        if state.square().sum() > 1e6:
            break
    return start, float(state.square().sum())


def hebbian() -> Measured:
    patterns = torch.randn(10, 4, dtype=torch.float64)
    correlation = patterns.T @ patterns / len(patterns)
    weights = torch.zeros(4, 4, dtype=torch.float64)
    for _ in range(2000):
        weights = weights + 0.05 * (correlation - 0.5 * weights)
    return (difference(weights, correlation / 0.5),)


def toeplitz() -> Measured:
    length = 64
    bias = torch.randn(2 * length - 1, dtype=torch.float64)  # b_(1−n) … b_(n−1)
    values = torch.randn(length, dtype=torch.float64)
    places = torch.arange(length)
    direct = bias[places[:, None] - places + length - 1] @ values
    circle = 2 * length
    # b_0 … b_(n−1), 0, b_(1−n) …
    around = torch.cat((bias[length - 1 :], bias.new_zeros(1), bias[: length - 1]))
    fast = torch.fft.irfft(torch.fft.rfft(around) * torch.fft.rfft(values, n=circle), n=circle)[:length]
    return (difference(fast, direct),)


def wirtinger() -> Measured:
    real, imaginary = (torch.tensor(part, requires_grad=True) for part in (1.0, 2.0))
    slopes = torch.autograd.grad(real.square() + imaginary.square(), (real, imaginary))
    return float(slopes[0]) / 2, -float(slopes[1]) / 2


def gradient_by_torch() -> Measured:
    z = torch.tensor(1 + 2j, requires_grad=True)
    (slope,) = torch.autograd.grad((z * z.conj()).real, z)
    return float(slope.real), float(slope.imag)


NO_LIMIT = "Named without a definition that could be computed: "
CLAIMS = (
    Claim(
        "Attention is a normalised asymmetric kernel exp(q·k/√d).",
        "<1e-5",
        kernel,
        "Softmax written out.",
        where="views of attention",
        kind=STATED,
    ),
    Claim(
        "Output = arg min over V of an energy E(Q, K, V).",
        "minimum",
        None,
        "E is a vector, which has no minimum, and each of its parts is linear in V, which has none either.",
        where="views of attention",
        kind=STATED,
    ),
    Claim(
        "The continuous Hopfield equation is asymptotically stable: V falls at spectral radius .31, "
        "1.33, 3.8.",
        "True True True",
        lambda: tuple(str(end < start) for start, end in map(hopfield, (0.31, 1.33, 3.8))),
        "A W that stretches by more than 1 outruns the decay: nothing is guaranteed.",
        where="views of attention",
        kind=STATED,
    ),
    Claim(
        "Softmax gives the weights of highest entropy: that of “flies”, as a share of ln 5.",
        "1.000",
        entropy,
        "Even weights have the highest entropy; softmax maximises entropy plus mean score.",
        where="views of attention",
        kind=STATED,
    ),
    Claim(
        "Softmax maximises entropy plus mean score: so many of 1,000 random distributions do better.",
        "0",
        gibbs,
        "The sentence above, mended.",
        kind=OURS,
    ),
    Claim(
        "The signal-to-noise ratio falls as e^(−0.2 l) with depth l, “ResNet-50 based”.",
        "0.2",
        None,
        f"{NO_LIMIT}signal and noise of a Transformer's layer, and ResNet-50 has no attention.",
        where="views of attention",
        kind=STATED,
    ),
    Claim(
        "As a matrix product operator attention has the bond dimension r: rank of Q Kᵀ and of A at r "
        "= 3, n = 12.",
        "3 3",
        bond,
        "It holds of the scores; their softmax has full rank.",
        where="views of attention",
        kind=STATED,
    ),
    Claim(
        "The Riemannian curvature of the attention manifold tells the model's limits.",
        "R_ijkl",
        None,
        f"{NO_LIMIT}no metric is given, and the formula's indices do not match.",
        where="views of attention",
        kind=STATED,
    ),
    Claim(
        "Attention reaches the greatest I(X; Y) = H(Y) − H(Y | X).",
        "maximum",
        None,
        f"{NO_LIMIT}no distribution of X is given, and where Y is a function of X, H(Y | X) is no freedom.",
        where="views of attention",
        kind=STATED,
    ),
    Claim(
        "Quantum attention.",
        "–",
        None,
        f"{NO_LIMIT}no state, no operator, no measurement.",
        where="views of attention",
        kind=STATED,
    ),
    Claim(
        "ΔW ∝ x xᵀ − βW settles, at ⟨x xᵀ⟩ / β.",
        "<1e-6",
        hebbian,
        "A linear equation with a decay: it converges for every β > 0 and small steps.",
        where="views of attention",
        kind=STATED,
    ),
    Claim(
        "Place indices added to the embeddings of four words.",
        "0.20 0.30 0.10 0.40 1.50 1.20 1.80 1.10 2.30 2.70 2.20 2.50 3.60 3.40 3.30 3.20",
        lambda: flat(torch.tensor(EMBEDDINGS) + torch.arange(4)[:, None]),
        "It fails because the index outgrows the word: at place 3 already nine tenths of the vector.",
        where="positions",
    ),
    Claim(
        "Places equally far apart have equal products: PE(2)·PE(7) and PE(102)·PE(107), widths 512 and 32.",
        "<0.001 <0.001",
        shifted_products,
        "Σ cos(5 ω_i) in both, 189.5967 and 11.7774.",
        where="sinusoids",
        kind=STATED,
    ),
    Claim(
        "A shift is a linear map: one rotation takes every PE(p) to PE(p + 5).",
        "<0.001",
        one_rotation,
        "Each pair turns by 5 ω_i.",
        where="sinusoids",
        kind=STATED,
    ),
    Claim(
        "10000^(2i/d) at i = 0, 128 and 255.",
        "1.0000000000 100.0000000000 9646.6161991120",
        lambda: flat(1 / frequencies()),
        "The model's own frequencies, which are float32: to a thousandth.",
        tolerance=1e-3,
        where="sinusoids",
    ),
    Claim(
        "These are the periods of the first, middle and last dimension.",
        "1.00 100.00 9646.62",
        lambda: flat(2 * math.pi / frequencies()),
        "A period is 2π times that: after 10000^(2i/d) places a wave has turned by 1, not by 2π.",
        where="sinusoids",
    ),
    Claim(
        "div_term's first, middle and last value.",
        "1.0000000000 0.0100000000 0.0001036633",
        lambda: flat(frequencies()),
        "The code's comment calls the last div_term[256], which there is not.",
        tolerance=1e-9,
        where="sinusoids",
    ),
    Claim(
        "NTK-aware scaling raises frequencies: fastest and slowest pair at four times the length, "
        "over before.",
        ">1.00 >1.00",
        ntk_frequencies,
        "It takes a larger base: the fastest stays and all others fall.",
        where="learned positions",
        kind=STATED,
    ),
    Claim(
        "Rotary scores know only the distance: both moved on by 100 places.",
        "<0.001",
        rotary_scores,
        "R(m)ᵀ R(n) = R(n − m).",
        where="relative positions",
        kind=STATED,
    ),
    Claim(
        "z(i + j) = z(i) e^(iωj) for complex positions.",
        "<1e-5",
        phase_shift,
        "Where the amplitude does not depend on the place and the phase is linear in it, as here.",
        where="complex positions",
        kind=STATED,
    ),
    Claim(
        "Accuracy on GLUE by kind of positions; milliseconds; gigabytes.",
        "88.2 89.7 87.9 90.1 90.3 12.3 14.5 13.8 15.2 17.1 2.1 2.4 3.2 2.8 3.5",
        None,
        "No model, no task of GLUE, no training, no machine and no seed are given; `hf-attn experiment "
        "positions` measures in its place.",
        where="comparison of positions",
    ),
    Claim(
        "A relative bias is a Toeplitz matrix, whose product needs O(n log n) by Fourier transforms.",
        "<1e-6",
        toeplitz,
        "The product alone: inside the softmax the bias meets n² scores, and attention stays O(n²).",
        where="comparison of positions",
        kind=STATED,
    ),
    Claim(
        "½(∂L/∂Re − i ∂L/∂Im) of |z|² at 1 + 2i is ∂L/∂z, the conjugate of z.",
        "1 -2",
        wirtinger,
        "By definition; |z|² is z times its conjugate.",
        where="comparison of positions",
        kind=STATED,
    ),
    Claim(
        "That is the gradient which flows: torch's for |z|² at 1 + 2i.",
        "1 -2",
        gradient_by_torch,
        "Steepest ascent is the conjugate, ∂L/∂z̄, and torch returns twice that.",
        where="comparison of positions",
        kind=STATED,
    ),
)
