"""Links between two browsers: what one saw, the other sees pixel by pixel."""

import contextlib
import re

import pytest
from playwright.sync_api import expect

from tests.support.browser import (
    PATIENCE,
    choose_tab,
    expect_duel_ended,
    expect_trained,
    listen,
    set_training,
)

PIXELS = "host => [...host.querySelectorAll('canvas')].filter(c => c.offsetParent).map(c => c.toDataURL())"


@contextlib.contextmanager
def visiting(chromium, address, width=1280):
    """Give a page of a visitor of its own, whose maps do not fade; afterwards no script has failed."""
    context = chromium.new_context(viewport={"width": width, "height": 900}, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    complaints = listen(page)
    page.goto(address)
    yield page
    context.close()
    assert complaints == []


def copied(page):
    """Press Copy link and return the link."""
    page.get_by_role("button", name="Copy link").click()
    said = page.locator(".hf-link-panel [role=status]")
    expect(said).to_contain_text("Copied")
    on_top = """() => {
      const el = document.querySelector(".hf-link-panel [role=status]");
      const box = el.getBoundingClientRect();
      const at = n => document.elementFromPoint(box.left + (n / 50) * box.width, box.top + box.height / 3);
      return [...Array(49).keys()].every(n => el.contains(at(n + 1)));
    }"""
    said.scroll_into_view_if_needed()
    page.wait_for_function(on_top)  # no label of the page lies on the panel
    link = page.get_by_label("The link").input_value()
    assert link == page.url
    page.locator(".hf-link-panel").get_by_role("button", name="Close").click()
    return link


def pixels(page, board):
    return page.locator(board).evaluate(PIXELS)


def expect_pixels(page, board, seen):
    """Wait until every canvas of a board looks as it did elsewhere."""
    there = f"({PIXELS})(document.querySelector('{board}'))"
    page.wait_for_function(f"seen => JSON.stringify({there}) === JSON.stringify(seen)", arg=seen)


@pytest.fixture(scope="module")
def sent(chromium, served_app):
    """What a visitor sent who has left, {name: (link, pixels)}."""
    with visiting(chromium, served_app) as page:
        return send_choices(page)


def send_choices(page):
    """Choose what stands in boards, not in fields: cells, a merge and a token, a place, a curve."""
    kept = {}
    cells = page.locator("#attention-board canvas[tabindex]").first
    explained = page.locator("#attention-board .hf-read-line")
    before = explained.inner_text()
    cells.press("ArrowUp")
    expect(explained).not_to_have_text(before, use_inner_text=True)
    kept["attention"] = copied(page), pixels(page, "#attention-board")
    choose_tab(page, "Language")
    board = page.locator("#tokens-board")
    board.get_by_label("Merges done").fill("3")
    board.get_by_role("group", name="The text's tokens").get_by_role("button").nth(2).click()
    kept["language"] = copied(page), pixels(page, "#tokens-board")
    choose_tab(page, "Positions")
    board = page.locator("#positions-board")
    expect(board).to_contain_text("cosine with position 0")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        board.locator(".hf-positions-map canvas").first.press(key)
    expect(board).to_contain_text("cosine with position 2")
    kept["positions"] = copied(page), pixels(page, "#positions-board")
    choose_tab(page, "Duel")
    page.get_by_label("LSTM, additive attention (Bahdanau)", exact=True).uncheck()
    page.locator("#duel-size input").click()
    page.get_by_role("option").first.click()  # short ones are soon measured
    page.locator("#duel-steps input, #duel-steps textarea").fill("5")
    page.locator("#duel-start").click()
    expect_duel_ended(page)
    page.locator("#duel-board").get_by_role("button", name="loss", exact=True).click()
    page.locator("#duel-board .hf-maps canvas:visible").first.press("ArrowRight")
    kept["duel"] = copied(page), pixels(page, "#duel-board")
    return kept


@pytest.mark.parametrize(
    ("name", "board"),
    [("attention", "#attention-board"), ("language", "#tokens-board"), ("positions", "#positions-board")],
)
def test_a_link_restores_the_same_pixels_in_another_browser(chromium, sent, name, board):
    link, seen = sent[name]
    assert seen
    with visiting(chromium, link) as page:
        expect(page.get_by_role("tab", name=name.title(), exact=True)).to_have_attribute(
            "aria-selected", "true"
        )
        expect_pixels(page, board, seen)


def test_a_duels_link_has_it_learned_again_to_the_same_curves_and_maps(chromium, sent):
    link, seen = sent["duel"]
    with visiting(chromium, link) as page:
        expect(page.locator(".hf-link-says")).to_contain_text("is trained here again, to the same step")
        expect_duel_ended(page)
        expect(page.locator("#duel-steps input, #duel-steps textarea")).to_have_value("5")
        expect_pixels(page, "#duel-board", seen)


def test_a_broken_link_is_one_sentence_and_the_page_is_as_it_always_is(chromium, served_app):
    with visiting(chromium, served_app + "?view=1.nonsense", 390) as page:
        expect(page.locator(".hf-link-says [role=alert]")).to_contain_text("This link is broken")
        expect(page.locator("#attention-origin")).to_contain_text("attn-parser")
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390
        page.get_by_role("button", name="Copy link").click()
        expect(page.locator(".hf-link-panel [role=status]")).to_contain_text(re.compile("Copied|Copy it"))
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_what_copy_link_says_closes_on_escape_on_a_click_elsewhere_and_with_its_tab(chromium, served_app):
    with visiting(chromium, served_app) as page:
        press, panel = page.get_by_role("button", name="Copy link"), page.locator(".hf-link-panel")

        def asked():
            press.click()
            expect(panel.get_by_role("status")).to_contain_text("--share")
            expect(panel).to_be_visible()

        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            asked()
            page.keyboard.press("Escape")
            expect(panel).to_be_hidden()
            expect(press).to_be_focused()
            asked()
            panel.get_by_text("Lock the settings").click()
            expect(panel.get_by_role("status")).to_contain_text("its settings are locked")
            panel.get_by_text("Lock the settings").click()
            page.mouse.click(4, 880)
            expect(panel).to_be_hidden()
            asked()
            choose_tab(page, "Train")  # which it leaves free on a phone
            expect(panel).to_be_hidden()
            asked()
            assert page.get_by_label("The link").input_value() == page.url
            choose_tab(page, "Attention")
            expect(panel).to_be_hidden()


def test_a_tab_that_a_button_opens_begins_at_the_top_of_the_page(chromium, served_app):
    with visiting(chromium, served_app) as page:
        choose_tab(page, "Train")
        set_training(page, Steps="5")
        page.get_by_role("button", name="Train", exact=True).click()
        expect_trained(page)
        page.get_by_role("button", name="Open copy 1", exact=True).click()
        expect(page.locator("#train-board .hf-headline")).to_be_in_viewport()
        page.get_by_role("button", name="Share copy 1", exact=True).click()
        expect(page.get_by_label("Checkpoint").locator("visible=true")).to_have_value("copy 1 (this session)")
        expect(page.get_by_role("tab", name="Share", exact=True)).to_be_in_viewport()
        page.wait_for_function("scrollY === 0")
