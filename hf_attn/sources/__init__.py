"""The five documents' numbered claims, measured: a document is a line in DOCUMENTS, a claim in CLAIMS."""

from types import ModuleType

from hf_attn.sources import (
    attention_51,
    attention_51_training,
    chapter_1,
    chapter_1_training,
    chapter_1_views,
    chapter_8,
    chapter_8_efficient,
    chapter_8_positions,
    chapter_8_theory,
    chapter_8_training,
    chapter_8_views,
    notebook,
    transformers_1,
    transformers_1_language,
    transformers_1_training,
)
from hf_attn.sources.base import Chance, Claim, Row, measure_claim

DOCUMENTS: dict[str, tuple[ModuleType, ...]] = {
    "chapter-1": (chapter_1, chapter_1_views, chapter_1_training),
    "attention-51": (attention_51, attention_51_training),
    "notebook": (notebook,),
    "chapter-8": (
        chapter_8,
        chapter_8_theory,
        chapter_8_efficient,
        chapter_8_positions,
        chapter_8_views,
        chapter_8_training,
    ),
    "transformers-1": (transformers_1, transformers_1_language, transformers_1_training),
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
