"""Write a sequence of symbols backwards: copying's places, mirrored."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from hf_attn.tasks.base import WorkedExample, point_at
from hf_attn.tasks.batch import Ragged
from hf_attn.tasks.recipes import RECURRENT, RECURRENT_DOCUMENT, SMALL_TRANSFORMER, Recipe
from hf_attn.tasks.synthetic.copying import SymbolSequences


@dataclass(frozen=True)
class Reversing(SymbolSequences):
    """Write the source backwards: "7 15 2 3" → "3 2 15 7".

    Its options are those of `SymbolSequences`.

    “Learn AI Series (#51)” uses lengths of 15 to 40.
    """

    name = "reverse"
    title = "Reversal"
    purpose = "write what it reads from back to front"

    # The place to read is the length less the place to write: waves tell that (an angle less an angle is a
    # rotation) where a learned table has every pair of places to learn. 300 steps gave .99 against .19.
    recipes: ClassVar[Mapping[str, Recipe]] = {
        "product": Recipe(
            {
                **SMALL_TRANSFORMER,
                "intermediate_size": 128,
                "encoder_layers": 1,
                "decoder_layers": 1,
                "position_type": "sinusoidal",
                "embedding_initializer_range": 0.2,
                "zero_init_residual": False,
            },
            steps=400,
            learning_rate=1e-2,
        )
    }
    recurrent_recipe = replace(RECURRENT, steps=500)
    # those of “Learn AI Series (#51)”: 30 epochs of 2,400 examples
    documents: ClassVar[Mapping[str, Recipe]] = dict.fromkeys(("none", "additive"), RECURRENT_DOCUMENT)

    @property
    def worked_example(self) -> WorkedExample:
        """The sequence that copying shows, so that the two maps can be compared."""
        return WorkedExample(
            self.example,
            self.answer(self.example),
            "The first symbol written reads the source's last: in the map that is the other diagonal.",
        )

    def draw(self, generator: torch.Generator, n: int) -> tuple[Ragged, Ragged, torch.Tensor]:
        """Draw sequences and mirror each within its own length; the symbols are the key."""
        sources = self.draw_sequences(generator, n)
        places = torch.arange(self.max_length, device=sources.ids.device)
        mirrored = sources.lengths.unsqueeze(1) - 1 - places  # [B, L], below 0 behind the end
        ids = sources.ids.gather(1, mirrored.clamp(min=0)) * (mirrored >= 0)
        return sources, Ragged(ids, sources.lengths), sources.ids

    def answer(self, source: str) -> str:
        return " ".join(self.split_source(source)[::-1])

    def alignment(self, source: str, target: str) -> list[list[int]]:
        """The other diagonal; `</s>` needs `</s>`."""
        end = len(self.encode(source)) - 1
        return point_at(range(end - 1, -1, -1), len(target.split()), end)
