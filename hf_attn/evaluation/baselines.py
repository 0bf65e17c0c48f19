"""What a model must be better than: words counted and weighed, and a linear map to the classes."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hf_attn.evaluation.metrics import Score, score_answers
from hf_attn.tasks.base import CLASSES, Task
from hf_attn.tasks.splits import HELD_OUT, TRAINING, VALIDATION
from hf_attn.tasks.text.corpus import Row
from hf_attn.tasks.text.text_classification import TextClassification
from hf_attn.utils.optional_packages import require_package
from hf_attn.utils.text import quote

if TYPE_CHECKING:
    import numpy

NAME = "TF-IDF, logistic regression"
# what is counted: words and pairs of neighbours, or up to four characters in a row within a word
FEATURES: Mapping[str, Mapping[str, Any]] = {
    "words": {"ngram_range": (1, 2), "token_pattern": r"(?u)\b\w+\b"},
    "characters": {"ngram_range": (1, 4), "analyzer": "char_wb", "min_df": 2},
}
STRENGTHS = (3.0, 10.0, 30.0)  # C, the inverse of how strongly weights are held down
MOST_ITERATIONS = 2000


@dataclass(frozen=True)
class Baseline:
    """A baseline's figures.

    Attributes:
        score: on the split that was asked for.
        features: of FEATURES, which was best on validation.
        strength: C that was best on validation.
        parameters: weights of the linear map.
        seconds: of choosing and learning, on the processor.
    """

    score: Score
    features: str
    strength: float
    parameters: int
    seconds: float


def measure_baseline(task: TextClassification, split: str = HELD_OUT) -> Baseline:
    """TF-IDF of words or of characters, and logistic regression (Spärck Jones 1972; Cox 1958).

        tf-idf(t, d) = (1 + log tf) · (1 + log (1 + N)/(1 + df)),   each text's vector of length 1

    It learns from the same training texts as a model does, reads each text whole where a model reads its
    first tokens; what it counts and its C are chosen on validation.

    Args:
        task: gives texts and splits.
        split: "held-out" or "validation".

    Raises:
        ValueError: another split.
        MissingPackageError: scikit-learn is not installed.
    """
    if split not in (HELD_OUT, VALIDATION):
        raise ValueError(
            f"split={quote(split)} cannot be measured on; choose {HELD_OUT!r} or {VALIDATION!r}."
        )
    require_package("sklearn", f"The baseline, {NAME},")
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    started = time.process_time()
    texts, labels = _columns(task.texts_of(TRAINING))
    tried = []
    for features, settings in FEATURES.items():
        vectorizer = TfidfVectorizer(sublinear_tf=True, **settings)
        vectors = vectorizer.fit_transform(texts)
        for strength in STRENGTHS:
            model = LogisticRegression(C=strength, max_iter=MOST_ITERATIONS).fit(vectors, labels)
            right = _find_right(task.texts_of(VALIDATION), vectorizer, model).sum()
            tried.append((right, features, strength, vectorizer, model))
    _, features, strength, vectorizer, model = max(tried, key=lambda entry: entry[0])
    seconds = time.process_time() - started
    rows = task.texts_of(split)
    groups = [row.group for row in rows]
    score = score_answers(_find_right(rows, vectorizer, model), groups, task.groups_name)
    return Baseline(score, features, strength, model.coef_.size + model.intercept_.size, seconds)


def measure_beside(task: Task) -> Baseline | None:
    """What stands beside a model of the task, None where it names no class; raises as `measure_baseline`."""
    if task.kind != CLASSES or not isinstance(task, TextClassification):
        return None
    return measure_baseline(task)


def _columns(rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    """Texts and classes."""
    return [row.source for row in rows], [row.target for row in rows]


def _find_right(rows: Sequence[Row], vectorizer, model) -> "numpy.ndarray":
    """Which texts are classed right."""
    texts, labels = _columns(rows)
    return model.predict(vectorizer.transform(texts)) == labels
