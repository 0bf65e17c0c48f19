"""One head of attention, number by number, from a sentence of one's own or from a trained model.

A `Head` comes from a sentence (`walk_sentence`: weights drawn from a seed), from a trained model
(`walk_model`: the tensors of its own forward pass) or from a document's worked example
(`hf_attn.textbooks.worked_examples`).
`Head.explain(row, column)` takes one of its weights apart.
"""

import contextlib
import dataclasses
import re
import threading
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from transformers import PreTrainedModel

from hf_attn.architectures.families import is_recurrent
from hf_attn.interpret.attention_maps import OFFERED, attention_maps, find_attentions
from hf_attn.interpret.head import Head, exact, is_whole, read_mask
from hf_attn.models.positions import compute_sinusoids, rotate

LONGEST = 64  # tokens on either side of a map whose every number is to be read
WIDTH = 16  # D of a sentence's random vectors: four numbers and more for each of four heads
HEADS = (1, 2, 4)  # into which WIDTH is divided
LARGEST_SEED = 2**63 - 1  # that PyTorch takes
PADDING = "<pad>"
_TOKENS = re.compile(rf"{PADDING}|\w+|[^\w\s]")


# ---------------------------------------------------------------- a sentence of one's own


def split_words(text: str) -> tuple[str, ...]:
    """Words and punctuation marks; `<pad>` is a token of its own.

    >>> split_words("Don't stop, <pad>")
    ('Don', "'", 't', 'stop', ',', '<pad>')
    """
    return tuple(_TOKENS.findall(text))


def embed_words(words: Sequence[str], width: int = WIDTH, seed: int = 0) -> torch.Tensor:
    """A random vector for each word, [T, D], float64: the same word has the same one in every sentence."""
    rows = []
    for word in words:
        generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {word}".encode()))
        rows.append(torch.randn(width, generator=generator))
    return torch.stack(rows).double()


def walk_sentence(
    text: str,
    *,
    num_heads: int = 2,
    head: int = 0,
    seed: int = 0,
    scale: bool = True,
    causal: bool = False,
    positions: bool = True,
    hidden: Sequence[int] | None = None,
) -> Head:
    """Attention over any sentence with random vectors and weights: true arithmetic, a map without meaning.

    Vectors have variance 1, and so have queries and keys: q · k has variance Dk before it is scaled.

    Args:
        text: a sentence; `<pad>` in it is padding.
        num_heads: H; the width of 16 is divided among them.
        head: which of them, from 0.
        seed: of vectors and weights.
        scale: whether scores are divided by √Dk.
        causal: whether a token may only read itself and those before it.
        positions: whether sinusoids are added to the vectors.
        hidden: places that nobody may read; None for those of `<pad>`.

    Raises:
        ValueError: nothing is written, it is too long, or there are no such heads, seed or places.
    """
    words = split_words(text)
    if not words:
        raise ValueError("The sentence is empty; write some words, for example 'time flies like an arrow'.")
    if len(words) > LONGEST:
        raise ValueError(
            f"The sentence has {len(words)} words; up to {LONGEST} are walked through. Shorten it."
        )
    are_whole = is_whole(num_heads) and is_whole(head)
    if not are_whole or num_heads not in HEADS or not 0 <= head < num_heads:
        allowed = ", ".join(map(str, HEADS))
        raise ValueError(
            f"head={head!r} of num_heads={num_heads!r}: choose {allowed} heads, and one of them from 0."
        )
    if not is_whole(seed) or not 0 <= seed <= LARGEST_SEED:
        raise ValueError(f"seed={seed!r} must be a whole number from 0 to {LARGEST_SEED}; 0 works.")
    if hidden is None:
        hidden = [place for place, word in enumerate(words) if word == PADDING]
    if len(set(hidden)) >= len(words):
        raise ValueError(f"All {len(words)} tokens are hidden: leave one to be read.")
    states = embed_words(words, seed=seed)
    if positions:
        states = states + compute_sinusoids(torch.arange(len(words)), WIDTH).double()
    generator = torch.Generator().manual_seed(seed)
    maps = [torch.randn(WIDTH, WIDTH, generator=generator).double() / WIDTH**0.5 for _ in range(3)]
    part = slice(head * WIDTH // num_heads, (head + 1) * WIDTH // num_heads)
    return project(
        words, states, *(weight[:, part] for weight in maps), scale=scale, causal=causal, hidden=tuple(hidden)
    )


def project(words: Sequence[str], states: torch.Tensor, w_query, w_key, w_value, **switches) -> Head:
    """Self-attention of X [T, D] by three maps [D, Dk].

        Q = X W_q,   K = X W_k,   V = X W_v

    Args:
        words: names of the tokens.
        states: X.
        w_query: W_q.
        w_key: W_k.
        w_value: W_v.
        **switches: `scale`, `causal` and `hidden` of the head.
    """
    states, *maps = (tensor.double() for tensor in (states, w_query, w_key, w_value))
    query, key, value = (states @ weight for weight in maps)
    known = {"states": states, "memory": states, "maps": tuple(maps)}
    return Head(tuple(words), tuple(words), query, key, value, **known, **switches)  # type: ignore[arg-type]


# ---------------------------------------------------------------- a trained model


@dataclass(frozen=True)
class Call:
    """What an attention module was given."""

    states: torch.Tensor
    memory: torch.Tensor | None
    attention_mask: torch.Tensor | None
    rotation: tuple[torch.Tensor, torch.Tensor] | None
    position_bias: torch.Tensor | None
    relative_vectors: torch.Tensor | None


def find_attention(model: PreTrainedModel) -> dict[str, list[nn.Module]]:
    """The attention modules of a Transformer by kind, the one that reads the source first: a module a layer.

    Raises:
        ValueError: the model has none whose scores are a product of queries and keys.
    """
    if is_recurrent(model.config):
        raise ValueError(f"A {model.config.model_type} model has no queries and keys: choose a Transformer.")
    if (kind := getattr(model.config, "attention_type", "full")) != "full":
        raise ValueError(
            f"attention_type={kind!r} does not weigh every key against every query: choose a model that does."
        )
    found = find_attentions(model)
    return {kind: found[kind] for kind in OFFERED if kind in found}


def walk_model(
    model: PreTrainedModel,
    inputs,
    target=None,
    *,
    tokenizer=None,
    kind: str | None = None,
    layer: int = -1,
    head: int = 0,
) -> Head:
    """One head of a trained model: queries, keys and values as its own forward pass has them.

    Shifts, rotations and what positions add to the scores are in them, so that the weights are the model's.

    Args:
        model: a Transformer of this package.
        inputs: as `attention_maps` takes them: text, ids, or a Batch of one.
        target: what is to be written; None lets the model write.
        tokenizer: reads text and names the tokens.
        kind: "cross", "encoder" or "decoder"; None for the one in which the answer reads the source.
        layer: from 0; −1 is the last.
        head: from 0.

    Raises:
        ValueError: there is no such map, or the model has no queries and keys.
    """
    modules = find_attention(model)
    kind = next(iter(modules)) if kind is None else kind
    if kind not in modules:
        raise ValueError(f"kind={kind!r} is none of this model's; choose {', '.join(modules)}.")
    stack, heads = modules[kind], model.config.num_attention_heads
    if not (-len(stack) <= layer < len(stack) and 0 <= head < heads):
        raise ValueError(
            f"layer={layer}, head={head}: the {kind} has {len(stack)} layers of {heads} heads, from 0."
        )
    module = stack[layer]
    with _watching(module) as calls:
        maps = attention_maps(model, inputs, target, tokenizer=tokenizer)
    return _read_head(module, calls[-1], *maps.sides(kind), head)


@contextlib.contextmanager
def _watching(module: nn.Module) -> Iterator[list[Call]]:
    """Note what an attention module is given in this thread: others may use the same model meanwhile."""
    calls: list[Call] = []
    mine = threading.get_ident()

    def note(_, args, kwargs=None):  # another thread may meet it as it comes or goes, without them
        if threading.get_ident() == mine:
            given = {field.name: kwargs.get(field.name) for field in dataclasses.fields(Call)[1:]}
            calls[:] = [Call(args[0].detach(), **given)]

    handle = module.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield calls
    finally:
        handle.remove()


@torch.no_grad()
def _read_head(module, call: Call, rows: tuple[str, ...], columns: tuple[str, ...], head: int) -> Head:
    """Queries, keys and values of one head, made once more from what the module was given."""
    memory = call.states if call.memory is None else call.memory
    size = module.head_dim
    part = slice(head * size, (head + 1) * size)

    def split(projection: nn.Module, states: torch.Tensor) -> torch.Tensor:
        return projection(states)[..., part].unsqueeze(1)  # [1, 1, T, Dh]

    query, key = split(module.q_proj, call.states), split(module.k_proj, memory)
    value = split(module.v_proj, memory)
    if call.rotation is not None:
        query, key = rotate(query, *call.rotation), rotate(key, *call.rotation)
    bias = None if call.position_bias is None else call.position_bias[0, head]
    offsets = None
    if call.relative_vectors is not None:
        before, offsets = call.relative_vectors[:, 0]  # a^K and a^V, [T, S, Dh]
        bias = torch.einsum("td,tsd->ts", query[0, 0] * module.scaling, before)
    hidden: tuple[int, ...] = ()
    if call.attention_mask is not None:
        may_attend = read_mask(call.attention_mask)
        hidden = tuple((~may_attend[0, 0].any(dim=0)).nonzero().flatten().tolist())
    projections = (module.q_proj, module.k_proj, module.v_proj)
    w_query, w_key, w_value = (exact(projection.weight[part].T) for projection in projections)
    return Head(
        rows,
        columns,
        exact(query[0, 0]),
        exact(key[0, 0]),
        exact(value[0, 0]),
        causal=module.is_causal,
        hidden=hidden,
        bias=None if bias is None else exact(bias),
        value_offsets=None if offsets is None else exact(offsets),
        states=exact(call.states[0]),
        memory=exact(memory[0]),
        maps=(w_query, w_key, w_value),
    )
