"""A tokenizer from anywhere is opened if its parts are known; what fills memory or never ends is refused."""

import json
import re
import time

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from hf_attn.checkpoints.save_load import list_checkpoints
from hf_attn.checkpoints.tokenizer_parts import PATTERNS, check_tokenizer
from hf_attn.checkpoints.validate import open_tokenizer
from hf_attn.tasks import TASKS, build_task
from hf_attn.tasks.tokenizers.from_vocabulary import build_tokenizer
from hf_attn.tasks.tokenizers.trained import KINDS, train_tokenizer
from tests.hard.hostile_set import BOMBS, BUNDLED, charsmap
from tests.support.native_models import byte_tokenizer, piece_tokenizer, wordpiece_tokenizer

TEXT = "Hello 12 cats, it's fine.\n"
READ_FROM_DISK = {"topics", "phrases", "csv", "pairs", "text", "pronunciation"}  # their kinds are in KINDS
LLAMA_3 = next(one for one in PATTERNS if r"\p{N}{1,3}| ?[^\s" in one and one.startswith("(?i"))
QWEN = LLAMA_3.replace(r"\p{N}{1,3}", r"\p{N}")


def bytes_after(*splits):
    """As GPT-2's and its successors': a text is split by patterns, then each sign is a byte."""
    tokenizer = byte_tokenizer().backend_tokenizer
    by = [pre_tokenizers.Split(Regex(one), "isolated") for one in splits]
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not splits)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*by, last])
    return tokenizer


def bert():
    tokenizer = wordpiece_tokenizer().backend_tokenizer
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def roberta():
    tokenizer = bytes_after()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0), True, False)
    return tokenizer


def unigram(*normalizer_parts):
    """As T5's and XLM-RoBERTa's, converted from SentencePiece."""
    pieces = [
        ("<unk>", 0.0),
        ("<s>", 0.0),
        ("</s>", 0.0),
        ("▁", -2.0),
        ("the", -3.5),
        *((c, -4.0) for c in "aelot"),
    ]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0))
    tokenizer.normalizer = normalizers.Sequence(list(normalizer_parts))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)]
    )
    return tokenizer


def llama():
    """As Llama's first two and Mistral's: spaces become ▁ by the normalizer."""
    tokenizer = piece_tokenizer().backend_tokenizer
    tokenizer.pre_tokenizer = None
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


def gemma():
    tokenizer = llama()
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    return tokenizer


def qwen():
    tokenizer = bytes_after(QWEN)
    tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def clip():
    tokenizer = bytes_after(next(one for one in PATTERNS if one.startswith("'s") and "[\\p{N}]" in one))
    spaces = normalizers.Replace(Regex(r"\s+"), " ")
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), spaces, normalizers.Lowercase()])
    return tokenizer


def albert():
    quotes = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    signs = [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
    return unigram(*quotes, *signs, normalizers.Replace(Regex(" {2,}"), " "))


OUTSIDERS = {
    "BERT and DistilBERT": bert,
    "GPT-2": bytes_after,
    "RoBERTa": roberta,
    "T5 and XLM-RoBERTa": lambda: unigram(normalizers.Replace(Regex(" {2,}"), "▁")),
    "ALBERT": albert,
    "Llama and Mistral": llama,
    "Gemma": gemma,
    "Llama 3": lambda: bytes_after(LLAMA_3),
    "Qwen": qwen,
    "CLIP": clip,
    "BLOOM": lambda: bytes_after(next(one for one in PATTERNS if "…" in one and one.startswith(" ?"))),
    "StarCoder": lambda: bytes_after(r"\p{N}"),
}


@pytest.mark.parametrize("name", OUTSIDERS)
def test_known_tokenizers_open_and_read_as_before(tmp_path, name):
    made = PreTrainedTokenizerFast(tokenizer_object=OUTSIDERS[name](), eos_token="</s>", unk_token="<unk>")
    made.save_pretrained(tmp_path)
    for opens in (PreTrainedTokenizerFast, AutoTokenizer):
        assert open_tokenizer(tmp_path, opens)(TEXT)["input_ids"] == made(TEXT)["input_ids"]


def check_built_one(tokenizer):
    check_tokenizer("tokenizer.json", json.loads(tokenizer.backend_tokenizer.to_str()))


def test_the_tokenizer_of_every_task_is_known():
    for name in TASKS.keys() - READ_FROM_DISK:
        check_built_one(build_tokenizer(build_task(name)))
    check_built_one(build_tokenizer(build_task("addition", digits=9)))
    for kind in KINDS:
        for lowercase in (False, True):
            check_built_one(train_tokenizer([TEXT] * 3, kind, lowercase=lowercase))
    bundled = list_checkpoints(BUNDLED)
    assert bundled
    for folder in bundled:
        check_tokenizer(folder, json.loads((folder / "tokenizer.json").read_text("utf-8")))


def test_the_character_map_of_sentencepiece_is_followed_and_what_it_writes_is_counted():
    empty = {**json.loads(bert().to_str()), "normalizer": charsmap([0] * 256, b"\0")}
    check_tokenizer("tokenizer.json", empty)
    with pytest.raises(ValueError, match="up to 99 times as long; 64 is the most"):
        check_tokenizer("tokenizer.json", {**empty, "normalizer": charsmap([0] * 256, b"x" * 99 + b"\0")})


@pytest.mark.parametrize("way", BOMBS)
def test_what_fills_memory_or_never_ends_is_refused_before_it_is_built(tmp_path, way):
    wordpiece_tokenizer().save_pretrained(tmp_path)
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text())
    changes = BOMBS[way](content) if callable(BOMBS[way]) else BOMBS[way]
    path.write_text(json.dumps({**content, **changes}))
    started = time.process_time()
    with pytest.raises(ValueError, match=r"tokenizer\.json ") as refused:
        open_tokenizer(tmp_path, PreTrainedTokenizerFast)
    assert time.process_time() - started < 2
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 700


@pytest.mark.parametrize(("changes", "words"), [
    ({"auto_map": {"AutoTokenizer": ["evil.T", None]}}, "names code of its own: auto_map"),
    ({"init_inputs": ["/etc/passwd"]}, "names files of its own: init_inputs"),
    ({"vocab_file": "/etc/passwd"}, "names files of its own: vocab_file"),
    ({"model_max_length": -5}, "model_max_length=-5; it is a number from 1"),
    ({"additional_special_tokens": [f"a{i}" for i in range(5_000)]}, "additional_special_tokens of 5,001"),
    ({"added_tokens_decoder": {str(i): {} for i in range(200_000)}}, "added_tokens_decoder of 400,001"),
    ({"pad_token": {"content": "x" * 1_001}}, "pad_token with 1,001 characters"),
    ({"chat_template": "x" * 5_000_000}, "5,000,000 at most|5 MB at most"),
], ids=lambda given: str(given)[:40])  # fmt: skip
def test_settings_that_name_code_or_files_or_too_much_are_refused(tmp_path, changes, words):
    byte_tokenizer().save_pretrained(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(ValueError, match=words):
        open_tokenizer(tmp_path, AutoTokenizer)


def test_tokens_beside_the_tokenizer_are_few_and_short(tmp_path):
    byte_tokenizer().save_pretrained(tmp_path)
    (tmp_path / "added_tokens.json").write_text(json.dumps({"x" * 1_001: 9}))
    with pytest.raises(ValueError, match=r"added_tokens\.json adds a token of 1,001 characters"):
        open_tokenizer(tmp_path, AutoTokenizer)
    (tmp_path / "added_tokens.json").unlink()
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"pad_token": "x" * 1_001}))
    with pytest.raises(ValueError, match=r"special_tokens_map\.json has pad_token with 1,001 characters"):
        open_tokenizer(tmp_path, AutoTokenizer)


@pytest.mark.parametrize(("wrong", "said"), [
    ({"added_tokens": [{"id": 0}]}, "tokenizer.json lacks 'content'. "),
    ({"model": []}, "tokenizer.json has a part of another kind than tokenizers write there. "),
])  # fmt: skip
def test_what_is_malformed_is_told_without_python_s_words(wrong, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        check_tokenizer("tokenizer.json", {**json.loads(bert().to_str()), **wrong})
