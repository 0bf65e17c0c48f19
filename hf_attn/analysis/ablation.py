"""How an answer changes without a part of the model or of its input: the check of an attention map.

An attention weight says what was read, not what mattered (Jain & Wallace 2019, arXiv:1902.10186). To leave a
head, an edge or a word out and answer again says by how much the answer changes (Michel et al. 2019,
arXiv:1905.10650; Li et al. 2016, arXiv:1612.08220), and on held-out examples, how often it is still right.
"""

import itertools
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from transformers import PreTrainedTokenizerFast

from hf_attn.evaluation.metrics import (
    Interval,
    Score,
    find_right,
    groups_of_tokens,
    next_logits,
    score_answers,
)
from hf_attn.generation.decoders import is_decoder_only
from hf_attn.generation.generate import check_source, evaluating, greedy_ids, most_tokens
from hf_attn.interpret.interventions import Intervention, count_heads, intervening_by_row
from hf_attn.tasks.base import TEXT, Task, check_count
from hf_attn.tasks.batch import IGNORED, PAD, Batch
from hf_attn.tasks.splits import HELD_OUT, VALIDATION
from hf_attn.utils.text import quote, replace_surrogates

BATCH = 64  # rows that are read at once


@dataclass(frozen=True)
class Trial:
    """One "what happens without …".

    Attributes:
        interventions: what is changed of the attention, in this order.
        without: places of the source's tokens that are left out; the others move up.
        edges: of each example, in all layers and heads: "known" removes those from what is written to what
            it is known to depend on (`Task.alignment`), "control" those to the token before each of these.
    """

    interventions: tuple[Intervention, ...] = ()
    without: tuple[int, ...] = ()
    edges: Literal["", "known", "control"] = ""

    def __post_init__(self) -> None:
        if self.edges not in ("", "known", "control"):
            raise ValueError(f"edges={quote(self.edges)} is not known; choose 'known', 'control' or ''.")

    @property
    def name(self) -> str:
        """For people: "remove cross.1.0", "without token 3"."""
        tokens = [f"without token {place}" for place in self.without]
        edges = [f"remove {self.edges} edges"] if self.edges else []
        return ", ".join([*map(str, self.interventions), *tokens, *edges]) or "whole model"

    @property
    def has_places(self) -> bool:
        """Whether an intervention names a query or a key."""
        return any(i.query is not None or i.key is not None for i in self.interventions)


@dataclass(frozen=True)
class Change:
    """What becomes of one answer in a trial.

    The distributions p without and q with the change are those of the next token, given the answer `before`:

        total variation  ½ Σ_v |p(v) − q(v)|, from 0 to 1        (as Jain & Wallace 2019, §3)
        divergence       KL(p‖q) = Σ_v p(v) log (p(v) / q(v)), in nats

    Attributes:
        trial: what was changed.
        before: ids of the whole model's answer, written greedily; of a classifier the one class.
        after: ids of the changed model's own answer.
        total_variation: one a token of `before`.
        divergence: one a token of `before`.
    """

    trial: Trial
    before: tuple[int, ...]
    after: tuple[int, ...]
    total_variation: tuple[float, ...]
    divergence: tuple[float, ...]

    @property
    def is_other_answer(self) -> bool:
        """Whether the model answers differently."""
        return self.before != self.after


@dataclass(frozen=True)
class Outcome:
    """How often the answers to held-out examples are right in a trial.

    Attributes:
        trial: what was changed.
        examples: how many; of text, tokens.
        exact_match: share that is right as a whole; of text, of next tokens.
        interval: 95 % interval of exact_match.
        drop: the whole model's exact_match less this one; below 0 where the trial helps.
        standard_error: of drop, measured on the same examples: √(Var(d) / n), d = right before − right after;
            where examples came in groups, √(G/(G−1) Σ_g (Σ_i d_i − d̄)²) / n.
        over: what the interval and the error were taken over, as "89 modules"; empty without groups.
        by_size: the score of the examples of each size, as `eval` tells them apart; of text without sizes,
            empty.
    """

    trial: Trial
    examples: int
    exact_match: float
    interval: Interval
    drop: float
    standard_error: float
    over: str = ""
    by_size: Mapping[Hashable, Score] = field(default_factory=dict)


@dataclass(frozen=True)
class Removal:
    """A text's class, and how sure it stays of it without each word.

    Attributes:
        words: what stands between spaces; in a text without spaces, each token.
        predicted: index of the class of the whole text.
        probabilities: of every class, for the whole text.
        remaining: the predicted class's probability without each word.
        predicted_without: index of the class that the text has without each word.
    """

    words: tuple[str, ...]
    predicted: int
    probabilities: tuple[float, ...]
    remaining: tuple[float, ...]
    predicted_without: tuple[int, ...]

    @property
    def drops(self) -> tuple[float, ...]:
        """By how much the predicted class's probability falls without each word; below 0 where it rises.

        drop(w) = p(ŷ | text) − p(ŷ | text without w)
        """
        return tuple(self.probabilities[self.predicted] - left for left in self.remaining)


def list_trials(model, task: Task | None = None) -> list[Trial]:
    """What there is to try on a model's attention; nothing where it has none.

    Without each head, without each layer's attention, then each kind's weights uniform and permuted. With a
    task whose answers are known to depend on tokens, without these edges and without those beside them
    (`Trial.edges`).
    """
    heads, layers, kinds = [], [], []
    for kind, counts in count_heads(model).items():
        for layer, count in enumerate(counts):
            heads += [Intervention("remove", kind, layer, head) for head in range(count)]
            if count > 1:
                layers.append(Intervention("remove", kind, layer))
        kinds += [Intervention(action, kind) for action in ("uniform", "permute")]
    trials = [Trial((intervention,)) for intervention in (*heads, *layers, *kinds)]
    if task is not None and trials and knows_edges(model, task):
        trials += [Trial(edges="known"), Trial(edges="control")]
    return trials


def knows_edges(model, task: Task) -> bool:
    """Whether a model writes what a task knows the alignment of."""
    if not model.can_generate():
        return False
    known = task.worked_example
    return task.alignment(known.source, known.target) is not None


def measure_outcomes(
    model,
    task: Task,
    trials: Sequence[Trial] | None = None,
    examples: int = 200,
    seed: int = 0,
    split: str = HELD_OUT,
) -> Iterator[Outcome]:
    """How often a model is still right on held-out examples: as a whole, then in each trial.

    What is written greedily is right as a whole exactly where each of its tokens is the likeliest after the
    right ones before it: one pass over the right answers tells, and nothing needs to be written.

    Args:
        model: one that learns the task's kind.
        task: gives the examples.
        trials: what to try; `list_trials` where None.
        examples: how many; fewer where there are fewer.
        seed: which examples.
        split: "held-out", or "validation" where something is chosen by the outcomes.

    Raises:
        ValueError: no example, another split, a trial leaves tokens out or names edges that the task does not
            know, or the model has no such kind, layer or head.
    """
    check_count(examples, "examples")
    trials = list_trials(model, task) if trials is None else trials
    has_places = any(trial.has_places for trial in trials)
    for trial in trials:
        refuse_counting(trial, model, task)
    batch = task.measured_examples(split, examples, seed)
    answered = AnsweredExamples(model, task, batch, has_places=has_places)
    for trial in (Trial(), *trials):
        yield answered.measure(model, trial)


def refuse_counting(trial: Trial, model, task: Task) -> None:
    """Refuse what cannot be tried on many examples."""
    if trial.without:
        raise ValueError(f"{trial.name!r}: each held-out example has other tokens; try it on one source.")
    if trial.edges and not knows_edges(model, task):
        raise ValueError(f"{trial.name!r}: task {task.name!r} does not know what an answer depends on.")


class AnsweredExamples:
    """Examples with their right answers, read once, on which one trial after the other is measured.

    It does not hold the model, whose weights must stay as they are.

    Args:
        model: one that learns the task's kind.
        task: gives the examples.
        batch: the examples.
        has_places: whether trials name queries or keys, which short examples may not have.
    """

    def __init__(self, model, task: Task, batch: Batch, *, has_places: bool = False):
        self.task = task
        batch = batch.to(next(model.parameters()).device)
        self.parts = [batch] if has_places else list(_parts_of_like_length(batch))
        self.memories = [_read_sources(model, part) for part in self.parts]
        self.groups = _list_groups(task, self.parts)
        self.sizes = [size for part in self.parts for size in task.sizes_of_tokens(part.labels) or ()]
        self.whole: torch.Tensor | None = None  # which are right, with the whole model

    def judge(self, model, trial: Trial, part: int) -> torch.Tensor:
        """Which answers of a part of the examples are right in a trial: bool [examples], of text [tokens]."""
        batch, memory = self.parts[part], self.memories[part]
        is_encoder_whole = all(intervention.kind != "encoder" for intervention in trial.interventions)
        rows: Sequence[Sequence[Intervention]] = [trial.interventions]
        if trial.edges:
            found = _find_edges(model, self.task, batch, trial.edges)
            rows = [[*trial.interventions, *edges] for edges in found]
        with intervening_by_row(model, rows):
            right = find_right(model, self.task, batch, memory if is_encoder_whole else None)
        return right.cpu()

    def measure(self, model, trial: Trial) -> Outcome:
        """How often the answers are right in a trial."""
        if self.whole is None and trial != Trial():
            self.measure(model, Trial())
        return self.score(trial, [self.judge(model, trial, part) for part in range(len(self.parts))])

    def score(self, trial: Trial, judged: Sequence[torch.Tensor]) -> Outcome:
        """The outcome of what `judge` gave part by part; the whole model's, `Trial()`, comes first."""
        is_right = torch.cat(list(judged))
        if self.whole is None:
            if trial != Trial():
                raise ValueError("The whole model comes first: score what `judge` gives for Trial().")
            self.whole = is_right
        lost = self.whole.double() - is_right.double()
        score = score_answers(is_right.tolist(), self.groups, self.task.groups_name)
        error = _standard_error(lost, self.groups)
        figures = score.examples, score.exact_match, score.interval, float(lost.mean()), error
        by_size = _score_sizes(is_right.tolist(), self.groups, self.sizes, self.task)
        return Outcome(trial, *figures, score.over, by_size)


@dataclass(frozen=True)
class Needed:
    """What of one kind of attention the answers need most: a head, or a layer where no single head is needed.

    Which it is was chosen on validation examples; how much it is needed is measured on held-out ones.

    Attributes:
        whole: the whole model's answers to held-out examples.
        without: its answers without the head or layer.
        heads: each head's outcome on validation examples; empty where the model has too many to try.
    """

    whole: Outcome
    without: Outcome
    heads: tuple[Outcome, ...]


def find_needed(
    model, task: Task, kind: str, examples: int = 500, least: float = 0.05, most_heads: int = 32
) -> Iterator[Needed | None]:
    """What of one kind of attention the answers need most: None after each piece of work, at last what.

    Args:
        model: one that learns the task's kind.
        task: gives the examples.
        kind: "encoder", "decoder" or "cross".
        examples: how many held-out ones are answered, and up to 200 validation ones; fewer where there are
            fewer.
        least: the head without which fewest validation examples stay right is needed where this share of
            them is lost; else the layer whose attention costs most.
        most_heads: of a model with more heads of this kind only layers are tried.
    """
    counts = count_heads(model)[kind]
    layers = [Trial((Intervention("remove", kind, layer),)) for layer in range(len(counts))]
    heads = [
        Trial((Intervention("remove", kind, layer, head),))
        for layer, count in enumerate(counts)
        for head in range(count)
    ]
    heads = heads if len(heads) <= most_heads else []
    found: dict[Trial, Outcome] = {}
    for outcome in measure_outcomes(model, task, [*heads, *layers], min(200, examples), split=VALIDATION):
        found[outcome.trial] = outcome
        yield None
    costliest = max(heads, key=lambda trial: found[trial].drop, default=None)
    if costliest is None or found[costliest].drop < least - 1e-9:
        costliest = max(layers, key=lambda trial: found[trial].drop)
    whole, without = measure_outcomes(model, task, [costliest], examples)
    yield Needed(whole, without, tuple(found[trial] for trial in heads))


def _score_sizes(right: list[bool], groups: list[Hashable], sizes: list, task: Task) -> dict[Hashable, Score]:
    places: dict[Hashable, list[int]] = {}
    for place, size in enumerate(sizes):
        places.setdefault(size, []).append(place)
    return {
        size: score_answers([right[k] for k in of], [groups[k] for k in of], task.groups_name)
        for size, of in sorted(places.items())
    }


def _find_edges(model, task: Task, batch: Batch, which: str) -> list[list[Intervention]]:
    """Interventions for each row of a batch: its known edges removed, or those to the token before each."""
    kind = "decoder" if is_decoder_only(model) else "cross"
    width, found = batch.input_ids.shape[1], []
    for ids, labels in zip(batch.input_ids.tolist(), batch.labels.tolist(), strict=True):
        source = [index for index in ids if index != PAD]
        first, before = (width - 1, width - len(source)) if kind == "decoder" else (0, 0)
        alignment = task.alignment(task.read_source(source), task.decode(labels)) or []
        edges = []
        for place, row in enumerate(alignment[: len([label for label in labels if label != IGNORED])]):
            known = {key for key, needed in enumerate(row) if needed}
            keys = known if which == "known" else {key - 1 for key in known if key} - known
            edges += [
                Intervention("remove", kind, query=first + place, key=before + key) for key in sorted(keys)
            ]
        found.append(edges)
    return found


def _list_groups(task: Task, parts: Sequence[Batch]) -> list[Hashable]:
    """The group of each answer that `find_right` judges, part after part."""
    if task.kind == TEXT:
        firsts = itertools.accumulate(map(len, parts), initial=0)
        return [
            group
            for part, first in zip(parts, firsts, strict=False)
            for group in groups_of_tokens(task, part, first)
        ]
    found = [task.groups_of(part) for part in parts]
    if any(groups is None for groups in found):
        return list(range(sum(map(len, parts))))
    return [group for groups in found for group in groups or ()]


def _standard_error(values: torch.Tensor, groups: Sequence[Hashable]) -> float:
    """That of the mean of [n] values which came in groups; 0 where there is one group only."""
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    where = torch.tensor([numbers[group] for group in groups])
    sums = torch.zeros(len(numbers), dtype=values.dtype).index_add(0, where, values - values.mean())
    count = len(numbers)
    return float((sums.square().sum() * count / (count - 1)).sqrt() / len(values)) if count > 1 else 0.0


def _parts_of_like_length(batch: Batch) -> Iterator[Batch]:
    """A batch in parts, shorter sources first, each part only as wide as its longest example."""
    mask = torch.ones_like(batch.input_ids) if batch.attention_mask is None else batch.attention_mask
    for rows in mask.sum(1).argsort(stable=True).split(BATCH):
        width, labels = int(mask[rows].sum(1).max()), batch.labels[rows]
        if labels.dim() == 2:
            labels = labels[:, : int((labels != IGNORED).sum(1).max())]
        part_mask = mask[rows, :width]
        yield Batch(batch.input_ids[rows, :width], labels, None if part_mask.all() else part_mask)


@torch.no_grad()
def _read_sources(model, batch: Batch):
    """What the encoder makes of the sources: the same in every trial that leaves it whole."""
    if not model.config.is_encoder_decoder:
        return None
    with evaluating(model):
        return model.get_encoder()(batch.input_ids, attention_mask=batch.attention_mask)


def measure_changes(
    model, input_ids: torch.Tensor, trials: Sequence[Trial], max_new_tokens: int | None = None
) -> list[Change]:
    """What becomes of the answer to one source in each trial, many at once.

    Args:
        model: one that writes, or a classifier.
        input_ids: [1, S] source ids.
        trials: each is compared with the whole model's answer to the whole source.
        max_new_tokens: most tokens of an answer; as many as the model has positions for where None.

    Raises:
        ValueError: more than one source, a place that the source or the model has not, a trial that leaves
            nothing of the source, or an answer of no tokens.
    """
    check_source(model, input_ids, max_new_tokens)
    input_ids = input_ids.to(next(model.parameters()).device)
    for trial in trials:
        refuse_trial(trial, input_ids.shape[1], model)
    limit = 1
    if model.can_generate():
        most = most_tokens(model, input_ids.shape[1])
        limit = min(max_new_tokens or most, most)
    batches = [trials[start : start + BATCH] for start in range(0, len(trials), BATCH)]
    return [change for batch in batches for change in _compare(model, input_ids, batch, limit)]


def refuse_trial(trial: Trial, length: int, model) -> None:
    """Refuse to leave out tokens that are not there, or that move the queries and keys a trial names."""
    if trial.edges:
        raise ValueError(f"{trial.name!r} is for held-out examples; of one source, name the edge.")
    for place in trial.without:
        if not 0 <= place < length:
            raise ValueError(f"token {place} is not there: the source has tokens 0 to {length - 1}.")
    if len(set(trial.without)) == length:
        raise ValueError(f"without all {length} tokens nothing remains of the source; leave one.")
    if trial.without and trial.has_places and is_decoder_only(model):
        raise ValueError(
            f"{trial.name!r}: without a token all later places move; try the edge and the token apart."
        )


def _compare(model, input_ids: torch.Tensor, trials: Sequence[Trial], limit: int) -> list[Change]:
    """The changes of a batch of trials; row 0 of what is read is the whole model on the whole source."""
    tried = [Trial(), *trials]
    side = "left" if is_decoder_only(model) else "right"  # behind which an answer is written
    ids, mask = leave_out(model, input_ids[0], [trial.without for trial in tried], side)
    with intervening_by_row(model, [trial.interventions for trial in tried]):
        if model.can_generate():
            rows = greedy_ids(model, ids, mask, limit).tolist()
            answers = [_strip(row, model.config.pad_token_id) for row in rows]
            before = input_ids.new_tensor(answers[0]).repeat(len(tried), 1)
            logits = next_logits(model, Batch(ids, before, mask))
        else:
            logits = next_logits(model, Batch(ids, ids, mask)).unsqueeze(1)
            answers = [(choice,) for choice in logits[:, 0].argmax(-1).tolist()]
    if model.can_generate():
        written = len(answers[0]) + (input_ids.shape[1] - 1 if is_decoder_only(model) else 0)
        refuse_queries(trials, written)
    log_p = logits.double().log_softmax(-1).cpu()  # [1 + trials, T, V]
    p, whole = log_p.exp(), log_p[0]
    varied = (p - p[0]).abs().sum(-1) / 2
    diverged = (p[0] * (whole - log_p)).sum(-1).clamp(min=0)  # rounding alone goes below
    return [
        Change(trial, answers[0], answers[row], tuple(varied[row].tolist()), tuple(diverged[row].tolist()))
        for row, trial in enumerate(trials, start=1)
    ]


def refuse_queries(trials: Sequence[Trial], written: int) -> None:
    """Refuse queries behind the end of the answer, where nothing was changed."""
    for intervention in (one for trial in trials for one in trial.interventions):
        if intervention.kind != "encoder" and (intervention.query or 0) >= written:
            raise ValueError(
                f"query={intervention.query} is not there: {intervention.kind} attention has queries 0 to "
                f"{written - 1} while this answer is written."
            )


def _strip(row: list[int], padding: int) -> tuple[int, ...]:
    """An answer without the padding behind it."""
    while len(row) > 1 and row[-1] == padding:
        row = row[:-1]
    return tuple(row)


def leave_out(
    model, source: torch.Tensor, places: Sequence[Sequence[int]], side: str
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(ids [B, S], mask [B, S] or None): a source [S] without the tokens at places[b] in row b.

    Padding stands on the side, "left" or "right".
    """
    rows = [
        [index for place, index in enumerate(source.tolist()) if place not in without] for without in places
    ]
    padding_token = model.config.get_text_config().pad_token_id or 0
    ids, mask = (
        torch.nn.utils.rnn.pad_sequence(
            [torch.tensor(row) for row in values], batch_first=True, padding_value=padding, padding_side=side
        ).to(source.device)
        for values, padding in ((rows, padding_token), ([[1] * len(row) for row in rows], 0))
    )
    return ids, None if mask.all() else mask


def group_words(text: str, tokenizer: PreTrainedTokenizerFast) -> list[tuple[str, list[int]]]:
    """(word, places of its tokens) for each word of a text: what stands between spaces, else each token."""
    encoding = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    tokens = [
        (place, begin, end)
        for place, ((begin, end), is_special) in enumerate(
            zip(encoding["offset_mapping"], encoding["special_tokens_mask"], strict=True)
        )
        if not is_special and end > begin
    ]
    if len(spans) < 2:
        pieces = [(text[begin:end].strip(), [place]) for place, begin, end in tokens]
        return [(piece, places) for piece, places in pieces if piece]
    groups: dict[tuple[int, int], list[int]] = {}
    for place, _, end in tokens:
        # a token may begin with the space before its word: its last character decides
        span = next((span for span in spans if span[0] < end <= span[1]), None)
        if span is not None:
            groups.setdefault(span, []).append(place)
    return [(text[slice(*span)], places) for span, places in groups.items()]


def measure_removal(model, tokenizer: PreTrainedTokenizerFast, text: str) -> Removal:
    """Take each word out of a text in turn, and see how sure a classifier stays of the class it named.

    Args:
        model: a sequence classifier.
        tokenizer: the model's; it must be a fast one, which knows where each token stands.
        text: the input; of a longer one, the first tokens are read, as many as the model has positions for.

    Raises:
        ValueError: the model is no classifier, or the text has no words.
    """
    if model.can_generate():
        raise ValueError(
            "Words are taken out before a classifier; this model writes: take tokens out, by measure_changes."
        )
    text = replace_surrogates(text)
    ids, groups = _cut(tokenizer(text)["input_ids"], group_words(text, tokenizer), model, tokenizer)
    if not groups:
        raise ValueError(f"{quote(text)} has no words to take out; write some.")
    source = torch.tensor(ids, device=next(model.parameters()).device)
    left_out = [[], *[places for _, places in groups]]
    logits = []
    for start in range(0, len(left_out), BATCH):
        rows, mask = leave_out(model, source, left_out[start : start + BATCH], "right")
        logits.append(next_logits(model, Batch(rows, rows, mask)))
    probabilities = torch.cat(logits).float().softmax(-1).cpu()
    predicted = int(probabilities[0].argmax())
    return Removal(
        tuple(word for word, _ in groups),
        predicted,
        tuple(probabilities[0].tolist()),
        tuple(probabilities[1:, predicted].tolist()),
        tuple(probabilities[1:].argmax(dim=1).tolist()),
    )


def _cut(ids: list[int], groups: list[tuple[str, list[int]]], model, tokenizer):
    """The first tokens, with the end token behind, and the words that are among them."""
    positions = getattr(model.config, "max_position_embeddings", tokenizer.model_max_length)
    most = min(positions, tokenizer.model_max_length)
    if len(ids) <= most:
        return ids, groups
    shorter = [(word, [place for place in places if place < most - 1]) for word, places in groups]
    return [*ids[: most - 1], ids[-1]], [(word, places) for word, places in shorter if places]
