"""The Language tab in a browser: each of its parts, and markup that is typed."""

import re

import pytest
from playwright.sync_api import expect

from demos.tabs.language import tab as language
from tests.support.browser import open_tab

MARKUP = "<img src=x onerror=alert(window.bad = 1)>{{alert(1)}}${alert(1)}<script>alert(1)</script>"


@pytest.fixture(scope="module")
def page(chromium, served_app):
    """The Language tab in a real browser."""
    with open_tab(chromium, served_app, "Language") as opened:
        yield opened


def part(page, name):
    page.get_by_role("radio", name=name, exact=True).check()


def test_in_the_browser_pairs_merge_vectors_are_learned_and_a_wrong_word_is_refused(page):
    board = page.locator("#tokens-board")
    expect(board.locator(".hf-merge").first).to_have_text("Characters, before the first of 9 merges.")
    expect(board.locator(".hf-bars .next .hf-mono")).to_have_text("p e")
    before = board.locator(".hf-cut button").count()
    board.get_by_role("button", name="Merge", exact=True).click()
    expect(board.locator(".hf-merge").first).to_have_text("Merge 1 of 9: p + e → pe, met 4 times.")
    expect(board.locator(".hf-cut button.fresh")).to_have_count(4)
    assert board.locator(".hf-cut button").count() == before - 4
    board.get_by_role("button", name="characters", exact=True).click()
    expect(board.locator(".hf-stepper")).to_be_hidden()
    page.locator("#tokens-text input").fill(MARKUP)
    page.locator("#tokens-cut").click()
    expect(board.locator("h2").first).to_contain_text(f"{len(MARKUP)} tokens")
    assert page.evaluate("window.bad") is None
    page.locator("#tokens-text input").fill("")
    page.locator("#tokens-cut").click()
    expect(page.locator("#tokens-error [role=alert]")).to_be_visible()

    part(page, "Order")
    expect(page.locator("#bags-board tbody tr")).to_have_count(4)
    part(page, "n-grams")
    expect(page.locator("#ngrams-board .hf-follows")).to_have_count(3)

    part(page, "Neighbours")
    board = page.locator("#neighbours-board")
    expect(board.locator(".hf-panel").first).to_be_hidden()
    page.locator("#vectors-train").click()
    expect(page.locator("#vectors-note")).to_contain_text("Done in")
    expect(board).to_contain_text(re.compile(r"rome has rank 1 of \d+"))
    page.locator("#vectors-word input").fill("romme")
    page.locator("#vectors-word input").press("Enter")
    expect(page.locator("#vectors-word-error [role=alert]")).to_be_visible()
    page.locator("#vectors-word input").fill("kenya")
    page.locator("#vectors-word input").press("Enter")
    expect(board).to_contain_text("nearest to kenya")
    board.get_by_role("button", name="Show as table").first.click()
    expect(board.locator(".hf-numbers tbody tr")).to_have_count(8)

    for width in (360, 390, 768, 1280, 1520):  # no part scrolls sideways
        page.set_viewport_size({"width": width, "height": 900})
        for tested in language.PARTS:
            part(page, tested.TITLE)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, tested.TITLE


def test_markup_that_is_typed_is_shown_as_it_was_typed_and_runs_nowhere(chromium, served_app):
    with open_tab(chromium, served_app, "Language") as page:  # which fails on what a script says
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        page.locator("#tokens-text input, #tokens-text textarea").fill(f"\u202e{MARKUP}")
        page.locator("#tokens-cut").click()
        board = page.locator("#tokens-board")
        board.get_by_role("button", name="words", exact=True).click()
        board.get_by_role("button", name="onerror").wait_for()
        page.get_by_role("tab", name="Positions", exact=True).click()
        page.locator("#positions-length input, #positions-length textarea").fill(MARKUP)
        line = page.locator("#positions-error-length [role=alert]")
        expect(line).to_contain_text(MARKUP[:10])
        assert page.locator("img[src=x]").count() == 0
