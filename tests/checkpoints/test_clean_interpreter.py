"""Checkpoints load where hf_attn is not installed, with trust_remote_code; and with it, without."""

import pytest
import torch
from transformers import AutoModelForCausalLM

import hf_attn
from hf_attn.architectures.families import FAMILIES
from hf_attn.checkpoints.save_load import load_checkpoint
from hf_attn.models.configuration_recurrent_encoder import RecurrentEncoderConfig
from hf_attn.models.modeling_recurrent_encoder import RecurrentForSequenceClassification
from tests.support.checks import assert_close, build_decoder, random_ids
from tests.support.interpreters import load_without_hf_attn, run_python, run_without_hf_attn
from tests.support.recurrent_models import build_recurrent

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


@pytest.mark.nightly
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


@pytest.mark.parametrize(
    "imports",
    [
        pytest.param(
            "import hf_attn\nfrom transformers import AutoModelForSeq2SeqLM, AutoTokenizer",
            id="hf_attn first",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            "from transformers import AutoModelForSeq2SeqLM, AutoTokenizer\nimport hf_attn",
            id="transformers first",
        ),
    ],
)
def test_with_hf_attn_imported_it_loads_without_trust(tiny_checkpoint, tmp_path, expected, imports):
    model, source = expected
    found = run_python(INSTALLED, tmp_path, folder=str(tiny_checkpoint), imports=imports)
    assert found == {
        "ids": model.generate(source)[0].tolist(),
        "module": "hf_attn.models.modeling_attn_seq2seq",
    }


# The other families


def build_reader():
    """A small recurrent classifier with random weights."""
    sizes = {"vocab_size": 23, "hidden_size": 16, "num_labels": 3, "embedding_initializer_range": 1.0}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return RecurrentForSequenceClassification(RecurrentEncoderConfig(**sizes, pooling="max")).eval()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A small model of each other family, and what its saved folder gives: all in one clean process."""
    place = tmp_path_factory.mktemp("families")
    beams = {"max_new_tokens": 8, "num_beams": 2, "do_sample": False}
    models = {
        "attn_decoder": (build_decoder(), "AutoModelForCausalLM", random_ids(1, 4), {"max_new_tokens": 5}),
        "recurrent": (
            build_recurrent(cell_type="gru", encoder_hidden_size=5),
            "AutoModelForSeq2SeqLM",
            random_ids(2, 4),
            beams,
        ),
        "recurrent_encoder": (build_reader(), "AutoModelForSequenceClassification", random_ids(2, 4), {}),
    }
    asked = {}
    for name, (model, auto_head, source, settings) in models.items():
        model.config.auto_map = FAMILIES[name].auto_map
        model.save_pretrained(place / name)
        asked[name] = {"folder": str(place / name), "auto_head": auto_head, "source": source.tolist()}
        asked[name]["settings"] = settings
    found = load_without_hf_attn(asked, place)
    return {name: (*models[name], found[name], place / name) for name in models}


@torch.no_grad()
@pytest.mark.parametrize("name", ["attn_decoder", "recurrent", "recurrent_encoder"])
def test_a_saved_folder_of_any_family_loads_where_hf_attn_is_not_installed(saved, name):
    model, _, source, settings, found, folder = saved[name]
    states = {
        "attn_decoder": lambda: model.model(source).last_hidden_state,
        "recurrent": lambda: model.model(source).last_hidden_state,
        "recurrent_encoder": lambda: model.encoder(source).last_hidden_state,
    }[name]()
    assert_close(torch.tensor(found["logits"]), model(source).logits)
    assert_close(torch.tensor(found["states"]), states)
    if model.can_generate():
        written = model.generate(source, attention_mask=torch.ones_like(source), **settings)
        assert found["ids"] == written.tolist()
    if name == "attn_decoder":
        assert type(AutoModelForCausalLM.from_pretrained(folder)) is hf_attn.AttnDecoderForCausalLM
