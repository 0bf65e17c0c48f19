"""The lens on other people's models and on long inputs: what is sent, what is fetched, what is refused."""

import base64
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    MambaConfig,
    MambaForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from demos.session import maps as looking
from demos.session import model_input
from demos.session.catalog import ModelCatalog
from demos.session.session import Session
from demos.tabs.explore import tab as explore
from demos.tabs.explore.ablation_panel import AblationQuestion
from demos.tabs.explore.head_scores import ExploreState
from hf_attn.architectures.map_sizes import count_map_weights
from hf_attn.interpret import long_inputs
from hf_attn.interpret.attention_maps import attention_maps
from tests.support.sessions import ask_model

WORDS = ["the", "bank", "by", "river", "tree", "time", "flies"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
TEXT = "the bank by the river"
SIZES = {"vocab_size": 11, "pad_token_id": 0}
SMALL = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 16}
ENDS = {"bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2}
SIDES = {f"{side}_{what}": 2 for side in ("encoder", "decoder") for what in ("layers", "attention_heads")}
MODELS = {
    "bert": lambda: BertModel(BertConfig(**SIZES, **SMALL, max_position_embeddings=64)),
    "classifier": lambda: BertForSequenceClassification(BertConfig(**SIZES, **SMALL)),
    "gpt2": lambda: GPT2LMHeadModel(
        GPT2Config(**SIZES, n_embd=16, n_layer=2, n_head=2, n_positions=64, bos_token_id=2, eos_token_id=3)
    ),
    "t5": lambda: T5ForConditionalGeneration(
        T5Config(**SIZES, d_model=16, d_kv=8, d_ff=16, num_layers=2, num_heads=2, **{**ENDS})
    ),
    "bart": lambda: BartForConditionalGeneration(
        BartConfig(**SIZES, **SIDES, d_model=16, encoder_ffn_dim=16, decoder_ffn_dim=16, **ENDS)
    ),
}


def save(folder, model):
    """Write a random model with a tokenizer of eleven words."""
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(SPECIAL + WORDS)}, "[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(folder)
    model.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Folder of each of MODELS."""
    torch.manual_seed(0)
    return {name: save(tmp_path_factory.mktemp(name), build()) for name, build in MODELS.items()}


def opened(folder):
    """Return a session that opened a folder."""
    session = Session(ModelCatalog(), device="cpu")
    assert session.catalog.take(session, folder) == folder
    return session


def unpack(packed, shape):
    """Return weights as a board reads them."""
    return np.frombuffer(base64.b64decode(packed), "<u2").reshape(shape) / 65535


def show(session, folder, text=TEXT, target=""):
    """Return the updates for an input."""
    return explore.show_input(session, {"checkpoint": folder, "text": text, "target": target})


def shown(session, folder, text=TEXT, target=""):
    """Return the value of the lens for an input, and the origin line."""
    updates = show(session, folder, text, target)
    assert (updates["error"], updates["target_error"]) == ("", "")
    return json.loads(updates["board"]), updates["origin"]


def ask(handler, session, **event):
    """Return what the lens is told of an event about its newest input."""
    event = SimpleNamespace(**{"id": session.state(ExploreState).id, **event})
    return json.loads(handler(session, event)["board"])


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("bert", ["encoder"]),
        ("classifier", ["encoder"]),
        ("gpt2", ["decoder"]),
        ("t5", ["cross", "encoder", "decoder"]),
        ("bart", ["cross", "encoder", "decoder"]),
    ],
)
def test_models_with_native_classes_show_their_maps_and_attend_afterwards_as_before(saved, name, kinds):
    session = opened(saved[name])
    with session.catalog.open(session, saved[name]) as found:
        before = found.model.config._attn_implementation
    value, origin = shown(session, saved[name])
    assert list(value["kinds"]) == kinds
    assert saved[name] in origin
    assert type(found.model).__name__ in origin
    assert found.model.config._attn_implementation == before
    for kind in value["kinds"].values():
        sums = unpack(kind["maps"], kind["shape"]).sum(-1)
        assert np.abs(sums - 1).max() < 1e-3
    assert value["kinds"][kinds[-1 if name == "gpt2" else 0]]["cols"][1:3] == ["the", "bank"]


def test_a_model_without_an_answer_is_not_asked_and_one_with_classes_is(saved):
    for name, words in (("bert", "so there is no answer"), ("classifier", "")):
        session = opened(saved[name])
        shown(session, saved[name])
        *_, last = ask_model(session, AblationQuestion("head", kind="encoder"))
        value = json.loads(last["checks"])
        assert words in value["error"]
        assert (value["answer"] is None) == bool(words)
        assert value["can_count"] is False
        assert value["heads"] == {"encoder": [2, 2]}
        assert value["measured"]["roles"]


def test_what_cannot_be_opened_is_said_under_the_field_and_changes_nothing(saved, tmp_path, monkeypatch):
    session = Session(ModelCatalog(), device="cpu")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    for name, words in (
        ("", "Write a folder, or a Hub id"),
        (str(tmp_path), "pickle"),
        (str(tmp_path / "missing"), "no folder"),
    ):
        updates = explore.open_model(session, {"other": name})
        assert words in updates["other_error"]
        assert list(updates) == ["other_error"]
    assert session.catalog.choices(session) == []
    monkeypatch.setenv("SPACE_ID", "someone/lens")
    updates = explore.open_model(session, {"other": saved["bert"]})
    assert list(updates) == ["other_error"]
    assert updates["other_error"]


def test_what_a_visitor_opened_is_offered_to_nobody_else(saved):
    session = opened(saved["bert"])
    updates = explore.open_model(session, {"other": saved["bert"]})
    assert (updates["checkpoint"]["value"], updates["other_error"]) == (saved["bert"], "")
    assert model_input.choose_checkpoint(session, saved["bert"], TEXT)["text"] == TEXT, "the input stays"
    other, catalog = Session(device="cpu"), session.catalog
    assert catalog.choices(other) == []
    with pytest.raises(ValueError, match="train one"), catalog.open(other, saved["bert"]):
        pass


# ---------------------------------------------------------------- long inputs


@pytest.fixture
def few(monkeypatch):
    """Send next to nothing at once, and keep windows of 64 tokens."""
    monkeypatch.setattr(looking, "SENT_WEIGHTS", 100)
    monkeypatch.setattr(looking, "KEPT_BYTES", 2 * 4 * 64**2 + 4096)


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5", "bart"])
def test_a_window_of_long_maps_holds_the_models_own_weights(saved, name):
    session = opened(saved[name])
    source = torch.randint(4, 11, (1, 30), generator=torch.Generator().manual_seed(0))
    target = None if name == "bert" else source[:, :9]
    with session.catalog.open(session, saved[name]) as found:
        whole = attention_maps(found.model, source, target)
        named, long = long_inputs.read_long_maps(
            found.model, source, target, window=8, start=(3, 100), small=10
        )
        sizes = count_map_weights(found.model.config, 30, 0 if target is None else 9)
    assert named.source_tokens == whole.source_tokens
    assert (named.target_tokens, named.decoder_tokens) == (whole.target_tokens, whole.decoder_tokens)
    for kind, part in long.items():
        weights = getattr(whole, kind)
        assert tuple(weights.shape) == sizes[kind]
        (row, column), (rows, columns) = part.start, part.size
        assert (row, column) == (min(3, rows - 8), columns - 8)
        wanted = weights[1, 0, row : row + 8, column : column + 8]
        torch.testing.assert_close(part.head(1, 0), wanted, atol=1e-5, rtol=0)
        mean = weights[1, :, row : row + 8, column : column + 8].mean(0)
        torch.testing.assert_close(part.head(1, None), mean, atol=1e-5, rtol=0)
        assert part.small.shape[-1] <= 10
        top = part.small.float().amax((-2, -1)) / 65535
        torch.testing.assert_close(top, weights.amax((-2, -1)), atol=1e-5, rtol=0)


def test_of_a_long_input_one_head_is_sent_and_another_is_fetched(saved, monkeypatch):
    monkeypatch.setattr(looking, "SENT_WEIGHTS", 100)
    session = opened(saved["bert"])
    value, _ = shown(session, saved["bert"])
    state = session.state(ExploreState)
    kind = value["kinds"]["encoder"]
    assert "maps" not in kind
    assert "window" not in value
    assert list(kind["whole"]) == ["1.0"]
    with session.catalog.open(session, saved["bert"]) as found:
        weights = attention_maps(found.model, torch.tensor([state.read])).encoder
    for head, at, wanted in ((1, "0.1", weights[0, 1]), (None, "0.mean", weights[0].mean(0))):
        added = ask(explore.send_head, session, kind="encoder", layer=0, head=head)["add"]
        assert added["at"] == at
        assert np.abs(unpack(added["map"], [7, 7]) - wanted.numpy()).max() < 1e-4
    late = SimpleNamespace(id=state.id - 1, kind="encoder", layer=0, head=0)
    assert explore.send_head(session, late) == {}, "it comes late"
    gone = SimpleNamespace(id=state.id, kind="cross", layer=0, head=0)
    assert explore.send_head(session, gone) == {}, "there is no such head"


def test_too_long_an_input_is_shown_by_windows_and_said_so_before(saved, few):
    session = opened(saved["t5"])
    text = " ".join(WORDS * 12)
    value, _ = shown(session, saved["t5"], text=text, target="tree")
    kind = value["kinds"]["encoder"]
    assert (kind["of"], kind["from"], kind["shape"]) == ([86, 86], [0, 0], [2, 2, 64, 64])
    assert value["window"]["size"] == 64
    assert "86 tokens would need" in value["window"]["why"]
    assert "shows 64 at a time" in value["window"]["why"]
    kept = {"kind": "encoder", "layer": 1, "head": 1, "query": 80, "key": 70}
    explore.keep_pick(session, SimpleNamespace(**kept))
    moved = ask(explore.move_window, session, row=64, column=0, sent_at=1.0)
    assert moved["id"] == value["id"]
    assert moved["kinds"]["encoder"]["from"] == [22, 0]
    assert len(moved["kinds"]["encoder"]["rows"]) == 64
    assert list(moved["kinds"]["encoder"]["whole"]) == ["1.1"]


def test_more_than_a_layer_can_hold_or_a_model_reads_is_refused_before_it_is_read(saved):
    for name, length, words in (("t5", 9000, "for each layer"), ("bert", 65, "reads 1 to 64")):
        session = opened(saved[name])
        assert words in show(session, saved[name], " ".join(["tree"] * length))["error"]


def test_a_model_without_attention_is_refused_when_it_is_opened(tmp_path):
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "state_size": 4}
    folder = save(tmp_path / "mamba", MambaForCausalLM(MambaConfig(**SIZES, **sizes)))
    catalog, session = ModelCatalog(), Session(device="cpu")
    with pytest.raises(ValueError, match="MambaForCausalLM gives no attention maps: it has no attention"):
        catalog.take(session, folder)
    assert catalog.choices(session) == []


# ---------------------------------------------------------------- query, key and value


def test_every_head_s_queries_and_keys_come_from_one_pass_and_of_a_long_input_each_from_its_own(saved, few):
    session = opened(saved["bert"])
    with session.catalog.open(session, saved["bert"]) as found:
        passes = []
        hook = found.model.register_forward_hook(lambda *_: passes.append(1))
    for text, most, wanted in ((TEXT, 10**6, [1, 1, 1]), (" ".join(WORDS * 8), 100, [1, 1, 2])):
        looking.SENT_WEIGHTS = most
        shown(session, saved["bert"], text=text)
        passes.clear()
        counted = []
        for head, key in ((0, 0), (0, 1), (1, 0)):
            ask(explore.unfold_cell, session, kind="encoder", layer=1, head=head, query=2, key=key)
            counted.append(len(passes))
        assert counted == wanted
    hook.remove()
    gone = ask(explore.unfold_cell, session, kind="cross", layer=0, head=0, query=0, key=0)["cell"]
    assert "kind='cross' is none of this model's" in gone["why"]


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5", "bart"])
def test_query_key_and_value_of_an_outsider_s_cell_give_the_weight_that_is_shown(saved, name):
    session = opened(saved[name])
    value, _ = shown(session, saved[name], target="the cat sat" if name in ("t5", "bart") else "")
    for kind, of in value["kinds"].items():
        cell = ask(explore.unfold_cell, session, kind=kind, layer=1, head=1, query=2, key=1)["cell"]
        assert cell["weight"] == pytest.approx(unpack(of["maps"], of["shape"])[1, 1, 2, 1], abs=1e-4)
        assert cell["score"] == pytest.approx(sum(q * k for q, k in zip(cell["q"], cell["k"], strict=True)))
        assert len(cell["v"]) == 8
