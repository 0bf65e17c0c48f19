"""Checkpoints load where hf_attn is not installed, with trust_remote_code; and with it, without."""

import json
import os
import subprocess
import sys

import pytest
import torch

from hf_attn.hub import load_checkpoint

# `-S` keeps Python from reading the .pth files, and with them the editable hf_attn; site-packages then comes
# in by hand.
CLEAN = """
import sys
sys.path.insert(0, {site_packages!r})
try:
    import hf_attn
except ModuleNotFoundError:
    pass
else:
    sys.exit("hf_attn can be imported: this test would prove nothing")
import json, torch
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer
folder = {folder!r}
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
base = AutoModel.from_pretrained(folder, trust_remote_code=True)
model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
ids = model.generate(**tokenizer("1 2 3", return_tensors="pt"))
logits = model(torch.tensor([{source}]), decoder_input_ids=torch.tensor([[1, 5]])).logits
print(json.dumps({{
    "ids": ids[0].tolist(),
    "text": tokenizer.decode(ids[0], skip_special_tokens=True),
    "logits": logits[0].tolist(),
    "modules": [type(thing).__module__ for thing in (config, base, model)],
}}))
"""
INSTALLED = """
import json
{imports}
folder = {folder!r}
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForSeq2SeqLM.from_pretrained(folder)
ids = model.generate(**tokenizer("1 2 3", return_tensors="pt"))
print(json.dumps({{"ids": ids[0].tolist(), "module": type(model).__module__}}))
"""


def run_python(code, tmp_path, *flags):
    """The JSON that a fresh interpreter prints, somewhere else, with an empty cache and no Hub."""
    environment = {
        "HF_HOME": str(tmp_path / "hf"),
        "HF_MODULES_CACHE": str(tmp_path / "modules"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, *flags, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def expected(tiny_checkpoint):
    checkpoint = load_checkpoint(tiny_checkpoint)
    source = torch.tensor([checkpoint.task.encode("1 2 3")])
    return checkpoint.model, source


@torch.no_grad()
def test_a_checkpoint_loads_where_hf_attn_is_not_installed(tiny_checkpoint, tmp_path, expected):
    model, source = expected
    site_packages = os.path.dirname(os.path.dirname(torch.__file__))
    code = CLEAN.format(site_packages=site_packages, folder=str(tiny_checkpoint), source=source[0].tolist())
    found = run_python(code, tmp_path, "-I", "-S")
    assert found["ids"] == model.generate(source)[0].tolist()
    assert found["text"] == "1 2 3"
    assert all(module.startswith("transformers_modules.") for module in found["modules"])
    logits = model(source, decoder_input_ids=torch.tensor([[1, 5]])).logits[0]
    torch.testing.assert_close(torch.tensor(found["logits"]), logits)


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
    found = run_python(INSTALLED.format(imports=imports, folder=str(tiny_checkpoint)), tmp_path)
    assert found == {
        "ids": model.generate(source)[0].tolist(),
        "module": "hf_attn.models.modeling_attn_seq2seq",
    }
