"""A checkpoint that somebody has tampered with is one sentence, before anything is run or built."""

import json
import shutil

import pytest
from safetensors.torch import load_file, save_file

from hf_attn.architectures.families import FAMILIES
from hf_attn.checkpoints.save_load import load_checkpoint, save_checkpoint
from hf_attn.checkpoints.validate import LARGEST_HEADER, LARGEST_JSON
from hf_attn.models.configuration_attn_encoder import AttnEncoderConfig
from hf_attn.models.modeling_attn_encoder import AttnEncoderForSequenceClassification
from hf_attn.tasks import build_task


class Deleted:
    """Stands for a key that is taken out; its name is the same in every process."""

    def __repr__(self):
        return "deleted"


DELETED = Deleted()


@pytest.fixture(scope="module")
def saved_classifier(tmp_path_factory):
    """A classifier of random weights, saved once."""
    task = build_task("copy", max_length=5)
    config = AttnEncoderConfig(vocab_size=len(task.vocabulary), hidden_size=16, num_labels=3)
    folder = tmp_path_factory.mktemp("saved") / "classifier"
    return save_checkpoint(folder, AttnEncoderForSequenceClassification(config), task, {})


@pytest.fixture
def classifier(saved_classifier, tmp_path):
    """A copy of it that a test may break."""
    return shutil.copytree(saved_classifier, tmp_path / "classifier")


def edit(path, **changes):
    content = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not DELETED}))


def refusal(folder):
    """The sentence."""
    with pytest.raises(ValueError, match=folder.name) as refused:
        load_checkpoint(folder)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 700
    return str(refused.value)


@pytest.mark.parametrize(("changes", "words"), [
    ({"model_type": ["attn_seq2seq"]}, "model_type=['attn_seq2seq'], which hf_attn does not know"),
    ({"model_type": DELETED}, "model_type=None"),
    ({"model_type": "bart"}, ", ".join(FAMILIES)),
    ({"position_type": ["rotary"]}, "position_type"),
    ({"is_encoder_decoder": False}, "is_encoder_decoder=False; a attn_seq2seq has True"),
    ({"dtype": "foo"}, "dtype='foo'"),
    ({"dtype": []}, "dtype=[]"),
    ({"pad_token_id": 13}, "pad_token_id=13; ids are whole numbers from 0 to 12"),
    ({"pad_token_id": 3}, "pad_token_id=0, but config.json has 3"),
    ({"eos_token_id": []}, "eos_token_id=[]"),
    ({"bos_token_id": -1}, "bos_token_id=-1"),
    ({"decoder_start_token_id": 10**30}, "more than any model has"),
    ({"decoder_start_token_id": None}, "no decoder_start_token_id"),
    ({"hidden_size": 10**12}, "more than any model has"),
    ({"hidden_size": 2 * 10**9}, "hidden_size=2000000000 must be a whole number from 1 to 16,384"),
    ({"encoder_layers": 1000}, "too few for the 1000 layers"),
    ({"dropout": "much"}, "dropout"),
    ({"intermediate_size": 65}, "up_proj"),
    ({"tie_word_embeddings": True}, "ties to another"),
    ({"architectures": "AttnSeq2SeqForConditionalGeneration"}, "list of class names"),
    ({"num_labels": 10**12}, "fields that hf_attn does not know: num_labels"),
    ({"quantization_config": {"quant_method": "awq"}}, "quantization_config"),
    ({"_attn_implementation": "somebody/kernel"}, "_attn_implementation"),
    ({"return_dict": False}, "return_dict=False; leave it out"),
    ({"output_attentions": True}, "output_attentions=True; leave it out"),
    ({"auto_map": {"AutoConfig": "evil.Config"}}, "names code that is not hf_attn's"),
    ({"auto_map": "evil.Config"}, "names code that is not hf_attn's"),
], ids=str)  # fmt: skip
def test_a_configuration_that_cannot_be_true_is_refused(folder, changes, words):
    edit(folder / "config.json", **changes)
    assert words in refusal(folder)


@pytest.mark.parametrize(("changes", "words"), [
    ({"id2label": {"0": "a", "1": "b"}, "label2id": DELETED}, "has shape [3, 16]"),
    ({"id2label": {"0": "a", "1": "b", "5": "c"}}, "id2label"),
    ({"id2label": ["a", "b", "c"]}, "id2label"),
    ({"id2label": {}}, "id2label"),
    ({"label2id": {"LABEL_0": 2, "LABEL_1": 1, "LABEL_2": 0}}, "label2id"),
    ({"pooling": "last"}, "pooling"),
    ({"pooling": ["mean"]}, "pooling"),
    ({"problem_type": "guessing"}, "problem_type='guessing'"),
], ids=str)  # fmt: skip
def test_classes_that_do_not_fit_are_refused(classifier, changes, words):
    edit(classifier / "config.json", **changes)
    assert words in refusal(classifier)


@pytest.mark.parametrize(("name", "changes", "words"), [
    ("generation_config.json", {"eos_token_id": 99}, "eos_token_id=99"),
    ("generation_config.json", {"max_new_tokens": 10**12}, "max_new_tokens=1000000000000"),
    ("generation_config.json", {"max_new_tokens": "many"}, "generation_config.json is refused"),
    ("generation_config.json", {"bad_words_ids": [[1] * 10_000]}, "values; 10,000 at most are read"),
    ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["evil.Tokenizer", None]}}, "code of its own"),
    ("tokenizer_config.json", {"pad_token": "</s>"}, "pad_token_id=2, but config.json has 0"),
    ("tokenizer.json", {"model": {"type": "WordLevel"}}, "lacks 'vocab'"),
    ("training.json", {"curve": "steep"}, "curve=steep, which is no list of"),
    ("training.json", {"results": [1]}, "results"),
    ("training.json", {"task": {"name": "pairs", "options": {"path": "/etc/passwd"}}}, "elsewhere on this"),
    ("training.json", {"task": {"name": "copy", "options": 3}}, "task.options=3, which is no object"),
], ids=lambda given: str(given)[:40])  # fmt: skip
def test_other_files_that_cannot_be_true_are_refused(folder, name, changes, words):
    edit(folder / name, **changes)
    assert words in refusal(folder)


@pytest.mark.parametrize(
    "name", [f"{kind}.json" for kind in ("config", "tokenizer_config", "generation_config")]
)
def test_json_that_is_none_or_made_to_exhaust_a_parser_is_refused(folder, name):
    exhausting = ("[" * 100_000, '{"a":' * 100_000, '{"a": 1' + "0" * 10_000 + "}")
    for text in ("{half", "[]", "\x00\x01", *exhausting):
        (folder / name).write_text(text)
        assert name in refusal(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "training.json"])
def test_json_with_two_values_of_a_name_is_refused_since_readers_take_one_or_the_other(folder, name):
    text = (folder / name).read_text().lstrip()
    (folder / name).write_text('{"normalizer": {"type": "Evil"}, "normalizer": null, ' + text[1:])
    assert "it has 'normalizer' twice" in refusal(folder)


def test_a_header_and_json_that_are_too_large_are_not_read(folder):
    path = folder / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert "not a whole safetensors file" in refusal(folder)
    path.write_bytes((LARGEST_HEADER + 1).to_bytes(8, "little") + content[8:])
    assert "its header has 10,000,001 bytes" in refusal(folder)
    with (folder / "config.json").open("r+b") as file:
        file.truncate(LARGEST_JSON + 1)  # a file with a hole: no bytes on the disk
    assert "50,000,001 bytes" in refusal(folder)


def test_both_of_two_tied_tensors_are_refused_and_one_is_not(folder):
    edit(folder / "config.json", tie_word_embeddings=True)
    weights = load_file(folder / "model.safetensors")
    for name in [name for name in weights if name.startswith("lm_head") or "decoder.embed" in name]:
        del weights[name]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert load_checkpoint(folder).model.config.tie_word_embeddings


def test_code_beside_the_weights_is_not_run(folder):
    for path in folder.glob("*.py"):
        path.write_text("raise SystemExit('this code ran')")
    assert load_checkpoint(folder).task.name == "copy"


def test_a_checkpoint_of_a_newer_version_says_what_to_install(folder):
    edit(folder / "training.json", versions={"hf_attn": "12.3"})
    edit(folder / "config.json", flux_capacitor=True)
    assert "flux_capacitor. It was saved by hf_attn 12.3" in refusal(folder)
    edit(folder / "training.json", versions={"hf_attn": ["?"]})
    assert "Take them out if they came from elsewhere." in refusal(folder)
