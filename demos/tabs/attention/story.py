"""What the first screen says of a model and an input, and what grows from the answer.

Every sentence is made of figures that stand on the screen.
"""

from hf_attn.analysis.ablation import Trial, measure_removal
from hf_attn.analysis.predictions import predict_tokens
from hf_attn.generation.generate import generate_answer
from hf_attn.interpret.head import Head
from hf_attn.tasks.base import CLASSES
from hf_attn.tasks.synthetic.parsing import read_prefix

from ...session.catalog import LoadedModel
from ...session.model_input import as_ids
from ...ui import boards, formatting, notices
from ...ui.notices import Part

LIKELIEST = 5  # tokens or classes that are named
MOST = 0.5  # of a row's weight: from here on it looks at one token
LONGEST_INPUT = 48  # characters of an input in the sentence
LONGEST_SENTENCE = 120  # characters: behind a longer one nothing more stands
UNTRAINED = (("b", "Untrained."), " The weights are random, so this map means nothing yet.")
POINT = [("i", " Choose a token to see where it looks.")]
WORDS = "The next word"  # the bars' title where the input is a sentence


def read_result(opened: LoadedModel, text: str, source: list[int], written: list[int]) -> dict:
    """What the model makes of the input, as the board draws it: a tree, what is likeliest, or a line."""
    task = opened.reader
    result = {"tree": None, "likeliest": None, "line": ""}
    if opened.kind == CLASSES:
        (choice,) = generate_answer(opened.model, as_ids(opened, source)).choices
        found = choice.probabilities.topk(min(LIKELIEST, len(choice.probabilities)))
        names = opened.class_names()
        rows = [[names[i], p] for i, p in zip(found.indices.tolist(), found.values.tolist(), strict=True)]
        return result | {"likeliest": {"title": "The class", "of": len(names), "rows": [rows]}}
    if opened.predicts:
        target = as_ids(opened, written) if written else None
        (whole,) = predict_tokens(opened.model, as_ids(opened, source), [], target)
        log_p = whole.log_probabilities
        rows = [opened.name_likeliest(row, LIKELIEST) for row in log_p]
        title = WORDS if task is not None and task.gap else "The next symbol"
        return result | {"likeliest": {"title": title, "of": log_p.shape[1], "rows": rows}}
    if task is None:
        return result
    if task.name == "parser":
        tree = boards.read_tree(read_prefix(task.decode_symbols(written)), task.tree(text))
        return result | {"tree": tree}
    verdict = task.verify(text, task.decode(written))
    words = {True: "right", False: f"wrong, is {task.answer(text)}", None: "not known"}[verdict.correct]
    return result | {"line": f"{task.decode(written)}: {words}"}


def tell_result(opened: LoadedModel, text: str, written: list[int], result: dict) -> list[Part]:
    """The first sentence: what the model makes of the input."""
    source = ("code", formatting.shorten(text, LONGEST_INPUT))
    if result["likeliest"] is not None:
        (name, p), *_ = result["likeliest"]["rows"][-1]
        if opened.kind == CLASSES:
            said = ["This model says ", ("b", name), f", {formatting.percent(p, 0)}."]
            return [*said, *tell_removal(opened, text)]
        return tell_next(result["likeliest"], "", -1)
    task = opened.reader
    if task is None:
        return []
    answer = task.decode(written)
    correct = task.verify(text, answer).correct
    if result["tree"] is not None:
        wrong = [("em", ", a wrong one")] if correct is False else []
        return ["This model turns ", source, " into a tree", *wrong, "."]
    return [
        "This model reads ",
        source,
        " and writes ",
        ("code", formatting.shorten(answer, LONGEST_INPUT)),
        *notices.VERDICTS[correct],
        ".",
    ]


def tell_next(likeliest: dict, token: str, row: int) -> list[Part]:
    """What a language model guesses behind a token of a row; behind the last one where none is named."""
    (name, p), *_ = likeliest["rows"][row]
    behind = f"Behind “{name_token(token)}” this model" if token else "This model"
    what = "the next word" if likeliest["title"] == WORDS else "what comes next"
    return [f"{behind} guesses {what}: ", ("b", name), f", {formatting.percent(p, 0)}."]


def tell_removal(opened: LoadedModel, text: str) -> list[Part]:
    """The word whose removal moves the named class most, and what the class is without it."""
    removal = measure_removal(opened.model, opened.tokenizer, text)
    place = max(range(len(removal.words)), key=removal.drops.__getitem__)
    without = removal.predicted_without[place]
    named = [" Without ", ("code", formatting.shorten(removal.words[place], LONGEST_INPUT)), " it says "]
    if without != removal.predicted:
        return [*named, ("b", opened.class_names()[without]), "."]
    return [*named, f"the same, {formatting.percent(removal.remaining[place], 0)}."]


def tell_row(head: Head, place: int, *, writes: bool, is_changed: bool) -> list[Part]:
    """Where the token of a row looks most; `writes`: the rows are written, `is_changed`: by a switch."""
    weight, best = (float(found) for found in head.weights[place].max(0))
    row, column = (f"“{name_token(name)}”" for name in (head.rows[place], head.columns[int(best)]))
    share = ("b", formatting.percent(weight, 0))
    who = f" To write {row} it looks" if writes else f" {row} looks"
    if is_changed:
        who = f" With the changed mechanism {row} looks"
    if weight >= MOST:
        return [f"{who} at {column}: ", share, " of the weight."]
    return [f"{who} at several tokens, at {column} with ", share, " of the weight."]


def name_token(name: str) -> str:
    """A token in a sentence: without the space before it, unless it is nothing else."""
    return formatting.plain(name.strip(" ␣") or name)


def tell_unknown(opened: LoadedModel) -> str:
    """Which words of the input that was encoded last the model does not know; empty where it knows all."""
    words = formatting.shorten(", ".join(dict.fromkeys(opened.words.values())), LONGEST_INPUT)
    return f"Words that the model never learned, read as placeholders: {words}." if words else ""


# ---------------------------------------------------------------- a word taken away


def find_most_read(head: Head, row: int) -> int | None:
    """The word before its own that a row reads most, besides the start symbol; None where it reads none."""
    weights = head.weights[row].tolist()
    earlier = [place for place in range(1, row) if weights[place] > 0]
    return max(earlier, key=weights.__getitem__, default=None)


def compare_without(opened: LoadedModel, source: list[int], place: int) -> list[list[list] | None]:
    """At each place [word, p whole, p without the word]; None at the word's own place."""
    if not 0 < place < len(source):
        raise ValueError(f"There is no word at place {place} to take away: choose 1 to {len(source) - 1}.")
    whole, changed = predict_tokens(opened.model, as_ids(opened, source), [Trial(without=(place,))])
    rows: list[list[list] | None] = []
    for i, pair in enumerate(zip(whole.log_probabilities, changed.log_probabilities, strict=True)):
        before, after = (one.exp() for one in pair)
        ids = list(dict.fromkeys([*before.topk(LIKELIEST).indices.tolist(), int(after.argmax())]))
        both = zip(opened.labels(ids), before[ids].tolist(), after[ids].tolist(), strict=True)
        rows.append(None if i == place else [list(one) for one in both])
    return rows


def tell_without(head: Head, row: int, place: int, rows: list[list[list] | None]) -> list[Part]:
    """The sentence after a word was taken away: the likeliest next word with it and without it."""
    named = f"“{name_token(head.columns[place])}”"
    both = rows[row]
    if both is None:
        return [f"Without {named} there is nothing to follow it. Choose another word."]
    with_it, without = (max(both, key=lambda one: one[column]) for column in (1, 2))
    behind = f"Behind “{name_token(head.rows[row])}” this model guesses "
    parts = [behind, ("b", with_it[0]), f", {formatting.percent(with_it[1], 0)}. Without {named}: "]
    return [*parts, ("b", without[0]), f", {formatting.percent(without[2], 0)}."]
