"""Queries, keys and values of outsiders' models: what their kernel was given, or a refusal in a sentence."""

import threading

import pytest
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM, MambaConfig, MambaForCausalLM

from hf_attn.interpret.attention_maps import KINDS, attention_maps, find_attentions
from hf_attn.interpret.read_head import read_head
from tests.support.checks import assert_close
from tests.support.native_models import IDS, NATIVE, TINY, build_native

TEXT = "the cat sat on the mat"


def target_of(name):
    return None if name == "bert" else "the dog"


@pytest.mark.parametrize("name", NATIVE)
def test_weights_made_of_a_head_s_queries_and_keys_are_the_model_s_own(name):
    model, tokenizer = build_native(name)
    before = [part.config._attn_implementation for part in model.modules() if hasattr(part, "config")]
    maps = attention_maps(model, TEXT, target_of(name), tokenizer=tokenizer)
    for kind in KINDS:
        for layer, head in [] if getattr(maps, kind) is None else [(0, 0), (1, 1)]:
            place = {"kind": kind, "layer": layer, "head": head}
            found = read_head(model, TEXT, target_of(name), tokenizer=tokenizer, **place)
            assert_close(found.weights.float(), getattr(maps, kind)[layer, head], 1e-4)
            assert found.causal is (kind == "decoder")
            assert found.scale is (name != "t5")
            assert (found.bias is not None) is (name == "t5" and kind != "cross")
    assert [part.config._attn_implementation for part in model.modules() if hasattr(part, "config")] == before


def test_queries_keys_and_values_are_what_the_projections_give():
    model, tokenizer = build_native("bert")
    found = read_head(model, TEXT, kind="encoder", layer=0, head=2, tokenizer=tokenizer)
    (module, *_), given = find_attentions(model)["encoder"], []
    handle = module.register_forward_pre_hook(lambda _, args: given.append(args[0]))
    attention_maps(model, TEXT, tokenizer=tokenizer)
    handle.remove()
    part = slice(8, 12)  # of 4 heads of width 4, the third
    for name in ("query", "key", "value"):
        assert_close(getattr(found, name).float(), getattr(module, name)(given[0])[0, :, part])
    assert found.rows == ("[CLS]", "the", "cat", "sat", "[UNK]", "the", "mat", "[SEP]")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_that_computes_roughly_is_refused_with_what_to_do(dtype):
    model, tokenizer = build_native("llama")
    with pytest.raises(ValueError, match=r"load it with dtype=torch\.float32"):
        read_head(model.to(dtype), TEXT, " the", kind="decoder", layer=0, head=0, tokenizer=tokenizer)


def build_capped():
    sizes = {**TINY, "num_key_value_heads": 2, "head_dim": 4, "query_pre_attn_scalar": 4}
    return Gemma2ForCausalLM(Gemma2Config(vocab_size=40, **sizes, **IDS, attn_logit_softcapping=0.01))


def test_a_head_whose_weights_are_no_plain_softmax_is_refused_not_shown_wrong():
    ids = torch.arange(5, 12)[None]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build_capped().eval()
    with torch.no_grad():
        for module in find_attentions(model)["decoder"]:
            module.q_proj.weight.mul_(100)  # so that a cap is felt
    with pytest.raises(ValueError, match=r"are not softmax.*cannot be shown; its weights are in the map"):
        read_head(model, ids[:, :6], ids[:, 6:], kind="decoder", layer=0, head=0)


def test_a_model_without_attention_is_refused():
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "vocab_size": 40}
    mamba = MambaForCausalLM(MambaConfig(**sizes, state_size=4)).eval()
    with pytest.raises(ValueError, match="MambaForCausalLM gives no attention maps: it has no attention"):
        read_head(mamba, torch.arange(5)[None], torch.tensor([[7]]), kind="decoder", layer=0, head=0)


def test_what_another_thread_reads_meanwhile_is_not_noted():
    model, tokenizer = build_native("bert")
    alone = read_head(model, TEXT, kind="encoder", layer=1, head=0, tokenizer=tokenizer)
    stop = threading.Event()

    def read_others():
        while not stop.is_set():
            attention_maps(model, "the dog", tokenizer=tokenizer)

    other = threading.Thread(target=read_others)
    other.start()
    try:
        for _ in range(20):
            found = read_head(model, TEXT, kind="encoder", layer=1, head=0, tokenizer=tokenizer)
            assert torch.equal(found.query, alone.query)
    finally:
        stop.set()
        other.join()
