"""Look for what a model gets wrong: on every size of its task, and on inputs that are made to be hard."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hf_attn.evaluation.metrics import Score, evaluate, predict, score_answers
from hf_attn.tasks import Task
from hf_attn.tasks.base import CLASSES, TEXT
from hf_attn.tasks.batch import END

HELD_OUT_TRIED = 5_000
MADE = 400  # inputs of a kind that is hard, at most
FEW = 300  # of the held-out inputs that are longest, or have the fewest symbols

Failure = tuple[str, str, str]  # source, prediction, answer


@dataclass(frozen=True)
class Tried:
    """What became of the inputs of one kind."""

    score: Score  # the share that is right
    failures: tuple[Failure, ...]  # (source, prediction, answer) of the wrong ones


@dataclass(frozen=True)
class Search:
    """What was tried, and what was found."""

    held_out: Tried  # all held-out inputs together
    by_size: Mapping[int, Score]  # the same, told apart by the task's size
    patterns: Mapping[str, Tried]  # name → held-out inputs that are alike in something, or inputs made so
    made: int  # how many inputs were made; a model may have learned from some of them


def look_for_failures(model, task: Task, n: int = HELD_OUT_TRIED, seed: int = 0) -> Search:
    """Try many more inputs than a result needs, and those on which models like this one stumble.

    Args:
        model: one that learned the task.
        task: of sequences or classes.
        n: held-out inputs; fewer where the task has not so many.
        seed: which ones, and which hard ones are made.

    Raises:
        ValueError: a task of text, in which most next tokens cannot be known.
    """
    if task.kind == TEXT:
        raise ValueError(f"Task {task.name!r} has no failures to look for: many ways of going on are right.")
    evaluation = evaluate(model, task, n=n, seed=seed)
    batch = task.held_out(n, seed)
    sources = [task.read_source(row) for row in batch.input_ids.tolist()]
    wrong = {failure[0]: failure for failure in evaluation.failures}
    groups = dict(zip(sources, task.groups_of(batch) or range(len(sources)), strict=True))
    patterns = {}
    for name, chosen in _alike(task, sources, batch.labels).items():
        score = score_answers(
            [source not in wrong for source in chosen],
            [groups[source] for source in chosen],
            task.groups_name,
        )
        patterns[name] = Tried(score, tuple(wrong[source] for source in chosen if source in wrong))
    made = make_hard_inputs(task, seed)
    patterns |= {name: _try(model, task, pairs) for name, pairs in made.items()}
    return Search(
        held_out=Tried(evaluation.overall, evaluation.failures),
        by_size=evaluation.by_size,
        patterns=patterns,
        made=sum(map(len, made.values())),
    )


def make_hard_inputs(task: Task, seed: int = 0) -> dict[str, list[tuple[str, str]]]:
    """Inputs by what is hard about them: name → different (source, right answer), at most MADE each.

    What the task's options do not allow is left out.
    """
    makers = task.hard_inputs(random.Random(seed))
    made = {name: _collect(task, make) for name, make in makers.items()}
    return {name: pairs for name, pairs in made.items() if pairs}


def _collect(task: Task, make: Callable[[], str | tuple[str, str]]) -> list[tuple[str, str]]:
    """At most MADE different inputs that the task reads."""
    found: dict[str, str] = {}
    for _ in range(4 * MADE):
        if len(found) == MADE:
            break
        try:
            made = make()
            source, answer = (made, str(task.answer(made))) if isinstance(made, str) else made
            task.encode(source)
        except ValueError:  # the task's options do not allow it
            continue
        found[source] = answer
    return list(found.items())


def _alike(task: Task, sources: Sequence[str], labels) -> dict[str, list[str]]:
    """Held-out sources that have something in common: the longest, the most uniform, those of one class."""
    symbols = [task.split_source(source) for source in sources]
    groups = {}
    if len({len(row) for row in symbols}) > 1:
        order = sorted(range(len(sources)), key=lambda place: len(symbols[place]), reverse=True)
        groups["the longest (held-out)"] = [sources[place] for place in order[:FEW]]
    order = sorted(range(len(sources)), key=lambda place: len(set(symbols[place])) / len(symbols[place]))
    groups["the fewest different symbols for their length (held-out)"] = [
        sources[place] for place in order[:FEW]
    ]
    if task.kind == CLASSES:
        for index, name in enumerate(task.classes):
            chosen = (labels.view(-1) == index).nonzero().flatten().tolist()
            groups[f"class {name} (held-out)"] = [sources[place] for place in chosen]
    return {name: chosen for name, chosen in groups.items() if chosen}


def _try(model, task: Task, pairs: Sequence[tuple[str, str]]) -> Tried:
    """Let the model answer sources whose answers are known."""
    sources, answers = zip(*pairs, strict=True)
    batch = task.batch_of(sources, answers)
    predictions = predict(model, task, batch).tolist()
    failures, is_right = [], []
    for source, row, answer in zip(sources, predictions, answers, strict=True):
        written = task.decode(row)
        has_ended = task.kind == CLASSES or END in row
        is_right.append(bool(has_ended and task.verify(source, written, answer).correct))
        if not is_right[-1]:
            failures.append((source, written, answer))
    return Tried(score_answers(is_right, task.groups_of(batch), task.groups_name), tuple(failures))
