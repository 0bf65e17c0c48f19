"""A walk through every tab as a person would go, and what is wrong with what is on the screen.

No text lies on another, no page scrolls sideways, the keyboard's focus is seen wherever it goes, and axe
(vendor/axe-core, 4.14.1) finds nothing serious.
"""

from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Page, expect

from demos import TABS
from tests.support.browser import choose_tab, expect_duel_ended, expect_trained, set_training

BROWSER = Path(__file__).parents[1] / "browser"
WALK = (BROWSER / "vendor" / "axe-core" / "axe.min.js", BROWSER / "walk.js")  # for a page before it is loaded


def look(page: Page, where: str, complaints: list[str]) -> None:
    """Note what is wrong with what is on the screen now."""
    expect(page.locator(".hf-waiting:visible")).to_have_count(0)  # pale while it waits for an answer
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        complaints.append(f"{where}: scrolls sideways")
    complaints += [f"{where}: {line}" for line in page.evaluate("findOverlaps()")]
    complaints += [f"{where}: {line}" for line in page.evaluate("findFaults()")]
    page.keyboard.press("Tab")
    complaints += [f"{where}: {line}" for line in page.evaluate("findUnseenFocus()")]


def use(page: Page) -> Iterator[str]:
    """Do something in every tab of a page that was just opened, and give the tab's name."""
    for tab in TABS:
        if tab.TITLE != "Attention":
            choose_tab(page, tab.TITLE)
        TOUR.get(tab.TITLE, lambda page: None)(page)
        yield tab.TITLE


def use_attention(page):
    """A cell of the finished example."""
    page.locator("#attention-board canvas[tabindex]").first.click(position={"x": 120, "y": 120})


def use_train(page):
    """A short run to its end."""
    set_training(page, Steps="20")
    page.locator("#train").click()
    expect_trained(page)


def use_try(page):
    """The run's answer to its example."""
    expect(page.locator("#try-board .hf-steps button").first).to_be_visible()
    page.get_by_role("radio", name="beam").click()
    expect(page.locator("#try-board")).to_contain_text("beam")


def use_explore(page):
    """Another head, and what researchers ask for."""
    expect(page.locator("#explore-board .hf-grid button").first).to_be_visible()
    page.locator("#explore-board .hf-grid button").nth(1).click()
    page.locator("#explore-board .hf-researchers > summary").click()
    expect(page.locator("#checks-board .hf-roles-table")).to_be_visible()


def use_duel(page):
    """A duel too short to learn anything, to its end."""
    page.locator("#duel-size input").click()
    page.get_by_role("option").first.click()  # short ones are soon measured
    page.locator("#duel-steps input").fill("4")
    page.locator("#duel-start").click()
    expect_duel_ended(page)
    expect(page.locator("#duel-board canvas:visible").first).to_be_visible()


def use_positions(page):
    """Another way than the first; then its own cell."""
    page.locator("#positions-type input").click()
    page.get_by_role("option", name="Rotary (RoPE)").click()
    expect(page.locator("#positions-board")).to_contain_text("Rotary")
    page.locator("#positions-board canvas:visible").first.click(position={"x": 60, "y": 40})


def use_language(page):
    """Each of its parts, which draw themselves without a click."""
    for part in ("Order", "n-grams", "Neighbours", "Tokens"):
        page.locator("#language-part").get_by_role("radio", name=part, exact=True).click()
        expect(page.locator(".hf-part:visible .hf-panel").first).to_be_visible()


def use_share(page):
    """What is missing is said under its field; the card is unfolded."""
    page.locator("#share-push").click()
    expect(page.locator("#share-token-error")).not_to_be_empty()
    page.locator("#share-card > button").click()
    expect(page.locator("#share-card")).to_contain_text("license")


TOUR = {
    "Attention": use_attention,
    "Train": use_train,
    "Try": use_try,
    "Explore": use_explore,
    "Duel": use_duel,
    "Positions": use_positions,
    "Language": use_language,
    "Share": use_share,
}
