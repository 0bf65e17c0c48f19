"""The Duel tab in a browser: it runs, stops, and shows curves, maps and accuracy by length."""

import re

import pytest
from playwright.sync_api import expect

from tests.support.browser import open_tab


@pytest.fixture(scope="module")
def page(chromium, served_app):
    """The Duel tab in a real browser."""
    with open_tab(chromium, served_app, "Duel") as opened:
        yield opened


def test_a_duel_in_the_browser_runs_stops_and_shows_curves_maps_and_accuracy_by_length(page):
    board, note = page.locator("#duel-board"), page.locator("#duel-note")
    expect(board.locator(".hf-panel").first).to_be_hidden()
    page.locator("#duel-size input").click()
    page.get_by_role("option", name="5", exact=True).click()
    page.get_by_label("50 k", exact=True).check()
    page.get_by_label("LSTM, additive attention (Bahdanau)").uncheck()
    fill(page, "5000")
    page.locator("#duel-start").click()
    expect(page.locator("#duel-start")).to_have_text(re.compile(r"Learning, \d+"))
    expect(board.locator(".hf-map-cell")).to_have_count(2)
    expect(board.locator(".hf-map-cell .hf-blank").first).to_be_visible()
    steps = board.locator(".hf-standings tbody tr").last.locator("td").nth(3)
    expect(steps).not_to_have_text("0")  # what has not begun cannot be kept
    page.locator("#duel-stop").click()
    expect(note).to_contain_text("Stopped at")
    expect(page.locator("#duel-start")).to_have_text("Start")
    expect(note).to_contain_text("Keep one")
    expect(board.get_by_role("button", name="Keep Transformer")).to_be_visible()

    fill(page, "8")
    page.locator("#duel-start").click()
    expect(note).to_contain_text("Done. Keep one")
    board.get_by_role("button", name="Show as table").first.click()
    expect(board.locator(".hf-numbers tbody tr")).to_have_count(18)  # nine measurements of two models
    board.get_by_role("button", name="by second").click()
    board.get_by_role("button", name="loss", exact=True).click()
    expect(board.locator("canvas[aria-label='Loss by second, 2 models']")).to_be_visible()
    expect(board.locator("canvas[aria-label='Accuracy by length, 2 models']")).to_be_visible()
    board.locator(".hf-map-cell canvas[tabindex='0']").locator("visible=true").focus()
    page.keyboard.press("ArrowDown")
    expect(board.locator(".hf-map-cell [aria-live]").last).to_contain_text("reads")
    board.get_by_role("button", name="Keep Transformer").click()
    expect(board.get_by_role("button", name="Download Transformer")).to_be_visible()
    page.get_by_role("tab", name="Try", exact=True).click()
    expect(page.get_by_label("Checkpoint").locator("visible=true")).to_have_value(
        "reverse transformer 2 (this session)"
    )


def test_no_width_scrolls_sideways(page):
    page.get_by_role("tab", name="Duel", exact=True).click()
    for width in (360, 390, 768, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def fill(page, steps):
    """Write how many steps each may take."""
    page.get_by_label("Steps each", exact=True).fill(steps)
