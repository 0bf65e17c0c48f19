"""How strongly does an early input reach the last output? The gradient by distance, before any training.

A recurrent state hands the gradient back step by step, multiplied by one Jacobian a step (Bengio et al. 1994,
doi:10.1109/72.279181); attention reaches every input in one step.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from hf_attn.architectures.registry import drawing_weights
from hf_attn.experiments.base import Experiment, Finding, Row, mean_of, points_of, settings_of
from hf_attn.models.configuration_attn_encoder import AttnEncoderConfig
from hf_attn.models.configuration_recurrent_encoder import RecurrentEncoderConfig
from hf_attn.models.modeling_attn_encoder import AttnEncoderModel
from hf_attn.models.modeling_recurrent_encoder import RecurrentEncoderModel
from hf_attn.viz.draw_chart import Chart

RECURRENT = {"RNN": "rnn", "LSTM": "lstm", "GRU": "gru"}
REMEMBERING = "LSTM, forget bias 2"  # a gate of σ(2) = .88 lets a cell last; at 0 it halves with every step
ATTENTION = "attention"
MODELS = (*RECURRENT, REMEMBERING, ATTENTION)
GONE = 1e-3  # of the gradient at distance 1: what is less is called vanished
ALIKE = 3  # a factor within which gradients are called alike


@dataclass(frozen=True)
class Sizes:
    """What is measured."""

    distances: tuple[int, ...] = (0, 1, 2, 5, 10, 20, 50, 100, 150, 199)  # from the last output, near to far
    hidden_size: int = 64
    inputs: int = 32  # random sequences a model is measured on
    initialisations: int = 5  # models of each kind


def build(model: str, sizes: Sizes, seed: int) -> PreTrainedModel:
    """An untrained encoder that reads from left to right, or has one layer of attention."""
    width, length = sizes.hidden_size, sizes.distances[-1] + 1
    with drawing_weights(seed):
        if model == ATTENTION:
            config = AttnEncoderConfig(
                vocab_size=4,
                hidden_size=width,
                num_hidden_layers=1,
                num_attention_heads=4,
                intermediate_size=2 * width,
                max_position_embeddings=length,
                zero_init_residual=False,  # else the untrained layer hands everything on as it is
            )
            return AttnEncoderModel(config)
        cell_type = RECURRENT.get(model, "lstm")
        built = RecurrentEncoderModel(
            RecurrentEncoderConfig(vocab_size=4, hidden_size=width, cell_type=cell_type, bidirectional=False)
        )
    if model == REMEMBERING:
        with torch.no_grad():
            forget = slice(width, 2 * width)  # torch's order of gates: input, forget, cell, output
            built.cells.get_parameter("bias_ih_l0")[forget] = 2.0
            built.cells.get_parameter("bias_hh_l0")[forget] = 0.0
    return built


def gradient_norms(
    model: PreTrainedModel, length: int, inputs: int, generator: torch.Generator
) -> torch.Tensor:
    """How far a small change of input t moves the last output, in a direction drawn at random.

        g_t = ‖∂(vᵀ y_T) / ∂x_t‖,   v uniform on the sphere, x ~ N(0, 1)

    Computed in float64, and the model is made so: float32 would make 0 of what is below 1e-38.

    Returns:
        [T] root mean squares over the inputs.
    """
    torch.nn.Module.double(model)
    width = model.config.hidden_size
    sequences = torch.randn(inputs, length, width, dtype=torch.float64, generator=generator).requires_grad_()
    directions = torch.randn(inputs, width, dtype=torch.float64, generator=generator)
    last = model(inputs_embeds=sequences).last_hidden_state[:, -1]  # [B, D]
    (last * torch.nn.functional.normalize(directions, dim=1)).sum().backward()
    return sequences.grad.norm(dim=-1).square().mean(dim=0).sqrt()  # type: ignore[union-attr]


def run(sizes: Sizes, seed: int) -> Iterator[Row]:
    """A row for each model and distance: the median over initialisations."""
    length = sizes.distances[-1] + 1
    for model in MODELS:
        norms = []
        for index in range(sizes.initialisations):
            model_seed = seed * sizes.initialisations + index
            generator = torch.Generator().manual_seed(model_seed)
            norms.append(gradient_norms(build(model, sizes, model_seed), length, sizes.inputs, generator))
        for distance in sizes.distances:
            found = [float(norm[length - 1 - distance]) for norm in norms]
            yield {
                "model": model,
                "distance": distance,
                "seed": seed,
                "gradient_norm": statistics.median(found),
                "lowest": min(found),
                "highest": max(found),
                "initialisations": len(found),
            }


def judge(rows: Sequence[Row]) -> tuple[Finding, ...]:
    distances = settings_of(rows, "distance")
    near, far = distances[1], distances[-1]

    def left(model: str, distance: int) -> float:
        norm, norm_near = (mean_of(rows, "gradient_norm", model=model, distance=d) for d in (distance, near))
        return norm / norm_near

    findings = [
        Finding(
            f"{model}: the gradient has vanished at distance {far}, below {GONE:g} of that at {near}.",
            left(model, far) < GONE,
            f"{left(model, far):.1e} of it is left",
        )
        for model in MODELS[:-1]
    ]
    attending = [left(ATTENTION, distance) for distance in distances[1:]]
    findings.append(
        Finding(
            f"{ATTENTION}: the gradient up to distance {far} is within a factor {ALIKE} of that at {near}.",
            1 / ALIKE <= min(attending) <= max(attending) <= ALIKE,
            f"{min(attending):.2f} to {max(attending):.2f} of it",
        )
    )
    return tuple(findings)


def draw(rows: Sequence[Row]) -> Chart:
    series = {
        model: points_of(rows, "distance", "gradient_norm", model=model)
        for model in settings_of(rows, "model")
    }
    return Chart(
        "Gradient from the last output to an input, untrained",
        "distance in tokens",
        "norm of the gradient",
        series,
        log_y=True,
    )


EXPERIMENT = Experiment(
    title="Vanishing gradients",
    question="How much of the gradient from the last output reaches an input many tokens earlier?",
    settings=("model", "distance"),
    sizes=Sizes(),
    full=Sizes(inputs=128, initialisations=20),
    count=lambda sizes: len(MODELS) * len(sizes.distances),
    run=run,
    judge=judge,
    draw=draw,
)
