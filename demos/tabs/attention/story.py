"""What the first screen says of a model and an input, and what grows from the answer.

Every sentence is made of figures that stand on the screen.
"""

from hf_attn.analysis.predictions import predict_tokens
from hf_attn.generation.generate import generate_answer
from hf_attn.interpret.head import Head
from hf_attn.tasks.base import CLASSES
from hf_attn.tasks.synthetic.parsing import read_prefix

from ...session.catalog import LoadedModel
from ...session.model_input import as_ids
from ...ui import boards, formatting
from ...ui.notices import Part

LIKELIEST = 5  # tokens or classes that are named
MOST = 0.5  # of a row's weight: from here on it looks at one token
LONGEST_INPUT = 48  # characters of an input in the sentence
UNTRAINED = (("b", "Untrained."), " The weights are random, so this map means nothing yet.")
POINT = ("i", " Choose a token to see where it looks.")


def read_result(opened: LoadedModel, text: str, source: list[int], written: list[int]) -> dict:
    """What the model makes of the input, as the board draws it: a tree, what is likeliest, or a line."""
    task = opened.task
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
        title = "The next word" if task is not None and task.gap else "The next symbol"
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
            return ["This model says ", ("b", name), f", {formatting.percent(p, 0)}."]
        behind = "the next word" if result["likeliest"]["title"] == "The next word" else "what comes next"
        return [f"This model guesses {behind}: ", ("b", name), f", {formatting.percent(p, 0)}."]
    task = opened.task
    if task is None:
        return []
    answer = task.decode(written)
    correct = task.verify(text, answer).correct
    if result["tree"] is not None:
        return ["This model turns ", source, " into a tree" + (", a wrong one." if correct is False else ".")]
    end = {True: ", which is right.", False: ", which is wrong.", None: "."}[correct]
    return [
        "This model reads ",
        source,
        " and writes ",
        ("code", formatting.shorten(answer, LONGEST_INPUT)),
        end,
    ]


def tell_cell(head: Head, cell: tuple[int, int], *, writes: bool) -> list[Part]:
    """The second sentence: where the token of the chosen cell looks; `writes`, the rows are written."""
    row, column = (f"“{formatting.plain(name)}”" for name in (head.rows[cell[0]], head.columns[cell[1]]))
    weight = float(head.weights[cell])
    share = ("b", formatting.percent(weight, 0))
    who = f" To write {row} it looks" if writes else f" {row} looks"
    if weight >= MOST:
        return [f"{who} at {column}: ", share, " of the weight."]
    return [f"{who} at several tokens, at {column} with ", share, " of the weight."]
