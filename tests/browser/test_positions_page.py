"""The Positions tab in a browser."""

import re

import pytest
from playwright.sync_api import expect

from tests.support.browser import open_tab


@pytest.fixture(scope="module")
def page(chromium, served_app):
    """The Positions tab in a real browser."""
    with open_tab(chromium, served_app, "Positions") as opened:
        yield opened


def test_in_the_browser_a_way_is_switched_read_refused_and_trained_beyond_its_length(page):
    board, curves = page.locator("#positions-board"), page.locator("#growth-board")
    noticed = board.locator(".hf-order tbody tr")
    expect(board.get_by_role("heading", name="Sinusoidal")).to_be_visible()
    expect(noticed.nth(0)).to_contain_text("the same output")
    expect(noticed.nth(1)).to_contain_text("another output")
    cosine = board.locator(".hf-panel").filter(has_text="Cosine with the chosen position")
    cosine.get_by_role("button", name="Show as table").click()
    expect(cosine.locator("tbody tr").nth(49)).to_have_text(re.compile(r"^49\s*0\.348$"))
    board.locator(".hf-positions-map canvas[tabindex='0']").focus()
    page.keyboard.press("ArrowDown")
    expect(board.locator(".hf-positions-map [aria-live]")).to_have_text("position 1, dimension 0, 0.841")
    expect(cosine.locator("tbody tr").nth(1)).to_have_text(re.compile(r"^1\s*1$"))

    page.get_by_label("Positions", exact=True).fill("65")
    expect(page.locator("#positions-error-length [role=alert]")).to_be_visible()
    page.get_by_label("Positions", exact=True).fill("20")
    expect(page.locator("#positions-error-length [role=alert]")).to_have_count(0)
    page.locator("#positions-type input").click()
    page.get_by_role("option", name="ALiBi", exact=True).click()
    expect(board.locator(".hf-positions-map")).to_contain_text("What is put on the score")
    expect(noticed.nth(2)).to_contain_text("the same output")
    board.get_by_role("button", name="head 2").click()
    expect(board.locator("canvas[aria-label^='ALiBi, head 2, query by key: 20 rows']")).to_be_visible()

    page.locator("#positions-start").click()
    expect(page.locator("#positions-start")).to_have_text(re.compile(r"Learning, \d+"))
    expect(curves.locator("tbody tr").first).to_contain_text("of 200")
    page.locator("#positions-stop").click()
    expect(page.locator("#positions-note")).to_contain_text("Stopped at")
    expect(page.locator("#positions-start")).to_have_text("Train and test")
    for width in (360, 768, 1280, 1520):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
