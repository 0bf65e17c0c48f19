"""Claims of five texts on attention, measured: a text is a row of DOCUMENTS, a claim one of its CLAIMS."""

from hf_attn.textbooks.chapter_1 import basics as chapter_1_basics
from hf_attn.textbooks.chapter_1 import heads as chapter_1_heads
from hf_attn.textbooks.chapter_1 import training as chapter_1_training
from hf_attn.textbooks.chapter_8 import efficient, examples, positions, theory
from hf_attn.textbooks.chapter_8 import heads as chapter_8_heads
from hf_attn.textbooks.chapter_8 import training as chapter_8_training
from hf_attn.textbooks.claims import Chance, Claim, Document, Row, measure_claim
from hf_attn.textbooks.learn_ai_51 import basics as learn_ai_51_basics
from hf_attn.textbooks.learn_ai_51 import training as learn_ai_51_training
from hf_attn.textbooks.notebook import printed_numbers
from hf_attn.textbooks.transformers_1 import basics as transformers_1_basics
from hf_attn.textbooks.transformers_1 import language
from hf_attn.textbooks.transformers_1 import training as transformers_1_training

DOCUMENTS: dict[str, Document] = {
    "chapter-1": Document(
        "Self-Attention and Multi-Head Attention",
        "chapter 1 of the Transformer Introduction Series (AI Terakoya, Hashimoto Lab)",
        (chapter_1_basics, chapter_1_heads, chapter_1_training),
        "https://github.com/YusukeHashimotoLab/AI-Knowledge-Notes/blob/"
        "612916bd613ca65999f8b1970b56f7b9eec22a64/knowledge/en/ML/transformer-introduction/"
        "chapter1-self-attention.md",
    ),
    "attention-51": Document(
        "Learn AI Series (#51) - Attention Mechanisms",
        "by @scipio",
        (learn_ai_51_basics, learn_ai_51_training),
    ),
    "notebook": Document(
        "Foundations of Self-Attention and Multi-Head Attention",
        "notebook on chapter 16 of Raschka, Liu, Mirjalili: Machine Learning with PyTorch and Scikit-Learn",
        (printed_numbers,),
        "https://github.com/rasbt/machine-learning-book/blob/main/ch16/ch16-part1-self-attention.ipynb",
    ),
    "chapter-8": Document(
        "The Birth of Transformers",
        "chapter 8 of Deep Learning DNA: Surviving Architectures and Profound Principles",
        (examples, theory, efficient, positions, chapter_8_heads, chapter_8_training),
        "https://github.com/Quantum-Intelligence-Frontier/dldna/blob/1f71cd1909e800786a2d45b07e0743dac12071df/"
        "notebooks/en/part_1/08_The%20Birth%20of%20Transformer.ipynb",
    ),
    "transformers-1": Document(
        "Transformers Part 1",
        "notes on chapter 12 of Bishop and Bishop, Deep Learning: Foundations and Concepts",
        (transformers_1_basics, language, transformers_1_training),
        "https://www.bishopbook.com",
    ),
}


def claims_of(document: str) -> tuple[Claim, ...]:
    """The document's claims in its order, those that need training last.

    ValueError where there is no such document.
    """
    if document not in DOCUMENTS:
        raise ValueError(f"There is no document {document!r}; choose one of {', '.join(DOCUMENTS)}.")
    return tuple(claim for module in DOCUMENTS[document].modules for claim in module.CLAIMS)


__all__ = ["DOCUMENTS", "Chance", "Claim", "Document", "Row", "claims_of", "measure_claim"]
