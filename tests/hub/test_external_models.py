"""Models that were not made here: opened with native classes, or refused in a sentence; no code is run."""

import json
import math
import shutil

import pytest
import torch
import transformers
from transformers import (
    BertConfig,
    EncoderDecoderConfig,
    EncoderDecoderModel,
    XLMConfig,
    XLMWithLMHeadModel,
)

from hf_attn.architectures.map_sizes import count_map_weights, estimate_map_bytes
from hf_attn.checkpoints.validate import build_empty
from hf_attn.hub import external_models
from hf_attn.hub.external_models import open_model
from hf_attn.interpret.attention_maps import KINDS, attention_maps
from hf_attn.viz.attention_view import show_attention
from tests.support.hub_server import serve_hub
from tests.support.matrix import rows
from tests.support.native_models import NATIVE, TINY, build_native, build_vit, wordpiece_tokenizer


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return a folder for each native model, as save_pretrained writes it."""
    root = tmp_path_factory.mktemp("native")
    for name in NATIVE:
        for part in build_native(name):
            part.save_pretrained(root / name)
    return root


@pytest.fixture
def gpt2(folders, tmp_path):
    return shutil.copytree(folders / "gpt2", tmp_path / "gpt2")


def rewrite(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("name", rows(list(NATIVE), ["gpt2", "bert", "bart"]))
def test_a_folder_opens_with_the_class_that_its_configuration_names(folders, name):
    opened, (model, tokenizer) = open_model(folders / name), build_native(name)
    assert type(opened.model) is type(model)
    assert (opened.task, opened.training, opened.model.training) == (None, {}, False)
    text = "the cat sat"
    target = None if name == "bert" else "the"
    found = attention_maps(opened.model, text, target, tokenizer=opened.tokenizer).answering
    wanted = attention_maps(model, text, target, tokenizer=tokenizer).answering
    assert torch.equal(found.weights, wanted.weights)
    assert found.columns == wanted.columns


@pytest.mark.parametrize("name", rows(list(NATIVE), ["gpt2", "bart"]))
def test_the_maps_of_a_model_are_counted_before_they_are_computed_also_where_its_sides_differ(name):
    model, tokenizer = build_native(name)
    if name == "bart":
        sides = (model.config.encoder_attention_heads, model.config.decoder_attention_heads)
        assert sides == (2, 4), "this is what is tested"
    ids = torch.tensor([tokenizer("the cat sat on the mat")["input_ids"]])
    target = None if name == "bert" else ids[:, :3]
    maps = attention_maps(model, ids, target)
    counted = count_map_weights(model.config, ids.shape[1], 0 if target is None else 3)
    there = {kind: weights for kind in KINDS if (weights := getattr(maps, kind)) is not None}
    assert counted == {kind: tuple(weights.shape) for kind, weights in there.items()}


REFUSED = {
    "auto_map": ({"auto_map": {"AutoModel": "modeling_x.X"}}, "needs code of its own .auto_map.*no code"),
    "type": ({"model_type": "nobody"}, "model_type='nobody', which this transformers does not know"),
    "quantised": ({"quantization_config": {"quant_method": "gptq"}}, "is quantised"),
    "sound": ({"model_type": "whisper", "architectures": ["WhisperModel"]}, "reads neither text nor images"),
    "sizes": ({"n_embd": 32}, "cannot be opened"),
    "more layers": ({"n_layer": 3}, "lacks 12 tensors of a GPT2LMHeadModel"),
    "nonsense": ({"n_layer": "many"}, "cannot be opened"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_must_not_or_cannot_be_opened_is_refused_in_a_sentence(gpt2, what):
    changes, sentence = REFUSED[what]
    rewrite(gpt2, **changes)
    with pytest.raises(ValueError, match=sentence) as refused:
        open_model(gpt2)
    assert "\n" not in str(refused.value)


def test_pickles_missing_files_and_broken_weights_are_refused(gpt2, tmp_path):
    weights = gpt2 / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="cannot be opened"):
        open_model(gpt2)
    weights.unlink()
    with pytest.raises(FileNotFoundError, match=r"has no model\.safetensors"):
        open_model(gpt2)
    (gpt2 / "pytorch_model.bin").write_bytes(b"never read")
    with pytest.raises(ValueError, match=r"as a pickle \(pytorch_model\.bin\)"):
        open_model(gpt2)
    (gpt2 / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"no config\.json"):
        open_model(gpt2)
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        open_model(tmp_path / "nowhere")


# ---------------------------------------------------------------- what is given, and what cannot be shown

IDS = torch.tensor([[5, 6, 7, 8, 9]])


def test_a_model_that_gives_no_cache_is_refused_in_a_sentence():
    model = XLMWithLMHeadModel(
        XLMConfig(vocab_size=40, emb_dim=16, n_layers=1, n_heads=2, mask_index=3, bos_index=0)
    )
    with pytest.raises(ValueError, match=r"gives no cache, .*write with model\.generate"):
        show_attention(model.eval(), None, IDS, strategy="greedy")


@pytest.mark.parametrize("strategy", ["greedy", "beam"])
def test_two_models_that_are_one_write_and_have_all_three_kinds_of_maps(strategy):
    tokenizer = wordpiece_tokenizer()
    sizes = {**TINY, "vocab_size": len(tokenizer), "max_position_embeddings": 16}
    sides = BertConfig(**{**sizes, "num_hidden_layers": 3}), BertConfig(**sizes)
    config = EncoderDecoderConfig.from_encoder_decoder_configs(*sides)
    model = EncoderDecoderModel(config).eval()
    with pytest.raises(
        ValueError, match=r"which token its answers start with: set model\.config\.decoder_start"
    ):
        show_attention(model, tokenizer, "the cat sat")
    model.config.decoder_start_token_id = tokenizer.convert_tokens_to_ids("[CLS]")
    maps = show_attention(model, tokenizer, "the cat sat", strategy=strategy).maps
    written = len(maps.answer_ids)
    assert 0 < written <= 16
    assert maps.encoder.shape == (3, 4, 5, 5)
    assert maps.decoder.shape == (2, 4, written, written)
    assert maps.cross.shape == (2, 4, written, 5)
    assert count_map_weights(config, 5, written)["encoder"] == (3, 4, 5, 5)
    counted = count_map_weights(config, 5, 7)
    assert estimate_map_bytes(config, 5, 7) == 4 * sum(map(math.prod, counted.values()))


WRONG_INPUTS = {
    "The input holds the id 9999, and this model knows 0 to": (torch.tensor([[5, 9999]]), None),
    "The input holds the id -3, ": (torch.tensor([[5, -3]]), None),
    "The target holds the id 9999, ": (IDS, torch.tensor([[5, 9999]])),
    "The input holds 2 rows; give one": (torch.cat((IDS, IDS)), None),
    "The target holds 2 rows; give one": (IDS, torch.cat((IDS, IDS))),
    "The input has shape .1, 1, 5.; give the ids of one text": (IDS[None], None),
    "The input holds numbers of torch.float32; ids are whole": (IDS.float(), None),
    "The input is a list: give a text with its tokenizer, or ids": (["the", "cat"], None),
    "The input is a NoneType: ": (None, None),
    "70 tokens are more than the 64 positions": (IDS, torch.full((1, 70), 5)),
}


@pytest.mark.parametrize("sentence", WRONG_INPUTS)
def test_what_is_no_one_text_of_the_model_is_refused_in_a_sentence(sentence):
    model, tokenizer = build_native("bart")
    with pytest.raises(ValueError, match=sentence):
        show_attention(model, tokenizer, *WRONG_INPUTS[sentence])


@pytest.mark.parametrize("name", ["layers", "heads"])
@pytest.mark.parametrize("value", [1, "1", [0.5]])
def test_layers_and_heads_that_are_no_list_of_numbers_are_refused_before_anything_is_read(name, value):
    with pytest.raises(ValueError, match=f"{name}=.* is no list of numbers: give for example .0, 1."):
        show_attention(None, None, IDS, **{name: value})


# ---------------------------------------------------------------- the Hub


def put(hub, name, folder, **kept):
    """Upload a folder's files to the test's Hub."""
    from huggingface_hub import HfApi

    api = HfApi(endpoint=hub.endpoint, token=hub.token)
    api.create_repo(name, private=kept.get("private", False))
    api.upload_folder(repo_id=name, folder_path=folder)


def test_a_hub_id_opens_and_what_the_hub_refuses_is_said(gpt2, tmp_path):
    with serve_hub(tmp_path / "served") as hub:
        here = {"endpoint": hub.endpoint, "cache_dir": tmp_path / "cache"}
        put(hub, "ada/gpt2", gpt2)
        put(hub, "ada/secret", gpt2, private=True)
        assert open_model("ada/gpt2", token=hub.token, **here).model.config.n_layer == 2
        assert open_model("ada/secret", token=hub.token, **here).task is None
        for name, token in (("ada/secret", False), ("ada/none", hub.token)):
            with pytest.raises(ValueError, match=f"There is no repo {name}, or "):
                open_model(name, token=token, **here)
        with pytest.raises(ValueError, match="ada/gpt2 has no such revision"):
            open_model("ada/gpt2", revision="v9", token=hub.token, **here)
        with pytest.raises(ValueError, match="A repo cannot be called"):
            open_model("ada gpt2!", **here)
        sent = len(hub.requests)
        with pytest.raises(ValueError, match="GB of weights"):
            open_model("ada/gpt2", token=hub.token, max_bytes=1000, **here)
        assert len(hub.requests) == sent + 1, "nothing was downloaded"
        hub.repo("ada/gpt2").configure(gated="manual")
        bob = {"token": hub.add_user("bob"), "endpoint": hub.endpoint, "cache_dir": tmp_path / "bob"}
        with pytest.raises(ValueError, match=r"ada/gpt2 is gated .*ask for access"):
            open_model("ada/gpt2", **bob)
        hub.fail("resolve", 403, times=9)
        with pytest.raises(ValueError, match=r"This token may not do that to ada/gpt2 \(403\)"):
            open_model("ada/gpt2", token=hub.token, endpoint=hub.endpoint, cache_dir=tmp_path / "empty")
        hub.fail("info", 500)
        with pytest.raises(ValueError, match=r"trouble of its own \(500\): try again later"):
            open_model("ada/gpt2", token=hub.token, **here)
    nowhere = {**here, "endpoint": "http://127.0.0.1:9"}
    assert open_model("ada/gpt2", **nowhere).task is None, "downloaded before, it opens without a network"
    for name, token in (("ada/other", None), ("ada/secret", False)):  # the cache may hold what is private
        with pytest.raises(ValueError, match=r"127\.0\.0\.1:9 cannot be reached: check the network"):
            open_model(name, token=token, **nowhere)


@pytest.mark.parametrize("changes", [
    {"model_type": "detr", "backbone": "ada/secret", "use_timm_backbone": False},
    {"model_type": "dpt", "backbone": "ada/secret", "use_pretrained_backbone": True},
    {"model_type": "encoder-decoder", "encoder": {"model_type": "detr", "use_timm_backbone": True}},
], ids=lambda changes: changes["model_type"])  # fmt: skip
def test_a_part_of_another_repository_is_not_fetched_by_whoever_s_token(gpt2, tmp_path, monkeypatch, changes):
    folder = shutil.copytree(gpt2, tmp_path / "model")
    (folder / "config.json").write_text(json.dumps(changes))
    with serve_hub(tmp_path / "served") as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
        with pytest.raises(ValueError, match="takes a part of its model from another repository"):
            open_model(folder, token=False)
        assert hub.requests == []


@pytest.mark.parametrize(("changes", "words"), [
    ({"n_layer": 10**6}, "too few for 1000000 layers"),
    ({"n_embd": 2**17, "n_head": 2}, "describes a model of"),
    ({"num_labels": 10**9}, "classes; 25,000 at most"),
    ({"model_type": "mixtral", "num_hidden_layers": 2, "num_local_experts": 10**9, "vocab_size": 10},
     "describes a model of far more"),
    ({"model_type": "dinov2", "num_hidden_layers": 2, "hidden_size": 2**20, "num_attention_heads": 1},
     "describes a model of far more numbers"),
    ({"model_type": "swin", "depths": [10**6], "num_heads": [1], "architectures": ["SwinModel"]},
     "describes a model of far more"),
])  # fmt: skip
def test_a_model_far_larger_than_its_weights_is_refused_before_it_is_built(gpt2, tmp_path, changes, words):
    folder = shutil.copytree(gpt2, tmp_path / "model")
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ValueError, match=words):
        open_model(folder)


@pytest.mark.parametrize(
    ("config", "model_class"),
    [
        (transformers.T5Config(), transformers.T5ForConditionalGeneration),
        (transformers.XLMRobertaConfig(vocab_size=250_002), transformers.XLMRobertaForMaskedLM),
        (transformers.BartConfig(), transformers.BartModel),
        (transformers.MarianConfig(vocab_size=58_101, d_model=512, encoder_layers=6, decoder_layers=6,
            encoder_ffn_dim=2048, decoder_ffn_dim=2048), transformers.MarianMTModel),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)  # fmt: skip
def test_a_model_whose_embeddings_are_most_of_it_is_not_taken_for_a_larger_one(config, model_class):
    with torch.device("meta"):
        model = model_class(config)
    tied = set(model.all_tied_weights_keys)
    saved = {name: tuple(one.shape) for name, one in model.state_dict().items() if name not in tied}
    built = build_empty("a model", config, model_class, saved)
    assert built.num_parameters() == model.num_parameters()


@pytest.mark.parametrize("changes", [
    {"_attn_implementation": "somebody/kernel"},
    {"attn_implementation": {"": "somebody/kernel"}},
    {"_attn_implementation_internal": "flash_attention_2"},
    {"experts_implementation": "somebody/experts"},
    {"text_config": {"model_type": "gpt2", "_attn_implementation": "somebody/kernel@main:f"}},
], ids=str)  # fmt: skip
def test_no_code_for_attention_is_loaded_from_elsewhere(gpt2, changes):
    rewrite(gpt2, **changes)
    with pytest.raises(ValueError, match=r"computes by code from elsewhere .*write eager or sdpa"):
        open_model(gpt2)
    rewrite(gpt2, **{**dict.fromkeys(changes), "_attn_implementation": "eager"})
    assert open_model(gpt2).model.config._attn_implementation == "eager"


@pytest.mark.parametrize(
    "place", ["../gpt2-outside.safetensors", "/etc/passwd", "sub/model.safetensors", "", 3]
)
def test_an_index_that_names_a_file_elsewhere_is_refused(gpt2, place):
    shutil.copyfile(gpt2 / "model.safetensors", gpt2.parent / "gpt2-outside.safetensors")
    (gpt2 / "model.safetensors").unlink()
    (gpt2 / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"wte.weight": place}}))
    with pytest.raises(ValueError, match="which is no file of its folder"):
        open_model(gpt2)


def test_weights_that_are_too_large_are_refused_before_they_are_read(gpt2, monkeypatch):
    monkeypatch.setattr(external_models, "_load", lambda *_: pytest.fail("it was read"))
    with pytest.raises(ValueError, match=r"GB of weights; up to 0\.0 GB are opened.*raise max_bytes"):
        open_model(gpt2, max_bytes=1000)


def test_several_images_are_refused():
    with pytest.raises(ValueError, match="The input holds 2 images; give one"):
        show_attention(build_vit(), None, torch.rand(2, 3, 24, 32))
