"""Wrong versions of the code, a line each, and the test that must fail on each."""

from typing import NamedTuple


class Mutant(NamedTuple):
    """A line that is wrong.

    Attributes:
        file: in which it stands.
        right, wrong: the text, which stands once in the file, and what it becomes.
        killed_by: a test, as pytest names it, that fails then.
    """

    file: str
    right: str
    wrong: str
    killed_by: str

    def __str__(self) -> str:
        return f"{self.file}: {self.wrong.strip()}"


MUTANTS = [
    Mutant(
        "hf_attn/training/loop.py",
        "validation = task.validation(VALIDATION_SAMPLE)",
        "validation = task.held_out(VALIDATION_SAMPLE)",
        "tests/training/test_loop.py::test_a_run_that_stops_at_an_accuracy_never_draws_a_held_out_example",
    ),
    Mutant(
        "hf_attn/tasks/synthetic/modular_addition.py",
        "second, target, pairs.sort(dim=1).values + 1",
        "second, target, pairs + 1",
        "tests/tasks/test_leaks.py::test_what_is_drawn_gives_nothing_of_another_split_away[modular]",
    ),
]
