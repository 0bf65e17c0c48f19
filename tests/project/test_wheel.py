"""The wheel, installed beside nothing of the clone: the app starts from it, bundled checkpoints and all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.browser import find_free_port, running

pytestmark = pytest.mark.nightly
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """A folder with what the wheel installs."""
    wheels, target = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "-q"]
    # from a copy: building in the clone would leave a folder `build` there
    source = tmp_path_factory.mktemp("source")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    archive = ["tar", "--null", "-T", "-", "-cf", "-"]
    packed = subprocess.run(archive, cwd=ROOT, input=tracked, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-xf", "-"], cwd=source, input=packed, check=True)
    subprocess.run([*pip, "wheel", "--no-deps", "-w", wheels, source], check=True)
    subprocess.run([*pip, "install", "--no-deps", "--target", target, *wheels.glob("*.whl")], check=True)
    return target


@pytest.fixture(scope="module")
def environment(target, tmp_path_factory):
    """Variables under which Python finds the target before the clone."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    home = str(tmp_path_factory.mktemp("home"))
    return {**kept, "PYTHONPATH": str(target), "HOME": home, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


def test_its_packages_and_checkpoints_are_its_own(target, environment, tmp_path):
    lines = """
import hf_attn, hf_attn_app
from hf_attn_app.session.catalog import build_catalog
print(hf_attn.__file__, hf_attn_app.__file__, sep="\\n")
for label, path in build_catalog().folders:
    print(path)
    hf_attn.load_checkpoint(path)
"""
    command = [sys.executable, "-c", lines]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    places = done.stdout.splitlines()
    assert all(Path(place).is_relative_to(target) for place in places), places
    bundled = {path.parent.name for path in (ROOT / "model_cards").glob("*/config.json")}
    assert {Path(place).name for place in places[2:]} == bundled


def test_the_app_starts_from_it_and_offers_the_bundled_checkpoints(environment, tmp_path):
    from gradio_client import Client

    port = find_free_port()
    command = [sys.executable, "-m", "hf_attn", "app", "--port", str(port), "--device", "cpu"]
    with running(command, cwd=tmp_path, env=environment):
        client = Client(f"http://127.0.0.1:{port}/", verbose=False)
        assert "attn-copy" in str(client.predict(api_name="/checkpoints"))
        client.close()
