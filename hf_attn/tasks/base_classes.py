"""What tasks share that name a class: an answer is one index, whatever is read."""

from collections.abc import Sequence

from hf_attn.tasks.base import CLASSES, Task
from hf_attn.tasks.batch import Batch, Ragged


class ClassTask(Task):
    """A task that names a source's class."""

    kind = CLASSES

    @property
    def max_target_tokens(self) -> int:
        """One class."""
        return 1

    def split_target(self, text: str) -> list[str]:
        """A class is one symbol."""
        return [text]

    def decode(self, ids: Sequence[int]) -> str:
        """[index] → the class's name."""
        return self.classes[ids[0]]

    def measure(self, source: str, prediction: str, reference: str | None = None) -> dict[str, float]:  # noqa: ARG002
        """Nothing beyond right or wrong."""
        return {}

    def batch(self, sources: Ragged, targets: Ragged) -> Batch:
        """Close and pad the sources; labels [B] are classes."""
        closed = super().batch(sources, targets)
        return Batch(closed.input_ids, targets.ids[:, 0], closed.attention_mask)
