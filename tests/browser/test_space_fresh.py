"""The folder of a Space as the Hub runs it: its own requirements in a fresh environment, and a browser."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import metadata_load
from playwright.sync_api import expect

from hf_attn.hub.space import assemble_space
from tests.support import browser
from tests.support.browser import expect_trained, find_free_port, listen, running, set_training

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(2400)]
ROOT = Path(__file__).parents[2]
PATIENCE = 300_000  # ms; whatever was just installed is read from disk for the first time
OAUTH = {"OAUTH_CLIENT_ID": "id", "OAUTH_CLIENT_SECRET": "secret", "OAUTH_SCOPES": "openid profile"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder that is pushed."""
    return assemble_space(tmp_path_factory.mktemp("pushed") / "space").path


@pytest.fixture(scope="module")
def python(folder, tmp_path_factory):
    """Python of an environment with the Space's SDK and its requirements, and nothing else."""
    place = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    sdk = [f"gradio[oauth]=={metadata_load(folder / 'README.md')['sdk_version']}", "spaces"]
    wanted = ["-c", ROOT / "constraints.txt", "-r", folder / "requirements.txt", *sdk]
    subprocess.run([place / "bin" / "python", "-m", "pip", "install", "-q", *wanted], check=True)
    return place / "bin" / "python"


@pytest.fixture(scope="module")
def url(folder, python, tmp_path_factory):
    """Address of the app as a Space starts it."""
    port = str(find_free_port())
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    home = str(tmp_path_factory.mktemp("home"))
    space = {"SPACE_ID": "ada/attn", "SYSTEM": "spaces", "SPACE_HOST": "127.0.0.1", "HOME": home, **OAUTH}
    where = {"GRADIO_SERVER_NAME": "127.0.0.1", "GRADIO_SERVER_PORT": port, "OMP_NUM_THREADS": "1"}
    where["OPENID_PROVIDER_URL"] = "http://127.0.0.1:9"  # read only when somebody signs in
    environment = {**kept, **space, **where}
    asked = [python, "-c", "import demos, hf_attn; print(demos.__file__, hf_attn.__file__)"]
    found = subprocess.run(asked, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    assert all(name.startswith(str(folder)) for name in found.stdout.split()), "nothing of the repository"
    with running([python, "app.py"], cwd=folder, env=environment):
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(autouse=True)
def patient():
    expect.set_options(timeout=PATIENCE)
    yield
    expect.set_options(timeout=browser.PATIENCE)


def test_the_pushed_folder_trains_by_its_own_requirements_and_asks_nothing_of_anybody(chromium, url):
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    complaints = listen(page, (url, "data:", "blob:"))
    page.goto(url)
    page.get_by_role("tab", name="Train", exact=True).click()
    train = page.get_by_role("button", name="Train", exact=True)
    train.click()
    expect_trained(page)
    set_training(page, Steps="5001")
    page.locator("#train").click()
    expect(page.locator("#error-steps")).to_contain_text("from 1 to 5\u202f000")
    page.get_by_role("tab", name="Attention", exact=True).click()
    expect(page.locator("canvas:visible").first).to_be_visible()
    page.get_by_role("tab", name="Share", exact=True).click()
    expect(page.get_by_role("button", name="Sign in with Hugging Face")).to_be_visible()
    context.close()
    assert complaints == []
