"""Document `chapter-1`: what each head does, measured on the trained models in `model_cards/`.

The document tells its heads' roles over untrained weights (`chapter_1` measures those); here each role is
looked for before and after training.
"""

from functools import cache

from hf_attn.analysis.head_roles import HeadRoles, measure_head_roles
from hf_attn.interpret.read_head import read_head
from hf_attn.textbooks.chapter_8.heads import open_bundled
from hf_attn.textbooks.claims import OURS, Claim, Measured

EXAMPLES = 20
COMFORTABLE = "the cat sat on the mat because it was comfortable . the comfortable"
TIRED = COMFORTABLE.replace("comfortable", "tired")


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


@cache
def deciding_head() -> tuple[int, int]:
    """Layer and head of the English model that chooses best between two words, on held-out passages."""
    scores = roles_of("attn-sentences").trained["decoder"]["chooses"]
    return divmod(int(scores.argmax()), scores.shape[1])


def weight_on(text: str, reader: str, read: str) -> float:
    """What the deciding head gives to a word of a text, asked by the last one that is `reader`."""
    checkpoint, (layer, head) = open_bundled("attn-sentences"), deciding_head()
    found = read_head(checkpoint.model, checkpoint.task_named().encode(text), "", layer=layer, head=head)
    words = ["<s>", *text.split()]
    query = len(words) - 1 - words[::-1].index(reader)
    return float(found.weights[query, words.index(read)])


def deciding_words() -> Measured:
    return weight_on(COMFORTABLE, "comfortable", "mat"), weight_on(TIRED, "tired", "cat")


CLAIMS = (
    Claim(
        "A head attends to specific words, untrained and trained: most of any head's weight on the known "
        "answer, copier untrained, trained.",
        "≥0.80 ≥0.80",
        lambda: best_heads("attn-copy", "cross", "alignment"),
        "A map over untrained weights means nothing, whatever its highest cell is.",
        kind=OURS,
    ),
    Claim(
        "A head attends to adjacent words, untrained and trained: most of any on the one before, over even "
        "attention's, sorter's decoder.",
        ">2.00 >2.00",
        neighbours,
        "Only training makes such a head.",
        kind=OURS,
    ),
    Claim(
        "A head attends to all words alike, untrained and trained: highest entropy of any as a share of ln "
        "n, copier's cross-attention.",
        "≥0.80 ≥0.80",
        lambda: best_heads("attn-copy", "cross", "entropy"),
        "Untrained heads all do; of the trained none does, where a single word is the answer.",
        kind=OURS,
    ),
    Claim(
        "“The cat sat on the mat because it was comfortable”: the weight of “it” on cat and mat together.",
        ">0.50",
        lambda: (sum(weight_on(COMFORTABLE, "it", noun) for noun in ("cat", "mat")),),
        "attn-sentences, the head that chooses best: a causal model, which reads “it” before the word that "
        "tells.",
        kind=OURS,
    ),
    Claim(
        "The same noun, once the word that tells has come: “… . the comfortable”, “… . the tired”; weight on "
        "mat, on cat.",
        "≥0.50 ≥0.50",
        deciding_words,
        "What decides is on the map where it is needed, of a pair of nouns that training never had.",
        kind=OURS,
    ),
)
