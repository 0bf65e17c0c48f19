"""A real Chromium for the tests of the app: where it is, and the flags it needs in a bare container."""

import contextlib
import os
import shutil

from playwright.sync_api import sync_playwright

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find_chromium():
    """Return a Chromium, or None: HF_ATTN_CHROMIUM, /usr/bin/chromium, or `chromium` on the PATH."""
    places = (os.environ.get("HF_ATTN_CHROMIUM"), "/usr/bin/chromium", shutil.which("chromium"))
    return next((place for place in places if place and os.path.exists(place)), None)


@contextlib.contextmanager
def open_browser():
    """Run a browser for the length of a `with`."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()
