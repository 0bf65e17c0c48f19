"""The recurrent encoder-decoder learns: labels, scheduled sampling, and mistakes that are caught."""

import pytest
import torch

from hf_attn.models import (
    encoder_decoder,
    modeling_recurrent_decoder,
    modeling_recurrent_encoder,
    score_functions,
)
from hf_attn.models.modeling_recurrent_decoder import RecurrentState
from tests.support.checks import (
    END,
    START,
    assert_close,
    assert_different,
    assert_same_gradients,
    check_accumulation_weighs_every_label_alike,
    check_cached_equals_uncached,
    check_labels_shift_once,
    check_padding_is_not_read,
    check_seq2seq_rows_stand_alone,
    check_the_trainer_accumulates,
    gradients,
    pad,
    random_ids,
    random_rows,
    seq2seq_examples,
)
from tests.support.recurrent_models import build_recurrent, every_mechanism, written_by_hand

# Labels and forcing


@every_mechanism
def test_labels_shift_exactly_once(settings):
    check_labels_shift_once(build_recurrent(**settings))


def test_a_model_trained_on_reversing_writes_the_reversed_sequence():
    rows = random_ids(16, 5)
    labels = torch.cat((rows.flip(1), torch.full((16, 1), END)), dim=1)
    for feeding in (True, False):
        model = build_recurrent(hidden_size=48, input_feeding=feeding).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
        for _ in range(60):
            optimizer.zero_grad()
            model(rows, labels=labels).loss.backward()
            optimizer.step()
        written = model.eval().generate(rows, do_sample=False, max_new_tokens=10)
        assert written[:, 1:].tolist() == labels.tolist()


def test_accumulated_gradients_weigh_every_label_alike():
    for feeding in (True, False):
        model = build_recurrent(input_feeding=feeding)
        check_accumulation_weighs_every_label_alike(model, *seq2seq_examples())


def test_the_trainer_learns_the_same_from_eight_batches_of_one_and_one_of_eight(tmp_path):
    check_the_trainer_accumulates(build_recurrent, tmp_path)


@every_mechanism
def test_teacher_forcing_of_1_is_plain_teacher_forcing_bit_for_bit(settings):
    source, labels = random_ids(3, 6), random_ids(3, 5, seed=1)
    model = build_recurrent(**settings, dropout=0.3).train()
    found = []
    for ratio in ({}, {"teacher_forcing_ratio": 1.0}):
        torch.manual_seed(0)
        model.zero_grad()
        output = model(source, labels=labels, **ratio)
        output.loss.backward()
        found.append((output.logits, gradients(model), torch.get_rng_state()))
    assert torch.equal(found[0][0], found[1][0])
    assert all(torch.equal(gradient, found[1][1][name]) for name, gradient in found[0][1].items())
    assert torch.equal(found[0][2], found[1][2])


@every_mechanism
def test_teacher_forcing_of_0_reads_its_own_choices_in_training_as_in_writing(settings):
    model = build_recurrent(**settings, eos_token_id=None).train()
    source, mask = pad(random_rows(6, 4), "right")
    labels = random_ids(2, 5, seed=1)
    kwargs = {"attention_mask": mask, "output_attentions": True, "output_hidden_states": True}
    found = model(source, labels=labels, teacher_forcing_ratio=0.0, **kwargs)
    own = written_by_hand(model, source, 5, mask)
    assert found.logits.argmax(-1).tolist() == own.tolist()
    read = torch.cat((torch.full((2, 1), START), own[:, :-1]), dim=1)
    expected = model(source, decoder_input_ids=read, labels=labels, **kwargs)
    assert_close(found.loss, expected.loss)
    assert_close(found.logits, expected.logits)
    for kind in ("cross_attentions", "decoder_hidden_states"):
        for one, other in zip(found.get(kind, ()), expected.get(kind, ()), strict=True):
            assert_close(one, other)
    assert_different(found.logits, model(source, labels=labels, **kwargs).logits)
    model.zero_grad()
    found.loss.backward()
    slopes = gradients(model)
    model.zero_grad()
    expected.loss.backward()
    assert_same_gradients(slopes, gradients(model))


def test_a_share_of_steps_is_forced_each_example_and_step_drawn_alone():
    model, source = build_recurrent().train(), random_ids(400, 3)
    labels = random_ids(400, 3, seed=1)
    first = model(source, labels=labels).logits[:, 0].argmax(-1)
    both = {
        name: model(source, decoder_input_ids=torch.stack((torch.full((400,), START), token), dim=1)).logits
        for name, token in (("true", labels[:, 0]), ("own", first))
    }
    torch.manual_seed(0)
    found = model(source, labels=labels, teacher_forcing_ratio=0.3).logits[:, 1]
    is_true = (found - both["true"][:, 1]).abs().amax(-1) < 1e-5
    is_own = (found - both["own"][:, 1]).abs().amax(-1) < 1e-5
    assert (is_true | is_own).all()
    told_apart = (labels[:, 0] != first).sum()
    assert 0.2 < float((is_true & ~is_own).sum() / told_apart) < 0.4


# What breaks is caught


def test_padding_let_into_the_softmax_is_caught(monkeypatch):
    model = build_recurrent()
    ids, mask = pad(random_rows(7, 3), "right")

    def check():
        found = model(ids, attention_mask=mask, decoder_input_ids=random_ids(2, 4), output_attentions=True)
        assert (found.cross_attentions[0][1, ..., 3:] == 0).all()

    check()
    plain = score_functions.masked_softmax
    monkeypatch.setattr(score_functions, "masked_softmax", lambda scores, _: plain(scores))
    with pytest.raises(AssertionError):
        check()
    with pytest.raises(AssertionError):
        check_seq2seq_rows_stand_alone(model, "right", "right")


def test_an_encoder_that_runs_on_through_padding_is_caught(monkeypatch):
    model = build_recurrent(score_function="none", bidirectional=False)
    check_seq2seq_rows_stand_alone(model, "right", "right")
    monkeypatch.setattr(modeling_recurrent_encoder, "read_mask", lambda *_: None)
    for check in (check_padding_is_not_read, lambda m: check_seq2seq_rows_stand_alone(m, "right", "right")):
        with pytest.raises(AssertionError):
            check(model)


def test_labels_never_shifted_are_caught(monkeypatch):
    model = build_recurrent()
    monkeypatch.setattr(encoder_decoder, "shift_right", lambda labels, *_: labels.clamp(min=0))
    with pytest.raises(AssertionError):
        check_labels_shift_once(model)


def test_a_state_that_forgets_is_caught(monkeypatch):
    model = build_recurrent()

    class Forgetful(RecurrentState):
        def __init__(self, parts, projected=None, length=0):
            super().__init__(tuple(0 * part for part in parts), projected, length)

    check_cached_equals_uncached(model)
    monkeypatch.setattr(modeling_recurrent_decoder, "RecurrentState", Forgetful)
    with pytest.raises(AssertionError):
        check_cached_equals_uncached(model)


def test_beams_that_keep_each_others_states_are_caught(monkeypatch):
    model, source = build_recurrent(), random_ids(4, 5)
    beams = {"num_beams": 4, "max_new_tokens": 8, "do_sample": False}

    def check():
        settings = {**beams, "return_dict_in_generate": True, "output_scores": True}
        found = [model.generate(source, **settings, use_cache=use).sequences_scores for use in (True, False)]
        assert_close(*found)

    check()
    monkeypatch.setattr(RecurrentState, "reorder_cache", lambda *_: None)
    with pytest.raises(AssertionError):
        check()
