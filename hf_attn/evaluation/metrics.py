"""How good a model is on examples that training never saw, writing freely."""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy
import torch

from hf_attn.architectures.memory import count_activations
from hf_attn.generation.decoders import is_decoder_only
from hf_attn.generation.generate import evaluating, greedy_ids
from hf_attn.models.positions import POSITION_TYPES
from hf_attn.tasks.base import CLASSES, SEQUENCE, TEXT, Task, check_count
from hf_attn.tasks.batch import END, IGNORED, PAD, Batch
from hf_attn.tasks.splits import HELD_OUT

RESAMPLES = 2000  # of groups, for an interval
LARGEST_PART = 2**29  # numbers that examples measured together would leave for training: they leave fewer
AT_ONCE, PASSAGES_AT_ONCE = 512, 64  # examples, at most


@dataclass(frozen=True)
class Interval:
    """A confidence interval, both ends included."""

    low: float
    high: float


@dataclass(frozen=True)
class Score:
    """A share and how sure it is.

    Attributes:
        examples: how many were tried.
        exact_match: share that is right as a whole.
        interval: 95 % interval of exact_match: Wilson's; where examples came in groups, over these.
        measures: means of the task's other figures (token_accuracy, …); perplexity of text.
        tally: group → how many of its examples are right, and how many there are; empty without groups.
        groups: what the groups are, as "modules".
    """

    examples: int
    exact_match: float
    interval: Interval
    measures: dict[str, float] = field(default_factory=dict)
    tally: Mapping[Hashable, tuple[int, int]] = field(default_factory=dict, repr=False)
    groups: str = ""

    @property
    def over(self) -> str:
        """What the interval was resampled over, as "89 modules"; empty where it is Wilson's."""
        return f"{len(self.tally):,} {self.groups}" if are_grouped(self.tally) else ""


@dataclass(frozen=True)
class Evaluation:
    """Held-out figures of a model.

    Attributes:
        overall: over all examples.
        by_size: by the task's size (length, digits, depth).
        failures: (source, prediction, answer) of the wrong ones.
    """

    overall: Score
    by_size: dict[int, Score]
    failures: tuple[tuple[str, str, str], ...]


def wilson_interval(right: float, n: int) -> Interval:
    """Where the true share lies with 95 % confidence (Wilson 1927, doi:10.2307/2276774).

        (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n),   z = 1.96

    Raises:
        ValueError: n is 0.
    """
    if n < 1:
        raise ValueError("n=0: there is nothing to measure on.")
    share, z = right / n, 1.96
    middle = share + z * z / (2 * n)
    spread = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    low = 0.0 if right == 0 else (middle - spread) / scale  # exactly there, but for rounding
    high = 1.0 if right == n else (middle + spread) / scale
    return Interval(low, high)


def are_grouped(tally: Mapping[Hashable, tuple[int, int]]) -> bool:
    """Whether any group has several examples."""
    return any(n > 1 for _, n in tally.values())


def describe_interval(score) -> dict:
    """A score's or an outcome's interval, as JSON has it, and the groups that it was taken over."""
    over = {"interval_over": score.over} if score.over else {}
    return {"interval": [score.interval.low, score.interval.high], **over}


def group_interval(tally: Mapping[Hashable, tuple[int, int]]) -> Interval:
    """Where the true share lies with 95 % confidence, where not examples but whole groups were drawn.

    The middle 95 % of the shares in RESAMPLES draws of as many groups, with replacement (the bootstrap of
    Efron 1979, doi:10.1214/aos/1176344552), and never narrower than Wilson's interval of the examples. Where
    all groups have one share, as where all is right or there is one group, the draws are alike and say
    nothing: then Wilson's interval of the groups. Below some 30 groups it is a little too narrow.

    Args:
        tally: group → (how many of its examples are right, how many there are).

    Raises:
        ValueError: there is no group.
    """
    tallies = torch.tensor(list(tally.values()), dtype=torch.float64).reshape(-1, 2)
    kinds, counts = tallies.unique(dim=0, return_counts=True)  # groups of one tally are drawn alike
    right, n = kinds.T
    share = float(right @ counts.double() / (n @ counts.double())) if len(tally) else 0.0
    if len((right / n).unique()) < 2:
        return wilson_interval(share * len(tally), len(tally))
    times = numpy.random.default_rng(0).multinomial(len(tally), counts.numpy() / len(tally), RESAMPLES)
    drawn = torch.from_numpy(times).double()  # [RESAMPLES, kinds]
    shares = (drawn @ right) / (drawn @ n)
    low, high = shares.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    examples = int(n @ counts.double())
    by_example = wilson_interval(share * examples, examples)
    return Interval(min(low, by_example.low), max(high, by_example.high))


def score_answers(
    is_right: Iterable[bool],
    groups: Sequence[Hashable] | None = None,
    name: str = "",
    measures: dict[str, float] | None = None,
) -> Score:
    """The share of answers that are right, with its interval.

    Args:
        is_right: of each answer.
        groups: the group that each one's example was drawn with; None where each was drawn by itself.
        name: what the groups are, as "modules".
        measures: other figures to keep beside it.

    Raises:
        ValueError: no answer.
    """
    marks = [int(mark) for mark in is_right]
    tally: dict[Hashable, tuple[int, int]] = {}
    for mark, group in zip(marks, groups or (), strict=groups is not None):
        right, n = tally.get(group, (0, 0))
        tally[group] = (right + mark, n + 1)
    return _score_tally(sum(marks), len(marks), tally, name, measures)


def pool_scores(scores: Sequence[Score]) -> Score:
    """One score of the examples of several, without their measures."""
    tally: dict[Hashable, tuple[int, int]] = {}
    for score in scores:
        for group, (right, n) in score.tally.items():
            before = tally.get(group, (0, 0))
            tally[group] = (before[0] + right, before[1] + n)
    right = sum(round(score.exact_match * score.examples) for score in scores)
    return _score_tally(right, sum(score.examples for score in scores), tally, scores[0].groups)


def _score_tally(
    right: int,
    n: int,
    tally: Mapping[Hashable, tuple[int, int]],
    name: str,
    measures: dict[str, float] | None = None,
) -> Score:
    interval = group_interval(tally) if are_grouped(tally) else wilson_interval(right, n)
    return Score(n, right / n, interval, measures or {}, tally, name)


def predict(model, task: Task, batch: Batch, most: int | None = None) -> torch.Tensor:
    """What a model makes of examples.

    Args:
        model: one that learns the task's kind, on any device.
        task: says of which kind it is.
        batch: examples.
        most: tokens of an answer; as many as the task's longest has where None.

    Returns:
        [B, most] answers, written freely and greedily, padded behind `</s>`; for classes [B, 1] their
        indices; for text [B, T] the next token guessed at each place, given the true ones before it.
    """
    rows = []
    most = most or task.max_target_tokens
    for part in parts_of(batch, model, AT_ONCE):
        if task.kind == CLASSES:
            rows.append(next_logits(model, part).argmax(-1, keepdim=True).cpu())
        elif task.kind == TEXT:
            rows.append(next_logits(model, part).argmax(-1).cpu())
        else:
            sources = part.prompt() if is_decoder_only(model) else (part.input_ids, part.attention_mask)
            ids = greedy_ids(model, *sources, most)
            rows.append(torch.nn.functional.pad(ids, (0, most - ids.shape[1]), value=PAD).cpu())
    return torch.cat(rows)


def parts_of(batch: Batch, model, most: int) -> Iterator[Batch]:
    """A batch in parts on the model's device, of most examples each: fewer where each takes much memory."""
    target = batch.labels.shape[1] if batch.labels.dim() > 1 else 0
    each = max(1, count_activations(model.config, batch.input_ids.shape[1], target))
    size = max(1, min(most, LARGEST_PART // each))
    device = next(model.parameters()).device
    for start in range(0, len(batch), size):
        yield batch[slice(start, start + size)].to(device)


@torch.no_grad()
def next_logits(model, batch: Batch, memory=None) -> torch.Tensor:
    """[B, classes] scores, or [B, T, V] those of each of the target's tokens, given the true ones before.

    Args:
        model: one that learns the batch's kind of task.
        batch: on the model's device.
        memory: what its encoder made of the sources; None where they are still to be read.
    """
    inputs = batch.inputs()
    if is_decoder_only(model):  # which does not read the last token: it scores none
        inputs = {name: ids[:, :-1] for name, ids in batch.joined().items()}
    if not model.config.is_encoder_decoder:  # an encoder-decoder makes its decoder's input of them
        inputs.pop("labels")
    if memory is not None:
        inputs["encoder_outputs"] = memory
        inputs.pop("input_ids")
    with evaluating(model):
        logits = model(**inputs).logits
    # the last token of a decoder-only model's source scores the target's first
    return logits[:, batch.input_ids.shape[1] - 1 :] if is_decoder_only(model) else logits


def exact_matches(predictions: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """[B] bool: rows that are right to the last symbol, `</s>` included."""
    labels = torch.nn.functional.pad(labels, (0, predictions.shape[1] - labels.shape[1]), value=IGNORED)
    finished = (predictions == END).cumsum(1) - (predictions == END).long() > 0  # behind the first </s>
    return (predictions.masked_fill(finished, PAD) == labels.masked_fill(labels == IGNORED, PAD)).all(dim=1)


def measure_quickly(model, task: Task, batch: Batch) -> float:
    """Share of what is right as `find_right` finds it: the figure of a run under way."""
    right = [find_right(model, task, part) for part in parts_of(batch, model, AT_ONCE)]
    return float(torch.cat(right).float().mean())


def find_right(model, task: Task, batch: Batch, memory=None) -> torch.Tensor:
    """Which of a batch's answers are right, bool [B], in one pass and without writing; of text, which tokens.

    What is written greedily is right to its last token exactly where the likeliest token is the true one at
    every place, given the true ones before it. (`exact_matches` of `predict` is the plain twin.)
    """
    logits = next_logits(model, batch, memory)
    if task.kind == TEXT:
        return task.judge_tokens(logits, batch.labels)
    right = logits.argmax(-1) == batch.labels
    return (right | (batch.labels == IGNORED)).all(dim=1) if task.kind == SEQUENCE else right


def refuse_too_long(task: Task, model) -> None:
    """Refuse, by a ValueError, sequences with more tokens than the model has positions for."""
    places = getattr(model.config, "max_position_embeddings", None)
    needed = task.max_position_embeddings
    if is_decoder_only(model):
        needed = task.max_source_tokens + task.max_target_tokens
    if places is None or places >= needed or POSITION_TYPES[model.config.position_type].extrapolates:
        return
    raise ValueError(
        f"{task} has sequences of {needed} tokens; this model has max_position_embeddings={places} and "
        "learned nothing of places beyond: measure shorter ones."
    )


def check_finite(model, what: str = "The model") -> None:
    """Refuse a model whose weights are not all numbers: whatever it writes says nothing.

    Args:
        model: any torch module.
        what: it is, as the refusal calls it.

    Raises:
        ValueError: a weight is NaN or infinite.
    """
    for name, weight in model.named_parameters():
        if not weight.isfinite().all():
            raise ValueError(
                f"{what} has weights that are no numbers (NaN or infinity in {name!r}): its training "
                "diverged, or the file is damaged. Train it again with a lower learning rate."
            )


def evaluate(model, task: Task, split: str = HELD_OUT, n: int = 1000, seed: int = 0) -> Evaluation:
    """Let the model write freely and judge every answer by the task's independent verifier.

    Classes are judged by the data; of text every next token is guessed from the true ones before it, and an
    "example" is a token.

    Args:
        model: one that learns the task's kind, on any device.
        task: gives examples, verifier and sizes.
        split: "held-out" or "validation".
        n: how many examples; fewer where the split has not so many.
        seed: which examples.

    Raises:
        ValueError: another split (training examples say nothing about what was learned), n out of range, or
            weights that are no numbers.
    """
    check_count(n)
    check_finite(model)
    batch = task.measured_examples(split, n, seed)
    if task.kind == TEXT:
        return _evaluate_text(model, task, batch)
    sources = [task.read_source(row) for row in batch.input_ids.tolist()]
    predictions = predict(model, task, batch)
    ended = [task.kind == CLASSES or END in row for row in predictions.tolist()]
    answers = [task.decode(row) for row in predictions.tolist()]
    references = [task.decode(row) for row in batch.labels.view(len(batch), -1).tolist()]
    rows = [
        (has_ended and bool(task.verify(*judged).correct), task.measure(*judged))
        for has_ended, *judged in zip(ended, sources, answers, references, strict=True)
    ]
    groups = task.groups_of(batch)

    def score(places: Sequence[int]) -> Score:
        chosen = [rows[place] for place in places]
        measures = {name: sum(figures[name] for _, figures in chosen) / len(chosen) for name in rows[0][1]}
        drawn = groups and [groups[place] for place in places]
        return score_answers((correct for correct, _ in chosen), drawn, task.groups_name, measures)

    by_size: dict[int, list[int]] = defaultdict(list)
    for place, source in enumerate(sources):
        by_size[task.size_of(source)].append(place)
    wrong = [index for index, (correct, _) in enumerate(rows) if not correct]
    return Evaluation(
        overall=score(range(len(rows))),
        by_size={size: score(by_size[size]) for size in sorted(by_size)},
        failures=tuple((sources[i], answers[i], references[i]) for i in wrong),
    )


def _evaluate_text(model, task: Task, batch: Batch) -> Evaluation:
    """Next tokens guessed, and how surprising the true ones are: perplexity exp(mean −log p)."""
    is_right: list[bool] = []
    surprise, tokens = 0.0, 0
    for part in parts_of(batch, model, PASSAGES_AT_ONCE):
        logits = next_logits(model, part).float()  # [B, T, V]
        is_right += task.judge_tokens(logits, part.labels).tolist()
        known = part.labels != IGNORED
        tokens += int(known.sum())
        surprise += float(
            torch.nn.functional.cross_entropy(logits[known], part.labels[known], reduction="sum")
        )
    nats = surprise / tokens
    measures = {"perplexity": math.exp(nats), "bits_per_token": nats / math.log(2)}
    groups = groups_of_tokens(task, batch)
    by_size: dict = defaultdict(list)
    for place, size in enumerate(task.sizes_of_tokens(batch.labels) or ()):
        by_size[size].append(place)
    scores = {
        size: score_answers([is_right[k] for k in places], [groups[k] for k in places], task.groups_name)
        for size, places in sorted(by_size.items())
    }
    return Evaluation(score_answers(is_right, groups, task.groups_name, measures), scores, ())


def groups_of_tokens(task: Task, batch: Batch, first: int = 0) -> list[Hashable]:
    """The group of each token of a text that counts: that of its passage, which it was drawn with.

    Where none were drawn together a passage is its own group, numbered from `first`.
    """
    groups = task.groups_of(batch) or range(first, first + len(batch))
    counts = task.count_tokens(batch.labels).sum(1).tolist()
    return [group for group, count in zip(groups, counts, strict=True) for _ in range(count)]
