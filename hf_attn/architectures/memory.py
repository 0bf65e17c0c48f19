"""How much memory a model and its training need, estimated before any of it is taken.

Weights are counted exactly, on a device without memory. What a training step keeps for its backward pass is
estimated from the configuration, the batch and the lengths: 0.9 to 3 times what 17 models of all kinds were
measured to take on a processor (the most where its attention never writes its maps down).
"""

import copy
import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from hf_attn.architectures.families import is_recurrent
from hf_attn.architectures.optimizers import find_optimizer
from hf_attn.models.score_functions import SCORE_FUNCTIONS
from hf_attn.tasks.base import CLASSES, Task
from hf_attn.utils.model_lock import building_model

FLOAT = 4  # bytes of a number
STACKS = ("encoder_layers", "decoder_layers", "num_hidden_layers", "num_layers")
FEW_LAYERS = 6  # of a stack: so many are built to be counted, of more each further one counts as the second
# where a container's limit stands: of cgroups' second version, and of their first
CGROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


@dataclass(frozen=True)
class Weights:
    """What a model holds: how many numbers are learned, and the bytes of tables that are not."""

    parameters: int
    buffer_bytes: int


def count_weights(model: torch.nn.Module) -> Weights:
    """What a model holds that is already built."""
    return Weights(
        sum(weight.numel() for weight in model.parameters()),
        sum(buffer.numel() * buffer.element_size() for buffer in model.buffers()),
    )


def count_planned_weights(model_class: type[PreTrainedModel], config: PreTrainedConfig) -> Weights:
    """What a model would hold, without memory for it and at once however many layers it has.

    From the second layer of a stack on, each holds as much as the one before.
    """
    names = {field.name for field in dataclasses.fields(config)}  # type: ignore[arg-type]
    heights = {name: getattr(config, name) for name in STACKS if name in names}
    tall = {name: height for name, height in heights.items() if height > FEW_LAYERS}

    def count(**changed: int) -> Weights:
        smaller = copy.deepcopy(config)
        for name, height in changed.items():
            setattr(smaller, name, height)
        with building_model(), torch.device("meta"):
            return count_weights(model_class(smaller))

    low = count(**dict.fromkeys(tall, 1))
    parameters, buffer_bytes = low.parameters, low.buffer_bytes
    for name, height in tall.items():
        two = count(**{**dict.fromkeys(tall, 1), name: 2})
        parameters += (height - 1) * (two.parameters - low.parameters)
        buffer_bytes += (height - 1) * (two.buffer_bytes - low.buffer_bytes)
    return Weights(parameters, buffer_bytes)


def estimate_training(
    weights: Weights, config: PreTrainedConfig, batch_size: int, task: Task, optimizer: str = "adamw"
) -> int:
    """Bytes of a training step: weights, gradients, the optimizer's moments, and what a batch leaves."""
    trained = 2 + find_optimizer(optimizer).moments  # numbers a weight
    source, target = task.max_source_tokens, 0 if task.kind == CLASSES else task.max_target_tokens
    kept = batch_size * count_activations(config, source, target)
    return int(FLOAT * (trained * weights.parameters + kept)) + weights.buffer_bytes


def count_activations(config: PreTrainedConfig, source: int, target: int) -> int:
    """Numbers that one example leaves for the backward pass: S source tokens read, T target tokens written.

    T is 0 where a class is named. What the configuration of another's model does not say counts nothing.
    """
    vocabulary = getattr(config, "vocab_size", 0)
    is_joined = target and not getattr(config, "is_encoder_decoder", False)
    read, written = (source + target, source + target) if is_joined else (source, target)
    scores = 4 * written * vocabulary  # logits, their log-softmax, and the gradients of both
    count = _count_recurrent if is_recurrent(config) else _count_transformer
    return scores + count(config, read, 0 if is_joined else written)


def _count_transformer(config: PreTrainedConfig, read: int, written: int) -> int:
    """L layers keep states (D), a feed-forward's (F) and each head's maps: scores, weights, gradients."""
    width, inner = getattr(config, "hidden_size", 0), getattr(config, "intermediate_size", 0)
    heads = getattr(config, "num_attention_heads", 0)
    in_layer = 16 * width + 4 * inner
    layers = {name: int(getattr(config, name, 0) or 0) for name in STACKS}
    if not getattr(config, "is_encoder_decoder", False):
        return layers["num_hidden_layers"] * read * (in_layer + 4 * heads * _keys_read(config, read))
    encoder = layers["encoder_layers"] * read * (in_layer + 4 * heads * _keys_read(config, read))
    keys = _keys_read(config, written) + read
    return encoder + layers["decoder_layers"] * written * (in_layer + 8 * width + 4 * heads * keys)


def _keys_read(config: PreTrainedConfig, length: int) -> int:
    """How many keys each query of self-attention stands beside."""
    sizes: Mapping[str, int] = {
        "local": 4 * getattr(config, "attention_window", 0),
        "linformer": getattr(config, "linformer_size", 0),
        "performer": 4 * getattr(config, "performer_features", 0),
        "reformer": 3 * getattr(config, "reformer_chunk", 0) * getattr(config, "reformer_rounds", 0),
    }
    return max(length, 1) if not (size := sizes.get(getattr(config, "attention_type", ""))) else size


def _count_recurrent(config: PreTrainedConfig, read: int, written: int) -> int:
    """Each step of each layer keeps its gates; each step of attention compares with all of the source."""
    width, layers = config.hidden_size, config.num_layers
    in_step = 16 * width * layers
    compared = 0
    score = SCORE_FUNCTIONS[getattr(config, "score_function", "none")]
    if score is not None and score.uses_attention_size:
        compared = 4 * read * config.comparing_size
    return (2 * read + written) * in_step + written * (compared + 4 * read)


def measure_room(device: torch.device | str = "cpu") -> int:
    """Bytes that this process may have in all: the machine's, its container's, or what its own limit leaves.

    Args:
        device: where the model is to be; of a GPU its own memory counts.
    """
    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    rooms = [_own_limit(), *map(_container_limit, CGROUPS)]
    if hasattr(os, "sysconf"):
        rooms.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min((room for room in rooms if room is not None), default=2**63)


def _own_limit() -> int | None:
    """What `ulimit -v` leaves of the address space; None without one."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except OSError:  # only Linux says what is taken
        return limit
    return max(0, limit - pages * resource.getpagesize())


def _container_limit(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def check_memory(needed: int, room: int, what: str, remedy: str) -> None:
    """Refuse what needs more bytes than there is room: ValueError with both figures and what to lower."""
    if needed > room:
        raise ValueError(
            f"{what} needs about {needed / 1e9:,.1f} GB of memory, and {room / 1e9:,.1f} GB are to be had: "
            f"lower {remedy}."
        )


def check_loaded(model_class: type[PreTrainedModel], config: PreTrainedConfig) -> None:
    """Refuse to build a model that does not fit this machine: ValueError with what to lower."""
    weights = count_planned_weights(model_class, config)
    what = f"A model of {weights.parameters:,} parameters"
    needed = FLOAT * weights.parameters + weights.buffer_bytes
    check_memory(needed, measure_room(), what, _sizes_of(config))


def check_training(
    weights: Weights,
    config: PreTrainedConfig,
    batch_size: int,
    task: Task,
    optimizer: str = "adamw",
    *,
    device: torch.device | str = "cpu",
    most: int | None = None,
) -> None:
    """Refuse training that does not fit: ValueError with what to lower.

    `batch_size` counts the examples of a step in this process. `most` is how many bytes a server gives; None
    for as many as the machine has.
    """
    needed = estimate_training(weights, config, batch_size, task, optimizer)
    room = measure_room(device) if most is None else min(most, measure_room(device))
    what = f"Training {weights.parameters:,} parameters with batch_size={batch_size}"
    lengths = [name for name in ("max_length", "length", "window") if name in task.options]
    check_memory(needed, room, what, ", ".join(["batch_size", *lengths, _sizes_of(config)]))


def _sizes_of(config: PreTrainedConfig) -> str:
    """The settings that make a model large."""
    own = [name for name in (*STACKS, "intermediate_size") if name in vars(config)]
    return f"{', '.join(own)} or hidden_size" if own else "hidden_size"
