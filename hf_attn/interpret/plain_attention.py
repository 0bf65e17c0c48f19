"""Let a model attend by its plain function, which alone forms weights, and record or change them."""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from torch import nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface, eager_mask

from hf_attn.generation.generate import evaluating

WRAPPED = "hf_attn_wrapped"  # the kernel's name in transformers' attention interface
PLAIN_NAMES = ("eager_attention_forward", "read_memory")  # what a file of models calls its plain attention

Wrapper = Callable[..., tuple]  # (attend, module, query, key, value, attention_mask, **kwargs) → (Y, A)
_WRAPPERS: ContextVar[tuple[Wrapper, ...]] = ContextVar("wrappers", default=())  # of this thread alone


@contextlib.contextmanager
def eager_attention(model: PreTrainedModel) -> Iterator[None]:
    """Let the model attend by its plain function, in evaluation mode; put both back after.

    Inside `wrapping_attention` it already does, and goes on so. What reads with the same model from another
    thread through hf_attn waits meanwhile; call the model itself from no other thread.
    """
    with evaluating(model):
        if model.config._attn_implementation == WRAPPED:
            yield
            return
        # from the outside in, so that a stack with an implementation of its own gets it back
        stacks = _stacks_of(model)
        before = [stack.config._attn_implementation for stack in stacks]
        try:
            model.set_attn_implementation("eager")
            yield
        finally:
            for stack, implementation in zip(stacks, before, strict=True):
                stack.set_attn_implementation(implementation)


@contextlib.contextmanager
def wrapping_attention(model: PreTrainedModel, wrapper: Wrapper) -> Iterator[None]:
    """As `eager_attention`; each attention module of the model calls the wrapper with its plain function.

    It is called as `wrapper(attend, module, query, key, value, attention_mask, **kwargs)`, and only for what
    this thread reads. Of nested ones the inner is called first, and its `attend` is the outer one.
    """
    with eager_attention(model), contextlib.ExitStack() as undo:
        for stack in _stacks_of(model):  # set_attn_implementation would ask what the kernel can do
            undo.callback(setattr, stack.config, "_attn_implementation", stack.config._attn_implementation)
            stack.config._attn_implementation = WRAPPED
        undo.callback(_WRAPPERS.reset, _WRAPPERS.set((*_WRAPPERS.get(), wrapper)))
        yield


def active_wrappers() -> tuple[Wrapper, ...]:
    """The wrappers that this thread's attention goes through, the outermost first."""
    return _WRAPPERS.get()


def wrapped_attention_forward(module, query, key, value, attention_mask, **kwargs):
    """The module's own plain attention, within this thread's wrappers; called as every kernel is."""
    attend = _plain_attention(module)
    for wrapper in _WRAPPERS.get():
        attend = functools.partial(wrapper, attend)
    return attend(module, query, key, value, attention_mask, **kwargs)


def _plain_attention(module: nn.Module) -> Callable:
    """The plain attention function in the file of the module's class, or of a class it inherits from."""
    files = (vars(sys.modules[parent.__module__]) for parent in type(module).__mro__)
    return next(names[plain] for names in files for plain in PLAIN_NAMES if plain in names)


def _stacks_of(model: PreTrainedModel) -> list[PreTrainedModel]:
    return [stack for stack in model.modules() if isinstance(stack, PreTrainedModel)]


AttentionInterface.register(WRAPPED, wrapped_attention_forward)
AttentionMaskInterface.register(WRAPPED, eager_mask)
