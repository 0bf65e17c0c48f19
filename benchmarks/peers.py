"""Whom we are measured against: “The Birth of Transformers” on `nn.Transformer`, and Bart of the same size.

Both are built from published settings alone; nothing of the text's own package is used.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import nn
from transformers import BartConfig, BartForConditionalGeneration

from hf_attn.models.labels import shift_right
from hf_attn.tasks import Batch, Task
from hf_attn.tasks.batch import END, IGNORED, PAD, START

DOCUMENT_LEARNING_RATE = 1e-4  # constant: "Learning Rate: 0.000100" in each of its logs
DOCUMENT_DROPOUT = 0.1  # hidden_dropout_prob and attention_probs_dropout_prob of its configuration
DOCUMENT_LAYER_NORM_EPS = 1e-12  # layer_norm_eps of its configuration
BART_LEARNING_RATE = 5e-5  # Seq2SeqTrainer's default; a step takes equally long at any rate


@dataclass(frozen=True)
class DocumentSettings:
    """Size, batch and data of one of the text's three tasks (chapter 8 of Deep Learning DNA, §8.5).

    Attributes:
        hidden_size: D.
        intermediate_size: F.
        layers: of the encoder, and as many of the decoder.
        heads: H.
        batch_size: examples a step.
        task_options: what makes our task the text's.
    """

    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    batch_size: int
    task_options: Mapping[str, object] = field(default_factory=dict)


DOCUMENT: dict[str, DocumentSettings] = {
    "copy": DocumentSettings(64, 128, 2, 2, 40, {"min_length": 20}),
    "addition": DocumentSettings(256, 512, 3, 4, 128, {"balanced": False, "max_addend": 499}),
    "parser": DocumentSettings(128, 512, 3, 4, 64),
}


def sinusoids(length: int, width: int) -> torch.Tensor:
    """PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos of the same (arXiv:1706.03762, §3.5).

    Returns:
        [length, width].
    """
    places = torch.arange(length).unsqueeze(1)
    frequencies = torch.exp(-math.log(10000.0) * torch.arange(0, width, 2) / width)
    angles = places * frequencies  # [length, D/2]
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)


class DocumentTransformer(nn.Module):
    """The text's encoder-decoder: pre-norm, GELU, dropout .1, sinusoids, a token table on each side.

    The chapter's listings normalise before each block (its "Pre-LN"), which is `norm_first=True` here and not
    `nn.Transformer`'s default. Our training data is what it learns from, `</s>` included.
    """

    def __init__(self, settings: DocumentSettings, vocab_size: int, max_length: int):
        super().__init__()
        width = settings.hidden_size
        shared = {
            "d_model": width,
            "nhead": settings.heads,
            "dim_feedforward": settings.intermediate_size,
            "dropout": DOCUMENT_DROPOUT,
            "activation": "gelu",
            "layer_norm_eps": DOCUMENT_LAYER_NORM_EPS,
            "batch_first": True,
            "norm_first": True,
        }
        encoder = nn.TransformerEncoder(  # built here because the default one warns about nested tensors
            nn.TransformerEncoderLayer(**shared),
            settings.layers,
            nn.LayerNorm(width, DOCUMENT_LAYER_NORM_EPS),
            enable_nested_tensor=False,
        )
        self.source_embedding = nn.Embedding(vocab_size, width)
        self.target_embedding = nn.Embedding(vocab_size, width)
        self.dropout = nn.Dropout(DOCUMENT_DROPOUT)
        self.transformer = nn.Transformer(
            **shared, num_decoder_layers=settings.layers, custom_encoder=encoder
        )
        self.head = nn.Linear(width, vocab_size)
        self.register_buffer("positions", sinusoids(max_length, width), persistent=False)
        causal = nn.Transformer.generate_square_subsequent_mask(max_length)
        self.register_buffer("causal_mask", causal, persistent=False)

    def encode(self, input_ids: torch.Tensor, padding: torch.Tensor | None) -> torch.Tensor:
        """[B, S] ids → memory [B, S, D]; padding [B, S] is True where there is nothing to read."""
        source = self.dropout(self.source_embedding(input_ids) + self.positions[: input_ids.shape[1]])
        return self.transformer.encoder(source, src_key_padding_mask=padding)

    def decode(self, decoder_input_ids: torch.Tensor, memory: torch.Tensor, padding: torch.Tensor | None):
        """[B, T] ids, beginning with the start token → logits [B, T, V]."""
        length = decoder_input_ids.shape[1]
        target = self.dropout(self.target_embedding(decoder_input_ids) + self.positions[:length])
        states = self.transformer.decoder(
            target,
            memory,
            tgt_mask=self.causal_mask[:length, :length],
            tgt_is_causal=True,
            memory_key_padding_mask=padding,
        )
        return self.head(states)

    def forward(self, batch: Batch) -> torch.Tensor:
        """Logits [B, T, V] for a batch, reading the true symbols before each."""
        padding = _padding(batch)
        memory = self.encode(batch.input_ids, padding)
        return self.decode(shift_right(batch.labels, PAD, START), memory, padding)

    def loss(self, batch: Batch) -> torch.Tensor:
        """Cross-entropy, averaged over labels.

        The text sums over positions and divides by the batch; Adam does not see a constant factor.
        """
        logits = self(batch).flatten(0, 1)  # [B·T, V]
        return nn.functional.cross_entropy(logits, batch.labels.flatten(), ignore_index=IGNORED)

    @torch.no_grad()
    def write_greedily(self, batch: Batch, max_new_tokens: int) -> torch.Tensor:
        """The likeliest symbol each time, [B, max_new_tokens]; the whole prefix is read again for each.

        What stands behind `</s>` has no meaning.
        """
        was_training = self.training
        self.eval()
        padding = _padding(batch)
        memory = self.encode(batch.input_ids, padding)
        written = batch.input_ids.new_full((len(batch), 1), START)
        for _ in range(max_new_tokens):
            token = self.decode(written, memory, padding)[:, -1:].argmax(-1)
            written = torch.cat((written, token), dim=1)
        self.train(was_training)
        return written[:, 1:]


def _padding(batch: Batch) -> torch.Tensor | None:
    return None if batch.attention_mask is None else batch.attention_mask == 0


@dataclass
class Learner:
    """A peer with all that a training step needs; its step is what our loop's is: sample, learn, update."""

    task: Task
    model: nn.Module
    loss: Callable[[Batch], torch.Tensor]
    optimizer: torch.optim.Optimizer
    batch_size: int
    max_grad_norm: float
    generator: torch.Generator

    def step(self) -> float:
        loss = self.loss(self.task.sample(self.generator, self.batch_size))
        loss.backward()
        if self.max_grad_norm:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.max_grad_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()


def build_document_learner(task: Task, settings: DocumentSettings, seed: int = 0) -> Learner:
    """The text's recipe: Adam at a constant 1e-4, no clipping."""
    torch.manual_seed(seed)  # the peers' weights and dropout know only the global generator
    model = DocumentTransformer(settings, len(task.vocabulary), task.max_position_embeddings)
    return Learner(
        task,
        model,
        model.loss,
        torch.optim.Adam(model.parameters(), lr=DOCUMENT_LEARNING_RATE),
        settings.batch_size,
        max_grad_norm=0.0,
        generator=torch.Generator().manual_seed(seed),
    )


def build_bart(task: Task, settings: DocumentSettings, dropout: float = 0.1) -> BartForConditionalGeneration:
    """Bart with the text's sizes, and Bart's own choices for the rest (GELU, post-norm)."""
    return BartForConditionalGeneration(
        BartConfig(
            vocab_size=len(task.vocabulary),
            max_position_embeddings=task.max_position_embeddings,
            d_model=settings.hidden_size,
            encoder_layers=settings.layers,
            decoder_layers=settings.layers,
            encoder_attention_heads=settings.heads,
            decoder_attention_heads=settings.heads,
            encoder_ffn_dim=settings.intermediate_size,
            decoder_ffn_dim=settings.intermediate_size,
            pad_token_id=PAD,
            bos_token_id=START,
            eos_token_id=END,
            decoder_start_token_id=START,
            forced_eos_token_id=None,
            dropout=dropout,
        )
    )


def build_bart_learner(task: Task, settings: DocumentSettings, seed: int = 0) -> Learner:
    """Seq2SeqTrainer's default step without what it does around it: fused AdamW, gradients clipped to 1."""
    torch.manual_seed(seed)
    model = build_bart(task, settings)

    def loss(batch: Batch) -> torch.Tensor:
        return model(**batch.inputs(), use_cache=False).loss

    optimizer = torch.optim.AdamW(model.parameters(), lr=BART_LEARNING_RATE, fused=True)
    return Learner(
        task,
        model.train(),
        loss,
        optimizer,
        settings.batch_size,
        max_grad_norm=1.0,
        generator=torch.Generator().manual_seed(seed),
    )
