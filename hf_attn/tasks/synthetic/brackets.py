"""Close what is open: the language of brackets (Dyck), which a stack understands."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from hf_attn.models.config_checks import bounded
from hf_attn.tasks.base import Task, WorkedExample, point_at
from hf_attn.tasks.batch import Ragged
from hf_attn.tasks.options import SizeChoice
from hf_attn.tasks.recipes import SMALL_TRANSFORMER, Recipe

OPENING, CLOSING = "([{", ")]}"


@dataclass(frozen=True)
class Brackets(Task):
    """Write the brackets that close what is open: "([]{" → "})".

    Args:
        max_length: longest source, 1 to 40 brackets.
        kinds: how many kinds of brackets there are, 1 to 3.
    """

    max_length: int = bounded(16, 1, 40)
    kinds: int = bounded(3, 1, len(OPENING))

    name = "brackets"
    title = "Brackets"
    purpose = "close the brackets that are open"
    notation = "brackets of which some are still open"
    metric = "every bracket right"
    size_name = "open brackets"
    sizes = (SizeChoice("max_length", "Longest", (8, 16, 32), 16),)
    is_spaced = False
    recipes: ClassVar[Mapping[str, Recipe]] = {
        "product": Recipe(
            {
                **SMALL_TRANSFORMER,
                "position_initializer_range": 1.0,
                "zero_init_residual": False,
                "use_bias": True,
            },
            steps=600,
            learning_rate=4e-3,
        )
    }

    @property
    def symbols(self) -> tuple[str, ...]:
        return (*OPENING[: self.kinds], *CLOSING[: self.kinds])

    @property
    def max_source_tokens(self) -> int:
        return self.max_length + 1

    max_target_tokens = max_source_tokens  # where all are open

    @property
    def worked_example(self) -> WorkedExample:
        """An open bracket, a closed pair, and another open one, as far as the options allow."""
        source = "".join(c for c in "([]{()" if c in self.symbols)[: self.max_length]
        return WorkedExample(
            source,
            self.answer(source),
            "Each closing bracket reads the last one that is still open; closed pairs are passed over.",
        )

    def draw(self, generator: torch.Generator, n: int) -> tuple[Ragged, Ragged, torch.Tensor]:
        """Draw a walk of depths for each example, then kinds for its opening brackets; the source is the key.

        A walk S of ±1 steps gives the depths |S|: at depth 0 it can only rise. Each example has its
        own chance to rise, so that shallow and deep ones are drawn.
        """
        device, size = generator.device, self.max_length
        two = torch.randint(1, size + 1, (2, n), generator=generator, device=device)
        lengths = two.max(dim=0).values
        places = torch.arange(size, device=device)
        is_inside = places < lengths.unsqueeze(1)  # [n, L]
        rising = 0.5 + 0.5 * torch.rand((n, 1), generator=generator, device=device)
        steps = torch.where(torch.rand((n, size), generator=generator, device=device) < rising, 1, -1)
        depth = torch.nn.functional.pad(steps.cumsum(dim=1).abs(), (1, 0))  # [n, L + 1], before and after
        before, after = depth[:, :-1], depth[:, 1:]
        is_opening = after > before
        # a closing bracket's opener is the last one that rose to the depth from which it falls
        is_match = is_opening.unsqueeze(1) & (places < places.unsqueeze(1))  # [n, closer, opener]
        is_match &= after.unsqueeze(1) == before.unsqueeze(2)
        opener = (is_match * places).max(dim=2).values
        opener = torch.where(is_opening, places, opener)
        kinds = torch.randint(0, self.kinds, (n, size), generator=generator, device=device).gather(1, opener)
        first = self.vocabulary[OPENING[0]]
        ids = (first + kinds + self.kinds * ~is_opening) * is_inside
        return Ragged(ids, lengths), self._closers(kinds, is_opening & is_inside, after, lengths), ids

    def _closers(self, kinds, is_opening, after, lengths) -> Ragged:
        """The closing brackets of those that no later step falls below, from the last to the first."""
        places = torch.arange(self.max_length, device=kinds.device)
        is_later = (places > places.unsqueeze(1)) & (places < lengths[:, None, None])  # [n, opener, later]
        falls = is_later & (after.unsqueeze(1) < after.unsqueeze(2))
        is_open = is_opening & ~falls.any(dim=2)
        order = torch.where(is_open, places, -1).argsort(dim=1, descending=True)
        ids = kinds.gather(1, order) + self.vocabulary[CLOSING[0]]
        lengths = is_open.sum(dim=1)
        return Ragged(ids * (places < lengths.unsqueeze(1)), lengths)

    def split_source(self, text: str) -> list[str]:
        """One symbol a bracket, spaces left out; each closing bracket must close the last that is open."""
        self.refuse_foreign(text, self.symbols, f"brackets, {' '.join(self.symbols)}")
        symbols = list("".join(text.split()))
        if len(symbols) > self.max_length:
            raise ValueError(
                f"The input has {len(symbols)} brackets; this model reads {self.max_length} at most, "
                f"for example {self.worked_example.source!r}."
            )
        self._stack(symbols)
        return symbols

    def answer(self, source: str) -> str:
        """What a stack still holds, from its top."""
        symbols = self.split_source(source)
        return "".join(CLOSING[OPENING.index(symbols[place])] for place in reversed(self._stack(symbols)))

    def alignment(self, source: str, target: str) -> list[list[int]]:
        """A closing bracket needs the one that it closes; `</s>` needs `</s>`."""
        symbols = self.split_source(source)
        return point_at(self._stack(symbols)[::-1], len(target), len(symbols))

    def size_of(self, source: str) -> int:
        return len(self.answer(source))

    def _stack(self, symbols) -> list[int]:
        """Places of the brackets that are open at the end, the first one first."""
        stack: list[int] = []
        for place, symbol in enumerate(symbols):
            if symbol in OPENING:
                stack.append(place)
                continue
            wanted = CLOSING[OPENING.index(symbols[stack[-1]])] if stack else None
            if symbol != wanted:
                could = f"close with {wanted!r}" if wanted else "open one first"
                raise ValueError(
                    f"{symbol!r} (character {place + 1}) closes nothing that is open: {could}, "
                    f"for example {self.worked_example.source!r}."
                )
            stack.pop()
        return stack
