"""Document `chapter-1`: what each head does, measured on the trained models in `model_cards/`.

The document tells its heads' roles over untrained weights (`chapter_1` measures those); here each role is
looked for before and after training.
"""

from functools import cache

from hf_attn.analysis.head_roles import HeadRoles, measure_head_roles
from hf_attn.textbooks.chapter_8.heads import open_bundled
from hf_attn.textbooks.claims import Claim, Measured

EXAMPLES = 20


@cache
def roles_of(name: str) -> HeadRoles:
    """Roles of a bundled model's heads, trained and untrained."""
    checkpoint = open_bundled(name)
    return measure_head_roles(checkpoint.model, checkpoint.task_named(), EXAMPLES)


def best_heads(name: str, kind: str, role: str) -> tuple[float, ...]:
    """The highest score of any head in a role, untrained and trained."""
    found = roles_of(name)
    return tuple(float(figures[kind][role].max()) for figures in (found.untrained, found.trained))


def neighbours() -> Measured:
    even = roles_of("attn-sort").even["decoder"]["previous"]
    return tuple(score / even for score in best_heads("attn-sort", "decoder", "previous"))


CLAIMS = (
    Claim(
        "A head attends to specific words, trained or not: most of any head's weight on the known "
        "answer, copier untrained, trained.",
        "≥0.80 ≥0.80",
        lambda: best_heads("attn-copy", "cross", "alignment"),
        "A map over untrained weights means nothing, whatever its highest cell is.",
    ),
    Claim(
        "A head attends to adjacent words, trained or not: most of any on the one before, over even "
        "attention's, sorter's decoder.",
        ">2.00 >2.00",
        neighbours,
        "Only training makes such a head.",
    ),
    Claim(
        "A head attends to all words alike, trained or not: highest entropy of any as a share of ln n, "
        "copier's cross-attention.",
        "≥0.80 ≥0.80",
        lambda: best_heads("attn-copy", "cross", "entropy"),
        "Untrained heads all do; of the trained none does, where a single word is the answer.",
    ),
)
