"""A saved folder loads where hf_attn is not installed, with trust_remote_code: what is not bundled, too."""

import pytest
import torch

from hf_attn.architectures.families import FAMILIES
from hf_attn.models.configuration_recurrent_encoder import RecurrentEncoderConfig
from hf_attn.models.modeling_recurrent_encoder import RecurrentForSequenceClassification
from tests.support.checks import assert_close, random_ids
from tests.support.interpreters import run_without_hf_attn

READING = """
import torch, transformers
how = {"pretrained_model_name_or_path": given["folder"], "trust_remote_code": True}
base = transformers.AutoModel.from_pretrained(**how)
model = transformers.AutoModelForSequenceClassification.from_pretrained(**how)
source = torch.tensor(given["source"])
with torch.no_grad():
    found = {"logits": model(source).logits.tolist(), "states": base(source).last_hidden_state.tolist()}
print(json.dumps(found | {"modules": [type(thing).__module__ for thing in (base, model)]}))
"""


@pytest.mark.nightly
@torch.no_grad()
def test_a_recurrent_reader_loads_where_hf_attn_is_not_installed(tmp_path):
    """Of each other family test_bundled_checkpoints.py opens one."""
    sizes = {"vocab_size": 23, "hidden_size": 16, "num_labels": 3, "embedding_initializer_range": 1.0}
    model = RecurrentForSequenceClassification(RecurrentEncoderConfig(**sizes, pooling="max")).eval()
    model.config.auto_map = FAMILIES["recurrent_encoder"].auto_map
    model.save_pretrained(tmp_path / "reader")
    source = random_ids(2, 4)
    given = {"folder": str(tmp_path / "reader"), "source": source.tolist()}
    found = run_without_hf_attn(READING, tmp_path, **given)
    assert_close(torch.tensor(found["logits"]), model(source).logits)
    assert_close(torch.tensor(found["states"]), model.encoder(source).last_hidden_state)
    assert all(module.startswith("transformers_modules.") for module in found["modules"])
