"""What a run draws beside its examples: dropout, and a decoder's own symbols in place of given ones."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import torch

from hf_attn.architectures.registry import drawing_weights
from hf_attn.tasks import Recipe

Slice = TypeVar("Slice", bound=Sequence)


def uses_global_rng(recipe: Recipe) -> bool:
    """Whether a model with this recipe draws from torch's global generators while it learns."""
    has_dropout = any(share for name, share in recipe.model.items() if name.endswith("dropout"))
    return has_dropout or recipe.teacher_forcing < 1


def isolate_rng(loop: Iterator[Slice], seed: int) -> Iterator[Slice]:
    """The same loop, which draws as if it learned alone, however many others learn between its steps.

    Begun with `torch.manual_seed(seed)`, as the lines of Python begin that give the same run. While it takes
    a step no other loop that draws takes one.
    """
    drawn: tuple | None = None
    while True:
        with drawing_weights(seed):
            if drawn is not None:
                restore(*drawn)
            reports = next(loop, None)
            drawn = states()
        if reports is None:
            return
        yield reports


def states() -> tuple[torch.Tensor, list[torch.Tensor], torch.Tensor | None]:
    """Of torch's generators: on the processor, on GPUs, and on an Apple GPU where there is one."""
    apple = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
    return torch.get_rng_state(), torch.cuda.get_rng_state_all(), apple


def restore(here: torch.Tensor, elsewhere: list[torch.Tensor], apple: torch.Tensor | None) -> None:
    """Give torch's generators the states that they had."""
    torch.set_rng_state(here)
    torch.cuda.set_rng_state_all(elsewhere)
    if apple is not None:
        torch.mps.set_rng_state(apple)
