"""The five documents' numbered claims, measured: a document is a line in DOCUMENTS, a claim a line in CLAIMS."""

from types import ModuleType

from hf_attn.sources import attention_51, chapter_1, chapter_8, chapter_8_theory, notebook
from hf_attn.sources.base import Chance, Claim, Row, measure_claim

DOCUMENTS: dict[str, tuple[ModuleType, ...]] = {
    "chapter-1": (chapter_1,),
    "attention-51": (attention_51,),
    "notebook": (notebook,),
    "chapter-8": (chapter_8, chapter_8_theory),
}


def claims_of(document: str) -> tuple[Claim, ...]:
    """The document's claims, in its order.

    Raises:
        ValueError: there is no such document.
    """
    if document not in DOCUMENTS:
        raise ValueError(f"There is no document {document!r}; choose one of {', '.join(DOCUMENTS)}.")
    return tuple(claim for module in DOCUMENTS[document] for claim in module.CLAIMS)


__all__ = ["DOCUMENTS", "Chance", "Claim", "Row", "claims_of", "measure_claim"]
