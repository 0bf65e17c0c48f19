"""The Attention tab in a browser: a newcomer's way from the first example to a model that learns."""

import pytest
from playwright.sync_api import expect

from tests.support.browser import open_tab, settle


def test_a_written_token_moves_curves_tree_map_and_line_together(chromium, served_app):
    with open_tab(chromium, served_app, "Attention") as page:
        board = page.locator("#attention-board")
        tokens = board.get_by_role("radiogroup").get_by_role("radio")
        tokens.nth(3).click()
        expect(board.locator(".hf-read-line .hf-pair")).to_have_text("ADD reads (")
        expect(board.locator(".hf-written")).to_have_text("Written so far: 4 of 8.")
        expect(board.locator(".hf-curve-token.best")).to_have_text("(")
        page.keyboard.press("End")
        expect(tokens.last).to_be_focused()
        expect(board.locator(".hf-written")).to_contain_text("All written")
        expect(board.locator(".hf-read-line .hf-pair")).to_have_text("end reads end")
        page.set_viewport_size({"width": 390, "height": 844})
        settle(page)
        assert board.locator(".hf-map-panel canvas[tabindex='0']").bounding_box()["y"] <= 420


@pytest.mark.parametrize(
    ("tab", "panel"),
    [
        ("Attention", "#attention-board .hf-map-panel"),
        ("Train", ".hf-looks"),
        ("Explore", "#explore-board .hf-one"),
    ],
)
def test_the_keyboard_reaches_the_map_within_eight_stops_and_at_once_by_the_first(
    chromium, served_app, tab, panel
):
    with open_tab(chromium, served_app, tab) as page:
        board = page.locator(f"{panel} canvas[tabindex='0']")
        expect(board).to_be_visible()
        settle(page)
        page.evaluate("document.body.tabIndex = -1, document.body.focus(), document.body.tabIndex")
        stops = 0
        while not board.evaluate("map => map === document.activeElement"):
            page.keyboard.press("Tab")
            stops += 1
            if stops == 1:
                expect(page.get_by_text("Skip to the map")).to_be_in_viewport(ratio=1)
            assert stops <= 8
        page.get_by_text("Skip to the map").focus()
        page.keyboard.press("Enter")
        expect(board).to_be_focused()
