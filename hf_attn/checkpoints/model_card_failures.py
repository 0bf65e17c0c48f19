"""The card's known failures: how they were looked for, the worst that was found, and some of them."""

from collections.abc import Mapping, Sequence

from hf_attn.utils.markdown import write_cell, write_line, write_percent, write_rule, write_score, write_share

CAVEAT = (
    "Intervals assume that the inputs are a random sample of their kind. The worst of several patterns was "
    "chosen because it was worst; on new inputs it may look a little better."
)


def find_worst(scores: Mapping[str, Mapping]) -> str | None:
    """The name with the smallest share right; None where nothing was wrong.

    >>> find_worst({"1": {"exact_match": 1.0}, "2": {"exact_match": 0.9}})
    '2'
    """
    wrong = [name for name, score in scores.items() if score["exact_match"] < 1]
    return min(wrong, key=lambda name: scores[name]["exact_match"]) if wrong else None


def worst_of(training: Mapping) -> tuple[str, float] | None:
    """The pattern with the smallest share right among those that were tried, and the share.

    None where nothing was tried, or nothing was wrong.
    """
    patterns = (training.get("search") or {}).get("patterns", {})
    worst = find_worst(patterns)
    return None if worst is None else (worst, patterns[worst]["exact_match"])


def write_failures(name: str, training: Mapping) -> list[str]:
    """Paragraphs of the card; none where nothing was measured that can be right or wrong as a whole.

    Args:
        name: the checkpoint's, to say how to look further.
        training: what training.json holds.
    """
    if search := training.get("search"):
        return _of_search(search, training["results"]["size_name"])
    if not (results := training.get("results")) or "perplexity" in results["measures"]:
        return []
    further = f"No further search for failures was made: `hf-attn cards {name}` does."
    if not results["failures"]:
        return [_write_none_found(results["examples"], results["interval"][0]), further]
    wrong = round(results["examples"] * (1 - results["exact_match"]))
    found = results["failures"]
    return [
        f"{wrong:,} of {results['examples']:,} examples were wrong. {len(found)} of them:",
        _failure_table(found),
        further,
    ]


def _of_search(search: Mapping, size_name: str) -> list[str]:
    """What became of a search."""
    held_out, patterns = search["held_out"], search["patterns"]
    n, made = held_out["examples"], search["made"]
    tried = f"Searched on {n:,} held-out inputs, also by {size_name}"
    if made:
        tried += f", and on {made:,} inputs made to be hard, some of which may occur in training"
    tried += f": {len(patterns)} patterns in all."
    if find_worst({"held-out": held_out, **patterns}) is None:
        return [tried, _write_none_found(n + made, held_out["interval"][0]), _pattern_table(patterns)]
    worst = [
        f"- Held-out inputs: {_tell(held_out)}.",
        f"- Worst size: {_name_worst(search['by_size'], size_name)}.",
        f"- Worst pattern: {_name_worst(patterns)}.",
    ]
    paragraphs = [tried, "\n".join(worst), _pattern_table(patterns), CAVEAT]
    if search["failures"]:
        paragraphs += ["Held-out inputs with wrong answers:", _failure_table(search["failures"])]
    return paragraphs


def _write_none_found(n: int, low: float) -> str:
    return (
        f"No failure was found among {n:,} inputs. That does not rule failures out: with 95 % confidence, "
        f"the true share of right answers to held-out inputs is above {write_percent(low)}."
    )


def _tell(score: Mapping) -> str:
    return write_share(score["examples"], score["exact_match"], score["interval"])


def _name_worst(scores: Mapping[str, Mapping], kind: str = "") -> str:
    worst = find_worst(scores)
    return "none had a failure" if worst is None else f"{kind} {worst}, {_tell(scores[worst])}".strip()


def _pattern_table(patterns: Mapping[str, Mapping]) -> str:
    """Every pattern that was tried, the worst first, each with a failure where there was one."""
    order = sorted(patterns, key=lambda name: patterns[name]["exact_match"])
    rows = [
        write_line("pattern", "inputs", "right", "95 % interval", "for example", "written"),
        write_rule(1, 3) + "---|---|",
    ]
    for name in order:
        failure = next(iter(patterns[name]["failures"]), None)
        shown = ("–", "–") if failure is None else (failure["source"], failure["prediction"])
        rows.append(write_line(write_cell(name), *write_score(patterns[name]), *map(write_cell, shown)))
    return "\n".join(rows)


def _failure_table(failures: Sequence[Mapping]) -> str:
    names = ("source", "prediction", "answer")
    rows = [write_line(*(write_cell(failure[name]) for name in names)) for failure in failures]
    return "\n".join([write_line("source", "written", "right"), write_rule(3, 0), *rows])
