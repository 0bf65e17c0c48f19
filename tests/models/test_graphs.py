"""A model is one graph, whatever is padded: exported and compiled, it answers the same."""

import pytest
import torch

from tests.support.checks import START, answers, assert_close, pad, random_ids, random_rows, read
from tests.support.matrix import rows
from tests.support.recurrent_models import CELL_TYPES, POOLINGS, WIRINGS, written_by_hand
from tests.support.subjects import Subject, recurrent, small_blocks, with_attention, with_positions

pytestmark = small_blocks
MASKS = {
    "none": None,
    "whole": torch.ones(3, 6, dtype=torch.long),
    "left": torch.tensor([[0, 0, 1, 1, 1, 1], [1] * 6, [0, 0, 0, 0, 0, 1]]),
    "right": torch.tensor([[1, 1, 1, 1, 0, 0], [1, 0, 0, 0, 0, 0], [1] * 6]),
    "between": torch.tensor([[1, 0, 1, 0, 0, 1], [0] * 6, [1, 1, 0, 1, 1, 1]]),
}
READERS = [
    Subject("recurrent classifier", {"cell_type": cell_type, "pooling": pooling})
    for cell_type in CELL_TYPES
    for pooling in POOLINGS
]


def compile_anew(model):
    """Compiled by tracing alone: what matters is whether it is one graph."""
    torch.compiler.reset()
    return torch.compile(model, backend="eager", fullgraph=True)


@torch.no_grad()
@pytest.mark.parametrize(
    "subject",
    [*with_positions("decoder", gate=("learned",)), *with_attention("encoder-decoder", gate=("local",))],
)
def test_a_compiled_forward_has_no_break_and_gives_the_same(subject):
    model = subject.build()
    ids, mask = pad(random_rows(7, 4), "left")
    expected = model(ids, attention_mask=mask, labels=ids)
    found = compile_anew(model)(ids, attention_mask=mask, labels=ids)
    assert_close(found.logits, expected.logits)
    assert_close(found.loss, expected.loss)


@torch.no_grad()
@pytest.mark.parametrize("subject", [*recurrent(gate=WIRINGS[2:3]), *rows(READERS, READERS[:1], str)])
def test_a_recurrent_model_is_exported_and_compiled_without_a_break_whatever_is_padded(subject):
    model, ids = subject.build(), random_ids(3, 6)
    given = {"input_ids": ids, "attention_mask": MASKS["whole"]}
    if model.config.is_encoder_decoder:
        given |= {**read(model, random_ids(3, 4, seed=1)), "use_cache": False}
    exported, compiled = torch.export.export(model, (), given).module(), compile_anew(model)
    for mask in list(MASKS.values())[1:]:
        given["attention_mask"] = mask
        expected = answers(model, **given)
        assert_close(answers(exported, **given), expected)
        assert_close(answers(compiled, **given), expected)


@torch.no_grad()
@pytest.mark.parametrize("subject", recurrent(gate=WIRINGS[:1]))
def test_an_exported_step_writes_on_from_the_state_that_it_gave(subject):
    model = subject.build()
    ids, mask = pad(random_rows(6, 4, 5), "left")
    encoded = model.get_encoder()(ids, attention_mask=mask)
    token = torch.full((3, 1), START)
    begun = model(encoder_outputs=encoded, attention_mask=mask, decoder_input_ids=token, use_cache=True)
    state, token = begun.cache, begun.logits.argmax(-1)
    given = {"encoder_outputs": encoded, "attention_mask": mask, "use_cache": True}
    step = torch.export.export(model, (), {**given, "decoder_input_ids": token, "cache": state})
    step, written = step.module(), [token]
    for _ in range(5):
        output = step(**given, decoder_input_ids=token, cache=state)
        state, token = output.cache, output.logits.argmax(-1)
        written.append(token)
    assert state.get_seq_length() == 6
    assert torch.equal(torch.cat(written, dim=1), written_by_hand(model, ids, 6, mask))
