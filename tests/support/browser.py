"""A real Chromium for the tests of the app: where it is, and the flags it needs in a bare container."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Error, TimeoutError, expect, sync_playwright

PATIENCE = 15_000  # ms
expect.set_options(timeout=PATIENCE)
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
PARTING = "this page is left"
SETTLE = Path(__file__).with_name("settle.js")
LATE_END = Path(__file__).with_name("late_end.js")
LATE_REPLY = Path(__file__).with_name("late_reply.js")
BROWSERS, LOGS = [], []  # those that are open, and of servers that run


def find_chromium():
    """Return a Chromium, or None: HF_ATTN_CHROMIUM, or one on the PATH.

    The shell that draws pages and has no windows is the same engine and loads a page in half the time.
    """
    places = (os.environ.get("HF_ATTN_CHROMIUM"), *map(shutil.which, ("chromium-headless-shell", "chromium")))
    return next((place for place in places if place and os.path.exists(place)), None)


@contextlib.contextmanager
def open_browser():
    """Run a browser for the length of a `with`."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        BROWSERS.append(browser)
        try:
            yield browser
        finally:
            BROWSERS.remove(browser)
            browser.close()


def keep_evidence(folder, name):
    """Keep pictures of all open pages and the logs of all running servers, for a test that failed."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = [page for browser in BROWSERS for context in browser.contexts for page in context.pages]
    for number, page in enumerate(pages):
        with contextlib.suppress(Error):  # a page that is being closed
            page.screenshot(path=folder / f"{name}_{number}.png", timeout=5_000)
    for number, log in enumerate(LOGS):
        shutil.copy(log.name, folder / f"{name}_{number}.log")


def find_free_port():
    """Return a port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextlib.contextmanager
def serve_app(env=None, options=()):
    """Run the app in a process of its own, with these variables and options, and give its address."""
    with serve_process(env, options) as (_, address):
        yield address


@contextlib.contextmanager
def serve_process(env=None, options=()):
    """As `serve_app`; give its process and its address."""
    port = find_free_port()
    command = [sys.executable, "app.py", "--port", str(port), "--device", "cpu", *options]
    with running(command, cwd=Path(__file__).parents[2], env=env) as server:
        yield server, f"http://127.0.0.1:{port}/"


@contextlib.contextmanager
def running(command, **settings):
    """Run an app from when it says where until the end of the `with`; give its process."""
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        server = subprocess.Popen(command, **{"stdout": log, "stderr": subprocess.STDOUT, **settings})
        LOGS.append(log)
        try:
            while b"Running on" not in (written := Path(log.name).read_bytes()):
                assert server.poll() is None, written.decode()
                time.sleep(0.02)
            yield server
        finally:
            LOGS.remove(log)
            server.terminate()
            try:
                server.wait(timeout=60)
            except subprocess.TimeoutExpired:
                server.kill()
                raise


def listen(page, home=None):
    """Return the list of what goes wrong on a page from now on: failing scripts, errors on the console, and
    requests whose address begins with none of `home`, if that is given.

    Gradio says of each stream that it cuts as a page is left that it was cut: that is no fault of the page.
    """
    complaints, leaving = [], []

    def complain(said):
        if not leaving:
            complaints.append(said)

    def hear(line):
        if line.text == PARTING:
            leaving.append(line)
        elif line.type == "error":
            complain(line.text)

    page.add_init_script(f"addEventListener('beforeunload', () => console.debug('{PARTING}'))")
    page.on("console", hear)
    page.on("pageerror", lambda error: complain(error.stack or str(error)))
    page.on("framenavigated", lambda frame: leaving.clear() if frame == page.main_frame else None)
    if home is not None:
        page.on("request", lambda sent: None if sent.url.startswith(home) else complain(f"asks {sent.url}"))
    return complaints


def choose_tab(page, name):
    """Click a tab, in Gradio's own More menu where the page is narrow."""
    page.get_by_role("tab", selected=True).wait_for()
    tab = page.get_by_role("tab", name=name, exact=True)
    if tab.count() and tab.first.is_visible():
        try:
            tab.first.click(timeout=PATIENCE / 6)
        except TimeoutError:
            pass  # it moved into the menu while the page was laid out
        else:
            return
    page.locator(".overflow-menu > button").first.click()
    page.locator(".overflow-dropdown button", has_text=name).first.click()


def set_training(page, **settings):
    """Fill fields of Train by their labels; the fold that holds them is opened."""
    fold = page.locator("#train-settings > button")
    if "open" not in (fold.get_attribute("class") or "").split():
        fold.click()
    for label, value in settings.items():
        page.get_by_label(label, exact=True).fill(value)


@contextlib.contextmanager
def open_tab(chromium, address, name):
    """Give a fresh page with a tab of the app open; afterwards no script has failed on it."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    complaints = listen(page)
    page.add_init_script(path=SETTLE)
    page.goto(address)
    page.get_by_role("tab", name=name, exact=True).click()
    yield page  # of a test that fails the page stays, for its picture, as long as the browser
    context.close()
    assert complaints == []


def choose_save(panel, name):
    """Choose an entry of a panel's Save menu: "PNG", "Python", …"""
    panel.get_by_role("button", name="Save", exact=True).first.click()
    panel.get_by_role("menuitem", name=re.compile(f"^{name} ")).click()


def follow(page, places, end):
    """Wait, as long as something changes in these places, until a text stands in one of them."""
    read = "places => places.map(place => document.querySelector(place)?.innerText).join()"
    while end not in (shown := page.evaluate(read, places)):
        page.wait_for_function(f"([places, shown]) => ({read})(places) !== shown", arg=[places, shown])


def expect_trained(page, end="held-out examples are right"):
    """Wait, as long as it gets on, until the run that Train shows has been measured at its end."""
    follow(page, ["#train", "#note"], end)


def expect_duel_ended(page):
    """Wait, as long as it gets on, until a duel has been measured."""
    follow(page, ["#duel-start", "#duel-note"], "Keep one")


def train_to_the_end(page):
    """Press the one button and wait until the run has been measured."""
    page.get_by_role("button", name="Train", exact=True).click()
    expect(page.locator("#train")).to_have_text(re.compile("Training"))
    expect_trained(page)


def run_long(page):
    """Train something that does not end by itself, at a pace that leaves room for others."""
    set_training(page, Steps="5000")
    page.get_by_role("radio", name="slow enough to watch").check()
    expect(page.get_by_label("Steps a second").first).to_be_visible()
    page.get_by_role("button", name="Train", exact=True).click()
    expect(page.locator("#train")).to_have_text(re.compile(r"Training, \d+"))
    expect(page.locator("#train-board .hf-film button:not(.blank)").first).to_be_visible()


def settle(page):
    """Wait until the server has answered all that the page asked: for claims that something stays."""
    page.wait_for_function("isSettled()")
