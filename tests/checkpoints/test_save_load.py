"""The checkpoint folder: what is written, what is refused, and that it is whole or not there at all."""

import json
import shutil

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
)

import hf_attn
from hf_attn.checkpoints.save_load import list_checkpoints, load_checkpoint, save_checkpoint
from hf_attn.evaluation.metrics import evaluate
from hf_attn.tasks import build_task

FILES = {
    "README.md", "config.json", "generation_config.json", "map.png", "model.safetensors", "tokenizer.json",
    "tokenizer_config.json", "training.json",
}  # fmt: skip


def edit_json(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_folder_holds_what_the_hub_wants_and_nothing_else(tiny_checkpoint, tmp_path):
    names = {path.name for path in tiny_checkpoint.iterdir()}
    assert names >= FILES
    assert all(name.endswith(".py") for name in names - FILES)
    assert {path.stat().st_mode & 0o777 for path in tiny_checkpoint.iterdir()} == {0o644}
    with safe_open(tiny_checkpoint / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}
    load_checkpoint(tiny_checkpoint).model.save_pretrained(tmp_path / "plain")
    for folder in (tiny_checkpoint, tmp_path / "plain"):
        assert json.loads((folder / "config.json").read_text())["auto_map"] == {
            "AutoConfig": "configuration_attn_seq2seq.AttnSeq2SeqConfig",
            "AutoModel": "modeling_attn_seq2seq.AttnSeq2SeqModel",
            "AutoModelForSeq2SeqLM": "modeling_attn_seq2seq.AttnSeq2SeqForConditionalGeneration",
        }
        assert (folder / "modeling_attn_seq2seq.py").exists()


def test_the_results_are_those_of_an_evaluation_of_what_was_saved(tiny_checkpoint):
    checkpoint = load_checkpoint(tiny_checkpoint)
    measured = evaluate(checkpoint.model, checkpoint.task)
    results = checkpoint.training["results"]
    assert results["exact_match"] == measured.overall.exact_match
    assert results["interval"] == [measured.overall.interval.low, measured.overall.interval.high]
    assert results["measures"] == measured.overall.measures
    assert {int(size) for size in results["by_size"]} == set(measured.by_size)


def test_what_is_loaded_is_what_was_saved(tiny_checkpoint, tmp_path):
    first = load_checkpoint(tiny_checkpoint)
    assert not first.model.training
    assert first.task == build_task("copy", max_length=5, num_symbols=9)
    save_checkpoint(tmp_path / "again", first.model, first.task, first.training)
    second = load_checkpoint(tmp_path / "again")
    for name, tensor in first.model.state_dict().items():
        assert torch.equal(tensor, second.model.state_dict()[name]), name
    assert second.training == first.training
    assert second.tokenizer("1 2 3")["input_ids"] == first.task.encode("1 2 3")
    with torch.no_grad():
        next(first.model.parameters()).fill_(float("nan"))
    save_checkpoint(tmp_path / "nan", first.model, first.task, {})  # of a diverged run
    with pytest.raises(ValueError, match="no numbers"):
        load_checkpoint(tmp_path / "nan")


@pytest.mark.parametrize(
    "held",
    ["README.md", "sub/data.csv", "a whole checkpoint and notes.txt", "somebody's model and README.md"],
)
def test_a_folder_with_anything_else_in_it_is_refused_and_stays(tiny_checkpoint, tmp_path, held):
    folder, checkpoint = tmp_path / "work", load_checkpoint(tiny_checkpoint)
    if " and " in held:
        shutil.copytree(tiny_checkpoint, folder)
    if held.startswith("somebody"):
        (folder / "training.json").unlink()
    mine = folder / held.rpartition(" ")[2]
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match="name another folder"):
        save_checkpoint(folder, checkpoint.model, checkpoint.task, checkpoint.training)
    assert sorted(tmp_path.rglob("*")) == before
    assert mine.read_text() == "mine"


def test_where_a_link_in_a_replaced_checkpoint_led_stays_as_it_is(tiny_checkpoint, tmp_path):
    folder, checkpoint = tmp_path / "copy", load_checkpoint(tiny_checkpoint)
    shutil.copytree(tiny_checkpoint, folder)
    (tmp_path / "mine.md").write_text("mine")
    (folder / "README.md").unlink()
    (folder / "README.md").symlink_to(tmp_path / "mine.md")
    save_checkpoint(folder, checkpoint.model, checkpoint.task, checkpoint.training)
    assert (tmp_path / "mine.md").read_text() == "mine"
    assert not (folder / "README.md").is_symlink()


def test_auto_classes_load_it_without_trust_after_importing_hf_attn(tiny_checkpoint):
    assert type(AutoConfig.from_pretrained(tiny_checkpoint)) is hf_attn.AttnSeq2SeqConfig
    assert type(AutoModel.from_pretrained(tiny_checkpoint)) is hf_attn.AttnSeq2SeqModel
    model = AutoModelForSeq2SeqLM.from_pretrained(tiny_checkpoint)
    assert type(model) is hf_attn.AttnSeq2SeqForConditionalGeneration
    assert len(AutoTokenizer.from_pretrained(tiny_checkpoint)) == model.config.vocab_size


def test_a_pickle_is_never_read(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match="pickle"):
        load_checkpoint(folder)


def test_a_missing_file_is_named_and_without_a_record_no_task_is_known(folder):
    (folder / "training.json").unlink()
    checkpoint = load_checkpoint(folder)
    assert (checkpoint.task, checkpoint.training) == (None, {})
    with pytest.raises(ValueError, match=r"training\.json"):
        checkpoint.task_named()
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        content = (folder / name).read_bytes()
        (folder / name).unlink()
        with pytest.raises(FileNotFoundError, match=name):
            load_checkpoint(folder)
        (folder / name).write_bytes(content)


def test_architectures_of_another_model_and_missing_and_unknown_tensors_are_named(folder):
    config = (folder / "config.json").read_text()
    edit_json(folder / "config.json", architectures=["BartForConditionalGeneration"])
    with pytest.raises(ValueError, match="BartForConditionalGeneration"):
        load_checkpoint(folder)
    (folder / "config.json").write_text(config)
    weights = load_file(folder / "model.safetensors")
    head = weights.pop("lm_head.weight")
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(ValueError, match=r"lacks the tensor 'lm_head\.weight'"):
        load_checkpoint(folder)
    save_file({**weights, "lm_head.weight": head, "extra": head.clone()}, folder / "model.safetensors")
    with pytest.raises(ValueError, match="'extra'"):
        load_checkpoint(folder)


def test_a_task_that_the_weights_were_not_trained_on_is_refused(folder):
    edit_json(folder / "training.json", task={"name": "copy", "options": {"max_length": 5}})
    with pytest.raises(ValueError, match="vocab_size=13"):
        load_checkpoint(folder)
    edit_json(folder / "training.json", task={"name": "juggling", "options": {}})
    checkpoint = load_checkpoint(folder)
    assert checkpoint.task is None, "somebody's own task, whose file is not here"
    with pytest.raises(ValueError, match="juggling"):
        checkpoint.task_named()


def test_a_failed_save_leaves_the_old_checkpoint_and_nothing_beside_it(folder, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="attn_seq2seq"):
        save_checkpoint(tmp_path / "x", torch.nn.Linear(1, 1), build_task("copy"), {})
    before = (folder / "model.safetensors").read_bytes()
    checkpoint = load_checkpoint(folder)

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hf_attn.checkpoints.save_load.build_tokenizer", full)
    with pytest.raises(OSError, match="No space"):
        save_checkpoint(folder, checkpoint.model, checkpoint.task, {})
    assert (folder / "model.safetensors").read_bytes() == before
    assert [path.name for path in folder.parent.iterdir()] == ["attn-copy"]


def test_checkpoints_of_a_folder_are_listed_and_nothing_else(tiny_checkpoint, tmp_path):
    for name in ("b", "a", ".hidden"):
        shutil.copytree(tiny_checkpoint, tmp_path / name)
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    shutil.copytree(tiny_checkpoint, tmp_path / "foreign")
    edit_json(tmp_path / "foreign" / "config.json", model_type="bart")
    shutil.copytree(tiny_checkpoint, tmp_path / "odd")
    edit_json(tmp_path / "odd" / "config.json", model_type=["attn_seq2seq"])
    assert [path.name for path in list_checkpoints(tmp_path)] == ["a", "b"]
    assert list_checkpoints(tmp_path / "nowhere") == []
