"""Explore's language models: what is expected at each place of a text, whole and changed."""

import torch

from hf_attn.analysis.ablation import Outcome, Trial, knows_edges, measure_outcomes
from hf_attn.analysis.predictions import Prediction, predict_tokens

from ...session.catalog import LoadedModel
from ...session.model_input import as_ids
from ...snippets.views import expected_snippet

LIKELIEST = 5  # tokens that are named at a place
DECIDED_EXAMPLES = 600  # held-out texts whose decided words are counted


def read_expected(opened: LoadedModel, text: str, read: list[int], written: list[int]) -> dict:
    """What a language model expects at each place: the board's `predictions`."""
    (whole,) = _predict(opened, read, written, [])
    decided = opened.task.decided(text) if opened.task is not None else {}
    opened.encode(text)  # names its words
    return {
        "what": opened.predicts,
        "labels": opened.labels(written or read),
        "vocabulary": whole.log_probabilities.shape[1],
        "places": [opened.name_likeliest(row, LIKELIEST) for row in whole.log_probabilities],
        "other": next(iter(find_others(opened, text)), text),
        "python": expected_snippet(opened, read, written),
        "decided": {
            str(place): {"kind": kind, "right": opened.label(sorted(right))}
            for place, (kind, right) in decided.items()
        },
    }


def find_others(opened: LoadedModel, text: str) -> list[str]:
    """Texts of as many words in which another word is decided."""
    followups = opened.task.followups(text).values() if opened.task is not None else ()
    return [other for other in followups if len(opened.encode(other)) == len(opened.encode(text))]


def compare_expected(opened: LoadedModel, read: list[int], written: list[int], trial: Trial) -> dict:
    """What changes at each place, as the board's answer has it."""
    whole, changed = _predict(opened, read, written, [trial])
    labels = opened.labels(written or read)
    is_there = ~changed.total_variation.isnan()
    first, other = (one.log_probabilities.argmax(-1).tolist() for one in (whole, changed))
    differs = [bool(there) and a != b for there, a, b in zip(is_there, first, other, strict=True)]
    names = [opened.labels(ids) for ids in (first, other)]
    named = [name if there else "–" for name, there in zip(names[1], is_there, strict=True)]
    moved = zip(labels, changed.total_variation.tolist(), changed.divergence.tolist(), strict=True)
    places = zip(whole.log_probabilities, changed.log_probabilities, is_there, strict=True)
    return {
        "before": {"symbols": names[0], "changed": [False] * len(first), "correct": None},
        "after": {"symbols": named, "changed": differs, "correct": None},
        "moved": [[label, *(None if x != x else x for x in figures)] for label, *figures in moved],
        "differ": sum(differs),
        "places": [_name_both(opened, *pair) if there else None for *pair, there in places],
    }


def count_decided(opened: LoadedModel, trial: Trial) -> dict | None:
    """Held-out figures of a change, kind of decision by kind; None where the task knows of no decisions.

    Beside it all layers and heads without the edges to the words that decide, and to the words before these.
    """
    task = opened.task
    if task is None or not knows_edges(opened.model, task):
        return None
    trials = [trial, Trial(edges="known"), Trial(edges="control")]
    whole, *found = measure_outcomes(opened.model, task, trials, DECIDED_EXAMPLES)
    figures = dict(zip(("left", "known", "control"), found, strict=True)) | {"whole": whole}
    return {str(kind): _read_kind(figures, kind) for kind in whole.by_size}


def _read_kind(figures: dict[str, Outcome], kind) -> dict:
    scores = {name: outcome.by_size[kind] for name, outcome in figures.items()}
    shares = {
        name: [score.exact_match, score.interval.low, score.interval.high] for name, score in scores.items()
    }
    return {"examples": scores["whole"].examples} | shares


def _predict(
    opened: LoadedModel, read: list[int], written: list[int], trials: list[Trial]
) -> list[Prediction]:
    target = as_ids(opened, written) if written else None
    return predict_tokens(opened.model, as_ids(opened, read), trials, target)


def _name_both(opened: LoadedModel, before: torch.Tensor, after: torch.Tensor) -> list[list]:
    """[token, p whole, p changed] of the likeliest of both."""
    most = min(LIKELIEST, len(before))
    ids = list(dict.fromkeys([*before.topk(most).indices.tolist(), *after.topk(most).indices.tolist()]))
    figures = zip(opened.labels(ids), before[ids].exp().tolist(), after[ids].exp().tolist(), strict=True)
    return [list(row) for row in figures]
