"""Small recurrent models for the tests, and every mechanism they are tested with."""

import itertools

import torch

from hf_attn.models.configuration_recurrent import RecurrentConfig
from hf_attn.models.configuration_recurrent_encoder import RecurrentEncoderConfig
from hf_attn.models.modeling_recurrent import RecurrentForConditionalGeneration
from hf_attn.models.modeling_recurrent_encoder import RecurrentForSequenceClassification
from tests.support.checks import START

SIZES = {"vocab_size": 23, "hidden_size": 16, "attention_size": 12, "embedding_initializer_range": 1.0}
READER_SIZES = {"vocab_size": 23, "hidden_size": 16, "num_labels": 3, "embedding_initializer_range": 1.0}
SCORES = ("additive", "dot", "general", "concat")
CELL_TYPES = ("lstm", "gru", "rnn")
POOLINGS = ("last", "mean", "max")
WIRINGS = [
    {"score_function": score, "input_feeding": feeding, "bidirectional": both_ends}
    for score, feeding, both_ends in itertools.product(SCORES, (True, False), (True, False))
] + [{"score_function": "none", "bidirectional": both_ends} for both_ends in (True, False)]
CELLS = [
    {"cell_type": cell_type, "num_layers": layers, "input_feeding": feeding}
    for cell_type, layers, feeding in itertools.product(CELL_TYPES, (1, 2), (True, False))
]
NARROW = {"score_function": "general", "encoder_hidden_size": 5, "embedding_size": 9}  # with bridges
TIED = {"score_function": "concat", "tie_word_embeddings": True}
MECHANISMS = [*WIRINGS, *CELLS, {**NARROW, "cell_type": "gru"}, {**NARROW, "input_feeding": False}, TIED]
# Each score, cell, wiring, direction and depth, the bridges, and tied tables.
GATE_MECHANISMS = [
    *WIRINGS[:1],  # additive, its context fed to the cells, both directions
    WIRINGS[2],  # additive, both directions
    WIRINGS[7],  # dot, one direction
    WIRINGS[16],  # none, both directions
    CELLS[11],  # rnn, 2 layers
    *MECHANISMS[-3:],
]
READERS = [
    {"cell_type": cell_type, "bidirectional": both_ends, "num_layers": layers}
    for cell_type, both_ends, layers in itertools.product(CELL_TYPES, (True, False), (1, 2))
]
GATE_READERS = [READERS[2], READERS[4], READERS[9]]  # lstm of one direction, gru of both, rnn of 2 layers


def name_of(settings: dict) -> str:
    return "-".join(
        str(value) if value not in (True, False) else name[:5] for name, value in settings.items() if value
    )


def build_recurrent(seed: int = 0, **settings) -> RecurrentForConditionalGeneration:
    """A small recurrent encoder-decoder with random weights, in evaluation mode."""
    config = RecurrentConfig(**{**SIZES, **settings})
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return RecurrentForConditionalGeneration(config).eval()


def build_reader(seed: int = 0, **settings) -> RecurrentForSequenceClassification:
    """A small recurrent classifier with random weights, in evaluation mode."""
    config = RecurrentEncoderConfig(**{**READER_SIZES, **settings})
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return RecurrentForSequenceClassification(config).eval()


@torch.no_grad()
def written_by_hand(model, source, steps: int, mask=None) -> torch.Tensor:
    """[B, steps] likeliest tokens, each from one pass over all before it, without a state."""
    read = torch.full((len(source), 1), START)
    for _ in range(steps):
        logits = model(source, attention_mask=mask, decoder_input_ids=read, use_cache=False).logits
        read = torch.cat((read, logits[:, -1:].argmax(-1)), dim=1)
    return read[:, 1:]
