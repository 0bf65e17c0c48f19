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
