"""Labels are true to the text: no byte is taken for a letter, and nothing that cannot be seen hides."""

import pytest

from hf_attn.interpret.token_labels import name_patches, name_tokens
from tests.support.native_models import byte_tokenizer, piece_tokenizer, wordpiece_tokenizer


def labels(tokenizer, text):
    return name_tokens(tokenizer(text)["input_ids"], tokenizer)


def spelled(names):
    """Return the text that labels stand for: bytes joined, signs for spaces read as spaces."""
    content = b"".join(
        bytes.fromhex(name[3:5]) if name.startswith("<0x") else name.encode() for name in names
    )
    return content.decode().replace("␣", " ").replace("⏎", "\n")


@pytest.mark.parametrize("text", ["the cat 猫は座った", "naïve café", "👩‍🚀 sat", "שלום\nthe", "e\u0301"])
def test_cjk_and_byte_tokens_are_characters_or_named_bytes_and_join_to_the_text(text):
    names = labels(byte_tokenizer(), text)
    assert not any(sign in name for name in names for sign in "Ġġãçðł"), names
    assert spelled(names) == text


def test_special_tokens_are_named_as_they_are_also_where_their_signs_are_bytes():
    tokenizer = byte_tokenizer()
    assert labels(tokenizer, "<s>the</s>") == ("<s>", "the", "</s>")


def test_wordpieces_keep_their_signs_and_sentencepiece_shows_its_spaces():
    assert labels(wordpiece_tokenizer(), "the cat chased") == ("[CLS]", "the", "cat", "chase", "##d", "[SEP]")
    names = labels(piece_tokenizer(), "the cat 猫")
    assert names[:2] == ("␣the", "␣cat")
    assert names[-4:] == ("<0xE7>", "<0x8C>", "<0xAB>", "</s>")


def test_what_has_no_name_keeps_its_id():
    tokenizer = wordpiece_tokenizer()
    assert name_tokens([8, 900], tokenizer) == ("the", "<id 900>")
    assert name_tokens([8, 900]) == ("8", "900")


def test_patches_are_named_by_row_and_column_behind_cls_and_registers():
    assert name_patches(5, (16, 16), 8)[:2] == ("CLS", "row 1, col 1")
    assert name_patches(7, (16, 16), 8)[:4] == ("CLS", "token 2", "token 3", "row 1, col 1")
    assert name_patches(4, (16, 16), 8)[0] == "row 1, col 1"
    assert name_patches(2, (16, 16), 8) == ("token 1", "token 2")
