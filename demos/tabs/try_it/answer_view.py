"""What the Try board shows of an answer: its symbols, what each was chosen from, its verdict, its map."""

import math

import torch

from hf_attn.analysis.ablation import measure_removal
from hf_attn.analysis.head_roles import build_attention_mask
from hf_attn.architectures.families import is_recurrent
from hf_attn.generation.beam_search import BeamSearch
from hf_attn.generation.generate import Choice, Generation, choices_of
from hf_attn.interpret.attention_maps import attention_maps
from hf_attn.interpret.long_inputs import WINDOWS
from hf_attn.tasks import Task, Verdict
from hf_attn.tasks.base import CLASSES, SEQUENCE, TEXT
from hf_attn.tasks.synthetic.parsing import read_prefix

from ...session.catalog import LoadedModel
from ...session.model_input import known_alignment
from ...ui import boards, formatting

SENT = 160  # symbols of a distribution that are sent one by one; every task's own vocabulary is smaller
TEMPERATURES = tuple(step / 10 for step in range(21))  # of the slider; what is not sent is summed for each
DROPPED = 2  # of a step's dropped symbols, so many are drawn in the beam tree
BRANCHES = 24  # beams that died out, whose maps are sent, as long as these have so many weights together
BRANCH_WEIGHTS = 400_000
MAP_WEIGHTS = 2**20  # of the maps of all answers to one input, 3 MB; of longer ones a window is sent
LONGEST_SAID = 40  # characters of an answer in a sentence
CHECKS = {
    "addition": "right: {source} = {answer}, checked by Python's integers",
    "arithmetic": "right: {answer}, checked by Python's integers",
    "parser": "right: the same tree as Python's ast",
    "copy": "right: the same as the input",
}
RIGHT = {  # kind of task → what is said of an answer that was checked
    SEQUENCE: "right, by the task's own check",
    CLASSES: "right: the class that the data give",
    TEXT: "right",
}
UNKNOWN = {  # … and of one that nobody can check
    SEQUENCE: "the right answer to this input is not known",
    CLASSES: "the right class of this text is not known",
    TEXT: "many continuations are right",
}
MAP_TITLES = {
    "cross": "Cross-attention of the answer",
    "alignment": "Alignment of the answer",
    "decoder": "What each symbol of the answer reads",
    "encoder": "Self-attention of the input",
}


def judge(task: Task | None, source: str, ids) -> tuple[Verdict | None, dict]:
    """The verdict on an answer, and what the board says of it."""
    if task is None:
        return None, {"correct": None}
    prediction = task.decode(ids)
    verdict, answer = task.verify(source, prediction), task.answer(source)
    if verdict.correct is None:
        return verdict, {"correct": None, "check": UNKNOWN[task.kind], "text": prediction}
    named = {"source": source, "answer": formatting.shorten_middle(answer, LONGEST_SAID)}
    words = CHECKS.get(task.name, RIGHT[task.kind]).format(**named)
    return verdict, {"correct": verdict.correct, "check": words, "answer": answer, "text": prediction}


class Distributions:
    """What the steps of all answers were chosen from, each sent once; `name_ids` gives the names of ids."""

    def __init__(self, name_ids):
        self.name_ids, self.rows, self.places = name_ids, [], {}

    def add(self, probabilities: torch.Tensor) -> int:
        """Place of a distribution among those sent."""
        if id(probabilities) not in self.places:
            self.places[id(probabilities)] = len(self.rows)
            self.rows.append(probabilities)
        return self.places[id(probabilities)]

    def to_value(self) -> list[dict]:
        """Each from the largest: names, log p, and how many more there are with what they weigh together."""
        return [self._read(probabilities) for probabilities in self.rows]

    def _read(self, probabilities: torch.Tensor) -> dict:
        order = probabilities.argsort(descending=True, stable=True)
        log_p = probabilities.double().log()[order]
        named = [round(one, 6) for one in log_p[:SENT].tolist()]
        value = {"names": self.name_ids(order[:SENT].tolist()), "log_p": named}
        if len(order) > SENT:
            rest = log_p[SENT:] - log_p[0]
            weights = [float((rest / warmth).exp().sum()) if warmth else 0.0 for warmth in TEMPERATURES]
            value |= {"more": len(rest), "weights": weights}
        return value


class AnswerView:
    """The board's value for one input (`source`, as a person writes it), answer by answer."""

    def __init__(self, opened: LoadedModel, source: str):
        self.opened, self.source = opened, source
        self.map_weights = MAP_WEIGHTS  # of one answer's map
        self.names_classes = opened.kind == CLASSES
        self.distributions = Distributions(self._name)

    def _name(self, ids) -> list[str]:
        if not self.names_classes:
            return self.opened.labels(ids)
        names = self.opened.class_names()
        return [names[index] for index in ids]

    def show_answer(self, ids, choices: tuple[Choice, ...], score: float) -> dict:
        """One answer: symbols with their probabilities, verdict, tree or passage, and map."""
        opened, task, ids = self.opened, self.opened.reader, list(ids)
        labels = self._name(ids)
        verdict, said = judge(task, self.source, ids)
        wrong = [False] * len(ids)
        if verdict is not None and verdict.correct is not None:
            symbols = labels if self.names_classes else task.decode_symbols(ids)
            wrong[: len(symbols)] = boards.wrong_symbols(symbols, verdict)
            if not verdict.correct and not any(wrong):
                wrong[-1] = True  # all that stands there is right: it ended too early, or not at all
        sure = [float(choice.probabilities[choice.token]) for choice in choices]
        first = wrong.index(True) if any(wrong) else sure.index(min(sure, default=0)) if sure else 0
        value = {
            **said,
            "written": [
                {"token": label, "probability": share} for label, share in zip(labels, sure, strict=True)
            ],
            "wrong": wrong,
            "steps": [self.distributions.add(choice.probabilities) for choice in choices],
            "log_probability": score,
            "per_token": score / max(1, len(ids)),
            "map": self.show_map(ids if opened.model.can_generate() else [], first),
        }
        if opened.kind == TEXT:
            value["passage"] = {"prompt": f"{self.source}{task.gap}", "text": opened.read_text(ids)}
        if task is not None and task.name == "parser":
            value["tree"] = boards.read_tree(read_prefix(task.decode_symbols(ids)), task.tree(self.source))
        return value

    def show_generation(self, generation: Generation) -> dict:
        return self.show_answer(generation.ids, generation.choices, generation.score)

    def show_beams(self, found: BeamSearch) -> dict:
        """The best answer, with the others and the tree of all beams."""
        self.map_weights = MAP_WEIGHTS // len(found.answers)
        answers = [
            self.show_answer(answer.ids, choices_of(found, answer.node), answer.log_probability)
            for answer in found.answers
        ]
        return {**answers[0], "others": answers[1:], "beams": self._show_tree(found)}

    def _show_tree(self, found: BeamSearch) -> dict:
        """The nodes that are drawn, parents first: each with its answer or branch, whose map has its row."""
        drawn = drawn_nodes(found)
        place_of = {node: place for place, node in enumerate(drawn)}
        map_of, leaves = find_maps(found)
        rows = []
        for node in drawn[1:]:
            one = found.nodes[node]
            rows.append(
                {
                    "token": self._name([one.token])[0],
                    "parent": place_of[one.parent],
                    "p": float(found.nodes[one.parent].probabilities[one.token]),
                    "score": one.score,
                    "fate": one.fate,
                    "step": self.distributions.add(found.nodes[one.parent].probabilities),
                    "map": map_of.get(one.parent),
                }
            )
        ends = [place_of[answer.node] for answer in found.answers]
        return {
            "nodes": rows,
            "ends": ends,
            "maps": self._show_branches([found.ids(leaf) for leaf in leaves]),
        }

    def _show_branches(self, branches: list[tuple[int, ...]]) -> list[dict | None]:
        """Maps of beams that died out; None for those that would be too much to send."""
        maps: list[dict | None] = []
        left = BRANCH_WEIGHTS
        for ids in branches:
            shown = self.show_map(list(ids)) if left > 0 else None
            left -= math.prod(shown.get("shape", [0])) if shown else 0
            maps.append(shown)
        return maps

    def show_map(self, written: list[int], step: int = 0) -> dict:
        """Who reads what while the answer is written, with the known answer where there is one.

        Of a map that is too long to be sent, a window around what is read at this step.
        """
        opened = self.opened
        maps = attention_maps(opened.model, opened.encode(self.source), written or None)
        answering = maps.relabel(opened.labels).answering
        if answering is None:
            return {"kind": None}
        rows, cols = list(answering.rows), list(answering.columns)
        allowed = build_attention_mask(answering.kind, len(rows), len(cols))
        kind = "alignment" if is_recurrent(opened.model.config) else answering.kind
        weights, truth = answering.weights, answering.align(known_alignment(opened, self.source, written))
        shown = {"kind": kind, "title": MAP_TITLES[kind]}
        window = self._choose_window(weights) if kind == "cross" else None
        if window is not None:
            middle = (step, int(weights[-1, :, step].mean(0).argmax()))
            starts = [
                max(0, min(at - window // 2, len(side) - window))
                for at, side in zip(middle, (rows, cols), strict=True)
            ]
            ys, xs = (slice(start, start + window) for start in starts)
            rows, cols, weights = rows[ys], cols[xs], weights[:, :, ys, xs]
            truth = truth and [row[xs] for row in truth[ys]]
            shown["from"] = starts
            ends = (
                f"{formatting.count(at + 1)} to {formatting.count(at + len(side))}"
                for at, side in zip(starts, (rows, cols), strict=True)
            )
            shown["title"] += ": symbols {} of the answer, {} of the input; Explore shows all".format(*ends)
        return shown | {
            "maps": boards.encode_maps(weights),
            "shape": list(weights.shape),
            "rows": rows,
            "cols": cols,
            "truth": truth,
            "allowed": allowed.tolist() if kind == "decoder" else None,
        }

    def _choose_window(self, weights: torch.Tensor) -> int | None:
        """The largest window that may be sent; None where the whole map may be."""
        fits = (size for size in (None, *WINDOWS) if weights[:, :, :size, :size].numel() <= self.map_weights)
        return next(fits, WINDOWS[-1])

    def show_removal(self) -> dict:
        """What the named class loses with each word."""
        removal = measure_removal(self.opened.model, self.opened.tokenizer, self.source)
        names = self.opened.class_names()
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


def drawn_nodes(found: BeamSearch) -> list[int]:
    """The root, all that was kept or ended, and of each step's dropped symbols the likeliest."""
    left = dict.fromkeys({node.depth for node in found.nodes}, DROPPED)
    drawn = []
    for place, node in enumerate(found.nodes):  # a step's nodes come from the likeliest on
        if node.fate == "dropped":
            left[node.depth] -= 1
        if node.fate != "dropped" or left[node.depth] >= 0:
            drawn.append(place)
    return drawn


def find_maps(found: BeamSearch) -> tuple[dict[int, int], list[int]]:
    """Which map tells what each beginning reads next: (node → place of the map, leaves of the branches).

    What is read while a symbol is written depends on the beginning before it alone. So the maps of the
    answers serve all beginnings on their way; those that died out have maps behind them, the deepest first.
    """
    maps: dict[int, int] = {}
    for place, answer in enumerate(found.answers):
        for node in (0, *found.path(answer.node)[:-1]):
            maps.setdefault(node, place)
    gone_on = sorted({node.parent for node in found.nodes[1:]}, key=lambda place: -found.nodes[place].depth)
    leaves: list[int] = []
    for parent in gone_on:
        if parent not in maps and len(leaves) < BRANCHES:
            place = len(found.answers) + len(leaves)
            leaves.append(next(i for i, node in enumerate(found.nodes) if node.parent == parent))
            for node in (0, *found.path(parent)):
                maps.setdefault(node, place)
    return maps, leaves
