"""The residual stream of a model, layer by layer: what it would expect there, and what of it decides.

    x_0 = the embeddings,  x_l = what layer l gives        [N, D] each, l = 1 … L

Its own last norm and head read a stream, and its own layers go on from one that was put in: no architecture
is listed, and what comes out of x_L is the model's own answer.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from hf_attn.analysis.predictions import read_arguments
from hf_attn.generation.generate import evaluating

ROWS = 64  # that are read at once


@dataclass(frozen=True, eq=False)
class Patching:
    """How far one place of one layer brings a changed text's answer back to that of the clean text.

        recovery = (p(patched) − p(changed)) / (p(clean) − p(changed)), p of the clean text's answer

    Attributes:
        answer: id of the clean text's likeliest token, at the place that is asked.
        clean: its probability after the clean text.
        changed: its probability after the changed text.
        patched: [L, S], its probability where place s of x_l, which layer l + 1 reads, is the clean text's.
    """

    answer: int
    clean: float
    changed: float
    patched: torch.Tensor

    @property
    def recovery(self) -> torch.Tensor:
        """[L, S]: 0 where a patch changes nothing, 1 where it brings all back; NaN where nothing was lost."""
        lost = self.clean - self.changed
        return (self.patched - self.changed) / (lost if lost else torch.nan)


def logit_lens(
    model: PreTrainedModel,
    input_ids: torch.Tensor | Mapping[str, Any],
    target_ids: torch.Tensor | None = None,
) -> torch.Tensor:
    """What the model would expect at each place, were x_l its last layer's: log p, [L + 1, N, V].

    nostalgebraist 2020, "interpreting GPT: the logit lens". The last is the model's own.

    Args:
        model: one that has a head over its vocabulary, as `predict_tokens` takes it.
        input_ids: [1, S] ids, or what a tokenizer returns for one text.
        target_ids: [1, T] ids that an encoder-decoder writes, whose decoder is then looked at: N = T; of
            other models N = S, and there is none.

    Raises:
        ValueError: a model without such a head or such layers, or a target that is missing or not read.
    """
    arguments = read_arguments(model, input_ids, target_ids)
    layers = find_layers(model, of_target="decoder_input_ids" in arguments)
    streams = _read_streams(model, layers, arguments)
    found = []
    for part in streams.split(ROWS):
        with _putting(layers[-1], part):
            found.append(_logits(model, arguments, len(part)))
    return torch.cat(found).float().log_softmax(-1).cpu()


def patch_activations(
    model: PreTrainedModel,
    clean_ids: torch.Tensor,
    changed_ids: torch.Tensor,
    target_ids: torch.Tensor | None = None,
    place: int = -1,
) -> Patching:
    """Put each place of each layer's stream of a clean text into a changed one, one at a time.

    Vig et al. 2020, arXiv:2004.12265; Meng et al. 2022, arXiv:2202.05262.

    Args:
        model: one that has a head over its vocabulary.
        clean_ids: [1, S] ids.
        changed_ids: [1, S] ids of another text of as many tokens.
        target_ids: [1, T] ids that an encoder-decoder writes, whose encoder is then patched.
        place: where the answer is expected: of the text, or of the target; −1 is the last.

    Raises:
        ValueError: texts of unequal length, a place that is not there, or a model without a head over its
            vocabulary.
    """
    clean, changed = (read_arguments(model, ids, target_ids) for ids in (clean_ids, changed_ids))
    lengths = clean_ids.shape[1], changed_ids.shape[1]
    if lengths[0] != lengths[1]:
        raise ValueError(
            f"changed_ids has {lengths[1]} tokens and clean_ids {lengths[0]}: give texts of as many tokens, "
            "or no place of one is a place of the other."
        )
    layers = find_layers(model, of_target=False)
    own, other = (_logits(model, arguments, 1)[0] for arguments in (clean, changed))
    if not -len(own) <= place < len(own):
        raise ValueError(f"place={place} is not there: there are places 0 to {len(own) - 1}.")
    answer = int(own[place].argmax())
    before, after = (float(logits[place].float().softmax(-1)[answer]) for logits in (own, other))
    streams = _read_streams(model, layers, clean)  # [L + 1, S, D]
    patched = torch.zeros(len(layers), lengths[0])
    for layer, module in enumerate(layers):
        for places in torch.arange(lengths[0]).split(ROWS):
            with _patching(module, places, streams[layer, places]):
                logits = _logits(model, changed, len(places))
            patched[layer, places] = logits[:, place].float().softmax(-1)[:, answer].cpu()
    return Patching(answer, before, after, patched)


def find_layers(model: PreTrainedModel, *, of_target: bool) -> list[nn.Module]:
    """The layers that a text, or a target, goes through, in order; ValueError where they are not known."""
    stack = model.base_model
    if model.config.is_encoder_decoder:
        stack = model.get_decoder() if of_target else model.get_encoder()
    for part in (stack, *stack.modules(), model):
        recorded = (getattr(part, "_can_record_outputs", None) or {}).get("hidden_states")
        target = getattr(recorded, "target_class", recorded)
        if isinstance(target, type) and (
            found := [one for one in stack.modules() if isinstance(one, target)]
        ):
            return found
    raise ValueError(f"{type(model).__name__} does not say which of its modules are layers.")


@torch.no_grad()
def _logits(model, arguments: dict, rows: int) -> torch.Tensor:
    """[rows, N, V] of so many equal rows."""
    each = {name: ids.expand(rows, -1) for name, ids in arguments.items() if isinstance(ids, torch.Tensor)}
    with evaluating(model):
        return model(**arguments | each).logits


def _read_streams(model, layers: list[nn.Module], arguments: dict) -> torch.Tensor:
    """x_0 … x_L, [L + 1, N, D]."""
    streams: list[torch.Tensor] = []

    def note_input(_, args, kwargs):
        streams.append(args[0] if args else kwargs["hidden_states"])

    def note(_, __, output):
        streams.append(_stream_of(output))

    with contextlib.ExitStack() as undo:
        undo.callback(layers[0].register_forward_pre_hook(note_input, with_kwargs=True).remove)
        for layer in layers:
            undo.callback(layer.register_forward_hook(note).remove)
        _logits(model, arguments, 1)
    return torch.cat(streams)


def _stream_of(output) -> torch.Tensor:
    return output[0] if isinstance(output, tuple) else output


@contextlib.contextmanager
def _putting(layer: nn.Module, streams: torch.Tensor) -> Iterator[None]:
    """Let a layer give these streams [rows, N, D]."""

    def put(_, __, output):
        return (streams, *output[1:]) if isinstance(output, tuple) else streams

    hook = layer.register_forward_hook(put)
    try:
        yield
    finally:
        hook.remove()


@contextlib.contextmanager
def _patching(layer: nn.Module, places: torch.Tensor, vectors: torch.Tensor) -> Iterator[None]:
    """Let a layer read vectors [rows, D] at places [rows], one a row."""

    def patch(_, args, kwargs):
        stream = (args[0] if args else kwargs["hidden_states"]).clone()
        stream[torch.arange(len(places)), places] = vectors
        return ((stream, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": stream})

    hook = layer.register_forward_pre_hook(patch, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()
