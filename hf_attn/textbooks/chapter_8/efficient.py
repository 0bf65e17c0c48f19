"""Document `chapter-8`: what attention and its cheaper kinds cost, in multiplications counted by torch."""

import math
from collections.abc import Callable

import torch

from hf_attn.models.attention import scaled_dot_product_attention
from hf_attn.models.configuration_attn_encoder import AttnEncoderConfig
from hf_attn.models.efficient_attention import EFFICIENT_ATTENTION
from hf_attn.textbooks.claims import STATED, Claim, Measured, count_multiplications
from hf_attn.textbooks.timing import exponent

LENGTHS = (1024, 2048, 4096, 8192, 16384)
WIDTH = 64  # of one head
FEATURES = 64
# The slope of n log n on logarithmic axes between the first length and the last.
N_LOG_N = 1 + math.log(math.log(LENGTHS[-1]) / math.log(LENGTHS[0])) / math.log(LENGTHS[-1] / LENGTHS[0])


def multiplications(attention_type: str, length: int) -> int:
    """Count those of one head; nothing is computed."""
    states = torch.empty(3, 1, 1, length, WIDTH, device="meta")
    if attention_type == "full":
        return count_multiplications(lambda: scaled_dot_product_attention(*states))
    config = AttnEncoderConfig(
        hidden_size=WIDTH,
        num_attention_heads=1,
        max_position_embeddings=length,
        attention_type=attention_type,
    )
    attend: Callable = EFFICIENT_ATTENTION[attention_type](config, 0).to("meta").attend
    sequences = torch.ones(1, length, dtype=torch.long, device="meta")
    return count_multiplications(lambda: attend(*states, sequences))


def growth(attention_type: str) -> Measured:
    """The slope of multiplications over length, both as logarithms: by least squares.

    O(·) bounds growth from above, for every kind alike.
    """
    counted = [multiplications(attention_type, length) for length in LENGTHS]
    return (round(exponent(LENGTHS, counted), 6),)


def fourier_features() -> Measured:
    """The smallest of 1,000 estimates of exp(q·k), over exp(q·k): by Fourier features and by Performer's.

    exp(q·k) = exp((‖q‖² + ‖k‖²)/2) E[cos(ω·(q − k))] = E[exp(ω·q − ‖q‖²/2) exp(ω·k − ‖k‖²/2)]
    """
    query, key = torch.randn(2, 1000, 16) / 2  # q·k / √16 of normal vectors
    features = torch.randn(FEATURES, 16)
    true = (query * key).sum(dim=1).exp()
    norms = [states.square().sum(dim=1, keepdim=True) / 2 for states in (query, key)]
    turned = [states @ features.T for states in (query, key)]
    fourier = (norms[0] + norms[1]).exp() * torch.cos(turned[0] - turned[1])
    positive = (turned[0] - norms[0] + turned[1] - norms[1]).exp()
    return tuple(float((estimates.mean(dim=1) / true).min()) for estimates in (fourier, positive))


SPAN = "exponent of the multiplications over n, 1,024 to 16,384"
CLAIMS = (
    Claim(
        f"Self-attention is O(n²): {SPAN}.",
        "≤2.00",
        lambda: growth("full"),
        "QKᵀ and AV, n² d each.",
        where="views of attention",
        kind=STATED,
    ),
    Claim(
        f"Linformer is O(n): {SPAN}.",
        "≤1.00",
        lambda: growth("linformer"),
        "n k d, with k fixed.",
        where="views of attention",
        kind=STATED,
    ),
    Claim(
        f"Performer is O(n log n): {SPAN}.",
        f"≤{N_LOG_N:.2f}",
        lambda: growth("performer"),
        "It is less, O(n): n m d with m features, which need not grow with n; keys meet values first.",
        where="views of attention",
        kind=STATED,
    ),
    Claim(
        f"Reformer is O(n log n): {SPAN}.",
        f"≤{N_LOG_N:.2f}",
        lambda: growth("reformer"),
        "With a fixed chunk the products are O(n); n log n is the sorting, which multiplies nothing.",
        where="views of attention",
        kind=STATED,
    ),
    Claim(
        "Performer's features are Fourier's: the smallest of 1,000 estimates of a positive kernel, over its "
        "value, by these and by Performer's own.",
        ">0.00 >0.00",
        fourier_features,
        "Cosines go below 0, and dividing by their sum fails; Performer's are exponentials for that reason.",
        where="views of attention",
        kind=STATED,
    ),
)
