"""Try: give a checkpoint an input of your own, choose how it writes, see what each symbol was chosen from."""

import gradio as gr

from demos import shared
from demos.asking import LIGHT, as_ids, build_question, known_alignment, wire_question
from demos.checkpoints import Opened, Shelf
from demos.page import Page
from demos.probing import causal
from demos.visits import Visit
from hf_attn.ablation import measure_removal
from hf_attn.decoding import STRATEGIES, Choice, Generation, write
from hf_attn.inspection import attention_maps, is_recurrent
from hf_attn.tasks import Task, Verdict
from hf_attn.tasks.base import CLASSES, SEQUENCE, TEXT
from hf_attn.tasks.parsing import SIGNS, Node, read_prefix

TITLE = "Try"
LOOK_FOR = (
    "the symbol with the lowest probability: there the model wavers, and sampling may write something else."
)
BARS = 8  # symbols of a distribution that are shown one by one
SHOWN_SIGNS = {"*": "×", "-": "−", "/": "÷"}
LOOK_FOR_CLASS = (
    "the word whose removal costs most: an attention map says what is read, taking it out says what counts."
)
CHECKS = {
    "addition": "right: {source} = {answer}, checked by Python's integers",
    "parser": "right: the same tree as Python's ast",
    "copy": "right: the same as the input",
}


RIGHT = {  # kind of task → what is said of an answer that was checked
    SEQUENCE: "right, by the task's own check",
    CLASSES: "right: the class that the data give",
    TEXT: "right",
}
MAP_TITLES = {
    "cross": "Cross-attention of the answer",
    "alignment": "Alignment of the answer",
    "decoder": "What each symbol of the answer reads",
    "encoder": "Self-attention of the input",
}
UNKNOWN = {  # … and of one that nobody can check
    SEQUENCE: "the right answer to this input is not known",
    CLASSES: "the right class of this text is not known",
    TEXT: "many ways of going on are right",
}


def read_tree(written: Node | None, expected: Node | None) -> dict | None:
    """The tree as the board draws it: what was written, with the right label wherever another stands."""
    if written is None and expected is None:
        return None
    children = list(written.children) if written else []
    right = list(expected.children) if expected else []
    longest = max(len(children), len(right)) if written else 0  # below a missing node nothing is drawn
    pairs = [
        (children[i] if i < len(children) else None, right[i] if i < len(right) else None)
        for i in range(longest)
    ]
    label = written.label if written else "–"
    sign = SIGNS.get(label)
    return {
        "label": label,
        "sign": SHOWN_SIGNS.get(sign, sign),
        "children": [read_tree(*pair) for pair in pairs],
        "wrong": expected is None or label != expected.label,
        "expected": expected.label if expected else "nothing",
    }


def read_choice(choice: Choice, names: tuple[str, ...], is_cut: bool) -> list[dict]:
    """One step's distribution, from the largest; the rest summed up."""
    order = choice.probabilities.argsort(descending=True).tolist()
    entries = []
    for token in order[:BARS]:
        entry = {"token": names[token], "probability": float(choice.probabilities[token])}
        if is_cut:
            entry |= {"kept": bool(choice.allowed[token] > 0), "after": float(choice.allowed[token])}
        entries.append(entry)
    rest = order[BARS:]
    if rest:
        entries.append({"more": len(rest), "probability": float(choice.probabilities[rest].sum())})
        if is_cut:
            entries[-1] |= {
                "kept": bool((choice.allowed[rest] > 0).any()),
                "after": float(choice.allowed[rest].sum()),
            }
    return entries


def tell_cut(choice: Choice, strategy: str, top_k: int, top_p: float) -> str:
    """What a step's cut left, in words."""
    kept = choice.allowed > 0
    share = shared.percent(float(choice.probabilities[kept].sum()))
    of = f"keeps {int(kept.sum())} of {len(kept)} symbols, {share} of the probability"
    return {
        "greedy": f"greedy takes the likeliest of {len(kept)} symbols",
        "top-k": f"top-k {top_k} {of}",
        "nucleus": f"nucleus {top_p:.2f} {of}",
    }[strategy]


def tell_cuts(opened: Opened, generation: Generation, strategy: str, top_k: int, top_p: float):
    """The cut of each step in words; None where nothing is cut."""
    if strategy == "beam" or opened.kind == CLASSES:
        return None
    return [tell_cut(choice, strategy, top_k, top_p) for choice in generation.choices]


def judge(task: Task | None, source: str, ids) -> tuple[Verdict | None, dict]:
    """The verdict on an answer, and what the board says of it."""
    if task is None:
        return None, {"correct": None}
    prediction = task.decode(ids)
    verdict, answer = task.verify(source, prediction), task.answer(source)
    if verdict.correct is None:
        return verdict, {"correct": None, "check": UNKNOWN[task.kind], "text": prediction}
    words = CHECKS.get(task.name, RIGHT[task.kind]).format(source=source, answer=answer)
    return verdict, {"correct": verdict.correct, "check": words, "answer": answer, "text": prediction}


def read_alternatives(opened: Opened, source: str, generation: Generation) -> list[dict]:
    """The best answer and the other beams, each judged."""
    if not generation.alternatives:
        return []
    rows = []
    for ids, score in [(generation.ids, generation.score), *generation.alternatives]:
        verdict, _ = judge(opened.task, source, ids)
        rows.append(
            {
                "tokens": opened.labels(ids),
                "log_probability": score,
                "per_token": score / max(1, len(ids)),
                "correct": verdict.correct if verdict else None,
            }
        )
    return rows


def show_answer(
    opened: Opened, source: str, generation: Generation, strategy: str, top_k: int, top_p: float
) -> dict:
    """Everything that the board shows of one answer."""
    task, ids = opened.task, list(generation.ids)
    if opened.kind == CLASSES:
        labels, names = [opened.class_names()[ids[0]]], tuple(opened.class_names())
    else:
        labels, names = opened.labels(ids), tuple(opened.labels(range(opened.model.config.vocab_size)))
    verdict, said = judge(task, source, ids)
    wrong = [False] * len(ids)
    if verdict is not None and verdict.correct is not None:
        symbols = labels if opened.kind == CLASSES else task.decode_symbols(ids)
        wrong[: len(symbols)] = shared.wrong_symbols(symbols, verdict)
        if not verdict.correct and not any(wrong):
            wrong[-1] = True  # all that stands there is right: it ended too early, or not at all
    shown = [
        {"token": label, "probability": float(choice.probabilities[choice.token])}
        for label, choice in zip(labels, generation.choices, strict=True)
    ]
    is_cut = strategy != "beam" and opened.kind != CLASSES
    value = {
        **said,
        "written": shown,
        "wrong": wrong,
        "steps": [read_choice(choice, names, is_cut) for choice in generation.choices],
        "cut": tell_cuts(opened, generation, strategy, top_k, top_p),
        "alternatives": read_alternatives(opened, source, generation),
        "map": show_map(opened, source, ids if opened.model.can_generate() else []),
    }
    if opened.kind == CLASSES:
        value["removal"] = show_removal(opened, source)
    if opened.kind == TEXT:
        value["passage"] = {"prompt": source, "text": task.decode(ids)}
    if task is not None and task.name == "parser":
        value["tree"] = read_tree(read_prefix(task.decode_symbols(ids)), task.tree(source))
    return value


def show_map(opened: Opened, source: str, written: list[int]) -> dict:
    """Who reads what while the answer is written, with the known answer where there is one."""
    read = opened.encode(source)
    given = as_ids(opened, written) if written else None
    answering = attention_maps(opened.model, as_ids(opened, read), target=given).answering
    if answering is None:
        return {"kind": None}
    rows, cols = opened.labels(answering.rows), opened.labels(answering.columns)
    kind = "alignment" if is_recurrent(opened.model.config) else answering.kind
    return {
        "kind": kind,
        "title": MAP_TITLES[kind],
        "maps": shared.encode_maps(answering.weights),
        "shape": list(answering.weights.shape),
        "rows": rows,
        "cols": cols,
        "truth": answering.align(known_alignment(opened, source, written)),
        "allowed": causal(len(rows), len(cols)) if kind == "decoder" else None,
    }


def show_removal(opened: Opened, text: str) -> dict:
    """What the named class loses with each word."""
    removal = measure_removal(opened.model, opened.tokenizer, text)
    names = opened.class_names()
    return {
        "class": names[removal.predicted],
        "before": removal.probabilities[removal.predicted],
        "words": [
            {
                "word": word,
                "drop": drop,
                "left": left,
                "turns": names[other] if other != removal.predicted else None,
            }
            for word, drop, left, other in zip(
                removal.words, removal.drops, removal.remaining, removal.predicted_without, strict=True
            )
        ],
    }


def ask(
    shelf: Shelf,
    visit: Visit,
    chosen: str | None,
    text: str,
    strategy: str = "greedy",
    num_beams: float = 4,
    top_k: float = 3,
    top_p: float = 0.9,
    temperature: float = 1.0,
    seed: float | None = 0,
) -> list:
    """Let the checkpoint write: [board, error, origin]. Wrong input leaves the board as it is."""
    if chosen is None:
        return [None, "", shared.origin("none yet", "none", "none")]
    settings = {"num_beams": int(num_beams), "top_k": int(top_k), "top_p": top_p, "temperature": temperature}
    try:
        with shelf.open(visit, chosen) as opened:
            text = (text or "").strip()
            ids = opened.encode(text)
            strategy = "greedy" if opened.kind == CLASSES else strategy
            if opened.model.can_generate():
                settings |= {"seed": int(seed or 0), "max_new_tokens": opened.most_written(len(ids))}
            generation = write(opened.model, as_ids(opened, ids), strategy, **settings)
            value = show_answer(opened, text, generation, strategy, int(top_k), top_p)
            return [shared.to_json(value), "", shared.origin_of(opened.model, opened.weights)]
    except ValueError as error:
        return [gr.skip(), shared.field_error(str(error)), gr.skip()]


def show_settings(strategy: str, kind: str = SEQUENCE) -> list[dict]:
    """Which of beams, k, p, temperature and seed the strategy uses; none for a classifier."""
    samples = strategy in ("top-k", "nucleus")
    uses = (strategy == "beam", strategy == "top-k", strategy == "nucleus", samples, samples)
    return [*(gr.update(visible=shown and kind != CLASSES) for shown in uses)]


def choose(shelf: Shelf, visit: Visit, chosen: str | None, strategy: str) -> list:
    """Another checkpoint: [button, strategy, look-for, settings…]; a classifier has no way to choose."""
    kind = shelf.kind(visit, chosen)
    button = "Read" if kind == CLASSES else "Write"
    look_for = shared.look_for(LOOK_FOR_CLASS if kind == CLASSES else LOOK_FOR)
    return [button, gr.update(visible=kind != CLASSES), look_for, *show_settings(strategy, kind)]


def build(page: Page) -> None:
    """Lay the tab out and connect it."""
    question, origin = build_question(LOOK_FOR, "try")
    with question.row:
        write_button = gr.Button("Write", variant="primary", elem_id="try-write", min_width=0)
        strategy = gr.Radio(
            list(STRATEGIES), value="greedy", label="Choose each symbol by", elem_classes="seg"
        )
    with gr.Row(elem_classes="hf-how"):
        beams = gr.Slider(2, 8, 4, step=1, label="Beams", visible=False, min_width=160)
        top_k = gr.Slider(1, 20, 3, step=1, label="Symbols kept, k", visible=False, min_width=160)
        top_p = gr.Slider(0.05, 1, 0.9, step=0.05, label="Share kept, p", visible=False, min_width=160)
        warmth = gr.Slider(0, 2, 1, step=0.1, label="Temperature", visible=False, min_width=160)
        seed = gr.Number(0, label="Seed", precision=0, visible=False, min_width=80)
    board = shared.try_board("try-board")
    how = [beams, top_k, top_p, warmth, seed]
    shelf = page.shelf

    def answer(*asked):
        return ask(shelf, *asked)

    def turn(*chosen):
        return choose(shelf, *chosen)

    asked = [page.visit, question.chosen, question.text, strategy, *how]
    answered = [board, question.error, origin]
    wire_question(page, question, answer, asked, answered)
    turned = [write_button, strategy, question.look_for, *how]
    question.chosen.change(turn, [page.visit, question.chosen, strategy], turned, **LIGHT, queue=False)
    write_button.click(answer, asked, answered, **LIGHT)
    strategy.change(show_settings, strategy, how, **LIGHT, queue=False).then(answer, asked, answered, **LIGHT)
    gr.on([slider.release for slider in how[:4]] + [seed.submit], answer, asked, answered, **LIGHT)
