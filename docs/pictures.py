"""The README's pictures, taken anew from the app by a real browser: `make pictures`."""

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.support.browser import PATIENCE, open_browser, serve_app

HERE = Path(__file__).parent
WIDTH, HEIGHT = 1280, 900


def look_at_attention(page: Page) -> None:
    """The finished example that opens with the page."""
    expect(page.locator("#attention-board .hf-curve-token.best")).to_be_visible()


def look_at_train(page: Page) -> None:
    """A copying run to its end."""
    page.locator("#train").click()
    expect(page.locator("#note")).to_contain_text("Done", timeout=PATIENCE)


def look_at_explore(page: Page) -> None:
    """What the tab opens with, once every head is counted."""
    counting = page.locator("#explore-board .hf-counting")
    expect(counting).to_contain_text(re.compile(r"(\d+) of \1 heads"), timeout=PATIENCE)


TOUR: dict[str, Callable[[Page], None]] = {
    "Attention": look_at_attention,
    "Explore": look_at_explore,  # before there is a run, with which it would open
    "Train": look_at_train,
}


def main() -> None:
    with serve_app() as address, open_browser() as chromium:
        page = chromium.new_context(viewport={"width": WIDTH, "height": HEIGHT}).new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(f"{address}?__theme=light")
        for name, look in TOUR.items():
            page.get_by_role("tab", name=name, exact=True).click()
            look(page)
            page.mouse.move(2, 2)
            page.wait_for_timeout(500)  # the maps fade in
            page.screenshot(path=HERE / f"{name.lower()}.png")


if __name__ == "__main__":
    main()
