"""How an untrained model of an architecture is built for a task."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedConfig, PreTrainedModel

from hf_attn.architectures.families import Architecture, architectures_of
from hf_attn.architectures.memory import check_loaded, check_training, count_planned_weights
from hf_attn.architectures.optimizers import OPTIMIZERS, check_optimizer
from hf_attn.models.config_checks import SEEDS, check_number
from hf_attn.models.own_attention import try_own_attention
from hf_attn.tasks.base import CLASSES, SEQUENCE, Task
from hf_attn.tasks.batch import END, PAD, START
from hf_attn.tasks.recipes import Recipe
from hf_attn.utils.model_lock import building_model
from hf_attn.utils.text import quote


def find_architecture(task: Task | type[Task], name: str) -> Architecture:
    """The architecture of that name for the task's kind; ValueError where none learns such a task."""
    known = architectures_of(task.kind)
    if name not in known:
        raise ValueError(f"model={quote(name)} does not learn task {task.name!r}; choose {', '.join(known)}.")
    return known[name]


@contextlib.contextmanager
def drawing_weights(seed: int) -> Iterator[None]:
    """Let a model that is built here draw its weights from a seed; the global generator stays as it was."""
    check_number("seed", seed, *SEEDS, example=0)
    with building_model(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def build_model(task: Task, recipe: Recipe, seed: int = 0) -> PreTrainedModel:
    """An untrained model of the recipe's architecture and size; the same weights for the same seed.

    Raises:
        ValueError: the architecture does not learn such a task, a size is refused, the model does not fit
            this machine's memory, its optimizer cannot teach it, or its attention is one's own and wrong.
    """
    model_class, config = find_architecture(task, recipe.architecture).family.head, build_config(task, recipe)
    if torch.get_default_device().type != "meta":  # there it takes none
        check_loaded(model_class, config)
    with drawing_weights(seed):
        model = model_class(config)
        try_own_attention(model)
    OPTIMIZERS[recipe.optimizer].check_model(model)
    if task.kind != CLASSES:
        start = {"decoder_start_token_id": START} if config.is_encoder_decoder else {}
        has_no_end = config.is_encoder_decoder and getattr(model.get_decoder(), "has_no_end", False)
        model.generation_config = GenerationConfig(
            pad_token_id=PAD,
            bos_token_id=START,
            eos_token_id=END,
            max_new_tokens=task.longest_answer if has_no_end else task.max_target_tokens,
            **start,
        )
    return model


def check_recipe(
    task: Task,
    recipe: Recipe,
    device: torch.device | str = "cpu",
    share: int | None = None,
    most: int | None = None,
) -> None:
    """Raise ValueError for a recipe whose training does not fit in the memory, before anything is built.

    `share` is how many examples of a batch this process gets, None for all; `most` how many bytes a server
    gives, None for as many as the machine has.
    """
    config = build_config(task, recipe)
    weights = count_planned_weights(find_architecture(task, recipe.architecture).family.head, config)
    batch_size = share or recipe.batch_size
    check_training(weights, config, batch_size, task, recipe.optimizer, device=device, most=most)


def build_config(task: Task, recipe: Recipe) -> PreTrainedConfig:
    """The configuration of the recipe's model for a task.

    ValueError where the architecture does not learn such a task, or a size or setting is refused.
    """
    architecture = find_architecture(task, recipe.architecture)
    check_optimizer(recipe)
    if recipe.teacher_forcing < 1 and not (architecture.family.is_recurrent and task.kind == SEQUENCE):
        raise ValueError(
            f"teacher_forcing={recipe.teacher_forcing} is for recurrent decoders; "
            f"{recipe.architecture} is always given the true tokens: leave it at 1."
        )
    given = _fields_of(task, architecture)
    needed = given.get("max_position_embeddings", 0)
    places = recipe.model.get("max_position_embeddings", needed)
    if isinstance(places, int) and places < needed:
        raise ValueError(f"max_position_embeddings={places}: sequences of {task.name} have {needed} tokens.")
    return architecture.family.config(**{**given, **recipe.model, **architecture.fields})


def _fields_of(task: Task, architecture: Architecture) -> dict[str, Any]:
    """What the task says of the configuration."""
    fields: dict[str, Any] = {
        "vocab_size": len(task.vocabulary),
        "pad_token_id": PAD,
        "bos_token_id": START,
        "eos_token_id": END,
    }
    if not architecture.family.is_recurrent:
        fields["max_position_embeddings"] = task.max_position_embeddings
        if task.run_symbols:
            fields["run_token_ids"] = task.ids(*task.run_symbols)
    if task.kind == CLASSES:
        names = dict(enumerate(task.classes))
        return {**fields, "id2label": names, "label2id": {name: index for index, name in names.items()}}
    if architecture.family.config.is_encoder_decoder:
        fields["decoder_start_token_id"] = START
    elif not architecture.family.is_recurrent:
        fields["max_position_embeddings"] = task.max_source_tokens + task.max_target_tokens
    fields["tie_word_embeddings"] = False  # tiny models learn in fewer steps with tables of their own
    return fields
