"""Claims of five texts on attention, measured: a text is a row of DOCUMENTS, a claim one of its CLAIMS."""

from hf_attn.textbooks.chapter_1 import basics as chapter_1_basics
from hf_attn.textbooks.chapter_1 import heads as chapter_1_heads
from hf_attn.textbooks.chapter_1 import training as chapter_1_training
from hf_attn.textbooks.chapter_8 import efficient, examples, models, positions, theory
from hf_attn.textbooks.chapter_8 import heads as chapter_8_heads
from hf_attn.textbooks.chapter_8 import training as chapter_8_training
from hf_attn.textbooks.claims import Chance, Claim, Document, Row, measure_claim
from hf_attn.textbooks.learn_ai_51 import basics as learn_ai_51_basics
from hf_attn.textbooks.learn_ai_51 import training as learn_ai_51_training
from hf_attn.textbooks.notebook import printed_numbers
from hf_attn.textbooks.transformers_1 import basics as transformers_1_basics
from hf_attn.textbooks.transformers_1 import language
from hf_attn.textbooks.transformers_1 import training as transformers_1_training
from hf_attn.utils.text import quote

DOCUMENTS: dict[str, Document] = {
    "chapter-1": Document(
        "Self-Attention and Multi-Head Attention",
        "chapter 1 of the Transformer Introduction Series (AI Terakoya, Hashimoto Lab)",
        (chapter_1_basics, chapter_1_heads, chapter_1_training),
        "https://github.com/YusukeHashimotoLab/AI-Knowledge-Notes/blob/"
        "612916bd613ca65999f8b1970b56f7b9eec22a64/knowledge/en/ML/transformer-introduction/"
        "chapter1-self-attention.md",
        (
            "what each head does, before and after training: `hf-attn heads CHECKPOINT`",
            "learned positions against sinusoids: `hf-attn experiment positions`",
            "an RNN's time and attention's: `hf-attn experiment timing`",
            "exercise 1 by hand, and the causal mask: the app's Attention",
        ),
    ),
    "attention-51": Document(
        "Learn AI Series (#51) - Attention Mechanisms",
        "by @scipio",
        (learn_ai_51_basics, learn_ai_51_training),
        elsewhere=(
            "weights permuted, heads removed: `hf-attn ablate CHECKPOINT --permute cross`, the app's Explore",
            "the bottleneck and what attention makes of it: `hf-attn experiment bottleneck`, `… reversal`",
            "greedy against beams: `hf-attn experiment beams`",
            "an alignment that a model learned: the app's Explore, of bahdanau-dates",
        ),
    ),
    "notebook": Document(
        "Foundations of Self-Attention and Multi-Head Attention",
        "notebook on chapter 16 of Raschka, Liu, Mirjalili: Machine Learning with PyTorch and Scikit-Learn",
        (printed_numbers,),
        "https://github.com/rasbt/machine-learning-book/blob/main/ch16/ch16-part1-self-attention.ipynb",
        ("every figure to be clicked: the notebook among the texts of the app's Attention",),
    ),
    "chapter-8": Document(
        "The Birth of Transformers",
        "chapter 8 of Deep Learning DNA: Surviving Architectures and Profound Principles",
        (examples, models, theory, efficient, positions, chapter_8_heads, chapter_8_training),
        "https://github.com/Quantum-Intelligence-Frontier/dldna/blob/1f71cd1909e800786a2d45b07e0743dac12071df/"
        "notebooks/en/part_1/08_The%20Birth%20of%20Transformer.ipynb",
        (
            "a new architecture proposed and evaluated: [your own attention](your_own_attention.md)",
            "what the word head means: [looking inside](reference.md#looking-inside)",
            "positions in place of the table on GLUE: `hf-attn experiment positions`",
            "the cheaper kinds of attention by length: [results](results.md)",
            "the three tasks at its sizes: `hf-attn train copy --set preset=document`, `addition`, `parser`",
            "roles taken apart, masks and generation: the app's Attention and Try it",
        ),
    ),
    "transformers-1": Document(
        "Transformers Part 1",
        "notes on chapter 12 of Bishop and Bishop, Deep Learning: Foundations and Concepts",
        (transformers_1_basics, language, transformers_1_training),
        "https://www.bishopbook.com",
        (
            "tokens, bags of words, n-grams and word vectors, step by step: the app's Language",
            "n-grams against attention: `hf-attn experiment ngrams`; order: `hf-attn experiment order`",
            "gradients by distance: `hf-attn experiment gradients`",
            "a map drawn as lines: the app's Explore",
        ),
    ),
}


def claims_of(document: str) -> tuple[Claim, ...]:
    """The document's claims in its order, those that need training last.

    ValueError where there is no such document.
    """
    if document not in DOCUMENTS:
        raise ValueError(f"There is no document {quote(document)}; choose one of {', '.join(DOCUMENTS)}.")
    return tuple(claim for module in DOCUMENTS[document].modules for claim in module.CLAIMS)


__all__ = ["DOCUMENTS", "Chance", "Claim", "Document", "Row", "claims_of", "measure_claim"]
