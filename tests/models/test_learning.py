"""Each kind of model learns a small task until all of it is right."""

import pytest
import torch

from hf_attn.generation.generate import greedy_ids
from tests.support.checks import END, START, random_ids
from tests.support.matrix import rows
from tests.support.recurrent_models import CELL_TYPES, POOLINGS, WIRINGS
from tests.support.subjects import Subject, with_positions

WIDE = {"hidden_size": 32, "intermediate_size": 64, "zero_init_residual": True}
READERS = [
    Subject("recurrent classifier", {"cell_type": cell_type, "pooling": pooling})
    for cell_type in CELL_TYPES
    for pooling in POOLINGS
]
CACHES = ({"use_cache": False}, {"use_cache": True}, {"cache_implementation": "static"})


def train(model, ids, labels, steps: int, learning_rate: float):
    """Adam's steps on one batch; the model in evaluation mode."""
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=learning_rate)
    for _ in range(steps):
        optimizer.zero_grad()
        model(ids, labels=labels).loss.backward()
        optimizer.step()
    return model.eval()


def test_an_encoder_decoder_copies():
    ids = random_ids(16, 5)
    ids[:, -1] = END
    model = train(Subject("encoder-decoder", WIDE).build(), ids, ids, 60, 1e-2)
    assert greedy_ids(model, ids).tolist() == ids.tolist()
    written = model.generate(ids, do_sample=False, max_new_tokens=10)
    assert written.tolist() == [[START, *row] for row in ids.tolist()]


@pytest.mark.parametrize(
    "wiring", rows((WIRINGS[0], WIRINGS[2]), (), lambda wiring: str(wiring["input_feeding"]))
)
def test_a_recurrent_model_reverses(wiring):
    ids = random_ids(16, 5)
    labels = torch.cat((ids.flip(1), torch.full((16, 1), END)), dim=1)
    model = train(Subject("recurrent", {**wiring, "hidden_size": 48}).build(), ids, labels, 60, 2e-2)
    assert model.generate(ids, do_sample=False, max_new_tokens=10)[:, 1:].tolist() == labels.tolist()


@pytest.mark.parametrize("subject", rows(READERS, READERS[:1], str))
def test_a_recurrent_classifier_tells_which_token_comes_first(subject):
    ids = random_ids(64, 6)
    labels = ids[:, 0] % 3
    model = train(subject.build(hidden_size=32), ids, labels, 40, 2e-2)
    assert model(ids).logits.argmax(-1).tolist() == labels.tolist()


@pytest.mark.parametrize(
    "subject", with_positions("decoder", types=("none", "sinusoidal", "learned", "rotary"), gate=("rotary",))
)
def test_a_decoder_writes_a_sentence_from_its_first_letters(subject):
    text = "look before you leap"
    letters = sorted(set(text))
    ids = torch.tensor([[*(4 + letters.index(letter) for letter in text), END]])
    model, prompt = train(subject.build(**WIDE), ids, ids, 100, 1e-2), ids[:, :3]
    for cache in CACHES:
        mask = torch.ones_like(prompt)
        written = model.generate(prompt, attention_mask=mask, max_length=24, do_sample=False, **cache)
        assert written.tolist() == ids.tolist()
