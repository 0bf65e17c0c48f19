"""What is known to work: a model's sizes and the settings of its training."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hf_attn.models.config_checks import bounded, check_bounds, show_value

MOST_STEPS = 100_000_000  # a day of training at a millisecond a step


@dataclass(frozen=True)
class Recipe:
    """A model and training settings that are known to work.

    Attributes:
        model: fields of the model's configuration (hidden_size, encoder_layers, …).
        architecture: which model learns: a name of `hf_attn.architectures.families`, as `--model` takes it.
        steps: optimizer steps; the learning rate falls to 0 at the last.
        batch_size: examples a step, over all processes together.
        learning_rate: the highest.
        optimizer: a name in `hf_attn.architectures.optimizers.OPTIMIZERS`: "adamw", "adafactor" or "muon".
        betas: how slowly AdamW's two moments change.
        weight_decay: on matrices only.
        warmup_steps: steps over which the learning rate rises from 0.
        decay_fraction: part of the run, at its end, over which the learning rate falls to 0 (a trapezoid);
            0 keeps it constant.
        max_grad_norm: gradients are scaled down to this norm; 0 leaves them.
        teacher_forcing: the share of target tokens that a recurrent decoder is given in training at the last
            step, instead of its own choices; it falls from 1 in a straight line (scheduled sampling,
            Bengio et al. 2015, arXiv:1506.03099); 1 gives all of them throughout.
        report_every: steps between two reports.
        evaluate_every: steps between two measurements on validation examples.
    """

    model: Mapping[str, object] = field(default_factory=dict)
    architecture: str = "transformer"
    steps: int = bounded(100, 1, MOST_STEPS)
    batch_size: int = bounded(64, 1, 65_536)
    learning_rate: float = bounded(3e-3, 1e-12, 1e20)
    optimizer: str = "adamw"
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = bounded(0.01, 0.0, 1000.0)
    warmup_steps: int = bounded(20, 0, MOST_STEPS)
    decay_fraction: float = bounded(0.5, 0.0, 1.0)
    max_grad_norm: float = bounded(1.0, 0.0, 1e9)
    teacher_forcing: float = bounded(1.0, 0.0, 1.0)
    report_every: int = bounded(10, 1, MOST_STEPS)
    evaluate_every: int = bounded(10, 1, MOST_STEPS)

    def __post_init__(self) -> None:
        check_bounds(self)
        if not isinstance(self.model, Mapping):
            raise ValueError(
                f"model={show_value(self.model)} must be the fields of a configuration, for example "
                'model={"hidden_size": 64}.'
            )
        for name, example in (("architecture", "decoder"), ("optimizer", "adamw")):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name}={show_value(getattr(self, name))} must be a name: {example!r}.")
        betas = self.betas if isinstance(self.betas, tuple) else ()
        are_numbers = all(isinstance(beta, (int, float)) and not isinstance(beta, bool) for beta in betas)
        if len(betas) != 2 or not are_numbers or not all(0 <= beta < 1 for beta in betas):
            raise ValueError(
                f"betas={show_value(self.betas)} must be two numbers of at least 0 and below 1, for example "
                "betas=(0.9, 0.95)."
            )


# A small Transformer; tasks change what suits them.
SMALL_TRANSFORMER: Mapping[str, object] = {
    "hidden_size": 64,
    "intermediate_size": 256,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "num_attention_heads": 4,
}

# Learned on short inputs, right on long ones: one layer a side, places counted from both ends of each run of
# symbols, and noise on far ones.
REACHING = Recipe(
    {
        **SMALL_TRANSFORMER,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "position_type": "both_ends",
        "relative_clip_distance": 3,
        "relative_bias_multiplier": 40,
        "crowd_noise": 8.0,
        "zero_init_residual": False,
        "position_initializer_range": 0.0,
        "use_bias": True,
    },
    steps=1500,
    batch_size=64,
    learning_rate=6e-3,
    optimizer="muon",
    betas=(0.9, 0.99),
    warmup_steps=100,
    decay_fraction=1.0,
    report_every=20,
    evaluate_every=100,
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
