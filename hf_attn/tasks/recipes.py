"""What is known to work: a model's sizes and the settings of its training."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Recipe:
    """A model and training settings that are known to work.

    Attributes:
        model: fields of the model's configuration (hidden_size, encoder_layers, …).
        architecture: which model learns: a name in `hf_attn.architectures.ARCHITECTURES`.
        steps: optimizer steps; the learning rate falls to 0 at the last.
        batch_size: examples a step, over all processes together.
        learning_rate: the highest.
        betas: AdamW's.
        weight_decay: AdamW's, on matrices only.
        warmup_steps: steps over which the learning rate rises from 0.
        decay_fraction: part of the run, at its end, over which the learning rate falls to 0 (a trapezoid);
            0 keeps it constant.
        max_grad_norm: gradients are scaled down to this norm; 0 leaves them.
        teacher_forcing: the share of target tokens that a recurrent decoder is given in training at the last
            step, instead of its own choices; it falls from 1 in a straight line (scheduled sampling,
            Bengio et al. 2015, arXiv:1506.03099); 1 gives all of them throughout.
        report_every: steps between two reports.
        evaluate_every: steps between two measurements on held-out examples.
    """

    model: Mapping[str, object] = field(default_factory=dict)
    architecture: str = "transformer"
    steps: int = 100
    batch_size: int = 64
    learning_rate: float = 3e-3
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.01
    warmup_steps: int = 20
    decay_fraction: float = 0.5
    max_grad_norm: float = 1.0
    teacher_forcing: float = 1.0
    report_every: int = 10
    evaluate_every: int = 10

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "report_every", "evaluate_every"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name}={value!r} must be a whole number of at least 1.")
        if not 0 < self.learning_rate < math.inf:
            raise ValueError(f"learning_rate={self.learning_rate} must be above 0; 0.003 is a good start.")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas={self.betas} must be two numbers of at least 0 and below 1.")
        for name in ("weight_decay", "max_grad_norm"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 0 and finite.")
        if not 0 <= self.teacher_forcing <= 1:
            raise ValueError(f"teacher_forcing={self.teacher_forcing} must be between 0 and 1; 1 is always.")
        if self.warmup_steps < 0 or not 0 <= self.decay_fraction <= 1:
            raise ValueError(
                f"warmup_steps={self.warmup_steps} must be at least 0 and "
                f"decay_fraction={self.decay_fraction} between 0 and 1."
            )


# Where to begin with a recurrent model, for tasks that say nothing better.
RECURRENT = Recipe(
    {"hidden_size": 128, "attention_size": 64, "bidirectional": True},
    steps=600,
    batch_size=64,
    learning_rate=4e-3,
    warmup_steps=20,
    evaluate_every=20,
)

# The recurrent models of learn_ai_51_attention_mechanisms: Adam at one rate, ever fewer true tokens.
RECURRENT_DOCUMENT = Recipe(
    {"hidden_size": 128, "embedding_size": 64, "attention_size": 64, "bidirectional": False},
    steps=1140,
    batch_size=64,
    learning_rate=1e-3,
    betas=(0.9, 0.999),
    weight_decay=0.0,
    warmup_steps=0,
    decay_fraction=0.0,
    max_grad_norm=5.0,
    teacher_forcing=0.2,
    evaluate_every=38,
)
