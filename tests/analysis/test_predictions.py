"""What models expect at each place: their own logits, and those of the same model really changed."""

import pytest
import torch

from hf_attn.analysis.ablation import Trial
from hf_attn.analysis.predictions import find_prediction, predict_tokens
from hf_attn.analysis.residual_stream import logit_lens
from hf_attn.generation.decoders import find_start
from hf_attn.interpret.interventions import Intervention, intervening
from tests.support.checks import build_classifier, build_decoder, build_seq2seq
from tests.support.native_models import NATIVE, build_native, build_vit

IDS = torch.tensor([[8, 12, 9, 10, 12, 11]])
TARGET = torch.tensor([[9, 8, 11]])
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def build(name):
    """Model, target or None, and the kind of attention that reads the input."""
    model = {"ours": build_decoder, "seq2seq": build_seq2seq}.get(name)
    model = model() if model else build_native(name)[0]
    writes = model.config.is_encoder_decoder
    kind = "cross" if writes else "decoder" if model.can_generate() else "encoder"
    return model, TARGET if writes else None, kind


@torch.no_grad()
def logits_of(model, ids, target):
    """What transformers gives, asked for plainly."""
    if target is None:
        return model(input_ids=ids).logits[0]
    start = torch.tensor([[find_start(model)]])
    written = torch.cat((start, target[:, :-1]), dim=1)
    return model(input_ids=ids, decoder_input_ids=written).logits[0]


@pytest.mark.parametrize("name", [*NATIVE, "ours", "seq2seq"])
def test_distributions_are_those_of_the_model_whole_changed_and_without_a_token(name):
    model, target, kind = build(name)
    head = Intervention("remove", kind, 1, 1)
    whole, changed, without = predict_tokens(model, IDS, [Trial((head,)), Trial(without=(1,))], target)
    expected = logits_of(model, IDS, target).log_softmax(-1)
    torch.testing.assert_close(whole.log_probabilities, expected, **CLOSE)
    assert whole.total_variation.max() == 0
    with intervening(model, [head]):
        removed = logits_of(model, IDS, target).log_softmax(-1)
    torch.testing.assert_close(changed.log_probabilities, removed, **CLOSE)
    moved = (removed.exp() - expected.exp()).abs().sum(-1) / 2
    torch.testing.assert_close(changed.total_variation, moved, rtol=1e-3, atol=1e-5)
    assert moved.max() > 1e-3
    shorter = logits_of(model, IDS[:, [0, 2, 3, 4, 5]], target).log_softmax(-1)
    left = without.log_probabilities
    if target is None:  # the place of the token is empty, the others stand where they stood
        assert left[1].isnan().all()
        assert without.total_variation[1].isnan()
        left = left[[0, 2, 3, 4, 5]]
    torch.testing.assert_close(left, shorter, **CLOSE)


@pytest.mark.parametrize("name", ["gpt2", "bert", "t5"])
def test_what_a_tokenizer_returns_is_read_as_its_ids_are(name):
    (model, tokenizer), (_, target, _) = build_native(name), build(name)
    given = tokenizer("the cat sat", return_tensors="pt")
    assert given["input_ids"].shape[1] > 1
    for read in (
        lambda ids: predict_tokens(model, ids, (), target)[0].log_probabilities,
        lambda ids: logit_lens(model, ids, target),
    ):
        torch.testing.assert_close(read(given), read(given["input_ids"]))
    padded = {
        "input_ids": [[*given["input_ids"][0].tolist(), 0]],
        "attention_mask": [[*given["attention_mask"][0].tolist(), 0]],
    }
    torch.testing.assert_close(logit_lens(model, padded, target), logit_lens(model, given, target))
    with pytest.raises(ValueError, match="holds 2 rows"):
        predict_tokens(model, tokenizer(["the cat", "sat"]), (), target)


def test_models_say_what_they_predict():
    found = {name: find_prediction(build_native(name)[0]) for name in NATIVE}
    assert found == {"bert": "masked", "gpt2": "next", "llama": "next", "t5": "written", "bart": "written"}
    assert find_prediction(build_classifier()) == find_prediction(build_vit()) == ""


def test_what_cannot_be_predicted_is_said():
    model = build_decoder()
    with pytest.raises(ValueError, match="no head over its vocabulary"):
        predict_tokens(build_classifier(), IDS)
    with pytest.raises(ValueError, match="give the ids that it writes"):
        predict_tokens(build_seq2seq(), IDS)
    with pytest.raises(ValueError, match="leave it out"):
        predict_tokens(model, IDS, target_ids=TARGET)
    with pytest.raises(ValueError, match="token 6 is not there"):
        predict_tokens(model, IDS, [Trial(without=(6,))])
    with pytest.raises(ValueError, match="layer=7 is not there"):
        predict_tokens(model, IDS, [Trial((Intervention("remove", "decoder", 7),))])
    with pytest.raises(ValueError, match="query=6 is not there"):
        predict_tokens(model, IDS, [Trial((Intervention("remove", "decoder", 0, 0, 6, 1),))])
    with pytest.raises(ValueError, match="is for held-out examples"):
        predict_tokens(model, IDS, [Trial(edges="known")])
