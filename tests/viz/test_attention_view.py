"""The lens without the app: what people complain of in today's tools, each a test with that name."""

import base64
import csv
import html
import json
import re

import numpy as np
import pytest
import torch
from transformers import (
    LongformerConfig,
    LongformerModel,
    MambaConfig,
    MambaForCausalLM,
    SwinConfig,
    SwinModel,
)

from hf_attn.architectures.map_sizes import estimate_map_bytes
from hf_attn.checkpoints.save_load import load_checkpoint
from hf_attn.generation.generate import generate_answer
from hf_attn.interpret.attention_maps import KINDS, attention_maps
from hf_attn.interpret.plain_attention import eager_attention
from hf_attn.viz import attention_view
from hf_attn.viz.attention_view import AttentionView, show_attention
from hf_attn.viz.web import encode_maps, to_json
from tests.support.board_values import check_value
from tests.support.checks import assert_close, build_seq2seq
from tests.support.matrix import rows
from tests.support.native_models import NATIVE, build_native, build_vit
from tests.support.recurrent_models import build_recurrent

TEXT = "the cat sat on the mat"


@pytest.fixture(scope="module")
def gpt2():
    model, tokenizer = build_native("gpt2")
    return model, tokenizer, show_attention(model, tokenizer, TEXT, max_new_tokens=5)


def implementations(model):
    return [
        getattr(part.config, "_attn_implementation", None)
        for part in model.modules()
        if hasattr(part, "config")
    ]


def value_in(page):
    """Return the board's value that a page holds, held to its contract."""
    (data,) = re.findall(r'<script type="application/json" id="value">(.*?)</script>', page, re.S)
    check_value(data, "explore_board")
    return json.loads(data)


KERNELS = [
    *((name, "sdpa") for name in NATIVE),
    *((name, "flex_attention") for name in ("bert", "bart", "llama")),
]


@pytest.mark.parametrize("pair", rows(KERNELS, KERNELS[::4], "-".join))
def test_empty_attentions_under_sdpa(pair):
    name, kernel = pair
    model, tokenizer = build_native(name)
    model.set_attn_implementation(kernel)
    before = implementations(model)
    ids = torch.tensor([tokenizer("the cat sat")["input_ids"]])
    target = None if name == "bert" else ids[:, :2]
    view = show_attention(model, tokenizer, ids, target)
    assert implementations(model) == before
    for kind in view.kinds:
        weights = getattr(view.maps, kind)
        assert weights.dim() == 4
        assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    model.set_attn_implementation("eager")
    eager = show_attention(model, tokenizer, ids, target)
    assert all(torch.equal(getattr(view.maps, kind), getattr(eager.maps, kind)) for kind in view.kinds)


def test_the_implementation_is_switched_back_also_where_stacks_differ_and_after_an_error(monkeypatch):
    model, tokenizer = build_native("t5")
    model.get_encoder().set_attn_implementation("eager")
    before = implementations(model)
    assert set(before) == {"eager", "sdpa"}
    show_attention(model, tokenizer, TEXT, "the dog")
    assert implementations(model) == before
    monkeypatch.setattr(type(model), "forward", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        show_attention(model, tokenizer, TEXT, "the dog")
    assert implementations(model) == before


@pytest.mark.parametrize(("name", "strategy"), [("gpt2", "greedy"), ("t5", "beam")])
def test_generated_tokens_and_beams_are_rows(name, strategy):
    model, tokenizer = build_native(name)
    source = torch.tensor([tokenizer(TEXT)["input_ids"]])
    how = {"strategy": strategy, "max_new_tokens": 6} | ({"num_beams": 3} if strategy == "beam" else {})
    maps = show_attention(model, tokenizer, TEXT, **how).maps
    written = generate_answer(model, source, **how).ids
    assert maps.answer_ids == written
    assert len(maps.answering.rows) == len(written)
    assert maps.answering.weights.shape[2] == len(written)
    given = show_attention(model, tokenizer, TEXT, torch.tensor(written)).maps
    assert_close(given.answering.weights, maps.answering.weights)


def test_encoder_decoder_selectors():
    model, tokenizer = build_native("t5")
    view = show_attention(model, tokenizer, TEXT, "the dog")
    kinds = value_in(view.to_html())["kinds"]
    source, target = tokenizer(TEXT)["input_ids"], tokenizer("the dog")["input_ids"]
    assert list(kinds) == ["cross", "encoder", "decoder"]
    assert kinds["cross"]["shape"] == [3, 4, len(target), len(source)]
    assert kinds["encoder"]["shape"] == [2, 4, len(source), len(source)]
    assert kinds["decoder"]["shape"] == [3, 4, len(target), len(target)]
    assert kinds["cross"]["rows"] == ["␣the", *kinds["cross"]["rows"][1:-1], "</s>"]
    assert kinds["decoder"]["cols"] == ["<pad>", *kinds["cross"]["rows"][:-1]]
    assert kinds["decoder"]["allowed"] == np.tri(len(target), dtype=int).tolist()
    assert view.title == f"{TEXT} → the dog"


def test_vision_patches_are_tokens():
    model = build_vit()
    pixels = torch.rand(1, 3, 24, 32)
    maps = show_attention(model, None, pixels).maps
    assert maps.source_tokens == ("CLS", *(f"row {r}, col {c}" for r in (1, 2, 3) for c in (1, 2, 3, 4)))
    model.set_attn_implementation("eager")
    with torch.no_grad():
        assert_close(maps.encoder, torch.cat(model(pixels, output_attentions=True).attentions))

    def processor(images, return_tensors):
        assert return_tensors == "pt"
        return {"pixel_values": torch.as_tensor(images).permute(2, 0, 1)[None]}

    image = pixels[0].permute(1, 2, 0).numpy()
    assert_close(show_attention(model, processor, image).maps.encoder, maps.encoder)
    with pytest.raises(ValueError, match="only reads: leave target out"):
        show_attention(model, processor, image, "a cat")
    with pytest.raises(ValueError, match="image processor"):
        show_attention(model, None, image)


SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "vocab_size": 40}
STRANGERS = {
    "MambaForCausalLM gives no attention maps": lambda: MambaForCausalLM(MambaConfig(**SIZES, state_size=4)),
    "LongformerModel does not attend .*attention_window=.6, 6.": lambda: LongformerModel(
        LongformerConfig(**SIZES, num_attention_heads=2, intermediate_size=16, attention_window=6)
    ),
    "SwinModel does not attend from every token": lambda: SwinModel(
        SwinConfig(image_size=16, patch_size=2, embed_dim=8, depths=[1, 1], num_heads=[2, 4], window_size=2)
    ),
    "model is a Linear; give a model of transformers": lambda: torch.nn.Linear(2, 2),
}


@pytest.mark.parametrize("sentence", STRANGERS)
def test_a_model_without_maps_is_refused_in_a_sentence(sentence):
    model = STRANGERS[sentence]().eval()
    images = getattr(model, "main_input_name", "") == "pixel_values"
    given = torch.rand(1, 3, 16, 16) if images else torch.tensor([[5, 6, 7, 8, 9, 10, 11]])
    with pytest.raises(ValueError, match=sentence):
        show_attention(
            model, None, given, None if images else torch.tensor([7, 8]) if model_writes(model) else None
        )


def model_writes(model):
    return getattr(model, "can_generate", bool)()


@pytest.mark.parametrize("name", rows(list(NATIVE), ["bert", "bart"]))
def test_long_inputs_are_refused_with_the_estimate_before_they_are_computed(name, monkeypatch):
    model, tokenizer = build_native(name)
    ids = torch.tensor([tokenizer(TEXT)["input_ids"]])
    target = None if name == "bert" else ids[:, :3]
    maps = attention_maps(model, ids, target)
    there = [getattr(maps, kind) for kind in KINDS if getattr(maps, kind) is not None]
    needed = estimate_map_bytes(model.config, ids.shape[1], 0 if target is None else 3)
    least = sum(4 * weights.numel() for weights in there)
    assert least <= needed <= 2 * least, "a decoder does not read the last token it writes"
    monkeypatch.setattr(type(model), "forward", lambda *_, **__: pytest.fail("the model was run"))
    with pytest.raises(ValueError, match=r"MB of maps.*source of about \d+ tokens\. Shorten the input"):
        show_attention(model, tokenizer, ids, target, max_bytes=least // 4)
    if name in ("bert", "bart", "llama"):
        with pytest.raises(ValueError, match="70 tokens are more than the 64 positions"):
            show_attention(model, tokenizer, torch.full((1, 70), 8), target)


def test_long_inputs_that_a_page_cannot_hold_are_shown_by_layers_and_heads(gpt2, monkeypatch):
    *_, view = gpt2
    monkeypatch.setattr(attention_view, "PAGE_LIMIT", view.maps.decoder.numel())
    assert "choose some layers or heads, as in view.choose(layers=[0])" in html.unescape(view._repr_html_())
    with pytest.raises(ValueError, match=r"or save \.npz"):
        view.to_html()
    decoder = value_in(view.choose(layers=[1], heads=[0, 3]).to_html())["kinds"]["decoder"]
    assert decoder["shape"][:2] == [1, 2]
    assert decoder["maps"] == encode_maps(view.maps.decoder[1:, [0, 3]])
    assert (decoder["layers"], decoder["heads"]) == ([1], [0, 3])
    assert decoder["title"].endswith("layers 2 of 2; heads 1, 4 of 4")
    with pytest.raises(ValueError, match=r"layers=\[2\]: decoder attention has layers 0 to 1"):
        view.choose(layers=[2])


def test_several_tokens_and_sinks_have_all_they_need_in_the_page(gpt2):
    *_, view = gpt2
    decoder = value_in(view.to_html())["kinds"]["decoder"]
    weights = np.frombuffer(base64.b64decode(decoder["maps"]), "<u2").reshape(decoder["shape"]) / 65535
    assert np.abs(weights - view.maps.decoder.numpy()).max() <= 0.5 / 65535 + 1e-7
    assert (len(decoder["rows"]), len(decoder["cols"])) == weights.shape[2:]


def test_the_frame_of_a_notebook_holds_the_whole_page_and_asks_for_nothing(gpt2):
    *_, view = gpt2
    shown = view._repr_html_()
    (page,) = re.findall(r'srcdoc="([^"]*)"', shown)
    assert html.unescape(page) == view.to_html()
    assert 'sandbox="allow-scripts allow-downloads"' in shown
    assert not re.findall(r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//", html.unescape(shown))
    assert "default-src 'none'" in view.to_html()


def test_saving_figures(gpt2, tmp_path):
    *_, view = gpt2
    for suffix in ("html", "png", "svg", "npz", "csv"):
        assert view.save(tmp_path / f"map.{suffix}", layer=0, head=2).stat().st_size > 500
    with (tmp_path / "map.csv").open(encoding="utf-8-sig", newline="") as file:
        _, *rows = csv.reader(file)
    assert_close(torch.tensor([[float(w) for w in row[1:]] for row in rows]), view.maps.decoder[0, 2])
    with np.load(tmp_path / "map.npz", allow_pickle=False) as arrays:
        assert np.array_equal(arrays["decoder"], view.maps.decoder.numpy())
    first = value_in((tmp_path / "map.html").read_text())
    assert (first["layer"], first["head"], first["query"]) == (0, 2, view.maps.written_from)
    assert "layer 0, head 2" in (tmp_path / "map.svg").read_text()
    with pytest.raises(ValueError, match=r"\.gif"):
        view.save(tmp_path / "map.gif")
    with pytest.raises(ValueError, match="this model has decoder attention"):
        view.save(tmp_path / "map.png", kind="cross")
    with pytest.raises(ValueError, match="layers 0 to 1"):
        view.save(tmp_path / "map.html", layer=2)


def test_a_page_refuses_to_open_at_what_it_does_not_offer_and_a_picture_shows_it(gpt2, tmp_path):
    *_, view = gpt2
    some = view.choose(layers=[1], heads=[3, 2])
    for wrong in ({"layer": 0}, {"head": 0}):
        with pytest.raises(ValueError, match=r"=0: the lens offers .*; choose among them"):
            some.save(tmp_path / "map.html", **wrong)
        assert some.save(tmp_path / "map.svg", **wrong).exists()
    first = value_in(some.save(tmp_path / "map.html", head=2).read_text())
    assert (first["layer"], first["head"]) == (0, 1), "places among those offered"


def test_our_own_models_are_shown_with_what_is_known(tiny_checkpoint):
    loaded = load_checkpoint(tiny_checkpoint)
    view = show_attention(loaded.model, loaded.tokenizer, "1 2 3")
    assert (
        view.maps.answer_ids == generate_answer(loaded.model, torch.tensor([loaded.task.encode("1 2 3")])).ids
    )
    answer = loaded.task.decode(view.maps.answer_ids)
    known = AttentionView(view.maps, truth=loaded.task.alignment("1 2 3", answer)).to_value()["kinds"]
    assert known["cross"]["truth"][0] == [1, 0, 0, 0]
    assert "truth" not in known["encoder"]


def test_a_model_that_only_reads_step_by_step_is_refused():
    model = build_recurrent(score_function="none")
    with pytest.raises(ValueError, match="no attention to show"):
        show_attention(model, None, torch.tensor([[5, 6]]), torch.tensor([[5]]))
    aligned = show_attention(
        build_recurrent(score_function="dot"), None, torch.tensor([[5, 6]]), torch.tensor([5])
    )
    assert aligned.to_value()["kinds"]["cross"]["title"].startswith("alignment")


def test_a_text_read_alone_has_a_row_for_each_of_its_tokens(gpt2):
    model, tokenizer, _ = gpt2
    view = show_attention(model, tokenizer, TEXT)
    assert view.maps.target_tokens == view.maps.decoder_tokens == view.maps.source_tokens
    assert (view.maps.answer_ids, view.title) == ((), TEXT)
    assert view.to_value()["query"] == len(view.maps.target_tokens) - 1
    ids = tokenizer(TEXT, return_tensors="pt")["input_ids"]
    with eager_attention(model), torch.no_grad():
        own = torch.cat(model(input_ids=ids, output_attentions=True).attentions)
    torch.testing.assert_close(view.maps.decoder, own)
    assert show_attention(model, tokenizer, "the").maps.decoder.shape[2:] == (1, 1)
    with pytest.raises(ValueError, match="no token in what was given"):
        show_attention(model, tokenizer, "")
    with pytest.raises(ValueError, match="without a tokenizer"):
        show_attention(build_seq2seq(), None, TEXT)


def test_values_for_a_board_survive_nan_and_script_tags():
    text = to_json({"loss": float("nan"), "token": "<script>", "n": np.int64(3), "w": (np.float32(0.5),)})
    assert json.loads(text) == {"loss": None, "token": "<script>", "n": 3, "w": [0.5]}
    assert "<" not in text
    finite = {"n": np.int64(3), "known": np.bool_(True), "w": (np.float32(0.5), np.float64(0.25))}
    assert json.loads(to_json(finite)) == {"n": 3, "known": True, "w": [0.5, 0.25]}
    assert json.loads(to_json([np.float32("inf"), np.float64("nan"), 1])) == [None, None, 1]
    with pytest.raises(TypeError, match="numbers, lists and dicts, no set"):
        to_json({"tokens": {"a", "b"}})


def test_grouped_keys_give_a_map_for_each_head_that_reads():
    model, tokenizer = build_native("llama")
    assert (model.config.num_attention_heads, model.config.num_key_value_heads) == (4, 2)
    decoder = show_attention(model, tokenizer, TEXT, " the").maps.decoder
    assert decoder.shape[:2] == (2, 4)
    assert not torch.equal(decoder[0, 0], decoder[0, 1])
