"""Maps of what people hold: a tokenizer's output, a dict, ids, a Batch; of one row, without its padding."""

import numpy as np
import pytest
import torch
from transformers import BatchEncoding, BatchFeature

from hf_attn.interpret.attention_maps import KINDS, attention_maps
from hf_attn.interpret.plain_attention import eager_attention
from hf_attn.interpret.read_head import read_head
from hf_attn.tasks.base import IGNORED, Batch
from hf_attn.viz.attention_view import show_attention
from tests.support.checks import (
    assert_close,
    build_classifier,
    build_decoder,
    build_encoder,
    build_seq2seq,
    pad,
    random_rows,
)
from tests.support.native_models import NATIVE, build_native, build_vit
from tests.support.recurrent_models import build_recurrent

BUILDERS = {
    "ours, encoder": build_encoder,
    "ours, classifier": build_classifier,
    "ours, encoder-decoder": build_seq2seq,
    "ours, decoder-only": build_decoder,
    "ours, recurrent": lambda: build_recurrent(score_function="additive", bidirectional=True),
    **{name: lambda name=name: build_native(name, vocab_size=400)[0] for name in NATIVE},
}
READERS = ("ours, encoder", "ours, classifier", "bert")
ROWS = random_rows(7, 4, 1, 6)
TARGETS = random_rows(3, 5, 2, 1, seed=9)
TEXTS = ["the cat sat on the mat", "the dog"]


def assert_same_maps(maps, expected):
    """All of them: weights, ids and labels."""
    assert maps.kinds == expected.kinds
    for kind in maps.kinds:
        assert torch.equal(getattr(maps, kind), getattr(expected, kind)), kind
    for side in ("source", "target", "decoder"):
        assert getattr(maps, f"{side}_ids") == getattr(expected, f"{side}_ids")
        assert getattr(maps, f"{side}_tokens") == getattr(expected, f"{side}_tokens")
    assert maps.written_from == expected.written_from


# ---------------------------------------------------------------- padding


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", BUILDERS)
def test_a_padded_row_s_maps_are_those_of_the_row_alone(name, side):
    model, (ids, mask) = BUILDERS[name](), pad(ROWS, side)
    targets = None if name in READERS else pad(TARGETS, "right", IGNORED)[0]
    inputs = {"input_ids": ids, "attention_mask": mask}
    for row, alone in enumerate(ROWS):
        target = None if targets is None else TARGETS[row]
        maps = attention_maps(model, inputs, targets, row=row)
        assert_same_maps(maps, attention_maps(model, alone, target))
        assert maps.source_ids == tuple(alone.tolist())
        sizes = {"encoder": (len(alone), len(alone)), "cross": (len(TARGETS[row]), len(alone))}
        for kind in maps.kinds:
            assert tuple(getattr(maps, kind).shape[2:]) == sizes.get(kind, tuple(map(len, maps.sides(kind))))


@pytest.mark.parametrize("name", ["ours, decoder-only", "ours, encoder-decoder", "ours, recurrent", "gpt2"])
def test_what_a_model_writes_after_a_padded_row_is_what_it_writes_after_the_row(name):
    model, (ids, mask) = BUILDERS[name](), pad(ROWS, "left")
    inputs = {"input_ids": ids, "attention_mask": mask}
    for row in (1, 3):
        maps = attention_maps(model, inputs, row=row, max_new_tokens=4)
        assert_same_maps(maps, attention_maps(model, ROWS[row], max_new_tokens=4))
        assert len(maps.answer_ids) > 0


# ---------------------------------------------------------------- what is accepted


@pytest.mark.parametrize("name", NATIVE)
def test_a_tokenizer_s_output_is_read_as_the_text_is(name):
    model, tokenizer = build_native(name)
    target = None if name == "bert" else "the mat"
    for text in TEXTS:
        expected = attention_maps(model, text, target, tokenizer=tokenizer)
        for inputs in (
            tokenizer(text, return_tensors="pt"),
            tokenizer(text),
            dict(tokenizer(text, return_tensors="np")),
            {"input_ids": tokenizer(text)["input_ids"]},
            tokenizer(text)["input_ids"],
            np.array([tokenizer(text)["input_ids"]]),
        ):
            assert_same_maps(attention_maps(model, inputs, target, tokenizer=tokenizer), expected)
    if target is not None:
        assert_same_maps(attention_maps(model, text, tokenizer(target), tokenizer=tokenizer), expected)


def test_half_a_pair_of_surrogates_is_read_as_what_no_text_has():
    model, tokenizer = build_native("bert")
    odd, plain = (attention_maps(model, f"the {c} cat", tokenizer=tokenizer) for c in ("\ud800", "\ufffd"))
    assert_same_maps(odd, plain)


def test_several_texts_are_chosen_from_by_row_padded_or_not():
    model, tokenizer = build_native("t5")
    for inputs in (tokenizer(TEXTS, padding=True, return_tensors="pt"), tokenizer(TEXTS)):
        assert isinstance(inputs, BatchEncoding)
        for row, text in enumerate(TEXTS):
            expected = attention_maps(model, text, "the mat", tokenizer=tokenizer)
            maps = attention_maps(model, inputs, "the mat", tokenizer=tokenizer, row=row)
            assert_same_maps(maps, expected)


def test_a_view_and_a_head_take_what_maps_take():
    model, tokenizer = build_native("bart")
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    view = show_attention(model, tokenizer, inputs, "the mat", row=1)
    assert_same_maps(view.maps, attention_maps(model, TEXTS[1], "the mat", tokenizer=tokenizer))
    head = read_head(model, inputs, "the mat", tokenizer=tokenizer, row=1, kind="cross", layer=1, head=2)
    assert_close(head.weights.float(), view.maps.cross[1, 2])


def test_a_pair_of_texts_is_read_with_its_token_types():
    model, _ = build_native("bert")
    ids, types = torch.tensor([[4, 8, 9, 5, 8, 11, 5, 2]]), torch.tensor([[0, 0, 0, 0, 1, 1, 1, 0]])
    mask = torch.tensor([[1] * 7 + [0]])
    maps = attention_maps(model, {"input_ids": ids, "token_type_ids": types, "attention_mask": mask})
    with eager_attention(model), torch.no_grad():
        own = model(input_ids=ids[:, :7], token_type_ids=types[:, :7], output_attentions=True).attentions
    assert_close(maps.encoder, torch.cat(own))
    assert (maps.encoder - attention_maps(model, ids[:, :7]).encoder).abs().max() > 1e-3


def test_labels_are_the_target_where_the_model_would_take_them_for_it():
    labels = torch.tensor([[5, 6, 2, IGNORED]])
    model, ids = build_seq2seq(), ROWS[0][None]
    expected = attention_maps(model, ids, labels[:, :3])
    assert_same_maps(attention_maps(model, {"input_ids": ids, "labels": labels}), expected)
    assert_same_maps(attention_maps(model, Batch(ids, labels)), expected)
    decoder = build_decoder()  # whose ids hold what is written
    joined = Batch(ids, labels).joined()
    read = attention_maps(decoder, joined)
    assert_same_maps(read, attention_maps(decoder, joined["input_ids"][:, :-1], ""))
    written = attention_maps(decoder, Batch(ids, labels))
    assert written.answer_ids == (5, 6, 2)
    # its last token is read, too, where all are of the input
    assert_close(written.decoder, read.decoder[..., :-1, :-1])
    reader = build_classifier()
    assert_same_maps(
        attention_maps(reader, {"input_ids": ids, "labels": torch.tensor([1])}), attention_maps(reader, ids)
    )


def test_ids_and_labels_are_told_apart():
    model, tokenizer = build_native("gpt2")
    maps = attention_maps(model, tokenizer(TEXTS[0]), tokenizer(" on"))
    source, written = tokenizer(TEXTS[0])["input_ids"], tokenizer(" on")["input_ids"]
    assert (maps.source_ids, maps.answer_ids) == (tuple(source), tuple(written))
    assert maps.target_ids == tuple((source + written)[1:])
    assert maps.decoder_ids == tuple((source + written)[:-1])
    assert maps.source_tokens == tuple(map(str, source))
    named = maps.relabel(tokenizer.convert_ids_to_tokens)
    assert named.decoder_tokens == tuple(tokenizer.convert_ids_to_tokens((source + written)[:-1]))
    assert named.decoder_ids == maps.decoder_ids
    assert named.answering.rows == named.target_tokens[len(source) - 1 :]


def test_an_image_processor_s_output_is_read_and_chosen_from_by_row():
    model = build_vit()
    pixels = torch.rand(2, 3, 24, 32, generator=torch.Generator().manual_seed(0))
    maps = attention_maps(model, BatchFeature({"pixel_values": pixels}), row=1)
    assert torch.equal(maps.encoder, attention_maps(model, pixels[1:]).encoder)
    assert maps.source_ids == ()
    with pytest.raises(ValueError, match="inputs has pixels and no pixel_values"):
        attention_maps(model, {"pixels": pixels})
    with pytest.raises(ValueError, match="row=2 is not there: the input holds 2"):
        attention_maps(model, pixels, row=2)


# ---------------------------------------------------------------- what is refused

IDS = [[5, 6, 7]]
MASKS = {
    "attention_mask has 2 numbers for 3 ids: give one for each": [[1, 1]],
    "attention_mask is 0 everywhere: there is no token to read": [[0, 0, 0]],
    "attention_mask is 0 between tokens; padding stands before or behind": [[1, 0, 1]],
    r"attention_mask holds \[1, 2, 1\]; give 1 for a token": [[1, 2, 1]],
    r"The attention_mask has shape \[1, 3, 3\]": torch.ones(1, 3, 3),
    "attention_mask has 2 rows for 1 of ids: give one for each": [[1, 1, 1]] * 2,
}
REFUSED = {
    **{sentence: {"input_ids": IDS, "attention_mask": mask} for sentence, mask in MASKS.items()},
    "The input has attention_mask and no input_ids: give what a tokenizer": {"attention_mask": [[1, 1]]},
    "The input has nothing and no input_ids": {},
    "inputs has inputs_embeds, which no map": {"input_ids": IDS, "inputs_embeds": torch.ones(1, 3, 16)},
    "inputs has decoder_input_ids, .* What is written is": {"input_ids": IDS, "decoder_input_ids": IDS},
    "The input is a str: give a text with its tokenizer": {"input_ids": "the cat"},
    "The input is a list: give a text with its tokenizer": ["the cat", "the dog"],
    "Text was given without a tokenizer": "the cat",
    "The input holds 2 rows; give one, or choose one, for example row=0": [[5, 6], [7, 8, 9]],
    "There is no token in what was given": torch.empty(1, 0, dtype=torch.long),
    "The input holds no rows: give at least one": torch.empty(0, 3, dtype=torch.long),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_is_no_input_is_refused_in_a_sentence(sentence):
    with pytest.raises(ValueError, match=sentence):
        attention_maps(build_seq2seq(), REFUSED[sentence], [5])


@pytest.mark.parametrize("row", [2, -1, 0.0, True])
def test_a_row_that_is_not_there_is_refused(row):
    with pytest.raises(ValueError, match=f"row={row} is not there: the input holds 2, from row 0 on"):
        attention_maps(build_seq2seq(), [[5, 6], [7, 8]], [5], row=row)


def test_one_target_serves_any_row_and_a_strategy_that_is_none_is_refused_even_unused():
    model, rows = build_seq2seq(), {"input_ids": [[5, 6], [7, 8]], "attention_mask": [[1, 1], [1, 1]]}
    target = {"input_ids": [[5, 9]], "attention_mask": [[1, 1]]}
    second = attention_maps(model, rows, target, row=1)
    assert torch.equal(second.cross, attention_maps(model, [7, 8], [5, 9]).cross)
    with pytest.raises(ValueError, match="strategy='xx' is not known"):
        attention_maps(model, [7, 8], [5], strategy="xx")


def test_targets_and_token_types_that_do_not_fit_are_refused():
    model = build_seq2seq()
    with pytest.raises(ValueError, match="The target holds 2 rows; give one"):
        attention_maps(model, IDS, [[5], [6]])
    with pytest.raises(ValueError, match="row=1 is not there: the input holds 1"):
        attention_maps(model, IDS, [[5], [6]], row=1)
    with pytest.raises(ValueError, match="The target holds nothing but -100"):
        attention_maps(model, IDS, [IGNORED, IGNORED])
    gpt2, _ = build_native("gpt2")
    with pytest.raises(ValueError, match="inputs has token_type_ids, and what is written has none"):
        attention_maps(gpt2, {"input_ids": IDS, "token_type_ids": [[0, 0, 1]]})
    assert attention_maps(gpt2, {"input_ids": IDS, "token_type_ids": [[0, 0, 0]]}, [5]).kinds == KINDS[1:2]
