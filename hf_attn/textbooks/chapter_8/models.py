"""Document `chapter-8`: its table of models, what its code names, and what the causal mask is for."""

from functools import cache

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM

from hf_attn.architectures.presets import build_preset
from hf_attn.architectures.registry import build_model
from hf_attn.generation.generate import generate_answer
from hf_attn.models.modeling_attn_seq2seq import AttnSeq2SeqForConditionalGeneration
from hf_attn.tasks.batch import IGNORED
from hf_attn.tasks.recipes import Recipe
from hf_attn.tasks.text.language import Language
from hf_attn.textbooks.chapter_8.heads import open_bundled
from hf_attn.textbooks.claims import OURS, STATED, Claim, Measured, count_parameters
from hf_attn.utils.model_lock import building_model

ORIGINAL = {"vocab_size": 37_000, "hidden_size": 512, "num_attention_heads": 8, "intermediate_size": 2048}
# of Gemma 2's three sizes: layers, width, inner width, heads, key heads, width of a head
# (Gemma Team 2024, arXiv:2408.00118, table 1)
GEMMA_2 = (
    (26, 2304, 9216, 8, 4, 256),
    (42, 3584, 14336, 16, 8, 256),
    (46, 4608, 36864, 32, 16, 128),
)
# names that the printed code gives to its configuration's fields and to its attention's parts
CONFIG_FIELDS = {
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "max_position_embeddings",
    "layer_norm_eps",
}
ATTENTION_PARTS = {"d_k", "h", "linear_layers", "dropout", "attention_weights"}
TEXT = Language(window=32)
STEPS, PASSAGES = 400, 200


def count_of(auto_class, model_type: str, **sizes) -> int:
    """Parameters of a model of transformers, built without memory."""
    with building_model(), torch.device("meta"):
        return count_parameters(auto_class.from_config(AutoConfig.for_model(model_type, **sizes)))


def first_size() -> Measured:
    first = build_preset(
        "chapter-8-transformer", **ORIGINAL, encoder_layers=6, decoder_layers=6, tie_word_embeddings=True
    )
    with building_model(), torch.device("meta"):
        return (count_parameters(AttnSeq2SeqForConditionalGeneration(first)) / 1e6,)  # type: ignore[arg-type]


def sizes() -> Measured:
    counts = (
        count_of(AutoModelForMaskedLM, "bert"),
        count_of(AutoModelForCausalLM, "gpt2", n_layer=48, n_embd=1600, n_head=25),
        count_of(AutoModelForSeq2SeqLM, "t5", d_model=768, d_ff=3072, num_layers=12, num_heads=12),
        count_of(AutoModelForCausalLM, "gpt2", n_layer=96, n_embd=12288, n_head=96, n_positions=2048),
    )
    return tuple(count / 1e9 for count in counts)


def gemma_sizes() -> Measured:
    names = (
        "num_hidden_layers",
        "hidden_size",
        "intermediate_size",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
    )
    shapes = (dict(zip(names, row, strict=True)) for row in GEMMA_2)
    return tuple(count_of(AutoModelForCausalLM, "gemma2", **shape) / 1e9 for shape in shapes)


def added() -> Measured:
    checkpoint = open_bundled("attn-addition")
    task = checkpoint.task_named()
    written = generate_answer(checkpoint.model, torch.tensor([task.encode("310+98")])).ids
    return (task.decode(written),)


def see_all(mask: torch.Tensor) -> torch.Tensor:
    """[B, T] padding → [B, 1, T, T]: every token may read all of its passage, those to come too."""
    return mask[:, None, None].bool().expand(-1, 1, mask.shape[1], -1)


@cache
def learned_text(is_causal: bool) -> tuple[float, float]:
    """A language model trained with the causal mask, or without: then it reads what it is to predict.

    Returns:
        (mean loss of its last twenty steps, share of held-out next tokens that are its likeliest where it is
        given what stands before them, as in writing).
    """
    widths = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256}
    model = build_model(TEXT, Recipe({**widths, "position_type": "rotary"}, architecture="decoder"), seed=0)
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=3e-3), []
    generator = torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        given = TEXT.sample(generator, 32).joined()
        if not is_causal:
            given["attention_mask"] = see_all(given["attention_mask"])
        loss = model(**given).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    model.eval()
    given, right = TEXT.held_out(PASSAGES).joined(), []
    with torch.no_grad():
        for length in range(1, given["input_ids"].shape[1]):
            before, mask = (given[name][:, :length] for name in ("input_ids", "attention_mask"))
            logits = model(input_ids=before, attention_mask=mask if is_causal else see_all(mask)).logits
            wanted = given["labels"][:, length]
            right.append((logits[:, -1].argmax(dim=1) == wanted)[wanted != IGNORED])
    return sum(losses[-20:]) / 20, float(torch.cat(right).float().mean())


def leaked() -> Measured:
    (masked_loss, masked_right), (open_loss, open_right) = map(learned_text, (True, False))
    return open_loss / masked_loss, open_right / masked_right


CLAIMS = (
    Claim(
        "Millions of parameters of the first Transformer.",
        "65",
        first_size,
        "Our preset of its base size; its vocabulary, some 37,000 in one table, is not given here.",
        tolerance=2,
        where="number of layers by model",
    ),
    Claim(
        "Billions of parameters of BERT-base, GPT-2, T5-base and GPT-3.",
        "0.11 1.5 0.22 175",
        sizes,
        "Counted by transformers' classes; GPT-2 with 48 layers has 1.56.",
        where="number of layers by model",
    ),
    Claim(
        "Gemma 2 has 18 to 36 layers: its three sizes, as their makers published them.",
        "18–36 18–36 18–36",
        lambda: tuple(float(row[0]) for row in GEMMA_2),
        "26, 42 and 46 by its report (arXiv:2408.00118, table 1); the next row builds them.",
        where="number of layers by model",
    ),
    Claim(
        "Billions of parameters that Gemma 2 then has, with 26, 42 and 46 layers.",
        "2.6 9.2 27.2",
        gemma_sizes,
        "2B, 9B and 27B: the published layers give the published sizes.",
        kind=OURS,
    ),
    Claim(
        "The code has what it reads: the decoder layer's config.dropout_prob, the attention's linears.",
        "True True",
        lambda: (str("dropout_prob" in CONFIG_FIELDS), str("linears" in ATTENTION_PARTS)),
        "Looked up among the printed names: there are hidden_dropout_prob and linear_layers, so both would "
        "fail.",
        where="decoder layer; dimensions of attention",
        kind=STATED,
    ),
    Claim("310 + 98.", "408", added, "By attn-addition.", where="addition task"),
    Claim(
        "Training logs: loss and accuracy of addition's sixth epoch, its last loss, the parser's sixth loss.",
        "0.0552 0.9852 0.0106 0.0030",
        None,
        "No seed is given; batches of training, with the right answer before each symbol.",
        where="addition and parser tasks",
    ),
    Claim(
        "Masking prevents leakage: loss of training without the causal mask over that with it, and the "
        "same of right next tokens where nothing stands behind yet.",
        "<0.50 <0.50",
        leaked,
        f"One language model twice, {STEPS} steps: without the mask it copies what it is to predict, and "
        "cannot write.",
        where="the need for masking",
        kind=STATED,
        is_full=True,
    ),
)
