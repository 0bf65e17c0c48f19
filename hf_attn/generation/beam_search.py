"""Beam search that remembers: every hypothesis it kept, every one it dropped, and what each chose from."""

from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import torch

Fate = Literal["kept", "ended", "dropped"]
NOTHING = -1e9  # score of a row that holds no hypothesis, as in transformers


class Writer(Protocol):
    """What the search asks of a model; `hf_attn.generation.decoders.IncrementalDecoder` is one."""

    def next_logits(self, token: torch.Tensor | None = None) -> torch.Tensor:
        """[K, V]: scores of the next token, after the one just written [K, 1]; None before the first."""

    def reorder_rows(self, rows: torch.Tensor) -> None:
        """Go on with these rows [K], each as often as it is named."""


@dataclass
class Hypothesis:
    """What one beam has written so far: a node of the tree.

    Attributes:
        token: the last one written; -1 at the root, where nothing is.
        parent: place of the hypothesis before it among the search's nodes; -1 at the root.
        depth: how many tokens are written.
        log_probability: of the last token, given all before it.
        score: sum of log p.
        fate: "kept" to be gone on with, "ended" a whole answer, or "dropped": others are likelier,
            or the search stopped there.
        probabilities: [V], what the next token was chosen from; [0] where the search did not go on.
    """

    token: int = -1
    parent: int = -1
    depth: int = 0
    log_probability: float = 0.0
    score: float = 0.0
    fate: Fate = "kept"
    probabilities: torch.Tensor = field(default_factory=lambda: torch.empty(0))


@dataclass(frozen=True)
class Answer:
    """One answer that a search returns.

    Attributes:
        node: place of its last token among the search's nodes.
        ids: token ids, `</s>` last where it was reached.
        log_probability: sum of log p.
        score: what answers are ranked by, log p / length ** length_penalty.
    """

    node: int
    ids: tuple[int, ...]
    log_probability: float
    score: float


@dataclass(frozen=True)
class BeamSearch:
    """All that a beam search saw.

    Attributes:
        nodes: a tree, the root first, parents before children; of the dropped, the likeliest of each step.
        answers: the best first.
    """

    nodes: tuple[Hypothesis, ...]
    answers: tuple[Answer, ...]

    def path(self, node: int) -> tuple[int, ...]:
        """Places of all hypotheses that lead to a node, from the first token to itself."""
        found = []
        while node > 0:
            found.append(node)
            node = self.nodes[node].parent
        return tuple(reversed(found))

    def ids(self, node: int) -> tuple[int, ...]:
        """The tokens of a hypothesis."""
        return tuple(self.nodes[place].token for place in self.path(node))


@torch.no_grad()
def beam_search(
    decoder: Writer,
    num_beams: int,
    max_new_tokens: int,
    ends: list[int],
    *,
    length_penalty: float = 1.0,
    early_stopping: bool | Literal["never"] = False,
) -> BeamSearch:
    """Keep the K likeliest hypotheses, and of all that end the K with the best log p / length ** penalty.

    Gives what `model.generate(num_beams=K, do_sample=False)` gives: of the 2 K likeliest continuations the K
    best that have not ended go on; one that has ended is an answer if it is among the K best (Wu et al. 2016,
    arXiv:1609.08144, section 7; transformers' stopping rules).

    Args:
        decoder: a model that has read one source.
        num_beams: K.
        max_new_tokens: most tokens of an answer; there it ends, whatever the last is.
        ends: ids that end an answer.
        length_penalty: above 0 longer answers are favoured, below 0 shorter ones; 0 ranks by log p alone.
        early_stopping: True stops with K answers; False when the best that goes on, were it to end here, is
            worse than the worst of K answers; "never" only when it could not become better at any length.

    Returns:
        The tree and up to K answers; fewer where there are not so many different ones.
    """
    tree, answers = _Tree(num_beams), _Answers(num_beams, length_penalty)
    decoder.reorder_rows(torch.zeros(num_beams, dtype=torch.long))
    scores = torch.tensor([0.0] + [NOTHING] * (num_beams - 1))  # every row holds the same: only one counts
    is_end, token = torch.tensor(ends, dtype=torch.long), None
    width = num_beams * max(2, 1 + len(ends))  # so many that K of them have not ended
    for length in range(1, max_new_tokens + 1):
        logits = decoder.next_logits(token).float()
        log_p = logits.log_softmax(-1).cpu()  # [K, V]
        best, places = (log_p + scores.unsqueeze(1)).flatten().topk(min(width, log_p.numel()))
        parents, tokens = places // log_p.shape[1], places % log_p.shape[1]
        has_ended = torch.isin(tokens, is_end) | (length == max_new_tokens)
        is_answer = has_ended & (torch.arange(len(best)) < num_beams)
        scores, going_on = (best + has_ended * NOTHING).topk(num_beams)
        is_kept = torch.zeros_like(has_ended).index_fill(0, going_on, True) & ~has_ended
        nodes = tree.grow(log_p, best, parents, tokens, is_answer, is_kept)
        answers.add(nodes, best, length, is_answer)
        if has_ended.all() or answers.suffice(scores[0], length, max_new_tokens, early_stopping):
            tree.stop()
            break
        tree.rows = [nodes[place] if is_kept[place] else None for place in going_on]
        decoder.reorder_rows(parents[going_on])
        token = tokens[going_on].unsqueeze(1).to(logits.device)
    return answers.rank(tree)


class _Tree:
    """Every hypothesis so far, and which of them each row of the batch holds."""

    def __init__(self, num_beams: int):
        self.nodes = [Hypothesis()]
        self.rows: list[int | None] = [0] + [None] * (num_beams - 1)

    def grow(self, log_p, best, parents, tokens, is_answer, is_kept) -> list[int | None]:
        """Add what was offered; its places among the nodes, None where its row holds nothing."""
        for node, offered in zip(self.rows, log_p, strict=True):
            if node is not None:
                self.nodes[node].probabilities = offered.exp()
        found: list[int | None] = []
        for place, (row, token) in enumerate(zip(parents.tolist(), tokens.tolist(), strict=True)):
            parent = self.rows[row]
            if parent is None:
                found.append(None)
                continue
            fate: Fate = "ended" if is_answer[place] else "kept" if is_kept[place] else "dropped"
            depth = self.nodes[parent].depth + 1
            found.append(len(self.nodes))
            self.nodes.append(
                Hypothesis(token, parent, depth, float(log_p[row, token]), float(best[place]), fate)
            )
        return found

    def stop(self) -> None:
        """Nothing is gone on with any more."""
        for node in self.nodes:
            if node.fate == "kept" and node.depth == self.nodes[-1].depth:
                node.fate = "dropped"


class _Answers:
    """The K best answers so far."""

    def __init__(self, num_beams: int, length_penalty: float):
        self.length_penalty = length_penalty
        self.scores = torch.full((num_beams,), NOTHING)
        self.are_found = torch.zeros(num_beams, dtype=torch.bool)
        self.nodes: list[int | None] = [None] * num_beams

    def add(self, nodes: list[int | None], best: torch.Tensor, length: int, is_answer: torch.Tensor) -> None:
        """Let what ended push out what is worse."""
        offered = best / length**self.length_penalty + ~is_answer * NOTHING
        self.scores, order = torch.cat((self.scores, offered)).topk(len(self.scores))
        self.are_found = torch.cat((self.are_found, is_answer))[order]
        self.nodes = [(self.nodes + nodes)[place] for place in order]

    def suffice(
        self, best: torch.Tensor, length: int, longest: int, early_stopping: bool | Literal["never"]
    ) -> bool:
        """Whether the search may stop, if the best that goes on has this sum of log p."""
        if (early_stopping is True or len(self.nodes) == 1) and self.are_found.all():
            return True
        longer = early_stopping == "never" and self.length_penalty > 0
        could_be = best / (longest if longer else length) ** self.length_penalty
        worst = torch.where(self.are_found, self.scores.min(), NOTHING)
        return not (could_be > worst).any()

    def rank(self, tree: _Tree) -> BeamSearch:
        """The tree with its answers, the best first."""
        found = BeamSearch(tuple(tree.nodes), ())
        ranked = zip(self.nodes, self.are_found.tolist(), self.scores.tolist(), strict=True)
        answers = [
            Answer(node, found.ids(node), found.nodes[node].score, score)
            for node, is_found, score in ranked
            if is_found and node is not None
        ]
        return replace(found, answers=tuple(answers))
