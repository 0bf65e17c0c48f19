"""A task as one adds it: this file in `hf_attn/tasks/`, and a line in TASKS."""

from dataclasses import dataclass

from hf_attn.tasks.base import WorkedExample
from hf_attn.tasks.batch import Ragged
from hf_attn.tasks.recipes import Recipe
from hf_attn.tasks.synthetic.copying import SymbolSequences


@dataclass(frozen=True)
class Swapping(SymbolSequences):
    """Let every two neighbours change places: "7 15 2" → "15 7 2"."""

    name = "swap"
    title = "Swapping"

    @property
    def recipes(self):
        """As copying's."""
        sizes = {"hidden_size": 64, "intermediate_size": 128, "encoder_layers": 2, "decoder_layers": 2}
        return {"product": Recipe(sizes, steps=300, learning_rate=5e-3)}

    @property
    def worked_example(self):
        """The documents' own sequence."""
        return WorkedExample(self.example, self.answer(self.example), "Each symbol reads its neighbour.")

    def draw(self, generator, n):
        """Draw sequences; the source is the key."""
        sources = self.draw_sequences(generator, n)
        ids = sources.ids.clone()
        for place in range(0, ids.shape[1] - 1, 2):
            both = (sources.lengths > place + 1).unsqueeze(1)  # [n, 1]: the neighbour is there
            ids[:, place : place + 2] = (
                ids[:, place : place + 2].flip(1).where(both, ids[:, place : place + 2])
            )
        return sources, Ragged(ids, sources.lengths), sources.ids

    def _partners(self, length):
        return [min(place ^ 1, length - 1) for place in range(length)]

    def answer(self, source):
        """The symbols in their new order."""
        symbols = self.split_source(source)
        return " ".join(symbols[place] for place in self._partners(len(symbols)))

    def alignment(self, source, target):
        """Each symbol needs its neighbour; `</s>` needs `</s>`."""
        length = len(self.split_source(source))
        rows = [*self._partners(length), length]
        return [[int(column == place) for column in range(length + 1)] for place in rows]
