"""Each way to tell places in words: a row for every name in POSITION_TYPES."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Way:
    """A way to tell places, in words.

    Attributes:
        title: its name.
        sentence: what it is.
        equation: as the paper has it.
        paper: where it comes from; empty for a control.
        settings: fields of the tab, beside length and width, that change it.
    """

    title: str
    sentence: str
    equation: str
    paper: str = ""
    settings: tuple[str, ...] = ()


_DNA = "“The Birth of Transformers”, Deep Learning DNA, chapter 8"
_VASWANI = "Vaswani et al. 2017, arXiv:1706.03762, §3.5"
_SHAW = "Shaw et al. 2018, arXiv:1803.02155"
_SU = "Su et al. 2021, arXiv:2104.09864"

WAYS: dict[str, Way] = {
    "none": Way("None", "Nothing is told: the control for all others.", "P(i) = 0"),
    "index": Way(
        "Index added",
        "The place's number is added to every coordinate; LayerNorm's subtracted mean takes it off again.",
        "P(i) = (i, i, …, i)",
        f"{_DNA}, to show why it fails",
    ),
    "sinusoidal": Way(
        "Sinusoidal",
        "Sines and cosines of falling frequency are added to the embedding; nothing is learned.",
        "PE(p, 2i) = sin(p / 10000^(2i/D)),  PE(p, 2i+1) = cos(p / 10000^(2i/D))",
        _VASWANI,
    ),
    "learned": Way(
        "Learned table",
        "A trained vector a place is added to the embedding; beyond the table there is none.",
        "P(i) = W_i",
        "Gehring et al. 2017, arXiv:1705.03122",
        ("trained", "seed"),
    ),
    "learned_interpolated": Way(
        "Learned, interpolated",
        "A trained table whose rows move closer together where a sequence is longer than it.",
        "P(i) = W_⌊x⌋ + (x − ⌊x⌋)(W_⌊x⌋₊₁ − W_⌊x⌋),  x = i / s",
        "after Chen et al. 2023, arXiv:2306.15595",
        ("trained", "seed"),
    ),
    "rotary": Way(
        "Rotary (RoPE)",
        "Queries and keys are turned by their place, so that their product knows only the distance.",
        "(R(m) q) · (R(n) k) = q · R(n − m) k,  θ_i = theta^(−2i/Dh)",
        _SU,
        ("heads", "theta"),
    ),
    "rotary_interpolated": Way(
        "Rotary, interpolated",
        "Where a sequence is longer than trained every pair turns more slowly, so that no angle is new.",
        "angle = (p / s) θ_i,  s = length / trained",
        "Chen et al. 2023, arXiv:2306.15595, §2.3",
        ("trained", "heads", "theta"),
    ),
    "rotary_ntk": Way(
        "Rotary, NTK-aware",
        "Where a sequence is longer than trained the base grows: slow pairs turn slower, fast ones hardly.",
        "theta' = theta · s^(Dh/(Dh − 2)),  s = length / trained",
        "described in Peng et al. 2023, arXiv:2309.00071, §3.1",
        ("trained", "heads", "theta"),
    ),
    "relative": Way(
        "Relative vectors",
        "A trained vector for each distance is added to the key and to the value.",
        "e_ij = q_i · (k_j + a^K_ij) / √Dh,  y_i = Σ_j α_ij (v_j + a^V_ij),  a_ij = w_clip(j − i)",
        _SHAW,
        ("heads", "clip", "seed"),
    ),
    "t5": Way(
        "T5 bias",
        "A trained number a head for each bucket of distances is added to the score; far buckets are wide.",
        "e_ij = q_i · k_j / √Dh + b_bucket(j − i)",
        "Raffel et al. 2020, arXiv:1910.10683, §2.1",
        ("heads", "seed"),
    ),
    "t5_clipped": Way(
        "Clipped bias",
        "A trained number a head for each distance; all distances beyond the clip share one.",
        "e_ij = (q_i · k_j + b_clip(j − i)) / √Dh",
        f"{_DNA}, a variant of T5's",
        ("heads", "clip", "seed"),
    ),
    "alibi": Way(
        "ALiBi",
        "A penalty that grows with the distance, steeper in some heads than in others; nothing is learned.",
        "e_ij = q_i · k_j / √Dh − m_h |j − i|,  m_h = 2^(−8h/H)",
        "Press et al. 2022, arXiv:2108.12409",
        ("heads",),
    ),
    "depthwise_convolution": Way(
        "Depth-wise convolution",
        "Each coordinate's weighted sum over the neighbours is added: only the ends tell a place.",
        "P(i) = Σ_k w_k ⊙ x_{i+k}",
        "Chu et al. 2021, arXiv:2102.10882",
        ("seed",),
    ),
    "multiscale_convolution": Way(
        "Convolutions of two widths",
        "Two convolutions each give half of the coordinates; they, too, tell a place only near the ends.",
        "P(i) = [Σ_k W_k x_{i+k} ; Σ_k V_k x_{i+k}]",
        _DNA,
        ("seed",),
    ),
    "recurrent": Way(
        "Recurrent (LSTM)",
        "What an LSTM has read up to a token is added to it, one token after the other.",
        "P(t) = W h_t,  h_t = LSTM(x_t, h_{t−1})",
        "Hochreiter and Schmidhuber 1997, doi:10.1162/neco.1997.9.8.1735",
        ("seed",),
    ),
    "ode": Way(
        "Neural ODE",
        "Places lie on a trajectory whose direction is learned, solved step by step from its beginning.",
        "dp/dt = f(p, t),  P(i) = p(i)",
        "Chen et al. 2018, arXiv:1806.07366; Liu et al. 2020, arXiv:2003.09229",
        ("trained", "seed"),
    ),
    "complex": Way(
        "Complex phase",
        "The embedding's halves are real and imaginary parts, which the place turns by a learned frequency.",
        "z(p) = x e^{i(ω p + φ)}",
        "Wang et al. 2020, arXiv:1912.12333",
    ),
    "composite": Way(
        "Absolute + relative",
        "A sinusoid added to the embedding and a clipped bias on the scores, each with a learned weight.",
        "P = α · absolute + β · relative,  α = β = 1 at first",
        _DNA,
        ("heads", "clip", "seed"),
    ),
    "dynamic": Way(
        "Dynamic",
        "A small network makes the vector from the sinusoid and the mean of the tokens in sight.",
        "P(i) = W₂ tanh(W₁ [PE(i) ; c_i] + b₁) + b₂",
        _DNA,
        ("seed",),
    ),
}
