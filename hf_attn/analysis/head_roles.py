"""What each head does: how much of its weight falls on the keys of a role.

    score = mean over queries of Σ_{k in the role's keys} A_qk

A query counts where it has a choice: it may attend to a key of the role and to another one. Every score is
compared with that of even attention, which is chance, and of the same model untrained: a role that an
untrained head plays as well was not learned. Roles of this kind: Clark et al. 2019, arXiv:1906.04341; Voita
et al. 2019, arXiv:1905.09418.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import PreTrainedModel

from hf_attn.analysis.head_metrics import mean_over_queries, measure_theory, normalised_entropy, sink_share
from hf_attn.architectures.registry import drawing_weights
from hf_attn.interpret.attention_maps import KINDS, AttentionMaps, attention_maps
from hf_attn.models.config_checks import check_choice, check_number
from hf_attn.models.configuration_attn import MOST_POSITIONS
from hf_attn.tasks.base import CLASSES, Task, check_count
from hf_attn.tasks.tokenizers.from_vocabulary import build_tokenizer
from hf_attn.utils.text import quote

SEPARATORS = frozenset((*".,;:!?。、，；：！？", "</s>", "[SEP]", "<sep>", "<|endoftext|>", "<|im_end|>"))
SPACES = "▁Ġ "  # how tokenizers write the space before a word


@dataclass(frozen=True)
class Role:
    """What a head may do: what its score is, from 0 to 1, and what even attention over n keys scores."""

    definition: str
    even: str


ROLES: Mapping[str, Role] = {
    "diagonal": Role("weight on the key at the query's own place", "1/n"),
    "previous": Role("weight on the key one place before the query's", "1/n"),
    "next": Role("weight on the key one place after the query's", "1/n"),
    "first": Role("weight on the first key, a sink where nothing is to be read there", "1/n"),
    "separator": Role("weight on ends and punctuation", "their share of the keys"),
    "uniform": Role("entropy over its highest, ln n", "1"),
    "alignment": Role(
        "weight on what the answer is known to depend on", "the share of the keys it depends on"
    ),
}
ROLES_OF_MANY: Mapping[str, Role] = {  # examples; of one there is but one side of a choice
    **ROLES,
    "chooses": Role(
        "alignment where the earlier of two words decides, or where the later one does: the smaller mean",
        "the smaller share of the keys",
    ),
}
SIDES = {"earlier": True, "later": False}  # of a choice between two words: which of them it is
Figures = dict[str, torch.Tensor]  # name in ROLES or THEORY → [L, H]


@dataclass(frozen=True)
class HeadRoles:
    """What the heads of a model do, on the mean of some examples.

    Attributes:
        examples: how many.
        trained: kind ("encoder", "decoder", "cross") → name in ROLES_OF_MANY and in THEORY → [L, H]; NaN
            where no query had an occasion, such as the key after it in a decoder.
        untrained: the same of the same model before its first step; empty where it was not asked for.
        even: kind → name → what even attention scores on the same examples.
    """

    examples: int
    trained: dict[str, Figures]
    untrained: dict[str, Figures]
    even: dict[str, dict[str, float]]


def build_attention_mask(kind: str, queries: int, keys: int) -> torch.Tensor:
    """Who may attend to whom where nothing is padded: bool [Q, K].

    Args:
        kind: "encoder" or "cross": every key; "decoder": the query's own place and those before it.
        queries: Q; of a decoder the last Q places of K.
        keys: K.

    Raises:
        ValueError: another kind, negative sizes, or a decoder with more queries than keys.
    """
    check_choice("kind", kind, KINDS)
    check_number("queries", queries, 0, MOST_POSITIONS, 4)
    check_number("keys", keys, 0, MOST_POSITIONS, 4)
    if kind != "decoder":
        return torch.ones(queries, keys, dtype=torch.bool)
    if queries > keys:
        raise ValueError(
            f"A decoder reads what it has written: {queries} queries need as many keys, not {keys}."
        )
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


def find_keys(kind: str, queries: int, keys: int, key_tokens: Sequence[str] = ()) -> dict[str, torch.Tensor]:
    """The keys of each role that is a place or a token: role → bool [Q, K].

    In "cross", the query's own place is that of the same number. A decoder's Q queries are the last places of
    K. `key_tokens` are K labels, and ValueError where they are a text or not K; without them nothing is a
    separator.
    """
    if isinstance(key_tokens, str):
        raise ValueError(f"key_tokens={quote(key_tokens)} is a text: give its tokens, one a key.")
    if key_tokens and len(key_tokens) != keys:
        raise ValueError(f"key_tokens has {len(key_tokens)} tokens for {keys} keys: give one a key.")
    places = torch.arange(queries) + (keys - queries if kind == "decoder" else 0)
    offsets = torch.arange(keys) - places[:, None]
    separators = [is_separator(token) for token in key_tokens] or [False] * keys
    return {
        "diagonal": offsets == 0,
        "previous": offsets == -1,
        "next": offsets == 1,
        "separator": torch.tensor(separators).expand(queries, keys),
    }


def is_separator(token: str) -> bool:
    """Whether a token ends or divides a text.

    >>> [is_separator(token) for token in ("</s>", ".", "▁,", "...", "and", "+")]
    [True, True, True, True, False, False]
    """
    bare = token.strip(SPACES)
    return bare in SEPARATORS or (bare != "" and all(sign in SEPARATORS for sign in bare))


def share_on(weights: torch.Tensor, chosen: torch.Tensor, may_attend: torch.Tensor) -> torch.Tensor:
    """How much of its weight a head spends on some keys: [...], NaN where no query has a choice.

    It is the mean over the queries that attend to something and may attend both to a chosen key and to
    another one. The weights are [..., Q, K]; both masks are bool [Q, K].
    """
    has_choice = (chosen & may_attend).any(-1) & (~chosen & may_attend).any(-1)  # [Q]
    return mean_over_queries((weights * chosen).sum(-1), has_choice & (weights.sum(-1) > 0))


def measure_roles(
    weights: torch.Tensor,
    kind: str,
    key_tokens: Sequence[str] = (),
    alignment: Sequence[Sequence[int]] | None = None,
    may_attend: torch.Tensor | None = None,
) -> Figures:
    """The score of each head in each role, in one example: role → [L, H], from 0 to 1, NaN without occasion.

    Args:
        weights: [L, H, Q, K].
        kind: "encoder", "decoder" or "cross".
        key_tokens: K labels; without them there is no "separator".
        alignment: [Q][K], above 0 where a query is known to depend on a key; without it no "alignment".
        may_attend: bool [Q, K] (default: `build_attention_mask`'s). Padding must not be attended; "first" is
            the first key that may be.

    Raises:
        ValueError: an unknown kind, or tokens or an alignment of another shape.
    """
    queries, keys = weights.shape[-2:]
    usual = build_attention_mask(kind, queries, keys)
    may_attend = usual if may_attend is None else may_attend
    weights = weights.double() * may_attend.any(-1, keepdim=True)  # what padding asks does not count
    places = find_keys(kind, queries, keys, key_tokens)
    if not key_tokens:
        del places["separator"]
    if alignment is not None:
        places["alignment"] = torch.as_tensor(alignment) > 0
        if places["alignment"].shape != (queries, keys):
            raise ValueError(
                f"alignment has shape {list(places['alignment'].shape)}; give one row for each of {queries} "
                f"queries and one column for each of {keys} keys."
            )
    scores = {role: share_on(weights, chosen, may_attend) for role, chosen in places.items()}
    first = int(may_attend.any(-2).int().argmax())
    scores["first"] = sink_share(weights[..., first:], may_attend[..., first:])
    scores["uniform"] = normalised_entropy(weights, may_attend).nanmean(-1)
    return {role: scores[role] for role in ROLES if role in scores}


def spread_evenly(may_attend: torch.Tensor) -> torch.Tensor:
    """Attention that prefers no key: 1/n on each of the n that a query may attend to, [Q, K]."""
    return may_attend / may_attend.sum(-1, keepdim=True).clamp(min=1).double()


def measure_heads(
    maps: AttentionMaps, alignment: Sequence[Sequence[int]] | None = None
) -> dict[str, Figures]:
    """Roles and theory views of every head, in one example without padding.

    Args:
        maps: of the example.
        alignment: [T][S] of the task, for the map in which the answer reads the source.

    Returns:
        Kind → name in ROLES and in THEORY → [L, H].
    """
    found = {}
    for kind in maps.kinds:
        weights, (_, keys) = getattr(maps, kind), maps.sides(kind)
        roles = measure_roles(weights, kind, keys, maps.align(kind, alignment))
        found[kind] = {**roles, **measure_theory(weights, build_attention_mask(kind, *weights.shape[-2:]))}
    return found


def measure_even_attention(
    maps: AttentionMaps, alignment: Sequence[Sequence[int]] | None = None
) -> dict[str, dict[str, float]]:
    """What even attention would score where `maps` were made: kind → name in ROLES and in THEORY → figure."""
    measured = measure_heads(_spread_maps(maps), alignment)
    return {kind: {name: float(score) for name, score in own.items()} for kind, own in measured.items()}


def _spread_maps(maps: AttentionMaps) -> AttentionMaps:
    """The maps of one layer of one head that attends evenly."""
    masks = {kind: build_attention_mask(kind, *getattr(maps, kind).shape[-2:]) for kind in maps.kinds}
    even: dict[str, Any] = {kind: spread_evenly(mask)[None, None] for kind, mask in masks.items()}
    return replace(maps, **even)


def build_untrained(model: PreTrainedModel, seed: int = 0) -> PreTrainedModel:
    """The same model before its first step: the same configuration, weights drawn anew from the seed.

    With the seed that the model was trained from, they are the weights that its training began with.
    """
    with drawing_weights(seed):
        untrained = type(model)(copy.deepcopy(model.config))
    return untrained.to(next(model.parameters()).device).eval()  # type: ignore[arg-type]


def measure_head_roles(
    model: PreTrainedModel, task: Task, examples: int = 100, seed: int = 0, *, with_untrained: bool = True
) -> HeadRoles:
    """What each head does, on the mean of held-out examples whose right answers are written.

    Args:
        model: encoder, encoder-decoder or decoder-only; or recurrent with a score function, whose alignment
            is one head of one cross map.
        task: what it learned.
        examples: how many held-out examples; fewer where there are fewer.
        seed: of the untrained weights.
        with_untrained: whether the same model untrained is measured on the same examples.

    Raises:
        ValueError: no example, or a model without attention.
    """
    check_count(examples, "examples")
    untrained = build_untrained(model, seed) if with_untrained else None
    tokenizer = build_tokenizer(task)
    batch = task.held_out(examples)
    of_trained, of_untrained, of_even = [], [], []
    for row in range(len(batch)):
        maps = attention_maps(model, batch, row=row, tokenizer=tokenizer)
        if maps.answering is None:
            raise ValueError("This model has no attention to measure: it reads step by step.")
        alignment = chosen = None
        if task.kind != CLASSES:
            written = task.read_source(maps.source_ids), task.decode(maps.answer_ids)
            alignment, chosen = task.alignment(*written), task.chosen_first(*written)
        of_trained.append(_measure_example(maps, alignment, chosen))
        of_even.append(_measure_example(_spread_maps(maps), alignment, chosen))
        if untrained is not None:
            maps = attention_maps(untrained, batch, row=row, tokenizer=tokenizer)
            of_untrained.append(_measure_example(maps, alignment, chosen))
    trained, before, spread = (_take_smaller(average(of)) for of in (of_trained, of_untrained, of_even))
    even = {kind: {name: float(mean) for name, mean in scores.items()} for kind, scores in spread.items()}
    return HeadRoles(len(batch), trained, before, even)


def _measure_example(maps: AttentionMaps, alignment, chosen: Sequence[bool | None] | None):
    """`measure_heads`, and the alignment on each side of a choice, by its name in SIDES."""
    found = measure_heads(maps, alignment)
    if chosen is None or maps.answering is None:
        return found
    kind = maps.answering.kind
    for name, side in SIDES.items():
        rows = [row if of is side else [0] * len(row) for row, of in zip(alignment, chosen, strict=True)]
        roles = measure_roles(getattr(maps, kind), kind, alignment=maps.align(kind, rows))
        found[kind][name] = roles["alignment"]
    return found


def _take_smaller(means: dict[str, Figures]) -> dict[str, Figures]:
    """The role "chooses" of the alignments on both sides."""
    for figures in means.values():
        sides = [figures.pop(name) for name in SIDES if name in figures]
        if sides:
            figures["chooses"] = torch.minimum(*sides)
    return means


def average(examples: Sequence[Mapping[str, Mapping]]) -> dict[str, Figures]:
    """The mean of each figure over the examples that have it."""
    if not examples:
        return {}
    means: dict[str, Figures] = {}
    for kind in examples[0]:
        means[kind] = {}
        for name in dict.fromkeys(name for example in examples for name in example[kind]):
            measured = [torch.as_tensor(example[kind][name]) for example in examples if name in example[kind]]
            means[kind][name] = torch.stack(measured).nanmean(0)
    return means
