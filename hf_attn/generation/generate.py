"""Write an answer by one of STRATEGIES, and keep what each token was chosen from."""

import contextlib
import math
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch

from hf_attn.architectures.map_sizes import side_of
from hf_attn.generation.beam_search import BeamSearch, beam_search
from hf_attn.generation.decoders import LeanDecoder, is_decoder_only, open_decoder
from hf_attn.generation.strategies import STRATEGIES, complete_settings
from hf_attn.models.config_checks import check_number

MOST_NEW_TOKENS = 1_048_576  # as many as there are positions at most
UNFINISHED = 0.5  # once at most this share of the rows is unfinished, decoding goes on with those only
TINY_TEMPERATURE = 1e-6  # below it, float32 cannot tell a softmax from the likeliest token
# model → its lock: mode and attention implementation belong to the model, not to the call
_LOCKS: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_LOCKING = threading.Lock()


@dataclass(frozen=True)
class Choice:
    """One step of writing.

    Attributes:
        token: id that was written.
        probabilities: [V], the model's own, before temperature and cut.
        allowed: [V], what the token was drawn from: after temperature and cut, summing to 1; greedy and beam
            search draw nothing, all weight stands on the token.
    """

    token: int
    probabilities: torch.Tensor
    allowed: torch.Tensor


@dataclass(frozen=True)
class Generation:
    """What was written for one source.

    Attributes:
        ids: token ids, `</s>` last where it was reached.
        score: sum of log p over the tokens, by the model's own probabilities.
        choices: one a token.
        beams: all that beam search saw; None where it was not asked.
    """

    ids: tuple[int, ...]
    score: float
    choices: tuple[Choice, ...]
    beams: BeamSearch | None = None


@contextlib.contextmanager
def evaluating(model) -> Iterator[None]:
    """Let dropout rest; afterwards every module is in the mode that it was in, whatever happened.

    Whoever reads with the same model in here from another thread waits: one may have switched its attention.
    """
    with _LOCKING:
        lock = _LOCKS.setdefault(model, threading.RLock())
    with lock:
        trained = [module for module in model.modules() if module.training]
        for module in trained:
            module.training = False
        try:
            yield
        finally:
            for module in trained:
                module.training = True


def most_tokens(model, source_length: int) -> int:
    """How many tokens a model can write: as many as it has positions for, the last one is never read.

    One that counts in the source's text, without a table of places, writes answers as long as the source.
    """
    positions = getattr(side_of(model.config, "decoder"), "max_position_embeddings", None)
    if positions is None or positions < 0:  # a recurrent model could go on for ever
        return model.generation_config.max_new_tokens or 64
    if is_decoder_only(model):
        return positions - source_length + 1
    return max(positions, source_length) if getattr(model.get_decoder(), "has_no_end", False) else positions


def _end_ids(model) -> list[int]:
    holder = model.config if hasattr(model.config, "eos_token_id") else model.generation_config
    end = holder.eos_token_id
    if end is None:
        return []
    return end if isinstance(end, list) else [end]


def greedy_ids(
    model, input_ids, attention_mask=None, max_new_tokens: int = 64, build_decoder=open_decoder
) -> torch.Tensor:
    """Write the likeliest token each time, a whole batch at once. `model.generate` is the plain twin.

    Args:
        model: an encoder-decoder or a decoder-only model with a head.
        input_ids: [B, S]; padded on the left for a decoder-only model.
        attention_mask: [B, S], 1 = token; None where nothing is padded.
        max_new_tokens: most tokens a row.
        build_decoder: called with model, input_ids and attention_mask; IncrementalDecoder is the plain twin.

    Returns:
        [B, T ≤ max_new_tokens] ids without the start token; padding behind `</s>`.

    Raises:
        ValueError: max_new_tokens out of range, or the model has not so many positions.
    """
    check_number("max_new_tokens", max_new_tokens, 1, MOST_NEW_TOKENS, example=64)
    ends = _end_ids(model)
    ids = torch.zeros((len(input_ids), max_new_tokens), dtype=torch.long, device=input_ids.device)
    rows = torch.arange(len(ids), device=ids.device)  # rows of ids that the decoder writes
    unfinished = list(range(len(ids)))  # of those, the ones without an end; others write on, unread
    token, place = None, 0
    with evaluating(model), torch.inference_mode():
        decoder = build_decoder(model, input_ids, attention_mask)
        for place in range(max_new_tokens):
            token = decoder.next_logits(token).argmax(-1, keepdim=True)
            ids[rows, place] = token[:, 0]
            if ends:
                chosen = token[:, 0].tolist()
                unfinished = [row for row in unfinished if chosen[row] not in ends]
            if not unfinished:
                break
            if len(unfinished) <= UNFINISHED * len(rows) and isinstance(decoder, LeanDecoder):
                kept = torch.tensor(unfinished, device=ids.device)
                decoder.reorder_rows(kept)
                rows, token, unfinished = rows[kept], token[kept], list(range(len(kept)))
    ids = ids[:, : place + 1]
    is_end = torch.isin(ids, ids.new_tensor(ends))
    return ids.masked_fill(is_end.cumsum(1) > is_end.int(), model.config.pad_token_id)


def temper(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """Weigh by p ∝ exp(logit / temperature), [V]; at 0 all weight stands on the likeliest."""
    if temperature < TINY_TEMPERATURE:
        return torch.zeros_like(logits).scatter_(-1, logits.argmax(-1, keepdim=True), 1.0)
    highest = logits.max()  # taken off first, a small temperature cannot make infinity of it
    return ((logits - highest) / temperature).softmax(-1)


def generate_answer(
    model,
    input_ids: torch.Tensor,
    strategy: str = "greedy",
    *,
    max_new_tokens: int | None = None,
    **settings: float | None,
) -> Generation:
    """Write an answer to one source, and keep what each step chose from.

    A classifier writes one token, the class; strategies other than greedy are for models that write.

    Args:
        model: an encoder-decoder, a decoder-only model or a classifier.
        input_ids: [1, S] source ids.
        strategy: a name in STRATEGIES: "greedy", "beam", "top-k", "nucleus" or "min-p".
        max_new_tokens: most tokens; as many as the model has positions for where None.
        **settings: parameters of the strategy, as its row names and limits them: num_beams and length_penalty
            of "beam"; top_k of "top-k", top_p of "nucleus", min_p of "min-p", each with temperature and seed.
            What is None has its default.

    Raises:
        ValueError: an unknown strategy or one that is not for this model, a setting that it does not use or
            that is out of its limits, or more than one source.
    """
    chosen = complete_settings(strategy, settings)
    check_source(model, input_ids, max_new_tokens)
    if not model.can_generate():
        if strategy != "greedy":
            kind = type(model).__name__
            raise ValueError(f"{kind} names a class; strategy={strategy!r} is for models that write.")
        return _classify(model, input_ids)
    if strategy == "beam":
        found = search_beams(model, input_ids, **chosen, max_new_tokens=max_new_tokens)
        best = found.answers[0]
        return Generation(best.ids, best.log_probability, choices_of(found, best.node), found)
    limit = max_new_tokens or most_tokens(model, input_ids.shape[1])
    cut, temperature = STRATEGIES[strategy].cut, chosen.pop("temperature", 0)
    generator = torch.Generator().manual_seed(chosen.pop("seed", 0))

    def allowed(logits: torch.Tensor) -> torch.Tensor:
        tempered = temper(logits, temperature)
        return cut(tempered, **chosen) if cut else tempered

    with evaluating(model):
        return _step_by_step(model, input_ids, allowed, generator, limit)


@torch.no_grad()
def _classify(model, input_ids) -> Generation:
    """The likeliest class as the one token that is written."""
    with evaluating(model):
        probabilities = model(input_ids).logits[0].float().softmax(-1).cpu()
    choice = int(probabilities.argmax())
    allowed = torch.zeros_like(probabilities)
    allowed[choice] = 1
    score = math.log(max(float(probabilities[choice]), 1e-45))
    return Generation((choice,), score, (Choice(choice, probabilities, allowed),))


def check_ids(name: str, ids: torch.Tensor, stack) -> None:
    """Refuse ids that the model, or the decoder that reads them, has no embedding for."""
    size = getattr(stack.get_input_embeddings(), "num_embeddings", None)
    if size is not None and len(strange := ids[(ids < 0) | (ids >= size)]):
        raise ValueError(
            f"The {name} holds the id {int(strange[0])}, and this model knows 0 to {size - 1}: use the "
            "tokenizer that belongs to it."
        )


def check_source(model, input_ids: torch.Tensor, max_new_tokens: int | None) -> None:
    """Refuse several sources at once, ids that the model does not know, and an answer of no token."""
    if not isinstance(input_ids, torch.Tensor):
        raise ValueError(f"input_ids is a {type(input_ids).__name__}; give a tensor of ids, [1, S].")
    if input_ids.dim() != 2 or len(input_ids) != 1:
        raise ValueError(f"input_ids has shape {list(input_ids.shape)}; give one source, [1, S].")
    if not input_ids.shape[1]:
        raise ValueError("input_ids holds no token; give at least one.")
    check_ids("input", input_ids, model)
    if max_new_tokens is not None:
        check_number("max_new_tokens", max_new_tokens, 1, MOST_NEW_TOKENS, example=64)


@torch.no_grad()
def _step_by_step(
    model, input_ids, allowed: Callable[[torch.Tensor], torch.Tensor], generator, limit: int
) -> Generation:
    decoder = open_decoder(model, input_ids)
    token = None
    choices: list[Choice] = []
    while len(choices) < limit:
        logits = decoder.next_logits(token)[0].float().cpu()
        drawn_from = allowed(logits)
        choice = int(torch.multinomial(drawn_from, 1, generator=generator))
        choices.append(Choice(choice, logits.softmax(-1), drawn_from))
        if choice in _end_ids(model):
            break
        token = input_ids.new_full((1, 1), choice)
    score = sum(math.log(max(float(c.probabilities[c.token]), 1e-45)) for c in choices)
    return Generation(tuple(c.token for c in choices), score, tuple(choices))


def search_beams(
    model,
    input_ids: torch.Tensor,
    num_beams: int = 4,
    *,
    length_penalty: float = 1.0,
    early_stopping: bool | Literal["never"] = False,
    max_new_tokens: int | None = None,
) -> BeamSearch:
    """Search the likeliest answers to one source, and keep the whole tree: see `beam_search`.

    Raises:
        ValueError: a setting out of its range, more than one source, or a model that does not write.
    """
    complete_settings("beam", {"num_beams": num_beams, "length_penalty": length_penalty})
    check_source(model, input_ids, max_new_tokens)
    if not model.can_generate():
        raise ValueError(f"{type(model).__name__} names a class; beam search is for models that write.")
    if early_stopping not in (True, False, "never"):
        raise ValueError(f'early_stopping={early_stopping!r} must be True, False or "never".')
    limit = max_new_tokens or most_tokens(model, input_ids.shape[1])
    with evaluating(model), torch.no_grad():
        return beam_search(
            open_decoder(model, input_ids),
            num_beams,
            limit,
            _end_ids(model),
            length_penalty=length_penalty,
            early_stopping=early_stopping,
        )


def choices_of(found: BeamSearch, node: int) -> tuple[Choice, ...]:
    """What each token of a hypothesis was chosen from."""
    choices = []
    for place in found.path(node):
        probabilities = found.nodes[found.nodes[place].parent].probabilities
        token = found.nodes[place].token
        allowed = torch.zeros_like(probabilities).index_fill(0, torch.tensor(token), 1.0)
        choices.append(Choice(token, probabilities, allowed))
    return tuple(choices)
