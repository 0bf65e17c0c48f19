"""Every tab walked as a person would, light and dark, wide and on a phone.

On the way no script fails, nothing is asked of another server, no text lies on another, no page scrolls
sideways, the keyboard's focus is seen wherever it goes, and axe (vendor/axe-core, 4.14.1) finds nothing
serious.
"""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from demos import TABS
from tests.support import browser
from tests.support.browser import PATIENCE, choose_tab, expect_trained, listen, set_training

HERE = Path(__file__).parent
SCRIPTS = (HERE / "vendor" / "axe-core" / "axe.min.js", HERE / "walk.js")


def show(page, theme, width):
    """Let the page be of this theme, as Gradio's own switch does, and of this width."""
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("theme => document.body.classList.toggle('dark', theme === 'dark')", theme)


def look(page, where, complaints):
    """Note what is wrong with what is on the screen now."""
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        complaints.append(f"{where}: scrolls sideways")
    complaints += [f"{where}: {line}" for line in page.evaluate("findOverlaps()")]
    complaints += [f"{where}: {line}" for line in page.evaluate("findFaults()")]
    page.keyboard.press("Tab")
    complaints += [f"{where}: {line}" for line in page.evaluate("findUnseenFocus()")]


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
    page.locator("#duel-steps input").fill("4")
    page.locator("#duel-start").click()
    expect(page.locator("#duel-note")).to_contain_text("Keep one")
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


def walk(page, address, theme, width, looks):
    """Use every tab in one theme and width, and return what is wrong with it in each of `looks`."""
    page.set_default_timeout(PATIENCE)
    complaints = listen(page, (address, "data:", "blob:"))
    for script in SCRIPTS:
        page.add_init_script(path=script)
    page.goto(f"{address}?__theme={theme}")
    for tab in TABS:
        if tab.TITLE != "Attention":
            choose_tab(page, tab.TITLE)
        TOUR.get(tab.TITLE, lambda page: None)(page)
        for each in looks:
            show(page, *each)
            expect(page.locator(".hf-waiting:visible")).to_have_count(0)  # pale while it waits for an answer
            look(page, f"{tab.TITLE}, {each}", complaints)
        show(page, theme, width)
    page.context.close()
    return complaints


def test_every_tab_can_be_walked_on_a_phone_in_the_dark_and_looked_at_wide_and_light(chromium, served_app):
    page = chromium.new_context(viewport={"width": 390, "height": 900}).new_page()
    complaints = walk(page, served_app, "dark", 390, [("dark", 390), ("light", 1280)])
    assert not complaints, "\n".join(complaints)


@pytest.mark.nightly
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_tab_can_be_walked_in_each_theme_and_width(chromium, served_app, theme, width):
    page = chromium.new_context(viewport={"width": width, "height": 900}).new_page()
    complaints = walk(page, served_app, theme, width, [(theme, width)])
    assert not complaints, "\n".join(complaints)


def test_the_walk_sees_what_it_looks_for(chromium):
    page_of_faults = """<html lang="en"><title>faults</title><body style="margin: 0">
    <p style="height: 8px; margin: 0">one line</p><p style="margin: 0">laid upon another</p><input>
    <p style="color: #aaa; background: #bbb">pale</p><button style="outline: none">unseen</button>
    <div style="width: 4000px">wide</div></body></html>"""
    page = chromium.new_context(viewport={"width": 800, "height": 600}).new_page()
    for script in SCRIPTS:
        page.add_init_script(path=script)
    page.goto("about:blank")
    page.set_content(page_of_faults)
    complaints = []
    look(page, "here", complaints)
    page.context.close()
    said = "\n".join(complaints)
    for fault in (
        "scrolls sideways",
        "one line | laid upon another",
        "label",
        "color-contrast",
        "no focus is seen",
    ):
        assert fault in said


def test_listening_hears_faults_but_not_the_streams_that_a_left_page_cuts(chromium):
    page_of_faults = """data:text/html,<script>
    addEventListener("load", () => { throw new Error("a script fails") });
    addEventListener("beforeunload", () => console.error("a stream is cut"));
    </script>"""
    page = chromium.new_page()
    complaints = listen(page, "data:")
    page.goto(page_of_faults)
    page.reload()
    with page.expect_console_message(lambda line: line.text == "no answer"):
        page.evaluate("fetch('http://127.0.0.1:1/').catch(() => console.error('no answer'))")
    page.close()
    said = [complaint.splitlines()[0] for complaint in complaints]
    assert said.count("Error: a script fails") == 2
    assert "a stream is cut" not in said
    assert "asks http://127.0.0.1:1/" in said
    assert "no answer" in said


def test_with_the_keyboard_a_field_with_a_list_leads_to_the_next_and_its_list_closes(chromium, served_app):
    with browser.open_tab(chromium, served_app, "Train") as page:
        browser.set_training(page)
        page.get_by_label("Longest", exact=True).focus()
        for label in ("Longest", "Size", "Hidden size"):
            expect(page.get_by_label(label, exact=True)).to_be_focused()
            expect(page.locator("[role=listbox]:visible")).to_have_count(1)
            page.keyboard.press("Tab")


def test_with_the_keyboard_radio_buttons_are_one_stop_in_which_arrows_choose(chromium, served_app):
    with browser.open_tab(chromium, served_app, "Train") as page:
        expect(page.locator("#train-board canvas:visible").first).to_be_visible()
        page.locator(".hf-task-card").first.focus()
        page.keyboard.press("Tab")
        chosen = page.locator("#field-model input:checked")
        expect(chosen).to_be_focused()
        for key, model in (("ArrowDown", "none"), ("ArrowDown", "additive"), ("ArrowUp", "none")):
            page.keyboard.press(key)
            expect(chosen).to_have_value(model)
            expect(chosen).to_be_focused()
        page.keyboard.press("Tab")
        expect(page.locator("#train")).to_be_focused()


def test_the_menu_of_examples_is_walked_by_keyboard_and_a_wrong_input_stays_to_be_mended(
    chromium, served_app
):
    with browser.open_tab(chromium, served_app, "Attention") as page:
        expect(page.locator("#attention-board canvas:visible").first).to_be_visible()
        page.locator("#attention-example > button").press("Enter")
        page.get_by_label("Weights", exact=True).focus()
        page.keyboard.press("Tab")
        field = page.locator("#attention-text input")
        expect(field).to_be_focused()
        field.press("ControlOrMeta+a")
        field.press_sequentially("hello world", delay=30)  # as a person types, not while the menu is built
        page.locator("#attention-show").click()
        expect(page.locator("#attention-error")).to_contain_text("is not allowed")
        assert field.bounding_box()["width"] > 200
        expect(field).to_have_value("hello world")
        menu = page.locator("#attention-example > button")
        page.get_by_label("Weights", exact=True).click()
        page.get_by_role("option").first.wait_for()
        page.keyboard.press("Escape")  # closes the list alone
        expect(page.get_by_role("option")).to_have_count(0)
        expect(menu).to_contain_class("open")
        field.press("Escape")
        expect(menu).not_to_contain_class("open")
        expect(menu).to_be_focused()
        menu.click()
        expect(menu).to_contain_class("open")
        page.locator("#attention-headline").click()
        expect(menu).not_to_contain_class("open")


def test_what_is_wrong_with_an_input_goes_when_it_is_typed_in_and_comes_again(chromium, served_app):
    with browser.open_tab(chromium, served_app, "Try") as page:
        field = page.locator("#try-text input, #try-text textarea")
        error = page.locator("#try-error")
        expect(page.locator("#try-board canvas:visible").first).to_be_visible()
        for _ in range(2):
            field.fill("1 ?")
            field.press("Enter")
            expect(error).to_contain_text("'?'")
            field.press_sequentially("1")
            expect(error).to_have_text("")
