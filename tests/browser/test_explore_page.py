"""The Explore tab in a browser: what is taken away, folders that are refused, and waiting."""

import re

from playwright.sync_api import expect

from tests.support.browser import LATE_REPLY, choose_tab, open_tab, run_long


def test_explore_says_that_it_works_however_it_was_asked(chromium, served_app):
    with open_tab(chromium, served_app, "Explore") as page:
        page.wait_for_function("hfAttn.lens.now?.map")
        page.evaluate("""() => { window.waits = [];
            hfAttn.lens.listen(document.body, view => waits.push(view.waiting)); }""")
        text = page.locator("#explore-text input, #explore-text textarea")
        for ask in (lambda: text.press("Enter"), page.locator("button.chip:visible").nth(1).click):
            page.evaluate("waits.length = 0")
            ask()
            page.wait_for_function("waits.includes(true) && !waits.at(-1)")


def test_an_answer_in_parts_that_is_there_before_its_question_was_taken_is_whole(chromium, served_app):
    with open_tab(chromium, served_app, "Train") as page:
        page.add_init_script(path=LATE_REPLY)
        page.reload()
        run_long(page)  # so that there is a stream of answers all the time
        choose_tab(page, "Explore")
        text = page.locator("#explore-text input, #explore-text textarea")
        expect(text).not_to_have_value("")
        for written in ("The cat sat", "12+34", "The dog sat"):
            text.fill(written)
            text.press("Enter")
            offer = page.get_by_role("button", name="Read it with the English model").locator("visible=true")
            expect(offer).to_have_count(0 if "+" in written else 1)


def test_a_sentence_is_read_by_the_english_model_and_one_word_decides_another(chromium, served_app):
    with open_tab(chromium, served_app, "Explore") as page:
        text = page.locator("#explore-text input, #explore-text textarea")
        expect(text).not_to_have_value("")
        text.fill("The cat sat on the mat because it was tired.")
        text.press("Enter")
        page.get_by_role("button", name="Read it with the English model").locator("visible=true").click()
        expect(page.locator("#explore-origin")).to_contain_text("attn-sentences")
        expect(page.locator("#explore-target")).to_be_hidden()
        page.get_by_role("button", name=". the tired", exact=True).locator("visible=true").click()
        panel = page.locator(".hf-predictions")
        bars = panel.locator("canvas[aria-label^='The likeliest tokens behind “tired']")
        expect(bars).to_have_attribute("aria-label", re.compile(r": cat 0\.9"))
        expect(panel).to_contain_text("Decided by cat, ringed in the map")
        page.get_by_role("button", name="tired → soft", exact=True).locator("visible=true").click()
        expect(panel).to_contain_text("Decided by mat, ringed in the map")
        panel.get_by_role("button", name="Count held-out words by kind").click()
        rows = panel.locator(".hf-shares tbody tr")
        expect(rows).to_have_count(4)
        expect(rows.nth(2)).to_contain_text("where no head may read the deciding word")
        read_aloud = page.locator("#explore-board .hf-slot .hf-sr[aria-live]")
        expect(read_aloud.filter(has_text="Without layer")).not_to_have_count(0)
        expect(panel.locator(".hf-bar-key")).to_contain_text("whole model")
        page.get_by_text("For researchers").locator("visible=true").click()
        layers = page.locator(".hf-layers")
        layers.get_by_role("button", name="Logit lens").click()
        expect(layers.locator("tbody tr").nth(2)).to_contain_text("after layer 2")
        expect(layers.get_by_label("Patch into this changed text")).to_have_value(
            re.compile("tired . the tired")
        )
        layers.get_by_role("button", name="Patch", exact=True).click()
        expect(layers.locator("tbody tr").nth(3)).to_contain_text("into layer 1")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.locator("#explore-text input, #explore-text textarea").fill("the cat sat")
        page.locator("#explore-text input, #explore-text textarea").press("Enter")
        expect(page.locator("#explore-board")).to_contain_text("the cat sat")
        expect(page.locator("#explore-headline")).not_to_contain_text("tired")
