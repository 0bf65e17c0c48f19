"""Checkpoints load where hf_attn is not installed, with trust_remote_code; and with it, without."""

import pytest
import torch

from hf_attn.checkpoints.save_load import load_checkpoint
from tests.support.interpreters import run_python, run_without_hf_attn

CLEAN = """
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer
folder = given["folder"]
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
base = AutoModel.from_pretrained(folder, trust_remote_code=True)
model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
ids = model.generate(**tokenizer("1 2 3", return_tensors="pt"))
logits = model(torch.tensor(given["source"]), decoder_input_ids=torch.tensor([[1, 5]])).logits
print(json.dumps({
    "ids": ids[0].tolist(),
    "text": tokenizer.decode(ids[0], skip_special_tokens=True),
    "logits": logits.tolist(),
    "modules": [type(thing).__module__ for thing in (config, base, model)],
}))
"""
INSTALLED = """
exec(given["imports"])
tokenizer = AutoTokenizer.from_pretrained(given["folder"])
model = AutoModelForSeq2SeqLM.from_pretrained(given["folder"])
ids = model.generate(**tokenizer("1 2 3", return_tensors="pt"))
print(json.dumps({"ids": ids[0].tolist(), "module": type(model).__module__}))
"""


@pytest.fixture
def expected(tiny_checkpoint):
    checkpoint = load_checkpoint(tiny_checkpoint)
    source = torch.tensor([checkpoint.task.encode("1 2 3")])
    return checkpoint.model, source


@pytest.mark.long
@torch.no_grad()
def test_a_checkpoint_loads_where_hf_attn_is_not_installed(tiny_checkpoint, tmp_path, expected):
    model, source = expected
    found = run_without_hf_attn(CLEAN, tmp_path, folder=str(tiny_checkpoint), source=source.tolist())
    assert found["ids"] == model.generate(source)[0].tolist()
    assert found["text"] == "1 2 3"
    assert all(module.startswith("transformers_modules.") for module in found["modules"])
    logits = model(source, decoder_input_ids=torch.tensor([[1, 5]])).logits
    torch.testing.assert_close(torch.tensor(found["logits"]), logits)


@pytest.mark.parametrize("module", ["hf_attn", "hf_attn.models.attention"])
def test_the_clean_interpreter_has_no_hf_attn(tmp_path, module):
    code = """
try:
    __import__(given["module"])
except ModuleNotFoundError as error:
    print(json.dumps({"missing": error.name.split(".")[0]}))
"""
    assert run_without_hf_attn(code, tmp_path, module=module) == {"missing": "hf_attn"}


@pytest.mark.long
@pytest.mark.parametrize(
    "imports",
    [
        "import hf_attn\nfrom transformers import AutoModelForSeq2SeqLM, AutoTokenizer",
        "from transformers import AutoModelForSeq2SeqLM, AutoTokenizer\nimport hf_attn",
    ],
    ids=["hf_attn first", "transformers first"],
)
def test_with_hf_attn_imported_it_loads_without_trust(tiny_checkpoint, tmp_path, expected, imports):
    model, source = expected
    found = run_python(INSTALLED, tmp_path, folder=str(tiny_checkpoint), imports=imports)
    assert found == {
        "ids": model.generate(source)[0].tolist(),
        "module": "hf_attn.models.modeling_attn_seq2seq",
    }
