"""The logit lens and patching: what the model itself would give, computed plainly beside."""

import pytest
import torch

from hf_attn.analysis.residual_stream import find_layers, logit_lens, patch_activations
from tests.analysis.test_predictions import CLOSE, IDS, TARGET, build, logits_of
from tests.support.checks import build_classifier, build_decoder, build_seq2seq
from tests.support.native_models import NATIVE, build_native
from tests.support.recurrent_models import build_recurrent

MODELS = [*NATIVE, "ours", "seq2seq"]
OTHER = torch.tensor([[8, 12, 10, 10, 12, 11]])
HEADS = {  # the last norm and head, named by hand
    "gpt2": lambda model, x: model.lm_head(model.transformer.ln_f(x)),
    "llama": lambda model, x: model.lm_head(model.model.norm(x)),
    "bert": lambda model, x: model.cls(x),
    "bart": lambda model, x: model.lm_head(x) + model.final_logits_bias,
}


@pytest.mark.parametrize("name", MODELS)
def test_the_last_layer_of_the_lens_is_the_model_itself(name):
    model, target, _ = build(name)
    lens = logit_lens(model, IDS, target)
    own = logits_of(model, IDS, target)
    assert lens.shape == (len(find_layers(model, of_target=target is not None)) + 1, *own.shape)
    torch.testing.assert_close(lens[-1], own.log_softmax(-1), **CLOSE)
    assert (lens[:-1] - lens[-1]).abs().amax(dim=(1, 2)).min() > 1e-2
    torch.testing.assert_close(logits_of(model, IDS, target), own)  # nothing stays hooked


@pytest.mark.parametrize("name", HEADS)
def test_each_layer_of_the_lens_is_the_stream_read_by_the_last_norm_and_head(name):
    model, target, _ = build(name)
    with torch.no_grad():
        if target is None:
            streams = model(input_ids=IDS, output_hidden_states=True).hidden_states
        else:
            start = torch.tensor([[model.config.decoder_start_token_id, *TARGET[0, :-1].tolist()]])
            outputs = model(input_ids=IDS, decoder_input_ids=start, output_hidden_states=True)
            streams = outputs.decoder_hidden_states
        plain = [HEADS[name](model, stream)[0].log_softmax(-1) for stream in streams[:-1]]
    torch.testing.assert_close(logit_lens(model, IDS, target)[:-1], torch.stack(plain), **CLOSE)


@pytest.mark.parametrize("name", MODELS)
def test_each_patch_is_that_of_the_model_with_one_vector_put_in(name):
    model, target, _ = build(name)
    found = patch_activations(model, IDS, OTHER, target)
    clean = logits_of(model, IDS, target).softmax(-1)[-1]
    assert found.answer == int(clean.argmax())
    assert found.clean == pytest.approx(float(clean.max()), abs=1e-5)
    assert found.changed == pytest.approx(
        float(logits_of(model, OTHER, target).softmax(-1)[-1, found.answer]), abs=1e-5
    )
    layers = find_layers(model, of_target=False)
    for layer, place in ((0, 2), (1, 0), (1, 2), (len(layers) - 1, 5)):
        kept = []
        hook = layers[layer].register_forward_pre_hook(
            lambda _, args, kwargs, kept=kept: kept.append(args[0] if args else kwargs["hidden_states"]),
            with_kwargs=True,
        )
        logits_of(model, IDS, target)
        hook.remove()

        def put(_, args, kwargs, place=place, clean=kept[0]):
            stream = (args[0] if args else kwargs["hidden_states"]).clone()
            stream[:, place] = clean[:, place]
            return ((stream, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": stream})

        hook = layers[layer].register_forward_pre_hook(put, with_kwargs=True)
        alone = float(logits_of(model, OTHER, target).softmax(-1)[-1, found.answer])
        hook.remove()
        assert float(found.patched[layer, place]) == pytest.approx(alone, abs=1e-5)
    # the one token that differs, put back at the bottom, is the clean text
    assert float(found.recovery[0, 2]) == pytest.approx(1, abs=1e-3)
    assert float(found.recovery[0, 4]) == pytest.approx(0, abs=1e-3)


def test_what_cannot_be_looked_into_is_said():
    model = build_decoder()
    with pytest.raises(ValueError, match="changed_ids has 5 tokens and clean_ids 6"):
        patch_activations(model, IDS, IDS[:, :5])
    with pytest.raises(ValueError, match="place=6 is not there: there are places 0 to 5"):
        patch_activations(model, IDS, OTHER, place=6)
    with pytest.raises(ValueError, match="give the ids that it writes"):
        logit_lens(build_seq2seq(), IDS)
    with pytest.raises(ValueError, match="no head over its vocabulary"):
        logit_lens(build_classifier(), IDS)
    with pytest.raises(ValueError, match="does not say which of its modules are layers"):
        logit_lens(build_recurrent(), IDS, TARGET)
    assert build_native("gpt2")[0].training is False
