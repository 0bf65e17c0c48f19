"""Fresh Python processes: where hf_attn is installed, and where it is not."""

import json
import os
import subprocess
import sys

# `-I` leaves PYTHONPATH and the current folder out; an hf_attn in site-packages is kept from being imported.
WITHOUT_HF_ATTN = """
import sys
sys.modules["hf_attn"] = None  # whoever imports it, or any part of it, gets ModuleNotFoundError
"""


def run_python(code: str, tmp_path, *flags: str, cwd=None, **given) -> dict:
    """The JSON that a fresh interpreter prints, somewhere else, with an empty cache and no Hub.

    Args:
        code: what it runs; `given` is a dictionary there.
        tmp_path: its home.
        *flags: of Python.
        cwd: where it runs; its home without.
        **given: what JSON can hold.
    """
    environment = {
        "HF_HOME": str(tmp_path / "hf"),
        "HF_MODULES_CACHE": str(tmp_path / "modules"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
    }
    whole = f"import json\ngiven = json.loads({json.dumps(given)!r})\n{code}"
    done = subprocess.run(
        [sys.executable, *flags, "-c", whole],
        cwd=cwd or tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run_without_hf_attn(code: str, tmp_path, *, cwd=None, **given) -> dict:
    """The same where no hf_attn can be imported, so that only a folder's own code can load its model."""
    return run_python(WITHOUT_HF_ATTN + code, tmp_path, "-I", cwd=cwd, **given)


LOADING = """
import torch, transformers

def load(folder, auto_head, source, settings):
    source = torch.tensor(source)
    config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=True)
    base = transformers.AutoModel.from_pretrained(folder, trust_remote_code=True)
    model = getattr(transformers, auto_head).from_pretrained(folder, trust_remote_code=True)
    mask = torch.ones_like(source)
    ids = model.generate(source, attention_mask=mask, **settings) if model.can_generate() else source
    with torch.no_grad():
        logits, states = model(source).logits, base(source).last_hidden_state
    modules = [type(thing).__module__ for thing in (config, base, model)]
    return {"ids": ids.tolist(), "logits": logits.tolist(), "states": states.tolist(), "modules": modules}

print(json.dumps({name: load(**one) for name, one in given["models"].items()}))
"""


def load_without_hf_attn(models: dict[str, dict], tmp_path) -> dict[str, dict]:
    """What saved folders' models give where hf_attn is not installed, with trust_remote_code, in one process.

    Args:
        models: by name, the `folder`, the `auto_head` that loads it, the `source` [B, S] as lists of ids, and
            the `settings` of `generate`.
        tmp_path: the process's home.

    Returns:
        by name, ids written (the source's own of a model that only reads), logits, states and modules.
    """
    found = run_without_hf_attn(LOADING, tmp_path, models=models)
    for one in found.values():
        assert all(module.startswith("transformers_modules.") for module in one["modules"])
    return found
