"""Every tab walked light and dark, wide and on a phone, and what the walk itself sees and hears."""

import pytest
from playwright.sync_api import expect

from tests.support import browser
from tests.support.browser import PATIENCE, listen
from tests.support.walk import WALK, look, use


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("light", 390), ("dark", 1280)])
def test_every_tab_can_be_walked_in_each_theme_and_width(chromium, served_app, theme, width):
    """The journey in the gate walks on a phone in the dark."""
    page = chromium.new_context(viewport={"width": width, "height": 900}).new_page()
    page.set_default_timeout(PATIENCE)
    complaints = listen(page, (served_app, "data:", "blob:"))
    for script in WALK:
        page.add_init_script(path=script)
    page.goto(f"{served_app}?__theme={theme}")
    for tab in use(page):
        look(page, tab, complaints)
    page.context.close()
    assert not complaints, "\n".join(complaints)


def test_the_walk_sees_what_it_looks_for(chromium):
    page_of_faults = """<html lang="en"><title>faults</title><body style="margin: 0">
    <p style="height: 8px; margin: 0">one line</p><p style="margin: 0">laid upon another</p><input>
    <p style="color: #aaa; background: #bbb">pale</p><button style="outline: none">unseen</button>
    <div style="width: 4000px">wide</div></body></html>"""
    page = chromium.new_context(viewport={"width": 800, "height": 600}).new_page()
    for script in WALK:
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
