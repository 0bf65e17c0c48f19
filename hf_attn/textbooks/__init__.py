"""The five documents' numbered claims, measured: a document is a line in DOCUMENTS, a claim in CLAIMS."""

from types import ModuleType

from hf_attn.textbooks.chapter_1 import basics as chapter_1_basics
from hf_attn.textbooks.chapter_1 import heads as chapter_1_heads
from hf_attn.textbooks.chapter_1 import training as chapter_1_training
from hf_attn.textbooks.chapter_8 import efficient, examples, positions, theory
from hf_attn.textbooks.chapter_8 import heads as chapter_8_heads
from hf_attn.textbooks.chapter_8 import training as chapter_8_training
from hf_attn.textbooks.claims import Chance, Claim, Row, measure_claim
from hf_attn.textbooks.learn_ai_51 import basics as learn_ai_51_basics
from hf_attn.textbooks.learn_ai_51 import training as learn_ai_51_training
from hf_attn.textbooks.notebook import printed_numbers
from hf_attn.textbooks.transformers_1 import basics as transformers_1_basics
from hf_attn.textbooks.transformers_1 import language
from hf_attn.textbooks.transformers_1 import training as transformers_1_training

DOCUMENTS: dict[str, tuple[ModuleType, ...]] = {
    "chapter-1": (chapter_1_basics, chapter_1_heads, chapter_1_training),
    "attention-51": (learn_ai_51_basics, learn_ai_51_training),
    "notebook": (printed_numbers,),
    "chapter-8": (examples, theory, efficient, positions, chapter_8_heads, chapter_8_training),
    "transformers-1": (transformers_1_basics, language, transformers_1_training),
}


def claims_of(document: str) -> tuple[Claim, ...]:
    """The document's claims, in its order; those that need training behind the others.

    Raises:
        ValueError: there is no such document.
    """
    if document not in DOCUMENTS:
        raise ValueError(f"There is no document {document!r}; choose one of {', '.join(DOCUMENTS)}.")
    return tuple(claim for module in DOCUMENTS[document] for claim in module.CLAIMS)


__all__ = ["DOCUMENTS", "Chance", "Claim", "Row", "claims_of", "measure_claim"]
