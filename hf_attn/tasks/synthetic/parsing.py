"""Read an assignment and write its syntax tree in prefix order: "x=1+2" → "ASSIGN x ADD 1 2"."""

import ast
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from hf_attn.models.config_checks import bounded
from hf_attn.tasks.base import HardInputs, Task, WorkedExample, point_at
from hf_attn.tasks.batch import Ragged, constant
from hf_attn.tasks.options import SizeChoice
from hf_attn.tasks.recipes import SMALL_TRANSFORMER, Recipe
from hf_attn.utils.text import quote

VARIABLES = ("x", "y", "z")
DIGITS = tuple("0123456789")
OPERATORS = {"+": "ADD", "-": "SUB", "*": "MUL", "/": "DIV"}
SIGNS = {"ASSIGN": "=", **{name: sign for sign, name in OPERATORS.items()}}
PYTHON_OPERATORS = {ast.Add: "ADD", ast.Sub: "SUB", ast.Mult: "MUL", ast.Div: "DIV"}
LEAF = -1  # in a drawn tree: this node is no operator
INNER_PROBABILITY = 0.6  # below the root, and above the depth drawn for the example
REDUNDANT_PROBABILITY = 0.1  # brackets that the tree does not need, as people write them


@dataclass(frozen=True)
class Node:
    """A node of a syntax tree."""

    label: str  # ASSIGN, ADD, SUB, MUL, DIV, a variable or a digit
    children: tuple["Node", ...] = ()  # none for a leaf
    place: int = -1  # index of the node's token in the source, where it was read from one; else −1

    def prefix(self) -> list["Node"]:
        """The node and all below it, in prefix order."""
        return [self, *(node for child in self.children for node in child.prefix())]

    def paths(self, path: str = "") -> dict[str, str]:
        """Label by path from the root ("", "0", "10", …)."""
        found = {path: self.label}
        for index, child in enumerate(self.children):
            found |= child.paths(path + str(index))
        return found

    def depth(self) -> int:
        """Operators on the longest way down, the assignment not counted."""
        below = max((child.depth() for child in self.children), default=0)
        return below + (self.label in PYTHON_OPERATORS.values())


@dataclass(frozen=True)
class Parsing(Task):
    """Write the syntax tree of an assignment.

    Args:
        depth: how deep operators nest, 1 to 4; 1 is that of “The Birth of Transformers”, one operator.
        parentheses: whether expressions may need them; without, precedence and order alone decide.
    """

    depth: int = bounded(1, 1, 4)
    parentheses: bool = True

    name = "parser"
    title = "Parser"
    purpose = "turn an assignment into its syntax tree"
    notation = "an assignment to x, y or z"
    metric = "whole tree right"
    size_name = "depth"
    signs = "=+-*/()"
    sizes = (
        SizeChoice("depth", "Depth", (1,), 1, "Parser, one operator"),
        SizeChoice("depth", "Depth", (2, 3, 4), 3, "Parser, nested"),
    )
    symbols = (*VARIABLES, *DIGITS, "=", *OPERATORS, "(", ")", "ASSIGN", *OPERATORS.values())

    @property
    def max_operators(self) -> int:
        """Operators of a full tree."""
        return 2**self.depth - 1

    @property
    def max_source_tokens(self) -> int:
        """`x=`, a full tree, a pair of brackets round every operator, `</s>`."""
        brackets = 0 if self.depth == 1 else 2 * self.max_operators
        return 2 + 2 * self.max_operators + 1 + brackets + 1

    @property
    def max_target_tokens(self) -> int:
        """ASSIGN, variable, a full tree, `</s>`."""
        return 2 + 2 * self.max_operators + 1 + 1

    @property
    def recipes(self) -> Mapping[str, Recipe]:
        """One operator is learned by a small model at once; nesting takes more steps."""
        small = {**SMALL_TRANSFORMER, "position_initializer_range": 1.0}
        wide = {"hidden_size": 128, "intermediate_size": 512, "encoder_layers": 3, "decoder_layers": 3}
        if self.depth == 1:
            product = Recipe(small, steps=60, batch_size=64, learning_rate=5e-3, warmup_steps=5)
        else:
            nested = {**small, "use_bias": True}
            product = Recipe(
                nested, steps=800, batch_size=128, learning_rate=4e-3, warmup_steps=50, evaluate_every=50
            )
        return {
            "product": product,
            "document": Recipe(
                {**small, **wide},
                steps=20,
                batch_size=32,
                learning_rate=4e-3,
                warmup_steps=3,
                report_every=1,
                evaluate_every=1,
            ),
        }

    @property
    def worked_example(self) -> WorkedExample:
        source = "x=1+2" if self.depth == 1 else "x=(1+2)*3"
        return WorkedExample(
            source,
            self.answer(source),
            "The operator that binds last is written first; each name and number is read from its own place.",
        )

    # Drawing: a heap of nodes, written infix and prefix from the leaves up, all examples at once

    def draw(self, generator: torch.Generator, n: int) -> tuple[Ragged, Ragged, torch.Tensor]:
        """Draw trees level by level and write them; the prefix form is the key."""
        device = generator.device

        def whole(high: int, *shape: int) -> torch.Tensor:
            return torch.randint(0, high, shape, generator=generator, device=device)

        def chance(probability: float, *shape: int) -> torch.Tensor:
            return torch.rand(shape, generator=generator, device=device) < probability

        wanted = whole(self.depth, n) + 1  # each example's own depth
        size = 2 ** (self.depth + 1) - 1
        operators = torch.full((n, size), LEAF, device=device)
        for node in range(2**self.depth - 1):
            level = (node + 1).bit_length() - 1
            inner = wanted > level
            if node:
                inner = inner & (operators[:, (node - 1) // 2] != LEAF) & chance(INNER_PROBABILITY, n)
            operators[:, node] = torch.where(inner, whole(len(OPERATORS), n), LEAF)
        names = len(DIGITS) if self.depth == 1 else len(DIGITS) + len(VARIABLES)
        leaves = self.vocabulary["x"] + (whole(names, n, size) + len(VARIABLES)) % len(VARIABLES + DIGITS)
        redundant = chance(REDUNDANT_PROBABILITY if self.depth > 1 and self.parentheses else 0.0, n, size)
        needed = torch.zeros_like(wanted, dtype=torch.bool)
        infix, prefix = self._write(0, operators, leaves, redundant, needed)
        variable = Ragged(whole(len(VARIABLES), n, 1) + self.vocabulary["x"], torch.ones_like(wanted))
        sources = variable + constant(self.vocabulary["="], wanted) + infix
        targets = constant(self.vocabulary["ASSIGN"], wanted) + variable + prefix
        if not self.parentheses:
            keep = (~needed).nonzero().squeeze(1)
            sources, targets = sources.rows(keep), targets.rows(keep)
        return sources, targets, targets.ids

    def key_of(self, source: str) -> list[int]:
        """The prefix form."""
        return self.ids(*self.split_target(self.answer(source)))

    def _write(self, node: int, operators, leaves, redundant, needed) -> tuple[Ragged, Ragged]:
        """Infix and prefix form of the subtree at `node`; `needed` notes where a bracket was necessary."""
        ones = torch.ones_like(needed, dtype=torch.long)
        leaf = Ragged(leaves[:, node : node + 1], ones)
        if 2 * node + 1 >= operators.shape[1]:
            return leaf, leaf
        operator = operators[:, node]
        is_inner = operator != LEAF
        sign = Ragged(operator.clamp(min=0).unsqueeze(1) + self.vocabulary["+"], ones)
        name = Ragged(operator.clamp(min=0).unsqueeze(1) + self.vocabulary["ADD"], ones)
        written = []
        prefix = name
        for is_right, child in enumerate((2 * node + 1, 2 * node + 2)):
            infix, child_prefix = self._write(child, operators, leaves, redundant, needed)
            below = operators[:, child]
            binds_tight, below_binds_tight = operator >= 2, below >= 2  # * and / bind tighter than + and −
            must = binds_tight & ~below_binds_tight
            if is_right:
                must = must | (binds_tight == below_binds_tight)
            must = must & is_inner & (below != LEAF)
            needed |= must
            bracketed = must | (redundant[:, child] & (below != LEAF) & is_inner)
            opening = constant(self.vocabulary["("], ones).where(bracketed)
            written.append(opening + infix + constant(self.vocabulary[")"], ones).where(bracketed))
            prefix = prefix + child_prefix
        infix = written[0] + sign + written[1]
        return _choose(is_inner, infix, leaf), _choose(is_inner, prefix, leaf)

    # Reading and judging: by Python's own grammar

    def tree(self, text: str) -> Node:
        """Parse an assignment with Python's `ast`; ValueError where it is none that the task has."""
        self.refuse_foreign(text, self.vocabulary, "x, y or z, =, digits, + - * / and brackets")
        if longer := re.search(r"[0-9xyz](\s*[0-9xyz])+", text):
            raise ValueError(
                f"{quote(longer.group())} has no operator between its characters, and numbers and names are "
                f"one character here: write for example {self.worked_example.source!r}."
            )
        text = "".join(text.split())
        variable, equals, expression = text.partition("=")
        try:
            body = ast.parse(expression, mode="eval").body
            if variable not in VARIABLES or not equals:
                raise SyntaxError("no assignment")
            value = _node_of(body, expression, len(variable) + 1)
        except (SyntaxError, TypeError) as error:
            raise ValueError(
                f"{quote(text)} does not parse: write a variable, =, and an expression, "
                f"for example {self.worked_example.source!r}."
            ) from error
        return Node("ASSIGN", (Node(variable, place=0), value), place=1)

    def split_source(self, text: str) -> list[str]:
        """One symbol a character; the expression must parse and be no deeper than the task."""
        tree = self.tree(text)
        depth = tree.depth()
        text = "".join(text.split())
        if depth == 0:
            raise ValueError(
                f"{quote(text)} has no operator: write for example {self.worked_example.source!r}."
            )
        if depth > self.depth:
            raise ValueError(
                f"{quote(text)} nests {depth} operators deep; this model reads {self.depth} at most."
            )
        if len(text) + 1 > self.max_source_tokens:
            raise ValueError(
                f"{quote(text)} has {len(text)} characters; this model reads {self.max_source_tokens - 1} at "
                f"most, brackets included, for example {self.worked_example.source!r}."
            )
        return list(text)

    def answer(self, source: str) -> str:
        """The tree in prefix order, by Python's `ast`."""
        return " ".join(node.label for node in self.tree(source).prefix())

    def measure(self, source: str, prediction: str, reference: str | None = None) -> dict[str, float]:  # noqa: ARG002
        """Token accuracy, and the share of the tree's nodes that stand right in the tree that was written."""
        expected = self.tree(source).paths()
        written = read_prefix(prediction.split())
        found = written.paths() if written else {}
        right = sum(found.get(path) == label for path, label in expected.items())
        return {
            **super().measure(source, prediction),
            "node_accuracy": right / max(len(expected), len(found)),
            "tree_accuracy": float(found == expected and len(prediction.split()) == len(expected)),
        }

    def alignment(self, source: str, target: str) -> list[list[int]]:
        """Each node is written from its own token; `</s>` from `</s>`."""
        end = len(self.encode(source)) - 1
        return point_at([node.place for node in self.tree(source).prefix()], len(target.split()), end)

    def size_of(self, source: str) -> int:
        return self.tree(source).depth()

    def hard_inputs(self, randomness: random.Random) -> HardInputs:
        """What order alone decides, deep nesting, and brackets that nothing needs."""
        leaves = DIGITS if self.depth == 1 else (*DIGITS, *VARIABLES)

        def leaf() -> str:
            return randomness.choice(leaves)

        def sign() -> str:
            return randomness.choice(list(OPERATORS))

        def full(depth: int, write_leaf: Callable[[], str]) -> str:
            if depth == 0:
                return write_leaf()
            left, right = (full(depth - 1, write_leaf) for _ in range(2))
            return f"({left}{sign()}{right})"

        def chain() -> str:
            return sign().join(leaf() for _ in range(self.depth + 1))

        def to_the_right() -> str:
            opened = "".join(f"{leaf()}{sign()}(" for _ in range(self.depth - 1))
            return f"{opened}{leaf()}{sign()}{leaf()}" + ")" * (self.depth - 1)

        def same_leaf() -> str:
            chosen = leaf()
            return full(self.depth, lambda: chosen)[1:-1]

        def assigned(make: Callable[[], str]) -> Callable[[], str]:
            return lambda: f"{randomness.choice(VARIABLES)}={make()}"

        makers = {
            "one sign throughout, no brackets": chain,
            "nested to the right": to_the_right,
            "a full tree, every operator in brackets": lambda: full(self.depth, leaf)[1:-1],
            "a full tree of one leaf": same_leaf,
            "brackets round the whole": lambda: f"({chain()})",
            "brackets round brackets": lambda: f"(({leaf()}{sign()}{leaf()}))",
        }
        return {name: assigned(make) for name, make in makers.items()}


def _choose(condition: torch.Tensor, yes: Ragged, no: Ragged) -> Ragged:
    """`yes` in the rows where the condition [B] holds, else `no`."""
    return yes.where(condition) + no.where(~condition)


def _node_of(body: ast.expr, text: str, offset: int) -> Node:
    """A Python expression as a tree; SyntaxError or TypeError for what the task does not have."""
    if isinstance(body, ast.BinOp):
        label = PYTHON_OPERATORS.get(type(body.op))
        if label is None or body.left.end_col_offset is None:
            raise SyntaxError("operator")
        gap = text[body.left.end_col_offset : body.right.col_offset]  # brackets may stand round the sign
        place = body.left.end_col_offset + gap.index(SIGNS[label]) + offset
        return Node(label, (_node_of(body.left, text, offset), _node_of(body.right, text, offset)), place)
    if isinstance(body, ast.Name) and body.id in VARIABLES:
        return Node(body.id, place=body.col_offset + offset)
    if isinstance(body, ast.Constant) and str(body.value) in DIGITS:
        return Node(str(body.value), place=body.col_offset + offset)
    raise SyntaxError("construction")


def read_prefix(symbols: Sequence[str]) -> Node | None:
    """A tree from its prefix form, as far as it goes; None where nothing is written.

    Missing children are left out; symbols behind a finished tree are not read.
    """
    rest = list(symbols)

    def read() -> Node | None:
        if not rest:
            return None
        label = rest.pop(0)
        wanted = 2 if label in SIGNS else 0
        return Node(label, tuple(child for _ in range(wanted) if (child := read()) is not None))

    return read()
